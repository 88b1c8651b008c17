//! Programs and cases that a script recorded, and calls of them.

use crate::outputs;
use ndarray::{ArrayD, IxDyn};
use relax_import::{ImportError, Imported};
use relax_program::frontend::{Program, RunOptions, run};
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::dtype::DType;
use relax_syntax::span::Source;
use serde_json::Value as Json;
use std::path::Path;
use std::sync::Arc;

pub(crate) struct Loaded {
    program: Program,
    options: RunOptions,
    pub(crate) text: String,
}

pub(crate) fn loaded(imported: Result<Imported, ImportError>) -> Loaded {
    let Imported { text, params, .. } = imported.unwrap_or_else(|error| panic!("{error}"));
    let program = Program::load(Source::new("imported.rx", text.as_str()));
    assert!(program.diagnostics.is_empty(), "{:?}\n{text}", program.diagnostics);
    let params = params.into_iter().map(|(name, weight)| (Name::new(name), weight.tensor()));
    let options = RunOptions { externals: Arc::new(params.collect()), ..RunOptions::default() };
    Loaded { program, options, text }
}

pub(crate) fn call(loaded: &Loaded, arguments: Vec<Tensor>) -> Result<Vec<Tensor>, Stop> {
    let arguments = arguments.into_iter().map(Value::Tensor).collect();
    let ran = run(&loaded.program.module, "main", arguments, &loaded.options);
    ran.result.map(outputs::tensors)
}

/// A tensor as the script wrote it.
fn tensor(json: &Json) -> Tensor {
    let dtype = DType::parse(json["dtype"].as_str().expect("a dtype")).expect("a known dtype");
    let shape = json["shape"].as_array().expect("a shape").iter();
    let shape: Vec<usize> = shape.map(|n| n.as_u64().expect("an extent") as usize).collect();
    let data = json["data"].as_array().expect("elements");
    let array = IxDyn(&shape);
    if dtype.is_float() {
        let float = |value: &Json| match value {
            Json::String(text) => text.parse().expect("a float"),
            number => number.as_f64().expect("a float"),
        };
        let floats: Vec<f64> = data.iter().map(float).collect();
        return Tensor::from_floats(dtype, ArrayD::from_shape_vec(array, floats).expect("all"));
    }
    let int = |value: &Json| {
        i128::from(value.as_bool().map_or_else(|| value.as_i64().expect("an int"), i64::from))
    };
    let ints: Vec<i128> = data.iter().map(int).collect();
    Tensor::from_ints(dtype, ArrayD::from_shape_vec(array, ints).expect("all"))
}

fn tensors(json: &Json) -> Vec<Tensor> {
    json.as_array().expect("a list").iter().map(tensor).collect()
}

/// Equal, both NaN, or two floats that differ by rounding.
fn is_close(ours: f64, theirs: f64, dtype: DType) -> bool {
    if ours == theirs || (ours.is_nan() && theirs.is_nan()) {
        return true;
    }
    dtype.is_float() && (ours - theirs).abs() <= 1e-5 * theirs.abs().max(1.0)
}

/// Compares a program with the cases `name.cases.json`, of which there are so many at least.
pub(crate) fn assert_as_recorded(loaded: &Loaded, folder: &Path, name: &str, least: usize) {
    let cases = std::fs::read_to_string(folder.join(format!("{name}.cases.json")));
    let cases: Json = serde_json::from_str(&cases.expect("the cases are there")).expect("JSON");
    let cases = cases.as_array().expect("a list");
    assert!(cases.len() >= least, "{name}");
    for case in cases {
        let arguments = tensors(&case["inputs"]);
        let shape = arguments[0].shape().to_vec();
        let found = call(loaded, arguments);
        let found =
            found.unwrap_or_else(|stop| panic!("{name} {shape:?}: {stop}\n{}", loaded.text));
        let expected = tensors(&case["outputs"]);
        assert_eq!(found.len(), expected.len(), "{name} {shape:?}");
        for (place, (ours, theirs)) in found.iter().zip(&expected).enumerate() {
            let what = format!("{name} {shape:?}, result {place}");
            assert_eq!((ours.dtype(), ours.shape()), (theirs.dtype(), theirs.shape()), "{what}");
            for at in 0..ours.len() {
                let (a, b) = (ours.number(at).as_f64(), theirs.number(at).as_f64());
                assert!(is_close(a, b, ours.dtype()), "{what}, element {at}: {a}, not {b}");
            }
        }
    }
}

pub(crate) fn floats(shape: &[usize]) -> Tensor {
    Tensor::from_floats(DType::F32, ArrayD::ones(IxDyn(shape)))
}
