//! Kernels in C, compiled by the system's compiler.

use super::{Backend, Opened};
use crate::{Artifact, BuildError, CompileError, Target, Toolchain, build_cpu};
use relax_cpu::{Cache, Compiler};
use relax_emit::Options;
use relax_lower::lowered::Lowered;
use relax_lower::program::Around;
use relax_rewrite::pass::Device;

pub(super) struct Cpu;

impl Backend for Cpu {
    fn device(&self) -> Device {
        Device::Cpu
    }

    fn about(&self) -> &'static str {
        "Kernels compiled by the system's C compiler, on the virtual machine"
    }

    fn devices(&self, cache: Option<&Cache>) -> Result<Vec<String>, String> {
        let compiler = Compiler::of_system().and_then(|compiler| match cache {
            Some(cache) => compiler.probed(cache),
            None => Ok(compiler),
        });
        let compiler = compiler.map_err(|error| error.to_string())?;
        let (command, version) = (compiler.command(), compiler.version());
        let findings = compiler.findings().map(ToString::to_string).unwrap_or_default();
        Ok(vec![format!("this processor, through `{command}` ({version}); {findings}")])
    }

    fn open(&self) -> Result<Box<dyn Opened>, CompileError> {
        Ok(Box::new(Self))
    }
}

impl Opened for Cpu {
    fn link(
        self: Box<Self>,
        lowered: &Lowered,
        around: &Around<'_>,
        target: &Target,
    ) -> Result<Artifact, CompileError> {
        let toolchain = target.toolchain().map_err(BuildError::Compiler)?;
        let Toolchain { compiler, cache, check } = &*toolchain;
        let tiles = target.tuning.tiles.as_ref();
        let options = Options { tiles, ..target.numerics.into() };
        let image = build_cpu(&lowered.module, around, options, (compiler, cache), *check)?;
        Ok(Artifact::File(image))
    }
}
