//! Dims in the place of symbolic variables that a `match_cast` binds: from the cast to the end of the
//! body it stands in, which is as far as the variable has that value.

use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::ir::{Atom, Body, Expr, Function, VarId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What becomes of a `match_cast`.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    /// Variables that it binds, and the dims in their place.
    pub(crate) binds: BTreeMap<Name, Dim>,
    /// Whether it is a check still.
    pub(crate) check: Check,
}

/// Whether a check stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// It may fail.
    Keep,
    /// It never fails: the cast becomes another name of the value.
    Drop,
}

/// Applies what is resolved of the casts of a function without closures.
pub(crate) fn resolve_casts(function: &mut Function, casts: &BTreeMap<VarId, Resolved>) {
    let Some(mut body) = function.lambda.body.take() else { return };
    let mut walk = Walk { function, casts, dims: BTreeMap::new() };
    walk.body(&mut body);
    let dims = walk.dims;
    if let Some(result) = &mut function.lambda.result {
        *result = in_annotation(result, &dims);
    }
    function.lambda.body = Some(body);
}

/// Replaces symbolic variables everywhere in a function without closures.
pub(crate) fn replace_dims(function: &mut Function, dims: BTreeMap<Name, Dim>) {
    for &param in &function.lambda.params {
        let info = &mut function.vars[param.0 as usize];
        info.annotation = info.annotation.as_ref().map(|known| in_annotation(known, &dims));
    }
    if let Some(result) = &mut function.lambda.result {
        *result = in_annotation(result, &dims);
    }
    let Some(mut body) = function.lambda.body.take() else { return };
    Walk { function, casts: &BTreeMap::new(), dims }.body(&mut body);
    function.lambda.body = Some(body);
}

struct Walk<'a> {
    function: &'a mut Function,
    casts: &'a BTreeMap<VarId, Resolved>,
    /// In force here.
    dims: BTreeMap<Name, Dim>,
}

impl Walk<'_> {
    fn body(&mut self, body: &mut Body) {
        for binding in body.blocks.iter_mut().flat_map(|block| &mut block.bindings) {
            self.expr(binding.var, &mut binding.expr);
            let info = &mut self.function.vars[binding.var.0 as usize];
            if let Some(annotation) = &mut info.annotation {
                *annotation = in_annotation(annotation, &self.dims);
            }
        }
        in_atom(&mut body.result, &self.dims);
    }

    fn branch(&mut self, body: &mut Body) {
        let outer = self.dims.clone();
        self.body(body);
        self.dims = outer;
    }

    fn expr(&mut self, var: VarId, expr: &mut Expr) {
        match expr {
            Expr::Atom(atom) | Expr::Get(atom, _) => in_atom(atom, &self.dims),
            Expr::Call { args, attrs, .. } => {
                let attrs = attrs.iter_mut().map(|(_, atom)| atom);
                args.iter_mut().chain(attrs).for_each(|atom| in_atom(atom, &self.dims));
            }
            Expr::If { condition, then, otherwise } => {
                in_atom(condition, &self.dims);
                self.branch(then);
                self.branch(otherwise);
            }
            Expr::MatchCast(atom, annotation) => {
                in_atom(atom, &self.dims);
                let resolved = self.casts.get(&var);
                for (name, dim) in resolved.into_iter().flat_map(|resolved| &resolved.binds) {
                    // The dim may mention variables that were replaced before.
                    let dim = dim.substitute(&self.dims);
                    self.dims.insert(name.clone(), dim);
                }
                *annotation = in_annotation(annotation, &self.dims);
                if resolved.is_some_and(|resolved| resolved.check == Check::Drop) {
                    let atom = std::mem::replace(atom, Atom::None);
                    *expr = Expr::Atom(atom);
                }
            }
            Expr::Closure(_) => unreachable!("invariant: from P0 on there are no closures"),
        }
    }
}

fn in_annotation(annotation: &Annotation, dims: &BTreeMap<Name, Dim>) -> Annotation {
    annotation.map_dims(&mut |dim| dim.substitute(dims))
}

fn in_atom(atom: &mut Atom, dims: &BTreeMap<Name, Dim>) {
    map_dims(atom, &mut |dim| dim.substitute(dims));
}

/// Rewrites every dim in an atom. External constants have none but literals.
pub(crate) fn map_dims(atom: &mut Atom, map: &mut dyn FnMut(&Dim) -> Dim) {
    match atom {
        Atom::Dim(dim) => *dim = map(dim),
        Atom::Shape(extents) => extents.iter_mut().for_each(|dim| *dim = map(dim)),
        Atom::Tuple(items) | Atom::List(items) => {
            items.iter_mut().for_each(|item| map_dims(item, map));
        }
        Atom::Annotation(annotation) => *annotation = Arc::new(annotation.map_dims(map)),
        Atom::Var(_)
        | Atom::Global(_)
        | Atom::Float(_)
        | Atom::Bool(_)
        | Atom::Str(_)
        | Atom::None
        | Atom::Constant(_)
        | Atom::External(_) => {}
    }
}
