//! Integers of 4 bits. The language has none: their values are those of i8 and u8, and constants of them stay as
//! they lie in the model, two in a byte, until a node reads them. So weights are of 4 bits where they are kept.

use crate::argument::{Arg, key};
use crate::beside::Beside;
use crate::builder::{Builder, V};
use crate::elements;
use crate::node::Node;
use crate::proto;
use crate::reason::{Done, unsupported};
use crate::weight::{Stored, Weight};
use ndarray::{ArrayD, IxDyn};
use prost::bytes::Bytes;
use relax_semantics::tensor::{Number, Tensor};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

/// Constants with no more elements are decoded at once.
const FEW: usize = 16;

/// A dtype of 4 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Narrow {
    U4,
    I4,
}

/// A constant of them that lies packed.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    narrow: Narrow,
    shape: Vec<usize>,
}

/// Operators that give elements of their first input in another place.
const MOVING: &[&str] = &[
    "Flatten",
    "Identity",
    "Gather",
    "Pad",
    "Reshape",
    "Slice",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
];

/// Others that take them.
const TAKING: &[&str] =
    &["Cast", "CastLike", "DequantizeLinear", "QuantizeLinear", "Shape", "Size"];

impl Narrow {
    /// The dtype of a number of `TensorProto.DataType`, where it is one of 4 bits.
    pub(crate) fn of(number: i32) -> Option<Self> {
        match number {
            21 => Some(Narrow::U4),
            22 => Some(Narrow::I4),
            _ => None,
        }
    }

    /// The dtype that holds the values.
    pub(crate) fn dtype(self) -> DType {
        match self {
            Narrow::U4 => DType::U8,
            Narrow::I4 => DType::I8,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Narrow::U4 => "uint4",
            Narrow::I4 => "int4",
        }
    }

    /// The least and the greatest value.
    pub(crate) fn range(self) -> (i8, i8) {
        match self {
            Narrow::U4 => (0, 15),
            Narrow::I4 => (-8, 7),
        }
    }

    /// The value of four bits.
    fn value(self, bits: u8) -> i128 {
        match self {
            Narrow::I4 if bits >= 8 => i128::from(bits) - 16,
            _ => i128::from(bits),
        }
    }
}

/// The tensor of a message: its elements, and of how many bits they are.
pub(crate) fn tensor(
    message: &proto::Tensor,
    beside: Option<Beside>,
) -> Done<(Tensor, Option<Narrow>)> {
    let Some(narrow) = Narrow::of(message.data_type.unwrap_or(0)) else {
        return Ok((elements::tensor(message, beside)?, None));
    };
    let (shape, bytes) = bytes(message, beside)?;
    Ok((decoded(narrow, &shape, &bytes), Some(narrow)))
}

/// The dims of a message, and its bytes, of which each holds two elements: the one in its lower bits comes first.
fn bytes(message: &proto::Tensor, beside: Option<Beside>) -> Done<(Vec<usize>, Bytes)> {
    let (shape, count) = elements::shape(message)?;
    let bytes = i64::try_from(count.div_ceil(2)).unwrap_or(i64::MAX);
    let unsigned = proto::Tensor { dims: vec![bytes], data_type: Some(2), ..message.clone() };
    let bytes = match elements::weight(&unsigned, beside, 0)? {
        Weight::Stored(stored) => stored.into_bytes(),
        Weight::Computed(tensor) => {
            let numbers = (0..tensor.len()).map(|place| tensor.number(place).as_f64() as u8);
            numbers.collect::<Vec<u8>>().into()
        }
    };
    Ok((shape, bytes))
}

fn decoded(narrow: Narrow, shape: &[usize], bytes: &[u8]) -> Tensor {
    let count = shape.iter().product();
    let pairs = bytes.iter().flat_map(|byte| [byte & 15, byte >> 4]);
    let values: Vec<i128> = pairs.take(count).map(|bits| narrow.value(bits)).collect();
    let array = ArrayD::from_shape_vec(IxDyn(shape), values)
        .expect("invariant: the number of bytes was held against the dims");
    Tensor::from_ints(narrow.dtype(), array)
}

impl Builder {
    /// The constant of a message, whatever its dtype; of more than `kept` elements it stays as it lies there.
    pub(crate) fn constant_of(
        &mut self,
        message: &proto::Tensor,
        beside: Option<Beside>,
        kept: usize,
    ) -> Done<V> {
        let Some(narrow) = Narrow::of(message.data_type.unwrap_or(0)) else {
            return Ok(self.weight(elements::weight(message, beside, kept)?));
        };
        let (shape, bytes) = bytes(message, beside)?;
        if shape.iter().product::<usize>() <= FEW {
            let value = self.constant(decoded(narrow, &shape, &bytes));
            self.narrow.insert(value, narrow);
            return Ok(value);
        }
        // Rows of whole bytes keep their dims, so that an index of the product's is one of the bytes'.
        let dims = match shape.split_last() {
            Some((last, rest)) if last % 2 == 0 => [rest, &[last / 2]].concat(),
            _ => vec![bytes.len()],
        };
        let value = self.weight(Weight::Stored(Stored::new(DType::U8, dims, bytes)));
        self.packed.insert(value, Packed { narrow, shape });
        Ok(value)
    }

    /// The elements of a value, which a line decodes where they lie packed.
    pub(crate) fn unpacked(&mut self, v: V) -> Done<V> {
        let Some(Packed { narrow, shape }) = self.packed.get(&v).cloned() else { return Ok(v) };
        let last = vec![self.rank(v) as i64];
        let byte = self.call("expand_dims", &[v.into(), key("axis", last)])?;
        let places = self.constant(Tensor::from_ints(
            DType::U8,
            ArrayD::from_shape_vec(IxDyn(&[2]), vec![0, 4]).expect("invariant: two elements"),
        ));
        let moved = self.call("right_shift", &[byte.into(), places.into()])?;
        let mut bits = self.call("bitwise_and", &[moved.into(), scalar(DType::U8, 15)])?;
        if narrow == Narrow::I4 {
            bits = self.call("astype", &[bits.into(), DType::I8.into()])?;
            bits = self.signed(bits)?;
        }
        let count = shape.iter().product::<usize>() as i64;
        let dims: Vec<Dim> = shape.iter().map(|&extent| Dim::Int(extent as i64)).collect();
        if count % 2 != 0 {
            let padded = Arg::Shape(vec![Dim::Int(count + 1)]);
            bits = self.call("reshape", &[bits.into(), padded])?;
            let [axes, begin, end] = [0, 0, count].map(|number| Arg::from(vec![number]));
            bits = self.call("strided_slice", &[bits.into(), axes, begin, end])?;
        }
        let whole = self.call("reshape", &[bits.into(), Arg::Shape(dims)])?;
        self.narrow.insert(whole, narrow);
        Ok(whole)
    }

    /// Four bits of an i8 with the highest of them as the sign.
    fn signed(&mut self, bits: V) -> Done<V> {
        let flipped = self.call("bitwise_xor", &[bits.into(), scalar(DType::I8, 8)])?;
        self.call("subtract", &[flipped.into(), scalar(DType::I8, 8)])
    }

    /// A number limited to what 4 bits hold.
    pub(crate) fn limited(&mut self, x: V, narrow: Narrow) -> Done<V> {
        let (least, most) = narrow.range();
        let (dtype, bound) = (self.dtype(x), |bound: i8| Number::Float(bound.into()));
        let x = self.call("maximum", &[x.into(), Arg::Scalar(dtype, bound(least))])?;
        self.call("minimum", &[x.into(), Arg::Scalar(dtype, bound(most))])
    }

    /// As a cast does it: floats are limited, of integers the lower bits count.
    pub(crate) fn narrowed(&mut self, x: V, narrow: Narrow) -> Done<V> {
        let (to, from) = (narrow.dtype(), self.dtype(x));
        let value = if from.is_float() {
            let limited = self.limited(x, narrow)?;
            self.call("astype", &[limited.into(), to.into()])?
        } else {
            let mut bits = x;
            if from != to {
                bits = self.call("astype", &[bits.into(), to.into()])?;
            }
            let bits = self.call("bitwise_and", &[bits.into(), scalar(to, 15)])?;
            if narrow == Narrow::I4 { self.signed(bits)? } else { bits }
        };
        self.narrow.insert(value, narrow);
        Ok(value)
    }

    /// Refuses an operator that takes no integers of 4 bits, or of which the import does not follow them.
    pub(crate) fn refuse_narrow(&self, operator: &str, inputs: &[Option<V>]) -> Done<()> {
        let narrow = inputs.iter().flatten().find_map(|v| self.narrow.get(v));
        match narrow.filter(|_| !MOVING.contains(&operator) && !TAKING.contains(&operator)) {
            Some(narrow) => unsupported(format!("an input of {}", narrow.name())),
            None => Ok(()),
        }
    }

    /// Notes that what a node gives is of 4 bits, where it only moves elements of such a value.
    pub(crate) fn keep_narrow(&mut self, operator: &str, inputs: &[Option<V>], results: &[V]) {
        let first = inputs.first().copied().flatten();
        let Some(&narrow) = first.and_then(|first| self.narrow.get(&first)) else { return };
        if MOVING.contains(&operator) {
            results.iter().for_each(|&result| _ = self.narrow.insert(result, narrow));
        }
    }

    /// A value that is 4 bits in the model, and what it is here.
    pub(crate) fn note_narrow(&self, name: &str, v: V) -> Option<String> {
        let narrow = self.narrow.get(&v)?;
        Some(format!("`{name}` is {} in the model: here it is {}", narrow.name(), narrow.dtype()))
    }
}

impl Node<'_> {
    /// An attribute that names a dtype, which may be one of 4 bits.
    pub(crate) fn narrow_attribute(&self, name: &str) -> Option<Narrow> {
        self.optional_int(name).and_then(|number| Narrow::of(i32::try_from(number).ok()?))
    }
}

fn scalar(dtype: DType, value: i64) -> Arg {
    Arg::Scalar(dtype, Number::Int(value.into()))
}
