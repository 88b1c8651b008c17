//! A tiny model of `corpus/models/llm/tiny`: configuration, tensors, text and runs.

use ndarray::ArrayD;
use relax_llm::{Config, Format, Input, PAGE, Stored, Tensors, text};
use relax_program::externals::constants;
use relax_program::frontend::{Program, RunOptions, run};
use relax_program::tensor_files::{Weights, read_npz};
use relax_semantics::stop::Stop;
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::dtype::DType;
use relax_syntax::span::Source;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Every folder of tiny models.
pub(crate) const ALL: [&str; 12] = [
    "llama",
    "llama3",
    "llama_linear",
    "mistral",
    "qwen2",
    "qwen3",
    "gemma2",
    "gemma3",
    "phi3",
    "gpt2",
    "whisper",
    "llava",
];

pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/models/llm/tiny").join(name)
}

/// Formats and shapes by name.
#[derive(Clone, Default)]
pub(crate) struct Contents(pub(crate) BTreeMap<String, Stored>);

impl Tensors for Contents {
    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn stored(&self, name: &str) -> Option<Stored> {
        self.0.get(name).cloned()
    }
}

impl Contents {
    pub(crate) fn of(tensors: &BTreeMap<String, Tensor>) -> Self {
        let stored = |(name, tensor): (&String, &Tensor)| {
            let format = Format::named(&tensor.dtype().to_string());
            (name.clone(), Stored { format, shape: tensor.shape().to_vec() })
        };
        Self(tensors.iter().map(stored).collect())
    }
}

/// The text of `config.json` of a tiny model.
pub(crate) fn config_text(name: &str) -> String {
    fs::read_to_string(folder(name).join("config.json")).expect("the corpus has it")
}

pub(crate) fn tensors(name: &str) -> BTreeMap<String, Tensor> {
    let weights = Weights::open(&folder(name).join("model.safetensors")).expect("it opens");
    let names: Vec<String> = weights.entries().expect("it has a header").into_keys().collect();
    let tensors = weights.tensors(&names).expect("all are read");
    names.into_iter().zip(tensors).collect()
}

/// Keys and values of each layer.
pub(crate) struct Cache {
    /// How many are in use.
    pub(crate) rows: usize,
    pub(crate) tensors: Vec<Tensor>,
}

/// A program with its weights.
pub(crate) struct Model {
    pub(crate) program: Program,
    externals: Arc<BTreeMap<Name, Tensor>>,
    config: Config,
    /// What the encoder makes of each row of samples, or of each image; nothing where there is none.
    encoded: Vec<Vec<Tensor>>,
}

impl Model {
    /// The text of a configuration, which must be well-formed without any warning.
    pub(crate) fn new(
        config: Config,
        contents: &Contents,
        tensors: BTreeMap<String, Tensor>,
    ) -> Self {
        let text = text(&config, contents).expect("it has a text");
        Self::of_text(config, text, tensors)
    }

    pub(crate) fn of_text(config: Config, text: String, tensors: BTreeMap<String, Tensor>) -> Self {
        let program = Program::load(Source::new("model.rx", text.as_str()));
        if let Some(first) = program.diagnostics.first() {
            let (line, _) = program.source.line_column(first.primary.span.start);
            panic!("{} at line {line}: {}\n{text}", first.code, first.message);
        }
        let externals =
            tensors.into_iter().map(|(name, tensor)| (Name::new(name), tensor)).collect();
        Self { program, externals: Arc::new(externals), config, encoded: Vec::new() }
    }

    pub(crate) fn tiny(name: &str) -> Self {
        let config = Config::from_json(&config_text(name)).expect("it is supported");
        let tensors = tensors(name);
        let mut model = Self::new(config, &Contents::of(&tensors), tensors);
        model.encode(name);
        // The loader of weights agrees that all are there.
        let weights = Weights::open(&folder(name).join("model.safetensors")).expect("it opens");
        constants(&model.program.module, &weights).expect("the checkpoint has every parameter");
        model
    }

    /// Encodes each row of samples, or each image.
    fn encode(&mut self, name: &str) {
        let Some(encoder) = &self.config.encoder else { return };
        let inputs = match encoder.input {
            Some(Input::Image(_)) => reference(name, "pixels"),
            _ => reference(name, "samples"),
        };
        let mut shape = inputs.shape().to_vec();
        let rows = std::mem::replace(&mut shape[0], 1);
        let length: usize = shape.iter().product();
        for row in 0..rows {
            let places: Vec<usize> = (row * length..(row + 1) * length).collect();
            let result = self.entry("encode", vec![inputs.select(&shape, &places)]);
            let encoded = match result.unwrap_or_else(|stop| panic!("encode: {stop}")) {
                Value::Tensor(features) => vec![features],
                several => tensors_of(several),
            };
            self.encoded.push(encoded);
        }
    }

    /// Result of an entry whose arguments are tensors.
    pub(crate) fn entry(&self, entry: &str, arguments: Vec<Tensor>) -> Result<Value, Stop> {
        let arguments = arguments.into_iter().map(Value::Tensor).collect();
        let options = RunOptions { externals: self.externals.clone(), ..RunOptions::default() };
        run(&self.program.module, entry, arguments, &options).result
    }

    /// What a call is given beside tokens and caches, after so many positions of each sequence: of two sequences each has its own samples or
    /// image, else all the first ones. The tokens of an image are those behind the first one.
    fn encoded(&self, tokens: &Tensor, before: &[i64]) -> Vec<Tensor> {
        let Some(first) = self.encoded.first() else { return Vec::new() };
        let batch = before.len();
        let joined = |at: usize| {
            let rows = (0..batch).map(|row| &self.encoded[if batch == 2 { row } else { 0 }][at]);
            let elements = rows.flat_map(Tensor::to_floats).collect();
            let mut shape = first[at].shape().to_vec();
            shape[0] *= batch;
            let array = ArrayD::from_shape_vec(shape, elements).expect("they fit");
            Tensor::from_floats(DType::F32, array)
        };
        let mut tensors: Vec<Tensor> = (0..first.len()).map(joined).collect();
        if let Some(image) = self.config.image_input() {
            let rows = i64::try_from(image.rows()).expect("few rows");
            let tokens_of = tokens.to_ints();
            let place = |(sequence, &before): (usize, &i64), at: usize| {
                let row = before + at as i64 - 1;
                let is_row = tokens_of[[sequence, at]] == i128::from(image.token);
                if is_row && (0..rows).contains(&row) { sequence as i64 * rows + row } else { -1 }
            };
            let count = tokens.shape()[1];
            let places = before.iter().enumerate();
            let places = places.flat_map(|sequence| (0..count).map(move |at| place(sequence, at)));
            tensors.push(integers(&[batch, count], &places.collect::<Vec<i64>>()));
        }
        tensors
    }

    /// Logits. The tokens join the cache.
    pub(crate) fn call(&self, entry: &str, tokens: Tensor, cache: &mut Cache) -> Tensor {
        let count = tokens.shape()[1];
        let result = self.run(entry, tokens, cache);
        let result = result.unwrap_or_else(|stop| panic!("{entry}: {stop}"));
        let mut tensors = tensors_of(result);
        let logits = tensors.remove(0);
        *cache = Cache { rows: cache.rows + count, tensors };
        logits
    }

    /// What a call gives.
    pub(crate) fn run(&self, entry: &str, tokens: Tensor, cache: &Cache) -> Result<Value, Stop> {
        let rows = i64::try_from(cache.rows).expect("it is small");
        let encoded = self.encoded(&tokens, &vec![rows; tokens.shape()[0]]);
        let mut arguments = vec![Value::Tensor(tokens), Value::Shape(vec![rows])];
        arguments.extend(cache.tensors.iter().cloned().chain(encoded).map(Value::Tensor));
        let options = RunOptions { externals: self.externals.clone(), ..RunOptions::default() };
        run(&self.program.module, entry, arguments, &options).result
    }

    /// Logits of the last tokens of sequences of these lengths, whose pages a table has.
    pub(crate) fn step_in_pages(
        &self,
        tokens: &Tensor,
        lengths: &[i64],
        table: &Tensor,
        pools: &mut Vec<Tensor>,
    ) -> Result<Tensor, Stop> {
        let encoded = self.encoded(tokens, lengths);
        let lengths = integers(&[lengths.len()], lengths);
        let given = [tokens.clone(), lengths, table.clone()].into_iter();
        let arguments = given.chain(pools.iter().cloned()).chain(encoded).collect();
        let mut tensors = tensors_of(self.entry("step_in_pages", arguments)?);
        let logits = tensors.remove(0);
        *pools = tensors;
        Ok(logits)
    }

    /// Pools of so many pages. Whoever reads a row that is not in use finds NaN.
    pub(crate) fn pools(&self, pages: usize) -> Vec<Tensor> {
        let shape = [pages, self.config.kv_heads, PAGE, self.config.head_dim];
        let tensor = Tensor::full(DType::F32, &shape, Number::Float(f64::NAN));
        vec![tensor; 2 * self.config.layers.len()]
    }

    pub(crate) fn vocabulary(&self) -> usize {
        self.config.vocabulary
    }

    /// A cache with room for so many rows, and none in use. Whoever reads a free one finds NaN.
    pub(crate) fn cache(&self, batch: usize, capacity: usize) -> Cache {
        let shape = [batch, self.config.kv_heads, capacity, self.config.head_dim];
        let tensor = Tensor::full(DType::F32, &shape, Number::Float(f64::NAN));
        Cache { rows: 0, tensors: vec![tensor; 2 * self.config.layers.len()] }
    }

    /// Logits of all tokens in one call without earlier positions.
    pub(crate) fn scores(&self, tokens: &Tensor) -> Tensor {
        let mut cache = self.cache(tokens.shape()[0], tokens.shape()[1]);
        self.call("score", tokens.clone(), &mut cache)
    }

    /// The tokens of largest logit that follow a prompt, one by one.
    pub(crate) fn greedy(&self, prompt: &Tensor, count: usize) -> Vec<i128> {
        let mut cache = self.cache(1, prompt.shape()[1] + count);
        let mut given = prompt.clone();
        let mut tokens = Vec::new();
        for _ in 0..count {
            let logits = self.call("step", given, &mut cache).to_floats();
            let best = (0..logits.len()).max_by(|&a, &b| logits[[0, a]].total_cmp(&logits[[0, b]]));
            let token = i128::try_from(best.expect("there are logits")).expect("it is small");
            tokens.push(token);
            given = Tensor::full(DType::I64, &[1, 1], Number::Int(token));
        }
        tokens
    }
}

/// The items of a tuple of tensors.
fn tensors_of(value: Value) -> Vec<Tensor> {
    let Value::Tuple(items) = value else { panic!("{value:?} is no tuple") };
    let tensor = |item| match item {
        Value::Tensor(tensor) => tensor,
        other => panic!("{other:?} is no tensor"),
    };
    items.into_iter().map(tensor).collect()
}

/// A tensor of i64.
pub(crate) fn integers(shape: &[usize], elements: &[i64]) -> Tensor {
    let elements = elements.iter().map(|&element| element.into()).collect();
    Tensor::from_ints(DType::I64, ArrayD::from_shape_vec(shape, elements).expect("it fits"))
}

/// An array of the references of a tiny model.
pub(crate) fn reference(name: &str, array: &str) -> Tensor {
    let bytes = fs::read(folder(name).join("reference.npz")).expect("the corpus has it");
    read_npz(&bytes, Some(array)).expect("it is an array")
}

/// Columns `begin` to `end` of a matrix of tokens, or of rows of logits.
pub(crate) fn columns(tensor: &Tensor, begin: usize, end: usize) -> Tensor {
    let inner: usize = tensor.shape()[2..].iter().product();
    let mut shape = tensor.shape().to_vec();
    let length = shape[1];
    shape[1] = end - begin;
    let positions: Vec<usize> = (0..shape[0])
        .flat_map(|row| (begin * inner..end * inner).map(move |at| row * length * inner + at))
        .collect();
    tensor.select(&shape, &positions)
}

/// The largest difference as a share of the standard deviation of the expected elements; infinite where a shape differs or
/// an element is no number.
pub(crate) fn difference(want: &Tensor, got: &Tensor) -> f64 {
    if want.shape() != got.shape() || want.is_empty() {
        return f64::INFINITY;
    }
    let (want, got) = (want.to_floats(), got.to_floats());
    #[expect(clippy::cast_precision_loss, reason = "few elements")]
    let count = want.len() as f64;
    let mean = want.sum() / count;
    let deviation = (want.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt();
    let largest = want.iter().zip(&got).map(|(a, b)| (a - b).abs()).fold(0.0, |largest, next| {
        if next.is_nan() { f64::INFINITY } else { f64::max(largest, next) }
    });
    largest / deviation
}
