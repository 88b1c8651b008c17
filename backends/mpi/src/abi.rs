//! What `librelax_mpi.so` exports: a table of functions. The library and what loads it are built apart, from this one file.

use std::ffi::c_int;

/// Counts up when the table changes.
pub const VERSION: usize = 2;

/// Bytes for a rank, or room for those of one.
#[repr(C)]
pub struct Piece {
    pub rank: usize,
    pub bytes: *mut u8,
    pub length: usize,
}

/// The functions. One thread calls them at a time; all but `start` and `finish` after `start` and before `finish`.
#[repr(C)]
pub struct Engine {
    pub version: usize,
    /// Starts MPI, once in a process, and writes the rank of this process and the number of ranks; 0 where that succeeds.
    pub start: unsafe extern "C" fn(rank: *mut usize, ranks: *mut usize) -> c_int,
    /// Sends a copy of a message without elements.
    pub send: unsafe extern "C" fn(to: usize, bytes: *const u8, length: usize),
    /// Whether a message without elements has come; its sender and its length.
    pub receive: unsafe extern "C" fn(from: *mut usize, length: *mut usize) -> bool,
    /// Copies the message that `receive` found.
    pub take: unsafe extern "C" fn(bytes: *mut u8),
    /// Begins to send and to receive elements, which stay where they are until `moved` gives 0.
    pub transfer: unsafe extern "C" fn(
        sends: *const Piece,
        number_of_sends: usize,
        receives: *const Piece,
        number_of_receives: usize,
    ),
    /// The number of pieces that are still on their way; the ranks of the first `room` of them.
    pub moved: unsafe extern "C" fn(ranks: *mut usize, room: usize) -> usize,
    /// MPI's own sum over all ranks, to compare with.
    pub all_reduce: unsafe extern "C" fn(own: *const f32, sum: *mut f32, elements: usize),
    /// MPI's own gathering of what all ranks have, to compare with.
    pub all_gather: unsafe extern "C" fn(own: *const f32, all: *mut f32, elements: usize),
    /// Ends all processes.
    pub abort: unsafe extern "C" fn(code: c_int) -> !,
    /// Leaves the other processes, which end too. Every message has been received.
    pub finish: unsafe extern "C" fn(),
}
