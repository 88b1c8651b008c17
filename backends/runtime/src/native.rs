//! Machine code of kernels, from a module file into memory.
//!
//! The section of kernels is a shared object whose functions have the calling convention `rx_kernel`
//! (`include/relax_runtime.h`). It is loaded from a file of its own, in memory where the system has such files.
#![allow(unsafe_code)]

use crate::file::LoadError;
use crate::kernels::{KernelTrap, Kernels, TensorArg};
use crate::notes::Notes;
use crate::object_file::ObjectFile;
use crate::program::Program;
use crate::steps::StepsLeft;
use crate::stop::Stop;
use crate::workers::{RawThreads, Workers, count};
use std::ffi::c_void;

/// `rx_tensor`
#[repr(C)]
struct RawTensor {
    data: *mut c_void,
    shape: *const i64,
}

/// `rx_kernel`
type Entry = unsafe extern "C" fn(*const RawTensor, *const i64, *const RawThreads<'_>) -> i32;

/// `RX_OUT_OF_STEPS`
const OUT_OF_STEPS: i32 = -1;

/// The kernels of a loaded shared object.
pub(crate) struct NativeKernels {
    entries: Vec<Option<Entry>>,
    /// Those that watch elements.
    watched: Vec<Option<Entry>>,
    workers: Workers,
    notes: Notes,
    /// What the entries point into.
    _library: libloading::Library,
    /// After the library: its number in the process names the library.
    _file: Option<ObjectFile>,
}

impl NativeKernels {
    /// Loads the kernels of a program, for so many threads.
    pub(crate) fn load(
        program: &Program,
        object: &[u8],
        threads: usize,
    ) -> Result<Self, LoadError> {
        let file = ObjectFile::of(object)?;
        // SAFETY: to load a module is to run what it was compiled to, as `Module::load` says; objects
        // that `relax build` makes have no code that runs when they are loaded.
        let library = unsafe { libloading::Library::new(file.path()) };
        let library = library.map_err(|error| LoadError::Kernels(error.to_string()))?;
        let file = file.loaded();
        let entry = |symbol: Option<&String>| match symbol {
            None => Ok(None),
            Some(symbol) => {
                // SAFETY: every symbol that a program names as a kernel has this type: `relax build`
                // writes both.
                let found = unsafe { library.get::<Entry>(symbol.as_bytes()) };
                match found {
                    Ok(entry) => Ok(Some(*entry)),
                    Err(error) => Err(LoadError::Kernels(error.to_string())),
                }
            }
        };
        let kernels = program.kernels.iter();
        let symbols = kernels.clone().map(|kernel| entry(kernel.symbol.as_ref()));
        let entries = symbols.collect::<Result<_, _>>()?;
        let watched =
            kernels.map(|kernel| entry(kernel.watched.as_ref().and_then(|it| it.symbol.as_ref())));
        let watched = watched.collect::<Result<_, _>>()?;
        let notes = Notes::of(&library);
        let workers = Workers::new(count(threads), notes);
        Ok(Self { entries, watched, workers, notes, _library: library, _file: file })
    }

    fn run(
        &self,
        entry: Option<Entry>,
        tensors: &[RawTensor],
        ints: &[i64],
        steps: &StepsLeft,
    ) -> Result<(), KernelTrap> {
        let Some(entry) = entry else {
            let message = "a kernel that has no machine code for this target".to_owned();
            return Err(KernelTrap::Stop(Box::new(Stop::Unsupported(message))));
        };
        let limited = steps.counter().map(|steps| self.workers.limited(steps));
        let threads = limited.as_ref().map_or(self.workers.raw(), std::ptr::from_ref);
        // SAFETY: the library is loaded while `self` lives. The machine has held number, dtypes and ranks of
        // the tensors against the signature that was written with the code, their memory is aligned and
        // initialized, and what the kernel writes to shares none of it; the kernel checks extents itself. Parts of a
        // kernel write to different elements, and the workers live as long as `self`.
        let status = unsafe { entry(tensors.as_ptr(), ints.as_ptr(), threads) };
        match usize::try_from(status) {
            Ok(0) => Ok(()),
            Ok(site) => Err(match self.notes.of_thread() {
                Some(noted) => KernelTrap::Noted(site - 1, noted.to_vec()),
                None => KernelTrap::Site(site - 1),
            }),
            Err(_) if status == OUT_OF_STEPS => Err(StepsLeft::exhausted()),
            Err(_) => {
                let message = format!("a kernel ends with {status}, which means nothing");
                Err(KernelTrap::Stop(Box::new(Stop::Unsupported(message))))
            }
        }
    }
}

impl RawTensor {
    fn of(tensor: &TensorArg<'_>) -> Self {
        Self { data: tensor.data().cast(), shape: tensor.shape().as_ptr() }
    }
}

impl Kernels for NativeKernels {
    fn call(
        &self,
        kernel: usize,
        tensors: &[TensorArg<'_>],
        ints: &[i64],
    ) -> Result<(), KernelTrap> {
        self.call_within(kernel, tensors, None, ints, &StepsLeft::unlimited())
    }

    fn watches(&self, kernel: usize) -> bool {
        self.watched.get(kernel).is_some_and(Option::is_some)
    }

    fn call_watched(
        &self,
        kernel: usize,
        tensors: &[TensorArg<'_>],
        maps: &mut [Vec<u8>],
        ints: &[i64],
    ) -> Result<(), KernelTrap> {
        self.call_within(kernel, tensors, Some(maps), ints, &StepsLeft::unlimited())
    }

    fn call_within(
        &self,
        kernel: usize,
        tensors: &[TensorArg<'_>],
        maps: Option<&mut [Vec<u8>]>,
        ints: &[i64],
        steps: &StepsLeft,
    ) -> Result<(), KernelTrap> {
        let entries = if maps.is_some() { &self.watched } else { &self.entries };
        let shapes = tensors.iter().map(|tensor| tensor.shape().as_ptr());
        let maps = maps.into_iter().flatten().zip(shapes);
        let maps = maps.map(|(map, shape)| RawTensor { data: map.as_mut_ptr().cast(), shape });
        let raw: Vec<RawTensor> = tensors.iter().map(RawTensor::of).chain(maps).collect();
        self.run(entries.get(kernel).copied().flatten(), &raw, ints, steps)
    }
}

/// Runs a program whose kernels have no machine code.
pub(crate) struct NoKernels;

impl Kernels for NoKernels {
    fn call(&self, _: usize, _: &[TensorArg<'_>], _: &[i64]) -> Result<(), KernelTrap> {
        let message = "the module has no machine code: build it with a target".to_owned();
        Err(KernelTrap::Stop(Box::new(Stop::Unsupported(message))))
    }
}
