//! A node of the model as its importer sees it: inputs, attributes, and the program that grows.

use crate::beside::Beside;
use crate::builder::{Builder, V};
use crate::elements;
use crate::narrow::{self, Narrow};
use crate::proto;
use crate::reason::{Done, Reason, invalid};
use relax_semantics::ops::normalize_axis;
use relax_semantics::tensor::Tensor;
use relax_syntax::dtype::DType;
use std::ops::{Deref, DerefMut};

/// A node.
pub(crate) struct Node<'a> {
    pub(crate) builder: &'a mut Builder,
    pub(crate) message: &'a proto::Node,
    /// `None` where an optional input is left out.
    pub(crate) inputs: Vec<Option<V>>,
    /// The version of its operator set.
    pub(crate) opset: i64,
    /// Files beside the model.
    pub(crate) beside: Option<Beside<'a>>,
}

/// The importer of an operator: the values of its outputs, those that are left out included.
pub(crate) type Importer = fn(&mut Node) -> Done<Vec<V>>;

impl Deref for Node<'_> {
    type Target = Builder;

    fn deref(&self) -> &Builder {
        self.builder
    }
}

impl DerefMut for Node<'_> {
    fn deref_mut(&mut self) -> &mut Builder {
        self.builder
    }
}

impl Node<'_> {
    /// An input that must be there.
    pub(crate) fn input(&self, index: usize) -> Done<V> {
        self.optional(index).ok_or_else(|| Reason::Invalid(format!("input {index} is missing")))
    }

    pub(crate) fn optional(&self, index: usize) -> Option<V> {
        self.inputs.get(index).copied().flatten()
    }

    /// All inputs, none of which may be left out.
    pub(crate) fn all_inputs(&self) -> Done<Vec<V>> {
        (0..self.inputs.len()).map(|index| self.input(index)).collect()
    }

    /// Whether the model uses an output.
    pub(crate) fn has_output(&self, index: usize) -> bool {
        self.message.output.get(index).is_some_and(|name| !name.is_empty())
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&proto::Attribute> {
        self.message.named(name)
    }

    pub(crate) fn int(&self, name: &str, default: i64) -> i64 {
        self.attribute(name).and_then(|attribute| attribute.i).unwrap_or(default)
    }

    pub(crate) fn optional_int(&self, name: &str) -> Option<i64> {
        self.attribute(name).and_then(|attribute| attribute.i)
    }

    pub(crate) fn float(&self, name: &str, default: f64) -> f64 {
        let attribute = self.attribute(name).and_then(|attribute| attribute.f);
        attribute.map_or(default, decimal)
    }

    pub(crate) fn optional_float(&self, name: &str) -> Option<f64> {
        self.attribute(name).and_then(|attribute| attribute.f).map(decimal)
    }

    pub(crate) fn ints(&self, name: &str) -> Option<Vec<i64>> {
        self.attribute(name).map(|attribute| attribute.ints.clone())
    }

    pub(crate) fn floats(&self, name: &str) -> Option<Vec<f64>> {
        self.attribute(name)
            .map(|attribute| attribute.floats.iter().map(|&f| f64::from(f)).collect())
    }

    /// A string; `default` where it is left out.
    pub(crate) fn string(&self, name: &str, default: &str) -> Done<String> {
        match self.attribute(name).and_then(|attribute| attribute.s.as_ref()) {
            None => Ok(default.to_owned()),
            Some(bytes) => String::from_utf8(bytes.to_vec())
                .map_err(|_| Reason::Invalid(format!("the attribute `{name}` is no text"))),
        }
    }

    pub(crate) fn strings(&self, name: &str) -> Done<Option<Vec<String>>> {
        let Some(attribute) = self.attribute(name) else { return Ok(None) };
        let texts = attribute.strings.iter().map(|bytes| String::from_utf8(bytes.to_vec()));
        let texts = texts.collect::<Result<Vec<_>, _>>();
        texts.map(Some).map_err(|_| Reason::Invalid(format!("the attribute `{name}` is no text")))
    }

    pub(crate) fn tensor_attribute(&self, name: &str) -> Done<Option<(Tensor, Option<Narrow>)>> {
        let tensor = self.attribute(name).and_then(|attribute| attribute.t.as_ref());
        tensor.map(|tensor| narrow::tensor(tensor, self.beside)).transpose()
    }

    /// An attribute that names a dtype.
    pub(crate) fn dtype_attribute(&self, name: &str) -> Done<Option<DType>> {
        let number = self.optional_int(name);
        number.map(|number| elements::dtype(i32::try_from(number).unwrap_or(0))).transpose()
    }

    /// An axis of a tensor of that rank, counted from the front.
    pub(crate) fn axis(&self, axis: i64, rank: usize) -> Done<usize> {
        normalize_axis(axis, rank)
            .ok_or_else(|| Reason::Invalid(format!("axis {axis} of a tensor of rank {rank}")))
    }

    /// Axes as positions, in the order given.
    pub(crate) fn axes(&self, axes: &[i64], rank: usize) -> Done<Vec<usize>> {
        let mut positions = Vec::new();
        for &axis in axes {
            let position = self.axis(axis, rank)?;
            if positions.contains(&position) {
                return invalid(format!("axis {axis} is given twice"));
            }
            positions.push(position);
        }
        Ok(positions)
    }

    /// Integers that older versions have as an attribute and newer ones as an input.
    pub(crate) fn ints_of(&self, name: &'static str, index: usize) -> Done<Option<Vec<i64>>> {
        if let Some(ints) = self.ints(name) {
            return Ok(Some(ints));
        }
        self.optional(index).map(|input| self.known_ints(input, name)).transpose()
    }
}

/// The float that a person wrote: attributes are f32, and 0.1 there is not 0.1 in f64.
fn decimal(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| f64::from(value))
}
