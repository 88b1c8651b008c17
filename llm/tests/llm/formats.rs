//! Weights in other formats than f32: 16 bits, and the block formats of GGUF files. Logits are those of the decoded weights.

use crate::model::{Contents, Model, config_text, difference, reference, tensors};
use half::f16;
use relax_llm::{BLOCKS, Config, Format, Stored};
use relax_semantics::tensor::Tensor;
use relax_syntax::dtype::DType;
use std::collections::BTreeMap;

type Tensors = BTreeMap<String, Tensor>;

/// Decoding is exact, so that both texts compute the same.
fn same(name: &str, contents: &Contents, stored: Tensors, decoded: Tensors) {
    let config = Config::from_json(&config_text(name)).expect("it is supported");
    let tokens = reference(name, "tokens");
    let plain = Model::new(config.clone(), &Contents::of(&decoded), decoded).scores(&tokens);
    let got = Model::new(config, contents, stored).scores(&tokens);
    let found = difference(&plain, &got);
    assert!(found <= 1e-6, "{name}: {found}");
    // The weights did change.
    assert!(difference(&reference(name, "logits"), &got) > 1e-4, "{name}");
}

#[test]
fn sixteen_bits() {
    for name in ["llama", "qwen3", "gemma3", "phi3", "gpt2"] {
        for dtype in [DType::F16, DType::BF16] {
            let stored: Tensors = tensors(name)
                .into_iter()
                .map(|(name, tensor)| (name, tensor.cast(dtype)))
                .collect();
            let decoded =
                stored.iter().map(|(name, tensor)| (name.clone(), tensor.cast(DType::F32)));
            let decoded: Tensors = decoded.collect();
            same(name, &Contents::of(&stored), stored, decoded);
        }
    }
}

/// Integers and scale of 32 elements.
fn quantized(elements: &[f64], most: f64) -> (Vec<i32>, f16) {
    let largest = elements.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
    let scale = f16::from_f64(largest / most);
    let integer = |x: &f64| (x / scale.to_f64()).round().clamp(-most, most) as i32;
    (elements.iter().map(integer).collect(), scale)
}

/// The words of a block of Q4_0: element e is in word e % 16 / 4, at bit e % 4 * 8 + e / 16 * 4.
fn words(integers: &[i32]) -> [u32; 4] {
    let mut words = [0u32; 4];
    for (e, integer) in integers.iter().enumerate() {
        let bits = u32::try_from(integer + 8).expect("4 bits");
        words[e % 16 / 4] |= bits << (e % 4 * 8 + e / 16 * 4);
    }
    words
}

/// Tensors as fields of a block format where their rows are of whole blocks, and decoded.
fn blocks(format: &str, tensors: Tensors) -> (Contents, Tensors, Tensors) {
    let block = BLOCKS.iter().find(|block| block.name == format).expect("it is a format");
    let mut contents = Contents::of(&tensors);
    let (mut stored, mut decoded) = (Tensors::new(), Tensors::new());
    for (name, tensor) in tensors {
        let &[rows, columns] = tensor.shape() else {
            stored.insert(name.clone(), tensor.clone());
            decoded.insert(name, tensor);
            continue;
        };
        if columns % block.elements != 0 {
            stored.insert(name.clone(), tensor.clone());
            decoded.insert(name, tensor);
            continue;
        }
        let shape = vec![rows, columns];
        contents
            .0
            .insert(name.clone(), Stored { format: Format::Block(block), shape: shape.clone() });
        let elements: Vec<f64> = tensor.to_floats().iter().copied().collect();
        let (mut scales, mut fields, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for chunk in elements.chunks(block.elements) {
            let (integers, scale) = quantized(chunk, if format == "q4_0" { 7.0 } else { 127.0 });
            values.extend(integers.iter().map(|&x| f64::from(x) * scale.to_f64()));
            match format {
                "q4_0" => fields.extend(words(&integers).map(i128::from)),
                _ => fields.extend(integers.into_iter().map(i128::from)),
            }
            scales.push(scale.to_f64());
        }
        let of = |width: usize| [rows, columns / block.elements * width];
        let float = |dtype, shape: &[usize], values: Vec<f64>| {
            Tensor::from_floats(dtype, array(shape, values))
        };
        let [_, (_, dtype, width)] = block.fields else { panic!("two fields") };
        let dtype = if *dtype == "u32" { DType::U32 } else { DType::I8 };
        stored.insert(format!("{name}.d"), float(DType::F16, &of(1), scales));
        stored.insert(format!("{name}.qs"), Tensor::from_ints(dtype, array(&of(*width), fields)));
        decoded.insert(name, float(DType::F32, &shape, values));
    }
    (contents, stored, decoded)
}

fn array<T>(shape: &[usize], values: Vec<T>) -> ndarray::ArrayD<T> {
    ndarray::ArrayD::from_shape_vec(shape, values).expect("as many elements")
}

/// `down` has rows of 43 elements and stays f32. Gemma's embedding is also its head; with heads of 12, `output` stays too.
#[test]
fn block_formats() {
    for format in ["q4_0", "q8_0"] {
        for name in ["llama", "llama3", "gemma2"] {
            let (contents, stored, decoded) = blocks(format, tensors(name));
            assert!(stored.len() > decoded.len() + 10, "{format} {name}");
            same(name, &contents, stored, decoded);
        }
    }
}

/// Layers with other formats have functions of their own.
#[test]
fn mixed_formats() {
    let (quantized, fields, decoded) = blocks("q8_0", tensors("llama"));
    let is_plain =
        |name: &String| name.starts_with("model.layers.1") || name.starts_with("lm_head");
    let (mut contents, mut stored) = (quantized, fields);
    stored.retain(|name, _| !is_plain(name));
    for (name, tensor) in &decoded {
        if is_plain(name) {
            let shape = tensor.shape().to_vec();
            contents.0.insert(name.clone(), Stored { format: Format::F32, shape });
            stored.insert(name.clone(), tensor.clone());
        }
    }
    same("llama", &contents, stored, decoded);
}
