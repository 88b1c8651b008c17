//! What is passed to an operator of the language: an operand for deduction, a value where everything is
//! known, and text.

use crate::builder::V;
use relax_semantics::ops::{Known, Operand};
use relax_semantics::tensor::Number;
use relax_semantics::value::Value;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

/// An argument of a call.
#[derive(Clone, Debug)]
pub(crate) enum Arg {
    /// A value.
    V(V),
    /// A tuple of values.
    Many(Vec<V>),
    /// A scalar constant.
    Scalar(DType, Number),
    /// An integer, possibly symbolic.
    Dim(Dim),
    /// A list of them.
    Dims(Vec<Dim>),
    /// A shape.
    Shape(Vec<Dim>),
    Float(f64),
    Bool(bool),
    Str(String),
    /// By name.
    Key(&'static str, Box<Arg>),
}

/// `axis=…`
pub(crate) fn key(name: &'static str, arg: impl Into<Arg>) -> Arg {
    Arg::Key(name, Box::new(arg.into()))
}

impl Arg {
    /// What deduction sees, where that does not depend on a value of the program.
    pub(crate) fn operand(&self) -> Option<Operand> {
        Some(match self {
            Arg::V(_) | Arg::Many(_) | Arg::Key(..) => return None,
            Arg::Scalar(dtype, _) => {
                Operand { annotation: Annotation::tensor(Vec::new(), *dtype), known: None }
            }
            Arg::Shape(dims) => {
                Operand { annotation: Annotation::Shape(Extents::Known(dims.clone())), known: None }
            }
            Arg::Dim(dim) => Operand::of_known(Known::Dim(dim.clone())),
            Arg::Dims(dims) => {
                Operand::of_known(Known::List(dims.iter().cloned().map(Known::Dim).collect()))
            }
            Arg::Float(value) => Operand::of_known(Known::Float(*value)),
            Arg::Bool(value) => Operand::of_known(Known::Bool(*value)),
            Arg::Str(text) => Operand::of_known(Known::Str(text.as_str().into())),
        })
    }

    /// The value, where that does not depend on a value of the program.
    pub(crate) fn value(&self) -> Option<Value> {
        let int = |dim: &Dim| dim.as_int();
        Some(match self {
            Arg::V(_) | Arg::Many(_) | Arg::Key(..) => return None,
            Arg::Scalar(dtype, number) => {
                Value::Tensor(relax_semantics::tensor::Tensor::scalar(*dtype, *number))
            }
            Arg::Shape(dims) => Value::Shape(dims.iter().map(int).collect::<Option<Vec<_>>>()?),
            Arg::Dim(dim) => Value::int(int(dim)?),
            Arg::Dims(dims) => Value::Tuple(
                dims.iter().map(|dim| int(dim).map(Value::int)).collect::<Option<_>>()?,
            ),
            Arg::Float(value) => Value::Prim(DType::F64, Number::Float(*value)),
            Arg::Bool(value) => Value::Prim(DType::Bool, Number::Int((*value).into())),
            Arg::Str(text) => Value::Str(text.as_str().into()),
        })
    }
}

impl From<V> for Arg {
    fn from(value: V) -> Self {
        Arg::V(value)
    }
}

impl From<Vec<V>> for Arg {
    fn from(values: Vec<V>) -> Self {
        Arg::Many(values)
    }
}

impl From<i64> for Arg {
    fn from(value: i64) -> Self {
        Arg::Dim(Dim::Int(value))
    }
}

impl From<usize> for Arg {
    fn from(value: usize) -> Self {
        Arg::Dim(Dim::Int(value as i64))
    }
}

impl From<Dim> for Arg {
    fn from(value: Dim) -> Self {
        Arg::Dim(value)
    }
}

impl From<Vec<Dim>> for Arg {
    fn from(values: Vec<Dim>) -> Self {
        Arg::Dims(values)
    }
}

impl From<Vec<i64>> for Arg {
    fn from(values: Vec<i64>) -> Self {
        Arg::Dims(values.into_iter().map(Dim::Int).collect())
    }
}

impl From<&[i64]> for Arg {
    fn from(values: &[i64]) -> Self {
        values.to_vec().into()
    }
}

impl From<f64> for Arg {
    fn from(value: f64) -> Self {
        Arg::Float(value)
    }
}

impl From<bool> for Arg {
    fn from(value: bool) -> Self {
        Arg::Bool(value)
    }
}

impl From<&str> for Arg {
    fn from(text: &str) -> Self {
        Arg::Str(text.to_owned())
    }
}

impl From<DType> for Arg {
    fn from(dtype: DType) -> Self {
        Arg::Str(dtype.name().to_owned())
    }
}
