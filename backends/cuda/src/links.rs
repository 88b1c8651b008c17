//! What collectives of ranks need of a device beside [`Device`]: transfers between the devices of a group, each of which is asked for by all
//! of the group, and done on the device's own queue.

use crate::{Device, Error};
use relax_runtime::DType;
use relax_syntax::annotation::Reduction;

/// The ranks along one axis of a mesh, or two of them, as one of them sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The axis of the mesh.
    pub axis: usize,
    /// The first of them, among all ranks.
    pub first: usize,
    /// The last of them, among all ranks.
    pub last: usize,
    /// How many there are.
    pub size: usize,
    /// The number of this one in the group.
    pub rank: usize,
    /// How many such groups the mesh has along the axis.
    pub groups: usize,
}

/// Bytes that go to another rank of a group, or come from it. Both say how many, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// From an address to a rank.
    Send {
        /// The rank of the group that gets them.
        to: usize,
        /// Where they lie.
        address: u64,
        /// Their number, at least 1.
        bytes: usize,
    },
    /// From a rank to an address.
    Receive {
        /// The rank of the group that sends them.
        from: usize,
        /// Where they go.
        address: u64,
        /// Their number, at least 1.
        bytes: usize,
    },
}

/// What a library of the device reduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reduced {
    /// Of the elements.
    pub dtype: DType,
    /// Element by element, in any order.
    pub reduction: Reduction,
    /// Elements of the result.
    pub count: usize,
}

/// Rows that are copied: where they begin, and the bytes from one to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// The first byte.
    pub address: u64,
    /// From a row to the next.
    pub pitch: usize,
}

/// A device of a rank.
pub trait Linked: Device {
    /// Copies `count` rows of `width` bytes on the device; source and target share none.
    ///
    /// # Errors
    /// What the device says.
    fn copy_rows(&self, from: Rows, to: Rows, width: usize, count: usize) -> Result<(), Error>;

    /// Has a function of another text to launch.
    ///
    /// # Errors
    /// What the compiler or the device says.
    fn load(&self, text: &str, symbol: &str) -> Result<(), Error>;

    /// All transfers of a group at once.
    ///
    /// # Errors
    /// What the device or the library says, also that another rank failed. No rank waits for one that failed.
    fn transfer(&self, group: &Group, transfers: &[Transfer]) -> Result<(), Error>;

    /// As many bytes of each rank, one after the other.
    ///
    /// # Errors
    /// As of [`Linked::transfer`].
    fn all_gather(&self, group: &Group, from: u64, to: u64, bytes: usize) -> Result<(), Error>;

    /// Elements of all ranks, reduced in any order.
    ///
    /// # Errors
    /// As of [`Linked::transfer`].
    fn all_reduce(&self, group: &Group, from: u64, to: u64, what: Reduced) -> Result<(), Error>;

    /// The same of as many such blocks as there are ranks, of which each rank gets its own.
    ///
    /// # Errors
    /// As of [`Linked::transfer`].
    fn reduce_scatter(&self, group: &Group, from: u64, to: u64, what: Reduced)
    -> Result<(), Error>;

    /// Waits for all that was asked for.
    ///
    /// # Errors
    /// What went wrong, here or on another rank.
    fn finish(&self) -> Result<(), Error>;

    /// This rank does not take part in what the others of its group are about to ask for.
    fn fail(&self, why: &str);
}
