//! What the host computes before it launches: how many blocks and threads there are, and how much memory.

use relax_syntax::Name;
use relax_syntax::dim::{Dim, floor_div, floor_mod};
use relax_syntax::ir::tensor::{BinOp, BufferId, Loop, ScalarId, TExpr, UnOp};
use std::collections::BTreeMap;

/// Threads of one block, on every device.
pub(crate) const MOST_THREADS: i64 = 1024;
/// Blocks along an axis, and threads of a block along it. More iterations than blocks are taken in turns.
const MOST_BLOCKS: [i64; 3] = [i32::MAX as i64, 65_535, 65_535];
const MOST_OF_AXIS: [i64; 3] = [1024, 1024, 64];
/// Blocks of a function with memory for each of them.
const MOST_WITH_MEMORY: i64 = 1024;

/// The range of a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Extent {
    start: TExpr,
    stop: TExpr,
}

/// One function of the file.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Its name.
    pub symbol: String,
    /// The loops over blocks, by axis.
    pub(crate) grid: [Vec<Extent>; 3],
    /// The loops over threads, by axis.
    pub(crate) block: [Vec<Extent>; 3],
    /// Whether there must be as many threads as that.
    pub(crate) waits: bool,
}

/// Memory beside the parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Workspace {
    /// The buffer.
    pub buffer: BufferId,
    /// Its dims.
    pub shape: Vec<Dim>,
    /// Bytes of an element.
    pub size: usize,
    /// How many of them there are.
    pub per: Per,
    /// What it holds before the first launch.
    pub begins: Begins,
}

/// What memory holds before the first launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// Anything.
    Open,
    /// Zeros.
    Cleared,
    /// For each element of the parameter of this number among the buffers a byte: 1 if something was written to it. It holds the same
    /// after the last launch.
    Given(usize),
}

/// For whom memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// For all functions.
    Program,
    /// For each block of the function of this number.
    Block(usize),
    /// For each thread of it.
    Thread(usize),
}

/// Blocks of a grid and threads of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// By axis.
    pub blocks: [u32; 3],
    /// By axis.
    pub threads: [u32; 3],
}

/// What a call says of scalars.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Symbolic variables.
    pub dims: BTreeMap<Name, i64>,
    /// Parameters of the program.
    pub scalars: BTreeMap<ScalarId, i64>,
}

impl Extent {
    pub(crate) fn of(item: &Loop) -> Self {
        Self { start: item.start.clone(), stop: item.stop.clone() }
    }

    /// Whether the host can compute it.
    pub(crate) fn is_of_host(&self) -> bool {
        is_of_host(&self.start) && is_of_host(&self.stop)
    }

    /// The number of iterations, where the text has it.
    pub(crate) fn constant(&self) -> Option<i64> {
        match (&self.start, &self.stop) {
            (TExpr::Int(start), TExpr::Int(stop)) => stop.checked_sub(*start),
            _ => None,
        }
    }

    fn count(&self, known: &Known) -> Option<i64> {
        value(&self.stop, known)?.checked_sub(value(&self.start, known)?)
    }
}

impl Launch {
    /// The most threads that a block of it may have.
    #[must_use]
    pub fn most_threads(&self) -> i64 {
        let most = self.block.iter().map(|axis| {
            let counts = axis.iter().map(|extent| extent.constant().unwrap_or(MOST_THREADS));
            counts.max().unwrap_or(1).max(1)
        });
        most.fold(1_i64, i64::saturating_mul).min(MOST_THREADS)
    }

    /// How many blocks and threads there are for a call, with no blocks where nothing is to be done; the error says which limit is
    /// in the way. What the host cannot compute is done in turns.
    ///
    /// # Errors
    /// When more threads wait for each other than a block may have.
    pub(crate) fn sizes(&self, known: &Known, has_memory: bool) -> Result<Sizes, String> {
        let exact = self.block.iter().flatten().all(|extent| extent.count(known).is_some());
        if self.waits && !exact {
            return Err(format!("how many threads wait in `{}` has no value", self.symbol));
        }
        let most = |axis: &[Extent]| {
            let counts = axis.iter().map(|extent| extent.count(known).unwrap_or(1));
            counts.max().unwrap_or(1).max(0)
        };
        let threads = [0, 1, 2].map(|axis| most(&self.block[axis]).max(1));
        let mut left = MOST_THREADS;
        let taken = [0, 1, 2].map(|axis| {
            let count = threads[axis].min(left).min(MOST_OF_AXIS[axis]);
            left /= count;
            count
        });
        if self.waits && taken != threads {
            let wanted = threads.map(|count| count.to_string()).join(" x ");
            return Err(format!(
                "{wanted} threads wait for each other in `{}`, and a block has at most {MOST_THREADS}, of them 64 \
                 along z",
                self.symbol
            ));
        }
        let mut left = if has_memory { MOST_WITH_MEMORY } else { i64::MAX };
        let blocks = [0, 1, 2].map(|axis| {
            let count = most(&self.grid[axis]).min(MOST_BLOCKS[axis]).min(left);
            left /= count.max(1);
            u32::try_from(count).unwrap_or(1)
        });
        Ok(Sizes { blocks, threads: taken.map(|count| u32::try_from(count).unwrap_or(1)) })
    }
}

impl Sizes {
    /// In all.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks.iter().map(|&count| u64::from(count)).product()
    }

    /// Of a block.
    #[must_use]
    pub fn threads(&self) -> u64 {
        self.threads.iter().map(|&count| u64::from(count)).product()
    }
}

impl Workspace {
    /// How many bytes it takes, where the dims have values; the sizes are those of the launches.
    #[must_use]
    pub fn bytes(&self, known: &Known, sizes: &[Sizes]) -> Option<usize> {
        let mut total = u64::try_from(self.size).ok()?;
        for dim in &self.shape {
            let extent = dim.eval(&|name| known.dims.get(name).copied()).ok()?;
            total = total.checked_mul(u64::try_from(extent).ok()?)?;
        }
        let times = match self.per {
            Per::Program => 1,
            Per::Block(launch) => sizes.get(launch)?.blocks(),
            Per::Thread(launch) => {
                let sizes = sizes.get(launch)?;
                sizes.blocks().checked_mul(sizes.threads())?
            }
        };
        usize::try_from(total.checked_mul(times)?).ok()
    }

    /// The function that it is for, where there is one for each block or thread of it.
    #[must_use]
    pub fn launch(&self) -> Option<usize> {
        match self.per {
            Per::Program => None,
            Per::Block(launch) | Per::Thread(launch) => Some(launch),
        }
    }
}

fn is_of_host(expr: &TExpr) -> bool {
    match expr {
        TExpr::Int(_) | TExpr::Dim(_) | TExpr::Scalar(_) => true,
        TExpr::Unary(UnOp::Negate, operand) => is_of_host(operand),
        TExpr::Binary(op, both) => is_arithmetic(*op) && is_of_host(&both.0) && is_of_host(&both.1),
        _ => false,
    }
}

fn is_arithmetic(op: BinOp) -> bool {
    use BinOp::{Add, FloorDiv, Max, Min, Mod, Mul, Sub};
    matches!(op, Add | Sub | Mul | FloorDiv | Mod | Min | Max)
}

/// The value of index arithmetic, where it has one that the host can compute.
pub(crate) fn value(expr: &TExpr, known: &Known) -> Option<i64> {
    match expr {
        TExpr::Int(value) => Some(*value),
        TExpr::Dim(name) => known.dims.get(name).copied(),
        TExpr::Scalar(id) => known.scalars.get(id).copied(),
        TExpr::Unary(UnOp::Negate, operand) => value(operand, known)?.checked_neg(),
        TExpr::Binary(op, both) => {
            let (a, b) = (value(&both.0, known)?, value(&both.1, known)?);
            match op {
                BinOp::Add => a.checked_add(b),
                BinOp::Sub => a.checked_sub(b),
                BinOp::Mul => a.checked_mul(b),
                BinOp::FloorDiv => floor_div(a, b),
                BinOp::Mod => floor_mod(a, b),
                BinOp::Min => Some(a.min(b)),
                BinOp::Max => Some(a.max(b)),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(blocks: [i64; 3], threads: [i64; 3], waits: bool) -> Launch {
        let extents = |counts: [i64; 3]| {
            counts.map(|count| vec![Extent { start: TExpr::Int(0), stop: TExpr::Int(count) }])
        };
        let symbol = "f".to_owned();
        Launch { symbol, grid: extents(blocks), block: extents(threads), waits }
    }

    #[test]
    fn what_is_too_much_at_once_is_done_in_turns() {
        let sizes = |launch: &Launch| launch.sizes(&Known::default(), false);
        let of = launch([1 << 40, 70_000, 1], [2000, 3, 1], false);
        let found = sizes(&of).expect("no limit");
        assert_eq!(found.blocks, [i32::MAX as u32, 65_535, 1]);
        assert_eq!(found.threads, [1024, 1, 1]);
        assert_eq!(of.most_threads(), 1024);
        let with_memory = of.sizes(&Known::default(), true).expect("no limit");
        assert_eq!(with_memory.blocks, [1024, 1, 1]);
    }

    #[test]
    fn without_iterations_there_are_no_blocks() {
        for grid in [[0, 3, 1], [5, -2, 1]] {
            let sizes = launch(grid, [0, 2, 1], false).sizes(&Known::default(), true);
            let sizes = sizes.expect("no limit");
            assert_eq!((sizes.blocks(), sizes.threads), (0, [1, 2, 1]));
        }
    }

    #[test]
    fn threads_that_wait_are_there_at_once_or_refused() {
        let sizes = |threads| launch([1, 1, 1], threads, true).sizes(&Known::default(), false);
        assert_eq!(sizes([32, 8, 4]).map(|sizes| sizes.threads), Ok([32, 8, 4]));
        assert!(sizes([1025, 1, 1]).is_err());
        assert!(sizes([1, 1, 65]).is_err());
    }
}
