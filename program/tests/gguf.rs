//! GGUF files against the package `gguf` (`scripts/models/gguf_reference.py`): metadata, elements, and the decoding
//! programs of `corpus/suite/quantized` bit for bit; and changed files, which are read or refused.

use relax_program::externals::constants;
use relax_program::frontend::{Program, RunOptions, parameters, run};
use relax_program::tensor_files::{Gguf, GgufFormat, GgufValue, Weights, read_npz, write_npy};
use relax_semantics::tensor::{Elements, Tensor};
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::dtype::DType;
use relax_syntax::span::Source;
use std::path::PathBuf;
use std::sync::Arc;

fn corpus(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(path)
}

fn file() -> PathBuf {
    corpus("models/blocks.gguf")
}

fn reference(name: &str) -> Tensor {
    let bytes = std::fs::read(corpus("models/blocks.npz")).expect("the references are there");
    read_npz(&bytes, Some(name)).expect("there is a reference")
}

fn loaded(name: &str, text: &str) -> Program {
    let program = Program::load(Source::new(name, text));
    assert!(program.diagnostics.is_empty(), "{name}: {:?}", program.diagnostics);
    program
}

/// Shape, dtype and bits: zeros of both signs differ, and so do NaNs.
fn assert_same_bits(name: &str, found: &Tensor, expected: &Tensor) {
    assert_eq!(found.shape(), expected.shape(), "{name}");
    let bytes = |tensor: &Tensor| write_npy(tensor).expect("NumPy has the dtype");
    let (found, expected) = (bytes(found), bytes(expected));
    let differing = found.iter().zip(&expected).position(|(a, b)| a != b);
    assert!(found == expected, "{name}: byte {differing:?} of the .npy files differs");
}

fn quantized() -> Vec<(GgufFormat, String)> {
    let formats = GgufFormat::ALL.iter().filter(|format| !format.is_plain());
    formats.map(|&format| (format, format.name().to_lowercase())).collect()
}

#[test]
fn decoding_programs_agree_with_the_reference() {
    let gguf = Gguf::open(&file()).expect("the file is readable");
    for (format, name) in quantized() {
        let path = corpus(&format!("suite/quantized/{name}.rx"));
        let text = std::fs::read_to_string(path).expect("there is a program of each format");
        let program = loaded(&name, &text);
        let signature = parameters(&program.module, "dequantized").expect("there is an entry");
        let fields: Vec<&str> = signature.iter().map(|(name, _)| name.as_str()).collect();
        let members: Vec<&str> = format.fields().iter().map(|field| field.name).collect();
        assert_eq!(fields, members);
        let argument = |field: &&str| {
            let tensor = gguf.tensor(&format!("blocks.{name}.{field}"));
            Value::Tensor(tensor.expect("the field is there"))
        };
        let arguments = fields.iter().map(argument).collect();
        let ran = run(&program.module, "dequantized", arguments, &RunOptions::default());
        let Ok(Value::Tensor(found)) = ran.result else { panic!("{name}: {:?}", ran.result) };
        assert_same_bits(&name, &found, &reference(&format!("blocks.{name}")));
    }
}

/// Without this a reference of ones alone would do.
#[test]
fn references_have_zeros_of_both_signs_and_subnormal_numbers() {
    for (_, name) in quantized() {
        let Elements::Float(elements) = reference(&format!("blocks.{name}")).elements() else {
            panic!("references are floats")
        };
        let all: Vec<f64> = elements.into_iter().collect();
        let has = |what: fn(f64) -> bool| all.iter().any(|&element| what(element));
        assert!(has(|x| x.to_bits() == 0) && has(|x| x > 1.0) && has(|x| x < -1.0), "{name}");
        assert!(all.iter().all(|element| element.is_finite()), "{name}");
        let scale = Gguf::open(&file()).and_then(|gguf| gguf.tensor(&format!("blocks.{name}.d")));
        let Elements::Float(scales) = scale.expect("each has a scale").elements() else {
            panic!("scales are floats")
        };
        let scales: Vec<f64> = scales.into_iter().collect();
        let least = 2.0_f64.powi(-14);
        assert!(scales.iter().any(|&d| d != 0.0 && d.abs() < least), "{name}: no subnormal scale");
        assert!(scales.iter().any(|&d| d < 0.0), "{name}: no negative scale");
    }
}

#[test]
fn plain_tensors_agree_with_the_reference() {
    let gguf = Gguf::open(&file()).expect("the file is readable");
    for name in ["f32", "f64", "f16", "i8", "i16", "i32", "i64"] {
        let name = format!("plain.{name}");
        let found = gguf.tensor(&name).expect("the tensor is there");
        assert_same_bits(&name, &found, &reference(&name));
    }
    let text = "def main(x: Tensor((\"n\", \"m\"), \"bf16\")):\n    return astype(x, \"f32\")\n";
    let program = loaded("cast", text);
    let halves = gguf.tensor("plain.bf16").expect("the tensor is there");
    assert_eq!(halves.dtype(), DType::BF16);
    let ran = run(&program.module, "main", vec![Value::Tensor(halves)], &RunOptions::default());
    let Ok(Value::Tensor(found)) = ran.result else { panic!("{:?}", ran.result) };
    assert_same_bits("plain.bf16", &found, &reference("plain.bf16"));
}

#[test]
fn fields_keep_leading_dims() {
    let entries = Gguf::open(&file()).expect("the file is readable").entries();
    assert_eq!(entries["blocks.stack.d"].shape, [2, 3, 4]);
    assert_eq!(entries["blocks.stack.qs"].shape, [2, 3, 128]);
}

#[test]
fn metadata_has_every_type() {
    let gguf = Gguf::open(&file()).expect("the file is readable");
    let value = |key: &str| &gguf.metadata()[key];
    let both = |kind: &str| {
        let array = value(&format!("test.array.{kind}")).as_array().expect("an array");
        array.iter().collect::<Vec<GgufValue>>()
    };
    assert_eq!(value("general.architecture").as_str(), Some("test"));
    assert_eq!(value("general.alignment").as_u64(), Some(64));
    assert_eq!(both("uint8"), [GgufValue::U8(0), GgufValue::U8(255)]);
    assert_eq!(both("int8"), [GgufValue::I8(-128), GgufValue::I8(127)]);
    assert_eq!(both("uint16"), [GgufValue::U16(0), GgufValue::U16(65535)]);
    assert_eq!(both("int16"), [GgufValue::I16(i16::MIN), GgufValue::I16(i16::MAX)]);
    assert_eq!(both("uint32"), [GgufValue::U32(0), GgufValue::U32(u32::MAX)]);
    assert_eq!(both("int32"), [GgufValue::I32(i32::MIN), GgufValue::I32(i32::MAX)]);
    assert_eq!(both("float32"), [GgufValue::F32(0.1), GgufValue::F32(-0.0)]);
    assert_eq!(both("bool"), [GgufValue::Bool(false), GgufValue::Bool(true)]);
    assert_eq!(both("string"), ["", "Grüße"].map(|text| GgufValue::Str(text.to_owned())));
    assert_eq!(both("uint64"), [GgufValue::U64(0), GgufValue::U64(u64::MAX)]);
    assert_eq!(both("int64"), [GgufValue::I64(i64::MIN), GgufValue::I64(i64::MAX)]);
    assert_eq!(both("float64"), [GgufValue::F64(0.1), GgufValue::F64(-1e300)]);
    for kind in ["uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool"]
        .iter()
        .chain(&["string", "uint64", "int64", "float64"])
    {
        assert_eq!(value(&format!("test.{kind}")), &both(kind)[1]);
    }
    assert_eq!(value("test.uint64").as_u64(), Some(u64::MAX));
    assert_eq!(value("test.uint64").as_i64(), None);
    assert_eq!(value("test.int8").as_u64(), Some(127));
    assert_eq!(value("test.array.int8").as_array().and_then(|a| a.get(0)?.as_u64()), None);
    assert_eq!(value("test.bool").as_bool(), Some(true));
    assert_eq!(value("test.bool").as_u64(), None);
    assert_eq!(value("test.float32").as_f32().map(f32::to_bits), Some((-0.0_f32).to_bits()));
    assert_eq!(value("test.float64").as_f64(), Some(-1e300));
    assert_eq!(value("test.float64").as_f32(), None);
    assert_eq!(value("test.string").as_array(), None);
}

/// What `--params` does.
#[test]
fn programs_take_constants_from_gguf_files() {
    let text = std::fs::read_to_string(corpus("suite/quantized/q4_0.rx")).expect("it is there");
    let main = "
def main() -> Tensor((3, 128), \"f32\"):
    return dequantized(
        param(\"blocks.q4_0.d\", Tensor((3, 4), \"f16\")),
        param(\"blocks.q4_0.qs\", Tensor((3, 16), \"u32\")),
    )
";
    let program = loaded("constants", &format!("{text}{main}"));
    let weights = Weights::open(&file()).expect("the file is readable");
    let externals = constants(&program.module, &weights).expect("all constants are there");
    let options = RunOptions { externals: Arc::new(externals), ..RunOptions::default() };
    let ran = run(&program.module, "main", Vec::new(), &options);
    let Ok(Value::Tensor(found)) = ran.result else { panic!("{:?}", ran.result) };
    assert_same_bits("constants", &found, &reference("blocks.q4_0"));

    let missing = main.replace("blocks.q4_0.d", "blocks.q4_0");
    let program = loaded("missing", &format!("{text}{missing}"));
    let why = constants(&program.module, &weights).map(|_: _| ()).expect_err("it is missing");
    let clause = "the file has its blocks of Q4_0 as `blocks.q4_0.d`, `blocks.q4_0.qs`";
    assert!(
        why.contains(&format!(
            "`blocks.q4_0` is missing; expected Tensor((3, 4), \"f16\"); {clause}"
        )),
        "{why}"
    );
    let name = Name::new("blocks.q4_0").to_string();
    let why = weights.tensors(&[name]).map(|_| ()).expect_err("it is no entry");
    assert!(why.ends_with(&format!("`blocks.q4_0`: {clause}")), "{why}");
}

/// Reads all of a changed file.
fn read(bytes: Vec<u8>) -> Result<(), String> {
    let gguf = Gguf::from_bytes(bytes)?;
    for name in gguf.entries().keys() {
        let tensor = gguf.tensor(name)?;
        assert!(tensor.shape().len() <= 4);
    }
    Ok(())
}

fn content() -> (Vec<u8>, usize) {
    let bytes = std::fs::read(file()).expect("the file is there");
    // The name of the last tensor stands near the end of the header.
    let last = b"blocks.stack";
    let at = bytes.windows(last.len()).rposition(|window| window == last);
    (bytes, at.expect("the header names it") + 100)
}

#[test]
fn truncated_files_are_refused() {
    let (bytes, _) = content();
    // The last tensor has 24 blocks of 34 bytes; what is behind it is padding.
    let needed = bytes.len() / 64 * 64 - (24_usize * 34).next_multiple_of(64) + 24 * 34;
    for length in 0..needed {
        let why = read(bytes[..length].to_vec()).expect_err("something is missing");
        assert!(why.starts_with("the file is no proper GGUF file: "), "{length}: {why}");
        assert!(why.contains(" left") || why.contains("end after the file"), "{length}: {why}");
    }
    read(bytes[..needed].to_vec()).expect("all but the padding is there");
}

#[test]
fn changed_headers_are_read_or_refused() {
    let (bytes, header) = content();
    let mut refused = 0;
    let mut try_it = |at: usize, with: &[u8]| {
        let mut changed = bytes.clone();
        changed[at..at + with.len()].copy_from_slice(with);
        if let Err(why) = read(changed) {
            refused += 1;
            let is_sentence = why.starts_with("the file is no proper GGUF file: ")
                || why.starts_with("cannot read the file: ");
            assert!(is_sentence && why.len() < 1000, "{at}: {why}");
        }
    };
    for (at, &byte) in bytes.iter().enumerate().take(header) {
        for with in [0, 1, 0x7f, 0x80, 0xff, byte ^ 1, byte ^ 0x10, byte.wrapping_add(1)] {
            try_it(at, &[with]);
        }
        // Forged lengths: an allocation of that size would fail.
        for with in [u64::MAX, 1 << 63, 1 << 48] {
            try_it(at, &with.to_le_bytes());
        }
    }
    assert!(refused > header, "{refused}");
}
