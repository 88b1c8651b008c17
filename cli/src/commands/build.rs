//! `relax build`: a program as a module file.

use super::cache::cache;
use super::certified::certificate;
use super::constants::{load_externals, of_passes, open};
use super::fallbacks::{Policy, RUN_OPERATOR, show_fallbacks};
use super::kept::{Kept, Parameters};
use super::kernel_check;
use super::loading::{Given, load, refuse_params, weights_of};
use super::numerics;
use super::opt::failed_run;
use super::progress::Progress;
use super::tune::given as table_of;
use crate::args::{Activations, BuildArgs, Format, Target};
use crate::exit::{Exit, Failure, Outcome};
use crate::files::{FileKind, kind_of, shown_name, write_module};
use crate::terminal::Terminal;
use relax_build::{
    BuildError, Digest, KernelCheck, build_cpu, lower_for_cpu, lower_packed_for_cpu, round_products,
};
use relax_cpu::{Compiler, Cpu};
use relax_emit::tiles::{Isa, Table};
use relax_emit::{Options, Sums};
use relax_lower::certify::Stages;
use relax_lower::constants::Evaluated;
use relax_lower::pipeline::PIPELINE;
use relax_lower::program::Around;
use relax_program::externals::externals;
use relax_program::frontend::Program;
use relax_rewrite::fallback::Fallbacks;
use relax_rewrite::pass::Settings;
use relax_rewrite::passes::bind_params;
use relax_rewrite::pipeline::{Failed, Route, Unwatched, Watch, run};
use relax_runtime::file::{Image, ModuleFile};
use relax_runtime::program::Metadata;
use relax_semantics::check::Phase;
use relax_semantics::tensor::Tensor;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::ir::Module;
use relax_validation::certificate::Header;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) fn build(args: &BuildArgs, terminal: &mut Terminal) -> Outcome {
    if args.target != Target::Cpu {
        return Err(Failure::missing(
            "this target is not built in this version; there is --target cpu",
        ));
    }
    if kind_of(&args.file)? == FileKind::Model {
        refuse_params(args.params.as_deref())?;
    }
    let Some(given) = load(&args.file, &args.model, terminal)? else { return Ok(Exit::Wrong) };
    if given.kind == FileKind::Model {
        return model(args, given, terminal);
    }
    weights_of(&shown_name(&args.file), &given.built_in, open(args.params.as_deref())?.as_ref())?;
    let program = given.program;
    load_externals(&program.module, args.params.as_deref())?;
    let sums = args.numerics.sums();
    let activations = args.activations.with(args.numerics)?;
    let compiler = compiler(&args.cpu)?;
    show_compiler(&compiler, terminal)?;
    let tiles = tiles(args, &compiler)?;
    // What is kept has no certificate.
    let kept = match args.certify {
        true => None,
        false => {
            let options = Options { tiles: tiles.as_ref(), ..sums.into() };
            Kept::of(
                &program,
                Parameters::Bound,
                &options,
                (&compiler, args.kernel_check.policy()),
            )?
            .map(|kept| kept.with_activations(activations))
        }
    };
    let known = kept.as_ref().and_then(|kept| kept.find(args.params.as_deref()));
    // What is damaged there is made anew; so is what has warnings, which are not kept.
    let known = known.and_then(|path| ModuleFile::open(&path).ok());
    if let Some(file) = known.filter(|file| !file.calls_host(RUN_OPERATOR)) {
        write_module(&args.output, &mut |to| to.write_all(file.bytes()))?;
        let target = file.target();
        let size =
            Size { bytes: file.bytes().len(), kernels: file.kernels(), fallbacks: 0, target };
        return written(args, &size, file.metadata(), terminal);
    }
    let weights = open(args.params.as_deref())?;
    let params = Arc::new(of_passes(&program.module, weights.as_ref())?);
    let bound = Bound {
        params: Arc::clone(&params),
        binds: args.params.is_some(),
        sums,
        activations,
        tiles,
        compiler,
        check: args.kernel_check.policy(),
    };
    let made = match made(args, &program, &bound, terminal)? {
        Ok(made) => made,
        Err(exit) => return Ok(exit),
    };
    if let Some(kept) = kept {
        kept.keep(weights.as_ref(), &made.image);
    }
    write(args, &made, terminal)
}

/// A model of another format, whose constants it has itself.
fn model(args: &BuildArgs, model: Given, terminal: &mut Terminal) -> Outcome {
    let compiler = compiler(&args.cpu)?;
    show_compiler(&compiler, terminal)?;
    let tiles = tiles(args, &compiler)?;
    let sums = args.numerics.sums();
    let activations = args.activations.with(args.numerics)?;
    let Given { program, externals, .. } = model;
    let bound = Bound {
        params: Arc::new(externals),
        binds: true,
        sums,
        activations,
        tiles,
        compiler,
        check: args.kernel_check.policy(),
    };
    match made(args, &program, &bound, terminal)? {
        Ok(made) => write(args, &made, terminal),
        Err(exit) => Ok(exit),
    }
}

/// A module file, and how many calls in it are interpreted.
struct Made {
    image: Image,
    fallbacks: usize,
}

/// The size of a module file and its machines, for the summary.
struct Size<'m> {
    bytes: usize,
    kernels: usize,
    fallbacks: usize,
    target: &'m str,
}

/// The module file, with a certificate where one is asked for; the inner error is what was shown already.
fn made(
    args: &BuildArgs,
    program: &Program,
    bound: &Bound,
    terminal: &mut Terminal,
) -> Result<Result<Made, Exit>, Failure> {
    let mut stages = args.certify.then(|| Stages::of(&program.module));
    let watch: &mut dyn Watch = match &mut stages {
        Some(stages) => stages,
        None => &mut Unwatched,
    };
    let mut watch = Fallbacks::before(watch);
    let file = shown_name(&args.file);
    let mut progress = Progress { terminal: &mut *terminal, file, inner: &mut watch };
    let mut image = match image(program, bound, &mut progress)? {
        Ok(image) => image,
        Err(failed) => return failed_run(&failed, program, terminal).map(Err),
    };
    let policy = if args.deny_fallback { Policy::Deny } else { Policy::Warn };
    let fallbacks = watch.found.len();
    if show_fallbacks(&watch.found, policy, program, terminal) != Exit::Fine {
        return Ok(Err(Exit::Wrong));
    }
    if let Some(stages) = stages {
        terminal.doing(format!("proving the compilation of {}", shown_name(&args.file)));
        let route = numerics::route(image.metadata.numerics);
        let header = Header { route: route.to_owned(), target: "cpu".to_owned(), tested: 0 };
        let Some(certificate) = certificate(&stages, header, terminal)? else {
            return Ok(Err(Exit::Wrong));
        };
        image.certificate = certificate;
    }
    Ok(Ok(Made { image, fallbacks }))
}

fn write(args: &BuildArgs, made: &Made, terminal: &mut Terminal) -> Outcome {
    let mut bytes = 0;
    write_module(&args.output, &mut |to| {
        bytes = made.image.write(to)?;
        Ok(())
    })?;
    let Made { image, fallbacks } = made;
    let kernels = image.program.kernels.len();
    let size = Size { bytes, kernels, fallbacks: *fallbacks, target: &image.target };
    written(args, &size, &image.metadata, terminal)
}

fn written(
    args: &BuildArgs,
    size: &Size<'_>,
    metadata: &Metadata,
    terminal: &mut Terminal,
) -> Outcome {
    let Size { bytes, kernels, fallbacks, target } = size;
    let interpreted = match fallbacks {
        0 => String::new(),
        1 => ", 1 call interpreted".to_owned(),
        more => format!(", {more} calls interpreted"),
    };
    let check = metadata.kernel_check.as_ref();
    kernel_check::warn(check, terminal);
    let name = args.output.display();
    let numerics = numerics::words(metadata);
    terminal.note(&format!("{name}: {bytes} bytes, {kernels} kernels, {numerics}{interpreted}"));
    if !target.is_empty() {
        terminal.detail(&format!("compiled by `--cpu {}`, runs on: {target}", args.cpu));
    }
    kernel_check::summary(check, *kernels, terminal)?;
    if terminal.format == Format::Json {
        let mut facts = numerics::object(&name.to_string(), *kernels, metadata);
        facts["bytes"] = json!(bytes);
        facts["interpreted_calls"] = json!(fallbacks);
        facts["target"] = json!(target);
        terminal.result(&format!("{facts}\n"))?;
    }
    Ok(Exit::Fine)
}

/// How a program is compiled, and which values are known then.
pub(super) struct Bound {
    /// Of external constants and parameters, by name.
    pub(super) params: Arc<BTreeMap<Name, Tensor>>,
    /// Whether parameters of the entry function that have one are constants.
    pub(super) binds: bool,
    /// What kernels may do with sums of floats.
    pub(super) sums: Sums,
    /// What products with quantized weights read.
    pub(super) activations: Activations,
    /// What was measured of the machine that products are cut for.
    pub(super) tiles: Option<Table>,
    /// Of the kernels, for a processor.
    pub(super) compiler: Compiler,
    /// Whether kernels are compared with the interpreter.
    pub(super) check: KernelCheck,
}

impl Bound {
    /// With external constants alone, as a program is run without options of `build`.
    pub(super) fn of(
        params: Arc<BTreeMap<Name, Tensor>>,
        sums: Sums,
        compiler: Compiler,
        check: KernelCheck,
    ) -> Self {
        let activations = Activations::F32;
        Self { params, binds: false, sums, activations, tiles: None, compiler, check }
    }
}

/// The C compiler of the system, for this processor, with the flags that its probes ask for.
pub(super) fn compiler(cpu: &Cpu) -> Result<Compiler, Failure> {
    let compiler = Compiler::of_system().map_err(Failure::missing)?;
    let compiler = compiler.for_cpu(cpu).map_err(|error| match error {
        relax_cpu::Error::Processor { .. } => Failure::usage(format!("--cpu {cpu}: {error}")),
        other => Failure::missing(other),
    })?;
    compiler.probing(cache()?).map_err(Failure::missing)
}

/// Says on demand which compiler there is, and what its probes found.
fn show_compiler(compiler: &Compiler, terminal: &mut Terminal) -> Result<(), Failure> {
    if !terminal.is_verbose() {
        return Ok(());
    }
    let compiler = compiler.settled().map_err(Failure::missing)?;
    let findings = compiler.findings().map(|findings| format!("; {findings}")).unwrap_or_default();
    terminal.detail(&format!(
        "C compiler: `{}`, {}{findings}",
        compiler.command(),
        compiler.version()
    ));
    Ok(())
}

/// The table that products are tiled by, measured with the vectors of the processor that code is for.
fn tiles(args: &BuildArgs, compiler: &Compiler) -> Result<Option<Table>, Failure> {
    let Some(table) = table_of(args.tuned.as_ref())? else { return Ok(None) };
    let isa = compiler.target().map_err(Failure::missing)?.isa();
    if table.hardware.isa == isa {
        return Ok(Some(table));
    }
    let [wanted, found] = [isa, table.hardware.isa].map(Isa::name);
    Err(Failure::usage(format!(
        "--tuned: the table is of {found} vectors, code for --cpu {} has {wanted}: give a table of such a machine, or none",
        args.cpu
    )))
}

/// The module file of a program; the inner error is that of a pass.
pub(super) fn image(
    program: &Program,
    bound: &Bound,
    watch: &mut dyn Watch,
) -> Result<Result<Image, Failed>, Failure> {
    let isa = bound.compiler.target().map_err(Failure::missing)?.isa();
    let (signatures, evaluated) = match lowered(&program.module, bound, isa, watch) {
        Ok(modules) => modules,
        Err(failed) => return Ok(Err(failed)),
    };
    let Evaluated { module, values } = evaluated;
    watch.made("phase", &module);
    let externals = of_text(&module, values, &bound.params);
    let around = Around { externals: &externals, source: &program.source, signatures: &signatures };
    let (compiler, cache) = (&bound.compiler, cache()?);
    let options = Options { tiles: bound.tiles.as_ref(), ..bound.sums.into() };
    let mut image = build_cpu(&module, &around, options, (compiler, cache), bound.check).map_err(
        |error| match error {
            BuildError::Program(unsupported) => {
                let (line, _) = program.source.line_column(unsupported.span.start);
                let (name, line) = (&program.source.name, line);
                Failure::missing(format!("{name}:{line}: not supported: {unsupported}"))
            }
            failed @ BuildError::Miscompiled { .. } => Failure::missing(format!(
                "{failed}\nTry another C compiler (CC), and report this. `--no-kernel-check` builds without the check."
            )),
            other => Failure::missing(other),
        },
    )?;
    if bound.binds {
        image.metadata.weights = digests(&bound.params)?;
    }
    Ok(Ok(image))
}

/// By which values that are given later are compared with those that were built in.
fn digests(params: &BTreeMap<Name, Tensor>) -> Result<Vec<(String, [u8; 32])>, Failure> {
    let digest = |(name, tensor): (&Name, &Tensor)| {
        let digest = Digest::of_tensor(tensor).map_err(Failure::usage)?;
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
        Sums::AnyOrder => {
            lower_packed_for_cpu(&entered, &settings, (isa, bound.tiles.as_ref()), watch)?
        }
        Sums::Exact => {
            let module = lower_for_cpu(&entered, &settings, watch)?;
            Evaluated { module, values: BTreeMap::new() }
        }
    };
    Ok((entered, lowered))
}
