//! NVIDIA's devices: kernels compiled by NVRTC and launched by the driver.

use super::{Backend, Measured, Opened};
use crate::CompileError;
use relax_cpu::Cache;
use relax_rewrite::classes::Class;
use relax_rewrite::pass::Device;
use relax_runtime::program::Numerics;

pub(super) struct Cuda;

impl Backend for Cuda {
    fn device(&self) -> Device {
        Device::Cuda
    }

    fn about(&self) -> &'static str {
        "An NVIDIA device; needs a build with the feature `cuda`"
    }

    fn missing(&self) -> Option<&'static str> {
        (!cfg!(feature = "cuda")).then_some(
            "this build has no devices of CUDA: build it with `cargo build --release -p relax-cli --features cuda`",
        )
    }

    #[cfg(feature = "cuda")]
    fn devices(&self, _cache: Option<&Cache>) -> Result<Vec<String>, String> {
        let all = relax_cuda::devices().map_err(|why| why.to_string())?;
        let line = |one: &relax_cuda::Facts| {
            format!("{} ({}), {} MiB", one.name, one.architecture, one.bytes >> 20)
        };
        Ok(all.iter().map(line).collect())
    }

    #[cfg(feature = "cuda")]
    fn open(&self) -> Result<Box<dyn Opened>, CompileError> {
        let found = relax_cuda::devices();
        let found = found.map_err(device::refused)?.into_iter().next();
        let found = found.ok_or_else(|| device::refused("there is no device of CUDA"))?;
        Ok(Box::new(device::First(found)))
    }

    #[cfg(feature = "cuda")]
    fn open_ranks(&self, ranks: usize) -> Result<Box<dyn Opened>, CompileError> {
        let found = relax_cuda::devices_of_ranks(ranks).map_err(device::refused)?;
        Ok(Box::new(device::OfRanks(found)))
    }

    #[cfg(not(feature = "cuda"))]
    fn open_ranks(&self, _ranks: usize) -> Result<Box<dyn Opened>, CompileError> {
        super::lacks(self)
    }

    #[cfg(not(feature = "cuda"))]
    fn devices(&self, _cache: Option<&Cache>) -> Result<Vec<String>, String> {
        super::lacks(self).map_err(|error| error.to_string())
    }

    #[cfg(not(feature = "cuda"))]
    fn open(&self) -> Result<Box<dyn Opened>, CompileError> {
        super::lacks(self)
    }

    fn measured(&self) -> Option<Measured> {
        let (classes, dtypes) = (&Class::ALL, &[("f32", 4), ("f16", 2)]);
        Some(Measured { classes, dtypes, numerics: Numerics::Reassociated })
    }
}

#[cfg(feature = "cuda")]
mod device {
    use super::super::Identity;
    use super::{CompileError, Device, Opened};
    use crate::ranks::LoadedRank;
    use crate::{Artifact, Target};
    use relax_cuda::{Built, DeviceKernels, Driver, Facts, build};
    use relax_lower::lowered::Lowered;
    use relax_lower::program::Around;
    use relax_runtime::Module;
    use relax_semantics::ops::Limits;
    use std::sync::Arc;

    /// The first device.
    pub(super) struct First(pub(super) Facts);

    pub(super) fn refused(why: impl ToString) -> CompileError {
        CompileError::Device(why.to_string())
    }

    /// One for each rank.
    pub(super) struct OfRanks(pub(super) Vec<Facts>);

    fn identity(facts: &Facts) -> Identity {
        let Facts { name, architecture, driver, .. } = facts;
        let driver = format!("{architecture}, {driver}");
        Identity { device: Device::Cuda, name: name.clone(), driver }
    }

    impl Opened for OfRanks {
        fn identity(&self) -> Option<Identity> {
            self.0.first().map(identity)
        }

        fn link(
            self: Box<Self>,
            lowered: &Lowered,
            around: &Around<'_>,
            target: &Target,
        ) -> Result<Artifact, CompileError> {
            let built = build(lowered, around, Limits::default(), target.numerics);
            let Built { image, text, kernels, reference } = built.map_err(refused)?;
            let reference = Arc::new(reference);
            let drivers = Driver::of_ranks(&text, self.0.len()).map_err(refused)?;
            let numerics = target.numerics;
            let on = |driver| {
                let device = DeviceKernels::new(driver, kernels.clone(), Arc::clone(&reference));
                let device = Arc::new(device);
                let module = Module::sharing(image.clone(), Arc::clone(&device) as _)?;
                Ok(LoadedRank { module, device, numerics })
            };
            drivers.into_iter().map(on).collect::<Result<_, CompileError>>().map(Artifact::Ranks)
        }
    }

    impl Opened for First {
        fn identity(&self) -> Option<Identity> {
            Some(identity(&self.0))
        }

        fn link(
            self: Box<Self>,
            lowered: &Lowered,
            around: &Around<'_>,
            target: &Target,
        ) -> Result<Artifact, CompileError> {
            let built = build(lowered, around, Limits::default(), target.numerics);
            let built = built.map_err(refused)?;
            let driver = Driver::new(&built.text).map_err(refused)?;
            let kernels = DeviceKernels::new(driver, built.kernels, built.reference);
            Ok(Artifact::Loaded(Module::new(built.image, Box::new(kernels))?))
        }
    }
}
