//! Memory of tensors: blocks that are aligned for every kernel, and the pool that gives them out again.
//!
//! Memory is zero when it comes from the system, and keeps what it held when it is given out again, so
//! that it is always initialized. The pool keeps blocks by size: a call that asks for the sizes of an
//! earlier one gets its blocks, and nothing is allocated. What was not asked for in the last
//! [`KEPT_CALLS`] calls goes back to the system.
#![allow(unsafe_code)]

use crate::mapping::Mapping;
use crate::stop::Stop;
use memmap2::MmapMut;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The alignment of every block: a cache line, and the widest vector there is.
pub const ALIGNMENT: usize = 64;

/// Calls that a block waits for its next use.
const KEPT_CALLS: u64 = 8;

/// Sizes of which a place is kept though no block waits there: one that is in use comes back.
const KEPT_SIZES: usize = 64;

/// Bytes from which on a block is mapped, with large pages where the system has them: of a matrix that is read once, each row
/// on pages of its own, looking up small pages is a fifth of the time.
const LARGE: usize = 4 << 20;

/// Bytes of the machine's own, or of a file that is mapped.
struct Raw {
    data: NonNull<u8>,
    capacity: usize,
    of: Origin,
}

/// Where bytes come from, and what goes when they do.
enum Origin {
    /// Nothing: there are none.
    Nowhere,
    Heap(Layout),
    /// Pages of the system.
    Pages(#[expect(dead_code, reason = "it holds the pages")] MmapMut),
    File(#[expect(dead_code, reason = "it holds the file")] Arc<Mapping>),
    /// Memory of whoever embeds the runtime.
    Lent(#[expect(dead_code, reason = "it ends the loan")] Loan),
}

/// Ends a loan of memory when it is dropped.
pub(crate) type Loan = Box<dyn std::any::Any + Send + Sync>;

// SAFETY: a `Raw` owns its bytes, as a `Box<[u8]>` does, or shares those of a file, which nobody writes to.
unsafe impl Send for Raw {}
// SAFETY: a `Raw` itself gives no access to its bytes. Who reads and writes by way of a `Block` keeps the rule told there.
unsafe impl Sync for Raw {}

fn layout(capacity: usize) -> Option<Layout> {
    Layout::from_size_align(capacity, ALIGNMENT).ok().filter(|layout| layout.size() > 0)
}

impl Raw {
    /// A capacity of 0 is a dangling, aligned pointer. `None` when the system has no memory.
    fn allocate(capacity: usize) -> Option<Raw> {
        if capacity == 0 {
            let data = NonNull::new(std::ptr::without_provenance_mut(ALIGNMENT))?;
            return Some(Raw { data, capacity, of: Origin::Nowhere });
        }
        if capacity >= LARGE {
            return Self::pages(capacity);
        }
        let layout = layout(capacity)?;
        // SAFETY: the size of the layout is not 0.
        let data = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Raw { data, capacity, of: Origin::Heap(layout) })
    }

    fn pages(capacity: usize) -> Option<Raw> {
        let mut pages = MmapMut::map_anon(capacity).ok()?;
        // A wish: a system without large pages refuses it.
        #[cfg(target_os = "linux")]
        let _ = pages.advise(memmap2::Advice::HugePage);
        let data = NonNull::new(pages.as_mut_ptr())?;
        Some(Raw { data, capacity, of: Origin::Pages(pages) })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Origin::Heap(layout) = self.of {
            // SAFETY: it was allocated with this very layout, and is not used any more.
            unsafe { dealloc(self.data.as_ptr(), layout) }
        }
    }
}

/// A block of memory; when the last name of it goes, it returns to its pool.
///
/// Who may touch the bytes: while a call runs, its machine, which writes only to storages that it made
/// itself, to blocks nobody else has seen, and to blocks whose only name the caller gave up; everyone else reads, and only what no machine writes
/// to any more. [`crate::tensor::Tensor`] is such a name.
pub(crate) struct Block {
    raw: Option<Raw>,
    bytes: usize,
    pool: Option<Arc<Pool>>,
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({} bytes)", self.bytes)
    }
}

impl Block {
    /// The first byte.
    pub(crate) fn data(&self) -> NonNull<u8> {
        self.raw.as_ref().expect("invariant: only dropping takes it").data
    }

    /// How many there are.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nobody relies on its bytes as they are but those who have a name of the block.
    pub(crate) fn is_writable(&self) -> bool {
        let of = self.raw.as_ref().map(|raw| &raw.of);
        matches!(of, Some(Origin::Nowhere | Origin::Heap(_) | Origin::Pages(_)))
    }

    /// A block outside of every pool with zeros; `None` when the system has no memory.
    pub(crate) fn zeros(bytes: usize) -> Option<Block> {
        let raw = Raw::allocate(rounded(bytes)?)?;
        Some(Block { raw: Some(raw), bytes, pool: None })
    }

    /// A block outside of every pool that holds a copy; `None` when the system has no memory.
    pub(crate) fn copied(bytes: &[u8]) -> Option<Block> {
        let block = Self::zeros(bytes.len())?;
        // SAFETY: the block is new, so they do not overlap, and has at least as many bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), block.data().as_ptr(), bytes.len());
        }
        Some(block)
    }

    /// A block that is a part of a file; `None` where that does not begin as blocks do. Nothing writes to it: the machine
    /// writes to its storages only.
    pub(crate) fn mapped(file: &Arc<Mapping>, range: Range<usize>) -> Option<Block> {
        let bytes = file.get(range).filter(|_| file.is_aligned())?;
        let data = NonNull::from(bytes).cast::<u8>();
        let fits = data.addr().get().is_multiple_of(ALIGNMENT) && !bytes.is_empty();
        let (capacity, length) = (bytes.len(), bytes.len());
        let raw = fits.then(|| Raw { data, capacity, of: Origin::File(Arc::clone(file)) })?;
        Some(Block { raw: Some(raw), bytes: length, pool: None })
    }

    /// A block of memory that is lent until the loan is dropped. `None` where it does not begin at a multiple of `alignment`.
    ///
    /// # Safety
    /// There are so many initialized bytes, which stay and which nobody writes to until the loan is dropped.
    pub(crate) unsafe fn lent(
        (data, bytes): (*const u8, usize),
        alignment: usize,
        loan: Loan,
    ) -> Option<Block> {
        if bytes == 0 {
            return Self::copied(&[]);
        }
        let data = NonNull::new(data.cast_mut())?;
        let fits = data.addr().get().is_multiple_of(alignment);
        let raw = fits.then(|| Raw { data, capacity: bytes, of: Origin::Lent(loan) })?;
        Some(Block { raw: Some(raw), bytes, pool: None })
    }

    /// The bytes from `offset` on. For names of blocks that nothing writes to, as is told above.
    pub(crate) fn read(&self, offset: usize, length: usize) -> &[u8] {
        let fits = offset.checked_add(length).is_some_and(|end| end <= self.bytes);
        assert!(fits, "invariant: a tensor lies within its block");
        // SAFETY: they lie in the block and are initialized; the caller holds a name of a block that
        // nothing writes to while it is read (see `Block`).
        unsafe { std::slice::from_raw_parts(self.data().as_ptr().add(offset), length) }
    }
}

impl Block {
    /// All bytes of a block that is new or was given out anew: whoever owns it is the only one who has a name of it.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(self.is_writable(), "invariant: new blocks are the machine's own");
        // SAFETY: they are initialized, and the block is borrowed for as long as they are.
        unsafe { std::slice::from_raw_parts_mut(self.data().as_ptr(), self.bytes) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let (Some(raw), Some(pool)) = (self.raw.take(), self.pool.take()) {
            pool.take_back(raw);
        }
    }
}

/// Blocks by size.
#[derive(Debug)]
pub(crate) struct Pool {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By capacity, each with the number of the call that gave it back.
    free: BTreeMap<usize, Vec<(Raw, u64)>>,
    in_use: usize,
    cached: usize,
    calls: u64,
    allocations: u64,
    limit: usize,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes in use, {} waiting", self.in_use, self.cached)
    }
}

/// Capacities are multiples of the alignment, so that nearby sizes share blocks.
fn rounded(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(ALIGNMENT).filter(|&bytes| isize::try_from(bytes).is_ok())
}

impl Pool {
    pub(crate) fn new(limit: usize) -> Self {
        Self { state: Mutex::new(State { limit, ..State::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks that the system was asked for so far.
    pub(crate) fn allocations(&self) -> u64 {
        self.state().allocations
    }

    /// A block of this many bytes, whatever they hold.
    pub(crate) fn give(self: &Arc<Self>, bytes: usize) -> Result<Block, Stop> {
        let mut state = self.state();
        let limit = state.limit;
        let too_much = || Stop::Exhausted {
            resource: "memory",
            detail: format!("the tensors that are in use take more than {limit} bytes"),
        };
        let capacity = rounded(bytes).ok_or_else(too_much)?;
        let total = state.in_use.checked_add(capacity).ok_or_else(too_much)?;
        if total > limit {
            return Err(too_much());
        }
        let raw = match state.reuse(capacity) {
            Some(raw) => raw,
            None => {
                if total.saturating_add(state.cached) > limit {
                    state.free.clear();
                    state.cached = 0;
                }
                state.allocations += 1;
                Raw::allocate(capacity).ok_or_else(|| Stop::Exhausted {
                    resource: "memory",
                    detail: format!("the system has no {bytes} bytes"),
                })?
            }
        };
        state.in_use = total;
        Ok(Block { raw: Some(raw), bytes, pool: Some(Arc::clone(self)) })
    }

    fn take_back(&self, raw: Raw) {
        let mut state = self.state();
        state.in_use = state.in_use.saturating_sub(raw.capacity);
        if raw.capacity > 0 {
            state.cached += raw.capacity;
            let call = state.calls;
            state.free.entry(raw.capacity).or_default().push((raw, call));
        }
    }

    /// A call ended: what was not used for long goes back to the system.
    pub(crate) fn end_call(&self) {
        let mut state = self.state();
        state.calls += 1;
        let oldest = state.calls.saturating_sub(KEPT_CALLS);
        let (mut freed, few) = (0, state.free.len() <= KEPT_SIZES);
        state.free.retain(|capacity, blocks| {
            let before = blocks.len();
            blocks.retain(|(_, call)| *call >= oldest);
            freed += (before - blocks.len()) * capacity;
            few || !blocks.is_empty()
        });
        state.cached = state.cached.saturating_sub(freed);
    }
}

impl State {
    fn reuse(&mut self, capacity: usize) -> Option<Raw> {
        if capacity == 0 {
            return Raw::allocate(0);
        }
        let blocks = self.free.get_mut(&capacity)?;
        let (raw, _) = blocks.pop()?;
        self.cached = self.cached.saturating_sub(capacity);
        Some(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_was_there_is_not_allocated_again() {
        let pool = Arc::new(Pool::new(1 << 20));
        let (a, b) = (pool.give(100), pool.give(0));
        assert!(a.is_ok() && b.is_ok());
        drop((a, b));
        assert!(pool.give(127).is_ok(), "the same capacity");
        assert_eq!(pool.allocations(), 1);
    }

    /// Large blocks are pages of the system, which are as zero, as aligned and as much their own.
    #[test]
    fn large_blocks_hold_what_small_ones_do() {
        for bytes in [LARGE - 64, LARGE, LARGE + 1, 3 * LARGE] {
            let content: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
            let block = Block::copied(&content).expect("there is memory");
            assert!(block.data().addr().get().is_multiple_of(ALIGNMENT));
            assert_eq!(block.read(0, bytes), content);
            let pool = Arc::new(Pool::new(4 * LARGE));
            let fresh = pool.give(bytes).expect("it is within the limit");
            assert!(fresh.read(0, bytes).iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn the_limit_counts_what_is_in_use() {
        let pool = Arc::new(Pool::new(256));
        let held = pool.give(200);
        assert!(held.is_ok());
        assert!(matches!(pool.give(64), Err(Stop::Exhausted { .. })));
        assert!(matches!(pool.give(usize::MAX), Err(Stop::Exhausted { .. })));
        drop(held);
        // What waits makes room for what is needed.
        assert!(pool.give(64).is_ok());
    }

    /// Bytes that wait count as well: a block that would go beyond the limit with them is made after they are gone.
    #[test]
    fn what_waits_goes_where_the_limit_is_reached() {
        let pool = Arc::new(Pool::new(256));
        let waiting = |pool: &Arc<Pool>| {
            let state = pool.state();
            let free = state.free.iter().map(|(bytes, blocks)| bytes * blocks.len()).sum::<usize>();
            assert_eq!(free, state.cached);
            (free, state.in_use)
        };
        drop((pool.give(64), pool.give(128)));
        assert_eq!(waiting(&pool), (192, 0));
        let held = pool.give(64).expect("it waits");
        assert_eq!(waiting(&pool), (128, 64));
        let other = pool.give(65);
        assert_eq!(waiting(&pool), (0, 192), "another size of 128 was waiting");
        drop((held, other));
        assert_eq!(waiting(&pool), (192, 0));
        assert!(pool.give(256).is_ok());
        assert_eq!(waiting(&pool), (256, 0));
        assert_eq!(pool.allocations(), 3);
    }

    #[test]
    fn memory_is_lent_where_it_is_aligned() {
        let bytes = [7_u64; 4];
        let data = bytes.as_ptr().cast::<u8>();
        let lent = |at: usize, bytes, alignment| {
            // SAFETY: they lie in the array, which stays.
            unsafe { Block::lent((data.wrapping_add(at), bytes), alignment, Box::new(())) }
        };
        let block = lent(8, 16, 8).expect("it is aligned");
        assert_eq!((block.bytes(), block.is_writable()), (16, false));
        assert_eq!(block.read(0, 16).as_ptr().addr(), data.addr() + 8);
        assert!(lent(4, 8, 8).is_none() && lent(4, 8, 4).is_some());
        // SAFETY: of no bytes none is read.
        let nothing = unsafe { Block::lent((std::ptr::null(), 0), 8, Box::new(())) };
        assert_eq!(nothing.expect("it needs no memory").bytes(), 0);
        // SAFETY: it is refused.
        assert!(unsafe { Block::lent((std::ptr::null(), 1), 1, Box::new(())) }.is_none());
    }

    /// Places of sizes stay while there are few of them.
    #[test]
    fn of_many_sizes_empty_places_go() {
        let pool = Arc::new(Pool::new(1 << 20));
        let sizes = |count: usize| (1..=count).for_each(|at| drop(pool.give(at * ALIGNMENT)));
        sizes(KEPT_SIZES);
        (0..=KEPT_CALLS).for_each(|_| pool.end_call());
        assert_eq!(pool.state().free.len(), KEPT_SIZES);
        sizes(KEPT_SIZES + 1);
        (0..=KEPT_CALLS).for_each(|_| pool.end_call());
        let state = pool.state();
        assert_eq!((state.free.len(), state.cached), (0, 0));
    }

    #[test]
    fn what_waits_for_long_goes() {
        let pool = Arc::new(Pool::new(1 << 20));
        drop(pool.give(64));
        (0..=KEPT_CALLS).for_each(|_| pool.end_call());
        drop(pool.give(64));
        assert_eq!(pool.allocations(), 2);
    }
}
