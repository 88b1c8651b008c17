//! Passes that are programs of their own: each reads the text of a module and writes one. What it writes is checked like any
//! text and compared with what it was given, so that a wrong program makes an error and no wrong module.

use crate::exit::{Exit, Failure};
use crate::report::show_diagnostics;
use crate::terminal::Terminal;
use relax_program::frontend::{Program, print};
use relax_rewrite::pass::Exactness;
use relax_rewrite::verify::{Effort, Remembered, is_private, verify_again};
use relax_semantics::check::Phase;
use relax_semantics::tensor::Tensor;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::ir::{Definition, Function, Module};
use relax_syntax::span::Source;
use relax_theorems::validation::{FUEL, Outcome, validate};
use relax_validation::kernels::filled;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Its memory, in KiB.
const MOST_MEMORY: u64 = 4 << 20;
/// Bytes that it may write.
const MOST_OUTPUT: u64 = 64 << 20;
/// Bytes of its standard error that are shown.
const MOST_SAID: u64 = 4 << 10;

/// Whether the name of a pass is that of a program: it has a slash, as in `./mine`.
pub(super) fn is_program(name: &str) -> bool {
    name.contains('/')
}

/// What a comparison needs beside the modules.
pub(super) struct Comparison<'c> {
    pub(super) effort: Effort,
    pub(super) params: &'c BTreeMap<Name, Tensor>,
    /// How many the program may take.
    pub(super) seconds: u64,
}

/// The module that a program makes of one.
pub(super) fn transformed(
    path: &str,
    module: &Module,
    comparison: &Comparison,
    terminal: &mut Terminal,
) -> Result<Module, Failure> {
    terminal.doing(format!("running {path}"));
    let text = output(path, print(module), Duration::from_secs(comparison.seconds))?;
    let program = Program::load(Source::new(path, text.as_str()));
    if program.has_errors() {
        terminal.note(&format!("the pass `{path}` wrote a program that is wrong"));
        let exit = show_diagnostics(terminal, &program.source, &program.diagnostics);
        return Err(Failure::Shown(exit));
    }
    let after = program.module;
    same_interface(path, module, &after)?;
    let (proved, all) = proved(module, &after);
    if proved == all {
        terminal.note(&format!("{path}: {all} of {all} functions proved to be the same"));
        return Ok(after);
    }
    terminal.doing(format!("{path}: comparing with its input"));
    let Comparison { effort, params, .. } = comparison;
    let remembered = &mut Remembered::default();
    let tally = verify_again(module, &after, Exactness::Approximate, *effort, params, remembered);
    let tally =
        tally.map_err(|why| wrong(path, format!("changes what the program means: {why}")))?;
    if tally.compared + tally.trapped == 0 {
        let text = format!(
            "the pass `{path}`: there is no proof that functions are the same, and nothing was compared: {tally}"
        );
        return Err(Failure::Message { exit: Exit::Vacuous, text });
    }
    terminal.note(&format!(
        "{path}: {proved} of {all} functions proved to be the same, all compared: {tally}"
    ));
    Ok(after)
}

fn wrong(path: &str, why: impl Display) -> Failure {
    Failure::Message { exit: Exit::Wrong, text: format!("the pass `{path}` {why}") }
}

/// The phase stays, and so do the functions that others can call.
fn same_interface(path: &str, before: &Module, after: &Module) -> Result<(), Failure> {
    let [was, is] =
        [before, after].map(|module| Phase::of_module(module).map_or("none", Phase::name));
    if was != is {
        return Err(wrong(path, format!("changes the recorded phase: it was {was}, and is {is}")));
    }
    let gone = public(before).find(|function| after.function(&function.name).is_none());
    match gone {
        Some(function) => Err(wrong(path, format!("loses the function `{}`", function.name))),
        None => Ok(()),
    }
}

/// Functions with a body that others can call.
fn public(module: &Module) -> impl Iterator<Item = &Function> {
    let functions = module.definitions.iter().filter_map(|definition| match definition {
        Definition::Graph(function) => Some(function),
        Definition::Tensor(_) => None,
    });
    functions.filter(|function| !is_private(function))
}

/// How many functions are proved to mean the same, and of how many.
fn proved(before: &Module, after: &Module) -> (usize, usize) {
    let findings = validate(before, after, FUEL, &mut || Box::new(Prover::new()), filled);
    let is_proved = |outcome: &Outcome| *outcome == Outcome::Proved;
    (findings.iter().filter(|finding| is_proved(&finding.outcome)).count(), findings.len())
}

/// What a program writes of a text, within limits.
fn output(path: &str, text: String, most: Duration) -> Result<String, Failure> {
    let mut child = Command::new("sh")
        .args(["-c", &format!("ulimit -v {MOST_MEMORY}; exec \"$0\""), path])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|why| Failure::missing(format!("the pass `{path}` does not start: {why}")))?;
    let mut input = child.stdin.take().expect("invariant: it was asked for");
    // A program that reads no further than it needs closes its input.
    thread::spawn(move || _ = input.write_all(text.as_bytes()));
    let written = reading(child.stdout.take(), MOST_OUTPUT);
    let said = reading(child.stderr.take(), MOST_SAID);
    let ended = ended(&mut child, &written, most);
    let said = || {
        let said = said.recv_timeout(Duration::from_millis(100)).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).trim_end().to_owned();
        if said.is_empty() { said } else { format!("\n{said}") }
    };
    let bytes = ended.map_err(|why| wrong(path, format!("{why}{}", said())))?;
    String::from_utf8(bytes).map_err(|_| wrong(path, "writes what is no UTF-8"))
}

/// What a stream gives, up to one byte more than may be.
fn reading(stream: Option<impl Read + Send + 'static>, most: u64) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(stream) = stream {
            let _ = stream.take(most + 1).read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    });
    receiver
}

/// What the program wrote once it has ended well; why it has not otherwise.
fn ended(
    child: &mut Child,
    written: &Receiver<Vec<u8>>,
    most: Duration,
) -> Result<Vec<u8>, String> {
    let end = Instant::now() + most;
    let bytes = written.recv_timeout(most);
    let too_long = || format!("takes more than {} s", most.as_secs());
    let status = loop {
        let is_too_much = bytes.as_ref().is_ok_and(|bytes| bytes.len() as u64 > MOST_OUTPUT);
        match child.try_wait().map_err(|why| why.to_string())? {
            _ if is_too_much => {
                stop(child);
                return Err(format!("writes more than {MOST_OUTPUT} bytes"));
            }
            Some(status) => break status,
            None if Instant::now() >= end => {
                stop(child);
                return Err(too_long());
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    if !status.success() {
        return Err(format!("fails: {status}"));
    }
    bytes.map_err(|_| too_long())
}

fn stop(child: &mut Child) {
    // One that has ended by itself is not there any more.
    let _ = child.kill();
    let _ = child.wait();
}
