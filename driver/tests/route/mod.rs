//! From a program to a loaded module, a call of which is held against an expectation.

pub(super) mod compilers;
pub(super) mod expectation;

use compilers::others;
pub(super) use expectation::{held, perform};
use relax_cpu::{Cache, Compiler};
use relax_driver::{BuildError, KernelCheck, Target, build_cpu, lower, panel};
use relax_lower::lowered::Lowered;
use relax_lower::program::{Around, kernels, lower_program};
use relax_reference::{Printed, ReferenceKernels, register};
use relax_rewrite::pass::{self, Settings};
use relax_rewrite::pipeline::Unwatched;
use relax_runtime as machine;
use relax_runtime::file::Image;
use relax_runtime::program::Numerics;
use relax_semantics::check::Phase;
use relax_semantics::ops::Limits;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use std::sync::OnceLock;

/// What runs kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Device {
    /// The interpreter of tensor programs.
    Reference,
    /// The processor.
    Cpu,
    /// The same, as `relax build --fast` does it.
    Fast,
    /// The processor, with reassociation or without, by one of [`others`].
    Other(usize, Numerics),
}

/// The compiler of this system, and a cache that ends with the tests. What is tested is the code, not how
/// quick it is; whatever can be cut into parts for threads is, all rows are written past caches, and few columns of one are computed
/// together.
fn compiler() -> Option<&'static (Compiler, Cache)> {
    static FOUND: OnceLock<Option<(Compiler, Cache)>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder for the cache");
        let cache = Cache::at(folder.keep());
        Compiler::of_system().ok().map(|compiler| (in_parts(compiler.with_flag("-O1")), cache))
    });
    found.as_ref()
}

fn in_parts(compiler: Compiler) -> Compiler {
    let defined = ["-DRX_GRAIN=1", "-DRX_PAST=-1", "-DRX_STRETCH=16"];
    defined.iter().fold(compiler, |compiler, flag| compiler.with_flag(flag))
}

impl Device {
    /// Whether it can be used here.
    pub(super) fn is_here(self) -> bool {
        self == Device::Reference || compiler().is_some()
    }

    /// Whether sums have the interpreter's bits.
    pub(super) fn is_exact(self) -> bool {
        !matches!(self, Device::Fast | Device::Other(_, Numerics::Reassociated))
    }

    /// Optimized as `relax build` does it where it is another compiler than that of all tests.
    fn compiler(self) -> Result<(Compiler, Cache), String> {
        let (own, cache) = compiler().ok_or("there is no C compiler")?;
        let compiler = match self {
            Device::Other(at, _) => in_parts(others()[at].1.clone()),
            _ => own.clone(),
        };
        Ok((compiler, cache.clone()))
    }
}

/// The part of a program as a module that went through the bytes of a file.
pub(super) fn load(
    part: &Module,
    source: &Source,
    device: Device,
) -> Result<machine::Module, String> {
    let numerics = if device.is_exact() { Numerics::Exact } else { Numerics::Reassociated };
    let panel = match numerics {
        Numerics::Exact => None,
        Numerics::Reassociated => {
            let (compiler, _) = device.compiler()?;
            panel(compiler.target().map_err(|error| error.to_string())?.isa(), None)
        }
    };
    let settings = Settings { panel, ..Settings::default() };
    let runs = if device == Device::Reference { pass::Device::Interp } else { pass::Device::Cpu };
    let lowered = match Phase::of_module(part)? {
        Phase::P23 => Lowered::from(part.clone()),
        _ => lower(&Target::of(runs, numerics), part, &settings, &mut Unwatched)
            .map_err(|failed| format!("{failed:?}"))?,
    };
    let Lowered { module: lowered, values: externals, .. } = lowered;
    let around = Around { externals: &externals, source, signatures: part };
    let limits = Limits::default();
    let mut module = match device {
        Device::Reference => {
            let image = lower_program(&lowered, &around);
            let image = image.map_err(|unsupported| unsupported.to_string())?;
            let kernels = ReferenceKernels::new(kernels(&lowered), limits.clone())?;
            machine::Module::new(read_back(&image)?, Box::new(kernels))
        }
        Device::Cpu | Device::Fast | Device::Other(..) => {
            let (compiler, cache) = &device.compiler()?;
            // Every expectation is compared with the interpreter's value.
            let image = build_cpu(&lowered, &around, numerics, (compiler, cache), KernelCheck::Off);
            let image = image.map_err(|error| match error {
                BuildError::Kernel { reason, .. } => format!("a kernel has no code: {reason}"),
                other => other.to_string(),
            })?;
            let threads = machine::Limits { threads: 3, ..machine::Limits::default() };
            machine::Module::load_with(&read_back(&image)?.to_bytes(), threads)
        }
    }
    .map_err(|error| error.to_string())?;
    register(&mut module, &limits, &Printed::default())?;
    Ok(module)
}

fn read_back(image: &Image) -> Result<Image, String> {
    let read = Image::from_bytes(&image.to_bytes()).map_err(|error| error.to_string())?;
    if read == *image { Ok(read) } else { Err("the file does not read back".to_owned()) }
}
