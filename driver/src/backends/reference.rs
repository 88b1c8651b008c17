//! Kernels in the interpreter of tensor programs, on the virtual machine.

use super::{Backend, Opened};
use crate::{Artifact, CompileError, Target};
use relax_cpu::Cache;
use relax_lower::lowered::Lowered;
use relax_lower::program::{Around, kernels, lower_program};
use relax_reference::ReferenceKernels;
use relax_rewrite::pass::Device;
use relax_runtime::Module;
use relax_semantics::ops::Limits;

pub(super) struct Reference;

impl Backend for Reference {
    fn device(&self) -> Device {
        Device::Interp
    }

    fn about(&self) -> &'static str {
        "The reference interpreter"
    }

    fn devices(&self, _cache: Option<&Cache>) -> Result<Vec<String>, String> {
        Ok(vec!["the reference interpreter".to_owned()])
    }

    fn open(&self) -> Result<Box<dyn Opened>, CompileError> {
        Ok(Box::new(Self))
    }
}

impl Opened for Reference {
    fn link(
        self: Box<Self>,
        lowered: &Lowered,
        around: &Around<'_>,
        _target: &Target,
    ) -> Result<Artifact, CompileError> {
        let image = lower_program(&lowered.module, around).map_err(crate::BuildError::Program)?;
        let kernels = ReferenceKernels::new(kernels(&lowered.module), Limits::default());
        let kernels = kernels.map_err(CompileError::Device)?;
        Ok(Artifact::Loaded(Module::new(image, Box::new(kernels))?))
    }
}
