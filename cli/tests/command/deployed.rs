//! What is deployed: module files and models, the numerics that they have, and how they are compared with the interpreter.

use super::folder::{DOUBLED, Folder, editing, object, text};
use super::{compiler, relax};

const PRODUCT: &str = "def main(x: Tensor((\"n\", 4), \"f32\"), w: Tensor((4, 2), \"f32\")):\n    return exp(matmul(x, w))\n";

#[test]
fn a_module_file_says_its_numerics() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    folder.write("product.rx", PRODUCT);
    folder.write("doubled.rx", DOUBLED);
    let random = ["--random", "--sym", "n=3"];
    for (program, flags, name, words, rounded) in [
        ("product.rx", &[][..], "reassociated", "float sums reassociated", 1),
        ("product.rx", &["--exact"], "exact", "exact (1 with functions that round", 1),
        ("doubled.rx", &["--exact"], "exact", "1 kernels, exact\n", 0),
    ] {
        // The second time it comes from the cache.
        for _ in 0..2 {
            let build = [&["build", program, "-o", "m.rxm", "--format", "json"], flags].concat();
            let built = folder.relax(&build);
            let facts = object(&text(&built.stdout), "module");
            assert_eq!(facts["numerics"], name, "{program} {flags:?}: {facts}");
            assert_eq!(
                (&facts["rounded_kernels"], &facts["kernels"]),
                (&rounded.into(), &1.into())
            );
            let build = folder.relax(&[&["build", program, "-o", "m.rxm"], flags].concat());
            assert!(text(&build.stderr).contains(words.trim_end()), "{}", text(&build.stderr));
        }
        for command in ["run", "bench"] {
            let random = if command == "run" { &random[..] } else { &random[1..] };
            let said = folder.relax(&[&[command, "m.rxm", "-v"], random].concat());
            assert!(text(&said.stderr).contains(words), "{}", text(&said.stderr));
            let json =
                folder.relax(&[&[command, "m.rxm", "-v", "--format", "json"], random].concat());
            assert_eq!(object(&text(&json.stderr), "module")["numerics"], name);
            let quiet = folder.relax(&[&[command, "m.rxm"], random].concat());
            assert_eq!(text(&quiet.stderr), "", "it is a detail");
        }
    }
}

/// The numerics of the file decide: an error in the last place is a difference with --exact alone.
#[test]
#[cfg(unix)]
fn a_module_file_is_compared_with_the_source_in_it() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    folder.write("doubled.rx", DOUBLED);
    for (edit, flags, code) in [
        ("", &[][..], 0),
        ("", &["--exact"], 0),
        (r"s/\[i0\] + /[i0] * 1.5f + /", &[], 1),
        (r"s/\[i0\] + /[i0] * 1.5f + /", &["--exact"], 1),
        (r"s/\[i0\] + /[i0] * 1.0000002f + /", &[], 0),
        (r"s/\[i0\] + /[i0] * 1.0000002f + /", &["--exact"], 1),
    ] {
        let build = ["build", "doubled.rx", "-o", "m.rxm", "--no-kernel-check"];
        let mut build = relax(&[&build, flags].concat());
        build.current_dir(folder.0.path()).env("CC", editing(folder.0.path(), edit));
        build.env("XDG_CACHE_HOME", folder.0.path().join(format!("edited{}", edit.len())));
        assert_eq!(build.output().expect("the command runs").status.code(), Some(0));
        // What the file was built from need not be there.
        let (said, found) = folder.ended(&["diff", "m.rxm", "--cases", "20"]);
        assert_eq!(found, Some(code), "{edit} {flags:?}: {said}");
        let (said, found) = folder.ended(&["diff", "m.rxm", "--cases", "20", "--format", "json"]);
        let verdict = if code == 0 { "the same" } else { "different" };
        assert_eq!((&object(&said, "diff")["verdict"], found), (&verdict.into(), Some(code)));
    }
}

/// A constant and a parameter, named as `relax run --output` names the fields of a tuple.
const WEIGHTS: &str = "def main(x: Tensor((\"n\", \"m\"), \"f32\"), result_1: Tensor((\"m\",), \"f32\")):\n    \
                       return multiply(add(x, param(\"result_0\", Tensor((2,), \"f32\"))), result_1)\n";

fn write_weights(folder: &Folder, name: &str, values: &str) {
    folder.write(
        "make.rx",
        "def main(a: Tensor((2,), \"f32\"), b: Tensor((2,), \"f32\")):\n    return (a, b)\n",
    );
    let input = format!("b={values}");
    let run = ["run", "make.rx", "--input", "a=[10, 20]", "--input", &input, "--output", name];
    assert_eq!(folder.ended(&run).1, Some(0));
}

#[test]
fn a_module_file_is_compared_with_its_own_weights() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    folder.write("w.rx", WEIGHTS);
    write_weights(&folder, "w.safetensors", "[1, 2]");
    write_weights(&folder, "other.safetensors", "[1, 3]");
    let build = ["build", "w.rx", "-o", "w.rxm", "--params", "w.safetensors"];
    assert_eq!(folder.ended(&build).1, Some(0));
    for (params, code, words) in [
        (&["--params", "w.safetensors"][..], 0, "the same: 100 compared"),
        (&[], 2, "give their file with --params"),
        (
            &["--params", "other.safetensors"],
            2,
            "has other weights than w.rxm was built with: `result_1`",
        ),
        (&["--params", "none.safetensors"], 2, "none.safetensors"),
        (&["--params", "w.safetensors", "--exact"], 2, "the numerics that it was built with"),
        (&["--params", "w.safetensors", "--against", "w.rx"], 0, "the same: 100 compared"),
        (&["--params", "w.safetensors", "--backend", "wgpu"], 4, "code for the processor"),
        (&["--params", "w.safetensors", "--entry", "other"], 2, "other"),
    ] {
        let (said, found) = folder.ended(&[&["diff", "w.rxm"], params].concat());
        assert!(found == Some(code) && said.contains(words), "{params:?}: {said}");
    }
    // Parameters that stay parameters: the same file gives their values.
    folder.write("free.rx", "def main(x: Tensor((\"n\",), \"f32\"), result_1: Tensor((\"n\",), \"f32\")):\n    return add(x, result_1)\n");
    for params in [&["--params", "w.safetensors"][..], &[]] {
        let build = [&["build", "free.rx", "-o", "free.rxm"], params].concat();
        assert_eq!(folder.ended(&build).1, Some(0));
        let (said, code) = folder.ended(&["diff", "free.rxm", "--params", "w.safetensors"]);
        assert!(code == Some(0) && said.contains("the same: 100 compared"), "{said}");
    }
}

/// What the interpreter needs of a file and does not find there is not guessed.
#[test]
fn module_files_without_their_source_are_refused() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    folder.write("doubled.rx", DOUBLED);
    assert_eq!(folder.ended(&["build", "doubled.rx", "-o", "m.rxm"]).1, Some(0));
    let bytes = std::fs::read(folder.0.path().join("m.rxm")).expect("it was built");
    let image = relax_runtime::file::Image::from_bytes(&bytes).expect("it reads");
    for (source, words) in [
        (String::new(), "there is no source in it"),
        ("def main(".to_owned(), "is no program of this version"),
        (DOUBLED.replace('x', "y"), "its functions are not those of the source in it"),
        (DOUBLED.replace("main", "other"), "its functions are not those of the source in it"),
    ] {
        let forged = relax_runtime::file::Image { source, ..image.clone() };
        std::fs::write(folder.0.path().join("forged.rxm"), forged.to_bytes())
            .expect("it is written");
        let (said, code) = folder.ended(&["diff", "forged.rxm"]);
        assert!(code == Some(2) && said.contains(words), "{said}");
    }
}

#[test]
fn values_of_a_file_are_compared_with() {
    let folder = Folder::new();
    folder.write("w.rx", WEIGHTS);
    let known = WEIGHTS
        .replace("param(\"result_0\", Tensor((2,), \"f32\"))", "const([10.0, 20.0], \"f32\")");
    folder.write("known.rx", &known.replace(", result_1)", ", const([1.0, 2.0], \"f32\"))"));
    write_weights(&folder, "w.safetensors", "[1, 2]");
    let diff = ["diff", "w.rx", "--against", "known.rx", "--cases", "40"];
    let (said, code) = folder.ended(&[&diff[..], &["--params", "w.safetensors"]].concat());
    assert!(code == Some(0) && said.contains("the same: 40 compared"), "{said}");
    let (said, code) = folder.ended(&diff);
    assert!(code == Some(1) && said.contains("different: `main`"), "{said}");
    let (said, code) = folder.ended(&["diff", "w.rx", "--params", "w.rx"]);
    assert_eq!(code, Some(2), "{said}");
}

#[test]
#[cfg(unix)]
fn a_model_is_compared_as_its_import() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../corpus/models/onnx/");
    let experts = format!("{models}experts.onnx");
    let diff = ["diff", experts.as_str(), "--backend", "cpu", "--cases", "3", "--no-kernel-check"];
    let (said, code) = folder.ended(&diff);
    assert!(code == Some(0) && said.contains("the same: 3 compared"), "{said}");
    let (said, code) = folder.ended(&["diff", &experts, "--cases", "2"]);
    assert!(code == Some(0) && said.contains("the same: 2 compared"), "{said}");
    let (said, code) = folder.ended(&["diff", &experts, "--params", "w.safetensors"]);
    assert!(code == Some(2) && said.contains("--params is for programs"), "{said}");
    let rank = concat!(env!("CARGO_MANIFEST_DIR"), "/../import/tests/loops/rank.onnx");
    let (said, code) = folder.ended(&["diff", rank]);
    assert!(code == Some(2) && said.contains("relax import"), "{said}");
    let mut wrong = relax(&diff);
    wrong.env("CC", editing(folder.0.path(), "s/ = (float)T/ = 1.25f * (float)T/"));
    let wrong = wrong.env("XDG_CACHE_HOME", folder.0.path().join("wrong")).output();
    let wrong = wrong.expect("the command runs");
    assert_eq!(wrong.status.code(), Some(1), "{}", text(&wrong.stdout));
}

/// A look at how a file begins must not take that from a pipe.
#[test]
#[cfg(target_os = "linux")]
fn programs_come_through_pipes() {
    for file in ["/dev/stdin", "-"] {
        let ended = super::piped::relax(&["diff", file, "--cases", "3"], DOUBLED.as_bytes());
        assert_eq!(text(&ended.stdout).split(',').next(), Some("the same: 3 compared"), "{file}");
    }
}
