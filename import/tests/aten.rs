//! Descriptions of ATen operators: what they compute is what PyTorch computed, sizes 0 and 1 included. `scripts/torch_programs.py`
//! recorded both, so no PyTorch is needed here. What
//! those programs do not have is written here.

mod outputs;
mod recorded;

use ndarray::{ArrayD, IxDyn};
use recorded::{Loaded, call, floats};
use relax_import::{
    Bytes, ImportError, Imported, Options, import_model, refused_aten, supported_aten,
};
use relax_semantics::tensor::Tensor;
use relax_syntax::dtype::DType;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

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

fn loaded(name: &str) -> Loaded {
    recorded::loaded(import(&description(name)))
}

macro_rules! recorded {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            let name = stringify!($name);
            recorded::assert_as_recorded(&loaded(name), &folder(), name, 2);
        })*

        /// A program that is recorded and not listed here would be tested by nothing.
        #[test]
        fn every_recorded_program_is_tested() {
            let listed: BTreeSet<String> = [$(stringify!($name).to_owned()),*].into();
            let files = std::fs::read_dir(folder()).expect("the folder is there");
            let names = files.filter_map(|file| {
                let name = file.ok()?.file_name().into_string().ok()?;
                name.strip_suffix(".cases.json").map(str::to_owned)
            });
            assert_eq!(names.collect::<BTreeSet<String>>(), listed);
        }
    };
}

recorded! {
    unary binary reductions movement indexing linear images gradients whole_gradients windows distances special reduced_writes spaces
    scalars ranges branch
    lost_rows checked
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

/// What C++ asks is required, but for what says only that no size is 0 or 1.
#[test]
fn guards_of_the_dispatcher_that_specialize_0_and_1_are_not_required() {
    let text = description("unary");
    let guards = |claim: &str| {
        let guard =
            format!(r#"{{"text": "one", "claim": {claim}, "origin": "dispatcher", "at": null}}"#);
        let more = text.replacen("\"guards\": []", &format!("\"guards\": [{guard}]"), 1);
        assert_ne!(text, more);
        import(&more).expect("it is imported")
    };
    let symbol = "s33";
    for claim in [
        format!(r#"["!=", "{symbol}", 1]"#),
        format!(
            r#"["<", ["+", ["*", 2, "{symbol}"], -1], ["*", "{symbol}", ["+", ["*", 2, "{symbol}"], -1]]]"#
        ),
    ] {
        let imported = guards(&claim);
        assert!(
            imported.notes.iter().any(|note| note.contains("it holds for all sizes of 2 and more")),
            "{:?}",
            imported.notes
        );
        assert!(!imported.text.contains("assert_op"), "{}", imported.text);
    }
    let imported = guards(&format!(r#"["!=", "{symbol}", 5]"#));
    assert!(imported.text.contains("assert_op"), "{}", imported.text);
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

/// A bound of a range that is no dim and no number: the default would be a wrong result.
#[test]
fn a_range_to_a_computed_float_is_refused() {
    let node = r#"{"op": "aten.arange.start_step", "args": {"start": 0, "end": {"r": ["*", 0.5, {"d": "s0"}]}, "step": 0.5},
            "outputs": [{"name": "y", "dtype": "f32", "shape": ["s0"]}], "at": null}"#;
    let text = format!(
        r#"{{"format": "relax-aten", "version": 1, "producer": "a test", "weights_file": null, "symbols": [], "guards": [],
        "inputs": [{{"name": "x", "dtype": "f32", "shape": ["s0"]}}], "weights": [], "nodes": [{node}],
        "outputs": [{{"name": "y", "value": {{"t": "y"}}}}], "notes": []}}"#
    );
    let error = import(&text).expect_err("a range to a float");
    assert!(error.is_unsupported(), "{error}");
    assert!(error.to_string().contains("`end` is a float that is computed of sizes"), "{error}");
}

/// A subgraph is called with sizes that none of its tensors has.
#[test]
fn a_shape_gives_symbols_their_values() {
    let text = r#"{"format": "relax-aten", "version": 1, "producer": "a test", "weights_file": null,
        "symbols": [{"name": "s0", "lower": null, "upper": 9}], "guards": [],
        "inputs": [{"name": "sizes", "dtype": "shape", "shape": ["s1", "s0"]}], "weights": [],
        "nodes": [{"op": "aten.full.default", "args": {"size": [{"d": "s0"}, {"d": ["+", "s1", 1]}], "fill_value": 2.0},
            "outputs": [{"name": "y", "dtype": "f32", "shape": ["s0", ["+", "s1", 1]]}], "at": null}],
        "outputs": [{"name": "y", "value": {"t": "y"}}], "notes": []}"#;
    let imported = import(text).expect("it is imported").text;
    assert!(imported.contains(r#"sizes: Shape(["s1", "s0"])"#), "{imported}");
    assert!(imported.contains("s0 = sym_var(upper_bound=9)"), "{imported}");
    let none = text.replace(r#"["s1", "s0"]"#, r#"["s0"]"#);
    let error = import(&none).expect_err("nothing gives `s1` a value").to_string();
    assert!(error.contains("`s1` is not the whole of a dim of an input"), "{error}");
}

#[test]
fn nodes_that_are_missing_are_told_by_their_places() {
    let text = description("checked");
    let options = Options { folder: Some(folder()), ..Options::default() };
    let refused = |text: &str| refused_aten(text.as_bytes(), &options).expect("it reads");
    assert_eq!(refused(&text), []);
    let made: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let names = made["nodes"].as_array().expect("nodes").iter().map(|node| node["op"].as_str());
    let place = names.into_iter().position(|op| op == Some("aten.mul.Tensor")).expect("a product");
    let wrong = text.replace("\"aten.mul.Tensor\"", "\"aten.frobnicate.default\"");
    assert_eq!(refused(&wrong), [(place, "this operator is not imported".to_owned())]);
    assert!(refused_aten(&text.as_bytes()[..99], &options).is_err());
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

fn tensor(dtype: DType, shape: &[usize], numbers: &[i64]) -> Tensor {
    let shape = IxDyn(shape);
    if dtype.is_float() {
        let floats = numbers.iter().map(|&number| number as f64).collect();
        return Tensor::from_floats(
            dtype,
            ArrayD::from_shape_vec(shape, floats).expect("they fit"),
        );
    }
    let ints = numbers.iter().map(|&number| number.into()).collect();
    Tensor::from_ints(dtype, ArrayD::from_shape_vec(shape, ints).expect("they fit"))
}

/// What one operator makes of `a`, `b` and so on; its result has this shape and the dtype of the first of them.
fn made(operator: &str, args: &str, inputs: Vec<Tensor>, shape: &[usize]) -> Vec<f64> {
    let names = ["a", "b", "c"].iter().zip(&inputs);
    let value = |name: &str, dtype: DType, shape: &[usize]| {
        format!(r#"{{"name": "{name}", "dtype": "{}", "shape": {shape:?}}}"#, dtype.name())
    };
    let listed: Vec<String> =
        names.map(|(name, tensor)| value(name, tensor.dtype(), tensor.shape())).collect();
    let (listed, result) = (listed.join(", "), value("y", inputs[0].dtype(), shape));
    // A pool has its indices as a second result, which nobody wants.
    let results = if operator.contains("indices") { format!("{result}, null") } else { result };
    let text = format!(
        r#"{{"format": "relax-aten", "version": 1, "producer": "a test", "weights_file": null,
            "symbols": [], "guards": [], "inputs": [{listed}], "weights": [],
            "nodes": [{{"op": "aten.{operator}", "args": {{{args}}}, "outputs": [{results}], "at": "a test"}}],
            "outputs": [{{"name": "y", "value": {{"t": "y"}}}}], "notes": []}}"#
    );
    let results = call(&recorded::loaded(import(&text)), inputs);
    let results = results.unwrap_or_else(|stop| panic!("{stop}\n{text}"));
    assert_eq!(results[0].shape(), shape, "{text}");
    (0..results[0].len()).map(|at| results[0].number(at).as_f64()).collect()
}

/// What the recorded programs do not have: by the documentation of PyTorch.
#[test]
fn indices_that_do_not_stand_together_come_first() {
    let place = |a: i64, i: i64, c: i64, j: i64| ((a * 3 + i) * 2 + c) * 4 + j;
    let (rows, columns) = ([2, 0], [1, 3]);
    let args = r#""self": {"t": "a"}, "indices": [null, {"t": "b"}, null, {"t": "c"}]"#;
    let inputs = vec![
        tensor(DType::F32, &[2, 3, 2, 4], &(0..48).collect::<Vec<i64>>()),
        tensor(DType::I64, &[2], &rows),
        tensor(DType::I64, &[2], &columns),
    ];
    let mut wanted = Vec::new();
    for (i, j) in rows.into_iter().zip(columns) {
        for (a, c) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            wanted.push(place(a, i, c, j) as f64);
        }
    }
    assert_eq!(made("index.Tensor", args, inputs, &[2, 2, 2]), wanted);
}

#[test]
fn elements_of_one_place_are_put_together() {
    let floats = |numbers: &[i64]| tensor(DType::F32, &[numbers.len()], numbers);
    let places = |numbers: &[i64]| tensor(DType::I64, &[numbers.len()], numbers);
    let args =
        r#""self": {"t": "a"}, "indices": [{"t": "b"}], "values": {"t": "c"}, "accumulate": true"#;
    let inputs = vec![floats(&[0, 1, 0]), places(&[0, 0, 2]), floats(&[1, 2, 3])];
    assert_eq!(made("index_put.default", args, inputs, &[3]), [3.0, 1.0, 3.0]);
    let args = r#""self": {"t": "a"}, "dim": 0, "index": {"t": "b"}, "src": {"t": "c"}, "reduce": "prod", "include_self": true"#;
    let inputs = vec![floats(&[2, 3]), places(&[0, 0]), floats(&[5, 7])];
    assert_eq!(made("scatter_reduce.two", args, inputs, &[2]), [70.0, 3.0]);
    // As many as a byte counts before it begins anew.
    let args = r#""self": {"t": "a"}, "dim": 0, "index": {"t": "b"}, "src": {"t": "c"}"#;
    let bools = |numbers: &[i64]| tensor(DType::Bool, &[numbers.len()], numbers);
    let inputs = vec![bools(&[0]), places(&[0; 256]), bools(&[1; 256])];
    assert_eq!(made("scatter_add.default", args, inputs, &[1]), [1.0]);
}

#[test]
fn floats_of_dims_are_computed() {
    let text = description("branch");
    let with =
        |real: &str| text.replacen("\"other\": 2}", &format!("\"other\": {{\"r\": {real}}}}}"), 1);
    let real = r#"["/", 3.0, ["+", {"d": "s33"}, ["*", -1.0, {"d": ["*", "s33", 2]}]]]"#;
    let loaded = recorded::loaded(import(&with(real)));
    let results = call(&loaded, vec![floats(&[4, 3])]).expect("it runs");
    let given = floats(&[4, 3]);
    for at in 0..12 {
        let (found, x) = (results[0].number(at).as_f64(), given.number(at).as_f64());
        assert!((found - x * -0.75).abs() < 1e-6 * x.abs(), "{at}: {found}, of {x}");
    }
    for wrong in [r#"["-", 1.0, 2.0]"#, r#"["/", 1.0]"#, r#""1.0""#, r#"{"d": "s34"}"#] {
        assert!(import(&with(wrong)).is_err(), "{wrong}");
    }
}

/// PyTorch makes tensors of numbers that depend on sizes, and computes with these.
#[test]
fn operators_that_passes_of_pytorch_leave_are_imported() {
    let args = r#""self": {"t": "a"}, "other": {"t": "b"}"#;
    let floats = |numbers: &[i64]| tensor(DType::F64, &[numbers.len()], numbers);
    let inputs = vec![floats(&[3, -1]), floats(&[4, 2])];
    assert_eq!(made("true_divide.Tensor", args, inputs, &[2]), [0.75, -0.5]);
    let text = description("branch").replacen(
        "\"aten.mul.Tensor\"",
        "\"prims.convert_element_type.default\"",
        1,
    );
    let from = r#""args": {"self": {"t": "args_0"}, "other": 2}"#;
    let converted = r#""args": {"a": {"t": "args_0"}, "dtype": {"dtype": "f64"}}"#;
    let text = text.replacen(from, converted, 1);
    let output = text.rfind("\"dtype\": \"f32\"").expect("the result of the node");
    let text = format!("{}{}", &text[..output], text[output..].replacen("f32", "f64", 1));
    let imported = import(&text).expect("it is imported").text;
    assert!(imported.contains("astype"), "{imported}");
}

#[test]
fn windows_of_a_pool_have_gaps() {
    let args = r#""self": {"t": "a"}, "kernel_size": [2, 2], "stride": [], "padding": [0, 0], "dilation": [2, 2], "ceil_mode": false"#;
    let x = tensor(DType::F32, &[1, 1, 3, 3], &(0..9).collect::<Vec<i64>>());
    assert_eq!(made("max_pool2d_with_indices.default", args, vec![x], &[1, 1, 1, 1]), [8.0]);
}
