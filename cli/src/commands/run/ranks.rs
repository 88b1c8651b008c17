//! `relax run --ranks` and `--mpi`: every rank of the program's mesh, in this process or in others, in the interpreter or compiled.

use super::super::build::refused;
use super::super::constants::{Constants, StoredParameter};
use super::super::kernel_check;
use super::super::opt::failed_run;
use super::arguments::Inputs;
use super::compiled::{limits, of_operators, target, unloadable};
use super::{On, Ran, entry, finish, size};
use crate::args::RunArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::report::show_diagnostics;
use crate::terminal::Terminal;
use relax_driver::ranks::{Ranks, RanksError};
use relax_driver::{Artifact, Bound, compile};
use relax_program::frontend::Program;
use relax_rewrite::inlined::inlined;
use relax_rewrite::pass::Device;
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::Limits;
use relax_runtime::file::Image;
use relax_semantics::interp::Options;
use relax_semantics::ops;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_sharding::propagate::Plan;
use relax_sharding::run::{Argument, Ran as RanOnAll, run as run_ranks, run_by};
use relax_sharding::{Sharded, shard};
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{Function, Module, output_names};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Ranks are for the interpreter and the processor, and for programs.
pub(super) fn refuse(args: &RunArgs) -> Result<(), Failure> {
    let flag = flag(args);
    if args.ranks.is_none() && !args.mpi {
        return Ok(());
    }
    if matches!(args.backend, Device::Cuda | Device::Wgpu) {
        let message = format!("{flag} runs on the processor: give --backend cpu, or none");
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
    entry(&program.module, &args.entry)?;
    let module = match inlined(&program.module, &args.entry, &mut Prover::new()) {
        Ok(module) => module,
        Err(failed) => return failed_run(&failed, program, terminal),
    };
    let function = entry(&module, &args.entry)?;
    let Sharded { plan, local } = match sharded(&module, function, on)? {
        Ok(sharded) => sharded,
        Err(refused) => return Ok(show_diagnostics(terminal, &program.source, &[refused])),
    };
    let workers = plan.axes.mesh.extents.iter().product();
    let doing = format!("running {} on {workers} ranks", args.entry);
    let ran = match engine {
        Engine::Interpreter(arguments, options) => {
            terminal.doing(doing);
            match on {
                On::Processes(processes) => {
                    let job = Job { args, program, function, plan: &plan, arguments: &arguments };
                    job.interpreted(processes, &local, options)?
                }
                _ => Some(run_ranks(function, &plan, &local, &arguments, &options)),
            }
        }
        Engine::Compiled(constants) => {
            let Constants { externals, parameters, stored } = &constants;
            let image = (image(args, program, local, externals, terminal)?, limits(args)?);
            let max_bytes = size("--max-memory", &args.max_memory)?;
            let inputs = Inputs::new(args, function, max_bytes)?;
            let arguments = global(function, inputs.read_beside(parameters, stored)?, stored);
            let job = Job { args, program, function, plan: &plan, arguments: &arguments };
            terminal.doing(doing);
            let of_operators = of_operators(max_bytes);
            match on {
                On::Processes(processes) => {
                    job.compiled(processes, (&image.0, image.1), &of_operators)?
                }
                _ => Some(job.compiled_in_threads((&image.0, image.1), &of_operators)?),
            }
        }
    };
    match ran {
        Some(ran) => finished(args, (program, function), (ran, workers), terminal),
        // The first rank shows what came of all.
        None => Ok(Exit::Fine),
    }
}

/// A run of all ranks.
pub(super) struct Job<'a> {
    pub(super) args: &'a RunArgs,
    pub(super) program: &'a Program,
    pub(super) function: &'a Function,
    pub(super) plan: &'a Plan,
    pub(super) arguments: &'a [Argument<'a>],
}

impl Job<'_> {
    fn compiled_in_threads(
        &self,
        (image, limits): (&Image, Limits),
        of_operators: &ops::Limits,
    ) -> Result<RanOnAll, Failure> {
        let machines = Ranks::load(image, &self.plan.axes.mesh, limits, of_operators);
        let machines = machines.map_err(|error| self.unloadable(error))?;
        let call = |given| machines.call(&self.args.entry, given);
        Ok(run_by(self.function, self.plan, self.arguments, call))
    }

    pub(super) fn unloadable(&self, error: RanksError) -> Failure {
        match error {
            RanksError::Load(error) => unloadable(error, &self.program.source.name),
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
    // Places of the local program are those of the program that it was made of.
    let local = Program {
        source: program.source.clone(),
        module: local,
        diagnostics: Vec::new(),
        left: Vec::new(),
    };
    let target = target(args.backend, args.numerics.chosen(), args.kernel_check.policy())?;
    let made = compile(&local, &target, &Bound::of(Arc::new(externals.clone())), &mut Unwatched);
    let image = made.and_then(Artifact::into_file);
    let image = image.map_err(|error| refused(error, &local, terminal))?;
    kernel_check::warn(image.metadata.kernel_check.as_ref(), terminal);
    Ok(image)
}

/// The local program, or why there is none, as a diagnostic of the program.
fn sharded(
    module: &Module,
    function: &Function,
    on: &On,
) -> Result<Result<Sharded, Diagnostic>, Failure> {
    let sharded = shard(module, function, &BTreeMap::new(), &mut Prover::new());
    if let Ok(Sharded { plan, .. }) = &sharded {
        let (mesh, extents) = (&plan.axes.mesh.name, &plan.axes.mesh.extents);
        let workers: usize = extents.iter().product();
        let of_mesh =
            format!("the mesh \"{mesh}\" with the extents {extents:?} has {workers} workers");
        match on {
            On::Threads(ranks) if *ranks != workers => {
                return Err(Failure::usage(format!("--ranks {ranks}: {of_mesh}")));
            }
            On::Processes(processes) if processes.ranks() != workers => {
                let started = processes.ranks();
                return Err(Failure::usage(format!(
                    "--mpi in {started} processes: {of_mesh}; start so many: `mpirun -np {workers}`"
                )));
            }
            _ => {}
        }
    }
    Ok(sharded)
}

fn finished(
    args: &RunArgs,
    (program, function): (&Program, &Function),
    (ran, ranks): (RanOnAll, usize),
    terminal: &mut Terminal,
) -> Outcome {
    let printed =
        ran.printed.into_iter().map(|(rank, line)| format!("rank {rank}: {line}")).collect();
    let result = ran.result.map_err(|(rank, stop)| match stop {
        Stop::Trap(mut trap) => {
            trap.notes.push(format!("on rank {rank} of {ranks}"));
            Stop::Trap(trap)
        }
        other => other,
    });
    let names = output_names(&function.lambda.attrs);
    finish(args, (&program.source, &names), Ran { result, printed }, terminal)
}
