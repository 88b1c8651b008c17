//! Alpha-equivalence: functions and tensor programs up to names: two that differ only in what their variables are called
//! have equal canonical forms.

use crate::substitute::map_dims;
use relax_semantics::tir::walk::{Place, Rewrite, statements};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::ir::tensor::{Param, TExpr};
use relax_syntax::ir::{Atom, Body, DimVar, Expr, Function, TensorProgram, renumber};
use std::collections::BTreeMap;

type Names = BTreeMap<Name, Dim>;

/// A program without names and attributes.
#[must_use]
pub fn canonical_program(program: &TensorProgram) -> TensorProgram {
    let names = numbered(&program.dims);
    let mut result = program.clone();
    result.name = Name::new("");
    result.attrs = Vec::new();
    rename(&mut result.dims, &names);
    for (at, buffer) in result.buffers.iter_mut().enumerate() {
        buffer.name = Name::new(format!("b{at}"));
        buffer.shape.iter_mut().for_each(|dim| *dim = dim.substitute(&names));
    }
    for (at, scalar) in result.scalars.iter_mut().enumerate() {
        scalar.name = Name::new(format!("s{at}"));
    }
    for param in &mut result.params {
        if let Param::Dim(name) = param {
            *name = renamed(name, &names);
        }
    }
    let body = result.body.take();
    result.body = body.map(|body| statements(&body, &mut Renamed { names: &names }));
    result
}

/// A function without names of its own and attributes.
#[must_use]
pub fn canonical_function(function: &Function) -> Function {
    let mut result = function.clone();
    renumber(&mut result);
    let names = numbered(&result.dims);
    result.name = Name::new("");
    result.lambda.attrs = Vec::new();
    rename(&mut result.dims, &names);
    for (at, info) in result.vars.iter_mut().enumerate() {
        info.name = Name::new(format!("v{at}"));
        info.annotation = info.annotation.take().map(|own| in_annotation(&own, &names));
    }
    result.lambda.result = result.lambda.result.take().map(|own| in_annotation(&own, &names));
    if let Some(body) = &mut result.lambda.body {
        in_body(body, &names);
    }
    result
}

fn numbered(dims: &[DimVar]) -> Names {
    let names = dims.iter().enumerate();
    names.map(|(at, dim)| (dim.name.clone(), Dim::var(format!("d{at}")))).collect()
}

fn renamed(name: &Name, names: &Names) -> Name {
    match names.get(name) {
        Some(Dim::Var(new)) => new.clone(),
        _ => name.clone(),
    }
}

fn rename(dims: &mut [DimVar], names: &Names) {
    dims.iter_mut().for_each(|dim| dim.name = renamed(&dim.name, names));
}

struct Renamed<'n> {
    names: &'n Names,
}

impl Rewrite for Renamed<'_> {
    fn replace(&mut self, expr: &TExpr, _place: Place) -> Option<TExpr> {
        let TExpr::Dim(name) = expr else { return None };
        Some(TExpr::Dim(renamed(name, self.names)))
    }
}

fn in_annotation(annotation: &Annotation, names: &Names) -> Annotation {
    annotation.map_dims(&mut |dim| dim.substitute(names))
}

fn in_atom(atom: &mut Atom, names: &Names) {
    map_dims(atom, &mut |dim| dim.substitute(names));
}

fn in_body(body: &mut Body, names: &Names) {
    for binding in body.blocks.iter_mut().flat_map(|block| &mut block.bindings) {
        match &mut binding.expr {
            Expr::Atom(atom) | Expr::Get(atom, _) => in_atom(atom, names),
            Expr::MatchCast(atom, annotation) => {
                in_atom(atom, names);
                *annotation = in_annotation(annotation, names);
            }
            Expr::Call { args, attrs, .. } => {
                let attrs = attrs.iter_mut().map(|(_, atom)| atom);
                args.iter_mut().chain(attrs).for_each(|atom| in_atom(atom, names));
            }
            Expr::If { condition, then, otherwise } => {
                in_atom(condition, names);
                in_body(then, names);
                in_body(otherwise, names);
            }
            // Closures keep their names: functions that have some are then seldom found equal.
            Expr::Closure(_) => {}
        }
    }
    in_atom(&mut body.result, names);
}
