//! Compiles a program for a target: the passes, then the kernels. The command, the Python package and tests call this.

use crate::backends::{Opened, backend};
use crate::ranks::LoadedRank;
use crate::{BuildError, Digest, Target, lower, panel, round_products};
use relax_lower::pipeline::PIPELINE;
use relax_lower::program::Around;
use relax_program::externals::externals;
use relax_program::frontend::Program;
use relax_rewrite::pass::{Device, Settings};
use relax_rewrite::passes::{bind_params, narrow_activations, round_activations};
use relax_rewrite::pipeline::{Failed, Route, Watch, run};
use relax_runtime::file::{Image, LoadError};
use relax_runtime::{Limits, Module as Machine};
use relax_semantics::check::Phase;
use relax_semantics::tensor::Tensor;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::ir::Module;
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;

/// What products with quantized weights read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    /// Activations as they are.
    #[default]
    F32,
    /// Activations rounded to 8 bits, in blocks of 32 with a scale each.
    Q8,
    /// Activations rounded to bf16, also where weights have 16 bits.
    Bf16,
}

/// Which values are known when a program is compiled.
#[derive(Clone, Debug, Default)]
pub struct Bound {
    /// Of external constants and parameters, by name.
    pub params: Arc<BTreeMap<Name, Tensor>>,
    /// Whether parameters of the entry function that have one are constants.
    pub binds: bool,
    /// What products with quantized weights read.
    pub activations: Activations,
}

impl Bound {
    /// External constants alone, as a program is run without options of `build`.
    #[must_use]
    pub fn of(params: Arc<BTreeMap<Name, Tensor>>) -> Self {
        Self { params, ..Self::default() }
    }
}

/// Why a program is not compiled.
#[derive(Debug, Error)]
pub enum CompileError {
    /// A pass refuses the program, or is wrong.
    #[error("a pass fails: {0:?}")]
    Pass(Box<Failed>),
    /// There is no module file of what the passes made.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The device is not there, or has no code for a kernel.
    #[error("{0}")]
    Device(String),
    /// The machine refuses what was made.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl From<Failed> for CompileError {
    fn from(failed: Failed) -> Self {
        Self::Pass(Box::new(failed))
    }
}

/// A program that is compiled.
pub enum Artifact {
    /// As a file of any machine has it.
    File(Image),
    /// On the device of this process.
    Loaded(Machine),
    /// On the devices of this process, one for each rank.
    Ranks(Vec<LoadedRank>),
}

impl Artifact {
    /// As it is called. Of a module on a device the limits are those of the device.
    ///
    /// # Errors
    /// What the machine refuses.
    pub fn load(self, limits: Limits) -> Result<Machine, LoadError> {
        match self {
            Self::File(image) => Machine::load_with(&image.to_bytes(), limits),
            Self::Loaded(module) => Ok(module),
            Self::Ranks(_) => Err(LoadError::Invalid("it is the code of several ranks".to_owned())),
        }
    }

    /// For all ranks of a mesh, on the devices that were opened for them.
    ///
    /// # Errors
    /// Where the code is for one machine.
    pub fn into_ranks(self) -> Result<Vec<LoadedRank>, CompileError> {
        match self {
            Self::Ranks(ranks) => Ok(ranks),
            Self::File(_) | Self::Loaded(_) => {
                Err(CompileError::Device("it is the code of one machine".to_owned()))
            }
        }
    }

    /// The module file.
    ///
    /// # Errors
    /// Where the code is for a device beside the processor.
    pub fn into_file(self) -> Result<Image, CompileError> {
        match self {
            Self::File(image) => Ok(image),
            Self::Loaded(_) | Self::Ranks(_) => {
                Err(CompileError::Device("code for this device has no module file".to_owned()))
            }
        }
    }
}

/// A program for the first device of a target.
///
/// # Errors
/// What a pass refuses; a device, a compiler or a kernel that is not there.
pub fn compile(
    program: &Program,
    target: &Target,
    bound: &Bound,
    watch: &mut dyn Watch,
) -> Result<Artifact, CompileError> {
    compile_on(backend(target.device).open()?, program, target, bound, watch)
}

/// The same for a device of the target that is open.
///
/// # Errors
/// As [`compile`].
pub fn compile_on(
    device: Box<dyn Opened>,
    program: &Program,
    target: &Target,
    bound: &Bound,
    watch: &mut dyn Watch,
) -> Result<Artifact, CompileError> {
    let target = &*target.equipped().map_err(BuildError::Compiler)?;
    let panel = match (target.device, &target.toolchain) {
        (Device::Cpu, Some(tools)) => {
            let isa = tools.compiler.target().map_err(BuildError::Compiler)?.isa();
            panel(isa, target.tuning.tiles.as_ref())
        }
        _ => None,
    };
    let settings = Settings { params: Arc::clone(&bound.params), panel, ..Settings::default() };
    let entered = entered(&program.module, bound, &settings, watch)?;
    let mut lowered = lower(target, &entered, &settings, watch)?;
    watch.made("phase", &lowered.module);
    let made = std::mem::take(&mut lowered.values);
    let externals = of_text(&lowered.module, made, &bound.params);
    let around = Around { externals: &externals, source: &program.source, signatures: &entered };
    let mut artifact = device.link(&lowered, &around, target)?;
    if let (true, Artifact::File(image)) = (bound.binds, &mut artifact) {
        image.metadata.weights = digests(&bound.params)?;
    }
    Ok(artifact)
}

/// By which values that are given later are compared with those that were built in.
fn digests(params: &BTreeMap<Name, Tensor>) -> Result<Vec<(String, [u8; 32])>, BuildError> {
    let digest = |(name, tensor): (&Name, &Tensor)| {
        let digest = Digest::of_tensor(tensor).map_err(BuildError::Weight)?;
        Ok((name.to_string(), digest.bytes()))
    };
    params.iter().map(digest).collect()
}

/// The values that a text has still, beside those that were made for it.
fn of_text(
    module: &Module,
    made: BTreeMap<Name, Tensor>,
    given: &BTreeMap<Name, Tensor>,
) -> BTreeMap<Name, Tensor> {
    let mut values = made;
    for name in externals(module).into_keys() {
        if let Some(value) = given.get(&name).filter(|_| !values.contains_key(&name)) {
            values.insert(name, value.clone());
        }
    }
    values
}

/// The module as its functions are called.
fn entered(
    module: &Module,
    bound: &Bound,
    settings: &Settings,
    watch: &mut dyn Watch,
) -> Result<Module, Failed> {
    let mut pass =
        |module: &Module, route: &Route| run(module, route, settings, &mut Prover::new(), watch);
    let early = Phase::of_module(module).is_ok_and(|phase| phase < Phase::P21);
    let entered = if bound.binds && early {
        let ingested = pass(module, &PIPELINE.to(Phase::P0))?;
        pass(&ingested, &Route::Passes(vec![&bind_params::PASS]))?
    } else {
        module.clone()
    };
    match bound.activations {
        Activations::F32 => Ok(entered),
        Activations::Q8 => round_products(&entered, &round_activations::PASS, settings, watch),
        Activations::Bf16 => round_products(&entered, &narrow_activations::PASS, settings, watch),
    }
}
