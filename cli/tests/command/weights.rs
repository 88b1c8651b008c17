//! `relax shard --tensor`: layouts of weights and their bytes, a run of what is printed, and what is refused.

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
