//! A difference that `relax diff` finds: files and commands that show it again.
#![cfg(unix)]

use super::folder::{DOUBLED, Folder, editing, object, text};
use super::{compiler, relax};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tensors, a shape, a dtype that NumPy has not, a constant.
const AFFINE: &str = r#"
def main(x: Tensor(("n", 4), "f32"), s: Shape(["m"]), v: Tensor(("n", 4), "f32"), h: Tensor((4,), "bf16")):
    b = param("b", Tensor((4,), "f32"))
    a = multiply(x, v)
    c = add(a, b)
    d = relu(c)
    return (d, s, h)
"#;
/// In the sum with the constant.
const WRONG: &str = r"s/) + b\[/) * 1.5f + b[/";
const FIRST: &str = "def main(x: Tensor((\"n\", 4), \"f32\")):\n    return (x, x)\n";

/// Compiled kernels are cached by the name of the compiler, which is the same for all edits.
fn cache(folder: &Folder, edit: &str) -> PathBuf {
    folder.0.path().join(format!("cache{}", edit.len()))
}

/// What the command prints with a C compiler that is wrong.
fn wrong(folder: &Folder, edit: &str, arguments: &[&str]) -> (String, Option<i32>) {
    let mut command = relax(arguments);
    command.current_dir(folder.0.path()).env("CC", editing(folder.0.path(), edit));
    let command = command.env("XDG_CACHE_HOME", cache(folder, edit));
    let output = command.output().expect("the command runs");
    (text(&[output.stdout, output.stderr].concat()), output.status.code())
}

/// The elements of the first item of the tuple that a printed command gives.
fn first_item(folder: &Folder, command: &Value) -> Value {
    let binaries = Path::new(env!("CARGO_BIN_EXE_relax")).parent().expect("a folder");
    let path = std::env::var("PATH").expect("a path");
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{} --format json", command.as_str().expect("a command"))]);
    shell.current_dir(folder.0.path()).env("PATH", format!("{}:{path}", binaries.display()));
    shell.env("CC", editing(folder.0.path(), WRONG));
    shell.env("XDG_CACHE_HOME", cache(folder, WRONG));
    let output = shell.output().expect("the command runs");
    let said = text(&[output.stdout, output.stderr].concat());
    object(&said, "result")["value"]["items"][0]["elements"].clone()
}

/// The elements of a tensor in an archive.
fn saved(folder: &Folder, archive: &str, name: &str) -> Value {
    folder.write("first.rx", FIRST);
    let input = format!("x=@{archive}:{name}");
    let (said, _) = folder.ended(&["run", "first.rx", "--input", &input, "--format", "json"]);
    object(&said, "result")["value"]["items"][0]["elements"].clone()
}

#[test]
fn a_difference_is_saved_and_runs_again() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    folder.write("affine.rx", AFFINE);
    let diff = ["diff", "affine.rx", "--backend", "cpu", "--no-kernel-check", "--format", "json"];
    for flags in [&["--save", "it is.npz"][..], &["--save", "it is.npz", "--exact"]] {
        let (said, code) = wrong(&folder, WRONG, &[&diff[..], flags].concat());
        assert_eq!(code, Some(1), "{said}");
        let found = object(&said, "diff");
        assert_eq!(found["saved"], serde_json::json!(["it is.npz", "it is.constants.safetensors"]));
        for what in ["expected", "found"] {
            let elements = saved(&folder, "it is.npz", &format!("{what}_0"));
            assert_eq!(first_item(&folder, &found["commands"][what]), elements, "{what}: {said}");
        }
        let [expected, other] = ["expected_0", "found_0"].map(|n| saved(&folder, "it is.npz", n));
        assert_ne!(expected, other, "{said}");
        let input = saved(&folder, "it is.npz", "input_x");
        assert!(input.as_array().is_some_and(|elements| !elements.is_empty()), "{said}");
    }
    // A module file runs itself; what it expects is in the archive.
    folder.write(
        "plain.rx",
        &AFFINE
            .replace("param(\"b\", Tensor((4,), \"f32\"))", "add(h, h)")
            .replace("h: Tensor((4,), \"bf16\")", "h: Tensor((4,), \"f32\")"),
    );
    let edit = r"s/ + (h\[/ + (1.5f * h[/";
    let built = wrong(&folder, edit, &["build", "plain.rx", "-o", "m.rxm", "--no-kernel-check"]);
    assert_eq!(built.1, Some(0), "{}", built.0);
    let (said, code) = folder.ended(&["diff", "m.rxm", "--save", "m.npz", "--format", "json"]);
    assert_eq!(code, Some(1), "{said}");
    let found = object(&said, "diff");
    assert_eq!(
        (&found["commands"]["expected"], &found["saved"]),
        (&Value::Null, &serde_json::json!(["m.npz"]))
    );
    assert_eq!(
        first_item(&folder, &found["commands"]["found"]),
        saved(&folder, "m.npz", "found_0")
    );
}

/// Without an archive the command has the values themselves, where no constant is random.
#[test]
fn a_difference_has_its_command_without_files() {
    let folder = Folder::new();
    folder.write("doubled.rx", DOUBLED);
    folder.write("other.rx", &DOUBLED.replace("add(x, x)", "add(add(x, x), x)"));
    let (said, code) = folder.ended(&["diff", "doubled.rx", "--against", "other.rx"]);
    assert_eq!(code, Some(1), "{said}");
    for line in [
        "  expected: relax run doubled.rx --input 'x=const([",
        "  found: relax run other.rx --input 'x=const([",
    ] {
        assert!(said.contains(line), "{said}");
    }
    folder.write("affine.rx", AFFINE);
    folder.write("affine2.rx", &AFFINE.replace("relu(c)", "negative(c)"));
    let (said, code) = folder.ended(&["diff", "affine.rx", "--against", "affine2.rx"]);
    assert!(code == Some(1) && said.contains("note: --save FILE.npz writes the values"), "{said}");
    // One that traps has no value to save.
    folder.write("traps.rx", &DOUBLED.replace("add(x, x)", "reshape(x, shape(1000))"));
    let diff = ["diff", "doubled.rx", "--against", "traps.rx", "--save", "t.npz"];
    let (said, code) = folder.ended(&diff);
    assert!(code == Some(1) && said.contains("note: not saved: found is no value"), "{said}");
    assert!(said.contains("saved: t.npz"), "{said}");
}

#[test]
fn nothing_is_saved_without_a_difference() {
    let folder = Folder::new();
    folder.write("doubled.rx", DOUBLED);
    assert_eq!(folder.ended(&["diff", "doubled.rx", "--save", "same.npz"]).1, Some(0));
    for (path, why) in
        [("case.npy", "a name that ends with .npz"), ("no/case.npz", "no such folder")]
    {
        let (said, code) = folder.ended(&["diff", "doubled.rx", "--save", path]);
        assert!(code == Some(2) && said.contains(why), "{said}");
    }
    let left = std::fs::read_dir(folder.0.path()).expect("it is there");
    let left: Vec<_> = left.map(|entry| entry.expect("it is read").file_name()).collect();
    let saved = left.iter().filter(|name| *name != "cache" && *name != "doubled.rx");
    assert_eq!(saved.count(), 0, "{left:?}");
}

/// The dims are as small as they go, and the binding is the one whose kernel is wrong.
#[test]
fn a_difference_has_small_dims_and_a_binding() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    folder.write("affine.rx", AFFINE);
    let diff = ["diff", "affine.rx", "--backend", "cpu", "--no-kernel-check"];
    let (said, code) = wrong(&folder, WRONG, &[&diff[..], &["--format", "json"]].concat());
    let found = object(&said, "diff");
    assert_eq!((&found["binding"], code), (&"c".into(), Some(1)), "{said}");
    assert!(found["kernel"].as_str().is_some_and(|name| name.contains("add")), "{said}");
    assert_eq!(found["dims"], serde_json::json!({ "m": 0, "n": 1 }), "{said}");
    assert_eq!(found["drawn_dims"], serde_json::json!({ "m": 5, "n": 2 }), "{said}");
    let (said, _) = wrong(&folder, WRONG, &diff);
    assert!(said.contains("\n  first binding that differs: `c` (kernel `"), "{said}");
    assert!(said.contains("\n  m = 0 (drawn: 5)\n  n = 1 (drawn: 2)\n"), "{said}");
    // The bindings of a kernel that only the whole has are not guessed.
    folder.write("both.rx", &AFFINE.replace("(d, s, h)", "(c, d)"));
    let both = ["diff", "both.rx", "--backend", "cpu", "--no-kernel-check"];
    let edit = r"s/rx_max_f32(0.0f, c\[/1.5f * rx_max_f32(0.0f, c[/";
    let (said, code) = wrong(&folder, edit, &both);
    assert!(code == Some(1) && said.contains("none is named, since no binding differs"), "{said}");
    assert!(said.contains("multiply_add_relu`"), "{said}");
}

/// Cuts are compiled anew, which says nothing of a file that was made by another compiler.
#[test]
fn a_module_file_has_a_binding_where_its_source_differs_too() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    folder.write(
        "affine.rx",
        &AFFINE
            .replace("param(\"b\", Tensor((4,), \"f32\"))", "const([1.0, 2.0, 3.0, 4.0], \"f32\")"),
    );
    let edit = r"s/((x\[/((1.5f * x[/";
    let built = wrong(&folder, edit, &["build", "affine.rx", "-o", "m.rxm", "--no-kernel-check"]);
    assert_eq!(built.1, Some(0), "{}", built.0);
    for backend in [&[][..], &["--backend", "cpu"]] {
        let diff = [&["diff", "m.rxm", "--format", "json"], backend].concat();
        let (said, code) = wrong(&folder, edit, &diff);
        assert_eq!((&object(&said, "diff")["binding"], code), (&"c".into(), Some(1)), "{said}");
        let (said, code) = folder.ended(&diff);
        let found = object(&said, "diff");
        assert_eq!((&found["binding"], code), (&Value::Null, Some(1)), "{said}");
        assert!(said.contains("compiled anew, the program does not differ"), "{said}");
    }
}

/// Of many bindings half are passed over at a time.
#[test]
fn texts_have_a_binding_that_differs() {
    let folder = Folder::new();
    let chain = |wrong: Option<usize>| {
        let line = |at: usize| {
            let operator = if Some(at) == wrong { "subtract" } else { "add" };
            format!("    y{at} = {operator}(y{}, x)\n", at - 1)
        };
        let lines: String = (1..=40).map(line).collect();
        format!(
            "def main(x: Tensor((\"n\",), \"f32\")):\n    y0 = relu(x)\n{lines}    return y40\n"
        )
    };
    folder.write("chain.rx", &chain(None));
    for wrong in [1, 2, 17, 39, 40] {
        folder.write("wrong.rx", &chain(Some(wrong)));
        let diff = ["diff", "chain.rx", "--against", "wrong.rx"];
        let (said, code) = folder.ended(&diff);
        assert!(code == Some(1), "{said}");
        assert!(said.contains(&format!("first binding that differs: `y{wrong}`\n")), "{said}");
        assert!(said.contains("n = 1 (drawn: "), "{said}");
    }
}
