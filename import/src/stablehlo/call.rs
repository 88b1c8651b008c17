//! An operation as its row sees it: operands, attributes, the types of its results, and the program that grows.

use super::dense;
use super::syntax::{Attribute, Elements, Op, Region, Type};
use super::walk::{Scope, Walk};
use crate::builder::{Builder, V};
use crate::reason::{Done, Reason, invalid, unsupported};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use std::ops::{Deref, DerefMut};

/// What it gives is a value for each result.
pub(super) struct Call<'c, 'm> {
    pub(super) walk: &'c mut Walk<'m>,
    pub(super) op: &'m Op,
    pub(super) args: Vec<V>,
    pub(super) scope: &'c mut Scope<'m>,
}

pub(super) type Row = for<'c, 'm, 'k> fn(&'k mut Call<'c, 'm>) -> Done<Vec<V>>;

impl Deref for Call<'_, '_> {
    type Target = Builder;

    fn deref(&self) -> &Builder {
        &self.walk.builder
    }
}

impl DerefMut for Call<'_, '_> {
    fn deref_mut(&mut self) -> &mut Builder {
        &mut self.walk.builder
    }
}

impl<'m> Call<'_, 'm> {
    pub(super) fn arg(&self, index: usize) -> Done<V> {
        match self.args.get(index) {
            Some(&v) => Ok(v),
            None => invalid(format!("operand {index} is missing")),
        }
    }

    pub(super) fn two(&self) -> Done<(V, V)> {
        Ok((self.arg(0)?, self.arg(1)?))
    }

    pub(super) fn attribute(&self, name: &str) -> Option<&'m Attribute> {
        self.op.attributes.get(name)
    }

    fn missing<T>(&self, name: &str, what: &str) -> Done<T> {
        match self.attribute(name) {
            None => invalid(format!("the attribute `{name}` is missing")),
            Some(_) => invalid(format!("the attribute `{name}` must be {what}")),
        }
    }

    pub(super) fn int(&self, name: &str) -> Done<i64> {
        match self.attribute(name).and_then(int) {
            Some(value) => Ok(value),
            None => self.missing(name, "an integer"),
        }
    }

    pub(super) fn int_or(&self, name: &str, default: i64) -> Done<i64> {
        if self.attribute(name).is_some() { self.int(name) } else { Ok(default) }
    }

    pub(super) fn ints(&self, name: &str) -> Done<Vec<i64>> {
        match self.attribute(name).and_then(|attribute| ints(self.walk.text, attribute)) {
            Some(values) => Ok(values),
            None => self.missing(name, "a list of integers"),
        }
    }

    pub(super) fn ints_or(&self, name: &str, default: &[i64]) -> Done<Vec<i64>> {
        if self.attribute(name).is_some() { self.ints(name) } else { Ok(default.to_vec()) }
    }

    /// The first of these names that there is: the pretty and the generic form differ.
    pub(super) fn ints_named(&self, names: &[&str]) -> Done<Vec<i64>> {
        self.ints(self.named(names))
    }

    /// Axes of a tensor.
    pub(super) fn axes(&self, names: &[&str], rank: usize) -> Done<Vec<usize>> {
        let mut axes = Vec::new();
        for axis in self.ints_named(names)? {
            let axis = axis_of(axis, rank)?;
            if axes.contains(&axis) {
                return invalid(format!("dim {axis} is given twice"));
            }
            axes.push(axis);
        }
        Ok(axes)
    }

    /// An axis by the first of these names that there is.
    pub(super) fn axis(&self, names: &[&str], rank: usize) -> Done<usize> {
        axis_of(self.int(self.named(names))?, rank)
    }

    fn named<'n>(&self, names: &[&'n str]) -> &'n str {
        names.iter().find(|name| self.attribute(name).is_some()).unwrap_or(&names[0])
    }

    pub(super) fn region(&self, index: usize) -> Done<&'m Region> {
        match self.op.regions.get(index) {
            Some(region) => Ok(region),
            None => invalid("a region is missing"),
        }
    }

    /// Dims of a result, `None` where they are `?`, and its dtype.
    pub(super) fn result(&self, index: usize) -> Done<(Vec<Option<i64>>, DType)> {
        match self.op.types.get(index) {
            Some(r#type) => tensor_type(r#type),
            None => invalid(format!("the type of result {index} is missing")),
        }
    }

    /// Elements of an operand that give a shape or a place, as dims.
    pub(super) fn extents_of(&mut self, index: usize, what: &str) -> Done<Vec<Dim>> {
        let v = self.arg(index)?;
        self.walk.builder.extents(v, what)
    }
}

fn axis_of(axis: i64, rank: usize) -> Done<usize> {
    let found = usize::try_from(axis).ok().filter(|&axis| axis < rank);
    found.ok_or_else(|| Reason::Invalid(format!("dim {axis} of a tensor of rank {rank}")))
}

pub(super) fn int(attribute: &Attribute) -> Option<i64> {
    match attribute {
        Attribute::Int(value) => i64::try_from(*value).ok(),
        _ => None,
    }
}

/// Integers of a list or a constant, nested ones row-major.
pub(super) fn ints(text: &str, attribute: &Attribute) -> Option<Vec<i64>> {
    match attribute {
        Attribute::List(items) => {
            let mut found = Vec::new();
            for item in items {
                match item {
                    Attribute::List(_) => found.extend(ints(text, item)?),
                    item => found.push(int(item)?),
                }
            }
            Some(found)
        }
        Attribute::Int(_) => Some(vec![int(attribute)?]),
        Attribute::Dense(Elements::Listed(range), Type::Tensor { dims, .. }) => {
            let count = dims.iter().try_fold(1_usize, |n, dim| n.checked_mul((*dim)? as usize))?;
            dense::ints(text.get(range.clone())?, count)
        }
        _ => None,
    }
}

pub(super) fn tensor_type(r#type: &Type) -> Done<(Vec<Option<i64>>, DType)> {
    match r#type {
        Type::Tensor { dims, element } => Ok((dims.clone(), dtype(element)?)),
        Type::Other(text) => unsupported(format!("a value of type {text}")),
    }
}

/// The dtype of an element type.
pub(super) fn dtype(element: &str) -> Done<DType> {
    Ok(match element {
        "i1" => DType::Bool,
        "f16" => DType::F16,
        "bf16" => DType::BF16,
        "f32" => DType::F32,
        "f64" => DType::F64,
        "i8" => DType::I8,
        "i16" => DType::I16,
        "i32" => DType::I32,
        "i64" => DType::I64,
        "ui8" => DType::U8,
        "ui16" => DType::U16,
        "ui32" => DType::U32,
        "ui64" => DType::U64,
        other => return unsupported(format!("the dtype {other}")),
    })
}
