//! Checks that fail whenever they are reached: for all sizes that the declarations admit, or for all but empty tensors.
//!
//! `relax check` reports them on the text that people write. Passes do not ask: a program that traps is a program, and
//! what passes make of it traps too. Nothing is reported in a branch or a nested function, which need not be reached.

use relax_rewrite::dims::assume_declared;
use relax_semantics::check::{Left, Phase, codes};
use relax_symbolic::Prover;
use relax_syntax::annotation::OWN;
use relax_syntax::diagnostic::{Diagnostic, Part};
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use relax_syntax::ir::{Atom, Expr, Function, Module, VarId};
use relax_syntax::span::Span;
use std::collections::BTreeSet;

/// What fails in a program of the surface phase, in the order of the text: an error where it fails for all sizes, a
/// warning where it holds for a dim of 0 alone. Other phases have none.
pub(super) fn static_failures(module: &Module, left: &[Left]) -> Vec<Diagnostic> {
    if Phase::of_module(module) != Ok(Phase::Surface) {
        return Vec::new();
    }
    let mut found: Vec<Diagnostic> =
        module.functions().flat_map(|function| of_function(function, left)).collect();
    found.sort_by_key(|diagnostic| diagnostic.primary.span);
    found
}

fn of_function(function: &Function, left: &[Left]) -> Vec<Diagnostic> {
    let Some(body) = &function.lambda.body else { return Vec::new() };
    let mut found = Vec::new();
    let mut reached = BTreeSet::new();
    for binding in body.blocks.iter().flat_map(|block| &block.bindings) {
        reached.insert(binding.var);
        for dim in dims_of(&binding.expr) {
            let claim = Claim::new(0, Relation::AtMost, dim.clone());
            let what = format!("a shape has no negative dim, and `{dim}` is one");
            let span = function.var(binding.var).span;
            let part = blamed(&binding.expr);
            found.extend(failure(function, &claim, &what).map(|failure| failure.at(span, part)));
        }
    }
    let is_reached = |var: &Option<VarId>| var.is_some_and(|var| reached.contains(&var));
    for left in left.iter().filter(|left| left.function == function.name && is_reached(&left.var)) {
        let Some(claim) = &left.claim else { continue };
        let bindings = body.blocks.iter().flat_map(|block| &block.bindings);
        let part = bindings
            .filter(|binding| left.var == Some(binding.var))
            .map(|binding| blamed(&binding.expr))
            .next();
        let part = part.unwrap_or_default();
        found.extend(
            failure(function, claim, &left.text).map(|failure| failure.at(left.span, part)),
        );
    }
    found
}

/// What to underline: the last argument, which has to fit those before it.
fn blamed(expr: &Expr) -> Part {
    let Expr::Call { args, attrs, .. } = expr else { return Part::Value };
    match (attrs.last(), args.len()) {
        (Some((name, _)), _) => Part::Keyword(name.clone()),
        (None, 0) => Part::Value,
        (None, count) => Part::Argument(count - 1),
    }
}

/// Dims of the shape values of an expression.
fn dims_of(expr: &Expr) -> Vec<&Dim> {
    match expr {
        Expr::Atom(atom) => dims_of_atom(atom),
        Expr::Call { args, attrs, .. } => {
            args.iter().chain(attrs.iter().map(|(_, atom)| atom)).flat_map(dims_of_atom).collect()
        }
        Expr::Get(..) | Expr::MatchCast(..) | Expr::If { .. } | Expr::Closure(_) => Vec::new(),
    }
}

fn dims_of_atom(atom: &Atom) -> Vec<&Dim> {
    match atom {
        Atom::Shape(dims) => dims.iter().collect(),
        _ => Vec::new(),
    }
}

/// A check that fails.
enum Failure {
    Always(String),
    /// Wherever no dim is 0.
    UnlessEmpty(String),
}

impl Failure {
    fn at(self, span: Span, part: Part) -> Diagnostic {
        let found = match self {
            Failure::Always(what) => Diagnostic::error(
                codes::CONSTRAINT,
                span,
                format!("this fails for all sizes: {what}"),
            ),
            Failure::UnlessEmpty(what) => {
                let message = format!("this fails for all sizes that are not 0: {what}");
                Diagnostic::error(codes::CONSTRAINT, span, message).as_warning()
            }
        };
        found.at(part).with_label("does not fit the other arguments")
    }
}

fn failure(function: &Function, claim: &Claim, what: &str) -> Option<Failure> {
    let vars = claim.vars();
    if vars.iter().any(|name| name.starts_with(OWN)) {
        return None;
    }
    let mut prover = Prover::new();
    for &name in &vars {
        prover.assume(Claim::new(0, Relation::AtMost, Dim::Var(name.clone())));
    }
    assume_declared(&mut prover, &function.dims);
    let fails = claim.opposite();
    if prover.decide(&fails) == Answer::Proved {
        return Some(Failure::Always(what.to_owned()));
    }
    for &name in &vars {
        prover.assume(Claim::new(1, Relation::AtMost, Dim::Var(name.clone())));
    }
    (prover.decide(&fails) == Answer::Proved).then(|| Failure::UnlessEmpty(what.to_owned()))
}
