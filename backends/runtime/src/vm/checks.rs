//! Checks of values, one step at a time, with the words of the interpreter.

use super::Run;
use super::slots::{floor_mod, load, store, stored};
use crate::dtype::DType;
use crate::instruction::{Code, Fact, Instruction, Kind, Label, Operand, Text};
use crate::stop::Stop;
use crate::value::{Kept, Machine, Number, Value, shown_shape};

impl Run<'_> {
    /// The trap of a check: `boundary/dim`.
    fn failed(&self, label: Label, what: &str, message: String) -> Stop {
        let check = self.text(label.check);
        let id = if check.contains('/') { check.to_owned() } else { format!("{check}/{what}") };
        Stop::trap(id, message)
    }

    pub(super) fn check_kind(
        &self,
        operand: Operand,
        kind: Kind,
        size: Option<i64>,
        dtype: Option<DType>,
        label: Label,
    ) -> Result<(), Stop> {
        let value = self.given(operand)?;
        if found(value) != Some(kind) {
            let (about, expected) = (self.text(label.about), self.text(label.expected));
            let message = format!("{about} must be `{expected}`, found {}", value.kind());
            return Err(self.failed(label, "kind", message));
        }
        let own = match value {
            Value::Scalar(dtype, _) => Some(*dtype),
            other => other.as_tensor().map(|(dtype, _)| dtype),
        };
        if let (Some(expected), Some(found)) = (dtype, own)
            && expected != found
        {
            let about = self.text(label.about);
            let message = format!("{about} must have dtype {expected}, found {found}");
            return Err(self.failed(label, "dtype", message));
        }
        size.map_or(Ok(()), |size| self.check_size(value, size, label))
    }

    fn check_size(&self, value: &Value, size: i64, label: Label) -> Result<(), Stop> {
        let about = self.text(label.about);
        let message = match (value, value.dims()) {
            (Value::Tuple(tuple), _) if usize::try_from(size) != Ok(tuple.items().len()) => {
                format!("{about} must have {size} fields, found {}", tuple.items().len())
            }
            (_, Some(dims)) if usize::try_from(size) != Ok(dims.len()) => format!(
                "{about} must be `{}`, of rank {size}; found the shape {}, of rank {}",
                self.text(label.expected),
                shown_shape(dims),
                dims.len()
            ),
            _ => return Ok(()),
        };
        Err(self.failed(label, "rank", message))
    }

    pub(super) fn match_shape(
        &self,
        operand: Operand,
        heap: Operand,
        (codes, terms): (&[Code], &[Text]),
        label: Label,
    ) -> Result<(), Stop> {
        let (value, about) = (self.given(operand)?, self.text(label.about));
        let Some(dims) = value.dims() else {
            let message = format!("{about} must be a tensor or shape, found {}", value.kind());
            return Err(self.failed(label, "kind", message));
        };
        if codes.len() != dims.len() {
            let message = format!("{about} has {} dims, expected are {}", dims.len(), codes.len());
            return Err(self.failed(label, "rank", message));
        }
        let slots = self.heap(heap, "match_shape")?;
        for (axis, (code, &actual)) in codes.iter().zip(dims).enumerate() {
            let expected = match code {
                Code::Skip => continue,
                Code::Store(slot) => {
                    store(slots, "match_shape", *slot, actual)?;
                    continue;
                }
                Code::Literal(value) => Some(*value),
                Code::Slot(slot) => load(slots, "match_shape", *slot)?,
            };
            if expected != Some(actual) {
                let wanted = expected.map_or("what has no value".to_owned(), |v| v.to_string());
                let wanted = match terms.get(axis).map(|term| self.text(*term)) {
                    Some(term) if term != wanted => format!("{term} = {wanted}"),
                    _ => wanted,
                };
                let message = format!(
                    "dim {axis} of {about} must be {wanted}, found {actual}: expected `{}`, found the shape {}",
                    self.text(label.expected),
                    shown_shape(dims)
                );
                let failed = self.failed(label, "dim", message);
                return Err(match code {
                    Code::Slot(slot) => self.with_origins(failed, heap, *slot),
                    _ => failed,
                });
            }
        }
        Ok(())
    }

    pub(super) fn check_bound(&self, instruction: &Instruction) -> Result<(), Stop> {
        let Instruction::CheckBound { heap, slot, fact, limit, name, about } = instruction else {
            return Ok(());
        };
        let value = stored(self.heap(*heap, "check_bound")?, "check_bound", *slot)?;
        let (holds, id, word) = match fact {
            Fact::LowerBound => (value >= *limit, "bound/lower", "lower_bound"),
            Fact::UpperBound => (value <= *limit, "bound/upper", "upper_bound"),
            Fact::MultipleOf => {
                (floor_mod(value, *limit) == Some(0), "bound/multiple_of", "multiple_of")
            }
        };
        if holds {
            return Ok(());
        }
        let (name, about) = (self.text(*name), self.text(*about));
        let message = format!("`{name}` = {value} ({about}) breaks its declared {word} {limit}");
        Err(Stop::trap(id, message))
    }

    pub(super) fn check_extent(&self, heap: Operand, slot: i64, about: Text) -> Result<(), Stop> {
        let value = stored(self.heap(heap, "check_extent")?, "check_extent", slot)?;
        if value >= 0 {
            return Ok(());
        }
        let about = self.text(about);
        let message = format!("a dim may not be negative, found `{about}` = {value}");
        Err(Stop::trap("shape/negative", message))
    }

    pub(super) fn check_natural(&self, operand: Operand, id: Text) -> Result<(), Stop> {
        match self.given(operand)? {
            Value::Scalar(_, Number::Int(value)) if *value < 0 => {
                let message = format!("a dim may not be negative, found {value}");
                Err(Stop::trap(self.text(id), message))
            }
            _ => Ok(()),
        }
    }
}

fn found(value: &Value) -> Option<Kind> {
    match value {
        Value::Tensor(_) | Value::Machine(Machine(Kept::Placed(_))) => Some(Kind::Tensor),
        Value::Shape(_) => Some(Kind::Shape),
        Value::Tuple(_) => Some(Kind::Tuple),
        Value::Scalar(..) => Some(Kind::Scalar),
        Value::Function(_) | Value::Kernel(_) | Value::Closure(_) => Some(Kind::Function),
        _ => None,
    }
}
