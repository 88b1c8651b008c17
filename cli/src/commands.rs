//! One file a subcommand.

mod bench;
mod build;
mod cache;
mod calls;
mod certified;
mod check;
mod concepts;
mod constants;
mod devices;
mod diff;
mod explain;
mod export;
mod fallbacks;
mod fixes;
mod fmt;
mod fuzz;
mod generate;
mod grad;
mod import;
mod inspect;
mod kept;
mod kernel_check;
mod loading;
mod local;
mod meshes;
mod numerics;
mod ops;
mod opt;
mod own_rules;
mod pages;
mod profile;
mod progress;
mod prove;
mod rewrite;
mod rewritten;
mod rules;
mod run;
#[cfg(feature = "serve")]
mod serve;
#[cfg(not(feature = "serve"))]
#[path = "commands/no_server.rs"]
mod serve;
mod shard;
mod train;
mod tune;
mod unknown;
mod verify;
mod versions;

use crate::args::Command;
use crate::exit::{Failure, Outcome};
use crate::files::is_stdin;
use crate::terminal::Terminal;
use std::path::Path;

/// Does what the command line asks for.
pub(crate) fn dispatch(command: Command, terminal: &mut Terminal) -> Outcome {
    if terminal.log().is_some() && !matches!(command, Command::Check(_) | Command::Fuzz(_)) {
        return Err(Failure::usage(
            "--format sarif and --format github are for `check` and `fuzz`",
        ));
    }
    let outcome = match perform(command, terminal) {
        Err(Failure::Shown(exit)) => Ok(exit),
        outcome => outcome,
    };
    cache::note_fallback(terminal);
    outcome
}

fn perform(command: Command, terminal: &mut Terminal) -> Outcome {
    match command {
        Command::Check(args) => check::check(&args, terminal),
        Command::Inspect(args) => inspect::inspect(&args, terminal),
        Command::Import(args) => import::import(&args, terminal),
        Command::Export(args) => export::export(&args, terminal),
        Command::Run(args) => run::run(&args, terminal),
        Command::Generate(args) => generate::generate(&args, terminal),
        Command::Serve(args) => serve::serve(&args, terminal),
        Command::Train(args) => train::train(&args, terminal),
        Command::Fmt(args) => fmt::fmt(&args, terminal),
        Command::Opt(args) => opt::opt(&args, terminal),
        Command::Grad(args) => grad::grad(&args, terminal),
        Command::Shard(args) => shard::shard(&args, terminal),
        Command::Build(args) => build::build(&args, terminal),
        Command::Bench(args) => bench::bench(&args, terminal),
        Command::Tune(args) => tune::tune(&args, terminal),
        Command::Cache(args) => cache::show(&args, terminal),
        Command::Devices => devices::devices(terminal),
        Command::Diff(args) => diff::diff(&args, terminal),
        Command::Equiv(args) => diff::equiv(&args, terminal),
        Command::Fuzz(args) => fuzz::fuzz(&args, terminal),
        Command::Prove(args) => prove::prove(&args, terminal),
        Command::Ops(args) => ops::ops(&args, terminal),
        Command::Rules(args) => rules::rules(&args, terminal),
        Command::Rewrite(args) => rewrite::rewrite(&args, terminal),
        Command::Versions(args) => versions::versions(&args, terminal),
        Command::Explain(args) => explain::explain(&args, terminal),
        Command::Verify(args) => verify::verify(&args, terminal),
        Command::Completions(args) => pages::completions(&args, terminal),
        Command::Man(args) => pages::man(&args, terminal),
    }
}

/// Several files may be given, but the standard input can be read once.
fn at_most_one_stdin<'a>(files: impl IntoIterator<Item = &'a Path>) -> Result<(), Failure> {
    if files.into_iter().filter(|path| is_stdin(path)).count() > 1 {
        return Err(Failure::usage("the standard input can be read once only"));
    }
    Ok(())
}
