//! NCCL, NVIDIA's library of collectives between devices, loaded when it is wanted. Communicators do not block: what is asked for is
//! polled, so a rank whose others failed gives up instead of waiting for them.
#![allow(unsafe_code)] // a foreign library is called: each block says why it may be

use crate::Error;
use cudarc::driver::sys::CUstream;
use libloading::Library;
use relax_runtime::DType;
use relax_syntax::annotation::Reduction;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;

/// Names under which systems have it.
const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];
/// The first version whose communicators need not block: 2.14.
const FIRST: c_int = 21_400;

/// A number of `ncclResult_t`.
pub(crate) type Code = c_int;
const DONE: Code = 0;
/// It goes on.
const IN_PROGRESS: Code = 7;

/// A communicator: `ncclComm_t`.
pub(crate) type Handle = *mut c_void;

/// By which the ranks of a communicator find each other.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct UniqueId {
    bytes: [c_char; 128],
}

/// `ncclConfig_t` of the first version; later ones take its size from it.
#[repr(C)]
struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    is_blocking: c_int,
}

type ByRank = unsafe extern "C" fn(*mut Handle, c_int, UniqueId, c_int, *mut Config) -> Code;
type Send = unsafe extern "C" fn(*const c_void, usize, c_int, c_int, Handle, CUstream) -> Code;
type Receive = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, Handle, CUstream) -> Code;
type Gather =
    unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, Handle, CUstream) -> Code;
type Reduce =
    unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Handle, CUstream) -> Code;

/// The loaded library.
pub(crate) struct Nccl {
    error_string: unsafe extern "C" fn(Code) -> *const c_char,
    unique_id: unsafe extern "C" fn(*mut UniqueId) -> Code,
    init_rank: ByRank,
    async_error: unsafe extern "C" fn(Handle, *mut Code) -> Code,
    abort: unsafe extern "C" fn(Handle) -> Code,
    group_start: unsafe extern "C" fn() -> Code,
    group_end: unsafe extern "C" fn() -> Code,
    send: Send,
    receive: Receive,
    all_gather: Gather,
    all_reduce: Reduce,
    reduce_scatter: Reduce,
    _library: Library,
}

/// How the library counts what moves as bytes.
const BYTES: c_int = 1;

impl Nccl {
    /// That of the folder which the environment variable `RELAX_NCCL` names, else that of the system.
    ///
    /// # Errors
    /// When there is none, or one that is too old.
    pub(crate) fn find() -> Result<Self, Error> {
        let folder = std::env::var_os("RELAX_NCCL").filter(|path| !path.is_empty());
        let mut why = String::new();
        for name in NAMES {
            let path = folder.as_ref().map_or(name.into(), |folder| Path::new(folder).join(name));
            // SAFETY: the library starts nothing when it is loaded.
            match unsafe { Library::new(&path) } {
                Ok(library) => return Self::of(library),
                Err(error) if why.is_empty() => why = error.to_string(),
                Err(_) => {}
            }
        }
        Err(Error::NoNccl { why })
    }

    fn of(library: Library) -> Result<Self, Error> {
        macro_rules! function {
            ($name:literal) => {{
                // SAFETY: the field has the type that the library's header declares for this name, and goes with the library.
                let found = unsafe { library.get($name) };
                *found.map_err(|error| Error::NoNccl { why: error.to_string() })?
            }};
        }
        let version: unsafe extern "C" fn(*mut c_int) -> Code = function!(b"ncclGetVersion");
        let mut number = 0;
        // SAFETY: the library writes one number.
        let code = unsafe { version(&raw mut number) };
        if code != DONE || number < FIRST {
            let why = format!("version {number} is older than {FIRST}");
            return Err(Error::NoNccl { why });
        }
        Ok(Self {
            error_string: function!(b"ncclGetErrorString"),
            unique_id: function!(b"ncclGetUniqueId"),
            init_rank: function!(b"ncclCommInitRankConfig"),
            async_error: function!(b"ncclCommGetAsyncError"),
            abort: function!(b"ncclCommAbort"),
            group_start: function!(b"ncclGroupStart"),
            group_end: function!(b"ncclGroupEnd"),
            send: function!(b"ncclSend"),
            receive: function!(b"ncclRecv"),
            all_gather: function!(b"ncclAllGather"),
            all_reduce: function!(b"ncclAllReduce"),
            reduce_scatter: function!(b"ncclReduceScatter"),
            _library: library,
        })
    }

    /// What a number means: an error, unless it is done or goes on.
    pub(crate) fn accepted(&self, code: Code) -> Result<(), Error> {
        if code == DONE || code == IN_PROGRESS {
            return Ok(());
        }
        // SAFETY: the library has a text for every number, which stays.
        let words = unsafe { CStr::from_ptr((self.error_string)(code)) };
        Err(Error::Driver(format!("NCCL: {}", words.to_string_lossy())))
    }

    pub(crate) fn unique_id(&self) -> Result<UniqueId, Error> {
        let mut id = UniqueId { bytes: [0; 128] };
        // SAFETY: the library writes all of it.
        self.accepted(unsafe { (self.unique_id)(&raw mut id) })?;
        Ok(id)
    }

    /// The communicator of a rank of some, on the device of the thread's context; it is made when it [`Nccl::is_idle`].
    pub(crate) fn communicator(
        &self,
        id: UniqueId,
        (size, rank): (usize, usize),
    ) -> Result<Handle, Error> {
        let version = c_uint::try_from(FIRST).unwrap_or(0);
        let mut config =
            Config { size: size_of::<Config>(), magic: 0xcafe_beef, version, is_blocking: 0 };
        let mut made = std::ptr::null_mut();
        // SAFETY: both are written or read before it returns.
        let code = unsafe {
            (self.init_rank)(&raw mut made, number(size), id, number(rank), &raw mut config)
        };
        self.accepted(code)?;
        Ok(made)
    }

    /// Whether nothing that was asked of a communicator goes on.
    pub(crate) fn is_idle(&self, communicator: Handle) -> Result<bool, Error> {
        let mut state = DONE;
        // SAFETY: whoever calls this has the communicator; the library writes one number.
        self.accepted(unsafe { (self.async_error)(communicator, &raw mut state) })?;
        self.accepted(state)?;
        Ok(state == DONE)
    }

    /// The end of a communicator: what goes on is given up, and nobody is waited for.
    pub(crate) fn abort(&self, communicator: Handle) {
        // SAFETY: whoever calls this has the communicator, and forgets it.
        let _ = unsafe { (self.abort)(communicator) };
    }

    /// What is asked for within goes on at once.
    pub(crate) fn grouped(&self, ask: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        // SAFETY: the end follows, whatever happens between.
        self.accepted(unsafe { (self.group_start)() })?;
        let asked = ask();
        // SAFETY: the start was a moment ago.
        let ended = self.accepted(unsafe { (self.group_end)() });
        asked.and(ended)
    }

    /// Sends bytes to a rank, on a stream of its device, as the caller says.
    pub(crate) fn send(
        &self,
        (communicator, stream): (Handle, CUstream),
        (address, bytes): (u64, usize),
        to: usize,
    ) -> Result<(), Error> {
        // SAFETY: the caller has as many bytes at this address of the device until the stream has done this.
        let code =
            unsafe { (self.send)(at(address), bytes, BYTES, number(to), communicator, stream) };
        self.accepted(code)
    }

    /// Receives bytes of a rank.
    pub(crate) fn receive(
        &self,
        (communicator, stream): (Handle, CUstream),
        (address, bytes): (u64, usize),
        from: usize,
    ) -> Result<(), Error> {
        // SAFETY: as of `send`.
        let code = unsafe {
            (self.receive)(at(address), bytes, BYTES, number(from), communicator, stream)
        };
        self.accepted(code)
    }

    /// As many bytes of each rank.
    pub(crate) fn all_gather(
        &self,
        (communicator, stream): (Handle, CUstream),
        (from, to): (u64, u64),
        bytes: usize,
    ) -> Result<(), Error> {
        // SAFETY: as of `send`, with as many bytes for each rank at `to`.
        let code =
            unsafe { (self.all_gather)(at(from), at(to), bytes, BYTES, communicator, stream) };
        self.accepted(code)
    }

    /// Elements of all ranks, reduced.
    pub(crate) fn all_reduce(
        &self,
        on: (Handle, CUstream),
        addresses: (u64, u64),
        what: (usize, DType, Reduction),
    ) -> Result<(), Error> {
        self.reduce(self.all_reduce, on, addresses, what)
    }

    /// The same of blocks, of which each rank gets its own; the count is that of a block.
    pub(crate) fn reduce_scatter(
        &self,
        on: (Handle, CUstream),
        addresses: (u64, u64),
        what: (usize, DType, Reduction),
    ) -> Result<(), Error> {
        self.reduce(self.reduce_scatter, on, addresses, what)
    }

    fn reduce(
        &self,
        reduce: Reduce,
        (communicator, stream): (Handle, CUstream),
        (from, to): (u64, u64),
        (count, dtype, reduction): (usize, DType, Reduction),
    ) -> Result<(), Error> {
        let Some(dtype) = dtype_of(dtype) else {
            return Err(Error::Driver(format!("NCCL reduces no {dtype}")));
        };
        let operation = match reduction {
            Reduction::Sum => 0,
            Reduction::Max => 2,
            Reduction::Min => 3,
        };
        // SAFETY: as of `send`, with as many elements of this dtype.
        let code =
            unsafe { reduce(at(from), at(to), count, dtype, operation, communicator, stream) };
        self.accepted(code)
    }
}

fn at(address: u64) -> *mut c_void {
    std::ptr::without_provenance_mut(usize::try_from(address).unwrap_or(0))
}

/// Ranks are fewer than any integer is large.
fn number(rank: usize) -> c_int {
    c_int::try_from(rank).unwrap_or(-1)
}

/// Numbers of `ncclDataType_t`.
fn dtype_of(dtype: DType) -> Option<c_int> {
    Some(match dtype {
        DType::I8 => 0,
        DType::U8 => 1,
        DType::I32 => 2,
        DType::U32 => 3,
        DType::I64 => 4,
        DType::U64 => 5,
        DType::F16 => 6,
        DType::F32 => 7,
        DType::F64 => 8,
        DType::BF16 => 9,
        DType::I16 | DType::U16 | DType::Bool => return None,
    })
}
