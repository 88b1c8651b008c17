//! Specialization: a function with numbers for its symbolic variables.

use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::ir::{Atom, Body, Expr, Function, Lambda};
use std::collections::BTreeMap;
use std::sync::Arc;

type Values = BTreeMap<Name, Dim>;

/// Puts numbers in the place of variables everywhere.
pub(super) fn at_dims(function: &mut Function, values: &Values) {
    for info in &mut function.vars {
        info.annotation = info.annotation.as_ref().map(|known| in_annotation(known, values));
    }
    function.dims.retain(|dim| !values.contains_key(&dim.name));
    in_lambda(&mut function.lambda, values);
}

fn in_lambda(lambda: &mut Lambda, values: &Values) {
    if let Some(result) = &mut lambda.result {
        *result = in_annotation(result, values);
    }
    if let Some(body) = &mut lambda.body {
        in_body(body, values);
    }
}

fn in_body(body: &mut Body, values: &Values) {
    for binding in body.blocks.iter_mut().flat_map(|block| &mut block.bindings) {
        in_expr(&mut binding.expr, values);
    }
    in_atom(&mut body.result, values);
}

fn in_expr(expr: &mut Expr, values: &Values) {
    match expr {
        Expr::Atom(atom) | Expr::Get(atom, _) => in_atom(atom, values),
        Expr::Call { args, attrs, .. } => {
            let attrs = attrs.iter_mut().map(|(_, atom)| atom);
            args.iter_mut().chain(attrs).for_each(|atom| in_atom(atom, values));
        }
        Expr::MatchCast(atom, annotation) => {
            in_atom(atom, values);
            *annotation = in_annotation(annotation, values);
        }
        Expr::If { condition, then, otherwise } => {
            in_atom(condition, values);
            in_body(then, values);
            in_body(otherwise, values);
        }
        Expr::Closure(lambda) => in_lambda(Arc::make_mut(lambda), values),
    }
}

fn in_annotation(annotation: &Annotation, values: &Values) -> Annotation {
    annotation.map_dims(&mut |dim| dim.substitute(values))
}

fn in_atom(atom: &mut Atom, values: &Values) {
    match atom {
        Atom::Dim(dim) => *dim = dim.substitute(values),
        Atom::Shape(dims) => dims.iter_mut().for_each(|dim| *dim = dim.substitute(values)),
        Atom::Tuple(items) | Atom::List(items) => {
            items.iter_mut().for_each(|item| in_atom(item, values));
        }
        Atom::Annotation(annotation) => *annotation = Arc::new(in_annotation(annotation, values)),
        _ => {}
    }
}
