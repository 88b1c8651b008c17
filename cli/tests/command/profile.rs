//! What `bench`, traces and `inspect` say of kernels: how much they compute and move, how near the limits of the processor that is,
//! and where they come from.

use super::compiler;
use super::folder::{Folder, object, text};
use serde_json::Value;
use std::path::Path;

/// A product of (n, 24) and (24, 40), to which a vector is added, and `gelu`: the third line.
const MLP: &str = "def main(x: Tensor((\"n\", 24), \"f32\"), w: Tensor((24, 40), \"f32\"), b: Tensor((40,), \"f32\")):\n    \
                   p = matmul(x, w)\n    q = add(p, b)\n    return gelu(q)\n";

/// What a command prints that ends well.
fn stdout(folder: &Folder, arguments: &[&str]) -> String {
    let output = folder.relax(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("each line is an object")).collect()
}

fn number(object: &Value, field: &str) -> f64 {
    object[field].as_f64().unwrap_or_else(|| panic!("no number `{field}` in {object}"))
}

/// Objects of the type `kernel`, after the limits.
fn kernels(folder: &Folder, args: &[&str]) -> Vec<Value> {
    let bench = [&["bench", "--seconds", "0", "--threads", "1", "--format", "json"], args].concat();
    let all = objects(&stdout(folder, &bench));
    let limits = all.iter().find(|object| object["type"] == "limits").expect("limits are told");
    assert_eq!(limits["threads"], 1, "{limits}");
    assert!(number(limits, "operations_per_second") > 1e8, "{limits}");
    let reads = limits["reads"].as_array().expect("working sets");
    assert!(!reads.is_empty() && reads.iter().all(|set| number(set, "bytes_per_second") > 1e7));
    all.into_iter().filter(|object| object["type"] == "kernel").collect()
}

#[test]
fn a_kernel_is_told_by_what_it_computes_and_how_fast() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    folder.write("mlp.rx", MLP);
    for n in [1.0, 7.0, 33.0] {
        let kernels = kernels(&folder, &["mlp.rx", "--sym", &format!("n={n}")]);
        let product = kernels.iter().find(|kernel| {
            kernel["name"].as_str().is_some_and(|name| name.contains("matmul_bias_gelu"))
        });
        let product = product.unwrap_or_else(|| panic!("{kernels:?}"));
        assert!(number(product, "operations") >= 2.0 * n * 24.0 * 40.0, "{product}");
        assert!(number(product, "operations") <= 2.0 * n * 24.0 * 40.0 + 12.0 * n * 40.0);
        assert!(number(product, "bytes") >= 4.0 * (n * 24.0 + 40.0 + n * 40.0), "{product}");
        let seconds = number(product, "microseconds") * 1e-6;
        let rate = number(product, "operations") / seconds;
        assert!((rate / number(product, "operations_per_second") - 1.0).abs() < 1e-9);
        assert!(number(product, "of_limit") > 0.0, "{product}");
        let places = product["places"].as_array().expect("it has places");
        assert!(
            places.iter().all(|place| place.as_str().is_some_and(|p| p.starts_with("mlp.rx:")))
        );
    }
    let table = stdout(&folder, &["bench", "mlp.rx", "--sym", "n=7", "--seconds", "0"]);
    for part in ["GFLOP/s", "GB/s", "limit", "matmul_bias_gelu", "mlp.rx:"] {
        assert!(table.contains(part), "no {part}: {table}");
    }
}

#[test]
fn events_of_a_trace_say_the_same() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    folder.write("mlp.rx", MLP);
    let run =
        ["run", "mlp.rx", "--backend", "cpu", "--random", "--sym", "n=5", "--trace", "t.json"];
    stdout(&folder, &run);
    let trace: Value =
        serde_json::from_slice(&std::fs::read(folder.0.path().join("t.json")).expect("a trace"))
            .expect("a trace is JSON");
    let events = trace["traceEvents"].as_array().expect("it has events");
    let known = events.iter().map(|event| &event["args"]);
    let known: Vec<&Value> = known.filter(|args| args["operations"].is_number()).collect();
    assert!(!known.is_empty(), "{trace}");
    for args in known {
        assert!(number(args, "bytes") > 0.0 && number(args, "of_limit") > 0.0, "{args}");
        assert!(args["place"].as_str().is_some_and(|place| place.starts_with("mlp.rx:")), "{args}");
    }
}

#[test]
fn kernels_of_a_model_name_its_nodes() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../import/tests/extents");
    let model = models.join("resize_linear.onnx").to_string_lossy().into_owned();
    let import = stdout(&folder, &["import", &model]);
    assert!(import.contains("    # Resize"), "{import}");
    let dims = ["n=2", "h=3", "w=5", "a=7", "b=4"].map(|dim| ["--sym", dim]).concat();
    let kernels = kernels(&folder, &[&[model.as_str()], &dims[..]].concat());
    let names =
        |kernel: &Value| kernel["node"].as_str().is_some_and(|node| node.starts_with("Resize"));
    assert!(kernels.iter().any(names), "{kernels:?}");
}

#[test]
fn inspection_prints_the_formulas() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    folder.write("mlp.rx", MLP);
    stdout(&folder, &["build", "mlp.rx", "-o", "mlp.rxm"]);
    let whole = object(&stdout(&folder, &["inspect", "mlp.rxm", "--format", "json"]), "inspect");
    let kernels = whole["kernels"].as_array().expect("kernels");
    let product = kernels.iter().find(|kernel| {
        kernel["name"].as_str().is_some_and(|name| name.contains("matmul_bias_gelu"))
    });
    let operations = product.and_then(|kernel| kernel["operations"].as_str());
    assert!(operations.is_some_and(|text| text.ends_with(" * n")), "{whole:?}");
    assert!(stdout(&folder, &["inspect", "mlp.rxm"]).contains(" float operations"));
}

#[test]
fn the_picture_of_memory_has_names_axes_and_units() {
    let folder = Folder::new();
    folder.write("mlp.rx", MLP);
    let picture = stdout(&folder, &["opt", "mlp.rx", "--to", "P2.1", "--memory-report=svg"]);
    for part in ["\n0 B\n", " KiB\n", "\nstep\n", "\nlv0_storage, ", "blue: a tensor"] {
        assert!(picture.contains(part), "no {part}: {picture}");
    }
}

#[test]
fn a_trap_of_a_model_names_its_node() {
    let folder = Folder::new();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/models/tiny.onnx");
    let model = corpus.to_string_lossy().into_owned();
    for backend in ["interp", "cpu"] {
        if backend == "cpu" && !compiler::is_there() {
            return;
        }
        let run = ["run", &model, "--backend", backend, "--input", "ids=[[99]]"];
        let (said, code) = folder.ended(&run);
        assert_eq!(code, Some(3), "{said}");
        assert!(said.contains("in the node `Gather /embed` of the model"), "{said}");
    }
}
