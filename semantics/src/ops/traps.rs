//! Trapping: which calls of an operator may trap on run-time values.
//!
//! A trap is an observable result. A pass may drop, duplicate or move a call only if the call cannot
//! trap, and a validator must show that two programs trap on the same inputs. `infer` decides
//! the constraints on annotations and dims, before the run or by obligations; what remains is [`Traps`].

pub mod calls;

use super::{Known, Operand, Operator};
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

/// When a call may trap although `infer` accepted the annotations of its operands, each of them with
/// known dims and dtype, every obligation holds, and no element that it reads is uninitialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traps {
    /// It always gives a value.
    Never,
    /// On integer elements: a divisor of 0, a negative exponent, a shift by the width of the dtype. On
    /// floats it never traps; the result has the dtype of the operands.
    OnIntegers,
    /// On the value of a scalar operand that the text does not spell, such as a bound of `clip` that is
    /// a variable. `infer` decides literals.
    OnScalars,
    /// On scalar operands from which `infer` deduces no extent of the result. Where the dims of the result
    /// are known it never traps.
    OnExtents,
    /// On elements of its operands: an index out of range, a stride of 0, a condition that is false.
    OnElements,
    /// On state that neither annotations nor elements show: a storage, a shape heap, the function or
    /// tensor program that it calls.
    OnState,
}

impl Traps {
    /// The condition as a phrase: `never`, `on elements …`.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Traps::Never => "never",
            Traps::OnIntegers => "on integer elements (never on floats)",
            Traps::OnScalars => "on a scalar operand that is no literal",
            Traps::OnExtents => "on scalar operands, where no dims of the result are deduced",
            Traps::OnElements => "on elements of its operands",
            Traps::OnState => "on state that annotations do not show (memory, a callee)",
        }
    }
}

impl Operator {
    /// Whether a call certainly does not trap, given the assumptions of [`Traps`]; `result` is what
    /// `infer` deduced of `operands`.
    #[must_use]
    pub fn never_traps(&self, operands: &[Operand], result: &Annotation) -> bool {
        match self.traps {
            Traps::Never => true,
            Traps::OnIntegers => {
                result.as_tensor().and_then(|tensor| tensor.dtype).is_some_and(DType::is_float)
            }
            Traps::OnScalars => operands.iter().all(is_decided),
            Traps::OnExtents => {
                result.as_tensor().is_some_and(|tensor| tensor.extents.dims().is_some())
            }
            Traps::OnElements | Traps::OnState => false,
        }
    }
}

/// Whether an operand is a tensor or a value without variables, so that `infer` sees all of it that a
/// constraint on scalars asks.
fn is_decided(operand: &Operand) -> bool {
    match &operand.known {
        Some(known) => is_literal(known),
        None => operand.annotation.as_tensor().is_some(),
    }
}

fn is_literal(known: &Known) -> bool {
    match known {
        Known::Dim(dim) => matches!(dim, Dim::Int(_)),
        Known::List(items) => items.iter().all(is_literal),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
