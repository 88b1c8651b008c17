//! MPI behind the table of [`abi`]: `MPI_COMM_WORLD`, by non-blocking calls only, so that the caller finds ranks that hang.

#[path = "../../src/abi.rs"]
mod abi;

use abi::{Engine, Piece, VERSION};
use mpi::collective::SystemOperation;
use mpi::environment::{Threading, Universe};
use mpi::point_to_point::{MatchedReceiveVec, Message, Status};
use mpi::request::{Request, StaticScope};
use mpi::topology::{Communicator, SimpleCommunicator};
use mpi::traits::{CommunicatorCollectives, Destination, Source};
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

/// Tags of messages without and with elements.
const NOTICE: i32 = 1;
const ELEMENTS: i32 = 2;

/// The most bytes of one message: MPI counts in `int`.
const LARGEST: usize = 1 << 30;

/// A message without elements that MPI reads until it has been sent.
struct OnItsWay {
    request: Request<'static, [u8], StaticScope>,
    bytes: *mut [u8],
}

/// What MPI has in hand for this process.
#[derive(Default)]
struct InHand {
    notices: Vec<OnItsWay>,
    /// Pieces with elements, by the rank that they come from or go to.
    pieces: Vec<(usize, Request<'static, [u8], StaticScope>)>,
    found: Option<(Message, Status)>,
    universe: Option<Universe>,
}

// SAFETY: MPI was started for calls of several threads, one at a time, and requests are of the process.
unsafe impl Send for InHand {}

static IN_HAND: Mutex<Option<InHand>> = Mutex::new(None);

impl OnItsWay {
    fn new(to: usize, message: &[u8]) -> Self {
        let bytes = Box::into_raw(Box::<[u8]>::from(message));
        // SAFETY: the box lives until `sent` finds that MPI has read it, and nobody writes to it.
        let shared: &'static [u8] = unsafe { &*bytes };
        let world = SimpleCommunicator::world();
        let to = world.process_at_rank(number(to));
        Self { request: to.immediate_send_with_tag(StaticScope, shared, NOTICE), bytes }
    }

    /// Frees a message that was sent; gives back one that was not.
    fn sent(self) -> Result<(), Self> {
        let Self { request, bytes } = self;
        match request.test() {
            Ok(_) => {
                // SAFETY: it comes from a box, and MPI, which read it, is done.
                drop(unsafe { Box::from_raw(bytes) });
                Ok(())
            }
            Err(request) => Err(Self { request, bytes }),
        }
    }
}

impl InHand {
    /// Frees messages that were sent.
    fn sweep(&mut self) {
        let left = std::mem::take(&mut self.notices).into_iter();
        self.notices.extend(left.filter_map(|one| one.sent().err()));
    }
}

fn in_hand<R>(with: impl FnOnce(&mut InHand) -> R) -> R {
    with(IN_HAND.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// MPI counts ranks in `int`; a run has no more than 256.
fn number(rank: usize) -> i32 {
    i32::try_from(rank).unwrap_or(i32::MAX)
}

unsafe extern "C" fn start(rank: *mut usize, ranks: *mut usize) -> c_int {
    let Some((universe, threading)) = mpi::initialize_with_threading(Threading::Serialized) else {
        return 1;
    };
    if threading < Threading::Serialized {
        return 2;
    }
    let world = universe.world();
    let size = |number: i32| usize::try_from(number).unwrap_or(0);
    // SAFETY: the caller has room for both.
    unsafe {
        *rank = size(world.rank());
        *ranks = size(world.size());
    }
    in_hand(|own| own.universe = Some(universe));
    0
}

unsafe extern "C" fn send(to: usize, bytes: *const u8, length: usize) {
    // SAFETY: the caller lends so many bytes.
    let message = unsafe { std::slice::from_raw_parts(bytes, length) };
    in_hand(|own| {
        own.sweep();
        own.notices.push(OnItsWay::new(to, message));
    });
}

unsafe extern "C" fn receive(from: *mut usize, length: *mut usize) -> bool {
    let world = SimpleCommunicator::world();
    let Some(found) = world.any_process().immediate_matched_probe_with_tag(NOTICE) else {
        return false;
    };
    let sender = usize::try_from(found.1.source_rank()).unwrap_or(0);
    let size = usize::try_from(found.1.count(u8_type())).unwrap_or(0);
    // SAFETY: the caller has room for both.
    unsafe {
        *from = sender;
        *length = size;
    }
    in_hand(|own| own.found = Some(found));
    true
}

fn u8_type() -> mpi::datatype::SystemDatatype {
    <u8 as mpi::traits::Equivalence>::equivalent_datatype()
}

unsafe extern "C" fn take(bytes: *mut u8) {
    let Some(found) = in_hand(|own| own.found.take()) else { return };
    let (message, _) = found.matched_receive_vec::<u8>();
    // SAFETY: the caller has room for as many bytes as `receive` said.
    unsafe { std::ptr::copy_nonoverlapping(message.as_ptr(), bytes, message.len()) };
}

unsafe extern "C" fn transfer(
    sends: *const Piece,
    number_of_sends: usize,
    receives: *const Piece,
    number_of_receives: usize,
) {
    // SAFETY: the caller lends so many of each.
    let (sends, receives) = unsafe {
        (
            std::slice::from_raw_parts(sends, number_of_sends),
            std::slice::from_raw_parts(receives, number_of_receives),
        )
    };
    let world = SimpleCommunicator::world();
    in_hand(|own| {
        own.sweep();
        for piece in receives {
            // SAFETY: the caller keeps the room, which nobody else looks at, until nothing is on its way.
            let room: &'static mut [u8] =
                unsafe { std::slice::from_raw_parts_mut(piece.bytes, piece.length) };
            let process = world.process_at_rank(number(piece.rank));
            for part in room.chunks_mut(LARGEST) {
                let request = process.immediate_receive_into_with_tag(StaticScope, part, ELEMENTS);
                own.pieces.push((piece.rank, request));
            }
        }
        for piece in sends {
            // SAFETY: the caller keeps the bytes, which nobody writes to, until nothing is on its way.
            let bytes: &'static [u8] =
                unsafe { std::slice::from_raw_parts(piece.bytes, piece.length) };
            let process = world.process_at_rank(number(piece.rank));
            for part in bytes.chunks(LARGEST) {
                let request = process.immediate_send_with_tag(StaticScope, part, ELEMENTS);
                own.pieces.push((piece.rank, request));
            }
        }
    });
}

unsafe extern "C" fn moved(ranks: *mut usize, room: usize) -> usize {
    in_hand(|own| {
        let left = std::mem::take(&mut own.pieces).into_iter();
        let still = |(rank, request): (usize, Request<'static, [u8], StaticScope>)| {
            request.test().err().map(|request| (rank, request))
        };
        own.pieces.extend(left.filter_map(still));
        for (at, (rank, _)) in own.pieces.iter().take(room).enumerate() {
            // SAFETY: the caller has room for so many.
            unsafe { *ranks.add(at) = *rank };
        }
        own.pieces.len()
    })
}

unsafe extern "C" fn all_reduce(own: *const f32, sum: *mut f32, elements: usize) {
    // SAFETY: the caller lends so many of each.
    let (own, sum) = unsafe {
        (std::slice::from_raw_parts(own, elements), std::slice::from_raw_parts_mut(sum, elements))
    };
    SimpleCommunicator::world().all_reduce_into(own, sum, SystemOperation::sum());
}

unsafe extern "C" fn all_gather(own: *const f32, all: *mut f32, elements: usize) {
    let world = SimpleCommunicator::world();
    let whole = elements * usize::try_from(world.size()).unwrap_or(0);
    // SAFETY: the caller lends so many of the first, and room for those of all ranks.
    let (own, all) = unsafe {
        (std::slice::from_raw_parts(own, elements), std::slice::from_raw_parts_mut(all, whole))
    };
    world.all_gather_into(own, all);
}

unsafe extern "C" fn abort(code: c_int) -> ! {
    SimpleCommunicator::world().abort(code)
}

unsafe extern "C" fn finish() {
    loop {
        let left = in_hand(|own| {
            own.sweep();
            own.notices.len()
        });
        if left == 0 {
            break;
        }
        std::thread::yield_now();
    }
    drop(in_hand(|own| own.universe.take()));
}

static ENGINE: Engine = Engine {
    version: VERSION,
    start,
    send,
    receive,
    take,
    transfer,
    moved,
    all_reduce,
    all_gather,
    abort,
    finish,
};

/// The table of functions.
#[unsafe(no_mangle)]
pub extern "C" fn relax_mpi_engine() -> *const Engine {
    &raw const ENGINE
}
