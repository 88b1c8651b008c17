//! Run-time values.

use crate::tensor::{Number, Tensor};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents, Signature, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{Lambda, VarId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Any run-time value.
#[derive(Clone, Debug)]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// A shape; every dim is at least 0.
    Shape(Vec<i64>),
    /// A tuple; of nothing: unit.
    Tuple(Vec<Value>),
    /// A scalar; an integer attribute is an i64, a float one an f64.
    Prim(DType, Number),
    /// A string, as an attribute.
    Str(Name),
    /// `None`, as an attribute.
    None,
    /// An annotation, as the output argument of `call_tir` and its like.
    Annotation(Arc<Annotation>),
    /// A function or tensor program of the module.
    Global(Name),
    /// A closure with what it captured.
    Closure(Arc<Closure>),
    /// A function with its last arguments given.
    Partial(Arc<Partial>),
    /// Memory that tensors are taken from.
    Storage(Storage),
    /// The slots of a function's symbolic variables, once they are lowered.
    Heap(ShapeHeap),
    /// A tensor in a storage: whoever needs its elements asks [`crate::memory::Memory`].
    Placed(Placed),
}

/// A function with its last arguments given (`make_closure`).
#[derive(Clone, Debug)]
pub struct Partial {
    /// What is called.
    pub function: Value,
    /// The arguments that follow those of the call.
    pub last: Vec<Value>,
}

/// Memory of a number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Which of the run's.
    pub(crate) id: usize,
    /// Its size.
    pub bytes: i64,
    /// The element type it was asked for in.
    pub dtype: DType,
}

/// A name of a tensor that lies in a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Which of the run's.
    pub(crate) instance: usize,
    /// Its element type.
    pub(crate) dtype: DType,
    /// Its extents under this name: a view may have others.
    pub(crate) shape: Vec<usize>,
}

/// Slots for integers, shared by all names of the heap.
#[derive(Clone, Debug)]
pub struct ShapeHeap(Arc<Mutex<Vec<Option<i64>>>>);

impl ShapeHeap {
    /// Nothing is stored yet.
    pub(crate) fn new(size: usize) -> Self {
        Self(Arc::new(Mutex::new(vec![None; size])))
    }

    /// What a slot holds; `None` when there is no such slot.
    pub(crate) fn load(&self, slot: i64) -> Option<Option<i64>> {
        let slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slots.get(usize::try_from(slot).ok()?).copied()
    }

    /// False when there is no such slot.
    pub(crate) fn store(&self, slot: i64, value: i64) -> bool {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match usize::try_from(slot).ok().and_then(|at| slots.get_mut(at)) {
            Some(held) => {
                *held = Some(value);
                true
            }
            None => false,
        }
    }
}

/// A nested function with the variables it sees.
#[derive(Clone, Debug)]
pub struct Closure {
    /// The top-level function it stands in, whose tables its ids refer to.
    pub function: Name,
    /// The variable it was bound to.
    pub var: VarId,
    /// Its parameters and body.
    pub lambda: Arc<Lambda>,
    /// Values of the variables around it.
    pub values: BTreeMap<VarId, Value>,
    /// Values of the symbolic variables around it.
    pub dims: crate::interp::DimValues,
}

impl Value {
    /// The integer `value` as a scalar.
    #[must_use]
    pub fn int(value: i64) -> Self {
        Value::Prim(DType::I64, Number::Int(value.into()))
    }

    /// The most precise annotation of this very value: every dim is a number.
    #[must_use]
    pub fn annotation(&self) -> Annotation {
        match self {
            Value::Tensor(tensor) => Annotation::Tensor(tensor_type(tensor)),
            Value::Placed(placed) => Annotation::Tensor(known_type(&placed.shape, placed.dtype)),
            Value::Shape(dims) => {
                Annotation::Shape(Extents::Known(dims.iter().map(|&d| Dim::Int(d)).collect()))
            }
            Value::Tuple(items) => Annotation::Tuple(items.iter().map(Value::annotation).collect()),
            Value::Prim(dtype, _) => Annotation::Prim(*dtype),
            Value::Str(_)
            | Value::None
            | Value::Annotation(_)
            | Value::Storage(_)
            | Value::Heap(_) => Annotation::Object,
            Value::Global(_) | Value::Partial(_) => Annotation::Callable(None),
            Value::Closure(closure) => Annotation::Callable(Some(Box::new(Signature {
                params: closure.lambda.params.iter().map(|_| Annotation::Object).collect(),
                result: closure.lambda.result.clone().unwrap_or(Annotation::Object),
                pure: true,
            }))),
        }
    }

    /// What kind of value it is, in a message.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Tensor(_) | Value::Placed(_) => "a tensor",
            Value::Shape(_) => "a shape",
            Value::Tuple(_) => "a tuple",
            Value::Prim(..) => "a scalar",
            Value::Str(_) => "a string",
            Value::None => "None",
            Value::Annotation(_) => "an annotation",
            Value::Global(_) | Value::Closure(_) | Value::Partial(_) => "a function",
            Value::Storage(_) => "a storage",
            Value::Heap(_) => "a shape heap",
        }
    }
}

/// The annotation of a tensor: its dims as literals.
#[must_use]
pub fn tensor_type(tensor: &Tensor) -> TensorType {
    known_type(tensor.shape(), tensor.dtype())
}

fn known_type(shape: &[usize], dtype: DType) -> TensorType {
    let dims = shape.iter().map(|&d| Dim::Int(i64::try_from(d).unwrap_or(i64::MAX)));
    TensorType { extents: Extents::Known(dims.collect()), dtype: Some(dtype) }
}
