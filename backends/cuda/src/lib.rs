//! Floor 5: tensor programs on NVIDIA's devices. What they do is told by the text (`relax_emit::print_cuda`); here it is
//! compiled by NVRTC, which needs no device, and launched on a [`Device`]: that of the driver (feature `cuda`), or, in
//! the tests, one that runs the same text on the processor.
//!
//! Tensors stay on the device ([`resident`]), and launches that the machine calls a graph are recorded and replayed
//! ([`queue`]). Where a thread stops, or a call does not fit the program, the interpreter runs the same call to tell what that
//! means. All that decides something is generic over [`Device`] and tested on the processor; `driver.rs` and `cublas.rs`, which only
//! pass on what they are asked for, are run on an emulated driver (`tests/emulator/`), and by `bench/gpu/run.py` on a device.

mod blocks;
mod build;
mod collectives;
mod composites;
mod device;
mod fold;
mod kernels;
mod links;
mod nvrtc;
mod product;
mod queue;
mod resident;
mod resources;

#[cfg(feature = "cuda")]
mod cublas;
#[cfg(feature = "cuda")]
mod driver;
#[cfg(feature = "cuda")]
mod linked;
#[cfg(feature = "cuda")]
mod nccl;
#[cfg(feature = "cuda")]
mod ranks;
#[cfg(feature = "cuda")]
mod staging;

pub use build::{Built, build};
pub use collectives::Collective;
pub use composites::as_programs;
pub use device::Device;
#[cfg(feature = "cuda")]
pub use driver::{Driver, Facts, devices, devices_of_ranks};
pub use kernels::{DeviceKernels, Meet, RankDevice};
pub use links::{Group, Linked, Reduced, Rows, Transfer};
pub use nvrtc::{Nvrtc, OPTIONS};
pub use product::{Activation, Element, Epilogue, Form, Product};
pub use resources::Resources;

use relax_lower::program::Unsupported;
use std::path::PathBuf;
use thiserror::Error;

/// Why there is no code, or no device.
#[derive(Debug, Error)]
pub enum Error {
    /// NVRTC is not there.
    #[error(
        "the compiler NVRTC is not there ({why}): install CUDA's, or fetch it with ./setup.sh nvrtc and name the folder \
         in the environment variable RELAX_NVRTC"
    )]
    NoCompiler {
        /// What the system says.
        why: String,
    },
    /// It refuses the text.
    #[error("NVRTC fails ({code}):\n{log}")]
    Compile {
        /// Its number.
        code: i32,
        /// What it says.
        log: String,
    },
    /// There is no driver or no device.
    #[error("there is no CUDA device: {0}")]
    NoDevice(String),
    /// The library of collectives is not there.
    #[error(
        "NCCL, which moves tensors between devices, is not there ({why}): install NVIDIA's package libnccl2, or run \
         `pip install nvidia-nccl-cu12` and name its folder nvidia/nccl/lib in the environment variable RELAX_NCCL"
    )]
    NoNccl {
        /// What the system says.
        why: String,
    },
    /// There are fewer devices than ranks.
    #[error("each of the {ranks} ranks needs a CUDA device of its own, and there are {devices}")]
    FewDevices {
        /// Ranks of the run.
        ranks: usize,
        /// Devices of this machine.
        devices: usize,
    },
    /// A rank failed, and the others gave up.
    #[error("a collective was given up: {0}")]
    Rank(String),
    /// The driver says that something failed.
    #[error("the CUDA driver: {0}")]
    Driver(String),
    /// A file of the compiler cannot be used.
    #[error("{path}: {why}")]
    Library {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
    /// The machine has no instruction for something.
    #[error("not supported: {0}")]
    Program(Unsupported),
    /// A tensor program is not printed.
    #[error("not supported: the tensor program `{name}` has no code for CUDA: {reason}")]
    Kernel {
        /// The tensor program.
        name: String,
        /// What is in the way.
        reason: String,
    },
}
