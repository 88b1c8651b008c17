//! Normal form. That operands are atoms and that annotations are written down, the way from text to
//! module has seen to; what is left is to make broadcast explicit.
//!
//! An operand of an elementwise operator whose shape is not proved to be that of the result goes
//! through `broadcast_to`. Scalars stay: there is no dim of theirs to stretch. Where a pair of dims is
//! decided at run time only, the call stays as it is, and so do its check and its trap.

use super::map_functions;
use crate::blocks::with_bindings_before;
use crate::in_place::dps_arguments;
use crate::names::{Defined, Names};
use crate::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_semantics::ops::{Family, Kind, Operator, lookup};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::dim::evaluation::evaluates_when_it_fits;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, Function, Module, VarId, VarInfo};
use std::collections::BTreeSet;

/// The record.
pub static PASS: Pass = Pass {
    name: "normalize",
    doc: "Makes broadcast explicit: an operand of an elementwise operator whose shape is proved to be \
          another one than the result's goes through broadcast_to.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let defined = Defined::of(module);
    let mut made = 0;
    let result = map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let mut body = rebuilt.lambda.body.take().expect("invariant: only such are mapped");
        let updated = dps_arguments(module, function);
        let names = defined.seen_from(function);
        let mut walk = Walk { function: &mut rebuilt, context, updated, names, made: 0 };
        walk.body(&mut body);
        made += walk.made;
        rebuilt.lambda.body = Some(body);
        rebuilt
    });
    context.count("made", made, "broadcasts explicit");
    Ok(result)
}

struct Walk<'a, 'c> {
    function: &'a mut Function,
    context: &'a mut PassContext<'c>,
    updated: BTreeSet<VarId>,
    /// Names that are taken.
    names: Names,
    made: usize,
}

impl Walk<'_, '_> {
    fn body(&mut self, body: &mut Body) {
        with_bindings_before(body, &mut |binding, before| self.binding(binding, before));
    }

    fn binding(&mut self, binding: &mut Binding, before: &mut Vec<Binding>) {
        match &mut binding.expr {
            Expr::If { then, otherwise, .. } => {
                self.body(then);
                self.body(otherwise);
            }
            Expr::Call { callee: Callee::Operator(name), args, attrs } if attrs.is_empty() => {
                let row = lookup(name).filter(|row| broadcasts(row));
                let Some(dims) = row.and_then(|_| self.result(binding.var)) else { return };
                for arg in args {
                    self.operand(arg, &dims, binding.var, before);
                }
            }
            _ => {}
        }
    }

    /// The dims of an elementwise result, where all is decided.
    fn result(&self, var: VarId) -> Option<Vec<Dim>> {
        let name = &self.function.name;
        let annotation = &self.context.checked.annotations[name][var.0 as usize];
        let dims = annotation.dims()?;
        let decided = !self.context.checked.left_in(name).vars.contains(&var);
        (decided && dims.iter().all(evaluates_when_it_fits)).then(|| dims.to_vec())
    }

    fn operand(
        &mut self,
        operand: &mut Atom,
        result: &[Dim],
        var: VarId,
        before: &mut Vec<Binding>,
    ) {
        let Some((dims, dtype)) = self.shape(operand) else { return };
        if dims.is_empty() || self.is_shape_of_result(&dims, result) {
            return;
        }
        let span = self.function.var(var).span;
        let fresh = VarId(u32::try_from(self.function.vars.len()).expect("ids are u32"));
        let name = self.fresh_name(var);
        let tensor = TensorType { extents: Extents::Known(result.to_vec()), dtype };
        let annotation = Some(Annotation::Tensor(tensor));
        self.function.vars.push(VarInfo { name, annotation, span });
        let value = std::mem::replace(operand, Atom::Var(fresh));
        let callee = Callee::Operator(Name::new("broadcast_to"));
        let args = vec![value, Atom::Shape(result.to_vec())];
        before.push(Binding { var: fresh, expr: Expr::Call { callee, args, attrs: Vec::new() } });
        self.made += 1;
    }

    /// What is known of the dims of an operand, and its dtype.
    fn shape(&self, operand: &Atom) -> Option<(Vec<Dim>, Option<DType>)> {
        match operand {
            Atom::Var(var) if !self.updated.contains(var) => {
                let annotations = &self.context.checked.annotations[&self.function.name];
                // A variable that was made here has the shape of a result.
                let tensor = annotations.get(var.0 as usize)?.as_tensor()?;
                Some((tensor.extents.dims()?.to_vec(), tensor.dtype))
            }
            Atom::Constant(constant) => {
                let dims = relax_syntax::resolve::constant::constant_dims(constant);
                Some((dims, Some(constant.dtype)))
            }
            _ => None,
        }
    }

    /// Pairs of dims have been decided: where one is not 1, both are equal.
    fn is_shape_of_result(&mut self, dims: &[Dim], result: &[Dim]) -> bool {
        let mut is_one = |dim: &Dim| self.context.facts.simplify(dim) == Dim::Int(1);
        let mut stretches = |dim: &Dim, result: &Dim| is_one(dim) && !is_one(result);
        dims.len() == result.len()
            && !dims.iter().zip(result).any(|(dim, result)| stretches(dim, result))
    }

    fn fresh_name(&mut self, var: VarId) -> Name {
        let base = match self.function.var(var).name.as_str() {
            "_" => "wide",
            name => name,
        };
        self.names.numbered(base)
    }
}

/// Elementwise rows whose operands broadcast.
pub(super) fn broadcasts(row: &Operator) -> bool {
    (row.family == Family::Binary || row.name == "where")
        && row.params.iter().all(|param| param.kind == Kind::Tensor)
}
