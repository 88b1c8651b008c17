//! `relax run --ranks` and `--mpi`: every rank of the program's mesh, in this process or in others, in the interpreter or compiled.

use super::super::build::refused;
use super::super::constants::{Constants, StoredParameter};
use super::super::kernel_check;
use super::super::local::{Local, as_program, local};
use super::super::tune::known;
use super::arguments::Inputs;
use super::compiled::{limits, of_operators, target, unloadable};
use super::{On, Ran, entry, finish, size};
use crate::args::{Extents, RunArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::files::shown_name;
use crate::terminal::Terminal;
use relax_driver::ranks::{DeviceRanks, OneRank, Ranks, RanksError};
use relax_driver::{Artifact, Bound, backend, compile, compile_on};
use relax_program::frontend::Program;
use relax_rewrite::pass::Device;
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::file::{Image, ModuleFile};
use relax_semantics::interp::Options;
use relax_semantics::ranks::Mesh;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_sharding::Sharded;
use relax_sharding::layout::Axes;
use relax_sharding::run::{Argument, Ran as RanOnAll, run as run_ranks, run_by};
use relax_sharding::signature::Layouts;
use relax_syntax::Name;
use relax_syntax::ir::{Function, Module, output_names};
use relax_syntax::span::Source;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Ranks are for the interpreter, the processor and devices of CUDA, and for programs.
pub(super) fn refuse(args: &RunArgs) -> Result<(), Failure> {
    let flag = flag(args);
    if args.ranks.is_none() && !args.mpi {
        return match args.versions {
            true => Err(Failure::usage("--versions is for --ranks or --mpi")),
            false => Ok(()),
        };
    }
    let instead = match args.backend {
        Device::Wgpu => Some("give --backend cpu, --backend cuda, or none"),
        Device::Cuda if args.mpi => {
            Some("with --ranks one process runs each rank on a device of its own")
        }
        Device::Interp | Device::Cpu | Device::Cuda => None,
    };
    if let Some(instead) = instead {
        let backend = args.backend.name();
        let message = format!("{flag} does not run with --backend {backend}: {instead}");
        return Err(Failure::usage(message));
    }
    if args.trace.is_some() {
        return Err(Failure::usage(format!("{flag} writes no trace")));
    }
    if args.rules.rules.is_some() {
        return Err(Failure::usage(format!("{flag} takes no --rules")));
    }
    Ok(())
}

/// The flag that asks for ranks.
pub(super) fn flag(args: &RunArgs) -> &'static str {
    if args.mpi { "--mpi" } else { "--ranks" }
}

/// How ranks run.
pub(super) enum Engine<'a> {
    /// In the interpreter, with these arguments.
    Interpreter(Vec<Argument<'a>>, Options),
    /// Compiled, with these constants.
    Compiled(Constants),
}

/// Arguments of all ranks, in the place of `None` those that stay in a file.
pub(super) fn global<'a>(
    function: &Function,
    arguments: Vec<Value>,
    stored: &'a BTreeMap<Name, StoredParameter>,
) -> Vec<Argument<'a>> {
    let params = function.lambda.params.iter().map(|param| &function.var(*param).name);
    let each = params.zip(arguments).map(|(name, value)| match (&value, stored.get(name)) {
        (Value::None, Some(stored)) => Argument::Stored(stored),
        _ => Argument::Value(value),
    });
    each.collect()
}

/// Runs all ranks on their shards of the arguments, and puts the result together.
pub(super) fn run(
    args: &RunArgs,
    on: &On,
    (program, engine): (&Program, Engine),
    terminal: &mut Terminal,
) -> Outcome {
    let local = match local(program, (&args.entry, args.versions), terminal)? {
        Ok(local) => local,
        Err(exit) => return Ok(exit),
    };
    let Local { module, sharded: Sharded { plan, local, .. } } = local;
    let function = entry(&module, &args.entry)?;
    let layouts = &Layouts::from(&plan);
    let mesh = &mesh_of(args, &layouts.axes, on)?;
    let ran_by = Ranked { args, content: Content::Text(program), function, layouts, mesh };
    let doing = ran_by.doing();
    let ran = match engine {
        Engine::Interpreter(arguments, options) => {
            terminal.doing(doing);
            match on {
                On::Processes(processes) => {
                    ran_by.job(&arguments).interpreted(processes, &local, options)?
                }
                _ => Some(run_ranks(function, (layouts, mesh), &local, &arguments, &options)),
            }
        }
        Engine::Compiled(constants) => {
            let Constants { externals, parameters, stored } = &constants;
            if args.backend == Device::Cuda {
                let machines = on_devices(args, (program, local), (externals, mesh), terminal)?;
                let arguments = ran_by.arguments(parameters, stored)?;
                terminal.doing(doing);
                let call = |given| machines.call(&args.entry, given);
                let ran = run_by(function, (layouts, mesh), &arguments, call);
                return finished(args, (&program.source, &ran_by), Some(ran), terminal);
            }
            let image = image(args, program, local, externals, terminal)?;
            let arguments = ran_by.arguments(parameters, stored)?;
            terminal.doing(doing);
            ran_by.job(&arguments).compiled_on(on, &Code::Image(&image))?
        }
    };
    finished(args, (&program.source, &ran_by), ran, terminal)
}

/// A function that ranks run: of what, and with which layouts.
#[derive(Clone, Copy)]
pub(super) struct Ranked<'a> {
    pub(super) args: &'a RunArgs,
    pub(super) content: Content<'a>,
    pub(super) function: &'a Function,
    pub(super) layouts: &'a Layouts,
    /// The mesh with the extents of this run.
    pub(super) mesh: &'a Mesh,
}

/// What ranks run, for them to compare.
#[derive(Clone, Copy)]
pub(super) enum Content<'a> {
    Text(&'a Program),
    File(&'a ModuleFile),
}

/// The compiled local program.
pub(super) enum Code<'a> {
    Image(&'a Image),
    File(&'a ModuleFile),
}

impl Ranked<'_> {
    pub(super) fn workers(&self) -> usize {
        self.mesh.extents.iter().product()
    }

    pub(super) fn doing(&self) -> String {
        format!("running {} on {} ranks", self.args.entry, self.workers())
    }

    /// The arguments of all ranks, from the command line and from what a file of weights has.
    pub(super) fn arguments<'s>(
        &self,
        parameters: &BTreeMap<Name, Tensor>,
        stored: &'s BTreeMap<Name, StoredParameter>,
    ) -> Result<Vec<Argument<'s>>, Failure> {
        let max_bytes = size("--max-memory", &self.args.max_memory)?;
        let inputs = Inputs::new(self.args, self.function, max_bytes)?;
        Ok(global(self.function, inputs.read_beside(parameters, stored)?, stored))
    }

    pub(super) fn job<'j>(&'j self, arguments: &'j [Argument<'j>]) -> Job<'j> {
        Job { of: self, arguments }
    }
}

/// A run of all ranks.
pub(super) struct Job<'a> {
    pub(super) of: &'a Ranked<'a>,
    pub(super) arguments: &'a [Argument<'a>],
}

impl Job<'_> {
    /// Runs the compiled local program. What came of all is given to one process.
    pub(super) fn compiled_on(
        &self,
        on: &On,
        code: &Code<'_>,
    ) -> Result<Option<RanOnAll>, Failure> {
        let Ranked { args, function, layouts, mesh, .. } = *self.of;
        let of_operators = of_operators(size("--max-memory", &args.max_memory)?);
        let limits = limits(args)?;
        if let On::Processes(processes) = on {
            let one = match code {
                Code::Image(image) => OneRank::load(image, limits, &of_operators),
                Code::File(_) => OneRank::open(&args.file, limits, &of_operators),
            };
            return self.compiled(processes, &one.map_err(|error| self.unloadable(error))?);
        }
        let machines = match code {
            Code::Image(image) => Ranks::load(image, mesh, limits, &of_operators),
            Code::File(file) => Ranks::of_bytes(file.bytes(), mesh, limits, &of_operators),
        };
        let machines = machines.map_err(|error| self.unloadable(error))?;
        let call = |given| machines.call(&args.entry, given);
        Ok(Some(run_by(function, (layouts, mesh), self.arguments, call)))
    }

    fn unloadable(&self, error: RanksError) -> Failure {
        match error {
            RanksError::Load(error) => unloadable(error, &shown_name(&self.of.args.file)),
            RanksError::Programs(why) => Failure::usage(why),
        }
    }
}

/// The compiled local program.
fn image(
    args: &RunArgs,
    program: &Program,
    local: Module,
    externals: &BTreeMap<Name, Tensor>,
    terminal: &mut Terminal,
) -> Result<Image, Failure> {
    let local = as_program(program, local);
    let target = target(args.backend, args.numerics.chosen(), args.kernel_check.policy())?;
    let made = compile(&local, &target, &Bound::of(Arc::new(externals.clone())), &mut Unwatched);
    let image = made.and_then(Artifact::into_file);
    let image = image.map_err(|error| refused(error, &local, terminal))?;
    kernel_check::warn(image.metadata.kernel_check.as_ref(), terminal);
    Ok(image)
}

/// The local program on a device for each rank.
fn on_devices(
    args: &RunArgs,
    (program, local): (&Program, Module),
    (externals, mesh): (&BTreeMap<Name, Tensor>, &Mesh),
    terminal: &mut Terminal,
) -> Result<DeviceRanks, Failure> {
    let local = as_program(program, local);
    let mut refused = |error| refused(error, &local, terminal);
    let ranks = mesh.extents.iter().product();
    let device = backend(args.backend).open_ranks(ranks).map_err(&mut refused)?;
    let mut target = target(args.backend, args.numerics.chosen(), args.kernel_check.policy())?;
    if let (Some(identity), None) = (device.identity(), &target.tuning.products) {
        target.tuning.products = known(&identity)?;
    }
    let bound = Bound::of(Arc::new(externals.clone()));
    let made = compile_on(device, &local, &target, &bound, &mut Unwatched);
    let loaded = made.and_then(Artifact::into_ranks).map_err(refused)?;
    let of_operators = of_operators(size("--max-memory", &args.max_memory)?);
    DeviceRanks::of(loaded, mesh, &of_operators).map_err(Failure::usage)
}

/// The mesh of a run: there is a rank for each of its workers.
pub(super) fn mesh_of(args: &RunArgs, axes: &Axes, on: &On) -> Result<Mesh, Failure> {
    let given = |Extents(extents): &Extents| match extents[..] {
        [workers] => axes.with_workers(workers),
        _ => axes.with_extents(extents),
    };
    let given = args.ranks.as_ref().map(|extents| {
        given(extents).map_err(|why| Failure::usage(format!("--ranks {extents}: {why}")))
    });
    let On::Processes(processes) = on else {
        return given.expect("invariant: --ranks asks for ranks that are no processes");
    };
    let started = processes.ranks();
    let wrong = |why: String| Failure::usage(format!("--mpi in {started} processes: {why}"));
    let mesh = match given {
        Some(mesh) => mesh?,
        None => axes.with_workers(started).map_err(|why| {
            let start = axes.fixed().and_then(|mesh| mesh.workers());
            let start = start.map(|ranks| format!("; start so many: `mpirun -np {ranks}`"));
            wrong(why + &start.unwrap_or_default())
        })?,
    };
    let workers: usize = mesh.extents.iter().product();
    match workers == started {
        true => Ok(mesh),
        false => Err(wrong(format!("the extents of --ranks have {workers} workers"))),
    }
}

/// Shows or writes what came of all ranks, in the process that knows it.
pub(super) fn finished(
    args: &RunArgs,
    (source, of): (&Source, &Ranked),
    ran: Option<RanOnAll>,
    terminal: &mut Terminal,
) -> Outcome {
    // The first rank shows what came of all.
    let Some(ran) = ran else { return Ok(Exit::Fine) };
    let ranks = of.workers();
    let printed =
        ran.printed.into_iter().map(|(rank, line)| format!("rank {rank}: {line}")).collect();
    let result = ran.result.map_err(|(rank, stop)| match stop {
        Stop::Trap(mut trap) => {
            trap.notes.push(format!("on rank {rank} of {ranks}"));
            Stop::Trap(trap)
        }
        other => other,
    });
    let names = output_names(&of.function.lambda.attrs);
    finish(args, (source, &names), Ran { result, printed }, terminal)
}
