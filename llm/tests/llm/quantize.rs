//! Matrices that are quantized when a model is compiled: bit for bit what the package `gguf` makes of them
//! (`scripts/models/quantize_reference.py`).

use crate::model::{Contents, Model, config_text, difference, reference, tensors};
use relax_llm::{Config, Quantization, quantized_text};
use relax_program::frontend::{Program, RunOptions, run};
use relax_program::tensor_files::read_npz;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::dtype::DType;
use relax_syntax::span::Source;
use std::path::Path;

fn array(name: &str) -> Tensor {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/models/quantized.npz");
    read_npz(&std::fs::read(path).expect("it is there"), Some(name)).expect("it is an array")
}

fn quantized(name: &str, quantization: Quantization) -> Program {
    let config = Config::from_json(&config_text(name)).expect("it is supported");
    let text = quantized_text(&config, &Contents::of(&tensors(name)), Some(quantization));
    let program = Program::load(Source::new("model.rx", text.expect("it has a text").text));
    assert!(program.diagnostics.is_empty(), "{:?}", program.diagnostics);
    program
}

fn call(program: &Program, function: &str, argument: Tensor) -> Tensor {
    let arguments = vec![Value::Tensor(argument)];
    match run(&program.module, function, arguments, &RunOptions::default()).result {
        Ok(Value::Tensor(tensor)) => tensor,
        other => panic!("{other:?}"),
    }
}

/// Of f16, the words of 16 bits.
fn words(tensor: &Tensor) -> Vec<u16> {
    let elements = tensor.to_floats();
    elements.iter().map(|&element| half::f16::from_f64(element).to_bits()).collect()
}

fn integers(tensor: &Tensor) -> Vec<i128> {
    tensor.to_ints().iter().copied().collect()
}

fn scale(block: &[i128]) -> u16 {
    u16::try_from(block[0] | block[1] << 8).expect("two bytes")
}

#[test]
fn q8_0_is_that_of_gguf() {
    let program = quantized("llama", Quantization::Q8_0);
    let want = integers(&array("q8_0"));
    let scales = words(&call(&program, "q8_0_d_of_f32", array("x")));
    let found = integers(&call(&program, "q8_0_qs_of_f32", array("x")));
    assert_eq!(want.len(), scales.len() * 34);
    for (number, block) in want.chunks(34).enumerate() {
        assert_eq!(scales[number], scale(block), "block {number}");
        let bytes: Vec<i128> =
            block[2..].iter().map(|&byte| if byte > 127 { byte - 256 } else { byte }).collect();
        assert_eq!(found[number * 32..][..32], bytes, "block {number}");
    }
}

#[test]
fn q4_0_is_that_of_gguf() {
    let program = quantized("llama", Quantization::Q4_0);
    let want = integers(&array("q4_0"));
    let scales = words(&call(&program, "q4_0_d_of_f32", array("x")));
    let found = integers(&call(&program, "q4_0_nibbles_of_f32", array("x")));
    assert_eq!(want.len(), scales.len() * 18);
    for (number, block) in want.chunks(18).enumerate() {
        assert_eq!(scales[number], scale(block), "block {number}");
        for element in 0..32 {
            let byte = block[2 + element % 16];
            let packed = found[number * 4 + element / 8];
            let nibble = packed >> (element % 8 * 4) & 15;
            assert_eq!(nibble, byte >> (element / 16 * 4) & 15, "block {number}, {element}");
        }
    }
}

#[test]
fn bf16_is_that_of_gguf() {
    let program = quantized("llama", Quantization::Bf16);
    let found = call(&program, "bf16_of_f32", array("x")).to_floats();
    let found: Vec<i128> =
        found.iter().map(|&x| half::bf16::from_f64(x).to_bits().into()).collect();
    assert_eq!(found, integers(&array("bf16")));
}

/// `down` has rows of 43 elements.
#[test]
fn matrices_of_whole_blocks_are_quantized() {
    for (quantization, most) in
        [(Quantization::Q8_0, 0.3), (Quantization::Q4_0, 3.0), (Quantization::Bf16, 0.3)]
    {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let config = Config::from_json(&config_text("llama")).expect("it is supported");
            let stored = tensors("llama").into_iter().map(|(name, t)| (name, t.cast(dtype)));
            let stored: std::collections::BTreeMap<_, _> = stored.collect();
            let contents = Contents::of(&stored);
            let text = quantized_text(&config, &contents, Some(quantization)).expect("a text");
            let down = |layer| format!("model.layers.{layer}.mlp.down_proj.weight");
            let kept: Vec<String> = text.kept.keys().cloned().collect();
            let (matrices, want) = match (quantization, dtype) {
                (Quantization::Bf16, DType::BF16) => (0, 16),
                (Quantization::Bf16, _) => (16, 0),
                _ => (14, 2),
            };
            assert_eq!((text.quantized.len(), kept.len()), (matrices, want), "{quantization}");
            if want == 2 {
                assert_eq!(kept, [down(0), down(1)]);
                assert_eq!(text.kept[&down(0)], "its rows of 43 elements are no blocks of 32");
            }
            let model = Model::of_text(config, text.text, stored);
            let logits = model.scores(&reference("llama", "tokens"));
            let found = difference(&reference("llama", "logits"), &logits);
            assert!(found > 1e-4 && found < most, "{quantization} {dtype}: {found}");
        }
    }
}

#[test]
fn what_stays_is_named_with_a_reason() {
    let config = Config::from_json(&config_text("gpt2")).expect("it is supported");
    let contents = Contents::of(&tensors("gpt2"));
    let text = quantized_text(&config, &contents, Some(Quantization::Q8_0)).expect("a text");
    let reasons: std::collections::BTreeSet<&str> =
        text.kept.values().map(String::as_str).collect();
    assert!(reasons.contains("it is a table of positions"), "{reasons:?}");
    assert!(reasons.contains("it is stored as (in, out)"), "{reasons:?}");
    assert!(text.quantized.iter().all(|name| name.contains("wte")), "{:?}", text.quantized);
}
