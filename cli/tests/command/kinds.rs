//! Programs of every kind: a text, an ONNX model and a module file, and what `relax inspect` says of each.

use super::compiler;
use super::folder::{Folder, object, text};
use serde_json::{Value, json};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../corpus/models/onnx/gpt2.onnx");
const TWO_OUTPUTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../corpus/models/onnx/bert.onnx");

const PROGRAM: &str = "def main(x: Tensor((\"n\", 4), \"f32\"), w: Tensor((4, 2), \"f32\")):
    n = sym_var(lower_bound=1, upper_bound=64)
    func_attr(\"output.0\", \"the/logits\")
    return relu(matmul(x, w))
";

/// The same, written otherwise.
const OTHER: &str = "def main(x: Tensor((\"n\", 4), \"f32\"), w: Tensor((4, 2), \"f32\")):
    n = sym_var(lower_bound=1, upper_bound=64)
    return maximum(matmul(x, w), const(0.0, \"f32\"))
";

/// A function with other values.
const WRONG: &str = "def main(x: Tensor((\"n\", 4), \"f32\"), w: Tensor((4, 2), \"f32\")):
    n = sym_var(lower_bound=1, upper_bound=64)
    return tanh(matmul(x, w))
";

/// A folder with the programs, and a model under a name that does not say what it is.
fn folder() -> Folder {
    let folder = Folder::new();
    for (name, text) in [("p.rx", PROGRAM), ("other.rx", OTHER), ("wrong.rx", WRONG)] {
        folder.write(name, text);
    }
    std::fs::copy(MODEL, folder.0.path().join("model")).expect("the model is copied");
    folder.write("model.pt", "PK\u{3}\u{4}....x/data.pkl");
    folder
}

fn built(folder: &Folder, program: &str, file: &str) {
    let ended = folder.ended(&["build", program, "-o", file]);
    assert_eq!(ended.1, Some(0), "{}", ended.0);
}

#[test]
fn every_command_takes_every_kind() {
    if !compiler::is_there() {
        return;
    }
    let folder = folder();
    built(&folder, "p.rx", "module");
    for file in ["p.rx", "model", "module"] {
        let random = ["--random", "--sym", if file == "model" { "batch=2" } else { "n=2" }];
        let length: &[&str] = if file == "model" { &["--sym", "length=3"] } else { &[] };
        for command in [
            vec!["check", file],
            vec!["opt", file, "--to", "P2.1"],
            vec!["versions", file],
            vec!["rewrite", file],
            vec!["diff", file, "--cases", "2"],
            vec!["build", file, "-o", "again.rxm"],
            [&["run", file], &random[..], length].concat(),
            [&["bench", file, "--seconds", "0"], &random[1..], length].concat(),
            vec!["inspect", file],
        ] {
            let (said, code) = folder.ended(&command);
            assert_eq!(code, Some(0), "{command:?}: {said}");
        }
    }
    for command in ["check", "opt", "versions", "rewrite", "diff", "run", "bench", "inspect", "fmt"]
    {
        let (said, code) = folder.ended(&[command, "model.pt"]);
        assert_eq!(code, Some(2), "{command}: {said}");
        assert!(said.contains("found a PyTorch file\n  help: export the model"), "{said}");
    }
    for (command, kind) in [
        (&["fmt", "model"][..], "found an ONNX model"),
        (&["fmt", "module"], "found a module file"),
        (&["check", "--fix", "model"], "--fix edits texts"),
    ] {
        let (said, code) = folder.ended(command);
        assert_eq!((code, said.contains(kind)), (Some(2), true), "{command:?}: {said}");
    }
    let (said, code) = folder.ended(&["check", "model.pt", "wrong.rx", "missing.rx", "-v"]);
    assert_eq!(code, Some(2));
    assert!(
        said.contains("wrong.rx: well-formed") && said.contains("missing.rx: No such"),
        "{said}"
    );
}

#[test]
fn programs_of_different_kinds_are_compared() {
    if !compiler::is_there() {
        return;
    }
    let folder = folder();
    for (program, file) in [("p.rx", "p.rxm"), ("other.rx", "other.rxm"), ("wrong.rx", "wrong.rxm")]
    {
        built(&folder, program, file);
    }
    built(&folder, "model", "model.rxm");
    for (first, second, code) in [
        ("p.rx", "other.rxm", 0),
        ("p.rxm", "other.rx", 0),
        ("p.rxm", "other.rxm", 0),
        ("p.rx", "wrong.rxm", 1),
        ("p.rxm", "wrong.rx", 1),
        ("p.rxm", "wrong.rxm", 1),
        ("model", MODEL, 0),
        ("model", "model.rxm", 0),
        ("model.rxm", "model", 0),
        ("p.rx", "model", 1),
        ("p.rx", "model.rxm", 2),
    ] {
        let ended = folder.ended(&["diff", first, "--against", second, "--cases", "3"]);
        assert_eq!(ended.1, Some(code), "{first} {second}: {}", ended.0);
    }
    let both = folder.relax(&[
        "diff",
        "p.rxm",
        "--against",
        "other.rxm",
        "--cases",
        "3",
        "--format",
        "json",
    ]);
    assert_eq!(object(&text(&both.stdout), "diff")["compared"], 6, "each of the two files");
}

#[test]
fn the_weights_of_a_module_file_are_asked_for() {
    if !compiler::is_there() {
        return;
    }
    let folder = folder();
    let imported = folder.ended(&["import", MODEL, "-o", "m.rx", "--params", "m.safetensors"]);
    assert_eq!(imported.1, Some(0), "{}", imported.0);
    built(&folder, "model", "m.rxm");
    let with = |command: &[&str]| folder.ended(&[command, &["--params", "m.safetensors"]].concat());
    for command in [
        &["diff", "m.rx", "--against", "m.rxm", "--cases", "1"][..],
        &["build", "m.rxm", "-o", "n.rxm"],
    ] {
        let (said, code) = folder.ended(command);
        assert_eq!(code, Some(2), "{command:?}");
        assert!(said.contains("weights were built in") && said.contains("--params"), "{said}");
        assert_eq!(with(command).1, Some(0), "{command:?}: {}", with(command).0);
    }
    let read = |name: &str| std::fs::read(folder.0.path().join(name)).expect("it is there");
    assert_eq!(read("m.rxm"), read("n.rxm"), "built anew from the source in it");
}

#[test]
fn outputs_keep_their_names() {
    if !compiler::is_there() {
        return;
    }
    let folder = folder();
    built(&folder, "p.rx", "p.rxm");
    built(&folder, TWO_OUTPUTS, "two.rxm");
    let bert =
        ["--input", "tokens=ones(2,3)", "--input", "types=zeros(2,3)", "--input", "mask=ones(2,3)"];
    for (file, inputs, wanted) in [
        ("p.rx", &["--random", "--sym", "n=2"][..], &["the/logits"][..]),
        ("p.rxm", &["--random", "--sym", "n=2"], &["the/logits"]),
        (TWO_OUTPUTS, &bert, &["layer_norm_4", "tanh"]),
        ("two.rxm", &bert, &["layer_norm_4", "tanh"]),
    ] {
        let run = folder
            .relax(&[&["run", file, "--output", "o.npz", "--format", "json"], inputs].concat());
        assert_eq!(run.status.code(), Some(0), "{file}: {}", text(&run.stderr));
        assert_eq!(object(&text(&run.stdout), "result")["outputs"], json!(wanted));
        let archive = std::fs::File::open(folder.0.path().join("o.npz")).expect("it is written");
        let archive = zip::ZipArchive::new(archive).expect("an archive");
        let mut names: Vec<&str> = archive.file_names().collect();
        names.sort_unstable();
        let wanted: Vec<String> = wanted.iter().map(|name| format!("{name}.npy")).collect();
        assert_eq!(names, wanted, "{file}");
    }
    // No name leaves the folder.
    let ended = folder.ended(&["run", "p.rx", "--random", "--sym", "n=2", "--output", "out"]);
    assert_eq!(ended.1, Some(0), "{}", ended.0);
    assert!(folder.0.path().join("out/the_logits.npy").is_file());
    folder.write(
        "twice.rx",
        &PROGRAM
            .replace("relu(matmul(x, w))", "(x, w)")
            .replace("    return", "    func_attr(\"output.1\", \"the/logits\")\n    return"),
    );
    let (said, code) =
        folder.ended(&["run", "twice.rx", "--random", "--sym", "n=1", "--output", "t.npz"]);
    assert_eq!(
        (code, said.contains("two outputs are named `the/logits`")),
        (Some(2), true),
        "{said}"
    );
}

#[test]
fn bounds_become_declared_facts() {
    if !compiler::is_there() {
        return;
    }
    let folder = folder();
    let bounds = ["--bound", "batch=1..4", "--bound", "length=..16"];
    let imported =
        folder.relax(&[&["import", MODEL, "--params", "m.safetensors"][..], &bounds].concat());
    let said = text(&imported.stdout);
    assert!(said.contains("    batch = sym_var(lower_bound=1, upper_bound=4)\n"), "{said}");
    assert!(said.contains("    length = sym_var(upper_bound=16)\n"), "{said}");
    let ended = folder.ended(&[&["build", "model", "-o", "m.rxm"][..], &bounds].concat());
    assert_eq!(ended.1, Some(0), "{}", ended.0);
    for (file, flags) in [("m.rxm", &[][..]), ("model", &bounds)] {
        for (input, code) in
            [("tokens=zeros(4,16)", 0), ("tokens=zeros(5,16)", 3), ("tokens=zeros(0,2)", 3)]
        {
            let ended = folder.ended(&[&["run", file, "--input", input], flags].concat());
            assert_eq!(ended.1, Some(code), "{file} {input}: {}", ended.0);
        }
    }
    for (bound, why) in [
        ("bach=1..4", "no dim `bach`; did you mean `batch`?"),
        ("batch=4..1", "the lower bound 4 is above the upper bound 1"),
        ("batch=1-4", "expected LOWER..UPPER"),
        ("batch=..", "expected a lower or an upper bound"),
        ("batch=-1..3", "a dim is at least 0"),
        ("1..4", "expected DIM=LOWER..UPPER"),
    ] {
        for command in
            [&["build", "model", "-o", "n.rxm"][..], &["check", "model"], &["inspect", "model"]]
        {
            let (said, code) = folder.ended(&[command, &["--bound", bound]].concat());
            assert_eq!((code, said.contains(why)), (Some(2), true), "{bound}: {said}");
        }
    }
    for command in ["run", "check", "inspect", "diff", "bench", "opt"] {
        let (said, code) = folder.ended(&[command, "p.rx", "--bound", "n=1..2"]);
        assert_eq!((code, said.contains("--bound is for ONNX models")), (Some(2), true), "{said}");
    }
}

fn inspected(folder: &Folder, file: &str) -> Value {
    let ended = folder.relax(&["inspect", file, "--format", "json"]);
    object(&text(&ended.stdout), "inspect")
}

#[test]
fn what_is_in_a_file_is_told() {
    let folder = folder();
    let program = inspected(&folder, "p.rx");
    assert_eq!((&program["kind"], &program["operators"]["matmul"]), (&json!("program"), &json!(1)));
    let dim = json!({ "name": "n", "lower": 1, "upper": 64, "multiple_of": null });
    assert_eq!(program["functions"][0]["dims"], json!([dim]));
    let model = inspected(&folder, "model");
    assert_eq!((&model["kind"], &model["opsets"]["ai.onnx"]), (&json!("model"), &json!(20)));
    assert_eq!(model["inputs"][0]["dims"], json!(["batch", "length"]));
    assert_eq!((&model["operators"]["MatMul"], &model["imports"]), (&json!(17), &json!(true)));
    assert_eq!(model["weights"].as_array().map(Vec::len), Some(47));
    if !compiler::is_there() {
        return;
    }
    built(&folder, "p.rx", "p.rxm");
    let module = inspected(&folder, "p.rxm");
    assert_eq!(module["kind"], "module");
    assert_eq!(module["functions"][0]["dims"], json!([dim]), "bounds are in the file");
    assert_eq!(module["functions"][0]["outputs"], json!(["the/logits"]));
    assert_eq!(
        module["memory"][0]["bytes"], "n * 8 + 512",
        "the product of up to 64 rows, and the result"
    );
    assert_eq!((&module["runs_here"], &module["kernel_check"]["agree"]), (&json!(true), &json!(1)));
    let (said, code) = folder.ended(&["inspect", "p.rxm"]);
    assert_eq!(code, Some(0));
    for part in
        ["target: cpu ", "numerics: float sums reassociated", "1 <= n <= 64", "certificate: none"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn what_is_in_files_of_weights_is_told() {
    const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../corpus/models");
    let folder = folder();
    let file = format!("{MODELS}/blocks.gguf");
    let gguf = inspected(&folder, &file);
    assert_eq!((&gguf["kind"], &gguf["version"]), (&json!("gguf"), &json!(3)));
    assert!(gguf["metadata"].as_object().is_some_and(|keys| keys.len() > 5), "{gguf}");
    let tensors = gguf["tensors"].as_array().expect("a list");
    let tensor = tensors.iter().find(|tensor| tensor["name"] == "blocks.q4_k");
    let tensor = tensor.expect("it is there");
    let elements = tensor["shape"][0].as_u64().zip(tensor["shape"][1].as_u64());
    let (rows, columns) = elements.expect("two dims");
    assert_eq!(
        (&tensor["format"], &tensor["bytes"]),
        (&json!("Q4_K"), &json!(rows * columns / 256 * 144))
    );
    let (said, code) = folder.ended(&["inspect", &file]);
    let line =
        format!("blocks.q4_k: Q4_K [{rows}, {columns}], {} bytes", rows * columns / 256 * 144);
    assert!(
        code == Some(0) && said.contains(": GGUF version 3, ") && said.contains(&line),
        "{said}"
    );
    let file = format!("{MODELS}/llm/tiny/llama/model.safetensors");
    let weights = inspected(&folder, &file);
    assert_eq!(weights["kind"], "safetensors");
    assert_eq!(weights["tensors"].as_array().map(Vec::len), Some(21));
    let head =
        json!({ "name": "lm_head.weight", "format": "F32", "shape": [64, 32], "bytes": 8192 });
    assert_eq!(weights["tensors"][0], head);
    let bytes: u64 = weights["tensors"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|t| t["bytes"].as_u64())
        .sum();
    assert_eq!(weights["bytes"], bytes);
}

#[test]
fn an_entry_may_have_the_name_of_an_operator() {
    const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../corpus/models/tiny.onnx");
    let folder = Folder::new();
    let import = ["import", TINY, "--entry", "add", "-o", "m.rx", "--params", "m.safetensors"];
    assert_eq!(folder.ended(&import).1, Some(0));
    let program = std::fs::read_to_string(folder.0.path().join("m.rx")).expect("it is written");
    assert!(program.contains("= relax.add(") && !program.contains("= add("), "{program}");
    let run = |entry: &str| {
        let ended = folder.relax(&["run", TINY, "--entry", entry, "--input", "ids=[[1, 2]]"]);
        (text(&ended.stdout), ended.status.code())
    };
    assert_eq!(run("add"), run("main"));
    assert_eq!(run("add").1, Some(0));
}
