//! How often the first device of WebGPU is given something to do: once for a call of a function whose kernels cannot stop,
//! whatever is brought there for them, and once more for each kernel whose status must be known before the next one. Without
//! a device nothing is held, and with `RELAX_REQUIRE_WGPU=1` that is a failure.

#[path = "../../../driver/tests/route/expectation.rs"]
mod expectation;
#[path = "route/load.rs"]
mod route;

use expectation::{held, perform};
use relax_corpus::directive::{Kind, read};
use relax_program::compare::compare;
use relax_program::frontend::Program;
use relax_runtime::program::Numerics;
use relax_syntax::span::Source;
use relax_webgpu::{Calls, Device, Formats, Ran};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Each expectation is held twice, so that weights are on the device already the second time.
const TEXT: &str = include_str!("device_submissions.rx");

/// Of each function: calls of kernels that the device runs, submissions, and the calls with maps of what was written.
const COUNTS: [(&str, [usize; 3]); 9] = [
    ("perceptron", [2, 1, 0]),
    ("head", [5, 1, 0]),
    ("attended", [1, 1, 0]),
    ("long", [80, 1, 0]),
    ("pair", [2, 2, 0]),
    ("found", [2, 2, 0]),
    // Nobody sees that it writes all of its rows, so what it wrote is brought back.
    ("far", [1, 3, 1]),
    // It does not stop where the first condition decides. Whether it stopped is asked for before its result.
    ("guarded", [1, 2, 0]),
    // The interpreter runs one of four, and its operand is brought back for it.
    ("reused", [3, 3, 0]),
];

#[test]
fn a_call_is_one_submission() {
    let device = match Device::open(Formats::NATIVE) {
        Ok(device) => Arc::new(device),
        Err(error) => {
            let required = std::env::var_os("RELAX_REQUIRE_WGPU").is_some_and(|value| value == "1");
            assert!(!required, "{error}");
            eprintln!("SKIPPED: {error}");
            return;
        }
    };
    let source = Source::new("device_submissions.rx", TEXT);
    let program = Program::load(source.clone());
    let mut seen = BTreeMap::new();
    for directive in read(TEXT).directives {
        let (Kind::Run { call, .. } | Kind::Trap { call, .. }) = &directive.kind else { continue };
        let calls = Calls::default();
        let module = route::load(
            &program.module,
            (&source, &BTreeMap::new()),
            (&device, Numerics::Exact),
            &calls,
        )
        .unwrap_or_else(|why| panic!("{why}"));
        let mut before = [0; 3];
        for _ in 0..2 {
            let result = perform(&module, &program.module, call).expect("it is called");
            held(&directive.kind, result, TEXT, compare)
                .unwrap_or_else(|why| panic!("{}: {why}", call.text));
            let watched = calls.count(Ran::Watched);
            let all = [calls.count(Ran::Device) + watched, calls.submissions(), watched];
            let counts: [usize; 3] = std::array::from_fn(|at| all[at] - before[at]);
            before = all;
            if matches!(directive.kind, Kind::Run { .. }) {
                seen.entry(call.function.to_string()).or_insert_with(Vec::new).push(counts);
            }
        }
    }
    eprintln!("calls of kernels, submissions, calls with maps: {seen:?}");
    for (name, counts) in COUNTS {
        let found = seen.get(name).unwrap_or_else(|| panic!("nothing runs `{name}`"));
        assert!(found.iter().all(|found| *found == counts), "{name}: {found:?}, not {counts:?}");
    }
    assert_eq!(seen.len(), COUNTS.len(), "{seen:?}");
}
