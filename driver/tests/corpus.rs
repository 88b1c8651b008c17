//! Every expectation of the corpus on the route text → P2.3 → program → bytes of a module file → machine:
//! with kernels that the interpreter runs, with kernels that the C compiler made, and with such as `relax build --fast` makes.

#[path = "route/near.rs"]
mod near;
mod route;

use libtest_mimic::{Arguments, Failed, Trial};
use relax_corpus::directive::{Call, Kind, read};
use relax_corpus::files;
use relax_corpus::requirement;
use relax_corpus::sample::Sample;
use relax_program::compare::compare;
use relax_program::frontend::{Program, RunOptions, run};
use relax_program::well_formed_part::well_formed_part;
use relax_runtime::program::Numerics;
use relax_semantics::stop::Stop;
use relax_semantics::value::Value;
use relax_syntax::ir::Module;
use relax_syntax::parse::read_source;
use route::compilers::{LEVELS, others};
use route::expectation::arguments;
use route::{Device, held, load, perform};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Deep recursion in the front end is limited by its own limits, not by the thread's.
const STACK: usize = 256 << 20;

/// Functions whose squares are beyond f32, so that their norms are infinite where sums are formed in f32.
// The last one cancels in f64: sums of f64 are not compensated there, and their bound is that of the greatest terms.
const BEYOND_F32: [&str; 3] =
    ["layer_norm: special", "rms_norm: special", "collapse_sum_to: cancels"];

/// Of so many files one is run with code of the C compiler.
const COMPILED: usize = 2;

/// Of so many files one is run with sums in f32.
const FAST: usize = 3;

/// Of so many files one is run with code of another compiler or for another processor.
const OTHER: usize = 12;

/// How many expectations were held on each device.
static HELD: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

/// Functions with a trap whose words or notes are not those of the interpreter: most name variables that passes made, or miss
/// those that passes removed.
const OTHER_WORDS: &str = include_str!("other_words.txt");

static OTHERS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn main() {
    let arguments = Arguments::from_args();
    let is_whole = Device::Cpu.is_here()
        && (arguments.filter.is_none() || arguments.filter.as_deref() == Some("Cpu/"));
    let compiled = Sample::of("programs by the C compiler", COMPILED);
    let is_whole = is_whole && arguments.skip.is_empty() && compiled.is_whole();
    let files = files::programs();
    let mut devices = vec![(Device::Reference, files.clone())];
    if Device::Cpu.is_here() {
        let fast = Sample::of("programs with sums in f32", FAST).take_files(&files);
        let exact = compiled.take_files(&files);
        devices.extend([
            (Device::Fast, fast.cloned().collect()),
            (Device::Cpu, exact.cloned().collect()),
        ]);
        for at in 0..others().len() {
            for sums in [Numerics::Exact, Numerics::Reassociated] {
                devices.push((Device::Other(at, sums), of_others(at, sums, &files)));
            }
        }
    } else {
        requirement::skip("RELAX_REQUIRE_CC", "no file is run on the cpu without a C compiler");
    }
    let trials = devices.into_iter().flat_map(|(device, files)| {
        files.into_iter().map(move |path| {
            let name = format!("{}/{}", name_of(device), files::name(&path));
            Trial::test(name, move || on_stack(path, device))
        })
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    for (device, held) in &*HELD.lock().unwrap_or_else(PoisonError::into_inner) {
        eprintln!("{device}: {held} expectations held on the machine");
    }
    record(is_whole && !conclusion.has_failed());
    conclusion.exit();
}

/// A sample for one compiler and processor; with `RELAX_WHOLE=1` each compiler takes all files, at the levels of processors in turn.
fn of_others(at: usize, sums: Numerics, files: &[PathBuf]) -> Vec<PathBuf> {
    let sample = Sample::of(&format!("programs by other compilers, {sums:?}"), OTHER);
    let turn = if sample.is_whole() { LEVELS.len() } else { 1 };
    let some = files.iter().skip(at % turn).step_by(turn);
    sample.take(some.cloned()).collect()
}

fn name_of(device: Device) -> String {
    match device {
        Device::Other(at, sums) => format!("{}, {sums:?}", others()[at].0),
        _ => format!("{device:?}"),
    }
}

fn on_stack(path: PathBuf, device: Device) -> Result<(), Failed> {
    let thread =
        std::thread::Builder::new().stack_size(STACK).spawn(move || hold(&path, device))?;
    thread.join().map_err(|_| Failed::from("the run panicked: see above"))?
}

fn hold(path: &Path, device: Device) -> Result<(), Failed> {
    let Ok(source) = read_source("corpus", &std::fs::read(path)?) else { return Ok(()) };
    let expectations = read(&source.text);
    let directives = expectations.directives.iter().filter_map(|directive| match &directive.kind {
        Kind::Run { call, .. } | Kind::Trap { call, .. } => Some((directive, call)),
        Kind::Race(_) | Kind::Check | Kind::Structure { .. } | Kind::Params => None,
    });
    let directives: Vec<_> = directives.collect();
    if directives.is_empty() {
        return Ok(());
    }
    let weights = expectations.directives.iter().any(|d| matches!(d.kind, Kind::Params));
    let program = Program::load(source.clone());
    let part = well_formed_part(&program);
    let compare = if device.is_exact() { compare } else { near::near };
    let (mut module, mut held_here, mut failures) = (None, 0, Vec::new());
    for (directive, call) in directives {
        // A function that is wrong is not there to be called; weights are not here.
        if weights || part.function(&call.function).is_none() {
            continue;
        }
        let name = format!("{}: {}", stem(path), call.function);
        if !device.is_exact() && BEYOND_F32.contains(&&*name) {
            continue;
        }
        if module.is_none() {
            module = Some(load(&part, &source, device)?);
        }
        let Some(module) = &module else { continue };
        let result = perform(module, &program.module, call)?;
        if let (Kind::Trap { .. }, Err(stop), true) =
            (&directive.kind, &result, device == Device::Cpu)
        {
            let arguments = arguments(&program.module, call)?;
            failures.extend(other_words(&part, call, (arguments, stop), &files::name(path)));
        }
        match held(&directive.kind, result, &source.text, compare) {
            Ok(()) => held_here += 1,
            Err(why) => failures.push(format!("{}:{}: {why}", path.display(), directive.line)),
        }
    }
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    *held.entry(name_of(device)).or_default() += held_here;
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

/// The words and notes of a trap, where they are others than the interpreter's and not on record.
fn other_words(
    part: &Module,
    call: &Call,
    (arguments, found): (Vec<Value>, &Stop),
    file: &str,
) -> Option<String> {
    let wanted = run(part, &call.function, arguments, &RunOptions::default()).result;
    let (Err(Stop::Trap(wanted)), Stop::Trap(found)) = (wanted, found) else { return None };
    if (&wanted.message, &wanted.notes) == (&found.message, &found.notes) {
        return None;
    }
    let line = format!("{file} {} {}", call.function, wanted.id);
    let is_known = OTHER_WORDS.lines().any(|known| known == line);
    OTHERS.lock().unwrap_or_else(PoisonError::into_inner).insert(line.clone());
    (!is_known && !blesses()).then(|| {
        format!(
            "{line}: expected\n  {}\n  {:?}\nfound\n  {}\n  {:?}",
            wanted.message, wanted.notes, found.message, found.notes
        )
    })
}

fn blesses() -> bool {
    std::env::var_os("RELAX_BLESS").is_some()
}

/// Writes the record of traps whose words differ, of a run of all programs; it may only shrink otherwise.
fn record(is_whole: bool) {
    let others = OTHERS.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_whole {
        return;
    }
    if blesses() {
        let text: String = others.iter().map(|line| format!("{line}\n")).collect();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/other_words.txt");
        std::fs::write(path, text).expect("the record is written");
        return;
    }
    let stale: Vec<&str> = OTHER_WORDS.lines().filter(|line| !others.contains(*line)).collect();
    assert!(stale.is_empty(), "no longer other words (RELAX_BLESS=1):\n{}", stale.join("\n"));
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}
