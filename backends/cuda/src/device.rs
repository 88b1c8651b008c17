//! What kernels need of a device. Addresses are the device's; an argument of a function is eight bytes.

use crate::Error;
use relax_emit::cuda::Sizes;

/// Memory and functions.
pub trait Device: Send + Sync {
    /// Memory of this many bytes, at least one.
    ///
    /// # Errors
    /// When there is none.
    fn allocate(&self, bytes: usize) -> Result<u64, Error>;

    /// Gives memory back.
    ///
    /// # Errors
    /// What the device says, also of what went wrong before.
    fn release(&self, address: u64) -> Result<(), Error>;

    /// Copies bytes to the device.
    ///
    /// # Errors
    /// What the device says.
    fn upload(&self, address: u64, bytes: &[u8]) -> Result<(), Error>;

    /// Copies bytes from the device, after all that was launched.
    ///
    /// # Errors
    /// What the device says.
    fn download(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error>;

    /// Fills memory with a byte.
    ///
    /// # Errors
    /// What the device says.
    fn fill(&self, address: u64, byte: u8, bytes: usize) -> Result<(), Error>;

    /// Launches a function of the compiled text after what was launched before.
    ///
    /// # Errors
    /// What the device says.
    fn launch(&self, symbol: &str, sizes: &Sizes, arguments: &[u64]) -> Result<(), Error>;
}
