//! What is told of each pass: counters, times, the program after it, and whether it means the same.

use super::external::{Comparison, transformed};
use crate::args::{Format, OptArgs};
use crate::exit::Failure;
use crate::files::write_whole;
use crate::terminal::Terminal;
use relax_lower::certify::Stages;
use relax_program::frontend::print;
use relax_rewrite::pass::{Counter, Exactness, Pass};
use relax_rewrite::pipeline::{Applied, Failed, Watch};
use relax_rewrite::verify::{Effort, Remembered, Tally, verify_again};
use relax_semantics::tensor::Tensor;
use relax_syntax::Name;
use relax_syntax::ir::Module;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// After which passes the program is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Show {
    Nothing,
    After(&'static str),
    All,
}

/// Tells of passes as they are run.
pub(super) struct Reporter<'a> {
    pub(super) args: &'a OptArgs,
    show: Show,
    input: &'a Module,
    pub(super) params: &'a BTreeMap<Name, Tensor>,
    pub(super) terminal: &'a mut Terminal,
    started: Instant,
    /// Each pass that was run, and how long it and the check of what it made took.
    times: Vec<(&'static str, Duration)>,
    tally: Tally,
    /// What the input came to.
    remembered: Remembered,
    exactness: Exactness,
    /// The texts that a certificate is about.
    pub(super) stages: Option<Stages>,
    /// What could not be written.
    pub(super) failure: Option<Failure>,
}

impl<'a> Reporter<'a> {
    pub(super) fn new(
        args: &'a OptArgs,
        show: Show,
        input: &'a Module,
        params: &'a BTreeMap<Name, Tensor>,
        terminal: &'a mut Terminal,
    ) -> Self {
        Self {
            args,
            show,
            input,
            params,
            terminal,
            started: Instant::now(),
            times: Vec::new(),
            tally: Tally::default(),
            remembered: Remembered::default(),
            exactness: Exactness::Exact,
            stages: args.certify.then(|| Stages::of(input)),
            failure: None,
        }
    }

    /// The input is the first of the dumped programs.
    pub(super) fn begin(&mut self) -> Result<(), Failure> {
        if let Some(folder) = &self.args.dump_dir {
            fs::create_dir_all(folder).map_err(|error| {
                Failure::usage(format!("cannot make {}: {error}", folder.display()))
            })?;
        }
        self.dump("input", self.input)
    }

    fn dump(&mut self, name: &str, module: &Module) -> Result<(), Failure> {
        let Some(folder) = &self.args.dump_dir else { return Ok(()) };
        let path = folder.join(format!("{:02}_{name}.rx", self.times.len()));
        write_whole(&path, print(module).as_bytes())
    }

    /// What is said once all passes were run.
    pub(super) fn end(&mut self) {
        if self.args.time && self.terminal.format == Format::Text {
            let total: Duration = self.times.iter().map(|(_, time)| *time).sum();
            let lines = self.times.iter().map(|(name, time)| line(name, *time));
            let text = lines.chain([line("in all", total)]).collect::<String>();
            self.terminal.message(text.as_bytes());
        }
        self.verdict();
    }

    /// Runs in which no difference was seen.
    pub(super) fn tested(&self) -> u64 {
        self.tally.compared.into()
    }

    /// What verification came to.
    fn verdict(&mut self) {
        if self.args.verify && self.terminal.format == Format::Json {
            let Tally { compared, as_reals, trapped, exhausted, unsupported, rejected } =
                self.tally;
            let line = json!({
                "type": "verified",
                "compared": compared,
                "as_reals": as_reals,
                "trapped": trapped,
                "exhausted": exhausted,
                "unsupported": unsupported,
                "rejected": rejected,
            });
            self.terminal.message(format!("{line}\n").as_bytes());
        } else if self.args.verify {
            self.terminal.note(&format!("verified after each pass: {}", self.tally));
        }
    }

    fn told(&mut self, applied: &Applied, time: Duration) {
        let name = applied.pass.name;
        if self.terminal.format == Format::Json {
            let counters: Vec<_> = applied.counters.iter().map(counter).collect();
            let line = json!({
                "type": "pass",
                "pass": name,
                "changed": applied.changed(),
                "counters": counters,
                "milliseconds": self.args.time.then(|| milliseconds(time)),
            });
            self.terminal.message(format!("{line}\n").as_bytes());
            return;
        }
        let counted: Vec<String> = applied
            .counters
            .iter()
            .filter(|counter| counter.done > 0 || counter.found.is_some_and(|found| found > 0))
            .map(ToString::to_string)
            .collect();
        let counted =
            if counted.is_empty() { "nothing to do".to_owned() } else { counted.join(", ") };
        self.terminal.detail(&format!("{name}: {counted}"));
    }

    fn shown(&mut self, applied: &Applied) {
        let wanted = match self.show {
            Show::Nothing => false,
            Show::After(name) => name == applied.pass.name,
            Show::All => true,
        };
        if wanted {
            let (name, text) = (applied.pass.name, print(applied.after));
            let message = match self.terminal.format {
                Format::Text => format!("# after {name}\n{text}"),
                Format::Json => {
                    format!("{}\n", json!({ "type": "program", "after": name, "text": text }))
                }
            };
            self.terminal.message(message.as_bytes());
        }
    }

    /// Holds the module against the input: what came before may have been approximate.
    fn verified(&mut self, applied: &Applied) -> Result<(), String> {
        self.exactness = self.exactness.then(applied.pass.exactness);
        if !self.args.verify || !applied.changed() {
            return Ok(());
        }
        self.terminal.doing(format!("{}: comparing with the input", applied.pass.name));
        let effort = Effort { cases: self.args.cases, seed: self.args.seed };
        let (input, after) = (self.input, applied.after);
        let (exactness, remembered) = (self.exactness, &mut self.remembered);
        let tally = verify_again(input, after, exactness, effort, self.params, remembered)
            .map_err(|difference| difference.to_string())?;
        self.tally.add(&tally);
        Ok(())
    }
}

impl Reporter<'_> {
    /// Runs a program as a pass. What it makes is compared with what it was given, and with `--verify` with the input.
    pub(super) fn program(&mut self, path: &str, module: &Module) -> Result<Module, Failed> {
        let stopped = || Failed::Stopped { pass: PROGRAM, why: path.to_owned() };
        let effort = Effort { cases: self.args.cases, seed: self.args.seed };
        let comparison =
            Comparison { effort, params: self.params, seconds: self.args.pass_seconds };
        self.started = Instant::now();
        let made = transformed(path, module, &comparison, self.terminal);
        self.times.push((PROGRAM, self.started.elapsed()));
        let made = made.and_then(|made| self.dump(PROGRAM, &made).map(|()| made));
        match made {
            Ok(made) => {
                self.exactness = self.exactness.then(Exactness::Approximate);
                if let Some(stages) = &mut self.stages {
                    stages.made(PROGRAM, &made);
                }
                Ok(made)
            }
            Err(failure) => {
                self.failure = Some(failure);
                Err(stopped())
            }
        }
    }
}

/// What reports and certificates call a pass that is a program.
const PROGRAM: &str = "program";

impl Watch for Reporter<'_> {
    fn before(&mut self, pass: &'static Pass) {
        self.terminal.doing(pass.name.to_owned());
        self.started = Instant::now();
    }

    fn after(&mut self, applied: &Applied) -> Result<(), String> {
        let time = self.started.elapsed();
        self.times.push((applied.pass.name, time));
        self.told(applied, time);
        self.shown(applied);
        if let Some(stages) = &mut self.stages {
            stages.note(applied);
        }
        if let Err(failure) = self.dump(applied.pass.name, applied.after) {
            self.failure = Some(failure);
            return Err("the program could not be written".to_owned());
        }
        self.verified(applied)
    }
}

fn counter(counter: &Counter) -> serde_json::Value {
    json!({
        "verb": counter.verb,
        "what": counter.what,
        "done": counter.done,
        "found": counter.found,
    })
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn line(name: &str, time: Duration) -> String {
    format!("{:>10.3} ms  {name}\n", milliseconds(time))
}
