//! Built-ins of phase P2.3 on heaps of dims, and their checks of values: the same dims and demands as of the annotations that
//! stand in the text before.
//!
//! A heap is known by what its slots hold. It stays within the function: whoever else is given one could store in it.

use super::evaluate::{Ran, Side};
use super::values::Value;
use relax_semantics::ops::{HeapBuiltin, Known, Operator, heap_builtin};
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};
use std::collections::BTreeMap;

/// What is stored, by heap and slot.
pub(super) type Slots = BTreeMap<(usize, i64), Dim>;

/// All heaps of a run.
#[derive(Clone, Default)]
pub(super) struct Heaps {
    /// How many slots each has.
    sizes: Vec<i64>,
    pub(super) slots: Slots,
}

impl Heaps {
    /// Behind a branch slots hold what they hold on both of its sides.
    pub(super) fn keep_common(&mut self, mut one: Slots, other: &Slots) {
        one.retain(|slot, dim| other.get(slot) == Some(dim));
        self.slots = one;
    }
}

/// What a check does with a dim.
enum Code {
    Skip,
    Store(i64),
    Equal(Dim),
}

impl Side<'_> {
    /// A call of a built-in on heaps or of a check; `None`: it is neither.
    pub(super) fn heap_call(&mut self, row: &Operator, bound: &[Value]) -> Ran<Option<Value>> {
        let Some(builtin) = heap_builtin(row) else { return Ok(None) };
        let value = match (builtin, bound) {
            (HeapBuiltin::Alloc, [size]) => {
                self.heaps.sizes.push(integer(size)?);
                return Ok(Some(Value::Heap(self.heaps.sizes.len() - 1)));
            }
            (HeapBuiltin::LoadDim, [heap, slot]) => {
                Value::Known(Known::Dim(self.load(self.slot(heap, slot)?)?))
            }
            (HeapBuiltin::MakeShape, [heap, codes]) => {
                let dims = self.dims(heap, codes)?;
                self.needs_extents(&dims);
                Value::Shape(dims)
            }
            (HeapBuiltin::MakeAnnotation, [heap, codes, dtype]) => {
                let (extents, dtype) = (Extents::Known(self.dims(heap, codes)?), dtype_of(dtype)?);
                let annotation = Annotation::Tensor(TensorType { extents, dtype });
                Value::Known(Known::Annotation(annotation.into()))
            }
            (HeapBuiltin::CheckKind, [value, kind, size, dtype, ..]) => {
                self.kind_check(value, text(kind)?, size, dtype)?;
                unit()
            }
            (HeapBuiltin::MatchShape, [value, heap, codes, ..]) => {
                self.shape_match(value, heap, codes)?;
                unit()
            }
            (HeapBuiltin::CheckBound, [heap, slot, fact, limit, ..]) => {
                let dim = self.load(self.slot(heap, slot)?)?;
                let limit = Dim::Int(integer(limit)?);
                self.demand(match text(fact)? {
                    "lower_bound" => Claim::new(limit, Relation::AtMost, dim),
                    "upper_bound" => Claim::new(dim, Relation::AtMost, limit),
                    "multiple_of" => Claim::new(limit, Relation::Divides, dim),
                    _ => return Err("a bound of another kind".into()),
                });
                unit()
            }
            (HeapBuiltin::CheckExtent, [heap, slot, ..]) => {
                let dim = self.load(self.slot(heap, slot)?)?;
                self.needs_extents(&[dim]);
                unit()
            }
            (HeapBuiltin::ComputeDim, [heap, slot, op, a, b, ..]) => {
                let op = DimOp::of_symbol(text(op)?).ok_or("an operation on dims")?;
                let dim = Dim::op(op, self.coded(heap, a)?, self.coded(heap, b)?);
                self.needs_value(&dim);
                let slot = self.slot(heap, slot)?;
                self.heaps.slots.insert(slot, dim);
                unit()
            }
            _ => return Err("a built-in with other arguments".into()),
        };
        Ok(Some(value))
    }

    /// A heap and one of its slots.
    fn slot(&self, heap: &Value, slot: &Value) -> Ran<(usize, i64)> {
        let Value::Heap(heap) = heap else { return Err("a heap that is not known".into()) };
        let slot = integer(slot)?;
        if (0..self.heaps.sizes[*heap]).contains(&slot) {
            Ok((*heap, slot))
        } else {
            Err("a heap without that slot".into())
        }
    }

    fn load(&self, slot: (usize, i64)) -> Ran<Dim> {
        self.heaps.slots.get(&slot).cloned().ok_or_else(|| "a slot that may hold nothing".into())
    }

    /// An integer, or what a slot holds.
    fn coded(&self, heap: &Value, code: &Value) -> Ran<Dim> {
        match self.code(heap, code)? {
            Code::Equal(dim) => Ok(dim),
            _ => Err("a dim without a value".into()),
        }
    }

    fn code(&self, heap: &Value, code: &Value) -> Ran<Code> {
        match code {
            Value::Known(Known::None) => Ok(Code::Skip),
            Value::Known(Known::Dim(dim @ Dim::Int(_))) => Ok(Code::Equal(dim.clone())),
            Value::Tuple(parts) => match parts.as_slice() {
                [Value::Known(Known::Str(how)), slot] => {
                    let slot = self.slot(heap, slot)?;
                    match how.as_str() {
                        "slot" => Ok(Code::Equal(self.load(slot)?)),
                        "store" => Ok(Code::Store(slot.1)),
                        _ => Err("a code of a dim".into()),
                    }
                }
                _ => Err("a code of a dim".into()),
            },
            _ => Err("a code of a dim".into()),
        }
    }

    fn dims(&self, heap: &Value, codes: &Value) -> Ran<Vec<Dim>> {
        let Value::Tuple(codes) = codes else { return Err("codes of dims".into()) };
        codes.iter().map(|code| self.coded(heap, code)).collect()
    }

    /// The check that a value is of a kind, which tells its rank and dtype from there on.
    fn kind_check(&mut self, value: &Value, kind: &str, size: &Value, dtype: &Value) -> Ran<()> {
        let dtype = dtype_of(dtype)?;
        let size = match size {
            Value::Known(Known::None) => None,
            size => Some(usize::try_from(integer(size)?).map_err(|_| "a rank below 0")?),
        };
        match (kind, self.settled(value.clone())) {
            ("tensor", Value::Entry(id)) => self.tensor_told(id, size, dtype).map(drop),
            ("shape", Value::Entry(id)) => self.shape_told(id, size).map(drop),
            ("tuple", Value::Entry(id)) => self.tuple_told(id, size.ok_or("a tuple of any size")?),
            ("shape", Value::Shape(dims)) if size.is_none_or(|size| size == dims.len()) => Ok(()),
            ("tuple", Value::Tuple(items)) if size == Some(items.len()) => Ok(()),
            ("function", Value::Function(_)) => Ok(()),
            ("function", value) => {
                self.unless_known(&value, &Annotation::Callable(None));
                Ok(())
            }
            ("scalar", value) => {
                let dtype = dtype.ok_or("a scalar of any dtype")?;
                self.unless_known(&value, &Annotation::Prim(dtype));
                Ok(())
            }
            _ => Err("a check of another kind".into()),
        }
    }

    /// The check of each dim, in order: what is stored may be compared further on.
    fn shape_match(&mut self, value: &Value, heap: &Value, codes: &Value) -> Ran<()> {
        let Value::Tuple(codes) = codes else { return Err("codes of dims".into()) };
        let dims = match self.settled(value.clone()) {
            Value::Shape(dims) => dims,
            Value::Entry(id) => match self.annotation(id) {
                Annotation::Tensor(_) | Annotation::DTensor(_) => {
                    self.tensor_told(id, Some(codes.len()), None)?.ok_or("dims of a tensor")?
                }
                Annotation::Shape(_) => {
                    self.shape_told(id, Some(codes.len()))?.ok_or("dims of a shape")?
                }
                _ => return Err("dims of a value of an unknown kind".into()),
            },
            _ => return Err("dims of another value".into()),
        };
        if dims.len() != codes.len() {
            return Err("a value of another rank".into());
        }
        for (dim, code) in dims.into_iter().zip(codes) {
            match (self.code(heap, code)?, heap) {
                (Code::Skip, _) => {}
                (Code::Store(slot), Value::Heap(heap)) => {
                    self.heaps.slots.insert((*heap, slot), dim);
                }
                (Code::Store(_), _) => return Err("a heap that is not known".into()),
                (Code::Equal(wanted), _) if wanted == dim => {}
                (Code::Equal(wanted), _) => {
                    self.demand(Claim::new(dim, Relation::Equal, wanted));
                }
            }
        }
        Ok(())
    }
}

/// Refuses heaps among what others are given: they could store in them.
pub(super) fn without_heaps(values: &[Value]) -> Ran<()> {
    values.iter().try_for_each(|value| match value {
        Value::Heap(_) => Err("a heap that another function is given".to_owned()),
        Value::Tuple(items) => without_heaps(items),
        _ => Ok(()),
    })
}

fn unit() -> Value {
    Value::Tuple(Vec::new())
}

fn text(value: &Value) -> Ran<&str> {
    match value {
        Value::Known(Known::Str(text)) => Ok(text),
        _ => Err("a text that is computed".into()),
    }
}

fn integer(value: &Value) -> Ran<i64> {
    match value {
        Value::Known(Known::Dim(Dim::Int(value))) => Ok(*value),
        _ => Err("an integer that is computed".into()),
    }
}

fn dtype_of(value: &Value) -> Ran<Option<DType>> {
    match value {
        Value::Known(Known::None) => Ok(None),
        value => DType::parse(text(value)?).map(Some).ok_or_else(|| "a dtype".into()),
    }
}
