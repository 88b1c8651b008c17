//! Floor 5: a module of P2.3 and a target make a module file: the program, and the kernels of it as machine
//! code with the places where each may stop.

mod modules;
mod route;

pub use modules::{Digest, Key, Modules};
pub use route::{lower_for_cpu, lower_packed_for_cpu};

use relax_cpu::{Cache, Compiler};
use relax_emit::{Options, Source, print_c};
use relax_lower::maybe_uninit::maybe_uninitialized;
use relax_lower::program::{Around, Unsupported, buffer_elements, lower_program};
use relax_runtime::file::Image;
use relax_runtime::program::{Site, Watched};
use relax_runtime::{Span, host_target};
use relax_symbolic::Prover;
use relax_syntax::ir::Module;
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
}

/// A module file for the processor at hand. `options` say what its kernels may do with sums of floats, and how products
/// are cut.
///
/// # Errors
/// What the machine or the target has no code for, or a compiler that is missing or fails.
pub fn build_cpu<'t>(
    module: &Module,
    around: &Around<'_>,
    options: impl Into<Options<'t>>,
    compiler: &Compiler,
    cache: &Cache,
) -> Result<Image, BuildError> {
    let mut image = lower_program(module, around).map_err(BuildError::Program)?;
    if image.program.kernels.is_empty() {
        return Ok(image);
    }
    let watched = maybe_uninitialized(module, summary_of_parameters);
    let options = Options { watched: Some(&watched), ..options.into() };
    let source = print_c(module, &mut Prover::new(), options);
    attach(&mut image, &source, module)?;
    image.object = relax_cpu::object(&source.text, source.parts, compiler, cache)?;
    image.target = host_target();
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
        span: Span { start: site.span.start, end: site.span.end },
    };
    sites.iter().map(site).collect()
}
