//! `relax run --ranks`: every rank of the program's mesh in this process, in the interpreter or compiled.

use super::super::build::refused;
use super::super::constants::Constants;
use super::super::kernel_check;
use super::super::opt::failed_run;
use super::arguments::Inputs;
use super::compiled::{limits, of_operators, target, unloadable};
use super::{Ran, entry, finish, size};
use crate::args::RunArgs;
use crate::exit::{Failure, Outcome};
use crate::report::show_diagnostics;
use crate::terminal::Terminal;
use relax_driver::ranks::{Ranks, RanksError, inlined};
use relax_driver::{Artifact, Bound, compile};
use relax_program::frontend::Program;
use relax_rewrite::pass::Device;
use relax_rewrite::pipeline::Unwatched;
use relax_semantics::interp::Options;
use relax_semantics::stop::Stop;
use relax_semantics::value::Value;
use relax_sharding::run::{Ran as RanOnAll, run as run_ranks, run_by};
use relax_sharding::{Sharded, shard};
use relax_symbolic::Prover;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{Function, Module, output_names};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Ranks are for the interpreter and the processor, and for programs.
pub(super) fn refuse(args: &RunArgs) -> Result<(), Failure> {
    if args.ranks.is_none() {
        return Ok(());
    }
    if matches!(args.backend, Device::Cuda | Device::Wgpu) {
        return Err(Failure::usage("--ranks runs on the processor: give --backend cpu, or none"));
    }
    if args.trace.is_some() {
        return Err(Failure::usage("--ranks writes no trace"));
    }
    if args.rules.rules.is_some() {
        return Err(Failure::usage("--ranks takes no --rules"));
    }
    Ok(())
}

/// How ranks run.
pub(super) enum Engine<'a> {
    /// In the interpreter, with these arguments.
    Interpreter(&'a [Value], &'a Options),
    /// Compiled, with these constants.
    Compiled(Constants),
}

/// Runs all ranks on their shards of the arguments, and puts the result together.
pub(super) fn run(
    args: &RunArgs,
    ranks: usize,
    (program, engine): (&Program, Engine<'_>),
    terminal: &mut Terminal,
) -> Outcome {
    entry(&program.module, &args.entry)?;
    let module = match inlined(&program.module, &args.entry) {
        Ok(module) => module,
        Err(failed) => return failed_run(&failed, program, terminal),
    };
    let function = entry(&module, &args.entry)?;
    let sharded = match sharded(&module, function, ranks)? {
        Ok(sharded) => sharded,
        Err(refused) => return Ok(show_diagnostics(terminal, &program.source, &[refused])),
    };
    let ran = match engine {
        Engine::Interpreter(arguments, options) => {
            terminal.doing(format!("running {} on {ranks} ranks", args.entry));
            run_ranks(function, &sharded.plan, &sharded.local, arguments, options)
        }
        Engine::Compiled(constants) => {
            compiled(args, (program, function), sharded, constants, terminal)?
        }
    };
    finished(args, (program, function), (ran, ranks), terminal)
}

/// Runs the compiled local program.
fn compiled(
    args: &RunArgs,
    (program, function): (&Program, &Function),
    Sharded { plan, local }: Sharded,
    Constants { externals, parameters }: Constants,
    terminal: &mut Terminal,
) -> Result<RanOnAll, Failure> {
    let max_bytes = size("--max-memory", &args.max_memory)?;
    let arguments = Inputs::new(args, function, max_bytes)?.read(&parameters)?;
    // Places of the local program are those of the program that it was made of.
    let local = Program {
        source: program.source.clone(),
        module: local,
        diagnostics: Vec::new(),
        left: Vec::new(),
    };
    let target = target(args.backend, args.numerics.chosen(), args.kernel_check.policy())?;
    let made = compile(&local, &target, &Bound::of(Arc::new(externals)), &mut Unwatched);
    let image = made.and_then(Artifact::into_file);
    let image = image.map_err(|error| refused(error, &local, terminal))?;
    kernel_check::warn(image.metadata.kernel_check.as_ref(), terminal);
    let limits = (limits(args)?, of_operators(max_bytes));
    let machines = Ranks::load(&image, &plan.axes.mesh, limits.0, &limits.1);
    let machines = machines.map_err(|error| match error {
        RanksError::Load(error) => unloadable(error, &program.source.name),
        RanksError::Programs(why) => Failure::usage(why),
    })?;
    terminal.doing(format!("running {} on all ranks", args.entry));
    Ok(run_by(function, &plan, &arguments, |given| machines.call(&args.entry, given)))
}

/// The local program, or why there is none, as a diagnostic of the program.
fn sharded(
    module: &Module,
    function: &Function,
    ranks: usize,
) -> Result<Result<Sharded, Diagnostic>, Failure> {
    let sharded = shard(module, function, &BTreeMap::new(), &mut Prover::new());
    if let Ok(Sharded { plan, .. }) = &sharded {
        let (mesh, extents) = (&plan.axes.mesh.name, &plan.axes.mesh.extents);
        let workers: usize = extents.iter().product();
        if workers != ranks {
            return Err(Failure::usage(format!(
                "--ranks {ranks}: the mesh \"{mesh}\" with the extents {extents:?} has {workers} workers"
            )));
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
