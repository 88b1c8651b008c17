//! Files that are damaged, hostile or wrong: an error or a program, never a panic. And what ONNX's own tests leave out.

use ndarray::{ArrayD, IxDyn};
use relax_import::{Bytes, ImportError, Imported, Options, import_model};
use relax_program::frontend::{Program, RunOptions, run};
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::dtype::DType;
use relax_syntax::span::Source;
use std::sync::Arc;

/// A protobuf field of bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 128 {
        bytes.push((length % 128) as u8 | 128);
        length /= 128;
    }
    bytes.push(length as u8);
    bytes.extend_from_slice(content);
    bytes
}

/// A protobuf field of a small integer.
fn small(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn node(operator: &str, inputs: &[&str], outputs: &[&str], attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    inputs.iter().for_each(|name| bytes.extend(field(1, name.as_bytes())));
    outputs.iter().for_each(|name| bytes.extend(field(2, name.as_bytes())));
    bytes.extend(field(4, operator.as_bytes()));
    attributes.iter().for_each(|attribute| bytes.extend(field(5, attribute)));
    field(1, &bytes)
}

fn int_attribute(name: &str, value: u8) -> Vec<u8> {
    [field(1, name.as_bytes()), small(3, value)].concat()
}

/// An initializer of i64.
fn integers(name: &str, dims: &[u8], values: &[i64]) -> Vec<u8> {
    let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let dims: Vec<u8> = dims.iter().flat_map(|&dim| small(1, dim)).collect();
    field(5, &[dims, small(2, 7), field(8, name.as_bytes()), field(9, &raw)].concat())
}

fn value(number: u8, name: &str, dtype: u8, dims: &[&str]) -> Vec<u8> {
    let dims: Vec<u8> = dims
        .iter()
        .flat_map(|dim| match dim.parse::<u8>() {
            Ok(extent) => field(1, &small(1, extent)),
            Err(_) => field(1, &field(2, dim.as_bytes())),
        })
        .collect();
    let tensor = [small(1, dtype), field(2, &dims)].concat();
    field(number, &[field(1, name.as_bytes()), field(2, &field(1, &tensor))].concat())
}

fn model(graph: &[Vec<u8>], opset: u8) -> Vec<u8> {
    [small(1, 8), field(7, &graph.concat()), field(8, &small(2, opset))].concat()
}

/// `x + Range(0, Shape(x)[1])` for x of (batch, seq).
fn positions() -> Vec<Vec<u8>> {
    vec![
        node("Shape", &["x"], &["shape"], &[]),
        node("Gather", &["shape", "one"], &["length"], &[int_attribute("axis", 0)]),
        node("Range", &["zero", "length", "one"], &["places"], &[]),
        node("Add", &["x", "places"], &["y"], &[]),
        integers("one", &[], &[1]),
        integers("zero", &[], &[0]),
        value(11, "x", 7, &["batch", "seq"]),
        value(12, "y", 7, &["batch", "seq"]),
    ]
}

fn import(bytes: Vec<u8>) -> Result<Imported, ImportError> {
    import_model(Bytes::from(bytes), &Options::default())
}

#[test]
fn a_range_over_a_shape_has_its_length_by_proof() {
    let imported = import(model(&positions(), 17)).expect("the model is fine");
    assert_eq!(
        imported.text,
        "def main(x: Tensor((\"batch\", \"seq\"), \"i64\")) -> Tensor((\"batch\", \"seq\"), \"i64\"):\n    \
         batch, seq = sym_var(), sym_var()\n    func_attr(\"output.0\", \"y\")\n    with dataflow():\n        # Range\n        places = arange(seq, dtype=\"i64\")\n        \
         # Add\n        y = add(x, places)\n    return y\n"
            .replace("batch, seq = sym_var(), sym_var()", "seq = sym_var()")
    );
    let program = Program::load(Source::new("imported.rx", imported.text.as_str()));
    assert!(program.diagnostics.is_empty(), "{:?}", program.diagnostics);
    assert!(program.left.is_empty(), "all of it is proved");
}

fn message(graph: &[Vec<u8>], opset: u8) -> String {
    import(model(graph, opset)).expect_err("the model is wrong").to_string()
}

#[test]
fn errors_say_what_is_wrong() {
    assert!(message(&positions(), 99).contains("operator set 99; 7 to 24 are read"));
    let mut cyclic = positions();
    cyclic.swap(0, 3);
    assert!(message(&cyclic, 17).contains("which nothing before it computes"));
    let mut twice = positions();
    twice.push(integers("one", &[], &[1]));
    assert!(message(&twice, 17).contains("two values are named `one`"));
    let mut short = positions();
    short[4] = integers("one", &[3], &[1]);
    assert!(message(&short, 17).contains("do not take the 8 bytes"));
    let mut huge = positions();
    huge[4] = integers("one", &[127; 20], &[1]);
    assert!(message(&huge, 17).contains("too large"));
    assert!(import(Vec::new()).is_err());
    assert!(import(vec![255; 100]).is_err());
}

#[test]
fn what_is_not_supported_is_told_at_once() {
    let mut graph = positions();
    graph.insert(4, node("Frobnicate", &["y"], &["a"], &[]));
    graph.insert(5, node("Frobnicate", &["a"], &["b"], &[]));
    graph.insert(6, node("Dither", &["y"], &["c"], &[]));
    let Err(ImportError::Unsupported(missing)) = import(model(&graph, 17)) else {
        panic!("two operators are not supported")
    };
    let told: Vec<String> = missing.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "1 × Dither: this operator is not imported (c)",
            "2 × Frobnicate: this operator is not imported (a, b)"
        ]
    );
}

/// A simple generator (xorshift), so that the test is the same everywhere.
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 16) as usize
}

#[test]
fn damaged_models_are_no_panic() {
    let good = model(&positions(), 17);
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let mut accepted = 0;
    for _ in 0..6000 {
        let mut bytes = good.clone();
        for _ in 0..1 + next(&mut state) % 3 {
            let at = next(&mut state) % bytes.len().max(1);
            if bytes.is_empty() {
                break;
            }
            match next(&mut state) % 4 {
                0 => bytes[at] = next(&mut state) as u8,
                1 => bytes[at] ^= 1 << (next(&mut state) % 8),
                2 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        if let Ok(imported) = import(bytes) {
            accepted += 1;
            drop(Program::load(Source::new("imported.rx", imported.text.as_str())));
        }
    }
    assert!(accepted > 100, "some damage does no harm, and the rest of the import is reached");
}

/// A model that casts an initializer of that many 4-bit integers, -8, -7 and so on, to f32 and adds them to x.
fn nibbles(dtype: u8, dims: &[u8], bytes: &[u8]) -> Vec<u8> {
    let extents: Vec<u8> = dims.iter().flat_map(|&dim| small(1, dim)).collect();
    let names: Vec<String> = dims.iter().map(u8::to_string).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let stored = [extents, small(2, dtype), field(8, b"w"), field(9, bytes)].concat();
    let graph = [
        field(5, &stored),
        node("Cast", &["w"], &["wide"], &[int_attribute("to", 1)]),
        node("Add", &["x", "wide"], &["y"], &[]),
        value(11, "x", 1, &names),
        value(12, "y", 1, &names),
    ];
    model(&graph, 21)
}

#[test]
fn integers_of_4_bits_are_read_in_any_number() {
    for dims in [&[0][..], &[1], &[3], &[16], &[17], &[18], &[3, 11], &[11, 3], &[7, 6], &[2, 0]] {
        let count = dims.iter().map(|&dim| usize::from(dim)).product::<usize>();
        let nibble = |place: usize| if place < count { place % 16 } else { 0 };
        let byte = |pair: usize| (nibble(2 * pair) | nibble(2 * pair + 1) << 4) as u8;
        let bytes: Vec<u8> = (0..count.div_ceil(2)).map(byte).collect();
        for (dtype, least) in [(21, 0.0), (22, -8.0)] {
            let imported = import(nibbles(dtype, dims, &bytes)).expect("it is a model");
            let params = imported.params.iter();
            let externals = params.map(|(name, tensor)| (Name::new(name), tensor.tensor()));
            let options =
                RunOptions { externals: Arc::new(externals.collect()), ..RunOptions::default() };
            let program = Program::load(Source::new("imported", imported.text.as_str()));
            assert!(program.diagnostics.is_empty(), "{:?}\n{}", program.diagnostics, imported.text);
            let extents: Vec<usize> = dims.iter().map(|&dim| dim.into()).collect();
            let zeros = Value::Tensor(Tensor::full(DType::F32, &extents, Number::Float(0.0)));
            let ran = run(&program.module, "main", vec![zeros], &options).result;
            let Ok(Value::Tensor(y)) = ran else { panic!("{ran:?}\n{}", imported.text) };
            let wanted = (0..count).map(|place| match (place % 16) as f64 {
                bits if bits >= 8.0 => bits + 2.0 * least,
                bits => bits,
            });
            let found = (0..y.len()).map(|place| y.number(place).as_f64());
            assert_eq!(found.collect::<Vec<_>>(), wanted.collect::<Vec<_>>(), "{dims:?}");
        }
    }
}

#[test]
fn integers_of_4_bits_of_another_length_are_refused() {
    for (dims, bytes) in
        [(&[4][..], &[1][..]), (&[4], &[1, 2, 3]), (&[3], &[]), (&[40, 2], &[0; 39])]
    {
        let told = import(nibbles(22, dims, bytes)).expect_err("it is damaged").to_string();
        assert!(told.contains("do not take"), "{told}");
    }
    let added = [
        node("Add", &["w", "w"], &["y"], &[]),
        value(11, "w", 22, &["n"]),
        value(12, "y", 22, &["n"]),
    ];
    let told = import(model(&added, 21)).expect_err("ONNX has no such sum").to_string();
    assert!(told.contains("an input of int4"), "{told}");
}

/// A sum with a tensor whose bytes lie in a file beside the model.
#[cfg(unix)]
fn beside(location: &str) -> Vec<u8> {
    let entry = |key: &str, value: &str| {
        field(13, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat())
    };
    let parts =
        [small(1, 2), small(2, 1), field(8, b"w"), entry("location", location), small(14, 1)];
    let added = [
        node("Add", &["x", "w"], &["y"], &[]),
        field(5, &parts.concat()),
        value(11, "x", 1, &["2"]),
        value(12, "y", 1, &["2"]),
    ];
    model(&added, 21)
}

/// Opening a pipe without a writer would wait for ever, and a folder has no bytes.
#[cfg(unix)]
#[test]
fn external_data_is_read_from_files_only() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = |name: &str| folder.path().join(name);
    let made = std::process::Command::new("mkfifo").arg(path("pipe")).status();
    assert!(made.expect("mkfifo runs").success());
    std::fs::create_dir(path("folder")).expect("it is made");
    std::fs::write(path("file"), [0; 8]).expect("it is written");
    let options = Options {
        folder: Some(folder.path().to_owned()),
        max_bytes: 1 << 10,
        ..Options::default()
    };
    let import = |name: &str| import_model(Bytes::from(beside(name)), &options);
    assert!(import("file").is_ok());
    for name in ["pipe", "folder"] {
        let told = import(name).expect_err("it is no file").to_string();
        assert!(told.contains("it is no file"), "{name}: {told}");
    }
}

/// An initializer of f32.
fn numbers(name: &str, dims: &[u8], values: &[f32]) -> Vec<u8> {
    let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let dims: Vec<u8> = dims.iter().flat_map(|&dim| small(1, dim)).collect();
    field(5, &[dims, small(2, 1), field(8, name.as_bytes()), field(9, &raw)].concat())
}

/// What a model of a float `x` of these dims gives, those with names being 2.
fn made(graph: &[Vec<u8>], dims: &[&str], x: &[f64]) -> Vec<f64> {
    let shape: Vec<usize> = dims.iter().map(|dim| dim.parse().unwrap_or(2)).collect();
    let graph = [graph, &[value(11, "x", 1, dims)]].concat();
    let imported = import(model(&graph, 17)).expect("it is a model");
    let params = imported.params.iter();
    let externals = params.map(|(name, tensor)| (Name::new(name), tensor.tensor()));
    let options = RunOptions { externals: Arc::new(externals.collect()), ..RunOptions::default() };
    let program = Program::load(Source::new("imported", imported.text.as_str()));
    assert!(program.diagnostics.is_empty(), "{:?}\n{}", program.diagnostics, imported.text);
    let x = ArrayD::from_shape_vec(IxDyn(&shape), x.to_vec()).expect("they fit");
    let x = Value::Tensor(Tensor::from_floats(DType::F32, x));
    let ran = run(&program.module, "main", vec![x], &options).result;
    let Ok(Value::Tensor(y)) = ran else { panic!("{ran:?}\n{}", imported.text) };
    (0..y.len()).map(|place| y.number(place).as_f64()).collect()
}

/// Models that are right, which ONNX's own tests do not have.
#[test]
fn operators_do_what_their_definitions_say() {
    let float = |name: &str, value: f32| {
        let content = [&[2 << 3 | 5][..], &value.to_le_bytes()].concat();
        [field(1, name.as_bytes()), content].concat()
    };
    // A bias of a convolution along one axis.
    let conv = [
        node("Conv", &["x", "w", "b"], &["y"], &[]),
        numbers("w", &[1, 1, 1], &[2.0]),
        numbers("b", &[1], &[5.0]),
        value(12, "y", 1, &["1", "1", "3"]),
    ];
    assert_eq!(made(&conv, &["1", "1", "3"], &[1.0, 2.0, 3.0]), [7.0, 9.0, 11.0]);
    // Of an even window the larger half lies behind: 1 / (1 + 1 + 4), 2 / (1 + 4 + 9), 3 / (1 + 9).
    let attributes =
        [int_attribute("size", 2), float("alpha", 2.0), float("beta", 1.0), float("bias", 1.0)];
    let response = [node("LRN", &["x"], &["y"], &attributes), value(12, "y", 1, &["1", "3", "1"])];
    let found = made(&response, &["1", "3", "1"], &[1.0, 2.0, 3.0]);
    let wanted = [1.0 / 6.0, 1.0 / 7.0, 0.3];
    assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
    // Negative padding takes away at its own side.
    let pad = [
        node("Pad", &["x", "pads"], &["y"], &[]),
        integers("pads", &[2], &[-1, 0]),
        value(12, "y", 1, &["3"]),
    ];
    assert_eq!(made(&pad, &["4"], &[1.0, 2.0, 3.0, 4.0]), [2.0, 3.0, 4.0]);
    // The maximum of nothing is below everything.
    let axes = [field(1, b"axes"), small(8, 0)].concat();
    let most = [
        node("ReduceMax", &["x"], &["y"], &[axes, int_attribute("keepdims", 0)]),
        value(12, "y", 1, &["2"]),
    ];
    assert_eq!(made(&most, &["0", "2"], &[]), [f64::NEG_INFINITY; 2]);
    // The last dim of a shape of which another one has a name.
    let last = [
        node("Shape", &["x"], &["shape"], &[]),
        node("Slice", &["shape", "from", "to"], &["y"], &[]),
        integers("from", &[1], &[-1]),
        integers("to", &[1], &[9]),
        value(12, "y", 7, &["1"]),
    ];
    assert_eq!(made(&last, &["n", "3"], &[0.0; 6]), [3.0]);
}

/// Weights of the body of a loop are those of each turn.
#[test]
fn bodies_of_loops_have_weights() {
    let body = [
        node("Identity", &["going"], &["goes"], &[]),
        node("Add", &["sum", "step"], &["more"], &[]),
        numbers("step", &[1], &[2.0]),
        value(11, "turn", 7, &[]),
        value(11, "going", 9, &[]),
        value(11, "sum", 1, &["1"]),
        value(12, "goes", 9, &[]),
        value(12, "more", 1, &["1"]),
    ];
    let graph = [field(1, b"body"), field(6, &body.concat()), vec![20 << 3 & 127 | 128, 1, 5]];
    let graph = [
        node("Loop", &["turns", "", "x"], &["y"], &[graph.concat()]),
        integers("turns", &[], &[3]),
        value(12, "y", 1, &["1"]),
    ];
    assert_eq!(made(&graph, &["1"], &[1.0]), [7.0]);
}

/// Arithmetic on dims with names: one number goes with each of several, on either side.
#[test]
fn dims_are_computed_with_one_number() {
    for (operator, inputs, wanted) in [
        ("Mul", ["two", "shape"], 4 * 6),
        ("Mul", ["shape", "two"], 4 * 6),
        ("Add", ["two", "shape"], 4 * 5),
        ("Sub", ["shape", "two"], 0),
        ("Add", ["shape", "shape"], 4 * 6),
    ] {
        let graph = [
            node("Shape", &["x"], &["shape"], &[]),
            node(operator, &inputs, &["of"], &[]),
            node("ConstantOfShape", &["of"], &["y"], &[]),
            integers("two", &[1], &[2]),
            value(12, "y", 1, &["a", "b"]),
        ];
        let found = made(&graph, &["n", "3"], &[0.0; 6]);
        assert_eq!(found, vec![0.0; wanted], "{operator} of {inputs:?}");
    }
}
