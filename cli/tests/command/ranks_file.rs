//! Module files of `relax build --ranks`: results are those of the program on all ranks, and what they are not made for is refused.

use super::folder::{Folder, object, text};
use relax_runtime::file::{Image, RANKS_VERSION};
use serde_json::json;
use std::fs;

/// Results in two layouts, a symbolic dim with a bound, a parameter that is no tensor, and a call that is inlined.
const PROGRAM: &str = r#"module_attr("mesh[0]", "2, 2")

def doubled(x: Tensor(("n", 4), "f32")) -> Tensor(("n", 4), "f32"):
    return add(x, x)

def main(x: Tensor(("n", 4), "f32"), a: DTensor((4, "f"), "f32", "mesh[0]", "S[0], S[1]"), b: DTensor(("f", 4), "f32", "mesh[0]", "R, S[0]"), s: Shape(["m"])):
    func_attr("output.0", "rows")
    func_attr("output.1", "sums")
    y = doubled(matmul(matmul(x, a), b))
    z = redistribute(y, "mesh[0]", "S[0], R")
    return (z, sum(y, axis=[0]))
"#;

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("p.rx", PROGRAM);
    let (said, code) = folder.ended(&["build", "p.rx", "--ranks", "--exact", "-o", "p.rxm"]);
    assert_eq!(code, Some(0), "{said}");
    // Collectives are no work that is left to the reference library.
    assert!(!said.contains("RX0505") && !said.contains("interpreted"), "{said}");
    folder
}

/// What a run prints on standard output.
fn printed(folder: &Folder, arguments: &[&str]) -> String {
    let ran = folder.relax(arguments);
    assert_eq!(ran.status.code(), Some(0), "{arguments:?}: {}", text(&ran.stderr));
    text(&ran.stdout)
}

#[test]
fn results_are_those_of_the_text() {
    let folder = folder();
    for (n, f) in [(0, 3), (1, 0), (3, 5), (8, 8)] {
        let x = format!("x=randn({n}, 4)");
        let (a, b) = (format!("a=randn(4, {f})"), format!("b=randn({f}, 4)"));
        let inputs = ["--input", &x, "--input", &a, "--input", &b, "--input", "s=[7]"];
        let run = |file: &str, more: &[&str]| {
            printed(&folder, &[&["run", file, "--ranks", "4"], &inputs[..], more].concat())
        };
        let expected = run("p.rx", &["--backend", "cpu", "--exact"]);
        assert_eq!(expected, run("p.rx", &[]), "interpreted");
        assert_eq!(expected, run("p.rxm", &[]));
        assert_eq!(expected, run("p.rxm", &["--backend", "cpu", "--threads", "1"]));
    }
}

/// Where the mesh leaves an extent to the run, one file is for every number of ranks.
#[test]
fn one_file_is_for_every_number_of_ranks() {
    let folder = Folder::new();
    folder.write("any.rx", &PROGRAM.replace("\"2, 2\"", "\"p, 2\""));
    let (said, code) = folder.ended(&["build", "any.rx", "--ranks", "--exact", "-o", "any.rxm"]);
    assert_eq!(code, Some(0), "{said}");
    let inputs = ["x=randn(5, 4)", "a=randn(4, 3)", "b=randn(3, 4)", "s=[7]"];
    let inputs: Vec<&str> = inputs.iter().flat_map(|input| ["--input", input]).collect();
    for ranks in ["2", "4", "3x2", "14"] {
        let run = |file: &str| {
            printed(&folder, &[&["run", file, "--ranks", ranks], &inputs[..]].concat())
        };
        assert_eq!(run("any.rx"), run("any.rxm"), "{ranks}");
    }
    for (arguments, words) in [
        (&["run", "any.rxm"][..], "each of p x 2 ranks of \"mesh[0]\": give --ranks N"),
        (&["run", "any.rxm", "--ranks", "3"], "has a multiple of 2 workers"),
        (&["run", "any.rxm", "--ranks", "2x3"], "is not one with the extents [2, 3]"),
        (&["run", "any.rxm", "--ranks", "0x2"], "expected integers of at least 1"),
        (&["run", "any.rxm", "--ranks", "514"], "has more than 256 workers"),
    ] {
        let (said, code) = folder.ended(&[arguments, &inputs].concat());
        assert!(code == Some(2) && said.contains(words), "{arguments:?}, {code:?}: {said}");
    }
    let said = printed(&folder, &["inspect", "any.rxm", "--format", "json"]);
    assert_eq!(object(&said, "inspect")["ranks"]["extents"], json!(["p", 2]));
}

#[test]
fn what_does_not_run_it_is_told_how() {
    let folder = folder();
    let alone = folder.ended(&["build", "p.rx", "-o", "alone.rxm"]);
    assert_eq!(alone.1, Some(0), "{}", alone.0);
    folder.write("plain.rx", "def main(x: Tensor((3,), \"f32\")):\n    return add(x, x)\n");
    for (arguments, words) in [
        (
            &["run", "p.rxm", "--random"][..],
            "p.rxm has the code of each of the 4 ranks of \"mesh[0]\": give --ranks 4, or start `mpirun -np 4 relax run --mpi p.rxm`",
        ),
        (&["bench", "p.rxm"], "give --ranks 4"),
        (
            &["run", "p.rxm", "--ranks", "2"],
            "--ranks 2: the mesh \"mesh[0]\" with the extents [2, 2] has 4 workers",
        ),
        (
            &["run", "alone.rxm", "--ranks", "4"],
            "--ranks: alone.rxm has code for one rank: build it with `relax build --ranks`",
        ),
        (&["run", "p.rxm", "--ranks", "4", "--entry", "doubled"], "doubled"),
        (&["run", "p.rxm", "--ranks", "4", "--input", "x=ones(3, 4)"], "parameter"),
        (&["run", "p.rxm", "--ranks", "4", "--exact"], "numerics that it was built with"),
        (&["build", "p.rx", "--ranks", "--certify", "-o", "q.rxm"], "cannot be used with"),
        (&["build", "p.rx", "--ranks=other", "-o", "q.rxm"], "other"),
    ] {
        let (said, code) = folder.ended(arguments);
        assert!(code == Some(2) && said.contains(words), "{arguments:?}, {code:?}: {said}");
        assert_eq!(said.matches("error").count(), 1, "{said}");
        assert!(!folder.0.path().join("q.rxm").exists());
    }
    let (said, code) = folder.ended(&["build", "plain.rx", "--ranks", "-o", "q.rxm"]);
    assert!(code == Some(1) && said.contains("RX0322"), "{code:?}: {said}");
}

#[test]
fn a_trap_of_a_rank_has_its_place() {
    let folder = folder();
    let inputs = ["--input", "x=ones(3, 4)", "--input", "a=ones(4, 5)", "--input", "b=ones(6, 4)"];
    let ended = |file: &str| {
        let arguments = [&["run", file, "--ranks", "4", "--input", "s=[7]"], &inputs[..]].concat();
        folder.ended(&arguments)
    };
    let (text, file) = (ended("p.rx"), ended("p.rxm"));
    assert_eq!(text.1, Some(3), "{}", text.0);
    assert_eq!(file.1, text.1, "{}", file.0);
}

#[test]
fn inspect_tells_of_ranks() {
    let folder = folder();
    let said = printed(&folder, &["inspect", "p.rxm"]);
    for words in [
        "format version 12,",
        "code of each rank of mesh[0], 2 x 2; all ranks together:",
        "DTensor((4, f), \"f32\", \"mesh[0]\", \"S[0], S[1]\")",
        "outputs: rows, sums",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let said = printed(&folder, &["inspect", "p.rxm", "--format", "json"]);
    let found = object(&said, "inspect");
    assert_eq!(found["version"], json!(RANKS_VERSION));
    assert_eq!(found["ranks"]["extents"], json!([2, 2]));
    assert_eq!(found["ranks"]["functions"][0]["name"], json!("main"));
}

/// What a file says of ranks may be anything: it is an error with exit code 2 or 3, never a panic.
#[test]
fn forged_layouts_do_no_harm() {
    let folder = folder();
    let good = fs::read(folder.0.path().join("p.rxm")).expect("it is there");
    let good = Image::from_bytes(&good).expect("it is whole");
    let ranks = good.ranks.clone();
    assert!(ranks.contains("\"S[0], R\""), "{ranks}");
    let forged = [
        "def".to_owned(),
        "\u{0}".to_owned(),
        ranks.replace("\"2, 2\"", "\"2, 99\""),
        ranks.replace("\"2, 2\"", "\"4\""),
        ranks.replace("mesh[0]\", \"2", "mash[0]\", \"2"),
        ranks.replace("def main", "def other"),
        ranks.replace("\"S[0], S[1]\"", "\"S[1], S[0]\""),
        ranks.replace("\"R, S[0]\"", "\"S[5], S[0]\""),
        ranks.replace("\"S[0], R\"", "\"S[1], R\""),
        ranks.replace("s: Shape([\"m\"])", "s: Prim(\"i64\")"),
        ranks.replace("    s: Shape([\"m\"]),\n", ""),
        format!(
            "{ranks}\n{}",
            ranks.lines().skip(1).collect::<Vec<_>>().join("\n").replace("main", "more")
        ),
        ranks.split("->").next().unwrap_or_default().to_owned() + "-> Tuple()\n",
    ];
    let inputs = ["--input", "x=ones(3, 4)", "--input", "a=ones(4, 5)", "--input", "b=ones(5, 4)"];
    for text in forged {
        assert_ne!(text, ranks, "nothing is forged");
        let image = Image { ranks: text.clone(), ..good.clone() };
        fs::write(folder.0.path().join("f.rxm"), image.to_bytes()).expect("it is written");
        let run = [&["run", "f.rxm", "--ranks", "4", "--input", "s=[7]"], &inputs[..]].concat();
        for arguments in [&run[..], &["run", "f.rxm"], &["inspect", "f.rxm"]] {
            let (said, code) = folder.ended(arguments);
            assert!(
                !said.contains("panicked") && !said.contains("internal error"),
                "{text}: {said}"
            );
            assert!(matches!(code, Some(0 | 2 | 3)), "{arguments:?} {code:?} {text}: {said}");
            assert!(code != Some(0) || arguments[0] == "inspect", "{text}: {said}");
        }
    }
}

/// What a collective makes lies in memory of the rank, which the limit counts.
#[test]
fn results_of_collectives_count() {
    let folder = Folder::new();
    folder.write(
        "g.rx",
        r#"module_attr("mesh[0]", "2")

def main(x: DTensor(("n", 1), "f32", "mesh[0]", "S[0]"), w: Tensor((1, 64), "f32")):
    y = redistribute(matmul(x, w), "mesh[0]", "R")
    return sum(y, axis=[0])
"#,
    );
    let ended = |limit: &str| {
        let run = ["run", "g.rx", "--ranks", "2", "--backend", "cpu"];
        let inputs = ["--input", "x=ones(4096, 1)", "--input", "w=ones(1, 64)"];
        folder.ended(&[&run[..], &inputs, &["--max-memory", limit]].concat())
    };
    // Of each rank the rows are 512 KiB, their copy for the collective is as large, and all rows are 1 MiB.
    let (said, code) = ended("1600000");
    assert!(code == Some(3) && said.contains("take more than 1600000 bytes"), "{code:?}: {said}");
    let (said, code) = ended("4M");
    assert_eq!(code, Some(0), "{said}");
}
