//! A device that is the processor: the printed text, compiled by the system's C++ compiler with `shim.h` before it.
#![allow(unsafe_code)] // compiled code is loaded and called: each block says why it may be

use relax_cuda::{Device, Error, Form, Product};
use relax_emit::cuda::{CudaKernel, Sizes};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
    /// What is recorded, while something is.
    recorded: Mutex<Option<Vec<Recorded>>>,
}

/// Something to be done again.
pub(super) enum Recorded {
    Fill(u64, u8, usize),
    Copy(u64, u64, usize),
    Launch(String, Sizes, Vec<u64>),
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
        Self { library, is_backwards, memory: Mutex::default(), recorded: Mutex::default() }
    }

    /// Whether it is recorded, and so not done.
    fn records(&self, what: impl FnOnce() -> Recorded) -> bool {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.as_mut().map(|recorded| recorded.push(what())).is_some()
    }

    fn refuse_recorded(&self) {
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(recorded.is_none(), "what no device can record is asked for while it records");
    }

    fn memory(&self) -> MutexGuard<'_, BTreeMap<u64, (Vec<u128>, usize)>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes at an address, of which there are at least so many.
    fn at<T>(&self, address: u64, count: usize, with: impl FnOnce(&mut [u8]) -> T) -> T {
        let mut memory = self.memory();
        let of = memory.range_mut(..=address).next_back();
        let (first, (block, bytes)) = of.expect("memory that was asked for");
        let offset = (address - first) as usize;
        assert!(offset + count <= *bytes, "{count} bytes at {offset} of {bytes}");
        // SAFETY: the block has as many bytes, of which any value is fine, and is borrowed.
        let all = unsafe {
            std::slice::from_raw_parts_mut(block.as_mut_ptr().cast::<u8>(), block.len() * 16)
        };
        with(&mut all[GUARD + offset..GUARD + offset + count])
    }
}

fn compile(text: &str, kernels: &[CudaKernel], folder: &Path, object: &Path) {
    let mut text = text.to_owned();
    for symbol in kernels.iter().flat_map(CudaKernel::symbols) {
        let _ = writeln!(text, "SHIM({symbol})");
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
    type Graph = Vec<Recorded>;

    fn allocate(&self, bytes: usize) -> Result<u64, Error> {
        self.refuse_recorded();
        let mut block = vec![0_u128; (bytes + 2 * GUARD).div_ceil(16)];
        block.fill(u128::from_ne_bytes([GUARDED; 16]));
        let address = block.as_ptr() as u64 + GUARD as u64;
        self.memory().insert(address, (block, bytes));
        Ok(address)
    }

    fn release(&self, address: u64) -> Result<(), Error> {
        self.refuse_recorded();
        let (block, bytes) = self.memory().remove(&address).expect("memory that was asked for");
        let all: Vec<u8> = block.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let is_whole = |guard: &[u8]| guard.iter().all(|&byte| byte == GUARDED);
        let around = is_whole(&all[..GUARD]) && is_whole(&all[GUARD + bytes..]);
        assert!(around, "a kernel writes beyond {bytes} bytes");
        Ok(())
    }

    fn upload(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        self.refuse_recorded();
        self.at(address, bytes.len(), |to| to.copy_from_slice(bytes));
        Ok(())
    }

    fn download(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.refuse_recorded();
        self.at(address, bytes.len(), |from| bytes.copy_from_slice(from));
        Ok(())
    }

    fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), Error> {
        if !self.records(|| Recorded::Copy(from, to, bytes)) {
            let copied = self.at(from, bytes, |from| from.to_vec());
            self.at(to, bytes, |to| to.copy_from_slice(&copied));
        }
        Ok(())
    }

    fn fill(&self, address: u64, byte: u8, bytes: usize) -> Result<(), Error> {
        if self.records(|| Recorded::Fill(address, byte, bytes)) {
            return Ok(());
        }
        self.at(address, bytes, |to| to.fill(byte));
        Ok(())
    }

    fn launch(&self, symbol: &str, sizes: &Sizes, arguments: &[u64]) -> Result<(), Error> {
        if self.records(|| Recorded::Launch(symbol.to_owned(), *sizes, arguments.to_vec())) {
            return Ok(());
        }
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

    fn multiplies(&self, _: &Form) -> bool {
        false
    }

    fn multiply(&self, _: &Product) -> Result<(), Error> {
        panic!("there is no library here")
    }

    fn begin_capture(&self) -> Result<(), Error> {
        self.refuse_recorded();
        *self.recorded.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
        Ok(())
    }

    fn end_capture(&self) -> Result<Vec<Recorded>, Error> {
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(recorded.expect("something is recorded"))
    }

    fn replay(&self, graph: &Vec<Recorded>) -> Result<(), Error> {
        self.refuse_recorded();
        graph.iter().try_for_each(|step| match step {
            Recorded::Fill(address, byte, bytes) => self.fill(*address, *byte, *bytes),
            Recorded::Copy(from, to, bytes) => self.copy(*from, *to, *bytes),
            Recorded::Launch(symbol, sizes, arguments) => self.launch(symbol, sizes, arguments),
        })
    }

    fn start_clock(&self) -> Result<(), Error> {
        self.refuse_recorded();
        Ok(())
    }

    /// There is no clock: nothing takes time here.
    fn read_clock(&self) -> Result<Duration, Error> {
        self.refuse_recorded();
        Ok(Duration::ZERO)
    }
}
