//! From a module of P2.3 to what a device runs: the program of the machine, the text, and which function is whose.

use crate::Error;
use relax_emit::cuda::{CudaKernel, print_cuda};
use relax_lower::lowered::Lowered;
use relax_lower::maybe_uninit::maybe_uninitialized;
use relax_lower::program::{Around, kernels, lower_program, watch_kernels};
use relax_reference::ReferenceKernels;
use relax_runtime::Span;
use relax_runtime::file::Image;
use relax_runtime::program::Numerics;
use relax_runtime::program::Site;
use relax_semantics::ops::Limits;
use relax_symbolic::Prover;
use relax_syntax::ir::TensorProgram;

/// A module for a device.
pub struct Built {
    /// The program of the machine.
    pub image: Image,
    /// CUDA C++, for NVRTC.
    pub text: String,
    /// In the order of the machine's numbers.
    pub kernels: Vec<CudaKernel>,
    /// The same kernels in the interpreter.
    pub reference: ReferenceKernels,
}

/// Prints the kernels of a module that was lowered for CUDA with the same numerics.
///
/// # Errors
/// What the machine or the printer has no code for.
pub fn build(
    lowered: &Lowered,
    around: &Around<'_>,
    limits: Limits,
    numerics: Numerics,
) -> Result<Built, Error> {
    let Lowered { module, summaries, .. } = lowered;
    let mut image = lower_program(module, around).map_err(Error::Program)?;
    let known = |program: &TensorProgram| summaries.on(program);
    let watched = maybe_uninitialized(module, known);
    let source = print_cuda(module, &mut Prover::new(), Some(around.source), &watched, numerics);
    watch_kernels(&mut image, module, known);
    let mut printed = Vec::new();
    for kernel in &mut image.program.kernels {
        let Some(found) = source.kernels.iter().find(|found| found.name == kernel.name) else {
            let left_out = source.left_out.iter().find(|(name, _)| *name == kernel.name);
            let reason = left_out.map_or("it was not printed", |(_, reason)| reason.as_str());
            let (name, reason) = (kernel.name.clone(), reason.to_owned());
            return Err(Error::Kernel { name, reason });
        };
        let site = |site: &relax_emit::Site| Site {
            id: site.trap.to_string(),
            message: site.message.clone(),
            values: site.values,
            span: Span { start: site.span.start, end: site.span.end },
        };
        kernel.sites = found.sites.iter().map(site).collect();
        if let (Some(known), Some(text)) = (&mut kernel.watched, &found.watched) {
            known.sites = text.sites.iter().map(site).collect();
        }
        printed.push(found.clone());
    }
    let reference = ReferenceKernels::new(kernels(module), limits).map_err(|reason| {
        let name = printed.first().map_or_else(String::new, |kernel| kernel.name.to_string());
        Error::Kernel { name, reason }
    })?;
    Ok(Built { image, text: source.text, kernels: printed, reference })
}
