//! Weights and states of an optimizer between calls. With compiled code they stay in memory of the virtual machine: no call copies
//! them, and the optimizer writes a new weight over the old one.

use crate::tensors::first_not_finite;
use relax_reference::{dtype_to_semantics, to_machine, to_semantics};
use relax_runtime as machine;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::dtype::DType;

/// A tensor where the code that takes it runs.
#[derive(Clone, Debug)]
pub(crate) enum Held {
    /// Of the interpreter.
    Interpreted(Tensor),
    /// Of the virtual machine. Another name of the memory makes the next update write to a copy.
    Compiled(machine::Tensor),
}

impl Held {
    /// A copy in memory of the virtual machine.
    pub(crate) fn compiled(tensor: Tensor) -> Result<Self, String> {
        match to_machine(&Value::Tensor(tensor))? {
            machine::Value::Tensor(tensor) => Ok(Self::Compiled(tensor)),
            _ => Err("a tensor is no tensor of the machine".to_owned()),
        }
    }

    pub(crate) fn dtype(&self) -> DType {
        match self {
            Self::Interpreted(tensor) => tensor.dtype(),
            Self::Compiled(tensor) => dtype_to_semantics(tensor.dtype()),
        }
    }

    pub(crate) fn shape(&self) -> Vec<usize> {
        match self {
            Self::Interpreted(tensor) => tensor.shape().to_vec(),
            Self::Compiled(tensor) => {
                let extents = tensor.shape().iter();
                extents.map(|&extent| usize::try_from(extent).unwrap_or(usize::MAX)).collect()
            }
        }
    }

    /// The same elements under a shape of as many; a second name of the memory.
    pub(crate) fn viewed(&self, shape: &[usize]) -> Self {
        match self {
            Self::Interpreted(tensor) => Self::Interpreted(tensor.reshaped(shape)),
            Self::Compiled(tensor) => {
                let extents = shape.iter().map(|&extent| i64::try_from(extent).unwrap_or(i64::MAX));
                let viewed = tensor.clone().viewed(&extents.collect::<Vec<_>>());
                Self::Compiled(viewed.expect("invariant: a shape of as many elements"))
            }
        }
    }

    /// A copy that does not change any more.
    pub(crate) fn tensor(&self) -> Tensor {
        match self {
            Self::Interpreted(tensor) => tensor.clone(),
            Self::Compiled(tensor) => {
                let value = machine::Value::Tensor(tensor.clone());
                match to_semantics(&value, &mut |_| None) {
                    Ok(Value::Tensor(tensor)) => tensor,
                    other => {
                        panic!("invariant: a tensor of the machine is a tensor, not {other:?}")
                    }
                }
            }
        }
    }

    /// The first element that is NaN or infinite, by its place in a shape. Nothing is copied where there is none.
    pub(crate) fn first_not_finite(&self, shape: &[usize]) -> Option<String> {
        match self {
            Self::Compiled(tensor) if is_finite(tensor) => None,
            _ => first_not_finite(&self.tensor().reshaped(shape)),
        }
    }
}

/// Whether all elements are known to be finite, from their bits.
fn is_finite(tensor: &machine::Tensor) -> bool {
    let bytes = tensor.bytes();
    match tensor.dtype() {
        _ if !tensor.is_written() || tensor.written_elements().is_some() => false,
        machine::DType::F32 => {
            let (elements, _) = bytes.as_chunks::<4>();
            elements.iter().all(|bytes| f32::from_ne_bytes(*bytes).is_finite())
        }
        machine::DType::F64 => {
            let (elements, _) = bytes.as_chunks::<8>();
            elements.iter().all(|bytes| f64::from_ne_bytes(*bytes).is_finite())
        }
        _ => false,
    }
}
