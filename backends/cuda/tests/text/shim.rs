//! A device that is the processor: the printed text, compiled by the system's C++ compiler with `shim.h` before it.
#![allow(unsafe_code)] // compiled code is loaded and called: each block says why it may be

use relax_cuda::{Device, Error};
use relax_emit::cuda::{CudaKernel, Sizes};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

const FLAGS: &[&str] = &["-std=c++17", "-O1", "-shared", "-fPIC", "-w", "-ffp-contract=off"];
/// Bytes before and after what was asked for, which nobody may change.
const GUARD: usize = 64;
const GUARDED: u8 = 0xa5;

type Entry = unsafe extern "C" fn(*const u64, *const u32, i32);

/// Compiled text, and memory.
pub(super) struct Shim {
    library: libloading::Library,
    /// Whether the last thread and the last block run first.
    is_backwards: bool,
    /// What was asked for, by address; with guards around.
    memory: Mutex<BTreeMap<u64, (Vec<u128>, usize)>>,
}

/// The C++ compiler of the system.
pub(super) fn compiler() -> Option<&'static str> {
    ["c++", "g++", "clang++"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok())
}

impl Shim {
    /// A text with its kernels; the folder is this text's.
    pub(super) fn of(
        text: &str,
        kernels: &[CudaKernel],
        folder: &Path,
        is_backwards: bool,
    ) -> Self {
        let object = folder.join("kernels.so");
        if !object.exists() {
            compile(text, kernels, folder, &object);
        }
        // SAFETY: the object has functions only, nothing runs when it is loaded.
        let library = unsafe { libloading::Library::new(&object) }.expect("the object loads");
        Self { library, is_backwards, memory: Mutex::default() }
    }

    fn memory(&self) -> MutexGuard<'_, BTreeMap<u64, (Vec<u128>, usize)>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes at an address, of which there are at least so many.
    fn at<T>(&self, address: u64, count: usize, with: impl FnOnce(&mut [u8]) -> T) -> T {
        let mut memory = self.memory();
        let (block, bytes) = memory.get_mut(&address).expect("memory that was asked for");
        assert!(count <= *bytes, "{count} bytes of {bytes}");
        // SAFETY: the block has as many bytes, of which any value is fine, and is borrowed.
        let all = unsafe {
            std::slice::from_raw_parts_mut(block.as_mut_ptr().cast::<u8>(), block.len() * 16)
        };
        with(&mut all[GUARD..GUARD + count])
    }
}

fn compile(text: &str, kernels: &[CudaKernel], folder: &Path, object: &Path) {
    let mut text = text.to_owned();
    for launch in kernels.iter().flat_map(|kernel| &kernel.launches) {
        let _ = writeln!(text, "SHIM({})", launch.symbol);
    }
    let (shim, file) = (folder.join("shim.h"), folder.join("kernels.cpp"));
    std::fs::write(&shim, include_str!("shim.h")).expect("a file");
    std::fs::write(&file, text).expect("a file");
    let mut command = Command::new(compiler().expect("asked before"));
    command.args(FLAGS).arg("-include").arg(&shim).arg(&file).arg("-o").arg(object);
    let output = command.output().expect("the compiler runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

impl Device for Shim {
    fn allocate(&self, bytes: usize) -> Result<u64, Error> {
        let mut block = vec![0_u128; (bytes + 2 * GUARD).div_ceil(16)];
        block.fill(u128::from_ne_bytes([GUARDED; 16]));
        let address = block.as_ptr() as u64 + GUARD as u64;
        self.memory().insert(address, (block, bytes));
        Ok(address)
    }

    fn release(&self, address: u64) -> Result<(), Error> {
        let (block, bytes) = self.memory().remove(&address).expect("memory that was asked for");
        let all: Vec<u8> = block.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let is_whole = |guard: &[u8]| guard.iter().all(|&byte| byte == GUARDED);
        let around = is_whole(&all[..GUARD]) && is_whole(&all[GUARD + bytes..]);
        assert!(around, "a kernel writes beyond {bytes} bytes");
        Ok(())
    }

    fn upload(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        self.at(address, bytes.len(), |to| to.copy_from_slice(bytes));
        Ok(())
    }

    fn download(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.at(address, bytes.len(), |from| bytes.copy_from_slice(from));
        Ok(())
    }

    fn fill(&self, address: u64, byte: u8, bytes: usize) -> Result<(), Error> {
        self.at(address, bytes, |to| to.fill(byte));
        Ok(())
    }

    fn launch(&self, symbol: &str, sizes: &Sizes, arguments: &[u64]) -> Result<(), Error> {
        let name = format!("shim_{symbol}");
        // SAFETY: each function that the macro SHIM defines has this type.
        let entry = unsafe { self.library.get::<Entry>(name.as_bytes()) }.expect("a kernel");
        let [x, y, z] = sizes.blocks;
        let [u, v, w] = sizes.threads;
        let sizes = [x, y, z, u, v, w];
        // One launch at a time: the shim keeps its threads in one place.
        let memory = self.memory();
        // SAFETY: arguments are as many as the printer says, and addresses are of memory that is held.
        unsafe { entry(arguments.as_ptr(), sizes.as_ptr(), i32::from(self.is_backwards)) };
        drop(memory);
        Ok(())
    }
}
