//! The external constants of a program: every `param("name", Tensor(…))` in it.

use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::{Atom, Body, Expr, Module};
use std::collections::BTreeMap;

/// Name and annotation of every external constant; a name may be asked for with several
/// annotations, which cannot all be right.
#[must_use]
pub fn externals(module: &Module) -> BTreeMap<Name, Vec<Annotation>> {
    let mut found = BTreeMap::new();
    for function in module.functions() {
        if let Some(body) = &function.lambda.body {
            of_body(body, &mut found);
        }
    }
    found
}

type Found = BTreeMap<Name, Vec<Annotation>>;

fn of_body(body: &Body, found: &mut Found) {
    body.bindings().for_each(|binding| of_expr(&binding.expr, found));
    of_atom(&body.result, found);
}

fn of_expr(expr: &Expr, found: &mut Found) {
    match expr {
        Expr::Atom(atom) | Expr::Get(atom, _) | Expr::MatchCast(atom, _) => of_atom(atom, found),
        Expr::Call { args, attrs, .. } => {
            args.iter().for_each(|atom| of_atom(atom, found));
            attrs.iter().for_each(|(_, atom)| of_atom(atom, found));
        }
        Expr::If { condition, then, otherwise } => {
            of_atom(condition, found);
            of_body(then, found);
            of_body(otherwise, found);
        }
        Expr::Closure(lambda) => {
            if let Some(body) = &lambda.body {
                of_body(body, found);
            }
        }
    }
}

fn of_atom(atom: &Atom, found: &mut Found) {
    match atom {
        Atom::External(external) => {
            let annotations: &mut Vec<Annotation> = found.entry(external.name.clone()).or_default();
            if !annotations.contains(&external.annotation) {
                annotations.push(external.annotation.clone());
            }
        }
        Atom::Tuple(items) | Atom::List(items) => {
            items.iter().for_each(|item| of_atom(item, found));
        }
        _ => {}
    }
}
