//! Dims as passes handle them: which annotations say the same, and which variables are mentioned at all.

use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use relax_syntax::ir::{Atom, Body, DimVar, Expr, Function, Lambda};
use std::collections::BTreeSet;

/// Assumes of variables what is declared of them, for as long as the innermost scope of `facts` lasts.
pub fn assume_declared(facts: &mut dyn Facts, dims: &[DimVar]) {
    for DimVar { name, lower, upper, multiple_of, .. } in dims {
        let var = Dim::Var(name.clone());
        facts.assume(Claim::new(0, Relation::AtMost, var.clone()));
        if let Some(lower) = lower {
            facts.assume(Claim::new(*lower, Relation::AtMost, var.clone()));
        }
        if let Some(upper) = upper {
            facts.assume(Claim::new(var.clone(), Relation::AtMost, *upper));
        }
        if let Some(step) = multiple_of {
            facts.assume(Claim::new(*step, Relation::Divides, var));
        }
    }
}

/// Whether two lists of dims are proved to be equal, one by one.
pub(crate) fn same_dims(facts: &mut dyn Facts, a: &[Dim], b: &[Dim]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| facts.equal(a, b) == Answer::Proved)
}

/// Whether two annotations say the same: equal when their dims are in canonical form.
pub(crate) fn say_the_same(facts: &mut dyn Facts, a: &Annotation, b: &Annotation) -> bool {
    a == b || canonical(facts, a) == canonical(facts, b)
}

fn canonical(facts: &mut dyn Facts, annotation: &Annotation) -> Annotation {
    annotation.map_dims(&mut |dim| facts.simplify(dim))
}

/// Forgets the symbolic variables of a body that nothing mentions.
pub(crate) fn drop_unused_dims(function: &mut Function) {
    let mut used = BTreeSet::new();
    {
        let mut visit = |dim: &Dim| {
            dim.visit_vars(&mut |name| {
                used.insert(name.clone());
            });
        };
        for info in &function.vars {
            if let Some(annotation) = &info.annotation {
                annotation.visit_dims(&mut |dim| visit(dim));
            }
        }
        lambda_dims(&function.lambda, &mut visit);
    }
    function.dims.retain(|dim| dim.in_signature || used.contains(&dim.name));
}

/// Calls `visit` on each dim of the result, of casts and of atoms; those of variables' annotations
/// stand in the table of variables.
pub(crate) fn lambda_dims(lambda: &Lambda, visit: &mut dyn FnMut(&Dim)) {
    if let Some(result) = &lambda.result {
        result.visit_dims(&mut |dim| visit(dim));
    }
    if let Some(body) = &lambda.body {
        body_dims(body, visit);
    }
}

fn body_dims(body: &Body, visit: &mut dyn FnMut(&Dim)) {
    for binding in body.bindings() {
        expr_dims(&binding.expr, visit);
    }
    atom_dims(&body.result, visit);
}

/// Calls `visit` on each dim that an expression mentions, nested bodies included.
pub(crate) fn expr_dims(expr: &Expr, visit: &mut dyn FnMut(&Dim)) {
    match expr {
        Expr::Atom(atom) | Expr::Get(atom, _) => atom_dims(atom, visit),
        Expr::MatchCast(atom, annotation) => {
            atom_dims(atom, visit);
            annotation.visit_dims(&mut |dim| visit(dim));
        }
        Expr::Call { args, attrs, .. } => {
            args.iter().chain(attrs.iter().map(|(_, atom)| atom)).for_each(|a| atom_dims(a, visit));
        }
        Expr::If { condition, then, otherwise } => {
            atom_dims(condition, visit);
            body_dims(then, visit);
            body_dims(otherwise, visit);
        }
        Expr::Closure(lambda) => lambda_dims(lambda, visit),
    }
}

/// Calls `visit` on each dim in an atom.
pub(crate) fn atom_dims(atom: &Atom, visit: &mut dyn FnMut(&Dim)) {
    match atom {
        Atom::Dim(dim) => visit(dim),
        Atom::Shape(dims) => dims.iter().for_each(visit),
        Atom::Tuple(items) | Atom::List(items) => {
            items.iter().for_each(|item| atom_dims(item, visit));
        }
        Atom::Annotation(annotation) => annotation.visit_dims(&mut |dim| visit(dim)),
        Atom::External(external) => external.annotation.visit_dims(&mut |dim| visit(dim)),
        Atom::Var(_)
        | Atom::Global(_)
        | Atom::Float(_)
        | Atom::Bool(_)
        | Atom::Str(_)
        | Atom::None
        | Atom::Constant(_) => {}
    }
}

/// Adds the variables that stand alone as a dim, signatures of functions not entered.
pub(crate) fn lone(annotation: &Annotation, names: &mut BTreeSet<Name>) {
    match annotation {
        Annotation::Callable(_) => {}
        Annotation::Tuple(items) => items.iter().for_each(|item| lone(item, names)),
        _ => annotation.visit_dims(&mut |dim| {
            if let Dim::Var(name) = dim {
                names.insert(name.clone());
            }
        }),
    }
}

/// The symbolic variables of the parameters of a new function, in their order, as `function` declares
/// them. What is declared of them holds of any call from there.
pub(crate) fn signature_dims<'a>(
    function: &Function,
    params: impl Iterator<Item = &'a Annotation>,
) -> Vec<DimVar> {
    let mut dims: Vec<DimVar> = Vec::new();
    for annotation in params {
        annotation.visit_dims(&mut |dim| {
            dim.visit_vars(&mut |name| {
                if let Some(declared) = function.dim(name)
                    && dims.iter().all(|dim| dim.name != *name)
                {
                    dims.push(DimVar { in_signature: true, ..declared.clone() });
                }
            });
        });
    }
    dims
}

/// Calls `bind` on each variable that stands alone in `param`, with the dim of the argument there.
pub fn match_dims(param: &Annotation, arg: &Annotation, bind: &mut dyn FnMut(&Name, &Dim)) {
    let extents = |annotation: &Annotation| match annotation {
        Annotation::Shape(extents) => extents.dims().map(<[Dim]>::to_vec),
        other => other.dims().map(<[Dim]>::to_vec),
    };
    match (param, arg) {
        (Annotation::Tuple(params), Annotation::Tuple(args)) if params.len() == args.len() => {
            params.iter().zip(args).for_each(|(param, arg)| match_dims(param, arg, bind));
        }
        _ => {
            let dims = extents(param).zip(extents(arg));
            for (param, arg) in
                dims.into_iter().flat_map(|(params, args)| params.into_iter().zip(args))
            {
                if let Dim::Var(name) = param {
                    bind(&name, &arg);
                }
            }
        }
    }
}
