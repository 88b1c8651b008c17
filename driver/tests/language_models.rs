//! Tiny language models, compiled: no operator is interpreted, logits and greedy tokens are those of transformers
//! (`scripts/models/llm_reference.py`).

#[path = "language_models/block_formats.rs"]
mod block_formats;
#[path = "language_models/pages.rs"]
mod pages;

use relax_corpus::requirement;
use relax_corpus::sample::Sample;
use relax_cpu::{Compiler, hardware};
use relax_driver::{KernelCheck, Target, build_cpu, evaluate_calls, lower, panel};
use relax_llm::{Config, Format, Stored, Tensors, text};
use relax_lower::lowered::Lowered;
use relax_lower::program::Around;
use relax_program::externals::constants;
use relax_program::frontend::{Program, RunOptions, print, run};
use relax_program::tensor_files::{Entry, Weights, read_npz};
use relax_reference::{Printed, register, to_machine, to_semantics};
use relax_rewrite::accounts::Accounts;
use relax_rewrite::pass::{Device, Settings};
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::Module;
use relax_runtime::program::Numerics;
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

/// Where the code of models is: they have kernels in common, and all are linked with the same routines.
const COMPILED: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/compiled");

/// A tiny model of each family. To compile one takes seconds.
const FAMILIES: [&str; 8] =
    ["llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "gpt2"];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/models/llm/tiny").join(name)
}

/// Tensors of a checkpoint, by name.
struct Contents(BTreeMap<String, Entry>);

impl Tensors for Contents {
    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn stored(&self, name: &str) -> Option<Stored> {
        let Entry { dtype, shape, .. } = self.0.get(name)?;
        let dtype = dtype.expect("the language has it").to_string();
        Some(Stored { format: Format::named(&dtype), shape: shape.clone() })
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
        let contents = Contents(weights.entries().expect("it has a header"));
        let text = text(&config, &contents).expect("it has a text");
        let program = Program::load(Source::new("model.rx", text));
        assert!(program.diagnostics.is_empty(), "{:?}", program.diagnostics);
        let externals = constants(&program.module, &weights).expect("all are there");
        Self { program, externals, config }
    }

    /// A module file for this processor. No operator may be left to the interpreter.
    fn built(&self, name: &str, compiler: &Compiler) -> Module {
        let params = Arc::new(self.externals.clone());
        let panel = panel(hardware().isa, None);
        let settings = Settings { params, panel, ..Settings::default() };
        let mut unwatched = Unwatched;
        let mut watch = Accounts::before(&mut unwatched);
        let target = Target::of(Device::Cpu, Numerics::Reassociated);
        let Lowered { module: lowered, values, .. } =
            lower(&target, &self.program.module, &settings, &mut watch)
                .unwrap_or_else(|failed| panic!("{name}: {failed:?}"));
        let found: Vec<String> =
            watch.fallbacks.iter().map(|found| found.diagnostic().message).collect();
        assert!(found.is_empty(), "{name}: {found:?}");
        let mut externals = self.externals.clone();
        externals.extend(values);
        let around = Around {
            externals: &externals,
            source: &self.program.source,
            signatures: &self.program.module,
        };
        let place = relax_cpu::Cache::at(COMPILED);
        let image = build_cpu(
            &lowered,
            &around,
            Numerics::Reassociated,
            (compiler, &place),
            KernelCheck::Off,
        )
        .unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut module = Module::load(&image.to_bytes()).expect("it loads");
        register(&mut module, &Limits::default(), &Printed::default()).expect("it registers");
        module
    }

    /// A cache with room for so many rows, and none in use. Whoever reads a free one finds NaN.
    fn cache(&self, batch: usize, capacity: usize) -> Cache {
        let shape = [batch, self.config.kv_heads, capacity, self.config.head_dim];
        let tensor = Tensor::full(DType::F32, &shape, Number::Float(f64::NAN));
        let tensor = || to_machine(&Value::Tensor(tensor.clone())).expect("it is a tensor");
        Cache { rows: 0, tensors: (0..2 * self.config.layers.len()).map(|_| tensor()).collect() }
    }

    /// Pools of so many pages with so many rows. Whoever reads one that is not in use finds NaN.
    fn pools(&self, pages: usize, rows: usize) -> Vec<relax_runtime::Value> {
        let shape = [pages, self.config.kv_heads, rows, self.config.head_dim];
        let tensor = Value::Tensor(Tensor::full(DType::F32, &shape, Number::Float(f64::NAN)));
        let tensor = || to_machine(&tensor).expect("it is a tensor");
        (0..2 * self.config.layers.len()).map(|_| tensor()).collect()
    }

    /// The logits of `score` in the interpreter, or what stops it.
    fn interpreted(&self, tokens: &Tensor, cache: &Cache) -> Result<Tensor, String> {
        let arguments = cache.arguments(tokens);
        let arguments = arguments.iter().map(|value| to_semantics(value, &mut |_| None));
        let arguments = arguments.collect::<Result<Vec<_>, _>>().expect("they are values");
        let externals = Arc::new(self.externals.clone());
        let options = RunOptions { externals, ..RunOptions::default() };
        match run(&self.program.module, "score", arguments, &options).result {
            Ok(Value::Tuple(items)) => match items.into_iter().next() {
                Some(Value::Tensor(logits)) => Ok(logits),
                other => panic!("{other:?} is no tensor"),
            },
            Ok(other) => panic!("{other:?} is no tuple"),
            Err(stop) => Err(stop.to_string()),
        }
    }
}

/// Keys and values of each layer.
struct Cache {
    /// How many are in use.
    rows: i64,
    tensors: Vec<relax_runtime::Value>,
}

impl Cache {
    /// The elements of all tensors.
    fn bytes(&self) -> Vec<Vec<u8>> {
        self.each(|tensor| tensor.bytes().to_vec())
    }

    /// Where they lie.
    fn places(&self) -> Vec<*const u8> {
        self.each(|tensor| tensor.bytes().as_ptr())
    }

    fn each<T>(&self, of: impl Fn(&relax_runtime::Tensor) -> T) -> Vec<T> {
        let tensors = self.tensors.iter().map(|value| match value {
            relax_runtime::Value::Tensor(tensor) => of(tensor),
            other => panic!("{other:?} is no tensor"),
        });
        tensors.collect()
    }

    /// Whether rows before the first and from the second on are what they were, of so many.
    fn keeps(&self, before: &[Vec<u8>], [from, to, rows]: [usize; 3]) -> bool {
        self.bytes().iter().zip(before).all(|(now, before)| {
            let matrices = now.len() / self.row() / rows.max(1);
            (0..matrices * rows).filter(|at| !(from..to).contains(&(at % rows))).all(|at| {
                let place = at * self.row()..(at + 1) * self.row();
                now[place.clone()] == before[place]
            })
        })
    }

    /// The same tensors, of which so many rows are in use.
    fn with_rows(&self, rows: usize) -> Self {
        let rows = i64::try_from(rows).expect("it is small");
        Self { rows, tensors: self.tensors.clone() }
    }

    /// Bytes of a row.
    fn row(&self) -> usize {
        let extents = self.each(|tensor| tensor.shape()[3]);
        usize::try_from(extents[0]).expect("it is natural") * 4
    }

    fn arguments(&self, tokens: &Tensor) -> Vec<relax_runtime::Value> {
        let given = to_machine(&Value::Tensor(tokens.clone())).expect("it is a tensor");
        let past = relax_runtime::Value::Shape([self.rows].into());
        [given, past].into_iter().chain(self.tensors.iter().cloned()).collect()
    }
}

/// A call that keeps the cache.
fn called(
    module: &Module,
    entry: &str,
    tokens: &Tensor,
    cache: &Cache,
) -> Result<relax_runtime::Value, relax_runtime::Stop> {
    module.function(entry).expect("it is an entry").call(&cache.arguments(tokens))
}

/// Logits. The tokens join the cache, whose memory the call overwrites.
fn call(module: &Module, entry: &str, tokens: &Tensor, cache: &mut Cache) -> Tensor {
    let arguments = cache.arguments(tokens);
    cache.tensors.clear();
    let function = module.function(entry).expect("it is an entry");
    let result = function.call_donating(arguments).unwrap_or_else(|stop| panic!("{entry}: {stop}"));
    let relax_runtime::Value::Tuple(items) = &result else { panic!("{entry} gives a tuple") };
    let (logits, tensors) = items.items().split_first().expect("there are logits");
    cache.tensors = tensors.to_vec();
    cache.rows += i64::try_from(tokens.shape()[1]).expect("it is small");
    match to_semantics(logits, &mut |_| None) {
        Ok(Value::Tensor(logits)) => logits,
        other => panic!("{other:?} is no tensor"),
    }
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
    let mut cache = model.cache(1, prompt.shape()[1] + count);
    let mut given = prompt;
    let mut tokens = Vec::new();
    for step in 0..count {
        let before = module.allocations();
        let logits = call(module, "step", &given, &mut cache).to_floats();
        let allocations = module.allocations() - before;
        assert!(step < 2 || allocations == 0, "step {step}: {allocations} allocations");
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
        let tokens = reference(name, "tokens");
        let mut cache = model.cache(2, tokens.shape()[1] + 3);
        let logits = call(&module, "score", &tokens, &mut cache);
        assert!(is_near(&reference(name, "logits"), &logits), "{name}: {logits:?}");
        let want: Vec<i128> = reference(name, "greedy").to_ints().iter().copied().collect();
        let got = greedy(&model, &module, reference(name, "prompt"), want.len());
        assert_eq!(got, want, "{name}");
    }
}

/// They are values of the compiled model, with the bits that the interpreter computes, and no call of it computes them.
#[test]
fn tables_of_speech_features_are_computed_once() {
    let Ok(compiler) = Compiler::of_system() else {
        requirement::skip("RELAX_REQUIRE_CC", "no C compiler");
        return;
    };
    let Model { program, externals, .. } = Model::read("whisper");
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    let around = (&compiler, &relax_cpu::Cache::at(folder.path()));
    let packed = evaluate_calls(&program.module, externals, &program.source, around);
    let packed = packed.unwrap_or_else(|error| panic!("{error}"));
    let text = print(&packed.module);
    let public = program.source.text.replace("    func_attr(\"private\", True)\n", "");
    let public = Program::load(Source::new("public.rx", public));
    for name in ["waves", "filters"] {
        // Its definition is left, and is not called.
        assert_eq!(text.matches(&format!("{name}()")).count(), 1, "{text}");
        let result = run(&public.module, name, Vec::new(), &RunOptions::default()).result;
        let want = match result {
            Ok(Value::Tensor(tensor)) => tensor,
            other => panic!("{name}: {other:?}"),
        };
        let got = &packed.values[&Name::new(name)];
        assert!(got.same_as(&want), "{name}");
    }
}

/// Columns of a matrix, or of rows of logits.
fn columns(tensor: &Tensor, from: usize, to: usize) -> Tensor {
    let inner: usize = tensor.shape()[2..].iter().product();
    let mut shape = tensor.shape().to_vec();
    let length = std::mem::replace(&mut shape[1], to - from);
    let rows = 0..shape[0];
    let places = rows.flat_map(|row| (from * inner..to * inner).map(move |at| (row, at)));
    let places: Vec<usize> = places.map(|(row, at)| row * length * inner + at).collect();
    tensor.select(&shape, &places)
}

/// Batch, new tokens, earlier ones, and rows that stay free.
const SIZES: [[usize; 4]; 16] = [
    [1, 1, 0, 0],
    [1, 1, 1, 0],
    [1, 1, 7, 0],
    [1, 1, 64, 3],
    [1, 2, 63, 1],
    [1, 17, 0, 15],
    [1, 65, 2, 0],
    [2, 1, 13, 11],
    [2, 3, 5, 0],
    [2, 0, 4, 0],
    [2, 0, 0, 0],
    [3, 0, 0, 5],
    [3, 5, 1, 2],
    [3, 31, 37, 1],
    [0, 2, 3, 1],
    [5, 1, 2, 64],
];

/// Tokens after a cache have the logits that they have in one call without it; other rows of the cache stay as they are. What
/// does not fit is the same trap as in the interpreter.
#[test]
fn caches_of_all_sizes_agree() {
    let Ok(compiler) = Compiler::of_system() else {
        requirement::skip("RELAX_REQUIRE_CC", "no C compiler");
        return;
    };
    for name in ["llama", "gemma2", "gpt2"] {
        let model = Model::read(name);
        let module = model.built(name, &compiler);
        for [batch, new, past, free] in SIZES {
            let all = past + new;
            let case =
                format!("{name}: {batch} sequences of {new} tokens after {past}, {free} free");
            let tokens = some_tokens(batch, all, model.config.vocabulary);
            let whole = call(&module, "score", &tokens, &mut model.cache(batch, all));
            let mut cache = model.cache(batch, all + free);
            call(&module, "score", &columns(&tokens, 0, past), &mut cache);
            let before = cache.bytes();
            let given = columns(&tokens, past, all);
            let full = cache.with_rows(past + free + 1);
            let stop = called(&module, "score", &given, &full).expect_err(&case).to_string();
            let other = model.interpreted(&given, &full).expect_err(&case);
            for stop in [stop, other] {
                let words = "a dim may not be negative, found `capacity - m - n` = -1";
                assert!(stop.contains(words) && stop.contains("shape/negative"), "{case}: {stop}");
            }
            drop(full);
            // Whoever keeps a cache finds it unchanged.
            let kept = called(&module, "score", &given, &cache);
            kept.unwrap_or_else(|stop| panic!("{case}: {stop}"));
            assert!(cache.bytes() == before, "{case}: an argument was overwritten");
            let place = cache.places();
            let after = call(&module, "score", &given, &mut cache);
            assert_eq!(cache.places(), place, "{case}: a cache was copied");
            assert!(is_near_or_empty(&columns(&whole, past, all), &after), "{case}: {after:?}");
            let rows = [past, all, all + free];
            assert!(cache.keeps(&before, rows), "{case}: another row was overwritten");
            if batch * new > 0 && all < 16 {
                let want = model.interpreted(&given, &cache.with_rows(past));
                let want = want.unwrap_or_else(|stop| panic!("{case}: {stop}"));
                assert!(is_near(&want, &after), "{case}: the interpreter gives {want:?}");
            }
        }
    }
}

fn some_tokens(batch: usize, length: usize, vocabulary: usize) -> Tensor {
    let shape = [batch, length].map(|extent| i64::try_from(extent).expect("it is small"));
    let elements = (0..batch * length).map(|at| (at * 7 + 3) % vocabulary);
    let bytes: Vec<u8> = elements.flat_map(|token| (token as i64).to_ne_bytes()).collect();
    let tokens = relax_runtime::Tensor::from_bytes(relax_runtime::DType::I64, &shape, &bytes);
    let tokens = relax_runtime::Value::Tensor(tokens.expect("it is a tensor"));
    match to_semantics(&tokens, &mut |_| None) {
        Ok(Value::Tensor(tokens)) => tokens,
        other => panic!("{other:?} is no tensor"),
    }
}

fn is_near_or_empty(want: &Tensor, got: &Tensor) -> bool {
    if want.is_empty() { want.shape() == got.shape() } else { is_near(want, got) }
}
