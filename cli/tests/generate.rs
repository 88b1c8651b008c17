//! `relax generate` on tiny models with random weights: greedy tokens are those of transformers, seeds decide, bad input is refused, and the
//! compiled model is kept.

#[path = "generate/forms.rs"]
mod forms;
#[path = "warm/kept.rs"]
mod kept;
#[path = "generate/speech.rs"]
mod speech;
#[path = "generate/vision.rs"]
mod vision;
mod warm;
#[path = "generate/windows.rs"]
mod windows;

use relax_corpus::requirement;
use relax_corpus::sample::Sample;
use relax_program::tensor_files::{Weights, read_npz, write_safetensors};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A tiny model of each family. To compile one takes seconds.
const FAMILIES: [&str; 8] =
    ["llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "gpt2"];

fn model(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/models/llm/tiny").join(name)
}

/// A folder with a cache of its own.
struct Folder(TempDir);

impl Drop for Folder {
    fn drop(&mut self) {
        kept::keep(&self.path().join("cache"));
    }
}

impl Folder {
    /// `None` without a C compiler.
    fn new() -> Option<Self> {
        if !Command::new("cc").arg("--version").output().is_ok_and(|done| done.status.success()) {
            requirement::skip("RELAX_REQUIRE_CC", "no C compiler");
            return None;
        }
        Some(Self(tempfile::tempdir().expect("a folder for the test")))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn generate(&self, model: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_relax"));
        command.arg("generate").arg(model).args(arguments).current_dir(self.path());
        command.env("XDG_CACHE_HOME", warm::cache(self.path().join("cache")));
        command.output().expect("the command runs")
    }

    /// The objects that it prints when all is well.
    fn objects(&self, model: &Path, arguments: &[&str]) -> Vec<Value> {
        let output = self.generate(model, &[arguments, &["--format", "json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        let text = String::from_utf8(output.stdout).expect("it is UTF-8");
        text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
    }

    fn tokens(&self, model: &Path, arguments: &[&str]) -> Vec<u64> {
        let objects = self.objects(model, arguments);
        objects.iter().filter_map(|object| object["token"].as_u64()).collect()
    }

    fn refused(&self, model: &Path, arguments: &[&str], code: i32, words: &str) {
        let output = self.generate(model, arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", errors(&output));
        assert!(errors(&output).contains(words), "{arguments:?}: {}", errors(&output));
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn reference(name: &str, array: &str) -> Vec<u64> {
    let bytes = fs::read(model(name).join("reference.npz")).expect("it is there");
    let tensor = read_npz(&bytes, Some(array)).expect("it is an array");
    let integers = tensor.to_ints();
    integers.iter().map(|&token| u64::try_from(token).expect("it is a token")).collect()
}

fn listed(tokens: &[u64]) -> String {
    tokens.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

/// A tokenizer whose tokens are letters, for models of 64 tokens: the last six have none.
fn letters() -> Value {
    let vocabulary: serde_json::Map<String, Value> =
        (0..58_u8).map(|at| (char::from(b'A' + at).to_string(), Value::from(at))).collect();
    serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true },
        "post_processor": null,
        "decoder": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true },
        "model": { "type": "BPE", "dropout": null, "unk_token": "`", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": [] },
    })
}

#[test]
fn greedy_tokens_are_those_of_transformers() {
    let Some(folder) = Folder::new() else { return };
    for &name in Sample::of("language models that generate", 4).take(&FAMILIES) {
        let (prompt, want) = (listed(&reference(name, "prompt")), reference(name, "greedy"));
        let count = want.len().to_string();
        let got = folder.tokens(&model(name), &["--tokens", &prompt, "--max-tokens", &count]);
        // A model may end a text before.
        assert!(!got.is_empty() && want.starts_with(&got), "{name}: {got:?} instead of {want:?}");
        assert!(got.len() == want.len() || got.len() > 8, "{name}: {got:?}");
    }
}

#[test]
fn a_compiled_model_is_kept() {
    let Some(folder) = Folder::new() else { return };
    let copy = folder.path().join("model");
    fs::create_dir(&copy).expect("it is made");
    for file in ["config.json", "model.safetensors"] {
        fs::copy(model("llama").join(file), copy.join(file)).expect("it is copied");
    }
    let models =
        || fs::read_dir(folder.path().join("cache/relax/models")).map_or(0, Iterator::count);
    let arguments = ["--tokens", "3,1,4", "--max-tokens", "6"];
    let uncached = folder.tokens(&copy, &[arguments.as_slice(), &["--no-model-cache"]].concat());
    assert_eq!((uncached.len(), models()), (6, 0));
    for _ in 0..2 {
        assert_eq!((folder.tokens(&copy, &arguments), models()), (uncached.clone(), 1));
    }
    // Other weights under the same name are another model.
    let path = copy.join("model.safetensors");
    let mut bytes = fs::read(&path).expect("it is read");
    *bytes.last_mut().expect("it has tensors") ^= 0x80;
    fs::write(&path, bytes).expect("it is written");
    folder.tokens(&copy, &arguments);
    assert_eq!(models(), 2);
}

/// The note of the first line says what is rounded.
#[test]
fn activations_are_rounded_as_asked() {
    let Some(folder) = Folder::new() else { return };
    let llama = model("llama");
    let arguments = ["--tokens", "3,1,4", "--max-tokens", "4", "--logprobs"];
    let with = |more: &[&str]| {
        let output = folder.generate(&llama, &[arguments.as_slice(), more].concat());
        assert_eq!(output.status.code(), Some(0), "{more:?}: {}", errors(&output));
        let said = errors(&output);
        let (notes, numbers): (Vec<&str>, Vec<&str>) =
            said.lines().partition(|line| !line.contains("logprob"));
        (notes.join("\n"), numbers.join("\n"))
    };
    let in_bf16 = "products with quantized and 16-bit weights round activations to bf16";
    for format in ["bf16", "q8_0"] {
        let (_, plain) = with(&["--quantize", format, "--activations", "f32"]);
        let (said, rounded) = with(&["--quantize", format, "--activations", "bf16"]);
        assert!(said.lines().next().is_some_and(|line| line.contains(in_bf16)), "{said}");
        assert_ne!(plain, rounded, "{format}");
    }
    let (_, plain) = with(&[]);
    let (said, same) = with(&["--activations", "bf16"]);
    assert!(said.contains("`--activations bf16` rounds nothing"), "{said}");
    assert_eq!(plain, same);
    let both = ["--tokens", "1", "--activations", "bf16", "--exact"];
    folder.refused(&llama, &both, 2, "`--activations bf16` rounds, and `--exact` does not");
    let unknown = ["--tokens", "1", "--activations", "f16"];
    folder.refused(&llama, &unknown, 2, "possible values: f32, q8, bf16");
}

/// The weights of a tiny model in two files.
#[test]
fn weights_in_several_files_are_those_of_one() {
    let Some(folder) = Folder::new() else { return };
    let copy = folder.path().join("model");
    fs::create_dir(&copy).expect("it is made");
    fs::copy(model("llama").join("config.json"), copy.join("config.json")).expect("it is copied");
    let whole = Weights::open(&model("llama").join("model.safetensors")).expect("it opens");
    let names: Vec<String> = whole.entries().expect("it has a header").into_keys().collect();
    let tensors = whole.tensors(&names).expect("they are read");
    let tensors: Vec<_> = names.iter().cloned().zip(tensors).collect();
    let mut map = serde_json::Map::new();
    for (part, file) in tensors.chunks(8).zip(["1.safetensors", "2.safetensors", "3.safetensors"]) {
        map.extend(part.iter().map(|(name, _)| (name.clone(), Value::from(file))));
        fs::write(copy.join(file), write_safetensors(part).expect("it has a format"))
            .expect("it is written");
    }
    let index = copy.join("model.safetensors.index.json");
    let text = serde_json::json!({ "metadata": { "total_size": 0 }, "weight_map": map });
    fs::write(&index, text.to_string()).expect("it is written");
    let arguments = ["--tokens", "3,1,4", "--max-tokens", "6"];
    assert_eq!(folder.tokens(&copy, &arguments), folder.tokens(&model("llama"), &arguments));
    fs::remove_file(copy.join("2.safetensors")).expect("it is removed");
    folder.refused(&copy, &arguments, 2, "`2.safetensors`: cannot read");
}

#[test]
fn matrices_are_quantized_on_demand() {
    let Some(folder) = Folder::new() else { return };
    let arguments = ["--tokens", "3,1,4", "--max-tokens", "6"];
    let with =
        |more: &[&str]| folder.objects(&model("llama"), &[arguments.as_slice(), more].concat());
    let models =
        || fs::read_dir(folder.path().join("cache/relax/models")).map_or(0, Iterator::count);
    let plain = with(&[]);
    for (number, format) in ["q4_0", "q8_0", "bf16"].into_iter().enumerate() {
        let objects = with(&["--quantize", format]);
        let [first, rest @ ..] = objects.as_slice() else { panic!("{format}: nothing is printed") };
        assert_eq!((&first["type"], &first["format"]), (&"quantization".into(), &format.into()));
        let (matrices, kept) = if format == "bf16" { (16, 0) } else { (14, 2) };
        assert_eq!(first["matrices"].as_array().map(Vec::len), Some(matrices), "{first}");
        assert_eq!(first["kept"].as_object().map(serde_json::Map::len), Some(kept), "{first}");
        assert_eq!(rest.len(), plain.len(), "{format}");
        // Logits change a little, and the model is another one in the cache.
        let logprob = |objects: &[Value]| objects[0]["logprob"].as_f64().expect("a number");
        let change = (logprob(rest) - logprob(&plain)).abs();
        assert!(change > 0.0 && change < 0.5, "{format}: {change}");
        assert_eq!(models(), number + 2, "{format}");
    }
    let more = ["--quantize", "q8_0", "-v"];
    let output = folder.generate(&model("llama"), &[arguments.as_slice(), &more].concat());
    let said = errors(&output);
    assert!(said.contains("; 14 matrices quantized to q8_0\n"), "{said}");
    assert!(
        said.contains("`model.layers.0.mlp.down_proj.weight`: its rows of 43 elements"),
        "{said}"
    );
}

#[test]
fn seeds_and_switches_decide() {
    let Some(folder) = Folder::new() else { return };
    let with = |more: &[&str]| {
        let arguments = ["--tokens", "3,1,4", "--max-tokens", "12"];
        folder.tokens(&model("llama"), &[arguments.as_slice(), more].concat())
    };
    let sampled = |seed| with(&["--temperature", "2", "--seed", seed]);
    assert_eq!(sampled("7"), sampled("7"));
    assert_ne!(sampled("7"), sampled("8"));
    let greedy = with(&[]);
    assert_eq!(with(&["--temperature", "2", "--top-k", "1"]), greedy);
    assert_eq!(with(&["--threads", "1"]), greedy);
    let objects =
        folder.objects(&model("llama"), &["--tokens", "3", "--max-tokens", "4", "--bench"]);
    let kinds: Vec<_> = objects.iter().filter_map(|object| object["type"].as_str()).collect();
    assert_eq!(kinds, ["token", "token", "token", "token", "end", "speed"]);
    assert!(objects[0]["logprob"].as_f64().is_some_and(|logprob| logprob < 0.0), "{objects:?}");
    assert!(objects[5]["decode_tokens_per_second"].as_f64().is_some_and(|speed| speed > 0.0));
    assert_eq!(objects[5]["allocations_per_step"], 0);
    assert_eq!(with(&["--exact"]).len(), greedy.len());
}

#[test]
fn texts_are_continued_and_stopped() {
    let Some(folder) = Folder::new() else { return };
    let copy = folder.path().join("model");
    fs::create_dir(&copy).expect("it is made");
    for file in ["config.json", "model.safetensors"] {
        fs::copy(model("llama").join(file), copy.join(file)).expect("it is copied");
    }
    folder.refused(&copy, &["--prompt", "a"], 2, "tokenizer.json");
    fs::write(copy.join("tokenizer.json"), letters().to_string()).expect("it is written");
    let text = |arguments: &[&str]| {
        let output = folder.generate(&copy, &[&["-q"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        String::from_utf8(output.stdout).expect("it is UTF-8")
    };
    // As README has it by number: 3,1,4 is continued by 52,11,5,52,58,11,11,55, of which 58 has no letter.
    let output = folder.generate(&copy, &["--prompt", "DBE", "--max-tokens", "8"]);
    assert!(output.status.code() == Some(2) && errors(&output).contains("58"), "{output:?}");
    assert_eq!(text(&["--prompt", "DBE", "--max-tokens", "4"]), "uLFu\n");
    assert_eq!(text(&["--prompt", "DBE", "--stop", "Fu"]), "uL\n");
    assert_eq!(text(&["--prompt", "DBE", "--stop", "LFx", "--stop", "F"]), "uL\n");
    folder.refused(&copy, &["--chat", "DBE"], 2, "no chat template");
    let template = "{% for message in messages %}{{ message.content }}{% endfor %}";
    fs::write(copy.join("chat_template.jinja"), template).expect("it is written");
    assert_eq!(text(&["--chat", "BE", "--system", "D", "--max-tokens", "4"]), "uLFu\n");
    let endless =
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
    fs::write(copy.join("chat_template.jinja"), endless).expect("it is written");
    folder.refused(&copy, &["--chat", "BE"], 2, "exceeds a limit");
    let doubling = "{% set ns = namespace(x='ab') %}{% for a in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}";
    fs::write(copy.join("chat_template.jinja"), doubling).expect("it is written");
    folder.refused(
        &copy,
        &["--chat", "BE"],
        3,
        "the chat template takes more than 268435456 bytes",
    );
}

#[test]
fn bad_input_is_refused() {
    let Some(folder) = Folder::new() else { return };
    let llama = model("llama");
    folder.refused(&llama, &["--tokens", "64"], 2, "64 is no token of the model, which has 64");
    let long = listed(&vec![1; 5000]);
    folder.refused(&llama, &["--tokens", &long], 2, "the prompt has 5000 tokens");
    folder.refused(&llama, &["--tokens", "1", "--temperature", "nan"], 2, "temperature");
    folder.refused(&llama, &["--tokens", "1", "--top-k", "0"], 2, "top_k");
    folder.refused(&llama, &["--tokens", "1", "--max-memory", "1K"], 3, "memory");
    folder.refused(&folder.path().join("none.gguf"), &["--tokens", "1"], 2, "none.gguf");
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).expect("it is made");
    folder.refused(&empty, &["--tokens", "1"], 2, "config.json");
    let config = llama.join("config.json");
    fs::copy(&config, empty.join("config.json")).expect("it is copied");
    folder.refused(&empty, &["--tokens", "1"], 2, "model.safetensors");
    fs::write(empty.join("model.safetensors.index.json"), "{}").expect("it is written");
    folder.refused(&empty, &["--tokens", "1"], 2, "it is no index of safetensors files: missing");
    let gpt2 = model("gpt2").join("model.safetensors");
    fs::copy(gpt2, empty.join("model.safetensors")).expect("it is copied");
    folder.refused(&empty, &["--tokens", "1"], 2, "lacks the tensor");
    folder.refused(&llama.join("model.safetensors"), &["--tokens", "1"], 2, "it is no GGUF file");
    folder.refused(&config, &["--tokens", "1"], 2, "config.json");
}
