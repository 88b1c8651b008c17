//! Every expectation of the corpus on the route text → P2.3 → program → bytes of a module file → machine.

use libtest_mimic::{Arguments, Failed, Trial};
use relax_corpus::compare::compare;
use relax_corpus::directive::{Call, Kind, read};
use relax_corpus::pipeline::{Program, parameters};
use relax_corpus::spec::Context;
use relax_corpus::well_formed_part::well_formed_part;
use relax_lower::pipeline::PIPELINE;
use relax_lower::program::{Around, kernels, lower_program};
use relax_reference::{
    Printed, ReferenceKernels, register, stop_to_semantics, to_machine, to_semantics,
};
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::{Unwatched, run};
use relax_runtime as machine;
use relax_runtime::file::Image;
use relax_semantics::check::Phase;
use relax_semantics::ops::Limits;
use relax_semantics::stop::Stop;
use relax_semantics::value::Value;
use relax_symbolic::Prover;
use relax_syntax::ir::Module;
use relax_syntax::parse::parse_expression;
use relax_syntax::span::Source;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Deep recursion in the front end is limited by its own limits, not by the thread's.
const STACK: usize = 256 << 20;

/// Expectations that are not held here, with why: it may only fall.
const SKIPPED: usize = 2;

#[derive(Default)]
struct Counts {
    held: usize,
    skipped: BTreeMap<String, Vec<String>>,
}

fn main() {
    let arguments = Arguments::from_args();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let mut files = Vec::new();
    collect(&corpus, &mut files);
    files.sort();
    let counts: &'static Mutex<Counts> = Box::leak(Box::default());
    let trial = |path: PathBuf| {
        let name = path.strip_prefix(&corpus).unwrap_or(&path).with_extension("");
        Trial::test(name.display().to_string(), move || {
            let thread =
                std::thread::Builder::new().stack_size(STACK).spawn(move || hold(&path, counts))?;
            thread.join().map_err(|_| Failed::from("the run panicked: see above"))?
        })
    };
    let trials = files.into_iter().map(trial).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    let is_whole = arguments.filter.is_none() && arguments.skip.is_empty() && !arguments.list;
    let counts =
        counts.lock().map_or_else(|poisoned| poisoned.into_inner().report(), |c| c.report());
    if is_whole && counts > SKIPPED {
        eprintln!("{counts} expectations are not held, it were {SKIPPED}");
        std::process::exit(101);
    }
    conclusion.exit();
}

impl Counts {
    /// Prints what was held; gives how many were not.
    fn report(&self) -> usize {
        let skipped: usize = self.skipped.values().map(Vec::len).sum();
        println!("{} expectations held on the machine, {skipped} not:", self.held);
        for (why, places) in &self.skipped {
            println!("  {}: {why}: {}", places.len(), places.join(" "));
        }
        skipped
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rx") {
            files.push(path);
        }
    }
}

fn hold(path: &Path, counts: &Mutex<Counts>) -> Result<(), Failed> {
    let text = std::fs::read(path)?;
    let Ok(source) = relax_syntax::parse::read_source("corpus", &text) else { return Ok(()) };
    let expectations = read(&source.text);
    let weights = expectations.directives.iter().any(|d| matches!(d.kind, Kind::Params));
    let program = Program::load(source.clone());
    let part = well_formed_part(&program);
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let mut failures = Vec::new();
    let calls = expectations
        .directives
        .iter()
        .any(|d| matches!(d.kind, Kind::Run { .. } | Kind::Trap { .. }));
    if !calls {
        return Ok(());
    }
    let loaded = load(&part, &source);
    for directive in &expectations.directives {
        let call = match &directive.kind {
            Kind::Run { call, .. } | Kind::Trap { call, .. } => call,
            Kind::Race(_) | Kind::Check | Kind::Structure { .. } | Kind::Params => continue,
        };
        let skipped = if weights {
            Some("external weights are not here".to_owned())
        } else if part.function(&call.function).is_none() {
            Some("the function is not well-formed".to_owned())
        } else {
            None
        };
        let outcome = match (skipped, &loaded) {
            (Some(why), _) => Err(why),
            (None, Err(why)) => Err(why.clone()),
            (None, Ok(module)) => {
                let result = perform(module, &program.module, call)?;
                if is_of_elements(&directive.kind) && result.is_ok() {
                    Err("what nothing wrote is watched a tensor at a time".to_owned())
                } else {
                    match held(&directive.kind, result, &source.text) {
                        Ok(()) => Ok(()),
                        Err(why) => {
                            failures.push(format!("{}:{}: {why}", path.display(), directive.line));
                            continue;
                        }
                    }
                }
            }
        };
        let mut counts = counts.lock().map_err(|error| error.to_string())?;
        match outcome {
            Ok(()) => counts.held += 1,
            Err(why) => {
                counts.skipped.entry(why).or_default().push(format!("{name}:{}", directive.line));
            }
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

/// Whether elements stop the program that nothing wrote, of a tensor that something was written to.
fn is_of_elements(kind: &Kind) -> bool {
    matches!(kind, Kind::Trap { id, .. } if ["tir/uninitialized", "undefined/read"].contains(&id.as_str()))
}

fn load(part: &Module, source: &Source) -> Result<machine::Module, String> {
    let recorded = Phase::of_module(part)?;
    let lowered = if recorded == Phase::P23 {
        part.clone()
    } else {
        let (route, settings) = (PIPELINE.to(Phase::P23), Settings::default());
        run(part, &route, &settings, &mut Prover::new(), &mut Unwatched)
            .map_err(|failed| format!("{failed:?}"))?
    };
    let externals = BTreeMap::new();
    let around = Around { externals: &externals, source, signatures: part };
    let image = lower_program(&lowered, &around).map_err(|unsupported| unsupported.to_string())?;
    let bytes = image.to_bytes();
    let read = Image::from_bytes(&bytes).map_err(|error| error.to_string())?;
    if read != image {
        return Err("the file does not read back".to_owned());
    }
    let limits = Limits::default();
    let reference = ReferenceKernels::new(kernels(&lowered), limits.clone())?;
    let mut module =
        machine::Module::new(read, Box::new(reference)).map_err(|error| error.to_string())?;
    register(&mut module, &limits, &Printed::default())?;
    Ok(module)
}

/// Reads the SPECs, as the signature in the text says, and calls.
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
