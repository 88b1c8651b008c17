//! `relax equiv`: what it proves, what it refutes, what it leaves open, and that certificates are about these two programs.

use super::folder::{Folder, object};

const LEFT: &str = r#"
def f(x: Tensor(("n", "m"), "f32")):
    n, m = sym_var(), sym_var()
    return reshape(exp(x), shape(n * m))
"#;
const RIGHT: &str = r#"
def f(x: Tensor(("n", "m"), "f32")):
    n, m = sym_var(), sym_var()
    y = reshape(x, shape(m * n))
    return exp(y)
"#;
/// No sigmoid is negative, which elements are not known to be.
const PLAIN: &str = "def f(x: Tensor((\"n\",), \"f32\")):\n    return sigmoid(x)\n";
const CLAMPED: &str = "def f(x: Tensor((\"n\",), \"f32\")):\n    return relu(sigmoid(x))\n";
/// Wrong for negative numbers alone, in the last place of a sum, and where a matrix has more than a row and a column.
const WRONG: [[&str; 2]; 3] = [
    [
        "def f(x: Tensor((\"n\",), \"f32\")):\n    return abs(x)\n",
        "def f(x: Tensor((\"n\",), \"f32\")):\n    return x\n",
    ],
    [
        "def f(x: Tensor((\"n\",), \"f32\"), y: Tensor((\"n\",), \"f32\")):\n    return add(add(x, y), multiply(y, y))\n",
        "def f(x: Tensor((\"n\",), \"f32\"), y: Tensor((\"n\",), \"f32\")):\n    return add(x, add(y, multiply(y, y)))\n",
    ],
    [
        "def f(x: Tensor((\"n\", \"m\"), \"f32\")):\n    n, m = sym_var(), sym_var()\n    return reshape(x, shape(n * m))\n",
        "def f(x: Tensor((\"n\", \"m\"), \"f32\")):\n    n, m = sym_var(), sym_var()\n    return reshape(permute_dims(x), shape(n * m))\n",
    ],
];
/// It traps whatever it is given.
const NEVER: &str = r#"
def f(x: Tensor(("n",), "f32")):
    assert_op(less(const(2.0, "f32"), const(1.0, "f32")))
    return add(x, x)
"#;

fn folder(left: &str, right: &str) -> Folder {
    let folder = Folder::new();
    folder.write("a.rx", left);
    folder.write("b.rx", right);
    folder
}

#[test]
fn what_is_equal_is_proved_and_the_proof_replays() {
    let folder = folder(LEFT, RIGHT);
    let equiv = ["equiv", "a.rx", "b.rx", "--certificate", "c.cert", "--format", "json"];
    let (said, code) = folder.ended(&equiv);
    assert_eq!((&object(&said, "equiv")["verdict"], code), (&"equal".into(), Some(0)), "{said}");
    let (said, code) = folder.ended(&["verify", "c.cert"]);
    assert!(code == Some(0) && said.contains("verified: equivalence for any target"), "{said}");
    // About another program than the one that it names, and about one that was changed in it.
    assert_eq!(folder.ended(&["verify", "c.cert", "--program", "a.rx"]).1, Some(1));
    let certificate =
        std::fs::read_to_string(folder.0.path().join("c.cert")).expect("a certificate");
    folder.write("forged.cert", &certificate.replacen("exp(y)", "log(y)", 1));
    assert_eq!(folder.ended(&["verify", "forged.cert"]).1, Some(1));
}

#[test]
fn what_differs_is_shown_with_inputs_and_leaves_no_certificate() {
    for [left, right] in WRONG {
        let folder = folder(left, right);
        let equiv = ["equiv", "a.rx", "b.rx", "--certificate", "c.cert"];
        let (said, code) = folder.ended(&equiv);
        assert!(
            code == Some(1) && said.contains("different: `f`") && said.contains("--input 'x="),
            "{said}"
        );
        assert!(!folder.0.path().join("c.cert").exists());
        // The other way round too.
        assert_eq!(folder.ended(&["equiv", "b.rx", "a.rx"]).1, Some(1));
    }
    // Rounding explains the second one, which is no proof.
    let [left, right] = WRONG[1];
    let (said, code) = folder(left, right).ended(&["equiv", "a.rx", "b.rx", "--up-to-rounding"]);
    assert!(code == Some(6) && said.contains("`f`: open: "), "{said}");
}

#[test]
fn what_is_neither_is_open() {
    let folder = folder(PLAIN, CLAMPED);
    let (said, code) = folder.ended(&["equiv", "a.rx", "b.rx", "--certificate", "c.cert"]);
    assert!(
        code == Some(6) && said.contains("`f`: open: the elements are not known to be equal"),
        "{said}"
    );
    assert_eq!(folder.ended(&["verify", "c.cert"]).1, Some(6));
    // All functions count, and those of one program alone.
    folder.write("a.rx", &format!("{PLAIN}\n{}", LEFT.replace("def f", "def g")));
    folder.write("b.rx", &format!("{CLAMPED}\n{}", RIGHT.replace("def f", "def g")));
    let (said, code) = folder.ended(&["equiv", "a.rx", "b.rx", "--format", "json"]);
    let summary = object(&said, "summary");
    assert_eq!(
        (&summary["equal"], &summary["of"], code),
        (&1.into(), &2.into(), Some(6)),
        "{said}"
    );
    assert_eq!(folder.ended(&["equiv", "a.rx", "b.rx", "--entry", "g"]).1, Some(0));
    folder.write("b.rx", CLAMPED);
    for files in [["a.rx", "b.rx"], ["b.rx", "a.rx"]] {
        let (said, code) = folder.ended(&[&["equiv"][..], &files].concat());
        assert!(code == Some(1) && said.contains("program has `g`"), "{said}");
    }
}

/// A copy in a storage of so many f32, in the function itself or in a private one.
fn copy(extent: &str, private: &str) -> String {
    format!(
        r#"module_attr("phase", "P2.1")

def f(x: Tensor(("n",), "f32")):
    n = sym_var()
    {body}
    return y

def g(x: Tensor(("n",), "f32")):
    n = sym_var()
    func_attr("private", True)
    storage: Object = memory.alloc_storage(shape({extent}), "f32")
    y: Tensor((n,), "f32") = memory.alloc_tensor(storage, shape(n), "f32")
    copy(x, y)
    return y

@tensorir_function
def copy(X: Buffer(("n",), "f32"), Y: Buffer(("n",), "f32")):
    for i in grid(n):
        Y[i] = X[i]
"#,
        body = private,
    )
}

#[test]
fn tensors_that_leave_their_storage_are_not_proved() {
    let own = |extent: &str| {
        let storage = format!("storage: Object = memory.alloc_storage(shape({extent}), \"f32\")");
        let tensor = "y: Tensor((n,), \"f32\") = memory.alloc_tensor(storage, shape(n), \"f32\")";
        copy("n", &format!("{storage}\n    {tensor}\n    copy(x, y)"))
    };
    let call = "y: Tensor((n,), \"f32\") = g(x)";
    for (left, right, code) in [
        (own("n"), own("n + 1"), 5),
        (own("n"), own("max(n - 1, 0)"), 6),
        (copy("n", call), copy("n + 1", call), 5),
        (copy("n", call), copy("max(n - 1, 0)", call), 6),
    ] {
        let folder = folder(&left, &right);
        // The prover alone: a run would stop.
        let equiv = ["equiv", "a.rx", "b.rx", "--cases", "0", "--entry", "f"];
        let (said, ended) = folder.ended(&[&equiv[..], &["--certificate", "c.cert"]].concat());
        assert_eq!(ended, Some(code), "{said}");
        assert_eq!(code == 6, said.contains("`y` lies inside its storage"), "{said}");
        assert_eq!(folder.ended(&["verify", "c.cert"]).1, Some(if code == 6 { 1 } else { 0 }));
    }
}

#[test]
fn what_never_has_a_value_is_vacuous() {
    let folder = folder(NEVER, NEVER);
    let (said, code) = folder.ended(&["equiv", "a.rx", "b.rx"]);
    assert!(code == Some(5) && said.contains("no case had a value"), "{said}");
}

#[test]
fn constants_of_models_are_compared_and_bad_files_are_refused() {
    let folder = folder(LEFT, RIGHT);
    let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../corpus/models/onnx/");
    let (gpt, bert) = (format!("{models}gpt2.onnx"), format!("{models}bert.onnx"));
    assert_eq!(folder.ended(&["equiv", &gpt, &gpt, "--cases", "3"]).1, Some(0));
    assert_eq!(folder.ended(&["equiv", &gpt, &bert, "--cases", "3"]).1, Some(1));
    for (files, told) in
        [(["a.rx", "none.rx"], "cannot read none.rx"), (["-", "-"], "read once only")]
    {
        let (said, code) = folder.ended(&[&["equiv"][..], &files].concat());
        assert!(code == Some(2) && said.contains(told), "{said}");
    }
    let (said, code) = folder.ended(&["equiv", "a.rx", "b.rx", "--entry", "none"]);
    assert!(code == Some(2) && said.contains("none"), "{said}");
}
