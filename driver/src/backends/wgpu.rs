//! Devices of WebGPU.

use super::{Backend, Measured, Opened};
use crate::CompileError;
use relax_cpu::Cache;
use relax_rewrite::classes::Class;
use relax_rewrite::pass::Device;
use relax_runtime::program::Numerics;

pub(super) struct Wgpu;

impl Backend for Wgpu {
    fn device(&self) -> Device {
        Device::Wgpu
    }

    fn about(&self) -> &'static str {
        "A WebGPU device, on the virtual machine; needs a build with the feature `wgpu`"
    }

    fn missing(&self) -> Option<&'static str> {
        (!cfg!(feature = "wgpu")).then_some(
            "this build has no devices of WebGPU: build it with `cargo build --release -p relax-cli --features wgpu`",
        )
    }

    #[cfg(feature = "wgpu")]
    fn devices(&self, _cache: Option<&Cache>) -> Result<Vec<String>, String> {
        let all = relax_webgpu::devices();
        if all.is_empty() {
            return Err("no device; ./setup.sh webgpu fetches a software one".to_owned());
        }
        Ok(all)
    }

    #[cfg(feature = "wgpu")]
    fn open(&self) -> Result<Box<dyn Opened>, CompileError> {
        let device = relax_webgpu::Device::open(relax_webgpu::Formats::NATIVE);
        Ok(Box::new(device::First(device.map_err(device::refused)?)))
    }

    #[cfg(not(feature = "wgpu"))]
    fn devices(&self, _cache: Option<&Cache>) -> Result<Vec<String>, String> {
        super::lacks(self).map_err(|error| error.to_string())
    }

    #[cfg(not(feature = "wgpu"))]
    fn open(&self) -> Result<Box<dyn Opened>, CompileError> {
        super::lacks(self)
    }

    fn measured(&self) -> Option<Measured> {
        let classes = &[Class::Elements, Class::Tiles, Class::Squares];
        Some(Measured { classes, dtypes: &[("f32", 4)], numerics: Numerics::Exact })
    }
}

#[cfg(feature = "wgpu")]
mod device {
    use super::super::Identity;
    use super::{CompileError, Device, Opened};
    use crate::{Artifact, Target};
    use relax_lower::lowered::Lowered;
    use relax_lower::program::{Around, kernels, lower_program, watch_kernels};
    use relax_runtime::Module;
    use relax_semantics::ops::Limits;
    use relax_webgpu::WgpuKernels;
    use std::sync::Arc;

    /// The first device.
    pub(super) struct First(pub(super) relax_webgpu::Device);

    pub(super) fn refused(why: impl ToString) -> CompileError {
        CompileError::Device(why.to_string())
    }

    impl Opened for First {
        fn identity(&self) -> Option<Identity> {
            let (name, driver) = (self.0.name().to_owned(), self.0.driver());
            Some(Identity { device: Device::Wgpu, name, driver })
        }

        fn link(
            self: Box<Self>,
            lowered: &Lowered,
            around: &Around<'_>,
            _target: &Target,
        ) -> Result<Artifact, CompileError> {
            let Lowered { module, summaries, .. } = lowered;
            let mut image = lower_program(module, around)
                .map_err(|why| refused(format!("not supported: {why}")))?;
            watch_kernels(&mut image, module, |program| summaries.on(program));
            let programs = kernels(module);
            let known = (Limits::default(), Some(around.source));
            let kernels = WgpuKernels::new(Arc::new(self.0), module, &programs, known);
            let module = Module::new(image, Box::new(kernels.map_err(refused)?));
            Ok(Artifact::Loaded(module.map_err(refused)?))
        }
    }
}
