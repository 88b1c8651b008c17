//! Expectations of the corpus on the first device of WebGPU that is there (`./setup.sh webgpu` fetches a software one): text →
//! P2.3 with bound threads → program → machine, whose kernels the device runs. What is not held stands in
//! `not_held.txt` with its reason, which `RELAX_BLESS=1 RELAX_WHOLE=1` rewrites: look at what is new there. With `RELAX_DOUBLES=narrowed` the
//! device is used as one without f64, and the list is `not_held_narrowed.txt`. Without a device nothing is held, and with
//! `RELAX_REQUIRE_WGPU=1` that is a failure.

#[path = "../../../driver/tests/route/expectation.rs"]
mod expectation;
#[path = "../../../driver/tests/route/near.rs"]
mod near;
#[path = "route/load.rs"]
mod route;

use expectation::{held, perform};
use libtest_mimic::{Arguments, Failed, Trial};
use relax_corpus::directive::{Kind, read};
use relax_corpus::files;
use relax_corpus::sample::Sample;
use relax_program::compare::compare;
use relax_program::frontend::Program;
use relax_program::well_formed_part::well_formed_part;
use relax_runtime::program::Numerics;
use relax_syntax::parse::read_source;
use relax_webgpu::{Calls, Device, Doubles, Formats, Ran};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Deep recursion in the front end is limited by its own limits, not by the thread's.
const STACK: usize = 256 << 20;

/// What the list of it begins with.
const HEAD: &str = "\
# Expectations of the corpus that kernels on Mesa's software device do not hold, each with why. What has no code is refused with
# exit code 4.
";

/// What is known not to be held.
const KNOWN: &str = include_str!("not_held.txt");

/// The same of a device without f64; what has no code there is counted alone.
const KNOWN_NARROWED: &str = include_str!("not_held_narrowed.txt");

const HEAD_NARROWED: &str = "\
# Further expectations that kernels do not hold on Mesa's software device as one without f64 and f16 (RELAX_DOUBLES=narrowed). What a
# program computes in f64 for itself is f32 there, so floats are held as near as sums in f32 come; what is here is further off. What
# WebGPU leaves open is not hidden by a wider type: numbers below the normal ones may be 0, and a 0 may lose its sign. Kernels with
# tensors of f64 have no code, and are not here.
";

/// Files that are also held with sums in any order: the threads of a block, or of a warp, share a row there.
const SHARED_ROWS: [&str; 11] = [
    "models/attention",
    "models/layer_norm_f16",
    "suite/ops/group_norm",
    "suite/ops/layer_norm",
    "suite/ops/log_softmax",
    "suite/ops/mean",
    "suite/ops/rms_norm",
    "suite/ops/softmax",
    "suite/ops/sum",
    "suite/ops/variance",
    "suite/passes/schedule_gpu",
];

#[derive(Default)]
struct Counts {
    held: usize,
    /// Lines of the list: the expectation, and why it is not held.
    not_held: BTreeMap<String, String>,
}

static COUNTS: Mutex<Counts> = Mutex::new(Counts { held: 0, not_held: BTreeMap::new() });

fn main() {
    let arguments = Arguments::from_args();
    // `RELAX_DOUBLES=narrowed` holds what a device without f64 and f16 computes.
    let narrowed = std::env::var("RELAX_DOUBLES").is_ok_and(|value| value == "narrowed");
    let formats = if narrowed { Formats::default() } else { Formats::NATIVE };
    let device = match Device::open(formats) {
        Ok(device) => Arc::new(device),
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            let required = std::env::var_os("RELAX_REQUIRE_WGPU").is_some_and(|value| value == "1");
            std::process::exit(if required { 101 } else { 0 });
        }
    };
    eprintln!("on {}, {:?}", device.name(), device.formats());
    let calls = Calls::default();
    // A software device is slow.
    let sample = Sample::of("device_corpus", 2);
    let is_whole = arguments.filter.is_none() && arguments.skip.is_empty() && sample.is_whole();
    let trials = sample.take(files::programs()).flat_map(|path| {
        let name = files::name(&path);
        let freely = SHARED_ROWS.contains(&name.as_str()).then_some(Numerics::Reassociated);
        let all = [Some(Numerics::Exact), freely].into_iter().flatten();
        let all = all.map(|sums| {
            let (device, calls, path) = (Arc::clone(&device), calls.clone(), path.clone());
            let name =
                format!("{}{name}", if sums == Numerics::Exact { "" } else { "any order: " });
            Trial::test(name, move || on_stack(path, (device, sums), calls))
        });
        all.collect::<Vec<_>>()
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    for ran in [Ran::Device, Ran::Watched, Ran::NotLaunched, Ran::Stopped] {
        eprintln!("{ran:?}: {} calls of kernels", calls.count(ran));
    }
    if arguments.list {
        conclusion.exit();
    }
    let is_known = report(narrowed);
    if is_whole && std::env::var_os("RELAX_BLESS").is_some() {
        bless(narrowed);
    } else if !is_known {
        std::process::exit(101);
    }
    conclusion.exit();
}

/// Prints what was held, and what was not and is not known; whether there is none of it. Without f64 much has no code.
fn report(narrowed: bool) -> bool {
    let counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    eprintln!("{} expectations held on the device, {} not", counts.held, counts.not_held.len());
    let known = expectations(if narrowed { &[KNOWN, KNOWN_NARROWED] } else { &[KNOWN] });
    let mut is_known = true;
    for (expectation, why) in fresh(&counts, &known, narrowed) {
        eprintln!("  not in not_held.txt: {expectation} -- {why}");
        is_known = false;
    }
    is_known
}

/// Those of lists.
fn expectations(lists: &[&'static str]) -> BTreeSet<&'static str> {
    let lines = lists.iter().flat_map(|list| list.lines());
    lines.filter_map(|line| line.split_once(" -- ")).map(|(e, _)| e).collect()
}

/// What is not held and not known, with the reasons.
fn fresh<'c>(
    counts: &'c Counts,
    known: &BTreeSet<&str>,
    narrowed: bool,
) -> Vec<(&'c String, &'c String)> {
    let has_no_code = |why: &str| narrowed && why.starts_with(NO_CODE);
    let is_fresh = |(expectation, why): &(&String, &String)| {
        !known.contains(expectation.as_str()) && !has_no_code(why)
    };
    counts.not_held.iter().filter(is_fresh).collect()
}

fn bless(narrowed: bool) {
    let counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    let (head, name) = match narrowed {
        true => (HEAD_NARROWED, "tests/not_held_narrowed.txt"),
        false => (HEAD, "tests/not_held.txt"),
    };
    let known = expectations(if narrowed { &[KNOWN] } else { &[] });
    let lines =
        fresh(&counts, &known, narrowed).into_iter().map(|(e, why)| format!("{e} -- {why}\n"));
    let text = head.to_owned() + &lines.collect::<String>();
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::write(place, text).expect("the file can be written");
}

fn on_stack(
    path: PathBuf,
    (device, sums): (Arc<Device>, Numerics),
    calls: Calls,
) -> Result<(), Failed> {
    let run = move || hold(&path, (&device, sums), &calls);
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(run)?;
    thread.join().map_err(|_| Failed::from("the run panicked: see above"))?
}

fn hold(
    path: &Path,
    (device, sums): (&Arc<Device>, Numerics),
    calls: &Calls,
) -> Result<(), Failed> {
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
    let is_exact = device.formats().doubles == Doubles::Native && sums == Numerics::Exact;
    let loaded = route::load(&part, (&source, &BTreeMap::new()), (device, sums), calls);
    for (directive, call) in directives {
        if part.function(&call.function).is_none() {
            continue;
        }
        let outcome = match &loaded {
            Err(why) => Err(why.clone()),
            Ok(module) => {
                let result = perform(module, &program.module, call)?;
                let compare = if is_exact { compare } else { near::near };
                held(&directive.kind, result, &source.text, compare)
            }
        };
        match sums {
            Numerics::Exact => note(path, &call.text, outcome),
            Numerics::Reassociated => outcome.map_err(|why| format!("{}: {why}", call.text))?,
        }
    }
    Ok(())
}

/// How the reason begins of what is not printed.
const NO_CODE: &str = "a kernel has no code";

/// The reason without what differs from one expectation to the next.
fn shown(why: &str) -> String {
    let why = match why.split_once("has no code for this device") {
        Some((_, why)) => format!("{NO_CODE}{why}"),
        None => why.to_owned(),
    };
    why.lines().next().unwrap_or_default().to_owned()
}

fn note(path: &Path, call: &str, outcome: Result<(), String>) {
    let mut counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    match outcome {
        Ok(()) => counts.held += 1,
        Err(why) => {
            let expectation = format!("{}: {call}", files::name(path));
            counts.not_held.insert(expectation, shown(&why));
        }
    }
}
