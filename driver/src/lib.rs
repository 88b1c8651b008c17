//! Floor 6: a program and a [`Target`] make code that runs ([`compile`]): the passes of the target ([`pipeline`]), then the
//! program of the virtual machine with kernels for one of the [`BACKENDS`]. Kernels for the processor are compared with the
//! interpreter before they enter use ([`check_kernel`]). Two routes of a program are compared at random inputs ([`differential`]).
//! What a program with explicit memory takes is a report with a picture ([`memory_report`]).

mod backends;
mod checked_object;
mod compile;
pub mod differential;
pub mod equivalence;
mod evaluation;
pub mod file_kind;
pub mod implementations;
mod kernel_check;
pub mod memory_report;
mod modules;
mod pipeline;
pub mod ranks;
pub mod sizes;
mod target;
pub mod whole_file;

pub use backends::{BACKENDS, Backend, Identity, Measured, Opened, backend};
pub use checked_object::KernelCheck;
pub use compile::{Activations, Artifact, Bound, CompileError, compile, compile_on};
pub use evaluation::{EvaluationError, evaluate_calls};
pub use kernel_check::{Budget, Verdict, check as check_kernel};
pub use modules::{Digest, Key, Modules};
pub use pipeline::{Passes, Schedule, lower, panel, pipeline, round_products};
pub use target::{Library, Target, Toolchain, Tuning};

use checked_object::Unit;
use relax_cpu::{Cache, Compiler};
use relax_emit::{Options, Source, print_c};
use relax_lower::maybe_uninit::maybe_uninitialized;
use relax_lower::program::{Around, Unsupported, buffer_elements, kernels, lower_program};
use relax_runtime::Span;
use relax_runtime::file::Image;
use relax_runtime::program::{Site, Watched};
use relax_symbolic::Prover;
use relax_syntax::ir::Module;
use relax_tir::analysis::bit_exact::is_bit_exact;
use relax_tir::analysis::definite_init::summary_of_parameters;
use thiserror::Error;

/// Why there is no module file.
#[derive(Debug, Error)]
pub enum BuildError {
    /// The machine has no instruction for something.
    #[error("not supported: {0}")]
    Program(Unsupported),
    /// The target has no code for a kernel.
    #[error("not supported: the tensor program `{name}` has no code for this target: {reason}")]
    Kernel {
        /// The tensor program.
        name: String,
        /// What is in the way.
        reason: String,
    },
    /// There is no compiler, or it fails.
    #[error(transparent)]
    Compiler(#[from] relax_cpu::Error),
    /// The kernel check finds a difference, also with fewer optimizations.
    #[error(
        "the kernel check fails: the compiled tensor program `{name}` differs from the interpreter, also with fewer \
         optimizations ({compiler}): {difference}"
    )]
    Miscompiled {
        /// The tensor program.
        name: String,
        /// The first line of the C compiler's `--version`.
        compiler: String,
        /// The extents, the element, both values.
        difference: String,
    },
    /// There is no digest of a weight that is built in.
    #[error("{0}")]
    Weight(String),
}

/// A module file for the processor of the compiler. Its target names the extensions that the kernels use. `options` say what its kernels may do with sums of floats, and how products
/// are cut. The numerics and the results of the kernel check stand in its metadata.
///
/// # Errors
/// What the machine or the target has no code for; a compiler that is missing or fails; a kernel that fails the check.
pub fn build_cpu<'t>(
    module: &Module,
    around: &Around<'_>,
    options: impl Into<Options<'t>>,
    (compiler, cache): (&Compiler, &Cache),
    check: KernelCheck,
) -> Result<Image, BuildError> {
    let mut image = lower_program(module, around).map_err(BuildError::Program)?;
    let options = options.into();
    image.metadata.numerics = options.sums;
    let rounded = kernels(module).into_iter().filter(|kernel| !is_bit_exact(kernel)).count();
    image.metadata.rounded = rounded as u64;
    if image.program.kernels.is_empty() {
        return Ok(image);
    }
    let watched = maybe_uninitialized(module, summary_of_parameters);
    let options = Options { watched: Some(&watched), ..options };
    let source = print_c(module, &mut Prover::new(), options);
    attach(&mut image, &source, module)?;
    let unit = Unit { module, source: &source, sums: options.sums, compiler, cache };
    (image.object, image.metadata.kernel_check) = match check {
        KernelCheck::Off => (unit.object()?.0.bytes()?, None),
        KernelCheck::Within(budget) => {
            unit.checked(budget).map(|(object, check)| (object, Some(check)))?
        }
    };
    image.target = compiler.target()?.words(&image.object);
    Ok(image)
}

/// Symbols and sites of the kernels.
fn attach(image: &mut Image, source: &Source, module: &Module) -> Result<(), BuildError> {
    for kernel in &mut image.program.kernels {
        let printed = source.kernels.iter().find(|printed| printed.name == kernel.name);
        let Some(printed) = printed else {
            let left_out = source.left_out.iter().find(|(name, _)| *name == kernel.name);
            let reason = left_out.map_or("it was not printed", |(_, reason)| reason.as_str());
            let (name, reason) = (kernel.name.clone(), reason.to_owned());
            return Err(BuildError::Kernel { name, reason });
        };
        kernel.symbol = Some(printed.symbol.clone());
        kernel.sites = sites(&printed.sites);
        let watched = printed.watched.as_ref().zip(module.tensor_program(&kernel.name));
        kernel.watched = watched.map(|(watched, program)| Watched {
            symbol: Some(watched.symbol.clone()),
            sites: sites(&watched.sites),
            elements: buffer_elements(program, &watched.elements),
        });
    }
    Ok(())
}

fn sites(sites: &[relax_emit::Site]) -> Vec<Site> {
    let site = |site: &relax_emit::Site| Site {
        id: site.trap.to_string(),
        message: site.message.clone(),
        values: site.values,
        span: Span { start: site.span.start, end: site.span.end },
    };
    sites.iter().map(site).collect()
}
