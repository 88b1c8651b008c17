//! Type promotion of PyTorch: tensors with dims come before tensors of rank 0, and those before numbers of Python.

use super::call::{Argument, Call};
use crate::builder::V;
use crate::operators::elementwise::convert;
use crate::reason::{Done, unsupported};
use relax_semantics::tensor::{Number, Tensor};
use relax_syntax::dtype::DType;

/// The dtype of floats that PyTorch uses where nothing says another one.
pub(crate) const DEFAULT: DType = DType::F32;

/// The dtype in which a value of both is computed. `None` where PyTorch has none.
fn both(a: DType, b: DType) -> Option<DType> {
    use DType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8};
    if a == b {
        return Some(a);
    }
    let order = [Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64];
    let place = |dtype| order.iter().position(|&own| own == dtype);
    let (low, high) = if place(a)? < place(b)? { (a, b) } else { (b, a) };
    Some(match (low, high) {
        (U8, I8) => I16,
        (F16, BF16) => F32,
        _ => high,
    })
}

/// The promotion of a category on top of those below it.
fn above(high: Option<DType>, low: Option<DType>) -> Done<Option<DType>> {
    let (Some(own), Some(other)) = (high, low) else { return Ok(high.or(low)) };
    if own.is_float() || (own != DType::Bool && !other.is_float()) {
        return Ok(Some(own));
    }
    match both(own, other) {
        Some(dtype) => Ok(Some(dtype)),
        None => unsupported(format!("operands of {own} and {other}")),
    }
}

impl Call<'_> {
    pub(crate) fn promoted(&self, names: &[&str]) -> Done<DType> {
        let mut kinds: [Option<DType>; 3] = [None; 3];
        for name in names {
            let (kind, dtype) = match self.argument(name) {
                Argument::None => continue,
                Argument::Tensor(v) => (usize::from(self.rank(*v) == 0), self.dtype(*v)),
                Argument::Bool(_) => (2, DType::Bool),
                Argument::Dim(_) => (2, DType::I64),
                Argument::Float(_) | Argument::Real(_) => (2, DEFAULT),
                other => return unsupported(format!("the argument `{name}` is {other:?}")),
            };
            kinds[kind] = match kinds[kind] {
                None => Some(dtype),
                Some(known) => match both(known, dtype) {
                    Some(dtype) => Some(dtype),
                    None => return unsupported(format!("operands of {known} and {dtype}")),
                },
            };
        }
        let [dims, zero, wrapped] = kinds;
        let below = above(zero, wrapped)?;
        Ok(above(dims, below)?.unwrap_or(DEFAULT))
    }

    /// A tensor or a number of Python in that dtype.
    pub(crate) fn operand(&mut self, name: &str, dtype: DType) -> Done<V> {
        match self.argument(name).clone() {
            Argument::Tensor(v) | Argument::Real(v) => convert(self, v, dtype),
            Argument::Dim(dim) if dim.as_int().is_none() => {
                let v = self.integers(vec![dim], 0, DType::I64);
                convert(self, v, dtype)
            }
            _ => {
                let number = self.number(name)?;
                Ok(self.of_number(number, dtype))
            }
        }
    }

    /// A constant of rank 0; integers wrap, as in PyTorch.
    pub(crate) fn of_number(&mut self, number: Number, dtype: DType) -> V {
        let number = match number {
            Number::Int(value) if dtype.is_float() => Number::Float(value as f64),
            Number::Int(value) if dtype == DType::Bool => Number::Int((value != 0).into()),
            Number::Float(value) if dtype == DType::Bool => Number::Int((value != 0.0).into()),
            Number::Float(value) if !dtype.is_float() => Number::Int(value as i128),
            other => other,
        };
        self.constant(Tensor::scalar(dtype, number))
    }

    /// A tensor of floats: integers and bools as the default dtype.
    pub(crate) fn floating(&mut self, name: &str) -> Done<V> {
        let x = self.tensor(name)?;
        if self.dtype(x).is_float() { Ok(x) } else { convert(self, x, DEFAULT) }
    }
}
