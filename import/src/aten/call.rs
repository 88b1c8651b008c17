//! A call of an ATen operator as its row sees it: arguments by the names of the schema, and the program that grows.

use crate::builder::{Builder, V};
use crate::reason::{Done, Reason, invalid, unsupported};
use relax_semantics::ops::normalize_axis;
use relax_semantics::tensor::Number;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

#[derive(Clone, Debug)]
pub(crate) enum Argument {
    None,
    Bool(bool),
    Dim(Dim),
    Float(f64),
    Str(String),
    DType(DType),
    Tensor(V),
    /// A float that depends on dims, as a tensor of rank 0 of f64.
    Real(V),
    List(Vec<Argument>),
    Claim(relax_syntax::facts::Claim),
}

/// A call. What it gives is a value for each result, or for the first ones.
pub(crate) struct Call<'a> {
    pub(crate) builder: &'a mut Builder,
    pub(crate) args: BTreeMap<String, Argument>,
    /// Dtypes of the results by PyTorch; `None` for a result that nothing reads.
    pub(crate) results: Vec<Option<DType>>,
    pub(crate) at: Option<&'a str>,
}

pub(crate) type Row = fn(&mut Call) -> Done<Vec<V>>;

impl Deref for Call<'_> {
    type Target = Builder;

    fn deref(&self) -> &Builder {
        self.builder
    }
}

impl DerefMut for Call<'_> {
    fn deref_mut(&mut self) -> &mut Builder {
        self.builder
    }
}

impl Call<'_> {
    pub(crate) fn argument(&self, name: &str) -> &Argument {
        self.args.get(name).unwrap_or(&Argument::None)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        !matches!(self.argument(name), Argument::None)
    }

    fn wrong<T>(&self, name: &str, wanted: &str) -> Done<T> {
        match self.argument(name) {
            Argument::None => invalid(format!("the argument `{name}` is missing")),
            other => {
                unsupported(format!("the argument `{name}` must be {wanted}, found {other:?}"))
            }
        }
    }

    pub(crate) fn tensor(&self, name: &str) -> Done<V> {
        match self.argument(name) {
            Argument::Tensor(v) => Ok(*v),
            _ => self.wrong(name, "a tensor"),
        }
    }

    pub(crate) fn optional_tensor(&self, name: &str) -> Done<Option<V>> {
        if self.has(name) { self.tensor(name).map(Some) } else { Ok(None) }
    }

    pub(crate) fn tensors(&self, name: &str) -> Done<Vec<V>> {
        match self.argument(name) {
            Argument::List(items) => {
                let tensors = items.iter().map(|item| match item {
                    Argument::Tensor(v) => Ok(*v),
                    _ => self.wrong(name, "a list of tensors"),
                });
                tensors.collect()
            }
            _ => self.wrong(name, "a list of tensors"),
        }
    }

    pub(crate) fn dim_of(&self, name: &str) -> Done<Dim> {
        match self.argument(name) {
            Argument::Dim(dim) => Ok(dim.clone()),
            Argument::Bool(value) => Ok(Dim::Int((*value).into())),
            _ => self.wrong(name, "an integer"),
        }
    }

    pub(crate) fn int(&self, name: &str) -> Done<i64> {
        match self.dim_of(name)?.as_int() {
            Some(value) => Ok(value),
            None => self.wrong(name, "a number that does not depend on dims"),
        }
    }

    pub(crate) fn dims_of(&self, name: &str) -> Done<Vec<Dim>> {
        match self.argument(name) {
            Argument::Dim(dim) => Ok(vec![dim.clone()]),
            Argument::List(items) => {
                let dims = items.iter().map(|item| match item {
                    Argument::Dim(dim) => Ok(dim.clone()),
                    _ => self.wrong(name, "a list of integers"),
                });
                dims.collect()
            }
            _ => self.wrong(name, "a list of integers"),
        }
    }

    pub(crate) fn ints(&self, name: &str) -> Done<Vec<i64>> {
        let dims = self.dims_of(name)?;
        let ints = dims.iter().map(Dim::as_int).collect::<Option<Vec<i64>>>();
        ints.map_or_else(|| self.wrong(name, "numbers that do not depend on dims"), Ok)
    }

    /// One integer for each of `count` axes, where one stands for all.
    pub(crate) fn ints_for(&self, name: &str, count: usize) -> Done<Vec<i64>> {
        let ints = self.ints(name)?;
        match ints.len() {
            1 => Ok(vec![ints[0]; count]),
            length if length == count => Ok(ints),
            length => invalid(format!("`{name}` has {length} entries for {count} axes")),
        }
    }

    pub(crate) fn float(&self, name: &str) -> Done<f64> {
        match self.number(name)? {
            Number::Float(value) => Ok(value),
            Number::Int(value) => Ok(value as f64),
        }
    }

    pub(crate) fn floats(&self, name: &str) -> Done<Vec<f64>> {
        let Argument::List(items) = self.argument(name) else {
            return self.wrong(name, "a list of numbers");
        };
        let floats = items.iter().map(|item| match item {
            Argument::Float(value) => Ok(*value),
            Argument::Dim(Dim::Int(value)) => Ok(*value as f64),
            _ => self.wrong(name, "a list of numbers"),
        });
        floats.collect()
    }

    /// A number of Python that does not depend on dims.
    pub(crate) fn number(&self, name: &str) -> Done<Number> {
        match self.argument(name) {
            Argument::Float(value) => Ok(Number::Float(*value)),
            Argument::Dim(Dim::Int(value)) => Ok(Number::Int((*value).into())),
            Argument::Bool(value) => Ok(Number::Int((*value).into())),
            _ => self.wrong(name, "a number"),
        }
    }

    pub(crate) fn bool(&self, name: &str) -> Done<bool> {
        match self.argument(name) {
            Argument::Bool(value) => Ok(*value),
            Argument::None => Ok(false),
            Argument::Dim(Dim::Int(value)) => Ok(*value != 0),
            _ => self.wrong(name, "a bool"),
        }
    }

    pub(crate) fn string(&self, name: &str) -> Done<String> {
        match self.argument(name) {
            Argument::Str(text) => Ok(text.clone()),
            _ => self.wrong(name, "a text"),
        }
    }

    pub(crate) fn dtype_of(&self, name: &str) -> Done<Option<DType>> {
        match self.argument(name) {
            Argument::DType(dtype) => Ok(Some(*dtype)),
            Argument::None => Ok(None),
            _ => self.wrong(name, "a dtype"),
        }
    }

    pub(crate) fn result(&self) -> Done<DType> {
        let first = self.results.first().copied().flatten();
        first.ok_or_else(|| Reason::Invalid("the description gives no dtype of the result".into()))
    }

    pub(crate) fn is_read(&self, result: usize) -> bool {
        self.results.get(result).is_some_and(Option::is_some)
    }

    /// An axis counted from the front; a tensor of rank 0 counts as one of rank 1.
    pub(crate) fn axis(&self, axis: i64, rank: usize) -> Done<usize> {
        normalize_axis(axis, rank.max(1))
            .ok_or_else(|| Reason::Invalid(format!("axis {axis} of a tensor of rank {rank}")))
    }

    pub(crate) fn axis_of(&self, name: &str, rank: usize) -> Done<usize> {
        self.axis(self.int(name)?, rank)
    }

    pub(crate) fn axes_of(&self, name: &str, rank: usize) -> Done<Vec<usize>> {
        let mut axes = Vec::new();
        for axis in self.ints(name)? {
            let axis = self.axis(axis, rank)?;
            if axes.contains(&axis) {
                return invalid(format!("axis {axis} is given twice"));
            }
            axes.push(axis);
        }
        Ok(axes)
    }
}
