//! `relax build`: a program as a module file.

mod ranks;

use super::cache::cache;
use super::certified::certificate;
use super::constants::{load_externals, of_passes, open};
use super::fallbacks::{Policy, show_fallbacks, show_loops};
use super::kept::{Kept, Parameters};
use super::kernel_check;
use super::loading::{Given, load, refuse_params, weights_of};
use super::numerics;
use super::opt::failed_run;
use super::progress::Progress;
use super::rewritten::Rules;
use super::run::unloadable;
use super::tune::given as table_of;
use crate::args::{BuildArgs, Format};
use crate::exit::{Exit, Failure, Outcome};
use crate::files::{FileKind, kind_of, shown_name, write_module};
use crate::terminal::Terminal;
use relax_cpu::{Compiler, Cpu};
use relax_driver::{Artifact, Bound, BuildError, CompileError, Target, Toolchain, Tuning, compile};
use relax_emit::tiles::{Isa, Table};
use relax_lower::certify::Stages;
use relax_lower::program::RUN_OPERATOR;
use relax_program::frontend::Program;
use relax_rewrite::accounts::Accounts;
use relax_rewrite::pass::Device;
use relax_rewrite::pipeline::{Unwatched, Watch};
use relax_runtime::file::{Image, ModuleFile};
use relax_runtime::program::Metadata;
use relax_semantics::ops::{is_of_ranks, lookup};
use relax_syntax::ir::Module;
use relax_validation::certificate::Header;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) fn build(args: &BuildArgs, terminal: &mut Terminal) -> Outcome {
    if args.target != Device::Cpu {
        return Err(Failure::missing(
            "this target is not built in this version; there is --target cpu",
        ));
    }
    if kind_of(&args.file)? == FileKind::Model {
        refuse_params(args.params.as_deref())?;
    }
    let Some(given) = load(&args.file, &args.model, terminal)? else { return Ok(Exit::Wrong) };
    if let Some(entry) = &args.ranks {
        return ranks::build(args, (&given, entry), terminal);
    }
    if given.kind == FileKind::Model {
        return model(args, given, terminal);
    }
    weights_of(&shown_name(&args.file), &given.built_in, open(args.params.as_deref())?.as_ref())?;
    let program = given.program;
    if show_loops(policy(args), &program, terminal) != Exit::Fine {
        return Ok(Exit::Wrong);
    }
    load_externals(&program.module, args.params.as_deref())?;
    let activations = args.activations.with(args.numerics)?;
    let rules = rules(args, &program.module, terminal)?;
    let target = rules.of(target(args, terminal)?);
    // What is kept has no certificate, and does not say what rules did.
    let kept = match args.certify || rules.are_given() {
        true => None,
        false => Kept::of(&program, Parameters::Bound, &target)?
            .map(|kept| kept.with_activations(activations)),
    };
    let known = kept.as_ref().and_then(|kept| kept.find(args.params.as_deref()));
    // What is damaged there is made anew; so is what has warnings, which are not kept.
    let known = known.and_then(|path| ModuleFile::open(&path).ok());
    if let Some(file) = known.filter(|file| !file.calls_host(RUN_OPERATOR)) {
        write_module(&args.output, &mut |to| to.write_all(file.bytes()))?;
        let target = file.target();
        let size =
            Size { bytes: file.bytes().len(), kernels: file.kernels(), fallbacks: 0, target };
        return written(args, &size, file.metadata(), &Value::Null, terminal);
    }
    let weights = open(args.params.as_deref())?;
    let params = Arc::new(of_passes(&program.module, weights.as_ref())?);
    let bound = Bound { params, binds: args.params.is_some(), activations: activations.into() };
    let made = made(args, &program, (&target, &bound), &rules, terminal)?;
    if let Some(kept) = kept.filter(|_| !made.is_rewritten) {
        kept.keep(weights.as_ref(), &made.image);
    }
    write(args, &made, terminal)
}

/// A model of another format, whose constants it has itself.
fn model(args: &BuildArgs, model: Given, terminal: &mut Terminal) -> Outcome {
    let Given { program, externals, .. } = model;
    let rules = rules(args, &program.module, terminal)?;
    let target = rules.of(target(args, terminal)?);
    let activations = args.activations.with(args.numerics)?;
    let params = Arc::new(externals);
    let bound = Bound { params, binds: true, activations: activations.into() };
    let made = made(args, &program, (&target, &bound), &rules, terminal)?;
    write(args, &made, terminal)
}

/// The rules of the build.
fn rules(args: &BuildArgs, module: &Module, terminal: &mut Terminal) -> Result<Rules, Failure> {
    let rules = Rules::asked(&args.rules, (module, args.numerics.chosen()), terminal)?;
    Ok(if args.certify { rules.given() } else { rules })
}

/// A module file, and how many calls in it are interpreted.
struct Made {
    image: Image,
    fallbacks: usize,
    /// What rules did, for tools; null where none were used.
    rewrites: Value,
    /// Whether they changed something.
    is_rewritten: bool,
}

/// The size of a module file and its machines, for the summary.
struct Size<'m> {
    bytes: usize,
    kernels: usize,
    fallbacks: usize,
    target: &'m str,
}

/// What becomes of what is left to the slow way.
fn policy(args: &BuildArgs) -> Policy {
    if args.deny_fallback { Policy::Deny } else { Policy::Warn }
}

/// The module file, with a certificate where one is asked for.
fn made(
    args: &BuildArgs,
    program: &Program,
    (target, bound): (&Target, &Bound),
    rules: &Rules,
    terminal: &mut Terminal,
) -> Result<Made, Failure> {
    let mut stages = args.certify.then(|| Stages::of(&program.module));
    let watch: &mut dyn Watch = match &mut stages {
        Some(stages) => stages,
        None => &mut Unwatched,
    };
    let mut watch = Accounts::before(watch);
    let file = shown_name(&args.file);
    let mut progress = Progress { terminal: &mut *terminal, file, inner: &mut watch };
    let image = compile(program, target, bound, &mut progress).and_then(Artifact::into_file);
    let mut image = image.map_err(|error| refused(error, program, terminal))?;
    let Accounts { mut fallbacks, rewrites, .. } = watch;
    // Collectives of ranks are no work that kernels could do.
    let of_ranks = |name: &str| lookup(name).is_some_and(is_of_ranks);
    fallbacks.retain(|call| args.ranks.is_none() || !of_ranks(call.operator));
    rules.tell(&shown_name(&args.file), &rewrites, terminal);
    let mut account = rules.object(&rewrites);
    if show_fallbacks(&fallbacks, policy(args), program, terminal) != Exit::Fine {
        return Err(Failure::Shown(Exit::Wrong));
    }
    if let Some(stages) = stages {
        terminal.doing(format!("proving the compilation of {}", shown_name(&args.file)));
        let route = numerics::route(image.metadata.numerics);
        let header = Header { route: route.to_owned(), target: "cpu".to_owned(), tested: 0 };
        let Some(certificate) = certificate(&stages, header, terminal)? else {
            return Err(Failure::Shown(Exit::Wrong));
        };
        image.certificate = certificate.text();
        rules.tell_certified(&certificate, &mut account, terminal);
    }
    let is_rewritten = Rules::changed(&rewrites);
    Ok(Made { image, fallbacks: fallbacks.len(), rewrites: account, is_rewritten })
}

fn write(args: &BuildArgs, made: &Made, terminal: &mut Terminal) -> Outcome {
    let mut bytes = 0;
    write_module(&args.output, &mut |to| {
        bytes = made.image.write(to)?;
        Ok(())
    })?;
    let Made { image, fallbacks, rewrites, .. } = made;
    let kernels = image.program.kernels.len();
    let size = Size { bytes, kernels, fallbacks: *fallbacks, target: &image.target };
    written(args, &size, &image.metadata, rewrites, terminal)
}

fn written(
    args: &BuildArgs,
    size: &Size<'_>,
    metadata: &Metadata,
    rewrites: &Value,
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
        facts["rewrites"] = rewrites.clone();
        terminal.result(&format!("{facts}\n"))?;
    }
    Ok(Exit::Fine)
}

/// The processor that code is for, with the C compiler of the system; `-v` shows it.
fn target(args: &BuildArgs, terminal: &mut Terminal) -> Result<Target, Failure> {
    let compiler = compiler(&args.cpu)?;
    show_compiler(&compiler, terminal)?;
    let tuning = Tuning { tiles: tiles(args, &compiler)?, ..Tuning::default() };
    let (cache, check) = (cache()?.clone(), args.kernel_check.policy());
    let target = Target::of(args.target, args.numerics.chosen());
    Ok(Target { tuning, ..target.by(Toolchain { compiler, cache, check }) })
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

/// What is in the way of a compilation, as the command tells it; what a pass refuses is shown.
pub(super) fn refused(error: CompileError, program: &Program, terminal: &mut Terminal) -> Failure {
    let error = match error {
        CompileError::Pass(failed) => {
            return failed_run(&failed, program, terminal).map_or_else(|told| told, Failure::Shown);
        }
        CompileError::Load(error) => return unloadable(error, &program.source.name),
        CompileError::Device(why) => return Failure::missing(why),
        CompileError::Build(error) => error,
    };
    match error {
        BuildError::Program(unsupported) => {
            let (line, _) = program.source.line_column(unsupported.span.start);
            let (name, line) = (&program.source.name, line);
            Failure::missing(format!("{name}:{line}: not supported: {unsupported}"))
        }
        failed @ BuildError::Miscompiled { .. } => Failure::missing(format!(
            "{failed}\nTry another C compiler (CC), and report this. `--no-kernel-check` builds without the check."
        )),
        other @ BuildError::Weight(_) => Failure::usage(other),
        other => Failure::missing(other),
    }
}
