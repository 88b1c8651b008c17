//! `relax build --ranks`: a module file with the code of each rank of a mesh, and with the layouts that cut arguments and join results.

use super::super::constants::{load_externals, open};
use super::super::fallbacks::show_loops;
use super::super::loading::Given;
use super::super::local::{Local, as_program, local};
use super::super::rewritten::Rules;
use super::super::run::entry;
use super::{made, policy, target, write};
use crate::args::BuildArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::files::{FileKind, shown_name};
use crate::terminal::Terminal;
use relax_driver::Bound;
use relax_program::externals::constants;
use relax_program::frontend::print;
use relax_sharding::Sharded;
use relax_sharding::signature::signature;
use std::sync::Arc;

pub(super) fn build(
    args: &BuildArgs,
    (given, name): (&Given, &str),
    terminal: &mut Terminal,
) -> Outcome {
    if given.kind == FileKind::Model {
        let file = shown_name(&args.file);
        return Err(Failure::usage(format!(
            "--ranks: {file} has no mesh: import it, and give the program layouts with `relax shard`"
        )));
    }
    let program = &given.program;
    load_externals(&program.module, args.params.as_deref())?;
    let Local { module, sharded } = match local(program, (name, args.versions), terminal)? {
        Ok(local) => local,
        Err(exit) => return Ok(exit),
    };
    let Sharded { plan, local, .. } = sharded;
    let signature = signature(&module, entry(&module, name)?, &plan);
    let local = as_program(program, local);
    if show_loops(policy(args), &local, terminal) != Exit::Fine {
        return Ok(Exit::Wrong);
    }
    // Parameters stay parameters: each rank has other parts of them.
    let weights = open(args.params.as_deref())?;
    let externals = weights.map(|weights| constants(&module, &weights)).transpose();
    let params = Arc::new(externals.map_err(Failure::usage)?.unwrap_or_default());
    let activations = args.activations.with(args.numerics)?;
    let bound = Bound { params, binds: false, activations: activations.into() };
    let target = target(args, terminal)?;
    let mut made = made(args, &local, (&target, &bound), &Rules::default(), terminal)?;
    made.image.ranks = print(&signature);
    write(args, &made, terminal)
}
