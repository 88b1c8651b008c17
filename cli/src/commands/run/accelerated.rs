//! Runs on a device beside the processor: kernels are compiled for it, everything else is the virtual machine's.

use super::super::constants::{Constants, load as load_constants};
use super::super::tune::Identity;
#[cfg(any(feature = "wgpu", feature = "cuda"))]
use super::super::tune::known;
use super::compiled::{Prepared, prepare};
#[cfg(feature = "cuda")]
use super::cuda;
#[cfg(feature = "wgpu")]
use super::device;
use super::{entry, is_built, size};
use crate::args::RunArgs;
use crate::exit::Failure;
use relax_cuda::Products;
use relax_program::frontend::Program;
use relax_rewrite::classes::Tree;
use relax_rewrite::pass::Device;
use relax_rewrite::pipeline::Failed;
use relax_runtime::Module;
use relax_runtime::program::Numerics;
use relax_semantics::tensor::Tensor;
use relax_syntax::Name;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Compiles a program and reads the arguments; the inner error is that of a pass.
pub(in crate::commands) fn prepare_device(
    args: &RunArgs,
    program: &Program,
    sums: Numerics,
) -> Result<Result<Prepared, Failed>, Failure> {
    is_built(args.backend)?;
    let function = entry(&program.module, &args.entry)?;
    let (params, limit) = (args.params.as_deref(), size("--max-memory", &args.max_memory)?);
    let constants = load_constants(&program.module, function, params, limit)?;
    prepare_with(args, program, constants, sums)
}

pub(super) fn prepare_with(
    args: &RunArgs,
    program: &Program,
    constants: Constants,
    sums: Numerics,
) -> Result<Result<Prepared, Failed>, Failure> {
    let Constants { externals, parameters } = constants;
    let module = match compiled(program, args.backend, externals, sums)? {
        Ok(module) => module,
        Err(failed) => return Ok(Err(failed)),
    };
    let source = program.source.clone();
    prepare(args, module, &program.module, &parameters, source).map(Ok)
}

/// Which versions there are of products.
#[derive(Clone, Debug)]
#[cfg_attr(not(any(feature = "wgpu", feature = "cuda")), allow(dead_code))]
pub(super) enum Versions {
    /// As was learned of the device, where that was done.
    Measured,
    /// As a tree says.
    Given(Arc<Tree>),
}

#[cfg(any(feature = "wgpu", feature = "cuda"))]
impl Versions {
    /// Those for a device.
    pub(super) fn on(self, identity: &Identity) -> Result<Option<Arc<Tree>>, Failure> {
        match self {
            Self::Measured => known(identity),
            Self::Given(tree) => Ok(Some(tree)),
        }
    }
}

/// A program on the first device of a backend, with libraries where sums may have any order and it has some; the inner error is
/// that of a pass.
pub(super) fn compiled(
    program: &Program,
    backend: Device,
    externals: BTreeMap<Name, Tensor>,
    sums: Numerics,
) -> Result<Result<Module, Failed>, Failure> {
    let by = match sums {
        Numerics::Exact => Products::Own,
        Numerics::Reassociated => Products::Library,
    };
    compiled_by(program, backend, externals, (by, Versions::Measured))
}

/// The same with versions of products as a tree says, none of them a library's.
pub(in crate::commands) fn forced(
    program: &Program,
    backend: Device,
    tree: Arc<Tree>,
) -> Result<Result<Module, Failed>, Failure> {
    compiled_by(program, backend, BTreeMap::new(), (Products::Cores, Versions::Given(tree)))
}

fn compiled_by(
    program: &Program,
    backend: Device,
    externals: BTreeMap<Name, Tensor>,
    (by, versions): (Products, Versions),
) -> Result<Result<Module, Failed>, Failure> {
    match backend {
        #[cfg(feature = "cuda")]
        Device::Cuda => cuda::compiled(program, &externals, by, versions),
        #[cfg(feature = "wgpu")]
        Device::Wgpu => {
            // There is no library, and versions of products are measured as they sum.
            let is_free = by == Products::Library;
            let sums = if is_free { Numerics::Reassociated } else { Numerics::Exact };
            device::compiled(program, externals, sums, versions)
        }
        other => {
            let _ = (program, externals, by, versions);
            is_built(other)?;
            Err(Failure::missing(NO_DEVICE))
        }
    }
}

/// What the first device of a backend is known by.
pub(in crate::commands) fn identity(backend: Device) -> Result<Identity, Failure> {
    match backend {
        #[cfg(feature = "cuda")]
        Device::Cuda => cuda::identity(),
        #[cfg(feature = "wgpu")]
        Device::Wgpu => device::open().map(|(_, identity)| identity),
        other => {
            is_built(other)?;
            Err(Failure::missing(NO_DEVICE))
        }
    }
}

/// Said of what runs on the processor.
const NO_DEVICE: &str = "this is no device beside the processor";
