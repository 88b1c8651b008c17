//! Weights in other formats than f32: 16 bits, and the block formats of GGUF files. Logits are those of the decoded weights.

use crate::blocks::{Checkpoint, Tensors, WIDE, blocks, wide};
use crate::model::{Contents, Model, config_text, difference, reference, tensors};
use relax_llm::{Config, Format, Stored};
use relax_semantics::tensor::Tensor;
use relax_syntax::dtype::DType;

/// Decoding is exact, so that both texts compute the same.
fn agrees(config: &Config, contents: &Contents, (stored, decoded): (Tensors, Tensors)) {
    let tokens = reference("llama", "tokens");
    let tokens = if config.vocabulary < 64 { small(&tokens, config.vocabulary) } else { tokens };
    let plain = Model::new(config.clone(), &Contents::of(&decoded), decoded).scores(&tokens);
    let got = Model::new(config.clone(), contents, stored).scores(&tokens);
    let found = difference(&plain, &got);
    assert!(found <= 1e-6, "{}: {found}", config.family);
}

/// Tokens of a smaller vocabulary.
fn small(tokens: &Tensor, vocabulary: usize) -> Tensor {
    let most = i128::try_from(vocabulary).expect("it is small");
    Tensor::from_ints(DType::I64, tokens.to_ints().mapv(|token| token % most))
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
            // The weights did change.
            let config = Config::from_json(&config_text(name)).expect("it is supported");
            let model = Model::new(config.clone(), &Contents::of(&stored), stored.clone());
            let logits = model.scores(&reference(name, "tokens"));
            assert!(difference(&reference(name, "logits"), &logits) > 1e-4, "{name}");
            agrees(&config, &Contents::of(&stored), (stored, decoded));
        }
    }
}

/// `down` has rows of 43 elements and stays f32. Gemma's embedding is also its head; with heads of 12, `output` stays too.
#[test]
fn blocks_of_32_elements() {
    for format in ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0"] {
        for name in ["llama", "gemma2"] {
            let Checkpoint { stored, fields, decoded } = blocks(format, tensors(name));
            assert!(fields.len() > decoded.len() + 10, "{format} {name}");
            let config = Config::from_json(&config_text(name)).expect("it is supported");
            agrees(&config, &Contents(stored), (fields, decoded));
        }
    }
}

#[test]
fn blocks_of_256_elements() {
    let config = Config::from_json(WIDE).expect("it is supported");
    for format in ["q4_k", "q5_k", "q6_k"] {
        let Checkpoint { stored, fields, decoded } = blocks(format, wide());
        assert!(fields.len() > decoded.len() + 10, "{format}");
        agrees(&config, &Contents(stored), (fields, decoded));
    }
}

/// As files of Q4_K_M have them: one format for most matrices of a layer, another one for values and `down`.
#[test]
fn mixed_formats_of_a_layer() {
    let config = Config::from_json(WIDE).expect("it is supported");
    let (mut most, other) = (blocks("q4_k", wide()), blocks("q6_k", wide()));
    let is_other = |name: &str| name.contains("v_proj") || name.contains("down_proj");
    most.fields.retain(|name, _| !is_other(name));
    for (name, stored) in other.stored.into_iter().filter(|(name, _)| is_other(name)) {
        most.stored.insert(name, stored);
    }
    most.fields.extend(other.fields.into_iter().filter(|(name, _)| is_other(name)));
    most.decoded.extend(other.decoded.into_iter().filter(|(name, _)| is_other(name)));
    agrees(&config, &Contents(most.stored), (most.fields, most.decoded));
}

/// Layers with other formats have functions of their own.
#[test]
fn mixed_formats_of_layers() {
    let Checkpoint { stored, mut fields, decoded } = blocks("q8_0", tensors("llama"));
    let mut contents = Contents(stored);
    let is_plain = |name: &str| name.contains("layers.1") || name.starts_with("lm_head");
    fields.retain(|name, _| !is_plain(name));
    for (name, tensor) in decoded.iter().filter(|(name, _)| is_plain(name)) {
        let shape = tensor.shape().to_vec();
        contents.0.insert(name.clone(), Stored { format: Format::F32, shape });
        fields.insert(name.clone(), tensor.clone());
    }
    let config = Config::from_json(&config_text("llama")).expect("it is supported");
    agrees(&config, &contents, (fields, decoded));
}
