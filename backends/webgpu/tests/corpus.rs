//! Every expectation of the corpus on the first device of WebGPU that is there (`./webgpu.sh` fetches a software one): text →
//! P2.3 with bound threads → program → machine, whose kernels the device runs.
//! `cargo test -p relax-webgpu --features wgpu --test corpus`

use libtest_mimic::{Arguments, Failed, Trial};
use relax_corpus::compare::compare;
use relax_corpus::directive::{Call, Kind, read};
use relax_corpus::files;
use relax_corpus::pipeline::{Program, parameters};
use relax_corpus::spec::Context;
use relax_corpus::well_formed_part::well_formed_part;
use relax_lower::program::{Around, kernels, lower_program};
use relax_reference::{Printed, register, stop_to_semantics, to_machine, to_semantics};
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::Failed as NotLowered;
use relax_runtime as machine;
use relax_semantics::ops::Limits;
use relax_semantics::stop::Stop;
use relax_semantics::value::Value;
use relax_syntax::ir::Module;
use relax_syntax::parse::{parse_expression, read_source};
use relax_syntax::span::Source;
use relax_webgpu::{Calls, Device, Doubles, Ran, WgpuKernels, lower_for_webgpu};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Deep recursion in the front end is limited by its own limits, not by the thread's.
const STACK: usize = 256 << 20;

/// Expectations that are not held, with why in the report: it may only fall.
const SKIPPED: usize = 72;

#[derive(Default)]
struct Counts {
    held: usize,
    skipped: BTreeMap<String, Vec<String>>,
}

static COUNTS: Mutex<Counts> = Mutex::new(Counts { held: 0, skipped: BTreeMap::new() });

fn main() {
    let arguments = Arguments::from_args();
    // `RELAX_DOUBLES=narrowed` holds the f32 that a device without f64 computes.
    let narrowed = std::env::var("RELAX_DOUBLES").is_ok_and(|value| value == "narrowed");
    let doubles = if narrowed { Doubles::Narrowed } else { Doubles::Native };
    let device = match Device::open(doubles) {
        Ok(device) => Arc::new(device),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(4);
        }
    };
    eprintln!("on {}, f64 is {:?}", device.name(), device.doubles());
    let calls = Calls::default();
    let trials = files::programs().into_iter().map(|path| {
        let (device, calls) = (Arc::clone(&device), calls.clone());
        Trial::test(files::name(&path), move || on_stack(path, device, calls))
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    for ran in [Ran::Device, Ran::NotLaunched, Ran::Stopped] {
        eprintln!("{ran:?}: {} calls of kernels", calls.count(ran));
    }
    let is_whole = arguments.filter.is_none() && arguments.skip.is_empty() && !arguments.list;
    if report() > SKIPPED && is_whole {
        std::process::exit(101);
    }
    conclusion.exit();
}

/// Prints what was held; how much was not.
fn report() -> usize {
    let counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    let skipped: usize = counts.skipped.values().map(Vec::len).sum();
    eprintln!("{} expectations held on the device, {skipped} not", counts.held);
    for (why, places) in &counts.skipped {
        eprintln!("  {}: {why}: {}", places.len(), places.join(" "));
    }
    skipped
}

fn on_stack(path: PathBuf, device: Arc<Device>, calls: Calls) -> Result<(), Failed> {
    let run = move || hold(&path, &device, &calls);
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(run)?;
    thread.join().map_err(|_| Failed::from("the run panicked: see above"))?
}

fn hold(path: &Path, device: &Arc<Device>, calls: &Calls) -> Result<(), Failed> {
    let Ok(source) = read_source("corpus", &std::fs::read(path)?) else { return Ok(()) };
    let expectations = read(&source.text);
    let directives = expectations.directives.iter().filter_map(|directive| match &directive.kind {
        Kind::Run { call, .. } | Kind::Trap { call, .. } => Some((directive, call)),
        Kind::Race(_) | Kind::Check | Kind::Structure { .. } | Kind::Params => None,
    });
    let directives: Vec<_> = directives.collect();
    let weights = expectations.directives.iter().any(|d| matches!(d.kind, Kind::Params));
    if directives.is_empty() || weights {
        return Ok(());
    }
    let program = Program::load(source.clone());
    let part = well_formed_part(&program);
    let loaded = load(&part, &source, device, calls);
    let mut failures = Vec::new();
    for (directive, call) in directives {
        if part.function(&call.function).is_none() {
            continue;
        }
        let outcome = match &loaded {
            Err(why) => Err(why.clone()),
            Ok(module) => {
                let result = perform(module, &program.module, call)?;
                match held(&directive.kind, result, &source.text) {
                    Err(why) if why.contains("has no code for this device") => {
                        let why = why.split_once("has no code").map_or("", |(_, why)| why);
                        Err(format!("a kernel has no code{why}"))
                    }
                    Err(why)
                        if why.contains("expected 0.0, found -0.0")
                            || why.contains("expected -0.0, found 0.0") =>
                    {
                        Err("a device may ignore the sign of a zero".to_owned())
                    }
                    Err(why) if why.contains("expected inf, found nan") => {
                        Err("a device may take it that nothing is infinite".to_owned())
                    }
                    Err(why) if is_of_elements(&directive.kind) => {
                        Err(format!("what nothing wrote is watched a tensor at a time ({why})"))
                    }
                    Err(why) => {
                        failures.push(format!("{}:{}: {why}", path.display(), directive.line));
                        continue;
                    }
                    Ok(()) => Ok(()),
                }
            }
        };
        note(path, directive.line, outcome);
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

fn note(path: &Path, line: usize, outcome: Result<(), String>) {
    let mut counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    match outcome {
        Ok(()) => counts.held += 1,
        Err(why) => {
            let name = path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
            counts.skipped.entry(why).or_default().push(format!("{name}:{line}"));
        }
    }
}

fn load(
    part: &Module,
    source: &Source,
    device: &Arc<Device>,
    calls: &Calls,
) -> Result<machine::Module, String> {
    let lowered = lower_for_webgpu(part, &Settings::default());
    let lowered = lowered.map_err(|failed| match failed {
        NotLowered::Refused { pass, .. } => format!("the pass `{pass}` refuses it"),
        NotLowered::Broken { pass, .. } => format!("the pass `{pass}` breaks it"),
        NotLowered::Stopped { pass, why } => format!("the pass `{pass}`: {why}"),
    })?;
    let externals = BTreeMap::new();
    let around = Around { externals: &externals, source, signatures: part };
    let limits = Limits::default();
    let image = lower_program(&lowered, &around).map_err(|unsupported| unsupported.to_string())?;
    let programs = kernels(&lowered);
    let device = Arc::clone(device);
    let kernels = WgpuKernels::new(device, &lowered, &programs, (limits.clone(), Some(source)))?;
    let kernels = kernels.counted(calls.clone());
    let mut module =
        machine::Module::new(image, Box::new(kernels)).map_err(|error| error.to_string())?;
    register(&mut module, &limits, &Printed::default())?;
    Ok(module)
}

fn perform(
    module: &machine::Module,
    text: &Module,
    call: &Call,
) -> Result<Result<Value, Stop>, String> {
    let parameters = parameters(text, &call.function).ok_or("no such function")?;
    let mut arguments = Vec::new();
    for (index, spec) in call.arguments.iter().enumerate() {
        let parameter = parameters.get(index);
        let name = parameter.map_or("extra", |(name, _)| name.as_str());
        let target = parameter.map(|(_, annotation)| annotation);
        let value = Context::default().value(name, spec, target).map_err(|why| why.to_string())?;
        arguments.push(to_machine(&value)?);
    }
    let function = module.function(&call.function);
    let function = function.ok_or_else(|| format!("`{}` is not offered", call.function))?;
    let mut named =
        |value: &machine::Value| module.name_of(value).map(|name| Value::Global(name.into()));
    match function.call(&arguments) {
        Ok(value) => Ok(Ok(to_semantics(&value, &mut named)?)),
        Err(stop) => Ok(Err(stop_to_semantics(stop))),
    }
}

/// Whether elements stop the program that nothing wrote.
fn is_of_elements(kind: &Kind) -> bool {
    let of_elements = ["tir/uninitialized", "undefined/read"];
    matches!(kind, Kind::Trap { id, .. } if of_elements.contains(&id.as_str()))
}

fn held(kind: &Kind, result: Result<Value, Stop>, text: &str) -> Result<(), String> {
    match (kind, result) {
        (Kind::Run { relation, want, .. }, Ok(got)) => {
            let expr = parse_expression(&text[want.clone()], 0).map_err(|d| d.message)?;
            let want = Context::default()
                .value("expected", &expr, Some(&got.annotation()))
                .map_err(|why| format!("the expected value: {why}"))?;
            compare(*relation, &want, &got)
        }
        (Kind::Run { call, .. }, Err(stop)) => Err(format!("{} stops: {stop}", call.text)),
        (Kind::Trap { id, .. }, Err(Stop::Trap(trap))) if trap.id == *id => Ok(()),
        (Kind::Trap { id, call }, Err(stop)) => {
            Err(format!("{}: expected the trap {id}, found {stop}", call.text))
        }
        (Kind::Trap { id, call }, Ok(_)) => {
            Err(format!("{}: expected the trap {id}, found a value", call.text))
        }
        _ => Ok(()),
    }
}
