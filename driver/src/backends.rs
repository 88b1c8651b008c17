//! The backends that there are: a crate in `backends/`, a file here that says what it can do, and a line in [`BACKENDS`].

mod cpu;
mod cuda;
mod reference;
mod wgpu;

use crate::{Artifact, CompileError, Target};
use relax_cpu::Cache;
use relax_lower::lowered::Lowered;
use relax_lower::program::Around;
use relax_rewrite::classes::Class;
use relax_rewrite::pass::Device;
use relax_runtime::program::Numerics;

/// The backends of this version, those too that are not in this build.
pub static BACKENDS: [&dyn Backend; 4] =
    [&reference::Reference, &cpu::Cpu, &cuda::Cuda, &wgpu::Wgpu];

/// What is known of a backend before one of its devices is open.
pub trait Backend: Sync {
    /// What runs the kernels.
    fn device(&self) -> Device;

    /// One line for help texts.
    fn about(&self) -> &'static str;

    /// Why this build does not have it, where it has not.
    fn missing(&self) -> Option<&'static str> {
        None
    }

    /// A line for each device of this machine. The compiler of the processor is probed where there is a cache.
    ///
    /// # Errors
    /// Why there is none.
    fn devices(&self, cache: Option<&Cache>) -> Result<Vec<String>, String>;

    /// The first device.
    ///
    /// # Errors
    /// Why there is none.
    fn open(&self) -> Result<Box<dyn Opened>, CompileError>;

    /// The first devices, one for each rank of a run: what is linked on them is [`Artifact::Ranks`].
    ///
    /// # Errors
    /// Where there are fewer, or where ranks do not run on such devices.
    fn open_ranks(&self, ranks: usize) -> Result<Box<dyn Opened>, CompileError> {
        let message = format!("{ranks} ranks do not run on {}", self.device().name());
        Err(CompileError::Device(message))
    }

    /// What is measured of products, where that decides which version of them is used.
    fn measured(&self) -> Option<Measured> {
        None
    }
}

/// A device that is open.
pub trait Opened {
    /// By which measurements of it are found, where there are some.
    fn identity(&self) -> Option<Identity> {
        None
    }

    /// The program and the kernels of a module that was lowered for the target.
    ///
    /// # Errors
    /// What the machine or the device has no code for.
    fn link(
        self: Box<Self>,
        lowered: &Lowered,
        around: &Around<'_>,
        target: &Target,
    ) -> Result<Artifact, CompileError>;
}

/// What a device is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Of which backend.
    pub device: Device,
    /// As its driver tells it.
    pub name: String,
    /// With its version.
    pub driver: String,
}

/// The products that are measured on a device.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// The versions that they have.
    pub classes: &'static [Class],
    /// Names of dtypes, and the bytes of an element.
    pub dtypes: &'static [(&'static str, i64)],
    /// How the versions sum.
    pub numerics: Numerics,
}

/// The backend of a device.
#[must_use]
pub fn backend(device: Device) -> &'static dyn Backend {
    let found = BACKENDS.into_iter().find(|backend| backend.device() == device);
    found.expect("invariant: each device has a backend")
}

/// Said where a build lacks the feature of a backend.
#[cfg(not(all(feature = "cuda", feature = "wgpu")))]
fn lacks<T>(backend: &dyn Backend) -> Result<T, CompileError> {
    Err(CompileError::Device(backend.missing().unwrap_or_default().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_has_one_backend() {
        for device in Device::ALL {
            assert_eq!(backend(device).device(), device);
        }
        assert_eq!(BACKENDS.len(), Device::ALL.len());
    }

    #[test]
    fn a_backend_that_is_not_built_says_so() {
        for backend in BACKENDS {
            let Some(why) = backend.missing() else { continue };
            let refused = backend.open().err().map(|error| error.to_string());
            assert_eq!(refused.as_deref(), Some(why));
            assert_eq!(backend.devices(None), Err(why.to_owned()));
        }
    }
}
