//! Compiles a program for the processor: the passes, then the module file. The command and the Python package call this.

use crate::{
    BuildError, Digest, KernelCheck, build_cpu, lower_for_cpu, lower_packed_for_cpu, round_products,
};
use relax_cpu::{Cache, Compiler};
use relax_emit::Options;
use relax_emit::tiles::{Isa, Table};
use relax_lower::constants::Evaluated;
use relax_lower::pipeline::PIPELINE;
use relax_lower::program::Around;
use relax_program::externals::externals;
use relax_program::frontend::Program;
use relax_rewrite::pass::Settings;
use relax_rewrite::passes::bind_params;
use relax_rewrite::pipeline::{Failed, Route, Watch, run};
use relax_runtime::file::Image;
use relax_runtime::program::Numerics;
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
}

/// How a program is compiled, and which values are known then.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Of external constants and parameters, by name.
    pub params: Arc<BTreeMap<Name, Tensor>>,
    /// Whether parameters of the entry function that have one are constants.
    pub binds: bool,
    /// What kernels may do with sums of floats.
    pub sums: Numerics,
    /// What products with quantized weights read.
    pub activations: Activations,
    /// What was measured of the machine that products are cut for.
    pub tiles: Option<Table>,
    /// Of the kernels, for a processor.
    pub compiler: Compiler,
    /// Whether kernels are compared with the interpreter.
    pub check: KernelCheck,
}

impl Bound {
    /// With external constants alone, as a program is run without options of `build`.
    #[must_use]
    pub fn of(
        params: Arc<BTreeMap<Name, Tensor>>,
        sums: Numerics,
        compiler: Compiler,
        check: KernelCheck,
    ) -> Self {
        let activations = Activations::F32;
        Self { params, binds: false, sums, activations, tiles: None, compiler, check }
    }
}

/// Why a program is not compiled.
#[derive(Debug, Error)]
pub enum CompileError {
    /// A pass refuses the program, or is wrong.
    #[error("a pass fails: {0:?}")]
    Pass(Failed),
    /// There is no module file of what the passes made.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// The module file of a program.
///
/// # Errors
/// What a pass refuses, and the errors of [`build_cpu`].
pub fn compile(
    program: &Program,
    bound: &Bound,
    cache: &Cache,
    watch: &mut dyn Watch,
) -> Result<Image, CompileError> {
    let isa = bound.compiler.target().map_err(BuildError::Compiler)?.isa();
    let (signatures, evaluated) =
        lowered(&program.module, bound, isa, watch).map_err(CompileError::Pass)?;
    let Evaluated { module, values } = evaluated;
    watch.made("phase", &module);
    let externals = of_text(&module, values, &bound.params);
    let around = Around { externals: &externals, source: &program.source, signatures: &signatures };
    let options = Options { tiles: bound.tiles.as_ref(), ..bound.sums.into() };
    let mut image = build_cpu(&module, &around, options, (&bound.compiler, cache), bound.check)?;
    if bound.binds {
        image.metadata.weights = digests(&bound.params)?;
    }
    Ok(image)
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

/// The module as its functions are called, and as the machine runs it, with what was computed for it.
fn lowered(
    module: &Module,
    bound: &Bound,
    isa: Isa,
    watch: &mut dyn Watch,
) -> Result<(Module, Evaluated), Failed> {
    let settings = Settings { params: Arc::clone(&bound.params), ..Settings::default() };
    let mut pass =
        |module: &Module, route: &Route| run(module, route, &settings, &mut Prover::new(), watch);
    let early = Phase::of_module(module).is_ok_and(|phase| phase < Phase::P21);
    let entered = if bound.binds && early {
        let ingested = pass(module, &PIPELINE.to(Phase::P0))?;
        pass(&ingested, &Route::Passes(vec![&bind_params::PASS]))?
    } else {
        module.clone()
    };
    let entered = match bound.activations {
        Activations::F32 => entered,
        Activations::Q8 => round_products(&entered, &settings, watch)?,
    };
    let lowered = match bound.sums {
        Numerics::Reassociated => {
            lower_packed_for_cpu(&entered, &settings, (isa, bound.tiles.as_ref()), watch)?
        }
        Numerics::Exact => {
            let module = lower_for_cpu(&entered, &settings, watch)?;
            Evaluated { module, values: BTreeMap::new() }
        }
    };
    Ok((entered, lowered))
}
