//! Values that programs take, pass around and give.

use crate::dtype::{DType, dense_bytes};
use crate::stop::Stop;
use crate::tensor::Tensor;
use crate::vm::memory::{Placed, Storage};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

/// A value of a program.
#[derive(Clone, Debug)]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// A shape; every dim is at least 0.
    Shape(Arc<[i64]>),
    /// A tuple; of nothing: unit.
    Tuple(Tuple),
    /// A scalar; an integer of the text is an i64, a float an f64.
    Scalar(DType, Number),
    /// A text.
    Str(Arc<str>),
    /// Nothing.
    None,
    /// What a call of a host function is to give.
    Output(Arc<Output>),
    /// A function of the module, by its place.
    Function(u32),
    /// A kernel of the module, by its place.
    Kernel(u32),
    /// A function with its last arguments given.
    Closure(Arc<Closure>),
    /// What only the machine itself uses.
    Machine(Machine),
}

/// A number in the domain of its dtype. Two are equal when their bits are: `-0.0` is another constant than `0.0`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Number {
    /// Of an integer dtype, or bool: 0 and 1.
    Int(i128),
    /// Of a float dtype.
    Float(f64),
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            _ => false,
        }
    }
}

/// Dtype and dims of a tensor to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// `None`: any.
    pub dtype: Option<DType>,
    /// The dims.
    pub dims: Vec<i64>,
}

/// A tuple. Tuples in tuples are limited, so that no walk through one exhausts the stack.
#[derive(Clone, Debug)]
pub struct Tuple {
    items: Arc<[Value]>,
    /// Of tuples in tuples.
    depth: u32,
    /// With those of fields.
    fields: u32,
}

/// A function with its last arguments given.
#[derive(Clone, Debug)]
pub struct Closure {
    pub(crate) function: Value,
    pub(crate) last: Tuple,
    depth: u32,
}

/// Tuples within tuples.
const MAX_DEPTH: u32 = 256;
/// Fields of a tuple, those of its fields included.
const MAX_FIELDS: u32 = 1 << 16;

/// A value that does not leave the machine alive.
#[derive(Clone, Debug)]
pub struct Machine(pub(crate) Kept);

/// What a [`Machine`] value is.
#[derive(Clone, Debug)]
pub(crate) enum Kept {
    /// A register that holds nothing.
    Empty,
    /// A tensor in a storage.
    Placed(Placed),
    /// Memory that tensors are taken from.
    Storage(Arc<Storage>),
    /// Slots for integers.
    Heap(Arc<Heap>),
    /// What somebody still computes.
    Promised(Promise),
}

/// A value that somebody else computes while the machine goes on. Whatever reads it waits.
#[derive(Clone, Debug, Default)]
pub struct Promise(Arc<Promised>);

#[derive(Debug, Default)]
struct Promised {
    value: OnceLock<Result<Value, Stop>>,
    is_awaited: AtomicBool,
}

impl Promise {
    /// Says what came of it. What was said first counts.
    pub fn keep(&self, value: Result<Value, Stop>) {
        let _ = self.0.value.set(value);
    }

    /// Whether the machine does nothing else until it is kept.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.0.is_awaited.load(Ordering::Relaxed)
    }

    pub(crate) fn wait(&self) -> Result<&Value, Stop> {
        self.0.is_awaited.store(true, Ordering::Relaxed);
        self.0.value.wait().as_ref().map_err(Clone::clone)
    }
}

impl From<Promise> for Value {
    fn from(promise: Promise) -> Self {
        Value::Machine(Machine(Kept::Promised(promise)))
    }
}

/// Slots for integers, shared by all names of the heap.
#[derive(Debug)]
pub(crate) struct Heap(Box<[Slot]>);

#[derive(Debug, Default)]
struct Slot {
    value: AtomicI64,
    is_full: AtomicBool,
}

impl Heap {
    pub(crate) fn new(size: usize) -> Self {
        Self((0..size).map(|_| Slot::default()).collect())
    }

    /// What a slot holds; `None` when there is no such slot.
    pub(crate) fn load(&self, slot: i64) -> Option<Option<i64>> {
        let slot = self.0.get(usize::try_from(slot).ok()?)?;
        let value = slot.value.load(Ordering::Relaxed);
        Some(slot.is_full.load(Ordering::Relaxed).then_some(value))
    }

    /// False when there is no such slot.
    pub(crate) fn store(&self, slot: i64, value: i64) -> bool {
        let Some(slot) = usize::try_from(slot).ok().and_then(|at| self.0.get(at)) else {
            return false;
        };
        slot.value.store(value, Ordering::Relaxed);
        slot.is_full.store(true, Ordering::Relaxed);
        true
    }
}

impl Tuple {
    /// A tuple of these.
    ///
    /// # Errors
    /// When it nests too deep or has too many fields, those of its fields included.
    pub fn new(items: Vec<Value>) -> Result<Self, Stop> {
        let (mut depth, mut fields) = (0, 0_u32);
        for item in &items {
            let (own_depth, own_fields) = item.extent();
            depth = depth.max(own_depth);
            fields = fields.saturating_add(own_fields);
        }
        if depth >= MAX_DEPTH || fields > MAX_FIELDS {
            let detail = format!(
                "a tuple of more than {MAX_FIELDS} fields, those of its fields included, or tuples more \
                 than {MAX_DEPTH} deep"
            );
            return Err(Stop::Exhausted { resource: "memory", detail });
        }
        Ok(Self { items: items.into(), depth: depth + 1, fields: fields + 1 })
    }

    /// The tuple without fields.
    #[must_use]
    pub fn unit() -> Self {
        Self { items: Arc::from([]), depth: 1, fields: 1 }
    }

    /// The fields.
    #[must_use]
    pub fn items(&self) -> &[Value] {
        &self.items
    }
}

impl Closure {
    pub(crate) fn new(function: Value, last: Tuple) -> Result<Self, Stop> {
        let depth = function.extent().0.max(last.depth) + 1;
        if depth >= MAX_DEPTH {
            let detail = format!("closures more than {MAX_DEPTH} deep");
            return Err(Stop::Exhausted { resource: "memory", detail });
        }
        Ok(Self { function, last, depth })
    }

    /// What is called.
    #[must_use]
    pub fn function(&self) -> &Value {
        &self.function
    }

    /// The arguments that follow those of a call.
    #[must_use]
    pub fn last(&self) -> &[Value] {
        self.last.items()
    }
}

impl Value {
    /// An i64.
    #[must_use]
    pub fn int(value: i64) -> Self {
        Value::Scalar(DType::I64, Number::Int(value.into()))
    }

    /// A tuple of nothing.
    #[must_use]
    pub fn unit() -> Self {
        Value::Tuple(Tuple::unit())
    }

    pub(crate) const EMPTY: Value = Value::Machine(Machine(Kept::Empty));

    fn extent(&self) -> (u32, u32) {
        match self {
            Value::Tuple(tuple) => (tuple.depth, tuple.fields),
            Value::Closure(closure) => (closure.depth, 1),
            _ => (0, 1),
        }
    }

    /// What kind of value it is, in a message.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Tensor(_) | Value::Machine(Machine(Kept::Placed(_))) => "a tensor",
            Value::Shape(_) => "a shape",
            Value::Tuple(_) => "a tuple",
            Value::Scalar(..) => "a scalar",
            Value::Str(_) => "a string",
            Value::None => "None",
            Value::Output(_) => "an annotation",
            Value::Function(_) | Value::Kernel(_) | Value::Closure(_) => "a function",
            Value::Machine(Machine(Kept::Storage(_))) => "a storage",
            Value::Machine(Machine(Kept::Heap(_))) => "a shape heap",
            Value::Machine(Machine(Kept::Promised(_))) => "a promise",
            Value::Machine(Machine(Kept::Empty)) => "nothing",
        }
    }

    /// Dtype and dims of a tensor.
    pub(crate) fn as_tensor(&self) -> Option<(DType, &[i64])> {
        match self {
            Value::Tensor(tensor) => Some((tensor.dtype, &tensor.shape)),
            Value::Machine(Machine(Kept::Placed(placed))) => Some((placed.dtype, &placed.shape)),
            _ => None,
        }
    }

    /// The dims of a tensor or shape.
    pub(crate) fn dims(&self) -> Option<&[i64]> {
        match self {
            Value::Shape(dims) => Some(dims),
            other => other.as_tensor().map(|(_, shape)| shape),
        }
    }

    /// As an annotation would say it: `Tensor((2, 3), "f32")`.
    pub(crate) fn described(&self) -> String {
        match (self, self.as_tensor()) {
            (_, Some((dtype, shape))) => format!("Tensor({}, \"{dtype}\")", shown_shape(shape)),
            (Value::Shape(dims), _) => format!("Shape({dims:?})"),
            (Value::Scalar(dtype, _), _) => format!("Prim(\"{dtype}\")"),
            (Value::Tuple(tuple), _) => {
                let items: Vec<_> = tuple.items().iter().map(Value::described).collect();
                format!("Tuple[{}]", items.join(", "))
            }
            (Value::Function(_) | Value::Kernel(_) | Value::Closure(_), _) => "Callable".to_owned(),
            _ => "Object".to_owned(),
        }
    }
}

impl From<Placed> for Value {
    fn from(placed: Placed) -> Self {
        Value::Machine(Machine(Kept::Placed(placed)))
    }
}

/// `(2, 3)`, `(4,)`
pub(crate) fn shown_shape(shape: &[i64]) -> String {
    let dims: Vec<_> = shape.iter().map(ToString::to_string).collect();
    if shape.len() == 1 { format!("({},)", dims[0]) } else { format!("({})", dims.join(", ")) }
}

/// Whether a shape has a tensor of a dtype.
pub(crate) fn is_allocatable(dtype: DType, shape: &[i64]) -> bool {
    dense_bytes(dtype, shape).is_some()
}
