//! The interface between the machine and what runs its kernels.
#![allow(unsafe_code)]

use crate::dtype::{DType, dense_bytes};
use crate::stop::{Span, Stop};
use std::marker::PhantomData;
use std::ptr::NonNull;

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
}

/// Why a kernel stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelTrap {
    /// At this one of the kernel's sites.
    Site(usize),
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
    /// The memory is the machine's, which lends it for the call.
    lent: PhantomData<&'a mut [u8]>,
}

/// What a kernel may do with a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    ReadWrite,
}

impl<'a> TensorArg<'a> {
    /// # Safety
    /// For `'a` the bytes of a dense tensor of this dtype and shape from `data` on are initialized; with
    /// [`Access::ReadWrite`] nobody else touches them, else nobody writes to them.
    pub(crate) unsafe fn new(
        data: NonNull<u8>,
        (dtype, shape): (DType, &'a [i64]),
        access: Access,
        is_written: bool,
    ) -> Self {
        Self { data, dtype, shape, access, is_written, lent: PhantomData }
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
