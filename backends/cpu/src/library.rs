//! A shared object in memory, and calls of what it offers.
#![allow(unsafe_code)] // foreign code is loaded and called: each block says why it may be

use crate::Error;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// A buffer as kernels get it, `rx_tensor` of the calling convention.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Tensor {
    /// Its elements, dense and row-major.
    pub data: *mut c_void,
    /// Its extents, as many as the kernel's signature says.
    pub shape: *const i64,
}

/// `rx_threads` of the calling convention: who runs the parts of a kernel.
#[repr(C)]
#[derive(Debug)]
pub struct Threads {
    /// How many there are.
    pub count: i64,
    /// Calls the function with its context and each part from 0 on: 0, or what the first part gave that did
    /// not give 0.
    pub run: unsafe extern "C" fn(*const Threads, i64, Part, *mut c_void) -> i32,
    /// The steps that are left for the run; null without a limit.
    pub steps: *mut i64,
}

/// One part of a kernel.
pub type Part = unsafe extern "C" fn(*mut c_void, i64) -> i32;

/// `rx_kernel` of the calling convention.
type Entry = unsafe extern "C" fn(*const Tensor, *const i64, *const Threads) -> i32;

/// A loaded shared object.
#[derive(Debug)]
pub struct Library {
    library: libloading::Library,
    path: PathBuf,
}

impl Library {
    /// Loads a shared object that was compiled from printed tensor programs.
    ///
    /// # Errors
    /// What the system says.
    pub fn load(path: &Path) -> Result<Self, Error> {
        // SAFETY: the text of these objects has functions only, nothing runs when they are loaded.
        let library = unsafe { libloading::Library::new(path) };
        let library = library
            .map_err(|error| Error::Load { path: path.to_owned(), why: error.to_string() })?;
        Ok(Self { library, path: path.to_owned() })
    }

    /// A function of the object.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn function(&self, symbol: &str) -> Result<Function<'_>, Error> {
        // SAFETY: every function that the printed text exports has this type.
        let entry = unsafe { self.library.get::<Entry>(symbol.as_bytes()) };
        let entry = entry
            .map_err(|error| Error::Load { path: self.path.clone(), why: error.to_string() })?;
        Ok(Function { entry: *entry, library: PhantomData })
    }
}

/// A kernel, as long as its library is loaded.
#[derive(Clone, Copy, Debug)]
pub struct Function<'l> {
    entry: Entry,
    library: PhantomData<&'l Library>,
}

impl Function<'_> {
    /// Runs the kernel: 0 where it came to its end, `k` where it stopped at entry `k - 1` of its table of
    /// sites, -1 where too few steps were left. Shapes are checked by the kernel.
    ///
    /// # Safety
    /// There are as many tensors and integers as the tensor program has parameters of each kind, with
    /// the rank that it declares; each has as many elements of the declared dtype as its shape says,
    /// in memory of the dtype's alignment that nothing else uses during the call. A tensor that the program
    /// writes overlaps no other one. `threads` runs each part once.
    #[must_use]
    pub unsafe fn call(&self, tensors: &[Tensor], ints: &[i64], threads: Option<&Threads>) -> i32 {
        let threads = threads.map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the caller vouches for the tensors; the library is loaded while `self` lives.
        unsafe { (self.entry)(tensors.as_ptr(), ints.as_ptr(), threads) }
    }
}
