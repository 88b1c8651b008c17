//! Tiny language models, compiled: no operator is interpreted, logits and greedy tokens are those of transformers
//! (`scripts/models/llm_reference.py`).

use relax_build::{KernelCheck, build_cpu, lower_for_cpu, lower_packed_for_cpu};
use relax_corpus::requirement;
use relax_corpus::sample::Sample;
use relax_cpu::{Cache, Compiler, hardware};
use relax_emit::Sums;
use relax_llm::{BLOCKS, Config, Format, Stored, Tensors, text};
use relax_lower::constants::Evaluated;
use relax_lower::program::Around;
use relax_program::externals::constants;
use relax_program::frontend::{Program, print};
use relax_program::tensor_files::{Entry, Weights, read_npz};
use relax_reference::{Printed, register, to_machine, to_semantics};
use relax_rewrite::fallback::Fallbacks;
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::Module;
use relax_semantics::ops::Limits;
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::dtype::DType;
use relax_syntax::span::Source;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Share of the standard deviation of logits: both sum f32 in an order of their own.
const TOLERANCE: f64 = 1e-4;

/// A tiny model of each family. To compile one takes seconds.
const FAMILIES: [&str; 8] =
    ["llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "gpt2"];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/models/llm/tiny").join(name)
}

/// A checkpoint, with matrices of whole blocks in a block format.
struct Contents(BTreeMap<String, Entry>, Option<&'static str>);

impl Tensors for Contents {
    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn stored(&self, name: &str) -> Option<Stored> {
        let Entry { dtype, shape } = self.0.get(name)?;
        let dtype = dtype.expect("the language has it").to_string();
        let is_whole = shape.len() == 2 && shape[1].is_multiple_of(BLOCKS[0].elements);
        let format = Format::named(self.1.filter(|_| is_whole).unwrap_or(&dtype));
        Some(Stored { format, shape: shape.clone() })
    }
}

/// A program, its weights and the shape of a cache for each sentence.
struct Model {
    program: Program,
    externals: BTreeMap<Name, Tensor>,
    config: Config,
}

impl Model {
    fn read(name: &str) -> Self {
        let json = fs::read_to_string(folder(name).join("config.json")).expect("it is there");
        let config = Config::from_json(&json).expect("it is supported");
        let weights = Weights::open(&folder(name).join("model.safetensors")).expect("it opens");
        let contents = Contents(weights.entries().expect("it has a header"), None);
        let text = text(&config, &contents).expect("it has a text");
        let program = Program::load(Source::new("model.rx", text));
        assert!(program.diagnostics.is_empty(), "{:?}", program.diagnostics);
        let externals = constants(&program.module, &weights).expect("all are there");
        Self { program, externals, config }
    }

    /// A module file for this processor. No operator may be left to the interpreter.
    fn built(&self, name: &str, compiler: &Compiler) -> Module {
        let cache = tempfile::tempdir().expect("there is a temporary folder");
        let params = Arc::new(self.externals.clone());
        let settings = Settings { params, ..Settings::default() };
        let mut unwatched = Unwatched;
        let mut watch = Fallbacks::before(&mut unwatched);
        let hardware = (hardware().isa, None);
        let Evaluated { module: lowered, values } =
            lower_packed_for_cpu(&self.program.module, &settings, hardware, &mut watch)
                .unwrap_or_else(|failed| panic!("{name}: {failed:?}"));
        let found: Vec<String> =
            watch.found.iter().map(|found| found.diagnostic().message).collect();
        assert!(found.is_empty(), "{name}: {found:?}");
        let mut externals = self.externals.clone();
        externals.extend(values);
        let around = Around {
            externals: &externals,
            source: &self.program.source,
            signatures: &self.program.module,
        };
        let place = Cache::at(cache.path());
        let image =
            build_cpu(&lowered, &around, Sums::AnyOrder, (compiler, &place), KernelCheck::Off)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut module = Module::load(&image.to_bytes()).expect("it loads");
        register(&mut module, &Limits::default(), &Printed::default()).expect("it registers");
        module
    }

    /// Keys and values of no position, for each layer.
    fn no_caches(&self, batch: usize) -> Vec<Tensor> {
        let shape = [batch, 0, self.config.kv_heads, self.config.head_dim];
        vec![Tensor::full(DType::F32, &shape, Number::Float(0.0)); 2 * self.config.layers.len()]
    }
}

/// Logits, then the caches.
fn call(module: &Module, entry: &str, tokens: &Tensor, caches: Vec<Tensor>) -> Vec<Tensor> {
    let arguments = std::iter::once(tokens.clone()).chain(caches).map(Value::Tensor);
    let arguments: Vec<_> =
        arguments.map(|value| to_machine(&value).expect("it is a tensor")).collect();
    let function = module.function(entry).expect("it is an entry");
    let result = function.call(&arguments).unwrap_or_else(|stop| panic!("{entry}: {stop}"));
    let result = to_semantics(&result, &mut |_| None).expect("it is a value");
    let Value::Tuple(items) = result else { panic!("{entry} gives a tuple") };
    let tensor = |item| match item {
        Value::Tensor(tensor) => tensor,
        other => panic!("{other:?} is no tensor"),
    };
    items.into_iter().map(tensor).collect()
}

fn reference(name: &str, array: &str) -> Tensor {
    let bytes = fs::read(folder(name).join("reference.npz")).expect("it is there");
    read_npz(&bytes, Some(array)).expect("it is an array")
}

/// Whether all elements differ by less than the tolerance. NaN does not.
fn is_near(want: &Tensor, got: &Tensor) -> bool {
    let (want, got) = (want.to_floats(), got.to_floats());
    let deviation = want.std(0.0);
    want.shape() == got.shape()
        && want.iter().zip(&got).all(|(a, b)| (a - b).abs() <= TOLERANCE * deviation)
}

/// The tokens of largest logit that follow a prompt, one by one.
fn greedy(model: &Model, module: &Module, prompt: Tensor, count: usize) -> Vec<i128> {
    let (mut given, mut caches) = (prompt, model.no_caches(1));
    let mut tokens = Vec::new();
    for _ in 0..count {
        let mut results = call(module, "step", &given, caches);
        caches = results.split_off(1);
        let logits = results[0].to_floats();
        let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        let (token, _) = best.expect("there are logits");
        let token = i128::try_from(token).expect("it is small");
        tokens.push(token);
        given = Tensor::full(DType::I64, &[1, 1], Number::Int(token));
    }
    tokens
}

#[test]
fn compiled_models_agree_with_transformers() {
    let Ok(compiler) = Compiler::of_system() else {
        requirement::skip("RELAX_REQUIRE_CC", "no C compiler");
        return;
    };
    for &name in Sample::of("compiled language models", 4).take(&FAMILIES) {
        let model = Model::read(name);
        let module = model.built(name, &compiler);
        let logits = call(&module, "score", &reference(name, "tokens"), model.no_caches(2));
        assert!(is_near(&reference(name, "logits"), &logits[0]), "{name}: {:?}", logits[0]);
        let want: Vec<i128> = reference(name, "greedy").to_ints().iter().copied().collect();
        let got = greedy(&model, &module, reference(name, "prompt"), want.len());
        assert_eq!(got, want, "{name}");
    }
}

/// The decoded matrix of a product is never stored, and rows of the embedding are decoded alone.
#[test]
fn block_formats_are_decoded_in_kernels() {
    for (format, decoder) in [("q4_0", "words_q4"), ("q8_0", "dequantize_q8")] {
        let model = Model::read("llama");
        let weights = Weights::open(&folder("llama").join("model.safetensors")).expect("it opens");
        let contents = Contents(weights.entries().expect("it has a header"), Some(format));
        let text = text(&model.config, &contents).expect("it has a text");
        let program = Program::load(Source::new("model.rx", text));
        assert!(program.diagnostics.is_empty(), "{:?}", program.diagnostics);
        let mut unwatched = Unwatched;
        let mut watch = Fallbacks::before(&mut unwatched);
        let lowered = lower_for_cpu(&program.module, &Settings::default(), &mut watch)
            .unwrap_or_else(|failed| panic!("{format}: {failed:?}"));
        assert!(watch.found.is_empty(), "{format}");
        let text = print(&lowered);
        let functions = text.split("\n\n").skip_while(|text| !text.starts_with("def linear_"));
        let lines = functions.flat_map(str::lines).map(|line| line.trim_start());
        let lines: Vec<&str> = lines.skip(1).take_while(|line| !line.starts_with("def ")).collect();
        let calls = |name: &str| lines.iter().any(|line| line.starts_with(name));
        let fused = format!("fused_{decoder}_matmul(");
        assert!(calls(&fused) && !calls(&format!("{decoder}_0(")), "{format}: {lines:?}");
    }
}
