//! `relax train`: steps of an optimizer on the loss of a program, which is compiled once for all shapes.

use super::build::refused;
use super::loading::load_text;
use super::opt::failed_run;
use super::run::{size, target};
use crate::args::TrainArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::files::{is_stdin, read_text, shown_name};
use crate::report::{Finding, finding_of_stop, show, show_diagnostics};
use crate::signals;
use crate::terminal::Terminal;
use relax_program::frontend::Program;
use relax_syntax::diagnostic::{Label, Part};
use relax_syntax::span::Source;
use relax_train::{
    Config, ConfigError, Ended, Environment, Session, Step, TrainError, last_checkpoint,
    refuse_checkpoints,
};
use serde_json::json;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) fn train(args: &TrainArgs, terminal: &mut Terminal) -> Outcome {
    let source = Source::new(shown_name(&args.config), read_text(&args.config)?);
    let folder = args.config.parent().filter(|_| !is_stdin(&args.config));
    let config = match Config::parse(&source, folder.unwrap_or(Path::new(""))) {
        Ok(config) => config,
        Err(error) => return Ok(shown(&error, &source, terminal)),
    };
    let Some(program) = load_text(&config.program.value, terminal)? else { return Ok(Exit::Wrong) };
    match trained(args, &config, &program, terminal)? {
        Ok(ended) => end(&ended, terminal),
        Err(error) => failed(error, (&config, &source), &program, terminal),
    }
}

/// Prepares a run and takes its steps. The outer error is one of the terminal.
fn trained(
    args: &TrainArgs,
    config: &Config,
    program: &Program,
    terminal: &mut Terminal,
) -> Result<Result<Ended, TrainError>, Failure> {
    let max_bytes = size("--max-memory", &args.max_memory)?;
    let from = match &args.resume {
        Some(Some(path)) => Ok(Some(path.clone())),
        Some(None) => last_checkpoint(config).map(Some),
        None => refuse_checkpoints(config).map(|()| None),
    };
    let from: Option<PathBuf> = match from {
        Ok(from) => from,
        Err(error) => return Ok(Err(error)),
    };
    let target = target(config.backend, config.numerics, args.kernel_check.policy())?;
    terminal.doing(format!("compiling {}", config.program.value.display()));
    let session = Session::new(config.clone(), program, &Environment { target, max_bytes });
    let resumed = session.and_then(|mut session| {
        from.as_deref().map_or(Ok(()), |path| session.resume(path))?;
        Ok(session)
    });
    let mut session = match resumed {
        Ok(session) => session,
        Err(error) => return Ok(Err(error)),
    };
    if let Some(plan) = session.memory() {
        plan.lines().iter().for_each(|line| terminal.note(line));
    }
    let stops = Arc::new(AtomicBool::new(false));
    let on_signal = Arc::clone(&stops);
    signals::catch_first(Box::new(move || on_signal.store(true, Ordering::SeqCst)));
    let mut unheard = None;
    let ended = session.run(&mut |step| {
        unheard = tell(step, config, terminal).err();
        match unheard.is_some() || stops.load(Ordering::SeqCst) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    unheard.map_or(Ok(ended), Err)
}

/// Progress for people, and each step for tools.
fn tell(step: &Step, config: &Config, terminal: &mut Terminal) -> Result<(), Failure> {
    let mut line = format!(
        "step {} of {}: loss {}, gradient norm {}, rate {}",
        step.step,
        config.steps,
        number(step.loss),
        number(step.gradient_norm),
        number(step.rate)
    );
    if let Some(scale) = step.loss_scale {
        line += &format!(", loss scale {}", number(f64::from(scale)));
    }
    let is_told = step.step == 1 || step.step == config.steps;
    if let Some(why) = &step.skipped {
        terminal.note(&format!("{line}; no weight is changed: {why}"));
    } else if is_told || step.step.is_multiple_of(config.report) {
        terminal.note(&line);
    }
    terminal.doing(line);
    terminal.object(|| {
        let mut object = step.object();
        object["type"] = json!("step");
        object
    })?;
    terminal.flush()
}

/// Six digits after the point, or an exponent where they would say little.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 | 1e-3..1e6 => format!("{value:.6}"),
        _ => format!("{value:.6e}"),
    }
}

fn end(ended: &Ended, terminal: &mut Terminal) -> Outcome {
    let checkpoint = ended.checkpoint.as_ref().map(|path| path.display().to_string());
    let text = match (&checkpoint, ended.losses) {
        (Some(path), Some((first, last))) => {
            let (steps, first, last) = (ended.steps, number(first), number(last));
            format!("{path}: step {steps}, loss {first} in the first step and {last} in the last\n")
        }
        _ => format!("nothing to do: the checkpoint is of step {}\n", ended.steps),
    };
    let losses = ended.losses;
    terminal.tell(&text, || {
        json!({
            "type": "trained",
            "steps": ended.steps,
            "checkpoint": checkpoint,
            "first_loss": losses.map(|losses| losses.0),
            "last_loss": losses.map(|losses| losses.1),
            "interrupted": ended.interrupted,
        })
    })?;
    if ended.interrupted {
        terminal.warn("interrupted before the last step: go on with --resume");
        return Ok(Exit::Stopped);
    }
    Ok(Exit::Fine)
}

fn failed(
    error: TrainError,
    (config, source): (&Config, &Source),
    program: &Program,
    terminal: &mut Terminal,
) -> Outcome {
    match error {
        TrainError::Config(error) => Ok(shown(&error, source, terminal)),
        TrainError::Input(why) => Err(Failure::usage(why)),
        TrainError::File(error) => Err(Failure::of_file(&error)),
        TrainError::Optimizer(program) => {
            Ok(show_diagnostics(terminal, &program.source, &program.diagnostics))
        }
        TrainError::Program(diagnostic) => {
            Ok(show_diagnostics(terminal, &program.source, &[*diagnostic]))
        }
        TrainError::Gradient(failed) => failed_run(&failed, program, terminal),
        TrainError::Compile { program, error } => Err(refused(error, &program, terminal)),
        TrainError::Stopped { step, text, stop } => {
            let (mut finding, exit) = finding_of_stop(&stop, &text);
            finding.notes.push(format!("in step {step}; {}", left(config)));
            show(terminal, &text, &[finding]);
            Ok(exit)
        }
        TrainError::NotFinite { .. } => Err(Failure::Message {
            exit: Exit::Stopped,
            text: format!("{error}; {}", left(config)),
        }),
    }
}

/// What is left of a run that failed.
fn left(config: &Config) -> String {
    match last_checkpoint(config) {
        Ok(path) => format!("the last checkpoint is {}", path.display()),
        Err(error) => error.to_string(),
    }
}

/// A mistake in a configuration, at its place.
fn shown(error: &ConfigError, source: &Source, terminal: &mut Terminal) -> Exit {
    let label = Label { span: error.span, part: Part::Whole, text: "here".to_owned() };
    let finding = Finding {
        severity: "error",
        code: String::new(),
        message: error.message.clone(),
        primary: Some(label),
        secondary: Vec::new(),
        notes: Vec::new(),
        help: error.help.clone(),
        fix: None,
    };
    show(terminal, source, &[finding]);
    Exit::Usage
}
