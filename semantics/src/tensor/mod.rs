//! Dense tensors of every dtype, on ndarray.
//!
//! Reference evaluation works in two domains: floats as f64 and integers (and bools) as i128. An
//! operator reads its operands in a domain, computes there, and the result is rounded or wrapped
//! into its dtype once. Movement of elements needs no domain: see [`Tensor::select`].

mod positions;

pub use positions::{indices, strided_positions, strides};

use crate::round;
use half::{bf16, f16};
use ndarray::{ArcArray, ArrayD, IxDyn};
use relax_syntax::dtype::DType;
use std::sync::Arc;

type Shared<T> = ArcArray<T, IxDyn>;

/// Elements in row-major order, shared until written.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // each variant is its dtype
pub enum Data {
    F16(Shared<f16>),
    BF16(Shared<bf16>),
    F32(Shared<f32>),
    F64(Shared<f64>),
    I8(Shared<i8>),
    I16(Shared<i16>),
    I32(Shared<i32>),
    I64(Shared<i64>),
    U8(Shared<u8>),
    U16(Shared<u16>),
    U32(Shared<u32>),
    U64(Shared<u64>),
    Bool(Shared<bool>),
}

/// Runs `$body` with `$array` bound to the typed array and `$variant` to its constructor.
macro_rules! for_each_dtype {
    ($data:expr, $array:ident, $variant:ident => $body:expr) => {
        match $data {
            Data::F16($array) => {
                #[allow(unused)]
                let $variant = Data::F16;
                $body
            }
            Data::BF16($array) => {
                #[allow(unused)]
                let $variant = Data::BF16;
                $body
            }
            Data::F32($array) => {
                #[allow(unused)]
                let $variant = Data::F32;
                $body
            }
            Data::F64($array) => {
                #[allow(unused)]
                let $variant = Data::F64;
                $body
            }
            Data::I8($array) => {
                #[allow(unused)]
                let $variant = Data::I8;
                $body
            }
            Data::I16($array) => {
                #[allow(unused)]
                let $variant = Data::I16;
                $body
            }
            Data::I32($array) => {
                #[allow(unused)]
                let $variant = Data::I32;
                $body
            }
            Data::I64($array) => {
                #[allow(unused)]
                let $variant = Data::I64;
                $body
            }
            Data::U8($array) => {
                #[allow(unused)]
                let $variant = Data::U8;
                $body
            }
            Data::U16($array) => {
                #[allow(unused)]
                let $variant = Data::U16;
                $body
            }
            Data::U32($array) => {
                #[allow(unused)]
                let $variant = Data::U32;
                $body
            }
            Data::U64($array) => {
                #[allow(unused)]
                let $variant = Data::U64;
                $body
            }
            Data::Bool($array) => {
                #[allow(unused)]
                let $variant = Data::Bool;
                $body
            }
        }
    };
}

/// A tensor: shape, dtype, elements, and which of them were never written.
#[derive(Clone, Debug)]
pub struct Tensor {
    data: Data,
    /// True where nothing was ever written (`empty`); absent when every element is defined.
    undefined: Option<Arc<[bool]>>,
}

/// The elements in the domain of their dtype.
#[derive(Clone, Debug)]
pub enum Elements {
    /// Of a float dtype.
    Float(ArrayD<f64>),
    /// Of an integer dtype or bool (0 and 1).
    Int(ArrayD<i128>),
}

/// One element in the domain of its dtype.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Of a float dtype.
    Float(f64),
    /// Of an integer dtype or bool (0 and 1).
    Int(i128),
}

impl Number {
    /// As f64: exact for floats, rounded for integers beyond 2^53.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Float(value) => value,
            Number::Int(value) => value as f64,
        }
    }
}

/// An array of `elements` in `shape`; the lengths agree.
pub(crate) fn array<T>(shape: &[usize], elements: Vec<T>) -> ArrayD<T> {
    ArrayD::from_shape_vec(IxDyn(shape), elements)
        .expect("invariant: the number of elements is the product of the shape")
}

/// The array with its elements in row-major order; copied only when they are not.
fn row_major<T: Clone>(values: ArrayD<T>) -> ArrayD<T> {
    if values.is_standard_layout() { values } else { values.as_standard_layout().into_owned() }
}

impl Tensor {
    /// Floats rounded once to a float dtype; to an integer dtype see [`round::float_to_int`].
    #[must_use]
    pub fn from_floats(dtype: DType, values: ArrayD<f64>) -> Tensor {
        let values = row_major(values);
        let data = match dtype {
            DType::F64 => Data::F64(values.into_shared()),
            DType::F32 => Data::F32(values.mapv(|v| v as f32).into_shared()),
            DType::F16 => Data::F16(values.mapv(round::to_f16).into_shared()),
            DType::BF16 => Data::BF16(values.mapv(round::to_bf16).into_shared()),
            _ => {
                let ints = values.mapv(|v| round::float_to_int(dtype, v));
                return Tensor::from_ints(dtype, ints);
            }
        };
        Tensor { data, undefined: None }
    }

    /// Integers wrapped into an integer dtype (bool: nonzero is true), or rounded to a float dtype.
    #[must_use]
    pub fn from_ints(dtype: DType, values: ArrayD<i128>) -> Tensor {
        let values = row_major(values);
        let data = match dtype {
            DType::I8 => Data::I8(values.mapv(|v| v as i8).into_shared()),
            DType::I16 => Data::I16(values.mapv(|v| v as i16).into_shared()),
            DType::I32 => Data::I32(values.mapv(|v| v as i32).into_shared()),
            DType::I64 => Data::I64(values.mapv(|v| v as i64).into_shared()),
            DType::U8 => Data::U8(values.mapv(|v| v as u8).into_shared()),
            DType::U16 => Data::U16(values.mapv(|v| v as u16).into_shared()),
            DType::U32 => Data::U32(values.mapv(|v| v as u32).into_shared()),
            DType::U64 => Data::U64(values.mapv(|v| v as u64).into_shared()),
            DType::Bool => Data::Bool(values.mapv(|v| v != 0).into_shared()),
            DType::F32 => Data::F32(values.mapv(|v| v as f32).into_shared()),
            DType::F64 => Data::F64(values.mapv(|v| v as f64).into_shared()),
            DType::F16 | DType::BF16 => {
                return Tensor::from_floats(dtype, values.mapv(round::int_to_odd_f64));
            }
        };
        Tensor { data, undefined: None }
    }

    /// A bool tensor.
    #[must_use]
    pub fn from_bools(values: ArrayD<bool>) -> Tensor {
        Tensor::from_data(Data::Bool(row_major(values).into_shared()))
    }

    /// Elements of either domain into `dtype`.
    #[must_use]
    pub fn from_elements(dtype: DType, elements: Elements) -> Tensor {
        match elements {
            Elements::Float(values) => Tensor::from_floats(dtype, values),
            Elements::Int(values) => Tensor::from_ints(dtype, values),
        }
    }

    /// Typed elements as they are; the array must be in row-major order.
    #[must_use]
    pub fn from_data(data: Data) -> Tensor {
        Tensor { data, undefined: None }
    }

    /// A scalar tensor.
    #[must_use]
    pub fn scalar(dtype: DType, value: Number) -> Tensor {
        Tensor::full(dtype, &[], value)
    }

    /// Every element the same. The value is converted once, so that no wide copy is made.
    #[must_use]
    pub fn full(dtype: DType, shape: &[usize], value: Number) -> Tensor {
        let one = match value {
            Number::Float(v) => Tensor::from_floats(dtype, ArrayD::from_elem(IxDyn(&[]), v)),
            Number::Int(v) => Tensor::from_ints(dtype, ArrayD::from_elem(IxDyn(&[]), v)),
        };
        Tensor::from_data(for_each_dtype!(&one.data, a, wrap => {
            wrap(ArrayD::from_elem(IxDyn(shape), a[IxDyn(&[])]).into_shared())
        }))
    }

    /// The elements of several tensors of one dtype, one after the other, as a vector.
    ///
    /// # Panics
    /// When there is no tensor, or their dtypes differ.
    #[must_use]
    pub fn joined(parts: &[&Tensor]) -> Tensor {
        macro_rules! join {
            ($($variant:ident)*) => {
                match &parts[0].data {
                    $(Data::$variant(_) => {
                        let slices = parts.iter().map(|part| match &part.data {
                            Data::$variant(a) => a.as_slice().expect("invariant: row-major"),
                            _ => panic!("invariant: tensors that are joined have one dtype"),
                        });
                        let all = slices.collect::<Vec<_>>().concat();
                        Data::$variant(array(&[all.len()], all).into_shared())
                    })*
                }
            };
        }
        let data = join!(F16 BF16 F32 F64 I8 I16 I32 I64 U8 U16 U32 U64 Bool);
        let masked = parts.iter().any(|part| part.undefined.is_some());
        let masks = parts.iter().filter(|_| masked).flat_map(|part| match &part.undefined {
            Some(mask) => mask.to_vec(),
            None => vec![false; part.len()],
        });
        Tensor::from_data(data).with_undefined(masks.collect())
    }

    /// No element written yet: reading one is a trap.
    #[must_use]
    pub fn undefined(dtype: DType, shape: &[usize]) -> Tensor {
        let mut tensor = Tensor::full(dtype, shape, Number::Int(0));
        if !tensor.is_empty() {
            tensor.undefined = Some(vec![true; tensor.len()].into());
        }
        tensor
    }

    /// The same elements, with those marked in `undefined` (row-major) unreadable.
    #[must_use]
    pub fn with_undefined(mut self, undefined: Vec<bool>) -> Tensor {
        self.undefined = undefined.contains(&true).then(|| undefined.into());
        self
    }

    /// Which elements were never written, row-major; `None` when all were.
    #[must_use]
    pub fn undefined_elements(&self) -> Option<&[bool]> {
        self.undefined.as_deref()
    }

    /// The extents.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        for_each_dtype!(&self.data, a, wrap => a.shape())
    }

    /// The number of dims.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.shape().len()
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        for_each_dtype!(&self.data, a, wrap => a.len())
    }

    /// True when it has no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        match &self.data {
            Data::F16(_) => DType::F16,
            Data::BF16(_) => DType::BF16,
            Data::F32(_) => DType::F32,
            Data::F64(_) => DType::F64,
            Data::I8(_) => DType::I8,
            Data::I16(_) => DType::I16,
            Data::I32(_) => DType::I32,
            Data::I64(_) => DType::I64,
            Data::U8(_) => DType::U8,
            Data::U16(_) => DType::U16,
            Data::U32(_) => DType::U32,
            Data::U64(_) => DType::U64,
            Data::Bool(_) => DType::Bool,
        }
    }

    /// The typed elements.
    #[must_use]
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// The elements as f64: exact for floats, rounded for integers beyond 2^53.
    #[must_use]
    pub fn to_floats(&self) -> ArrayD<f64> {
        match &self.data {
            Data::F16(a) => a.mapv(f16::to_f64),
            Data::BF16(a) => a.mapv(bf16::to_f64),
            Data::F32(a) => a.mapv(f64::from),
            Data::F64(a) => a.to_owned(),
            _ => self.to_ints().mapv(|v| v as f64),
        }
    }

    /// The elements as i128; floats are truncated towards zero (callers ask this of integers).
    #[must_use]
    pub fn to_ints(&self) -> ArrayD<i128> {
        match &self.data {
            Data::I8(a) => a.mapv(i128::from),
            Data::I16(a) => a.mapv(i128::from),
            Data::I32(a) => a.mapv(i128::from),
            Data::I64(a) => a.mapv(i128::from),
            Data::U8(a) => a.mapv(i128::from),
            Data::U16(a) => a.mapv(i128::from),
            Data::U32(a) => a.mapv(i128::from),
            Data::U64(a) => a.mapv(i128::from),
            Data::Bool(a) => a.mapv(i128::from),
            _ => self.to_floats().mapv(|v| v as i128),
        }
    }

    /// The elements as truth values: nonzero is true.
    #[must_use]
    pub fn to_bools(&self) -> ArrayD<bool> {
        match &self.data {
            Data::Bool(a) => a.to_owned(),
            _ => match self.elements() {
                Elements::Float(a) => a.mapv(|v| v != 0.0),
                Elements::Int(a) => a.mapv(|v| v != 0),
            },
        }
    }

    /// The elements in the domain of the dtype.
    #[must_use]
    pub fn elements(&self) -> Elements {
        if self.dtype().is_float() {
            Elements::Float(self.to_floats())
        } else {
            Elements::Int(self.to_ints())
        }
    }

    /// The element at a row-major position.
    #[must_use]
    pub fn number(&self, position: usize) -> Number {
        fn at<T: Copy>(a: &Shared<T>, position: usize) -> T {
            a.as_slice().expect("invariant: tensors are in row-major order")[position]
        }
        match &self.data {
            Data::F16(a) => Number::Float(at(a, position).to_f64()),
            Data::BF16(a) => Number::Float(at(a, position).to_f64()),
            Data::F32(a) => Number::Float(f64::from(at(a, position))),
            Data::F64(a) => Number::Float(at(a, position)),
            Data::I8(a) => Number::Int(at(a, position).into()),
            Data::I16(a) => Number::Int(at(a, position).into()),
            Data::I32(a) => Number::Int(at(a, position).into()),
            Data::I64(a) => Number::Int(at(a, position).into()),
            Data::U8(a) => Number::Int(at(a, position).into()),
            Data::U16(a) => Number::Int(at(a, position).into()),
            Data::U32(a) => Number::Int(at(a, position).into()),
            Data::U64(a) => Number::Int(at(a, position).into()),
            Data::Bool(a) => Number::Int(at(a, position).into()),
        }
    }

    /// A tensor of `shape` whose element at row-major position `p` is this one's at `positions[p]`.
    /// Every movement of elements (transpose, slice, take, …) is one call of it.
    #[must_use]
    pub fn select(&self, shape: &[usize], positions: &[usize]) -> Tensor {
        let data = for_each_dtype!(&self.data, a, wrap => {
            let source = a.as_slice().expect("invariant: tensors are in row-major order");
            wrap(array(shape, positions.iter().map(|&p| source[p]).collect()).into_shared())
        });
        let undefined =
            self.undefined.as_ref().map(|mask| positions.iter().map(|&p| mask[p]).collect());
        Tensor { data, undefined: None }.with_undefined(undefined.unwrap_or_default())
    }

    /// The same elements in another shape of the same size.
    #[must_use]
    pub fn reshaped(&self, shape: &[usize]) -> Tensor {
        let data = for_each_dtype!(&self.data, a, wrap => wrap(
            a.clone().into_shape_with_order(IxDyn(shape))
                .expect("invariant: reshape keeps the number of elements")
        ));
        Tensor { data, undefined: self.undefined.clone() }
    }

    /// Converted element by element: to a float rounded once; float to integer as
    /// [`round::float_to_int`]; integer to integer wrapped; to bool: nonzero is true.
    #[must_use]
    pub fn cast(&self, dtype: DType) -> Tensor {
        if dtype == self.dtype() {
            return self.clone();
        }
        let mut result = Tensor::from_elements(dtype, self.elements());
        result.undefined.clone_from(&self.undefined);
        result
    }

    /// Where the first element lies.
    fn address(&self) -> usize {
        for_each_dtype!(&self.data, array, make => array.as_ptr().addr())
    }

    /// Whether both have the same elements in memory: one is a clone of the other.
    #[must_use]
    pub fn shares(&self, other: &Tensor) -> bool {
        let alike = self.dtype() == other.dtype() && self.shape() == other.shape();
        let defined = self.undefined.is_none() && other.undefined.is_none();
        alike && defined && self.address() == other.address()
    }

    /// The same shape, dtype and elements: bit for bit, but for NaNs, which are all alike.
    #[must_use]
    pub fn same_as(&self, other: &Tensor) -> bool {
        if self.dtype() != other.dtype() || self.shape() != other.shape() {
            return false;
        }
        if self.undefined != other.undefined {
            return false;
        }
        (0..self.len()).all(|p| match (self.number(p), other.number(p)) {
            (Number::Float(a), Number::Float(b)) => {
                a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
            }
            (a, b) => a == b,
        })
    }
}
