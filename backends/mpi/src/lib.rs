//! Ranks that are processes, started by `mpirun`: messages between them through MPI. What they mean is the driver's
//! ([`relax_driver::ranks::Processes`]). MPI is behind a small library, `librelax_mpi.so`, that is loaded when it is wanted: neither
//! this crate nor the command needs MPI to be built.
#![allow(unsafe_code)] // a foreign library is called: each block says why it may be

#[allow(missing_docs, unreachable_pub, reason = "the library has it as its own")]
mod abi;

use abi::{Engine, Piece, VERSION};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW, Symbol};
use relax_driver::ranks::{Addressed, Transport};
use std::ffi::c_int;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// The file of the library, which `backends/mpi/engine` builds.
const FILE: &str = "librelax_mpi.so";

/// The processes that were started together.
struct World {
    engine: &'static Engine,
    rank: usize,
    ranks: usize,
    /// The thread that started MPI.
    thread: ThreadId,
    /// Held by the thread that calls MPI.
    calls: Mutex<()>,
    shares_cores: bool,
}

/// Joins the processes that `mpirun` started; alone where nobody started any. Dropping what it gives leaves the processes, for good, in
/// the thread that joined them.
///
/// The library is that of the folder which the environment variable `RELAX_MPI` names, else that beside the executable, else that of
/// the system.
///
/// # Errors
/// Where there is no library, or MPI does not start.
pub fn connect() -> Result<Box<dyn Transport>, String> {
    let engine = loaded()?;
    let (mut rank, mut ranks) = (0, 0);
    // SAFETY: both have room for a number.
    let code = unsafe { (engine.start)(&raw mut rank, &raw mut ranks) };
    match code {
        0 => {
            let (thread, shares_cores) = (thread::current().id(), shares_cores());
            let calls = Mutex::new(());
            Ok(Box::new(World { engine, rank, ranks, thread, calls, shares_cores }))
        }
        1 => Err("MPI was started already, and that is done once in a process".to_owned()),
        _ => Err("this MPI takes no calls from a program with several threads".to_owned()),
    }
}

/// MPI's own collectives of f32, to compare with.
pub struct Collectives {
    engine: &'static Engine,
    ranks: usize,
}

impl Collectives {
    /// Those between processes that have joined.
    ///
    /// # Errors
    /// Where there is no library.
    pub fn of(joined: &dyn Transport) -> Result<Self, String> {
        Ok(Self { engine: loaded()?, ranks: joined.ranks() })
    }

    /// Puts the sum over all ranks into `sum`.
    ///
    /// # Panics
    /// Where the sum has another length.
    pub fn all_reduce(&self, own: &[f32], sum: &mut [f32]) {
        assert_eq!(own.len(), sum.len(), "invariant: a sum is as long as its terms");
        // SAFETY: both have this length, and MPI was started by `connect`.
        unsafe { (self.engine.all_reduce)(own.as_ptr(), sum.as_mut_ptr(), own.len()) }
    }

    /// Puts what all ranks have into `all`, in their order.
    ///
    /// # Panics
    /// Where it has no room for that.
    pub fn all_gather(&self, own: &[f32], all: &mut [f32]) {
        assert_eq!(own.len() * self.ranks, all.len(), "invariant: there is room for all ranks");
        // SAFETY: as asserted, and MPI was started by `connect`.
        unsafe { (self.engine.all_gather)(own.as_ptr(), all.as_mut_ptr(), own.len()) }
    }
}

fn loaded() -> Result<&'static Engine, String> {
    let path = library();
    let missing = |why: String| {
        format!(
            "no MPI engine: {why}\n`./setup.sh mpi` builds {FILE}; RELAX_MPI names its folder where it does not lie beside relax"
        )
    };
    // The plugins of OpenMPI look for its symbols among those of the process.
    // SAFETY: the library has no initializer that does harm.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) };
    // MPI does not stand being unloaded.
    let library = ManuallyDrop::new(library.map_err(|error| missing(error.to_string()))?);
    // SAFETY: the symbol has this type in every version.
    let table: Result<Symbol<unsafe extern "C" fn() -> *const Engine>, _> =
        unsafe { library.get(b"relax_mpi_engine\0") };
    let table = table.map_err(|error| missing(error.to_string()))?;
    // SAFETY: the table is a static of a library that stays. Its first field is the version, by which the others are known.
    let engine: &'static Engine = unsafe { &*table() };
    if engine.version == VERSION {
        return Ok(engine);
    }
    Err(missing(format!("{} is of version {}, not {VERSION}", path.display(), engine.version)))
}

/// Whether processes that wait let others run: as OpenMPI itself decides, by what it counted or was told.
fn shares_cores() -> bool {
    let is = |name: &str, wanted: &str| std::env::var_os(name).is_some_and(|own| own == wanted);
    is("OMPI_MCA_mpi_yield_when_idle", "1") || !is("OMPI_MCA_mpi_oversubscribe", "0")
}

fn library() -> PathBuf {
    if let Some(folder) = std::env::var_os("RELAX_MPI").filter(|path| !path.is_empty()) {
        return Path::new(&folder).join(FILE);
    }
    let beside = std::env::current_exe().ok().map(|exe| exe.with_file_name(FILE));
    beside.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from(FILE))
}

/// The functions of the engine, while this thread alone calls them.
struct Calls<'w>(&'static Engine, #[expect(dead_code, reason = "it is held")] MutexGuard<'w, ()>);

impl Deref for Calls<'_> {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        self.0
    }
}

impl World {
    fn engine(&self) -> Calls<'_> {
        Calls(self.engine, self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank, self.ranks)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // MPI cannot be left by another thread than the one that joined it, nor by one that stops in the middle of something.
        if self.thread == thread::current().id() && !thread::panicking() {
            // SAFETY: it was started.
            unsafe { (self.engine.finish)() }
        }
    }
}

impl Transport for World {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn shares_cores(&self) -> bool {
        self.shares_cores
    }

    fn send(&self, to: usize, message: Vec<u8>) {
        // SAFETY: the message is copied.
        unsafe { (self.engine().send)(to, message.as_ptr(), message.len()) }
    }

    fn receive(&self) -> Option<Addressed<Vec<u8>>> {
        let (mut from, mut length) = (0, 0);
        let engine = self.engine();
        // SAFETY: both have room for a number.
        if !unsafe { (engine.receive)(&raw mut from, &raw mut length) } {
            return None;
        }
        let mut message = vec![0; length];
        // SAFETY: the message has this length.
        unsafe { (engine.take)(message.as_mut_ptr()) };
        Some((from, message))
    }

    fn transfer(
        &self,
        sends: &[Addressed<&[u8]>],
        receives: &mut [Addressed<&mut [u8]>],
        idle: &mut dyn FnMut(&[usize]),
    ) {
        // Bytes that are sent are not written to.
        let sends: Vec<Piece> = sends
            .iter()
            .map(|(rank, bytes)| piece(*rank, bytes.as_ptr().cast_mut(), bytes.len()))
            .collect();
        let receives: Vec<Piece> = receives
            .iter_mut()
            .map(|(rank, room)| piece(*rank, room.as_mut_ptr(), room.len()))
            .collect();
        // SAFETY: bytes and room are lent to this function, which returns when nothing is on its way. It does not unwind before: `idle`
        // returns or ends the process, as `Unwinds` makes sure of.
        unsafe {
            (self.engine().transfer)(sends.as_ptr(), sends.len(), receives.as_ptr(), receives.len())
        };
        let aborts = Unwinds;
        let mut ranks = vec![0; sends.len() + receives.len()];
        loop {
            // SAFETY: there is room for so many.
            let left = unsafe { (self.engine().moved)(ranks.as_mut_ptr(), ranks.len()) };
            if left == 0 {
                break;
            }
            idle(&ranks[..left.min(ranks.len())]);
        }
        std::mem::forget(aborts);
    }

    fn abort(&self, code: u8) -> ! {
        // SAFETY: it was started.
        unsafe { (self.engine().abort)(c_int::from(code)) }
    }
}

fn piece(rank: usize, bytes: *mut u8, length: usize) -> Piece {
    Piece { rank, bytes, length }
}

/// Ends the process where it is dropped: MPI still uses memory of a caller.
struct Unwinds;

impl Drop for Unwinds {
    fn drop(&mut self) {
        std::process::abort();
    }
}
