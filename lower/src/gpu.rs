//! Tensor programs for devices whose threads run in blocks: GPU scheduling as rewrites from tensor program to tensor program.
//!
//! **How a scheduled program is written.** It stays one tensor program, so the interpreter runs it, also in lock-step mode, and
//! graphs call it as before. Each statement at its top is one of
//! - a nest of `blockIdx` and `threadIdx` loops: a kernel, and a launch of it,
//! - `T = alloc_buffer(…, "global")`: memory that later kernels hand on, which the host allocates,
//! - `t = e` with an `e` that loads nothing: the host evaluates it, and kernels may use it.
//!
//! Kernels are launched in the order of the text, and the end of a launch is the only synchronisation of the whole grid: nests
//! that depend on one another are kernels of their own. The extents of `blockIdx` and `threadIdx` loops depend on dims, scalar
//! parameters and such `t` alone; where an extent is 0 nothing is launched. `relax_tir::launches` takes a scheduled program
//! apart, for all printers alike.
//!
//! **The general binding** ([`schedule`]) takes any tensor program. Of a nest it binds the loops of which it can tell that their
//! iterations touch what is their own: flattened to one index, in the order of the text, with a guard at the edge, in blocks of
//! [`Limits::threads`] threads, and a second dim of the grid where [`Limits::blocks`] blocks in one are not enough. All other
//! loops run in the thread, so each element is computed in the order of the text: same bits. A statement of which nothing can
//! be told is run by a grid of one thread, and so are all that follow a scalar at the top that was loaded. A nest that has thread
//! loops already is left alone. Of two iterations that would stop the program, the first one in the order of the text is the
//! first in the order of (blockIdx, threadIdx) too; loops are only moved past others where nothing stops.

mod bind;
mod block;
mod choice;
mod expressions;
pub mod measured;
mod pieces;
mod program;
mod register_tiles;
mod rows;
mod scope_promotion;
mod split_terms;
mod steps;
mod storage;
mod strides;
mod tiles;
mod transpose_tiles;
mod vectorize;
mod warps;

pub use program::{schedule, schedule_by, schedule_in, schedule_module};

use relax_rewrite::classes::Tree;
use relax_rewrite::pass::{Device, Exactness};

/// What a grid may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Threads of a block.
    pub threads: i64,
    /// Blocks in each dim of the grid.
    pub blocks: i64,
    /// Bytes of memory that a block shares.
    pub shared: i64,
    /// Blocks that keep all multiprocessors of a device busy. Where there would be fewer, tiles are smaller, and rows are cut into pieces.
    pub busy: i64,
}

/// What decides how a program is written.
#[derive(Clone, Copy, Debug)]
pub struct Choices<'t> {
    /// Of a grid.
    pub limits: Limits,
    /// Of sums: exact ones keep the order of the text; approximate ones reduce rows by the threads of a block, in any order;
    /// those that round to f32 do so too, and sum products of f16 and of bf16 in f32, as tensor cores do.
    pub exactness: Exactness,
    /// Which version of a product there is for which extents, where that was measured.
    pub products: Option<&'t Tree>,
}

impl Choices<'_> {
    /// As nothing was measured.
    #[must_use]
    pub fn of(device: Device, exactness: Exactness) -> Self {
        Self { limits: Limits::of(device), exactness, products: None }
    }
}

impl Default for Limits {
    /// What every device has. How many blocks it runs at once is presumed: large ones have 80 to 132 multiprocessors.
    fn default() -> Self {
        Self { threads: 256, blocks: 65_535, shared: 16 << 10, busy: 128 }
    }
}

impl Limits {
    /// Those that all devices of a target have.
    #[must_use]
    pub fn of(device: Device) -> Self {
        match device {
            Device::Cuda => Self { shared: 48 << 10, ..Self::default() },
            _ => Self::default(),
        }
    }
}
