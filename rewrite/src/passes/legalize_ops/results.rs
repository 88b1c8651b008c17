//! Tensors of a call as annotations tell them.

use crate::passes::normalize::broadcasts;
use relax_semantics::ops::programs::TensorSpec;
use relax_semantics::ops::{Family, Kind, Operator};
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::Atom;
use std::sync::Arc;

/// What a call gives.
pub(super) struct Results {
    pub(super) specs: Vec<TensorSpec>,
    pub(super) is_tuple: bool,
}

impl Results {
    /// `None` where something is not known.
    pub(super) fn of(annotation: &Annotation) -> Option<Self> {
        let (specs, is_tuple) = match annotation {
            Annotation::Tuple(fields) => {
                (fields.iter().map(spec).collect::<Option<Vec<_>>>()?, true)
            }
            // No tensor program gives a layout over devices.
            Annotation::DTensor(_) => return None,
            single => (vec![spec(single)?], false),
        };
        (!specs.is_empty()).then_some(Self { specs, is_tuple })
    }

    /// One tensor.
    pub(super) fn one(spec: TensorSpec) -> Self {
        Self { specs: vec![spec], is_tuple: false }
    }

    /// As the outputs of `call_tir`.
    pub(super) fn atom(self) -> Atom {
        let each = self.specs.into_iter().map(|spec| Annotation::tensor(spec.dims, spec.dtype));
        let mut atoms = each.map(|annotation| Atom::Annotation(Arc::new(annotation)));
        if self.is_tuple {
            return Atom::List(atoms.collect());
        }
        atoms.next().expect("invariant: there is a result")
    }
}

/// Dims and dtype of a tensor; of a distributed one those of the whole, which it is on one device.
pub(super) fn spec(annotation: &Annotation) -> Option<TensorSpec> {
    let tensor = annotation.as_tensor()?;
    Some(TensorSpec { dims: tensor.extents.dims()?.to_vec(), dtype: tensor.dtype? })
}

/// Whether the result has the shape to which the operands broadcast.
pub fn is_elementwise(row: &Operator) -> bool {
    broadcasts(row)
        || row.family == Family::Unary && row.params.iter().all(|param| param.kind == Kind::Tensor)
}
