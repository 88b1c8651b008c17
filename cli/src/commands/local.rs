//! The local program of a function: what each rank of its mesh runs.

use super::opt::failed_run;
use super::run::entry;
use crate::exit::{Exit, Failure};
use crate::report::show_diagnostics;
use crate::terminal::Terminal;
use relax_program::frontend::Program;
use relax_rewrite::inlined::inlined;
use relax_sharding::{Sharded, shard, shard_in_versions};
use relax_symbolic::Prover;
use relax_syntax::ir::Module;
use std::collections::BTreeMap;

/// A program whose calls are inlined, and what is made of one of its functions.
pub(super) struct Local {
    pub(super) module: Module,
    pub(super) sharded: Sharded,
}

/// Makes the local program of a function, in versions for several sizes or for one; the exit code where it was shown why there is none.
pub(super) fn local(
    program: &Program,
    (name, in_versions): (&str, bool),
    terminal: &mut Terminal,
) -> Result<Result<Local, Exit>, Failure> {
    entry(&program.module, name)?;
    let module = match inlined(&program.module, name, &mut Prover::new()) {
        Ok(module) => module,
        Err(failed) => return failed_run(&failed, program, terminal).map(Err),
    };
    let function = entry(&module, name)?;
    let shard = if in_versions { shard_in_versions } else { shard };
    match shard(&module, function, &BTreeMap::new(), &mut Prover::new()) {
        Ok(sharded) => Ok(Ok(Local { module, sharded })),
        Err(refused) => Ok(Err(show_diagnostics(terminal, &program.source, &[refused]))),
    }
}

/// The local program as one of its own. Places in it are those of the program that it was made of.
pub(super) fn as_program(program: &Program, local: Module) -> Program {
    Program {
        source: program.source.clone(),
        module: local,
        diagnostics: Vec::new(),
        left: Vec::new(),
    }
}
