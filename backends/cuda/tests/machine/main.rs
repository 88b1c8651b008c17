//! Expectations of the corpus on the virtual machine with kernels of CUDA: all of them on a device, where there is one, and
//! those about tensor programs on the processor, which runs the same text. What is copied and recorded is counted there
//! (`copies.rs`).

mod copies;
mod counted;
#[cfg(feature = "cuda")]
mod emulated;
#[cfg(feature = "cuda")]
#[path = "../emulator/mod.rs"]
mod emulator;
mod library;
mod products;
#[path = "../../../../driver/tests/route/mod.rs"]
#[allow(dead_code)] // of other devices
mod route;
#[path = "../text/shim.rs"]
mod shim;

use relax_corpus::directive::{Kind, read};
use relax_corpus::files;
use relax_corpus::requirement;
use relax_cuda::{Built, Device, DeviceKernels, Error, build};
use relax_driver::{Target, lower};
use relax_lower::program::Around;
use relax_program::compare::compare;
use relax_program::frontend::Program;
use relax_program::well_formed_part::well_formed_part;
use relax_reference::{Printed, register};
use relax_rewrite::pass::{self, Settings};
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::Module;
use relax_runtime::program::Numerics;
use relax_semantics::check::Phase;
use relax_semantics::ops::Limits;
use relax_syntax::parse::read_source;
use relax_syntax::span::Source;
use route::{held, perform};
use shim::{Shim, compiler};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Deep recursion in the front end is limited by its own limits, not by the thread's.
const STACK: usize = 256 << 20;
/// Files that the processor runs: each is compiled once, which takes a second. With `RELAX_WHOLE=1` it runs all of them, with
/// `RELAX_PROGRAM=NAME` those that have this in their paths.
const FOLDERS: [&str; 3] = ["suite/tir/", "suite/calls/", "suite/memory/"];

/// Whether tests run on what the driver gives in the place of the processor (`emulated.rs`).
#[cfg(feature = "cuda")]
fn is_on_driver() -> bool {
    std::env::var_os("RELAX_ON_DRIVER").is_some()
}

/// What became of the expectations.
#[derive(Debug, Default)]
struct Counts {
    held: usize,
    left_out: BTreeMap<String, Vec<String>>,
    wrong: Vec<String>,
}

#[test]
fn the_processor_runs_the_text() {
    if compiler().is_none() {
        requirement::skip(
            "RELAX_REQUIRE_CC",
            "no C++ compiler to run CUDA source on the processor",
        );
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut counts = Counts::default();
    let only = std::env::var("RELAX_PROGRAM").ok();
    let is_whole = std::env::var_os("RELAX_WHOLE").is_some();
    let chosen = files::programs().into_iter().filter(|path| {
        let path = path.to_string_lossy();
        match &only {
            Some(part) => path.contains(part),
            None => is_whole || FOLDERS.iter().any(|folder| path.contains(folder)),
        }
    });
    for (at, path) in chosen.enumerate() {
        let own = folder.path().join(at.to_string());
        std::fs::create_dir(&own).expect("a folder");
        #[cfg(feature = "cuda")]
        if is_on_driver() {
            hold(&path, &|built| relax_cuda::Driver::new(&built.text), &mut counts);
            continue;
        }
        hold(
            &path,
            &|built| Ok(Shim::of(&built.text, &built.kernels, &own, at % 2 == 1)),
            &mut counts,
        );
    }
    eprintln!("{} held, left out: {:#?}", counts.held, counts.left_out);
    assert!(counts.wrong.is_empty(), "{:#?}", counts.wrong);
    assert!(only.is_some() || counts.held > 140, "{} held", counts.held);
}

#[cfg(feature = "cuda")]
#[test]
fn the_corpus_passes_on_a_device() {
    use relax_cuda::Driver;
    let found = relax_cuda::devices();
    match &found {
        Ok(devices) => eprintln!("on {devices:?}"),
        Err(why) if std::env::var_os("RELAX_REQUIRE_CUDA").is_some() => panic!("{why}"),
        Err(why) => {
            eprintln!("no device: {why}");
            return;
        }
    }
    let (part, parts) = part();
    let mut counts = Counts::default();
    for path in files::programs().into_iter().skip(part).step_by(parts) {
        let before = counts.wrong.len();
        hold(&path, &|built| Driver::new(&built.text), &mut counts);
        counts.wrong[before..].iter().for_each(|wrong| eprintln!("{wrong}"));
    }
    eprintln!("{} held, left out: {:#?}", counts.held, counts.left_out);
    assert!(counts.wrong.is_empty(), "{:#?}", counts.wrong);
    assert!(counts.held > 2000 / parts, "{} held", counts.held);
}

/// With `RELAX_PART=2/8` the third of eight parts of the programs, so that several processes share them; else all.
#[cfg(feature = "cuda")]
fn part() -> (usize, usize) {
    let Ok(part) = std::env::var("RELAX_PART") else { return (0, 1) };
    let numbers = part
        .split_once('/')
        .and_then(|(part, parts)| Some((part.parse().ok()?, parts.parse().ok()?)));
    let (part, parts) = numbers.expect("RELAX_PART is two numbers, as in 2/8");
    assert!(part < parts, "RELAX_PART={part}/{parts}: parts are counted from 0");
    (part, parts)
}

#[cfg(not(feature = "cuda"))]
#[test]
fn the_corpus_passes_on_a_device() {
    eprintln!("no device: built without the feature `cuda`");
}

/// Without a device the script that measures them says so, and does nothing.
#[test]
fn the_measurements_want_a_device() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/gpu/run.py");
    let Ok(output) = std::process::Command::new("python3").arg(script).output() else {
        requirement::skip("RELAX_REQUIRE_PYTHON", "there is no python3");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("there is no CUDA device") {
        assert_eq!((output.status.code(), output.stdout.len()), (Some(4), 0), "{said}");
    } else {
        assert!(Path::new("/proc/driver/nvidia").exists(), "{said}");
    }
}

fn hold<D: Device + 'static>(
    path: &Path,
    device: &(dyn Fn(&Built) -> Result<D, Error> + Sync),
    counts: &mut Counts,
) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        let run = thread.spawn_scoped(scope, || hold_file(path, device, counts));
        run.expect("a thread").join().expect("the run does not panic");
    });
}

fn hold_file<D: Device + 'static>(
    path: &Path,
    device: &dyn Fn(&Built) -> Result<D, Error>,
    counts: &mut Counts,
) {
    let bytes = std::fs::read(path).expect("a file of the corpus");
    let Ok(source) = read_source("corpus", &bytes) else { return };
    let expectations = read(&source.text);
    // What races has another value on every device.
    let races = expectations.directives.iter().filter_map(|directive| match &directive.kind {
        Kind::Race(call) => Some(&call.function),
        _ => None,
    });
    let races: BTreeSet<_> = races.collect();
    let directives: Vec<_> = expectations
        .directives
        .iter()
        .filter_map(|directive| match &directive.kind {
            Kind::Run { call, .. } | Kind::Trap { call, .. } => Some((directive, call)),
            _ => None,
        })
        .collect();
    let weights = expectations.directives.iter().any(|found| matches!(found.kind, Kind::Params));
    if directives.is_empty() || weights {
        return;
    }
    let program = Program::load(source.clone());
    let part = well_formed_part(&program);
    let loaded = load(&part, &source, device, &exact());
    for (directive, call) in directives {
        if part.function(&call.function).is_none() || races.contains(&call.function) {
            continue;
        }
        let place = format!("{}:{}", path.display(), directive.line);
        let module = match &loaded {
            Ok(module) => module,
            Err(why) => {
                counts.left_out.entry(why.clone()).or_default().push(place);
                continue;
            }
        };
        let result = perform(module, &program.module, call).expect("the call is read");
        match held(&directive.kind, result, &source.text, compare) {
            Ok(()) => counts.held += 1,
            Err(why) => counts.wrong.push(format!("{place}: {why}")),
        }
    }
}

/// Kernels of ours, which sum in the order of the text.
fn exact() -> Target {
    Target::of(pass::Device::Cuda, Numerics::Exact)
}

fn load<D: Device + 'static>(
    part: &relax_syntax::ir::Module,
    source: &Source,
    device: &dyn Fn(&Built) -> Result<D, Error>,
    target: &Target,
) -> Result<Module, String> {
    let lowered = if Phase::of_module(part)? == Phase::P23 {
        part.clone().into()
    } else {
        lower(target, part, &Settings::default(), &mut Unwatched)
            .map_err(|failed| format!("{failed:?}"))?
    };
    let externals = BTreeMap::new();
    let around = Around { externals: &externals, source, signatures: part };
    let limits = Limits::default();
    let built = build(&lowered, &around, limits.clone(), target.numerics)
        .map_err(|error| error.to_string())?;
    let device = device(&built).map_err(|error| error.to_string())?;
    let kernels = DeviceKernels::new(device, built.kernels, built.reference);
    let mut module =
        Module::new(built.image, Box::new(kernels)).map_err(|error| error.to_string())?;
    register(&mut module, &limits, &Printed::default())?;
    Ok(module)
}
