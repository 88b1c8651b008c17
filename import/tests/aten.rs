//! Descriptions of ATen operators: what they compute is what PyTorch computed, sizes 0 and 1 included. `scripts/torch_programs.py`
//! recorded both, so no PyTorch is needed here.

mod outputs;

use ndarray::{ArrayD, IxDyn};
use relax_import::{Bytes, ImportError, Imported, Options, import_model, supported_aten};
use relax_program::frontend::{Program, RunOptions, run};
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::dtype::DType;
use relax_syntax::span::Source;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/aten")
}

fn description(name: &str) -> String {
    let path = folder().join(format!("{name}.aten.json"));
    std::fs::read_to_string(path).expect("the description is there")
}

fn import(text: &str) -> Result<Imported, ImportError> {
    let options = Options { folder: Some(folder()), ..Options::default() };
    import_model(Bytes::from(text.to_owned()), &options)
}

struct Loaded {
    program: Program,
    options: RunOptions,
    text: String,
}

fn loaded(name: &str) -> Loaded {
    let Imported { text, params, .. } = import(&description(name)).expect("it is imported");
    let program = Program::load(Source::new("imported.rx", text.as_str()));
    assert!(program.diagnostics.is_empty(), "{name}: {:?}\n{text}", program.diagnostics);
    let params = params.into_iter().map(|(name, weight)| (Name::new(name), weight.tensor()));
    let options = RunOptions { externals: Arc::new(params.collect()), ..RunOptions::default() };
    Loaded { program, options, text }
}

fn call(loaded: &Loaded, arguments: Vec<Tensor>) -> Result<Vec<Tensor>, Stop> {
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

fn assert_as_recorded(name: &str) {
    let loaded = loaded(name);
    let cases = std::fs::read_to_string(folder().join(format!("{name}.cases.json")));
    let cases: Json = serde_json::from_str(&cases.expect("the cases are there")).expect("JSON");
    let cases = cases.as_array().expect("a list");
    assert!(cases.len() >= 2, "{name}");
    for case in cases {
        let arguments = tensors(&case["inputs"]);
        let shape = arguments[0].shape().to_vec();
        let found = call(&loaded, arguments);
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

macro_rules! recorded {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            assert_as_recorded(stringify!($name));
        })*
    };
}

recorded! { unary binary reductions movement indexing linear images branch lost_rows checked }

fn floats(shape: &[usize]) -> Tensor {
    Tensor::from_floats(DType::F32, ArrayD::ones(IxDyn(shape)))
}

/// `if x.shape[0] > 3` in the model: the trace took one side, so other sizes are refused with the Python line.
#[test]
fn guards_of_the_model_are_checked_with_their_line() {
    let stop =
        call(&loaded("branch"), vec![floats(&[3, 3])]).expect_err("the other side of a branch");
    let text = stop.to_string();
    assert!(text.contains("s33 > 3"), "{text}");
    assert!(text.contains("torch_programs.py:") && text.contains("if x.shape[0] > 3"), "{text}");
}

/// 13 rows do not make groups of 4: nothing is dropped silently.
#[test]
fn rows_are_not_lost() {
    let loaded = loaded("lost_rows");
    for rows in [1, 13] {
        let stop = call(&loaded, vec![floats(&[rows, 3])]).expect_err("rows that are left");
        assert!(stop.to_string().contains("reshape/C2"), "{stop}");
    }
    assert!(
        loaded.text.contains("not required, operators check what they need"),
        "{}",
        loaded.text
    );
}

/// Guards that others imply are not checked.
#[test]
fn implied_guards_are_dropped() {
    let text = description("branch");
    let guard = r#"{"text": "s33 > 2", "claim": ["<", 2, "s33"], "origin": "program", "at": null}"#;
    let more = text.replacen("\"guards\": [\n", &format!("\"guards\": [{guard},\n"), 1);
    assert_ne!(text, more);
    let imported = import(&more).expect("it is imported");
    assert!(
        imported.notes.iter().any(|note| note == "guard `s33 > 2`: implied by other guards"),
        "{:?}",
        imported.notes
    );
    assert_eq!(imported.text.matches("assert_op").count(), 1, "{}", imported.text);
}

#[test]
fn operators_that_are_missing_are_named_with_their_lines() {
    let text = description("branch").replace("\"aten.mul.Tensor\"", "\"aten.frobnicate.default\"");
    let error = import(&text).expect_err("an unknown operator");
    assert!(error.is_unsupported());
    let shown = error.to_string();
    assert!(
        shown.contains("1 × aten.frobnicate.default: this operator is not imported"),
        "{shown}"
    );
    assert!(shown.contains("torch_programs.py:"), "{shown}");
}

#[test]
fn results_are_compared_with_what_pytorch_says() {
    let text = description("branch");
    let node = text.find("\"nodes\"").expect("nodes");
    let wrong = format!("{}{}", &text[..node], text[node..].replacen("\"f32\"", "\"f64\"", 1));
    let error = import(&wrong).expect_err("another dtype").to_string();
    assert!(
        error.contains("a tensor of rank 2 of f32 of it, PyTorch one of rank 2 of f64"),
        "{error}"
    );
}

/// Every damaged description is an error, no panic.
#[test]
fn damaged_descriptions_are_refused() {
    let text = description("linear");
    for (from, to, what) in [
        ("\"version\": 1", "\"version\": 2", "has version 2"),
        ("\"relax-aten\"", "\"relax-aten!\"", "the field `format` must be"),
        ("\"linear.safetensors\"", "\"../linear.safetensors\"", "must name a file in the folder"),
        ("\"linear.safetensors\"", "\"missing.safetensors\"", "missing.safetensors"),
        ("\"producer\"", "\"producers\"", "unknown field"),
    ] {
        let error = import(&text.replacen(from, to, 1)).expect_err(what).to_string();
        assert!(error.contains(what), "{error}");
    }
    for cut in (1..text.len()).step_by(97) {
        assert!(import(&text[..cut]).is_err(), "cut at {cut}");
    }
    for (place, _) in text.match_indices("\"t\": \"").step_by(3) {
        let mut text = text.clone();
        text.replace_range(place + 6..place + 7, "~");
        assert!(import(&text).is_err(), "another name at {place}");
    }
}

#[test]
fn every_row_has_one_name() {
    let names = supported_aten();
    assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
}
