//! Calls of primitive functions, as calls of the programs that are made of them.

use crate::blocks::for_each_binding;
use relax_semantics::check::Checked;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::{Atom, Body, Callee, Expr, Function};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a call of a function becomes.
pub(super) struct Call {
    pub(super) program: Name,
    /// Constants of the function: inputs of the program, after those of the function.
    pub(super) constants: Vec<Atom>,
}

/// Notes functions that are called with a check left to run time, or in a way that is not read here.
pub(super) fn unfit(
    function: &Function,
    body: &Body,
    checked: &Checked,
    names: &mut BTreeSet<Name>,
) {
    for binding in body.bindings() {
        match &binding.expr {
            Expr::Call { callee: Callee::Global(name), args, attrs } => {
                let result = &checked.annotations[&function.name][binding.var.0 as usize];
                let fits = attrs.is_empty()
                    && inputs(args).is_some()
                    && result.is_known()
                    && !checked.left_in(&function.name).vars.contains(&binding.var);
                if !fits {
                    names.insert(name.clone());
                }
            }
            Expr::If { then, otherwise, .. } => {
                unfit(function, then, checked, names);
                unfit(function, otherwise, checked, names);
            }
            _ => {}
        }
    }
}

/// The tensors and the dims that a call passes: tensors first.
fn inputs(args: &[Atom]) -> Option<(Vec<Atom>, Vec<Atom>)> {
    let (mut tensors, mut dims) = (Vec::new(), Vec::new());
    for arg in args {
        match arg {
            Atom::Shape(extents) => dims.extend(extents.iter().cloned().map(Atom::Dim)),
            Atom::Var(_) | Atom::Constant(_) | Atom::External(_) if dims.is_empty() => {
                tensors.push(arg.clone());
            }
            _ => return None,
        }
    }
    Some((tensors, dims))
}

/// Calls programs in the place of functions.
pub(super) fn replace_calls(
    function: &mut Function,
    annotations: &[Annotation],
    merged: &BTreeMap<Name, Call>,
) {
    let Some(body) = &mut function.lambda.body else { return };
    for_each_binding(body, &mut |binding| {
        if let Expr::Call { callee: Callee::Global(name), args, .. } = &binding.expr
            && let Some(call) = merged.get(name)
        {
            let result = annotations[binding.var.0 as usize].clone();
            binding.expr = call.of(args, result);
        }
    });
}

impl Call {
    fn of(&self, args: &[Atom], result: Annotation) -> Expr {
        let (mut tensors, dims) = inputs(args).expect("invariant: other calls keep the function");
        tensors.extend(self.constants.iter().cloned());
        let mut args = vec![Atom::Global(self.program.clone()), Atom::List(tensors)];
        args.push(Atom::Annotation(Arc::new(result)));
        let mut attrs = Vec::new();
        if !dims.is_empty() {
            attrs.push((Name::new("sym_args"), Atom::List(dims)));
        }
        Expr::Call { callee: Callee::Operator("call_tir".into()), args, attrs }
    }
}
