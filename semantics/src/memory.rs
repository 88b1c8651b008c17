//! Explicit memory: storages, and the tensors that lie in them.
//!
//! A storage is a number of bytes. An instance is a tensor in a range of them: what a kernel writes to
//! one instance, no other instance that shares a byte holds any more. So a plan that gives two live
//! tensors the same bytes, or reads what was released, stops the program instead of passing by luck.
//! Values name instances ([`Placed`]), they do not hold the elements: all names see what is written.

use crate::stop::Stop;
use crate::tensor::Tensor;
use crate::value::{Partial, Placed, Storage, Value};
use relax_syntax::dtype::DType;
use std::ops::Range;
use std::sync::Arc;

/// All storages of a run.
#[derive(Debug, Default)]
pub struct Memory {
    storages: Vec<Region>,
    instances: Vec<Instance>,
    /// Bytes of storages that are not released.
    live: u64,
}

#[derive(Debug)]
struct Region {
    bytes: i64,
    released: bool,
    /// Those that are not released.
    instances: Vec<usize>,
}

#[derive(Debug)]
struct Instance {
    storage: usize,
    bytes: Range<i64>,
    dtype: DType,
    /// As it was allocated; a view may have another.
    shape: Vec<usize>,
    state: State,
}

#[derive(Debug)]
enum State {
    Unwritten,
    Holds(Tensor),
    /// By what, and which bytes that wrote.
    Overwritten(String, Range<i64>),
    Released,
}

impl Memory {
    /// Bytes of the storages that are not released.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.live
    }

    /// A storage of a number of bytes that is not negative.
    pub(crate) fn allocate(&mut self, bytes: i64, dtype: DType) -> Storage {
        self.storages.push(Region { bytes, released: false, instances: Vec::new() });
        self.live = self.live.saturating_add(bytes.unsigned_abs());
        Storage { id: self.storages.len() - 1, bytes, dtype }
    }

    /// A tensor that takes `bytes` of a storage; nothing of it is written.
    pub(crate) fn place(
        &mut self,
        storage: &Storage,
        bytes: Range<i64>,
        dtype: DType,
        shape: Vec<usize>,
    ) -> Result<Placed, Stop> {
        let region = self.region(storage)?;
        if region.released {
            let message =
                format!("the {} is released: it holds no tensors", shown(storage.id, region));
            return Err(Stop::trap("memory/released", message));
        }
        let instance = self.instances.len();
        self.storages[storage.id].instances.push(instance);
        let placed = Placed { instance, dtype, shape: shape.clone() };
        let state = State::Unwritten;
        self.instances.push(Instance { storage: storage.id, bytes, dtype, shape, state });
        Ok(placed)
    }

    /// Releases a storage and every tensor in it.
    pub(crate) fn release_storage(&mut self, storage: &Storage) -> Result<(), Stop> {
        let region = self.region(storage)?;
        if region.released {
            let message = format!("the {} is released already", shown(storage.id, region));
            return Err(Stop::trap("memory/released", message));
        }
        self.free(storage.id);
        Ok(())
    }

    /// Releases a storage that is not.
    fn free(&mut self, storage: usize) {
        let region = &mut self.storages[storage];
        self.live = self.live.saturating_sub(region.bytes.unsigned_abs());
        region.released = true;
        for instance in std::mem::take(&mut region.instances) {
            self.instances[instance].state = State::Released;
        }
    }

    /// Releases a tensor; its bytes may serve others.
    pub(crate) fn release_tensor(&mut self, placed: &Placed) -> Result<(), Stop> {
        let instance = self.instance(placed)?;
        if matches!(instance.state, State::Released) {
            let message = format!("{} is released already", self.described(instance));
            return Err(Stop::trap("memory/released", message));
        }
        let storage = instance.storage;
        let region = &mut self.storages[storage];
        region.instances.retain(|&held| held != placed.instance);
        self.instances[placed.instance].state = State::Released;
        Ok(())
    }

    /// Releases a tensor that a function gave, and its storage when no other tensor is left in it.
    pub(crate) fn release_object(&mut self, placed: &Placed) -> Result<(), Stop> {
        self.release_tensor(placed)?;
        let storage = self.instances[placed.instance].storage;
        // The tensor was not released, so the storage was not.
        if self.storages[storage].instances.is_empty() {
            self.free(storage);
        }
        Ok(())
    }

    /// The elements of a tensor, those that nothing has written included.
    ///
    /// # Errors
    /// A trap when it is released, or when something else was written to its bytes.
    pub fn read(&self, placed: &Placed) -> Result<Tensor, Stop> {
        let instance = self.instance(placed)?;
        match &instance.state {
            State::Overwritten(by, bytes) => {
                let message = format!(
                    "{} is read after {by} has written bytes {} to {}",
                    self.described(instance),
                    bytes.start,
                    bytes.end
                );
                Err(Stop::trap("memory/overwritten", message))
            }
            _ => self.destination(placed),
        }
    }

    /// What a kernel that may write to a tensor finds there. Of a tensor that was overwritten that is
    /// nothing.
    pub(crate) fn destination(&self, placed: &Placed) -> Result<Tensor, Stop> {
        let instance = self.instance(placed)?;
        match &instance.state {
            State::Released => {
                let message = format!("{} is used after its release", self.described(instance));
                Err(Stop::trap("memory/released", message))
            }
            State::Holds(tensor) => Ok(tensor.reshaped(&placed.shape)),
            State::Unwritten | State::Overwritten(..) => {
                Ok(Tensor::undefined(placed.dtype, &placed.shape))
            }
        }
    }

    /// A kernel leaves a tensor like this; what shares bytes with it is lost.
    pub(crate) fn write(&mut self, placed: &Placed, tensor: Tensor, by: &str) -> Result<(), Stop> {
        let instance = self.instance(placed)?;
        let (storage, bytes) = (instance.storage, instance.bytes.clone());
        for &other in &self.storages[storage].instances {
            let other = &mut self.instances[other];
            if overlap(&other.bytes, &bytes) && !matches!(other.state, State::Unwritten) {
                other.state = State::Overwritten(by.to_owned(), bytes.clone());
            }
        }
        self.instances[placed.instance].state = State::Holds(tensor);
        Ok(())
    }

    /// The storage that a tensor lies in, and its bytes there.
    pub(crate) fn place_of(&self, placed: &Placed) -> Result<(usize, Range<i64>), Stop> {
        let instance = self.instance(placed)?;
        Ok((instance.storage, instance.bytes.clone()))
    }

    /// The bytes that two tensors share, in words; `None` when there are none.
    pub(crate) fn shared(&self, a: &Placed, b: &Placed) -> Result<Option<String>, Stop> {
        let (a, b) = (self.instance(a)?, self.instance(b)?);
        let shares = a.storage == b.storage && overlap(&a.bytes, &b.bytes);
        Ok(shares.then(|| format!("{} and {}", self.described(a), self.described(b))))
    }

    /// The value with the elements of every tensor in it.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub fn resolve(&self, value: Value) -> Result<Value, Stop> {
        let all = |items: Vec<Value>| {
            items.into_iter().map(|item| self.resolve(item)).collect::<Result<Vec<_>, _>>()
        };
        Ok(match value {
            Value::Placed(placed) => Value::Tensor(self.read(&placed)?),
            Value::Tuple(items) => Value::Tuple(all(items)?),
            Value::Partial(partial) => {
                let function = self.resolve(partial.function.clone())?;
                Value::Partial(Arc::new(Partial { function, last: all(partial.last.clone())? }))
            }
            other => other,
        })
    }

    /// Values of another run name nothing here.
    fn instance(&self, placed: &Placed) -> Result<&Instance, Stop> {
        let unknown = || Stop::trap("memory/released", "a tensor of another run is used");
        self.instances.get(placed.instance).ok_or_else(unknown)
    }

    fn region(&self, storage: &Storage) -> Result<&Region, Stop> {
        let unknown = || Stop::trap("memory/released", "a storage of another run is used");
        self.storages.get(storage.id).ok_or_else(unknown)
    }

    fn described(&self, instance: &Instance) -> String {
        let Instance { storage, bytes, dtype, shape, .. } = instance;
        let dims: Vec<i64> = shape.iter().map(|&d| i64::try_from(d).unwrap_or(i64::MAX)).collect();
        format!(
            "the {dtype} tensor of shape {} at bytes {} to {} of {}",
            crate::show::shown_shape(&dims),
            bytes.start,
            bytes.end,
            shown(*storage, &self.storages[*storage])
        )
    }
}

/// Storages are numbered in the order in which the run made them.
fn shown(id: usize, region: &Region) -> String {
    format!("storage {id} of {} bytes", region.bytes)
}

/// Nothing shares a byte with an empty range.
fn overlap(a: &Range<i64>, b: &Range<i64>) -> bool {
    a.start.max(b.start) < a.end.min(b.end)
}
