//! `relax opt`: passes on a program, and the program as text.

mod alterations;
mod certify;
mod external;
pub(super) mod memory;
mod names;
mod resources;
mod watch;

use super::constants::{of_passes, open};
use super::loading::{Given, load, refuse_params};
use crate::args::{Language, OptArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::files::{FileKind, write_whole};
use crate::report::show_diagnostics;
use crate::terminal::Terminal;
use certify::name;
use names::{list, passes};
use relax_driver::{Target, pipeline};
use relax_emit::cuda::CudaSource;
use relax_emit::{Options, print_c, print_cuda};
use relax_lower::gpu::{Choices, schedule_module};
use relax_lower::maybe_uninit::maybe_uninitialized;
use relax_lower::passes::parallelize_loops::parallelized;
use relax_program::frontend::{Program, print};
use relax_rewrite::pass::{Device, Exactness, Settings};
use relax_rewrite::passes::alter_op_impl;
use relax_rewrite::pipeline::{Failed, Route, leads_back, run};
use relax_runtime::program::Numerics;
use relax_semantics::check::Phase;
use relax_symbolic::Prover;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use relax_tir::analysis::definite_init::summary_of_parameters;
use relax_webgpu::{Formats, print_wgsl};
use serde_json::json;
use std::sync::Arc;
use watch::{Reporter, Show};

pub(super) fn opt(args: &OptArgs, terminal: &mut Terminal) -> Outcome {
    if args.list_passes {
        return list(terminal);
    }
    let named = named(args)?;
    let show = show(args)?;
    let path = args.file.as_ref().expect("invariant: required without --list-passes");
    let Some(given) = load(path, &args.model, terminal)? else { return Ok(Exit::Wrong) };
    if given.kind == FileKind::Model {
        refuse_params(args.params.as_deref())?;
    }
    let Given { program, externals, .. } = given;
    if let Some(back) = args.to.and_then(|to| leads_back(&program.module, to.into())) {
        return Ok(show_diagnostics(terminal, &program.source, &[back]));
    }
    let parts = named.unwrap_or_else(|| {
        let from = Phase::of_module(&program.module).unwrap_or(Phase::P0);
        stages(args, from).into_iter().map(Part::Own).collect()
    });
    let weights = open(args.params.as_deref())?;
    let mut params = of_passes(&program.module, weights.as_ref())?;
    params.extend(externals);
    let params = Arc::new(params);
    let settings = Settings {
        device: args.target,
        numerics: args.numerics.chosen(),
        params: Arc::clone(&params),
        ..Settings::default()
    };
    let mut reporter = Reporter::new(args, show, &program.module, &params, terminal);
    reporter.begin()?;
    let result = run_parts(&parts, &program.module, &settings, &mut reporter);
    if let Some(failure) = reporter.failure.take() {
        return Err(failure);
    }
    reporter.end();
    let (stages, tested) = (reporter.stages.take(), reporter.tested());
    match result {
        Ok(module) => {
            if let Some(stages) = stages {
                return certify::certify(stages, &module, tested, args, terminal);
            }
            if let Some(format) = args.memory_report {
                if let Some(path) = &args.output {
                    write_whole(path, print(&module).as_bytes())?;
                }
                let text = memory::report(&module, format, args, terminal.format)?;
                terminal.result(&text)?;
                return Ok(Exit::Fine);
            }
            show_text(&module, &program.source, args, terminal)
        }
        Err(failed) => failed_run(&failed, &program, terminal),
    }
}

/// The program, or the kernel source that is asked for.
fn show_text(module: &Module, source: &Source, args: &OptArgs, terminal: &mut Terminal) -> Outcome {
    let sums = args.numerics.chosen();
    if let Some(architecture) = &args.resources {
        if args.emit != Some(Language::Cuda) {
            return Err(Failure::usage("--resources is of kernels for CUDA: --emit cuda"));
        }
        let source = cuda_source(module, sums, source, terminal);
        if let Some(path) = &args.output {
            write_whole(path, source.text.as_bytes())?;
        }
        terminal.result(&resources::table(&source, architecture, terminal.format)?)?;
        return Ok(Exit::Fine);
    }
    let text = match args.emit {
        Some(Language::C) => c_text(module, sums, terminal),
        Some(Language::Cuda) => cuda_source(module, sums, source, terminal).text,
        Some(Language::Wgsl) => wgsl_text(module, sums, source, terminal),
        None => print(module),
    };
    match (&args.output, args.emit) {
        (Some(path), _) => write_whole(path, text.as_bytes())?,
        (None, Some(language)) => terminal.tell(
            &text,
            || json!({ "type": "source", "language": name(&language), "text": text }),
        )?,
        (None, None) => terminal.program(&text)?,
    }
    Ok(Exit::Fine)
}

/// The tensor programs as C, with loops on threads; what became of their checks is told with `-v`.
fn c_text(module: &Module, sums: Numerics, terminal: &mut Terminal) -> String {
    let (module, _) = parallelized(module, sums, &mut Prover::new());
    let watched = maybe_uninitialized(&module, summary_of_parameters);
    let options = Options { watched: Some(&watched), ..sums.into() };
    let source = print_c(&module, &mut Prover::new(), options);
    for kernel in &source.kernels {
        let maps = maps_of(kernel.watched.is_some());
        let innermost = match kernel.checks.left() {
            0 => String::new(),
            _ => format!(", {}", kernel.innermost),
        };
        terminal.detail(&format!("{}: {}{innermost}{maps}", kernel.name, kernel.checks));
    }
    for (name, why) in &source.left_out {
        terminal.note(&format!("`{name}` is left out: {why}"));
    }
    source.text
}

fn maps_of(is_watched: bool) -> &'static str {
    if is_watched { ", also with maps of its tensors" } else { "" }
}

/// The tensor programs as CUDA C++, with loops bound to blocks and threads.
fn cuda_source(
    module: &Module,
    numerics: Numerics,
    file: &Source,
    terminal: &mut Terminal,
) -> CudaSource {
    let (scheduled, _) =
        schedule_module(module, &mut Prover::new(), &choices(Device::Cuda, numerics));
    let watched = maybe_uninitialized(module, summary_of_parameters);
    let source = print_cuda(&scheduled, &mut Prover::new(), Some(file), &watched, numerics);
    for kernel in &source.kernels {
        let launches = kernel.launches.len();
        let maps = maps_of(kernel.watched.is_some());
        terminal.detail(&format!("{}: {}, {launches} launches{maps}", kernel.name, kernel.checks));
        if let Some(why) = &kernel.alone {
            terminal.note(&format!("`{}` is run by one thread: {why}", kernel.name));
        }
    }
    for (name, why) in &source.left_out {
        terminal.note(&format!("`{name}` is left out: {why}"));
    }
    source
}

/// The tensor programs as WGSL, with loops bound to blocks and threads, one text after the other, for devices without f64 and f16.
fn wgsl_text(
    module: &Module,
    numerics: Numerics,
    source: &Source,
    terminal: &mut Terminal,
) -> String {
    let (scheduled, _) =
        schedule_module(module, &mut Prover::new(), &choices(Device::Wgpu, numerics));
    let printed = print_wgsl(&scheduled, &mut Prover::new(), Formats::default(), Some(source));
    for kernel in &printed.kernels {
        let (name, launches) = (&kernel.program.name, kernel.stages.len());
        let stops = if kernel.can_stop { "may stop" } else { "never stops" };
        terminal.detail(&format!("{name}: {stops}, {launches} launches"));
    }
    for (name, why) in &printed.left_out {
        terminal.note(&format!("`{name}` is left out: {why}"));
    }
    printed.kernels.iter().map(|kernel| kernel.text.as_str()).collect::<Vec<_>>().join("\n")
}

/// Of the schedule for a device.
fn choices(device: Device, numerics: Numerics) -> Choices<'static> {
    let passes = pipeline(&Target::of(device, numerics)).schedule.concat();
    let exactness = passes.iter().fold(Exactness::Exact, |all, pass| all.then(pass.exactness));
    Choices::of(device, exactness)
}

/// A part of what is run: passes of relax, or a program.
enum Part {
    Own(Route),
    /// Calls of implementations that the module has, once they are compared.
    Alteration,
    Program(String),
}

/// The passes that the command line names.
fn named(args: &OptArgs) -> Result<Option<Vec<Part>>, Failure> {
    let Some(names) = &args.passes else { return Ok(None) };
    let mut parts = vec![Part::Own(Route::Passes(Vec::new()))];
    for name in names.iter().filter(|name| !name.is_empty()) {
        if external::is_program(name) {
            parts.push(Part::Program(name.clone()));
            continue;
        }
        let found = passes(name)?;
        if found.iter().any(|pass| pass.name == alter_op_impl::PASS.name) {
            parts.push(Part::Alteration);
            continue;
        }
        match parts.last_mut() {
            Some(Part::Own(Route::Passes(passes))) => passes.extend(found),
            _ => parts.push(Part::Own(Route::Passes(found))),
        }
    }
    Ok(Some(parts))
}

/// Runs passes and programs in their order. What a program makes of a module may fail otherwise than a pass: the reporter
/// keeps that.
fn run_parts(
    parts: &[Part],
    input: &Module,
    settings: &Settings,
    reporter: &mut Reporter,
) -> Result<Module, Failed> {
    let mut module = input.clone();
    for part in parts {
        module = match part {
            Part::Own(route) => run(&module, route, settings, &mut Prover::new(), reporter)?,
            Part::Alteration => {
                let alterations = reporter.alterations(&module, settings.numerics)?;
                let settings = Settings { alterations, ..settings.clone() };
                let route = Route::Passes(vec![&alter_op_impl::PASS]);
                run(&module, &route, &settings, &mut Prover::new(), reporter)?
            }
            Part::Program(path) => reporter.program(path, &module)?,
        };
    }
    Ok(module)
}

/// The way to the phase that the command line names.
fn stages(args: &OptArgs, from: Phase) -> Vec<Route> {
    let is_printed = match args.emit {
        None => true,
        Some(Language::C) => args.target == Device::Cpu,
        Some(Language::Cuda) => args.target == Device::Cuda,
        Some(Language::Wgsl) => args.target == Device::Wgpu,
    };
    let phase = args.to.map_or(Phase::P0, Into::into);
    if !is_printed {
        // The source is for another device, whose schedule follows.
        return vec![pipeline(&Target::of(args.target, Numerics::Exact)).stages.to(phase)];
    }
    pipeline(&Target::of(args.target, args.numerics.chosen())).to(phase, from)
}

fn show(args: &OptArgs) -> Result<Show, Failure> {
    Ok(match args.print_after.as_deref() {
        None => Show::Nothing,
        Some("all") => Show::All,
        Some(name) => Show::After(passes(name)?.last().map_or("", |pass| pass.name)),
    })
}

pub(super) fn failed_run(failed: &Failed, program: &Program, terminal: &mut Terminal) -> Outcome {
    match failed {
        Failed::Refused { pass, diagnostics } => {
            terminal.note(&format!("the pass `{pass}` cannot be run on this program"));
            Ok(show_diagnostics(terminal, &program.source, diagnostics))
        }
        Failed::Broken { pass, diagnostics, module } => {
            let first = diagnostics.first().map_or("", |first| first.message.as_str());
            let text = print(module);
            let message = format!(
                "the pass `{pass}` made a program that is not well-formed, which is a mistake in it: \
                 {first}\n{text}"
            );
            Err(Failure::Message { exit: Exit::Internal, text: message })
        }
        Failed::Stopped { pass, why } => {
            let text = format!("the pass `{pass}` changes what the program means: {why}");
            Err(Failure::Message { exit: Exit::Internal, text })
        }
    }
}
