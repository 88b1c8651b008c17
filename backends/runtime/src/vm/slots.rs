//! Slots of a heap: what stands for symbolic dims.

use super::Run;
use crate::instruction::{Code, DimOp, Instruction, Operand};
use crate::stop::Stop;
use crate::value::{Heap, Kept, Machine, Output, Value, is_allocatable};
use std::sync::Arc;

/// Slots of one heap.
const MAX_SLOTS: usize = 1 << 20;

impl Run<'_> {
    /// Built-ins on values and slots.
    pub(super) fn built_in(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        use Instruction as I;
        match instruction {
            I::AllocHeap { to, size } => {
                let heap = self.alloc_heap(*size)?;
                self.set(*to, heap);
            }
            I::CheckKind { value, kind, size, dtype, label } => {
                self.check_kind(*value, *kind, *size, *dtype, *label)?;
            }
            I::MatchShape { value, heap, codes, terms, label } => {
                self.match_shape(*value, *heap, (codes, terms), *label)?;
            }
            I::CheckBound { .. } => self.check_bound(instruction)?,
            I::CheckExtent { heap, slot, about } => self.check_extent(*heap, *slot, *about)?,
            I::CheckNatural { value, id } => self.check_natural(*value, *id)?,
            I::ComputeDim { .. } => self.compute_dim(instruction)?,
            I::LoadDim { to, heap, slot } => {
                let value = stored(self.heap(*heap, "load_dim")?, "load_dim", *slot)?;
                self.set(*to, Value::int(value));
            }
            I::MakeShape { to, heap, codes } => {
                let dims = self.dims(*heap, "make_shape", codes)?;
                if let Some(dim) = dims.iter().find(|dim| **dim < 0) {
                    let message = format!("a dim may not be negative, found {dim}");
                    return Err(Stop::trap("shape/negative", message));
                }
                self.set(*to, Value::Shape(dims));
            }
            I::MakeOutput { to, heap, codes, dtype } => {
                let dims = self.dims(*heap, "make_annotation", codes)?;
                self.set(
                    *to,
                    Value::Output(Arc::new(Output { dtype: *dtype, dims: dims.to_vec() })),
                );
            }
            I::ReadShape { to, tensor } => {
                let shape = self.read_shape(*tensor)?;
                self.set(*to, shape);
            }
            other => return Err(Stop::Unsupported(format!("the instruction {other:?}"))),
        }
        Ok(())
    }

    fn alloc_heap(&self, size: Operand) -> Result<Value, Stop> {
        let size = self.integer(size, "builtin.alloc_shape_heap")?;
        let slots = usize::try_from(size).map_err(|_| {
            Stop::trap("builtin.alloc_shape_heap/C1", "a heap has at least 0 slots")
        })?;
        if slots > MAX_SLOTS {
            let detail = format!("a heap of {slots} slots; the limit is {MAX_SLOTS}");
            return Err(Stop::Exhausted { resource: "memory", detail });
        }
        Ok(Value::Machine(Machine(Kept::Heap(Arc::new(Heap::new(slots))))))
    }

    pub(super) fn heap(&self, heap: Operand, row: &str) -> Result<&Heap, Stop> {
        match self.given(heap)? {
            Value::Machine(Machine(Kept::Heap(heap))) => Ok(heap),
            other => {
                let message = format!("`heap` must be a shape heap, found {}", other.kind());
                Err(Stop::trap(format!("builtin.{row}/C1"), message))
            }
        }
    }

    fn dims(&self, heap: Operand, row: &str, codes: &[Code]) -> Result<Arc<[i64]>, Stop> {
        let heap = self.heap(heap, row)?;
        // Of a known length, so that there is one allocation.
        let mut dims: Arc<[i64]> = std::iter::repeat_n(0, codes.len()).collect();
        for (dim, code) in Arc::make_mut(&mut dims).iter_mut().zip(codes) {
            *dim = match code {
                Code::Literal(value) => *value,
                Code::Slot(slot) => stored(heap, row, *slot)?,
                Code::Skip | Code::Store(_) => {
                    let message = "a dim is an integer or a slot";
                    return Err(Stop::trap(format!("builtin.{row}/C2"), message));
                }
            };
        }
        Ok(dims)
    }

    fn compute_dim(&self, instruction: &Instruction) -> Result<(), Stop> {
        let Instruction::ComputeDim { heap, slot, op, a, b, check, about } = instruction else {
            return Ok(());
        };
        let heap = self.heap(*heap, "compute_dim")?;
        let failed = |why: &str| {
            let about = self.text(*about);
            let message = if about.is_empty() { why.to_owned() } else { format!("{about}: {why}") };
            Stop::trap(self.text(*check), message)
        };
        let operand = |code: &Code| match code {
            Code::Literal(value) => Ok(*value),
            Code::Slot(slot) => load(heap, "compute_dim", *slot)?
                .ok_or_else(|| failed(&format!("nothing was stored in slot {slot}"))),
            Code::Skip | Code::Store(_) => {
                Err(Stop::trap("builtin.compute_dim/C2", "an operand is an integer or a slot"))
            }
        };
        let (a, b) = (operand(a)?, operand(b)?);
        let value = compute(*op, a, b).map_err(|why| failed(&why))?;
        store(heap, "compute_dim", *slot, value)
    }

    /// An integer of the program.
    pub(super) fn integer(&self, operand: Operand, row: &str) -> Result<i64, Stop> {
        use crate::dtype::DType;
        use crate::value::Number;
        match self.given(operand)? {
            Value::Scalar(DType::I64, Number::Int(value)) => {
                Ok(i64::try_from(*value).unwrap_or(i64::MAX))
            }
            other => {
                let message = format!("expected an integer, found {}", other.kind());
                Err(Stop::trap(format!("{row}/kind"), message))
            }
        }
    }

    /// Dims of a shape, or of a tuple of integers, as a tensor can have them.
    pub(super) fn shape(&self, operand: Operand, row: &str) -> Result<Arc<[i64]>, Stop> {
        match self.given(operand)? {
            Value::Shape(dims) => Ok(Arc::clone(dims)),
            Value::Tuple(tuple) => {
                use crate::value::Number;
                let dims = tuple.items().iter().map(|item| match item {
                    Value::Scalar(_, Number::Int(value)) => i64::try_from(*value).ok(),
                    _ => None,
                });
                dims.collect::<Option<Arc<[i64]>>>()
                    .ok_or_else(|| Stop::trap(format!("{row}/kind"), "a shape is made of integers"))
            }
            other => {
                let message = format!("expected a shape, found {}", other.kind());
                Err(Stop::trap(format!("{row}/kind"), message))
            }
        }
    }
}

/// The bytes of a tensor, or the limit that it breaks.
pub(super) fn checked_bytes(dtype: crate::dtype::DType, dims: &[i64]) -> Result<(), Stop> {
    if let Some(dim) = dims.iter().find(|dim| **dim < 0) {
        let message = format!("a dim may not be negative, found {dim}");
        return Err(Stop::trap("shape/negative", message));
    }
    if is_allocatable(dtype, dims) {
        return Ok(());
    }
    let detail = format!("a {dtype} tensor of shape {dims:?} has more bytes than there are");
    Err(Stop::Exhausted { resource: "memory", detail })
}

/// What a slot holds; `None` when nothing was stored.
pub(super) fn load(heap: &Heap, row: &str, slot: i64) -> Result<Option<i64>, Stop> {
    let missing =
        || Stop::trap(format!("builtin.{row}/C1"), format!("the heap has no slot {slot}"));
    heap.load(slot).ok_or_else(missing)
}

/// What a slot holds.
pub(super) fn stored(heap: &Heap, row: &str, slot: i64) -> Result<i64, Stop> {
    let empty =
        || Stop::trap(format!("builtin.{row}/C3"), format!("nothing was stored in slot {slot}"));
    load(heap, row, slot)?.ok_or_else(empty)
}

pub(super) fn store(heap: &Heap, row: &str, slot: i64, value: i64) -> Result<(), Stop> {
    if heap.store(slot, value) {
        return Ok(());
    }
    Err(Stop::trap(format!("builtin.{row}/C1"), format!("the heap has no slot {slot}")))
}

/// Floor semantics; the error says what has no value in i64.
fn compute(op: DimOp, a: i64, b: i64) -> Result<i64, String> {
    let value = match op {
        DimOp::Add => a.checked_add(b),
        DimOp::Sub => a.checked_sub(b),
        DimOp::Mul => a.checked_mul(b),
        DimOp::FloorDiv => floor_div(a, b),
        DimOp::FloorMod => floor_mod(a, b),
        DimOp::Min => Some(a.min(b)),
        DimOp::Max => Some(a.max(b)),
        DimOp::CeilDiv => {
            let is_inexact = floor_mod(a, b) != Some(0);
            floor_div(a, b).and_then(|low| low.checked_add(i64::from(is_inexact)))
        }
    };
    let divides = matches!(op, DimOp::FloorDiv | DimOp::FloorMod | DimOp::CeilDiv);
    value.ok_or_else(|| {
        let shown = shown(op, a, b);
        if divides && b == 0 {
            format!("`{shown}` divides by zero")
        } else {
            format!("`{shown}` leaves the range of i64")
        }
    })
}

/// As a term of the language.
fn shown(op: DimOp, a: i64, b: i64) -> String {
    let infix = |symbol: &str| format!("{a} {symbol} {b}");
    match op {
        DimOp::Add => infix("+"),
        DimOp::Sub => infix("-"),
        DimOp::Mul => infix("*"),
        DimOp::FloorDiv => infix("//"),
        DimOp::FloorMod => infix("%"),
        DimOp::Min => format!("min({a}, {b})"),
        DimOp::Max => format!("max({a}, {b})"),
        DimOp::CeilDiv => format!("ceildiv({a}, {b})"),
    }
}

/// `a // b` rounded towards minus infinity.
fn floor_div(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    let is_inexact = a % b != 0;
    Some(if is_inexact && (a < 0) != (b < 0) { quotient - 1 } else { quotient })
}

/// `a % b` with the sign of `b`.
pub(super) fn floor_mod(a: i64, b: i64) -> Option<i64> {
    let remainder = a.checked_rem(b).or(if b == -1 { Some(0) } else { None })?;
    Some(if remainder != 0 && (remainder < 0) != (b < 0) { remainder + b } else { remainder })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_rounds_towards_minus_infinity() {
        assert_eq!(compute(DimOp::FloorDiv, -7, 2), Ok(-4));
        assert_eq!(compute(DimOp::FloorMod, -7, 2), Ok(1));
        assert_eq!(compute(DimOp::FloorMod, 7, -2), Ok(-1));
        assert_eq!(compute(DimOp::CeilDiv, 7, 2), Ok(4));
        assert_eq!(compute(DimOp::CeilDiv, -7, 2), Ok(-3));
        assert_eq!(compute(DimOp::FloorMod, i64::MIN, -1), Ok(0));
    }

    #[test]
    fn what_has_no_value_says_so() {
        let why = compute(DimOp::FloorDiv, 3, 0);
        assert_eq!(why, Err("`3 // 0` divides by zero".to_owned()));
        let why = compute(DimOp::Mul, i64::MAX, 2);
        assert_eq!(why, Err(format!("`{} * 2` leaves the range of i64", i64::MAX)));
        assert!(compute(DimOp::FloorDiv, i64::MIN, -1).is_err());
    }
}
