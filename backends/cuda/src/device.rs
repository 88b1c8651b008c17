//! What kernels need of a device. Addresses are the device's; an argument of a function is eight bytes. Everything is done in
//! the order in which it was asked for, and asking does not wait: only [`Device::download`] does.

use crate::{Error, Form, Product};
use relax_emit::cuda::Sizes;
use std::time::Duration;

/// Memory and functions.
pub trait Device: Send + Sync {
    /// What was recorded, to be done again.
    type Graph: Send;

    /// Memory of this many bytes, at least one, at a multiple of 256.
    ///
    /// # Errors
    /// When there is none.
    fn allocate(&self, bytes: usize) -> Result<u64, Error>;

    /// Gives memory back when all that was asked for is done.
    ///
    /// # Errors
    /// What the device says, also of what went wrong before.
    fn release(&self, address: u64) -> Result<(), Error>;

    /// Copies bytes to the device; they are free when this returns, whenever the copy is made.
    ///
    /// # Errors
    /// What the device says.
    fn upload(&self, address: u64, bytes: &[u8]) -> Result<(), Error>;

    /// Waits for all that was asked for, and copies bytes from the device.
    ///
    /// # Errors
    /// What the device says, also of what went wrong before.
    fn download(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error>;

    /// Copies bytes on the device, from one place to another that shares none with it.
    ///
    /// # Errors
    /// What the device says.
    fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), Error>;

    /// Fills memory with a byte.
    ///
    /// # Errors
    /// What the device says.
    fn fill(&self, address: u64, byte: u8, bytes: usize) -> Result<(), Error>;

    /// Launches a function of the compiled text.
    ///
    /// # Errors
    /// What the device says.
    fn launch(&self, symbol: &str, sizes: &Sizes, arguments: &[u64]) -> Result<(), Error>;

    /// Whether a library multiplies matrices of this form; asked before, since it may have to look for an algorithm.
    fn multiplies(&self, form: &Form) -> bool;

    /// Multiplies matrices of a form that the library has.
    ///
    /// # Errors
    /// What the library says.
    fn multiply(&self, product: &Product) -> Result<(), Error>;

    /// From now on fills, copies on the device, launches and products are recorded, and not done. Nothing else is asked for meanwhile.
    ///
    /// # Errors
    /// What the device says.
    fn begin_capture(&self) -> Result<(), Error>;

    /// What was recorded since.
    ///
    /// # Errors
    /// When the device could not record it; it records no longer in any case.
    fn end_capture(&self) -> Result<Self::Graph, Error>;

    /// Does what was recorded, with the same bytes.
    ///
    /// # Errors
    /// What the device says.
    fn replay(&self, graph: &Self::Graph) -> Result<(), Error>;

    /// Starts the device's clock behind all that was asked for.
    ///
    /// # Errors
    /// What the device says.
    fn start_clock(&self) -> Result<(), Error>;

    /// Waits for all that was asked for; how long it took on the device since [`Device::start_clock`].
    ///
    /// # Errors
    /// What the device says, and that no clock was started.
    fn read_clock(&self) -> Result<Duration, Error>;
}
