//! The tiny models as GGUF files have them: other names, permuted queries and keys, norms with 1 added, matrices of GPT-2
//! transposed. Their logits are those of the original.

use crate::model::{Contents, Model, config_text, difference, reference, tensors};
use relax_llm::{Config, Metadata, Naming, Role};
use relax_semantics::tensor::{Number, Tensor};
use relax_syntax::dtype::DType;
use std::collections::BTreeMap;

/// Metadata as literals.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Number(f64),
    Text(&'static str),
    Length(usize),
}

#[derive(Clone, Default)]
pub(crate) struct Table(pub(crate) BTreeMap<String, Item>);

impl Metadata for Table {
    fn keys(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn number(&self, key: &str) -> Option<f64> {
        if let Some(Item::Number(number)) = self.0.get(key) { Some(*number) } else { None }
    }

    fn text(&self, key: &str) -> Option<String> {
        if let Some(Item::Text(text)) = self.0.get(key) { Some((*text).to_owned()) } else { None }
    }

    fn flag(&self, _: &str) -> Option<bool> {
        None
    }

    fn texts(&self, _: &str) -> Option<Vec<String>> {
        None
    }

    fn length(&self, key: &str) -> Option<usize> {
        if let Some(Item::Length(length)) = self.0.get(key) { Some(*length) } else { None }
    }
}

/// Metadata of the sizes that all tiny models share, and more keys under the prefix.
pub(crate) fn metadata(architecture: &'static str, more: &[(&str, f64)]) -> Table {
    let mut table = BTreeMap::from([
        ("general.architecture".to_owned(), Item::Text(architecture)),
        ("general.name".to_owned(), Item::Text("tiny")),
        ("tokenizer.ggml.tokens".to_owned(), Item::Length(64)),
    ]);
    let shared = [
        ("block_count", 2.0),
        ("embedding_length", 32.0),
        ("feed_forward_length", 43.0),
        ("context_length", 128.0),
        ("attention.head_count", 4.0),
    ];
    for (key, number) in shared.iter().chain(more) {
        table.insert(format!("{architecture}.{key}"), Item::Number(*number));
    }
    Table(table)
}

/// Rows of a matrix or elements of a vector in another order.
fn reordered(tensor: &Tensor, order: &[usize]) -> Tensor {
    let width: usize = tensor.shape()[1..].iter().product();
    let positions: Vec<usize> =
        order.iter().flat_map(|row| (0..width).map(move |at| row * width + at)).collect();
    tensor.select(tensor.shape(), &positions)
}

/// Element `i` of each half comes to 2i and 2i + 1, as the converter of llama.cpp has it.
fn interleaved(tensor: &Tensor, head_dim: usize) -> Tensor {
    let half = head_dim / 2;
    let order: Vec<usize> = (0..tensor.shape()[0])
        .map(|row| {
            let (head, at) = (row / head_dim, row % head_dim);
            head * head_dim + at % 2 * half + at / 2
        })
        .collect();
    reordered(tensor, &order)
}

fn transposed(tensor: &Tensor) -> Tensor {
    let &[rows, columns] = tensor.shape() else { return tensor.clone() };
    let positions: Vec<usize> =
        (0..columns).flat_map(|column| (0..rows).map(move |row| row * columns + column)).collect();
    tensor.select(&[columns, rows], &positions)
}

fn plus_one(tensor: &Tensor) -> Tensor {
    let sums = tensor.to_floats().mapv(|x| f64::from(x as f32 + 1.0));
    Tensor::from_floats(DType::F32, sums)
}

/// Every role, by the layers that have it.
fn roles() -> Vec<Role> {
    use Role::*;
    vec![
        Embedding,
        Positions,
        FinalNorm,
        FinalNormBias,
        Head,
        AttentionNorm,
        AttentionNormBias,
        Query,
        QueryBias,
        Key,
        KeyBias,
        Value,
        ValueBias,
        QueryKeyValue,
        QueryKeyValueBias,
        QueryNorm,
        KeyNorm,
        Output,
        OutputBias,
        PostAttentionNorm,
        FeedForwardNorm,
        FeedForwardNormBias,
        Gate,
        GateBias,
        Up,
        UpBias,
        GateUp,
        Down,
        DownBias,
        PostFeedForwardNorm,
    ]
}

/// The tensors of a tiny model under the names of GGUF.
fn converted(name: &str, config: &Config) -> BTreeMap<String, Tensor> {
    let original = Config::from_json(&config_text(name)).expect("it is supported");
    let mut left = tensors(name);
    let mut found = BTreeMap::new();
    for layer in 0..original.layers.len() {
        for role in roles() {
            // Two roles may have one name; only one of them is in a family.
            let Some(tensor) = left.remove(&original.name(role, layer)) else { continue };
            let role = match role {
                Role::PostAttentionNorm if !name.starts_with("gemma") => Role::FeedForwardNorm,
                role => role,
            };
            let tensor = match (role, name) {
                (
                    Role::Query | Role::Key | Role::QueryBias | Role::KeyBias,
                    "llama" | "llama_linear",
                ) => interleaved(&tensor, original.head_dim),
                (Role::Embedding | Role::Positions, _) => tensor,
                (_, "gpt2") => transposed(&tensor),
                (_, "gemma2" | "gemma3") if tensor.rank() == 1 => plus_one(&tensor),
                _ => tensor,
            };
            found.insert(config.name(role, layer), tensor);
        }
    }
    assert!(left.is_empty(), "{:?}", left.keys());
    found
}

fn agrees(name: &'static str, table: &Table, edit: impl Fn(&mut BTreeMap<String, Tensor>)) {
    let config = Config::from_metadata(table).expect("it is supported");
    assert_eq!(config.naming, Naming::Gguf);
    let mut tensors = converted(name, &config);
    edit(&mut tensors);
    let model = Model::new(config, &Contents::of(&tensors), tensors);
    let found = difference(&reference(name, "logits"), &model.scores(&reference(name, "tokens")));
    eprintln!("{name} as GGUF: {found:.1e}");
    assert!(found <= 1e-4, "{name}: {found}");
}

const EPSILON: (&str, f64) = ("attention.layer_norm_rms_epsilon", 1e-6);
const KV_HEADS: (&str, f64) = ("attention.head_count_kv", 2.0);

#[test]
fn llama() {
    let more = [EPSILON, KV_HEADS, ("rope.dimension_count", 8.0), ("rope.freq_base", 10000.0)];
    agrees("llama", &metadata("llama", &more), |_| {});
}

/// Heads of another width; the factor of frequencies as key, and as tensor.
#[test]
fn llama_linear() {
    let wide = [EPSILON, KV_HEADS, ("attention.key_length", 10.0), ("rope.freq_base", 500.0)];
    let mut table = metadata("llama", &wide);
    let four = Tensor::full(DType::F32, &[5], Number::Float(4.0));
    agrees("llama_linear", &table, |tensors| {
        tensors.insert("rope_freqs.weight".to_owned(), four.clone());
    });
    table.0.insert("llama.rope.scaling.type".to_owned(), Item::Text("linear"));
    table.0.insert("llama.rope.scaling.factor".to_owned(), Item::Number(4.0));
    agrees("llama_linear", &table, |_| {});
}

#[test]
fn qwen2() {
    agrees("qwen2", &metadata("qwen2", &[EPSILON, KV_HEADS]), |_| {});
}

#[test]
fn gemma2() {
    let more = [
        EPSILON,
        KV_HEADS,
        ("attention.key_length", 12.0),
        ("attention.value_length", 12.0),
        ("attention.sliding_window", 3.0),
        ("attn_logit_softcapping", 2.0),
        ("final_logit_softcapping", 1.5),
    ];
    let table = metadata("gemma2", &more);
    let mut config = Config::from_metadata(&table).expect("it is supported");
    // The tiny model has another factor of scores, which GGUF files cannot say.
    assert!((config.score_scale - 12f64.powf(-0.5)).abs() < 1e-12);
    config.score_scale = 1.0 / 3.0;
    let tensors = converted("gemma2", &config);
    let model = Model::new(config, &Contents::of(&tensors), tensors);
    let tokens = reference("gemma2", "tokens");
    let found = difference(&reference("gemma2", "logits"), &model.scores(&tokens));
    assert!(found <= 1e-4, "{found}");
}

#[test]
fn phi3() {
    let more = [
        ("attention.layer_norm_rms_epsilon", 1e-5),
        KV_HEADS,
        ("rope.dimension_count", 4.0),
        ("attention.sliding_window", 4.0),
    ];
    agrees("phi3", &metadata("phi3", &more), |_| {});
}

#[test]
fn gpt2() {
    agrees("gpt2", &metadata("gpt2", &[("attention.layer_norm_epsilon", 1e-5)]), |_| {});
}

/// Layers of Gemma 3 in a row: five with a window, one without.
#[test]
fn gemma3_has_the_pattern_of_llama_cpp() {
    let more =
        [EPSILON, KV_HEADS, ("attention.key_length", 12.0), ("attention.sliding_window", 3.0)];
    let mut table = metadata("gemma3", &more);
    table.0.insert("gemma3.block_count".to_owned(), Item::Number(7.0));
    let config = Config::from_metadata(&table).expect("it is supported");
    let windows: Vec<bool> = config.layers.iter().map(|layer| layer.window.is_some()).collect();
    assert_eq!(windows, [true, true, true, true, true, false, true]);
    let rotaries: Vec<usize> = config.layers.iter().map(|layer| layer.rotary).collect();
    assert_eq!(rotaries, [1, 1, 1, 1, 1, 0, 1]);
    assert_eq!(config.rotaries.iter().map(|rotary| rotary.base).collect::<Vec<_>>(), [1e6, 1e4]);
}
