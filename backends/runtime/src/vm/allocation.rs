//! Instructions on explicit memory.

use super::Run;
use super::memory::{Placed, Storage};
use super::slots::checked_bytes;
use crate::dtype::{DType, dense_bytes};
use crate::instruction::{Instruction, Operand};
use crate::stop::Stop;
use crate::tensor::Tensor;
use crate::value::{Kept, Machine, Value};
use std::sync::Arc;

/// A tensor that the caller gave up, by its name there, and as the machine has it once it is placed.
pub(super) type Given = (Value, Option<Placed>);

impl Run<'_> {
    pub(super) fn memory(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        use Instruction as I;
        match instruction {
            I::AllocStorage { to, size, dtype } => {
                let storage = self.alloc_storage(*size, *dtype)?;
                self.set(*to, storage);
            }
            I::AllocTensor { to, storage, shape, dtype, offset } => {
                let tensor = self.alloc_tensor(*storage, *shape, *dtype, *offset)?;
                self.set(*to, tensor);
            }
            I::KillStorage(storage) => self.storage(*storage, "memory.kill_storage")?.release()?,
            I::KillTensor(tensor) => {
                if let Some(placed) = self.killed(*tensor, "memory.kill_tensor/kind")? {
                    placed.release()?;
                }
            }
            I::KillObject(tensor) => {
                if let Some(placed) = self.killed(*tensor, "memory.kill_object/kind")? {
                    placed.release_object()?;
                }
            }
            I::View { to, tensor, shape } => {
                let view = self.view(*tensor, *shape)?;
                self.set(*to, view);
            }
            _ => {}
        }
        Ok(())
    }

    /// The tensor that is released; `None` for one in no storage, which nothing holds.
    fn killed(&self, tensor: Operand, trap: &str) -> Result<Option<&Placed>, Stop> {
        match self.given(tensor)? {
            Value::Machine(Machine(Kept::Placed(placed))) => Ok(Some(placed)),
            Value::Tensor(_) => Ok(None),
            other => {
                let message = format!("`tensor` must be a tensor, found {}", other.kind());
                Err(Stop::trap(trap, message))
            }
        }
    }

    fn alloc_storage(&mut self, size: Operand, dtype: DType) -> Result<Value, Stop> {
        let dims = self.shape(size, "memory.alloc_storage")?;
        let unit = i64::try_from(dtype.size()).unwrap_or(i64::MAX);
        let bytes = dims.iter().try_fold(unit, |bytes, &dim| bytes.checked_mul(dim));
        let Some(bytes) = bytes.filter(|&bytes| bytes >= 0) else {
            let message = "the size of the storage is no number of bytes";
            return Err(Stop::trap("memory.alloc_storage/C1", message));
        };
        let storage = Storage::new(self.pool, self.storages, bytes, dtype)?;
        self.storages += 1;
        Ok(Value::Machine(Machine(Kept::Storage(Arc::new(storage)))))
    }

    /// Tensors that the caller gave up become tensors in storages of their own: each in its own memory if this is its only name,
    /// else in a copy. Where `given` is there, it has all of them then, also those for whose copy there is no memory.
    pub(super) fn place_all(
        &mut self,
        donated: &[u32],
        args: &mut [Value],
        given: &mut Option<Vec<Given>>,
    ) -> Result<(), Stop> {
        let mut result = Ok(());
        for &at in donated {
            let Some(arg) = args.get_mut(at as usize) else { continue };
            let Value::Tensor(tensor) = arg else { continue };
            let mut placed = None;
            if result.is_ok() {
                match Storage::of_donated(tensor, self.pool, self.storages) {
                    Ok(made) => placed = Some(made),
                    Err(stop) => result = Err(stop),
                }
            }
            let Some(placed) = placed else {
                given.iter_mut().for_each(|given| given.push((arg.clone(), None)));
                continue;
            };
            self.storages += 1;
            let value = std::mem::replace(arg, Value::from(placed.clone()));
            given.iter_mut().for_each(|given| given.push((value.clone(), Some(placed.clone()))));
        }
        result
    }

    /// The donated arguments of a call that has stopped, with what it wrote; none of them where a device cannot bring them back.
    pub(super) fn brought_back(&self, given: Vec<Given>) -> Vec<Value> {
        let mut placed = given.iter().filter_map(|(_, placed)| placed.as_ref());
        match placed.try_for_each(|placed| self.settle(placed)) {
            Ok(()) => given.into_iter().map(|(value, _)| value).collect(),
            Err(_) => Vec::new(),
        }
    }

    fn storage(&self, operand: Operand, row: &str) -> Result<&Arc<Storage>, Stop> {
        match self.given(operand)? {
            Value::Machine(Machine(Kept::Storage(storage))) => Ok(storage),
            other => {
                let message = format!("`storage` must be a storage, found {}", other.kind());
                Err(Stop::trap(format!("{row}/C1"), message))
            }
        }
    }

    fn alloc_tensor(
        &self,
        storage: Operand,
        shape: Operand,
        dtype: Option<DType>,
        offset: Operand,
    ) -> Result<Value, Stop> {
        const ROW: &str = "memory.alloc_tensor";
        let storage = self.storage(storage, ROW)?;
        let shape = self.shape(shape, ROW)?;
        let dtype = dtype.unwrap_or(storage.dtype);
        checked_bytes(dtype, &shape)?;
        let offset = self.integer(offset, ROW)?;
        let bytes = dense_bytes(dtype, &shape).and_then(|bytes| i64::try_from(bytes).ok());
        let end = bytes.and_then(|bytes| bytes.checked_add(offset));
        let end = end.filter(|&end| offset >= 0 && end <= storage.bytes);
        let range =
            end.and_then(|end| Some(usize::try_from(offset).ok()?..usize::try_from(end).ok()?));
        let Some(range) = range else {
            let total = storage.bytes;
            let message = format!(
                "a {dtype} tensor of shape {shape:?} at byte {offset} does not fit a storage of {total} bytes"
            );
            return Err(Stop::trap(format!("{ROW}/C2"), message));
        };
        Ok(Value::from(storage.place(range, dtype, shape)?))
    }

    fn view(&self, tensor: Operand, shape: Operand) -> Result<Value, Stop> {
        const ROW: &str = "memory.view";
        let value = self.given(tensor)?;
        let shape = self.shape(shape, ROW)?;
        let Some((dtype, held)) = value.as_tensor() else {
            let message = format!("`tensor` must be a tensor, found {}", value.kind());
            return Err(Stop::trap(format!("{ROW}/kind"), message));
        };
        checked_bytes(dtype, &shape)?;
        if dense_bytes(dtype, &shape) != dense_bytes(dtype, held) {
            let count = |shape: &[i64]| shape.iter().product::<i64>();
            let message =
                format!("a view of {} elements cannot have {}", count(held), count(&shape));
            return Err(Stop::trap(format!("{ROW}/C1"), message));
        }
        Ok(match value {
            Value::Machine(Machine(Kept::Placed(placed))) => Value::from(placed.viewed(shape)),
            Value::Tensor(tensor) => Value::Tensor(Tensor { shape, ..tensor.clone() }),
            other => other.clone(),
        })
    }
}
