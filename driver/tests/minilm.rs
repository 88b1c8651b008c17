//! The sentence encoder, compiled with its weights in the module file, against embeddings that were computed in
//! float64 without Relax.
//!
//! The weights are not part of the repository: `./setup.sh minilm` gets them; without them the test says that
//! it was skipped, and with `RELAX_REQUIRE_WEIGHTS=1` it fails.

use relax_cpu::{Cache, Compiler};
use relax_driver::{KernelCheck, Target, build_cpu, lower};
use relax_lower::program::Around;
use relax_program::compare::largest_difference;
use relax_program::externals::constants;
use relax_program::frontend::Program;
use relax_program::tensor_files::{Weights, read_npz};
use relax_reference::{Printed, register, to_machine, to_semantics};
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::Module;
use relax_runtime::program::Numerics;
use relax_semantics::ops::Limits;
use relax_semantics::value::Value;
use relax_syntax::span::Source;
use std::path::{Path, PathBuf};

/// The model computes in f32, the reference in f64: entries of a vector of length 1 differ by less. Sums of the
/// interpreter are formed in f64, those in any order in f32.
const TOLERANCES: [(Numerics, f64); 2] = [(Numerics::Exact, 1e-6), (Numerics::Reassociated, 1e-5)];

/// Files with a number of cases: one token, several lengths, batches with padding.
const CASES: [(&str, usize); 2] = [("minilm_reference.npz", 3), ("minilm_lengths.npz", 4)];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What is needed is here, or nobody demands it.
fn weights() -> Option<PathBuf> {
    let named = std::env::var_os("RELAX_WEIGHTS").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| root().join(".cache/minilm"));
    let path = folder.join("model.safetensors");
    let required = std::env::var_os("RELAX_REQUIRE_WEIGHTS").is_some_and(|value| value == "1");
    assert!(path.exists() || !required, "no weights in {}", folder.display());
    path.exists().then_some(path)
}

fn compiled(weights: &Path, folder: &Path, sums: Numerics) -> Module {
    let path = root().join("corpus/models/minilm.rx");
    let text = std::fs::read_to_string(path).expect("the model is in the corpus");
    let program = Program::load(Source::new("minilm.rx", text));
    let weights = Weights::open(weights).expect("the weights are readable");
    let externals =
        constants(&program.module, &weights).expect("the weights are those of the model");
    let lowered = lower(&Target::default(), &program.module, &Settings::default(), &mut Unwatched);
    let lowered = lowered.unwrap_or_else(|failed| panic!("{failed:?}")).module;
    let around =
        Around { externals: &externals, source: &program.source, signatures: &program.module };
    let compiler = Compiler::of_system().expect("a C compiler");
    // Results are compared with recorded ones.
    let image =
        build_cpu(&lowered, &around, sums, (&compiler, &Cache::at(folder)), KernelCheck::Off);
    let bytes = image.unwrap_or_else(|error| panic!("{error}")).to_bytes();
    let mut module = Module::load(&bytes).unwrap_or_else(|error| panic!("{error}"));
    // Operators that no tensor program stands for.
    register(&mut module, &Limits::default(), &Printed::default()).expect("the library has them");
    module
}

#[test]
fn embeddings_are_those_of_the_reference() {
    let (Some(weights), Ok(_)) = (weights(), Compiler::of_system()) else {
        eprintln!("SKIPPED: 7 cases, the weights or a C compiler are missing; ./setup.sh minilm");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder for the cache");
    for (sums, tolerance) in TOLERANCES {
        agrees(&compiled(&weights, folder.path(), sums), tolerance);
    }
}

fn agrees(module: &Module, tolerance: f64) {
    let main = module.function("main").expect("the model has it");
    for (file, count) in CASES {
        let npz = std::fs::read(root().join("corpus/models").join(file)).expect("it is there");
        let named = |name: String| read_npz(&npz, Some(&name)).expect("the case is there");
        for case in 0..count {
            let input = |name: &str| {
                to_machine(&Value::Tensor(named(format!("{name}{case}")))).expect("a tensor")
            };
            let (ids, mask) = (input("ids"), input("mask"));
            let found = main.call(&[ids, mask]).unwrap_or_else(|stop| panic!("{stop}"));
            let found = to_semantics(&found, &mut |_| None).expect("a tensor");
            let Value::Tensor(found) = found else { panic!("expected a tensor") };
            let worst = largest_difference(&named(format!("embedding{case}")), &found);
            assert!(worst < tolerance, "{file} case {case}: {worst}");
        }
    }
}
