//! `relax run --mpi`: one rank of the program's mesh, in one of the processes that `mpirun` started. The first rank shows what came of
//! all, or why they do not run; the others are silent.

use super::ranks::{Content, Job, Ranked};
use super::{On, run_on};
use crate::args::RunArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::report::{finding_of_stop, show};
use crate::terminal::Terminal;
use relax_driver::ranks::{OneRank, Processes, Refused, digest, fact};
use relax_program::frontend::print;
use relax_semantics::interp::{Interpreter, Options};
use relax_semantics::ranks::RanRank;
use relax_semantics::value::Value;
use relax_sharding::run::{Argument, Ran, run_one};
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Seconds that a rank waits for others.
const TIMEOUT: u32 = 300;

pub(super) fn run(args: &RunArgs, terminal: &mut Terminal) -> Outcome {
    let seconds = args.rank_timeout.map_or(TIMEOUT, std::num::NonZero::get);
    let transport = relax_mpi::connect().map_err(Failure::missing)?;
    let processes = Processes::new(transport, Duration::from_secs(seconds.into()));
    if processes.rank() != 0 {
        terminal.mute();
    }
    let processes = Arc::new(processes);
    report_timeouts(&processes, &Source::new("ranks", ""), terminal);
    let outcome = if args.file == Path::new("-") {
        Err(Failure::usage("--mpi: mpirun gives the standard input to one rank only; name a file"))
    } else {
        run_on(args, &On::Processes(Arc::clone(&processes)), terminal)
    };
    let outcome = agreed(&processes, outcome, terminal);
    if processes.rank() != 0 {
        // The exit code of the first rank says what came of all.
        return Ok(Exit::Fine);
    }
    // mpirun ends all processes when one has failed, so everything is shown before this one leaves them.
    terminal.flush()?;
    match outcome {
        Err(Failure::Message { exit, text }) => {
            terminal.failure(exit, &text);
            Err(Failure::Shown(exit))
        }
        other => other,
    }
}

/// What comes of a rank, after all know whether each of them can run.
fn agreed(processes: &Processes, outcome: Outcome, terminal: &Terminal) -> Outcome {
    if processes.has_agreed() {
        return outcome;
    }
    let why = match &outcome {
        Err(Failure::Message { text, .. }) => text.clone(),
        _ => terminal.muted().unwrap_or_default(),
    };
    match processes.agree(Err(why)) {
        Err(Refused::Here(why)) => Err(Failure::usage(why)),
        _ => outcome,
    }
}

/// Shows a rank that is waited for in vain, from whichever rank waits for it.
fn report_timeouts(processes: &Processes, source: &Source, terminal: &Terminal) {
    let (source, terminal) = (source.clone(), Mutex::new(terminal.like()));
    processes.on_timeout(move |stop| {
        let mut terminal = terminal.lock().unwrap_or_else(PoisonError::into_inner);
        let (finding, _) = finding_of_stop(stop, &source);
        show(&mut terminal, &source, &[finding]);
        // Nobody is left to tell of a failure.
        let _ = terminal.finish();
        relax_cpu::scratch::remove_all();
    });
}

impl Job<'_> {
    /// Runs this rank in the interpreter. The first rank gets what came of all.
    pub(super) fn interpreted(
        &self,
        processes: &Arc<Processes>,
        local: &Module,
        mut options: Options,
    ) -> Result<Option<Ran>, Failure> {
        options.rank = Some(Arc::clone(processes) as _);
        self.run(processes, |given| {
            let mut interpreter = Interpreter::new(local, options);
            let result = interpreter.call(&self.of.args.entry, given);
            RanRank { result, printed: interpreter.printed }
        })
    }

    /// Runs this rank compiled.
    pub(super) fn compiled(
        &self,
        processes: &Arc<Processes>,
        one: &OneRank,
    ) -> Result<Option<Ran>, Failure> {
        let name = &self.of.args.entry;
        self.run(processes, |given| one.call(Arc::clone(processes) as _, name, &given))
    }

    fn run(
        &self,
        processes: &Processes,
        call: impl FnOnce(Vec<Value>) -> RanRank,
    ) -> Result<Option<Ran>, Failure> {
        processes.agree(Ok(self.facts())).map_err(|refused| match refused {
            Refused::Here(why) => Failure::usage(why),
            // Which is said by another rank.
            Refused::Elsewhere => Failure::Shown(Exit::Usage),
        })?;
        let Ranked { function, layouts, mesh, .. } = *self.of;
        Ok(run_one(function, (layouts, mesh), (self.arguments, processes.rank()), |given| {
            processes.run(mesh, || match given {
                Ok(given) => call(given),
                Err(stop) => RanRank { result: Err(stop), printed: Vec::new() },
            })
        }))
    }

    /// What all ranks have in common.
    fn facts(&self) -> Vec<(String, String)> {
        let Ranked { args, content, function, mesh, .. } = self.of;
        let (program, backend) = match content {
            Content::Text(program) => {
                let numerics = format!("{:?}, {:?}", args.backend, args.numerics.chosen());
                (
                    format!("text with the digest {}", digest(print(&program.module).as_bytes())),
                    numerics,
                )
            }
            // The numerics are in it.
            Content::File(file) => (
                format!("a module file with the digest {}", digest(file.bytes())),
                "its own".to_owned(),
            ),
        };
        let mut facts = vec![
            ("the version of relax".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("the program".to_owned(), program),
            ("the function".to_owned(), args.entry.clone()),
            ("the backend".to_owned(), backend),
            ("the extents of the mesh".to_owned(), format!("{:?}", mesh.extents)),
        ];
        for (&param, argument) in function.lambda.params.iter().zip(self.arguments) {
            let name = &function.var(param).name;
            let fact = match argument {
                Argument::Value(value) => fact(value),
                Argument::Stored(stored) => stored.description(),
            };
            facts.push((format!("the argument `{name}`"), fact));
        }
        facts
    }
}
