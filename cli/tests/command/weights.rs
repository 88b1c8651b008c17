//! `relax shard --tensor` and `--versions`: layouts of weights and their bytes, runs of what is made, and what is refused.

use super::folder::Folder;

const MLP: &str = r#"def main(x: Tensor(("n", 64), "f32"), up: Tensor((64, 256), "f32"), down: Tensor((256, 64), "f32")):
    return matmul(relu(matmul(x, up)), down)
"#;

#[test]
fn weights_are_cut_as_the_textbook_has_it() {
    let folder = Folder::new();
    folder.write("mlp.rx", MLP);
    let shard = |more: &[&str]| {
        let arguments = [&["shard", "mlp.rx", "--sym", "n=8"], more].concat();
        folder.ended(&arguments)
    };
    let (said, code) = shard(&["--mesh", "4", "--tensor", "--explain"]);
    assert_eq!(code, Some(0), "{said}");
    for line in [
        "  x: R\n  up: S[1]\n  down: S[0]\n",
        "  spmd.all_reduce along axis 0: 24 * (n * 64) bytes\nall ranks",
        "costs were compared at n = 8",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let (said, code) = shard(&["--mesh", "2x2", "--tensor", "--data", "n", "--explain"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("  x: S[0], R\n  up: R, S[1]\n  down: R, S[0]\n"), "{said}");
    let (said, code) = shard(&["--mesh", "4", "--tensor", "-o", "cut.rx"]);
    assert_eq!(code, Some(0), "{said}");
    let inputs = ["--input", "x=ones(3, 64)", "--input", "up=full((64, 256), 0.5)"];
    let run = |arguments: &[&str]| {
        folder
            .ended(&[&["run"], arguments, &inputs[..], &["--input", "down=ones(256, 64)"]].concat())
    };
    let one = run(&["mlp.rx"]);
    assert_eq!((run(&["cut.rx", "--ranks", "4"]), one.1), (one, Some(0)));
}

#[test]
fn what_are_no_weights_is_refused() {
    let folder = Folder::new();
    folder.write("mlp.rx", MLP);
    folder.write("sum.rx", "def main(x: Tensor((\"n\",), \"f32\")):\n    return sum(x)\n");
    for (arguments, words) in [
        (
            &["mlp.rx", "--mesh", "4", "--tensor", "--data", "n"][..],
            "--tensor: with --data the mesh needs a second axis",
        ),
        (
            &["mlp.rx", "--mesh", "4", "--tensor=up,left"],
            "--tensor=up,left: `left` is no parameter of `main`",
        ),
        (&["mlp.rx", "--tensor"], "--tensor: the program must declare one mesh"),
        (&["sum.rx", "--mesh", "4", "--tensor"], "--tensor: no parameter of `main` has two axes"),
    ] {
        let (said, code) = folder.ended(&[&["shard"], arguments].concat());
        assert!(code == Some(2) && said.contains(words), "{code:?}: {said}");
    }
}

/// Rows go to the weights, or weights to the rows.
const PLACED: &str = r#"module_attr("mesh[0]", "p")

def main(x: DTensor(("n", 6), "f32", "mesh[0]", "S[0]"), up: DTensor((6, 8), "f32", "mesh[0]", "S[1]"), down: DTensor((8, 6), "f32", "mesh[0]", "S[0]")) -> DTensor(("n", 6), "f32", "mesh[0]", "S[0]"):
    return redistribute(matmul(relu(matmul(x, up)), down), "mesh[0]", "S[0]")
"#;

#[test]
fn versions_choose_what_moves_fewer_bytes() {
    let folder = Folder::new();
    folder.write("placed.rx", PLACED);
    let ended = |arguments: &[&str]| {
        let (said, code) = folder.ended(arguments);
        assert_eq!(code, Some(0), "{said}");
        said
    };
    let said = ended(&["shard", "placed.rx", "--versions", "--explain"]);
    for line in [
        "where n < 8:\n  x: S[0]\n",
        "all ranks together send n * p * 48 - n * 48 bytes\notherwise:\n",
        "all ranks together send p * 384 - 384 bytes\ncosts were compared",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let said = ended(&["shard", "placed.rx", "--versions", "--explain", "--format", "json"]);
    let told: serde_json::Value = serde_json::from_str(said.lines().next().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(told["versions"][0]["guard"][0], "n < 8", "{said}");
    assert_eq!(told["versions"][0]["bytes"], "n * p * 48 - n * 48", "{said}");
    assert_eq!(told["bytes"], "p * 384 - 384", "{said}");
    ended(&["shard", "placed.rx", "--versions", "--local", "-o", "l.rx", "--certificate", "c"]);
    let said = ended(&["verify", "c", "--program", "l.rx"]);
    assert!(said.starts_with("verified: "), "{said}");
    ended(&["build", "placed.rx", "--ranks", "--versions", "-o", "placed.rxm"]);
    for rows in ["3", "8", "9"] {
        let x = format!("x=full(({rows}, 6), 0.25)");
        let inputs = ["--input", &x, "--input", "up=ones(6, 8)", "--input", "down=ones(8, 6)"];
        let run = |arguments: &[&str]| ended(&[&["run"], arguments, &inputs[..]].concat());
        let one = run(&["placed.rx"]);
        assert_eq!(run(&["placed.rx", "--ranks", "3", "--versions"]), one);
        assert_eq!(run(&["placed.rxm", "--ranks", "3"]), one);
    }
    for (arguments, why) in [
        (&["shard", "placed.rx", "--versions"][..], "give --local, or --explain"),
        (&["run", "placed.rx", "--versions"], "--versions is for --ranks or --mpi"),
        (&["run", "placed.rxm", "--ranks", "2", "--versions"], "when the file was built"),
    ] {
        let (said, code) = folder.ended(arguments);
        assert!(code == Some(2) && said.contains(why), "{code:?} {said}");
    }
}
