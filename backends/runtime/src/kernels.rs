//! The interface between the machine and what runs its kernels.
#![allow(unsafe_code)]

use crate::block::Block;
use crate::dtype::{DType, dense_bytes};
use crate::steps::StepsLeft;
use crate::stop::{Span, Stop};
use crate::tensor::Tensor;
use crate::vm::memory::Placed;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Runs the kernels of one program.
pub trait Kernels: Send + Sync {
    /// Runs the kernel of this place in the program's list. The machine has held number, dtypes and ranks
    /// of the tensors against the kernel's signature; it binds its symbolic dims itself. No tensor that
    /// it writes to shares memory with another.
    ///
    /// # Errors
    /// What the kernel stops with.
    fn call(
        &self,
        kernel: usize,
        tensors: &[TensorArg<'_>],
        ints: &[i64],
    ) -> Result<(), KernelTrap>;

    /// Whether [`Kernels::call_watched`] has code for a kernel.
    fn watches(&self, kernel: usize) -> bool {
        let _ = kernel;
        false
    }

    /// As [`Kernels::call`], with a map for each tensor, a byte for each element: 1 if something was written to it. The kernel
    /// stops where it reads another one, and notes what it writes.
    ///
    /// # Errors
    /// What the kernel stops with; a site is one of those of [`crate::program::Watched`].
    fn call_watched(
        &self,
        kernel: usize,
        tensors: &[TensorArg<'_>],
        maps: &mut [Vec<u8>],
        ints: &[i64],
    ) -> Result<(), KernelTrap> {
        let _ = maps;
        self.call(kernel, tensors, ints)
    }

    /// As [`Kernels::call`], with maps as [`Kernels::call_watched`], in a run that has so many steps left; takes from them what it
    /// uses. Kernels that count no steps have no limit.
    ///
    /// # Errors
    /// What the kernel stops with; [`StepsLeft::exhausted`] where it has more steps than are left.
    fn call_within(
        &self,
        kernel: usize,
        tensors: &[TensorArg<'_>],
        maps: Option<&mut [Vec<u8>]>,
        ints: &[i64],
        steps: &StepsLeft,
    ) -> Result<(), KernelTrap> {
        let _ = steps;
        match maps {
            None => self.call(kernel, tensors, ints),
            Some(maps) => self.call_watched(kernel, tensors, maps, ints),
        }
    }

    /// What is called until [`Kernels::end_graph`] is a graph of launches: the same kernels in the same memory whenever it is
    /// called with the same shapes. A device may record it then, and replay it later.
    fn begin_graph(&self) {}

    /// It ends here, or where a kernel of it stopped.
    ///
    /// # Errors
    /// What kernels that were only noted before stop with.
    fn end_graph(&self) -> Result<(), KernelTrap> {
        Ok(())
    }

    /// The machine reads a tensor of a storage after this, or gives it to others: what kernels wrote to it and hold elsewhere
    /// ([`TensorArg::memory`]) is brought back by [`TensorArg::settle`].
    ///
    /// # Errors
    /// When it cannot be had.
    fn settle(&self, tensor: &TensorArg<'_>) -> Result<(), KernelTrap> {
        let _ = tensor;
        Ok(())
    }

    /// From now on calls of kernels are timed where they run, and end when they are done there ([`Kernels::elapsed`]).
    fn measure(&self) {}

    /// How long the last call ran on a device that has a clock of its own, without what the host does for it.
    fn elapsed(&self) -> Option<Duration> {
        None
    }

    /// What was done so far and where, for people.
    fn account(&self) -> Option<String> {
        None
    }
}

/// Why a kernel stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelTrap {
    /// At this one of the kernel's sites.
    Site(usize),
    /// At this one of the kernel's sites, with the values of its message.
    Noted(usize, Vec<i64>),
    /// With a trap or limit of its own.
    Stop(Box<Stop>),
}

/// A dense tensor that a kernel is called with.
#[derive(Debug)]
pub struct TensorArg<'a> {
    data: NonNull<u8>,
    dtype: DType,
    shape: &'a [i64],
    access: Access,
    is_written: bool,
    home: Home<'a>,
    /// The memory is the machine's, which lends it for the call.
    lent: PhantomData<&'a mut [u8]>,
}

/// What a kernel may do with a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    ReadWrite,
}

/// Whose the bytes of a tensor of a call are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Home<'a> {
    /// The machine looks at them after the call.
    Call,
    /// A tensor, whose elements do not change.
    Tensor(&'a Tensor),
    /// A storage; the machine calls [`Kernels::settle`] before it looks at them.
    Storage(&'a Placed),
}

/// Bytes of the machine, to be known again: two tensors with the same number, offset and length are the same bytes.
#[derive(Clone, Debug)]
pub struct Memory {
    block: Weak<Block>,
    /// Where in the block they begin.
    pub offset: usize,
}

impl Memory {
    /// The number of the block; no other has it as long as there is this name.
    #[must_use]
    pub fn number(&self) -> usize {
        self.block.as_ptr().addr()
    }

    /// How many bytes the block has; none when it is gone.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.block.upgrade().map_or(0, |block| block.bytes())
    }

    /// Whether nobody has the bytes any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.block.strong_count() == 0
    }
}

impl<'a> TensorArg<'a> {
    /// # Safety
    /// For `'a` the bytes of a dense tensor of this dtype and shape from `data` on are initialized; with
    /// [`Access::ReadWrite`] nobody else touches them, else nobody writes to them. Those of [`Home::Storage`] are touched by
    /// who has the tensor alone.
    pub(crate) unsafe fn new(
        data: NonNull<u8>,
        (dtype, shape): (DType, &'a [i64]),
        access: Access,
        is_written: bool,
        home: Home<'a>,
    ) -> Self {
        Self { data, dtype, shape, access, is_written, home, lent: PhantomData }
    }

    /// What bytes they are, where kernels may hold the elements elsewhere until [`Kernels::settle`]; what is written to other
    /// tensors must be there at the end of the call.
    #[must_use]
    pub fn memory(&self) -> Option<Memory> {
        let (block, offset) = match self.home {
            Home::Call => return None,
            Home::Tensor(tensor) => (tensor.block.clone(), tensor.offset),
            Home::Storage(placed) => placed.place()?,
        };
        Some(Memory { block: Arc::downgrade(&block), offset })
    }

    /// Brings what kernels wrote, and held elsewhere, to where the tensor lies in its storage.
    ///
    /// # Errors
    /// When it lies in none, or the number of bytes differs.
    pub fn settle(&self, bytes: &[u8]) -> Result<(), KernelTrap> {
        let to = self.settled(bytes.len())?;
        // SAFETY: `new` promises that nobody else touches bytes of a storage, whether the kernel may write to them or not;
        // `bytes`, which is borrowed, lies elsewhere, and no `TensorArg` gives a reference to its bytes away.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Where [`TensorArg::settle`] writes so many bytes, for a device that copies them there itself. Until the call ends they are touched
    /// through this tensor alone.
    ///
    /// # Errors
    /// As [`TensorArg::settle`].
    pub fn settled(&self, count: usize) -> Result<NonNull<u8>, KernelTrap> {
        if !matches!(self.home, Home::Storage(_)) || count != self.length() {
            let message = format!("{count} bytes are brought to a tensor that cannot take them");
            return Err(KernelTrap::Stop(Box::new(Stop::Unsupported(message))));
        }
        Ok(self.data)
    }

    /// The first byte.
    #[must_use]
    pub fn data(&self) -> *mut u8 {
        self.data.as_ptr()
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extents.
    #[must_use]
    pub fn shape(&self) -> &'a [i64] {
        self.shape
    }

    /// False when nothing was ever written there.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.is_written
    }

    /// How many bytes it has.
    #[must_use]
    pub fn length(&self) -> usize {
        dense_bytes(self.dtype, self.shape).unwrap_or(0)
    }

    /// A copy of the elements.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // SAFETY: `new` promises that these bytes are initialized and that nobody writes to them; a
        // `TensorArg` is of one thread, and gives no reference to them away.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.length()) }.to_vec()
    }

    /// Writes all elements.
    ///
    /// # Errors
    /// When the kernel may not write to it, or the number of bytes differs.
    pub fn write(&self, bytes: &[u8]) -> Result<(), KernelTrap> {
        if self.access == Access::Read || bytes.len() != self.length() {
            let message = format!(
                "a kernel writes {} bytes to a tensor of {} bytes ({:?})",
                bytes.len(),
                self.length(),
                self.access
            );
            return Err(KernelTrap::Stop(Box::new(Stop::Unsupported(message))));
        }
        // SAFETY: `new` promises that for `ReadWrite` nobody else touches these bytes, so `bytes`, which
        // is borrowed, lies elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.data.as_ptr(), bytes.len()) };
        Ok(())
    }
}

/// A trap with a place of its own.
#[must_use]
pub(crate) fn located(id: &str, message: &str, span: Span) -> Stop {
    let mut stop = Stop::trap(id, message);
    if let Stop::Trap(trap) = &mut stop {
        trap.span = span;
    }
    stop
}
