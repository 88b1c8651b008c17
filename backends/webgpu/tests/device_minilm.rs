//! The sentence encoder on the first device of WebGPU, against embeddings that were computed in float64 without Relax. The
//! weights are not part of the repository: `./setup.sh minilm` gets them. Without them, or without a device, the test says
//! that it was skipped; with `RELAX_REQUIRE_WEIGHTS=1` and `RELAX_REQUIRE_WGPU=1` it fails.

#[path = "route/load.rs"]
mod route;

use relax_program::compare::largest_difference;
use relax_program::externals::constants;
use relax_program::frontend::Program;
use relax_program::tensor_files::{Weights, read_npz};
use relax_reference::{to_machine, to_semantics};
use relax_runtime::Module;
use relax_runtime::program::Numerics;
use relax_semantics::value::Value;
use relax_syntax::span::Source;
use relax_webgpu::{Calls, Device, Formats, Ran};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The model computes in f32, the reference in f64: entries of a vector of length 1 differ by less.
const TOLERANCE: f64 = 1e-6;

/// Cases of `minilm_reference.npz`: a sentence of 3 tokens, and with `RELAX_WHOLE=1` four of 10, for which a software device
/// takes half a minute of a processor.
const CASES: [usize; 2] = [1, 0];

/// One for the result, and one for each of three look-ups that may stop.
const SUBMISSIONS: usize = 4;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn is_required(what: &str) -> bool {
    std::env::var_os(what).is_some_and(|value| value == "1")
}

/// What is needed is here, or nobody demands it.
fn weights() -> Option<PathBuf> {
    let named = std::env::var_os("RELAX_WEIGHTS").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| root().join(".cache/minilm"));
    let path = folder.join("model.safetensors");
    let is_there = path.exists() || !is_required("RELAX_REQUIRE_WEIGHTS");
    assert!(is_there, "no weights in {}", folder.display());
    path.exists().then_some(path)
}

fn device() -> Option<Arc<Device>> {
    match Device::open(Formats::NATIVE) {
        Ok(device) => Some(Arc::new(device)),
        Err(error) => {
            assert!(!is_required("RELAX_REQUIRE_WGPU"), "{error}");
            eprintln!("{error}");
            None
        }
    }
}

fn compiled(weights: &Path, device: &Arc<Device>, calls: &Calls) -> Module {
    let path = root().join("corpus/models/minilm.rx");
    let text = std::fs::read_to_string(path).expect("the model is in the corpus");
    let program = Program::load(Source::new("minilm.rx", text));
    let weights = Weights::open(weights).expect("the weights are readable");
    let externals =
        constants(&program.module, &weights).expect("the weights are those of the model");
    let module = route::load(
        &program.module,
        (&program.source, &externals),
        (device, Numerics::Exact),
        calls,
    );
    module.unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn embeddings_are_those_of_the_reference() {
    let (Some(weights), Some(device)) = (weights(), device()) else {
        eprintln!("SKIPPED: all cases; ./setup.sh minilm webgpu fetches what they need");
        return;
    };
    let calls = Calls::default();
    let module = compiled(&weights, &device, &calls);
    let main = module.function("main").expect("the model has it");
    let npz = root().join("corpus/models/minilm_reference.npz");
    let npz = std::fs::read(npz).expect("it is there");
    let named = |name: String| read_npz(&npz, Some(&name)).expect("the case is there");
    let count = if std::env::var_os("RELAX_WHOLE").is_some() { CASES.len() } else { 1 };
    for case in CASES.into_iter().take(count) {
        let input = |name: &str| {
            to_machine(&Value::Tensor(named(format!("{name}{case}")))).expect("a tensor")
        };
        let submitted = calls.submissions();
        let before = std::time::Instant::now();
        let found = main.call(&[input("ids"), input("mask")]);
        let found = found.unwrap_or_else(|stop| panic!("{stop}"));
        let found = to_semantics(&found, &mut |_| None).expect("a tensor");
        let Value::Tensor(found) = found else { panic!("expected a tensor") };
        let worst = largest_difference(&named(format!("embedding{case}")), &found);
        assert!(worst < TOLERANCE, "case {case}: {worst}");
        let submitted = calls.submissions() - submitted;
        assert!(submitted <= SUBMISSIONS, "case {case}: {submitted} submissions");
        eprintln!("case {case}: {worst:.1e} in {:.2?}, {submitted} submissions", before.elapsed());
    }
    let counts = [Ran::Device, Ran::NotLaunched, Ran::Stopped].map(|ran| calls.count(ran));
    eprintln!("{counts:?} calls of kernels on the device, not launched, stopped");
    assert!(counts[0] > 0 && counts[1..] == [0, 0], "all kernels run on the device: {counts:?}");
}
