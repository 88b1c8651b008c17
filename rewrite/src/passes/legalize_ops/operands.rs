//! Operands of a call as annotations and constants tell them.

use super::results::spec;
use super::{Call, Legalizer};
use relax_semantics::ops::Known;
use relax_semantics::ops::programs::{Input, TensorSpec};
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::ir::Atom;

impl Legalizer<'_> {
    /// The dims of a shape value, as its annotation tells them.
    pub(super) fn known_shape(&self, atom: &Atom) -> Option<Known> {
        let Atom::Var(var) = atom else { return None };
        let Annotation::Shape(extents) = &self.annotations[var.0 as usize] else { return None };
        Some(Known::List(extents.dims()?.iter().cloned().map(Known::Dim).collect()))
    }

    pub(super) fn tensor(&self, call: &mut Call, param: &'static str, atom: &Atom) -> Option<()> {
        let spec = self.operand(atom)?;
        let range = self.range(atom);
        call.inputs.push(Input { param, spec, range, is_passed: true });
        call.tensors.push(atom.clone());
        Some(())
    }

    /// The least and greatest of the integers that a constant spells, or a movement of one.
    pub(super) fn range(&self, atom: &Atom) -> Option<(i128, i128)> {
        match atom {
            Atom::Constant(constant) => constant.integer_range(),
            Atom::Var(var) => self.ranges.get(var).copied(),
            _ => None,
        }
    }

    pub(super) fn operand(&self, atom: &Atom) -> Option<TensorSpec> {
        match atom {
            Atom::Var(var) => spec(&self.annotations[var.0 as usize]),
            Atom::External(external) => spec(&external.annotation),
            Atom::Constant(constant) => {
                let dims = constant.shape.iter().map(|&extent| i64::try_from(extent).ok());
                let dims = dims.map(|extent| extent.map(Dim::Int));
                Some(TensorSpec { dims: dims.collect::<Option<_>>()?, dtype: constant.dtype })
            }
            _ => None,
        }
    }
}
