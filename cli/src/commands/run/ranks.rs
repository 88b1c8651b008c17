//! `relax run --ranks`: every rank of the program's mesh in this process, in the interpreter.

use super::{Ran, entry, finish};
use crate::args::RunArgs;
use crate::exit::{Failure, Outcome};
use crate::report::show_diagnostics;
use crate::terminal::Terminal;
use relax_program::frontend::Program;
use relax_rewrite::pass::Device;
use relax_semantics::interp::Options;
use relax_semantics::stop::Stop;
use relax_semantics::value::Value;
use relax_sharding::run::run as run_ranks;
use relax_sharding::{Sharded, shard};
use relax_symbolic::Prover;
use relax_syntax::ir::output_names;
use std::collections::BTreeMap;

/// Ranks are for the interpreter, and for programs.
pub(super) fn refuse(args: &RunArgs) -> Result<(), Failure> {
    if args.ranks.is_none() {
        return Ok(());
    }
    if args.backend != Device::Interp {
        return Err(Failure::usage("--ranks runs in the interpreter: leave --backend out"));
    }
    if args.trace.is_some() {
        return Err(Failure::usage("--ranks writes no trace"));
    }
    Ok(())
}

/// Runs all ranks on their shards of the arguments, and puts the result together.
pub(super) fn run(
    args: &RunArgs,
    ranks: usize,
    (program, arguments): (&Program, &[Value]),
    options: &Options,
    terminal: &mut Terminal,
) -> Outcome {
    let function = entry(&program.module, &args.entry)?;
    let sharded = shard(&program.module, function, &BTreeMap::new(), &mut Prover::new());
    let Sharded { plan, local } = match sharded {
        Ok(sharded) => sharded,
        Err(refused) => return Ok(show_diagnostics(terminal, &program.source, &[refused])),
    };
    let (mesh, extents) = (&plan.axes.mesh.name, &plan.axes.mesh.extents);
    let workers: usize = extents.iter().product();
    if workers != ranks {
        return Err(Failure::usage(format!(
            "--ranks {ranks}: the mesh \"{mesh}\" with the extents {extents:?} has {workers} workers"
        )));
    }
    terminal.doing(format!("running {} on {ranks} ranks", args.entry));
    let ran = run_ranks(function, &plan, &local, arguments, options);
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
