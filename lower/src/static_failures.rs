//! Checks that fail whenever they are reached: for all sizes that the declarations admit, or for all but empty tensors.
//!
//! `relax check` reports them on the text that people write. Passes do not ask: a program that traps is a program, and
//! what passes make of it traps too. Nothing is reported in a branch or a nested function, which need not be reached.

use crate::passes::parallelize_loops::loops_on_one_thread;
use relax_rewrite::dims::assume_declared;
use relax_semantics::check::{Left, Phase, codes};
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::annotation::OWN;
use relax_syntax::diagnostic::{Diagnostic, Part};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use relax_syntax::ir::{Atom, Callee, Expr, Function, Module, VarId};
use relax_syntax::span::Span;
use std::collections::BTreeSet;

/// What fails in a program of the surface phase, in the order of the text: an error where it fails for all sizes, a
/// warning where it holds for a dim of 0 alone; and as warnings what is said to be `parallel` and is not proved to be. Other
/// phases have none.
#[must_use]
pub fn static_failures(module: &Module, left: &[Left]) -> Vec<Diagnostic> {
    if Phase::of_module(module) != Ok(Phase::Surface) {
        return Vec::new();
    }
    let mut found: Vec<Diagnostic> =
        module.functions().flat_map(|function| of_function(function, left)).collect();
    let loops = loops_on_one_thread(module, &mut Prover::new());
    found.extend(loops.into_iter().map(Diagnostic::as_warning));
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
        let mut bindings = body.blocks.iter().flat_map(|block| &block.bindings);
        let binding = bindings.find(|binding| left.var == Some(binding.var));
        let part = binding.map(|binding| blamed(&binding.expr)).unwrap_or_default();
        let failure = failure(function, claim, &left.text);
        let failure = failure.map(|failure| failure.at(left.span, part));
        found.extend(failure.map(|found| match binding {
            Some(binding) => explained(found, function, &binding.expr, left.span),
            None => found,
        }));
    }
    found
}

/// With the shapes of the tensors that a call is given, and what would fit.
fn explained(found: Diagnostic, function: &Function, expr: &Expr, span: Span) -> Diagnostic {
    let Expr::Call { callee, args, .. } = expr else { return found };
    let mut found = found;
    for (index, atom) in args.iter().enumerate() {
        if found.primary.part == Part::Argument(index) {
            continue;
        }
        let Some((name, dims, declared)) = tensor(function, atom) else { continue };
        let what = format!("`{name}` has the shape {}", shape(dims));
        found = found.with_part(span, Part::Argument(index), what);
        found = found.with_place(declared, format!("`{name}` is bound here"));
    }
    let is_reshape = matches!(callee, Callee::Operator(name) if name == "reshape");
    match args.as_slice() {
        [data, Atom::Shape(wanted)] if is_reshape => with_extents(found, function, data, wanted),
        _ => found,
    }
}

/// A tensor of known dims that has a name in the text.
fn tensor<'f>(function: &'f Function, atom: &Atom) -> Option<(&'f Name, &'f [Dim], Span)> {
    let Atom::Var(var) = atom else { return None };
    let info = function.var(*var);
    let length = info.span.end.saturating_sub(info.span.start) as usize;
    let dims = info.annotation.as_ref()?.dims()?;
    // The span of an intermediate value covers its expression.
    (length == info.name.len()).then_some((&info.name, dims, info.span))
}

fn shape(dims: &[Dim]) -> String {
    let dims: Vec<String> = dims.iter().map(Dim::to_string).collect();
    if dims.len() == 1 { format!("({},)", dims[0]) } else { format!("({})", dims.join(", ")) }
}

/// Suggests the shape in which the last literal is another one, so that the elements are as many.
fn with_extents(found: Diagnostic, function: &Function, data: &Atom, wanted: &[Dim]) -> Diagnostic {
    let Some((name, dims, _)) = tensor(function, data) else { return found };
    let elements = Dim::product(dims);
    let mut prover = Prover::new();
    let mut vars = Vec::new();
    dims.iter().chain(wanted).for_each(|dim| dim.visit_vars(&mut |name| vars.push(name.clone())));
    for name in vars {
        prover.assume(Claim::new(1, Relation::AtMost, Dim::Var(name)));
    }
    for at in (0..wanted.len()).rev().filter(|&at| wanted[at].as_int().is_some()) {
        let others = wanted.iter().enumerate().filter(|(index, _)| *index != at);
        let others = Dim::product(others.map(|(_, dim)| dim));
        let Some(extent) =
            prover.simplify(&Dim::op(DimOp::FloorDiv, elements.clone(), others)).as_int()
        else {
            continue;
        };
        let mut fitting = wanted.to_vec();
        fitting[at] = Dim::Int(extent);
        let is_equal = Claim::new(Dim::product(&fitting), Relation::Equal, elements.clone());
        if prover.decide(&is_equal) == Answer::Proved {
            let dims: Vec<String> = fitting.iter().map(Dim::to_string).collect();
            let fitting = format!("shape({})", dims.join(", "));
            return found
                .with_help(format!("`{fitting}` has as many elements as `{name}`"))
                .with_possible_fix(fitting);
        }
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
