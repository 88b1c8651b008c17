//! What a function says of its layouts: the mesh, the calls that ask for a layout, and what is supported.

use crate::layout::{Axes, Layout, declared_meshes, stages};
use crate::propagate::{SAMPLE, SAMPLE_WORKERS, refused};
use relax_semantics::ops::{lookup, passed, says_layout};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, Function, Module};
use relax_syntax::resolve::annotation::placements_of_text;
use std::collections::{BTreeMap, BTreeSet};

/// The mesh that a function names: one, in annotations and calls.
pub(crate) fn mesh_of(module: &Module, function: &Function) -> Result<Name, Diagnostic> {
    let mut meshes: Vec<Name> = Vec::new();
    let mut note = |mesh: &Name| {
        if !meshes.contains(mesh) {
            meshes.push(mesh.clone());
        }
    };
    let annotations = function.vars.iter().filter_map(|var| var.annotation.as_ref());
    for annotation in annotations.chain(&function.lambda.result) {
        annotation.visit(&mut |part| {
            if let Annotation::DTensor(distributed) = part {
                note(&distributed.mesh);
            }
        });
    }
    visit_bindings(function, &mut |binding| {
        if let Some((_, mesh, _)) = laid(&binding.expr) {
            note(&mesh);
        }
    });
    match (&meshes[..], &declared_meshes(module)[..]) {
        ([mesh], _) => Ok(mesh.clone()),
        ([], [mesh]) => Ok((*mesh).clone()),
        ([], _) => Err(refused(function.span, "no tensor of it is distributed over a mesh")),
        _ => Err(refused(
            function.span,
            format!("it uses the meshes {}; one is supported", meshes.join(" and ")),
        )),
    }
}

/// The stages that a function names: axes of the mesh, each with a worker.
pub(crate) fn named_stages(function: &Function) -> BTreeSet<(usize, usize)> {
    let mut found = BTreeSet::new();
    let annotations = function.vars.iter().filter_map(|var| var.annotation.as_ref());
    for annotation in annotations.chain(&function.lambda.result) {
        annotation.visit(&mut |part| {
            if let Annotation::DTensor(distributed) = part {
                found.extend(stages(&distributed.placements));
            }
        });
    }
    visit_bindings(function, &mut |binding| {
        found.extend(laid(&binding.expr).iter().flat_map(|(_, _, layout)| stages(layout)));
    });
    found
}

/// `redistribute` and `annotate_sharding`: the operand, the mesh and the placements.
pub(crate) fn laid(expr: &Expr) -> Option<(Atom, Name, Layout)> {
    let Expr::Call { callee: Callee::Operator(name), args, attrs } = expr else { return None };
    let row = lookup(name).filter(|row| says_layout(row))?;
    match passed(row, args, attrs).ok()?[..] {
        [Some(input), Some(Atom::Str(mesh)), Some(Atom::Str(text))] => {
            Some((input.clone(), mesh.clone(), placements_of_text(text)?))
        }
        _ => None,
    }
}

/// The sizes at which costs are compared: of the dims of a function, and of the axes of a mesh.
pub(crate) fn samples(
    function: &Function,
    axes: &Axes,
    sizes: &BTreeMap<Name, i64>,
) -> BTreeMap<Name, i64> {
    let given = |name: &Name| sizes.get(name).copied();
    let workers =
        axes.variables().map(|name| (name.clone(), given(name).unwrap_or(SAMPLE_WORKERS)));
    let each = function.dims.iter().map(|dim| {
        let default = SAMPLE.min(dim.upper.unwrap_or(SAMPLE)).max(dim.lower.unwrap_or(0));
        let step = dim.multiple_of.filter(|step| *step > 0).unwrap_or(1);
        let rounded = default.saturating_add(step - 1) / step * step;
        (dim.name.clone(), given(&dim.name).unwrap_or(rounded))
    });
    each.chain(workers).collect()
}

/// Why a binding is not supported, whatever its operands are.
pub(crate) fn unsupported(expr: &Expr) -> Option<&'static str> {
    match expr {
        Expr::Closure(_) => Some("a nested function is not sharded"),
        Expr::Call { callee: Callee::Global(_) | Callee::Var(_), .. } => {
            Some("a call of a function is not sharded: only operators are")
        }
        _ => None,
    }
}

/// Visits the bindings of a function, those of branches included.
pub(crate) fn visit_bindings<'f>(function: &'f Function, visit: &mut dyn FnMut(&'f Binding)) {
    fn of_body<'f>(body: &'f Body, visit: &mut dyn FnMut(&'f Binding)) {
        for binding in body.bindings() {
            visit(binding);
            if let Expr::If { then, otherwise, .. } = &binding.expr {
                of_body(then, visit);
                of_body(otherwise, visit);
            }
        }
    }
    function.lambda.body.iter().for_each(|body| of_body(body, visit));
}
