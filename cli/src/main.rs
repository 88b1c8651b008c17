//! The `relax` command: floor 6, the only place with files, clock and environment. One file a
//! subcommand under `commands/`.

mod args;
mod commands;
mod environment;
mod exit;
mod files;
mod questions;
mod report;
mod signals;
mod terminal;
mod version;

use args::Cli;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};
use exit::{Exit, Failure, Outcome};
use relax_runtime::out_of_memory::ExitOutOfMemory;
use relax_syntax::suggest;
use std::io::Write;
use std::panic;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use terminal::Terminal;

/// Programs nest; what they may nest is limited by named limits, not by the stack.
const STACK: usize = 512 << 20;

#[global_allocator]
static ALLOCATOR: ExitOutOfMemory = ExitOutOfMemory(3);

fn main() -> ExitCode {
    signals::watch();
    let exit = guarded();
    // Statics are not dropped.
    relax_cpu::scratch::remove_all();
    ExitCode::from(exit.code())
}

/// Runs the command so that a mistake in it ends in a message, not in a backtrace.
fn guarded() -> Exit {
    let seen = Arc::new(Mutex::new(String::new()));
    let hook = Arc::clone(&seen);
    panic::set_hook(Box::new(move |info| {
        if let Ok(mut text) = hook.lock() {
            *text = info.to_string();
        }
    }));
    let spawned = std::thread::Builder::new().stack_size(STACK).spawn(command);
    let Ok(thread) = spawned else {
        let _ = writeln!(std::io::stderr(), "error: there is no memory for a thread");
        return Exit::Missing;
    };
    thread.join().unwrap_or_else(|_| {
        let text = seen.lock().map(|text| text.clone()).unwrap_or_default();
        let message = "internal error, please report it with the program that shows it";
        let _ = writeln!(std::io::stderr(), "{message}\n{text}");
        Exit::Internal
    })
}

fn command() -> Exit {
    let parsed = args::command().try_get_matches();
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return show_usage(&with_owners(error)),
    };
    let mut terminal = Terminal::new(&cli.global);
    let outcome =
        environment::check(std::env::vars_os()).and_then(|()| match &cli.global.questions {
            Some(path) => questions::noted(path, &mut terminal, |terminal| {
                commands::dispatch(cli.command, terminal)
            }),
            None => commands::dispatch(cli.command, &mut terminal),
        });
    let outcome = outcome.and_then(|exit| terminal.finish().map(|()| exit));
    end(outcome, &mut terminal)
}

fn end(outcome: Outcome, terminal: &mut Terminal) -> Exit {
    match outcome {
        Ok(exit) | Err(Failure::Shown(exit)) => exit,
        // Nobody is left to tell, and not all was written.
        Err(Failure::Closed) => Exit::Usage,
        Err(Failure::Message { exit, text }) => {
            terminal.failure(exit, &text);
            // A log is written whatever happened; the exit code says the rest.
            let _ = terminal.finish();
            exit
        }
    }
}

/// A flag that other subcommands have: which ones. The parser would suggest to pass it as a file.
fn with_owners(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::InvalidValue {
        return with_value(error);
    }
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    error.remove(ContextKind::TrailingArg);
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return error };
    let flag = flag.trim_start_matches("--").to_owned();
    let command = Cli::command();
    let owners: Vec<String> = command
        .get_subcommands()
        .filter(|owner| owner.get_arguments().any(|arg| arg.get_long() == Some(&flag)))
        .map(|owner| format!("`relax {}`", owner.get_name()))
        .collect();
    if !owners.is_empty() {
        let tip = format!("`--{flag}` is a flag of {}", owners.join(", "));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// A value that is none of the possible ones: which was meant. The parser suggests those that are alike by its own measure
/// only, and takes `P3` for none.
fn with_value(mut error: clap::Error) -> clap::Error {
    let (Some(ContextValue::String(value)), Some(ContextValue::Strings(known)), None) = (
        error.get(ContextKind::InvalidValue),
        error.get(ContextKind::ValidValue),
        error.get(ContextKind::SuggestedValue),
    ) else {
        return error;
    };
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    if let Some(near) = meant_value(value, &known) {
        let near = ContextValue::String(near.to_owned());
        error.insert(ContextKind::SuggestedValue, near);
    }
    error
}

/// The shortest value that has these characters in this order, else the nearest one.
fn meant_value<'k>(value: &str, known: &[&'k str]) -> Option<&'k str> {
    let has = |candidate: &str| {
        let mut rest = candidate.chars();
        value.chars().all(|wanted| rest.any(|found| found.eq_ignore_ascii_case(&wanted)))
    };
    let longer = known.iter().copied().filter(|candidate| !value.is_empty() && has(candidate));
    longer
        .min_by_key(|candidate| candidate.len())
        .or_else(|| suggest::nearest(value, known.iter().copied()).first().copied())
}

/// Help and version go to the standard output, mistakes to the other.
fn show_usage(error: &clap::Error) -> Exit {
    let text = error.render().to_string();
    if error.use_stderr() {
        let _ = std::io::stderr().write_all(text.as_bytes());
        return Exit::Usage;
    }
    let _ = std::io::stdout().write_all(text.as_bytes());
    Exit::Fine
}
