//! Storages, and the tensors that lie in them.
//!
//! A tensor in a storage is a name of some of its bytes. What is written to one, no other that shares a
//! byte holds any more; the machine keeps the account, so that a wrong plan stops the program with the
//! trap that the interpreter has, and what was released is never touched.
#![allow(unsafe_code)]

use crate::block::{Block, Pool};
use crate::dtype::DType;
use crate::stop::Stop;
use crate::tensor::{Tensor, Written};
use crate::value::shown_shape;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory of a number of bytes, made by a run of the machine or given up to it, and seen by it alone.
#[derive(Debug)]
pub(crate) struct Storage {
    number: u64,
    pub(super) bytes: i64,
    pub(super) dtype: DType,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// `None` once it is released.
    block: Option<Arc<Block>>,
    /// Those that are not released.
    instances: Vec<Arc<Instance>>,
}

/// A tensor in a storage, whatever its names are.
#[derive(Debug)]
pub(crate) struct Instance {
    bytes: Range<usize>,
    dtype: DType,
    /// As it was allocated.
    shape: Arc<[i64]>,
    state: AtomicU8,
    /// By what, and which bytes that wrote.
    overwritten: Mutex<Option<(Arc<str>, Range<usize>)>>,
    /// The elements that something was written to, where it holds some.
    elements: Mutex<Option<Arc<[u8]>>>,
}

const UNWRITTEN: u8 = 0;
const HOLDS: u8 = 1;
const OVERWRITTEN: u8 = 2;
const RELEASED: u8 = 3;
/// Something was written to some elements.
const HOLDS_SOME: u8 = 4;

/// A name of a tensor that lies in a storage.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    storage: Arc<Storage>,
    instance: Arc<Instance>,
    pub(crate) dtype: DType,
    /// Its extents under this name: a view may have others.
    pub(crate) shape: Arc<[i64]>,
}

/// Instances of a storage from which on those that nobody names are looked for.
const MANY: usize = 64;

impl Storage {
    pub(super) fn new(
        pool: &Arc<Pool>,
        number: u64,
        bytes: i64,
        dtype: DType,
    ) -> Result<Self, Stop> {
        let block = Some(Arc::new(pool.give(usize::try_from(bytes).unwrap_or(usize::MAX))?));
        let state = State { block, instances: Vec::new() };
        Ok(Self { number, bytes, dtype, state: Mutex::new(state) })
    }

    /// A tensor as one in a storage of its own; in the block of the tensor where nothing else has a name of it and its bytes
    /// are the machine's, else in a copy.
    pub(super) fn of_donated(
        tensor: &mut Tensor,
        pool: &Arc<Pool>,
        number: u64,
    ) -> Result<Placed, Stop> {
        let length = tensor.bytes().len();
        // It also synchronizes with the drop of other names: what these read, they have read before.
        let is_only = Arc::get_mut(&mut tensor.block).is_some_and(|block| block.is_writable());
        let (block, start) = if is_only {
            (Arc::clone(&tensor.block), tensor.offset)
        } else {
            let block = pool.give(length)?;
            // SAFETY: the block is new, nobody else has a name of it, and it has as many bytes.
            unsafe {
                let from = tensor.bytes().as_ptr();
                std::ptr::copy_nonoverlapping(from, block.data().as_ptr(), length);
            }
            (Arc::new(block), 0)
        };
        let bytes = i64::try_from(block.bytes()).unwrap_or(i64::MAX);
        let state = Mutex::new(State { block: Some(block), instances: Vec::new() });
        let storage = Arc::new(Self { number, bytes, dtype: tensor.dtype, state });
        let shape = Arc::clone(&tensor.shape);
        let placed = storage.place(start..start + length, tensor.dtype, shape)?;
        placed.wrote(&"the caller".into(), tensor.written.clone());
        Ok(placed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shown(&self) -> String {
        format!("storage {} of {} bytes", self.number, self.bytes)
    }

    /// A tensor that takes these bytes, which are in the storage; nothing of it is written.
    pub(super) fn place(
        self: &Arc<Self>,
        bytes: Range<usize>,
        dtype: DType,
        shape: Arc<[i64]>,
    ) -> Result<Placed, Stop> {
        let mut state = self.state();
        if state.block.is_none() {
            let message = format!("the {} is released: it holds no tensors", self.shown());
            return Err(Stop::trap("memory/released", message));
        }
        if state.instances.len() >= MANY && state.instances.len().is_power_of_two() {
            state.instances.retain(|instance| Arc::strong_count(instance) > 1);
        }
        let instance = Arc::new(Instance {
            bytes,
            dtype,
            shape: Arc::clone(&shape),
            state: AtomicU8::new(UNWRITTEN),
            overwritten: Mutex::new(None),
            elements: Mutex::new(None),
        });
        state.instances.push(Arc::clone(&instance));
        Ok(Placed { storage: Arc::clone(self), instance, dtype, shape })
    }

    /// Whether it holds memory, and no tensor.
    fn is_empty(&self) -> bool {
        let state = self.state();
        state.block.is_some() && state.instances.is_empty()
    }

    /// Releases it, and every tensor in it.
    pub(super) fn release(&self) -> Result<(), Stop> {
        let mut state = self.state();
        if state.block.take().is_none() {
            let message = format!("the {} is released already", self.shown());
            return Err(Stop::trap("memory/released", message));
        }
        for instance in state.instances.drain(..) {
            instance.state.store(RELEASED, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Nothing shares a byte with an empty range.
fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start.max(b.start) < a.end.min(b.end)
}

impl Placed {
    pub(super) fn described(&self) -> String {
        let Instance { bytes, dtype, shape, .. } = &*self.instance;
        format!(
            "the {dtype} tensor of shape {} at bytes {} to {} of {}",
            shown_shape(shape),
            bytes.start,
            bytes.end,
            self.storage.shown()
        )
    }

    /// Whether both name the same bytes of the same storage, with the same dtype and shape.
    pub(super) fn is_same_place(&self, other: &Placed) -> bool {
        Arc::ptr_eq(&self.storage, &other.storage)
            && self.instance.bytes == other.instance.bytes
            && (self.dtype, &self.shape) == (other.dtype, &other.shape)
    }

    fn state(&self) -> u8 {
        self.instance.state.load(Ordering::Relaxed)
    }

    /// The same elements under another shape of as many.
    pub(super) fn viewed(&self, shape: Arc<[i64]>) -> Placed {
        Placed { shape, ..self.clone() }
    }

    /// Whether its elements lie at multiples of their size.
    pub(super) fn is_aligned(&self) -> bool {
        self.instance.bytes.start.is_multiple_of(self.dtype.size())
    }

    /// Takes the elements of a tensor of as many bytes, which lies elsewhere.
    pub(super) fn assign(&self, from: &Tensor) -> Result<(), Stop> {
        let bytes = from.bytes();
        let to = self.data()?;
        if bytes.len() == self.instance.bytes.len() {
            // SAFETY: the bytes of this tensor lie in a storage that is not released, which only this
            // machine, which runs here, touches; those of the other are a block of its own.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len());
            }
        }
        Ok(())
    }

    /// Whether something was written to it.
    pub(super) fn is_written(&self) -> bool {
        matches!(self.state(), HOLDS | HOLDS_SOME) || self.instance.bytes.is_empty()
    }

    /// To what of it something was written.
    pub(super) fn written(&self) -> Written {
        match self.state() {
            HOLDS_SOME => {
                let elements = self.instance.elements.lock();
                let elements = elements.unwrap_or_else(PoisonError::into_inner).clone();
                elements.map_or(Written::None, Written::Some)
            }
            _ if self.is_written() => Written::All,
            _ => Written::None,
        }
    }

    /// Releases the tensor, and its storage when no other is left in it: what a function gave.
    pub(super) fn release_object(&self) -> Result<(), Stop> {
        self.release()?;
        if self.storage.is_empty() { self.storage.release() } else { Ok(()) }
    }

    /// Releases the tensor; its bytes may serve others.
    pub(super) fn release(&self) -> Result<(), Stop> {
        if self.state() == RELEASED {
            let message = format!("{} is released already", self.described());
            return Err(Stop::trap("memory/released", message));
        }
        self.storage.state().instances.retain(|held| !Arc::ptr_eq(held, &self.instance));
        self.instance.state.store(RELEASED, Ordering::Relaxed);
        Ok(())
    }

    /// It may be read.
    pub(super) fn readable(&self) -> Result<(), Stop> {
        if self.state() == OVERWRITTEN {
            let by = self.instance.overwritten.lock().unwrap_or_else(PoisonError::into_inner);
            let (by, bytes) = by.clone().unwrap_or_else(|| ("something".into(), 0..0));
            let message = format!(
                "{} is read after `{by}` has written bytes {} to {}",
                self.described(),
                bytes.start,
                bytes.end
            );
            return Err(Stop::trap("memory/overwritten", message));
        }
        self.writable()
    }

    /// It may be written to.
    pub(super) fn writable(&self) -> Result<(), Stop> {
        if self.state() == RELEASED {
            let message = format!("{} is used after its release", self.described());
            return Err(Stop::trap("memory/released", message));
        }
        Ok(())
    }

    /// The bytes that two tensors share, in words; `None` when there are none.
    pub(super) fn shared(&self, other: &Placed) -> Option<String> {
        let shares = Arc::ptr_eq(&self.storage, &other.storage)
            && overlap(&self.instance.bytes, &other.instance.bytes);
        shares.then(|| format!("{} and {}", self.described(), other.described()))
    }

    /// The first byte; the storage is not released.
    pub(super) fn data(&self) -> Result<NonNull<u8>, Stop> {
        let state = self.storage.state();
        let block = state.block.as_ref().ok_or_else(|| {
            Stop::trap("memory/released", format!("{} is used after its release", self.described()))
        })?;
        // SAFETY: `place` is given a range that lies in the storage.
        Ok(unsafe { block.data().add(self.instance.bytes.start) })
    }

    /// The block that its bytes are of, and where they begin there; none once the storage is released.
    pub(crate) fn place(&self) -> Option<(Arc<Block>, usize)> {
        let block = self.storage.state().block.clone()?;
        Some((block, self.instance.bytes.start))
    }

    /// A kernel wrote to it, so that of its elements these are written; what shares bytes with it is lost.
    pub(super) fn wrote(&self, by: &Arc<str>, written: Written) {
        let bytes = &self.instance.bytes;
        let state = self.storage.state();
        for other in &state.instances {
            if overlap(&other.bytes, bytes)
                && !Arc::ptr_eq(other, &self.instance)
                && matches!(other.state.load(Ordering::Relaxed), HOLDS | HOLDS_SOME | OVERWRITTEN)
            {
                other.state.store(OVERWRITTEN, Ordering::Relaxed);
                let mut overwritten =
                    other.overwritten.lock().unwrap_or_else(PoisonError::into_inner);
                *overwritten = Some((Arc::clone(by), bytes.clone()));
            }
        }
        let (now, elements) = match written {
            Written::All => (HOLDS, None),
            Written::None => (UNWRITTEN, None),
            Written::Some(map) => (HOLDS_SOME, Some(map)),
        };
        if now == HOLDS_SOME || self.state() == HOLDS_SOME {
            *self.instance.elements.lock().unwrap_or_else(PoisonError::into_inner) = elements;
        }
        self.instance.state.store(now, Ordering::Relaxed);
    }

    /// A tensor of its own with the elements as they are.
    pub(super) fn copied(&self, pool: &Arc<Pool>) -> Result<Tensor, Stop> {
        self.readable()?;
        self.staged(pool)
    }

    /// The same of whatever lies there.
    pub(super) fn staged(&self, pool: &Arc<Pool>) -> Result<Tensor, Stop> {
        let block = pool.give(self.instance.bytes.len())?;
        // SAFETY: the bytes lie in a storage that is not released, are initialized, and only this
        // machine, which runs here, writes to them; the block is new and has as many.
        unsafe {
            let from = self.data()?.as_ptr();
            std::ptr::copy_nonoverlapping(from, block.data().as_ptr(), block.bytes());
        }
        Ok(self.named(Arc::new(block), 0))
    }

    /// The tensor for whoever called the machine: the same memory, which nobody writes to any more,
    /// because the storage is released with the run.
    pub(super) fn frozen(&self, pool: &Arc<Pool>) -> Result<Tensor, Stop> {
        self.readable()?;
        if !self.is_aligned() {
            return self.copied(pool);
        }
        let block = self.storage.state().block.clone();
        let block =
            block.ok_or_else(|| Stop::trap("memory/released", "its storage is released"))?;
        Ok(self.named(block, self.instance.bytes.start))
    }

    fn named(&self, block: Arc<Block>, offset: usize) -> Tensor {
        let (dtype, shape) = (self.dtype, Arc::clone(&self.shape));
        Tensor { dtype, shape, block, offset, written: self.written() }
    }

    /// The only byte of a bool.
    pub(super) fn byte(&self) -> Result<u8, Stop> {
        self.readable()?;
        if self.instance.bytes.is_empty() {
            return Ok(0);
        }
        // SAFETY: as in `staged`, and there is one.
        Ok(unsafe { self.data()?.as_ptr().read() })
    }
}
