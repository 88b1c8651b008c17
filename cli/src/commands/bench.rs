//! `relax bench`: how long a function takes, compiled, and which kernels take the time.

use super::calls::Calls;
use super::kernel_check;
use super::loading::load_text;
use super::numerics;
use super::profile::Known;
use super::run::{
    Model, Prepared, is_built, model, prepare_file, prepare_program, prepare_with, refuse_module,
};
use crate::args::{BenchArgs, Format, RunArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::files::{FileKind, kind_of, shown_name};
use crate::terminal::Terminal;
use relax_rewrite::pass::Device;
use relax_semantics::stop::Stop;
use serde_json::json;
use std::time::{Duration, Instant};

/// Calls whose kernels are watched; the first may still warm something.
const WATCHED: usize = 5;

pub(super) fn bench(args: &BenchArgs, terminal: &mut Terminal) -> Outcome {
    let run = as_run(args);
    let kind = kind_of(&args.file)?;
    if kind != FileKind::Model {
        args.model.refuse()?;
    }
    let prepared = if kind == FileKind::Module {
        refuse_module(&run)?;
        prepare_file(&run)?
    } else if kind == FileKind::Model {
        let Some(model) = model(&run, terminal)? else { return Ok(Exit::Wrong) };
        let Model { args: run, program, constants } = model;
        prepare_with(&run, &program, constants, terminal)?
    } else {
        let Some(program) = load_text(&args.file, terminal)? else { return Ok(Exit::Wrong) };
        is_built(run.backend)?;
        prepare_program(&run, &program, terminal)?
    };
    measure(args, prepared, terminal)
}

/// What is run: with random data where nothing else is said.
fn as_run(args: &BenchArgs) -> RunArgs {
    RunArgs {
        file: args.file.clone(),
        model: args.model.clone(),
        entry: args.entry.clone(),
        backend: args.backend,
        input: args.input.clone(),
        params: args.params.clone(),
        sym: args.sym.clone(),
        seed: args.seed,
        random: true,
        output: None,
        ranks: None,
        mpi: false,
        versions: false,
        rank_timeout: None,
        max_memory: args.max_memory.clone(),
        max_steps: None,
        lock_step: false,
        threads: args.threads,
        trace: None,
        numerics: args.numerics,
        rules: args.rules.clone(),
        kernel_check: args.kernel_check,
    }
}

fn measure(args: &BenchArgs, mut prepared: Prepared, terminal: &mut Terminal) -> Outcome {
    kernel_check::warn(prepared.module.metadata().kernel_check.as_ref(), terminal);
    if args.backend == Device::Cpu {
        numerics::detail(&shown_name(&args.file), &prepared.module, terminal);
    }
    terminal.doing(format!("measuring {}", args.entry));
    // The first call also warms caches; what stops, stops here.
    if let Err(stop) = prepared.call()? {
        return stopped(&stop, &prepared, terminal);
    }
    let mut times = Vec::new();
    let end = Instant::now() + Duration::from_secs_f64(args.seconds.clamp(0.0, 3600.0));
    while times.is_empty() || Instant::now() < end {
        let start = Instant::now();
        prepared.call_only()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let (least, median, count) = (times[0], times[times.len() / 2], times.len());
    let text = format!(
        "{}: {} ms at least, {} ms in the median of {count} calls\n",
        args.entry,
        milliseconds(least),
        milliseconds(median),
    );
    terminal.tell(&text, || {
        json!({
            "type": "bench",
            "function": args.entry,
            "least_ms": least,
            "median_ms": median,
            "calls": count,
        })
    })?;
    let calls = fastest(&mut prepared)?;
    terminal.doing("measuring the limits of the processor".to_owned());
    let (module, source) = (&prepared.module, &prepared.source);
    let known = Known::of(module, source, args.backend == Device::Cpu);
    match terminal.format {
        Format::Text => terminal.result(&known.table(&calls.all()))?,
        Format::Json => terminal.result(&known.lines(&calls.all()))?,
    }
    if let Some(path) = &args.trace {
        calls.write(path, Some(&known))?;
    }
    Ok(Exit::Fine)
}

/// The calls of kernels of the fastest of some calls.
fn fastest(prepared: &mut Prepared) -> Result<Calls, Failure> {
    let mut fastest: Option<(Duration, Calls)> = None;
    for _ in 0..WATCHED {
        let calls = Calls::new();
        prepared.module.watch(Box::new(calls.clone()));
        prepared.call_only()?;
        let time = calls.all().iter().map(|call| call.duration).sum();
        if fastest.as_ref().is_none_or(|(least, _)| time < *least) {
            fastest = Some((time, calls));
        }
    }
    Ok(fastest.map(|(_, calls)| calls).unwrap_or_else(Calls::new))
}

/// To a thousandth, and what takes some microseconds to the nanosecond.
fn milliseconds(time: f64) -> String {
    if time < 0.1 { format!("{time:.6}") } else { format!("{time:.3}") }
}

fn stopped(stop: &Stop, prepared: &Prepared, terminal: &mut Terminal) -> Outcome {
    let (finding, exit) = crate::report::finding_of_stop(stop, &prepared.source);
    crate::report::show(terminal, &prepared.source, &[finding]);
    Ok(exit)
}
