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

#[test]
fn a_function_is_open_where_one_that_it_calls_is() {
    let calling = "\ndef g(x: Tensor((\"n\",), \"f32\")):\n    return f(x)\n";
    let folder = folder(&format!("{PLAIN}{calling}"), &format!("{CLAMPED}{calling}"));
    let equiv = ["equiv", "a.rx", "b.rx", "--entry", "g"];
    let (said, code) = folder.ended(&equiv);
    assert!(
        code == Some(6) && said.contains("`g`: open: it reaches `f`: the elements are not"),
        "{said}"
    );
    folder.write(
        "b.rx",
        &format!("{PLAIN}{}", calling.replace("    return f(x)", "    y = f(x)\n    return y")),
    );
    assert_eq!(folder.ended(&equiv).1, Some(0));
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

/// Dims of tensors, shapes and fields, with what is declared of them, a cast and a view.
const TYPED: &str = r#"
def main(x: Tensor(("n", 4), "f32"), y: Tensor(("n", "m"), "f32"), s: Shape(["n * 2", "k"]), t: Tuple(Tensor(("k",), "i32"), Tensor(("j", 2), "f32"))):
    n, k = sym_var(lower_bound=1), sym_var()
    m = sym_var(upper_bound=64, multiple_of=2)
    j = sym_var()
    z = exp(x)
    w = reshape(z, shape(n * 4))
    u = match_cast(t[1], Tensor(("n", 2), "f32"))
    a = add(u, u)
    return (w, a, y, t[0])
"#;

/// `a.rx` is not proved equal to a text with any one of some edits. The prover is alone: no case is run.
fn none_is_proved(folder: &Folder, text: &str, edits: &[(&str, &str)]) {
    for (from, to) in edits {
        assert!(text.contains(from), "{from}: {text}");
        folder.write("b.rx", &text.replacen(from, to, 1));
        let (said, code) = folder.ended(&["equiv", "a.rx", "b.rx", "--cases", "0"]);
        assert!(matches!(code, Some(1 | 6)), "{to}: {code:?}: {said}");
    }
}

#[test]
fn what_checks_its_own_parameters_is_compared_with_a_signature() {
    let folder = Folder::new();
    folder.write("typed.rx", TYPED);
    let lowered = |phase: &str| {
        let (text, code) = folder.ended(&["opt", "typed.rx", "--to", phase]);
        assert_eq!(code, Some(0), "{text}");
        text
    };
    folder.write("a.rx", &lowered("P2.2"));
    let text = lowered("P2.3");
    folder.write("b.rx", &text);
    let equiv = ["equiv", "a.rx", "b.rx", "--certificate", "c.cert"];
    let (said, code) = folder.ended(&equiv);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(folder.ended(&["verify", "c.cert"]).1, Some(0));
    // Each of these stops for other inputs, or has other values.
    let edits = [
        ("\"tensor\",\n        2,\n        \"f32\"", "\"tensor\",\n        2,\n        \"f64\""),
        ("\"lower_bound\", 1,", "\"lower_bound\", 2,"),
        ("\"upper_bound\", 64,", "\"upper_bound\", 66,"),
        ("\"multiple_of\", 2,", "\"multiple_of\", 4,"),
        ("\"*\", (\"slot\", 0), 2,", "\"*\", (\"slot\", 0), 3,"),
        ("(None, (\"store\", 1))", "((\"store\", 1), None)"),
        ("(None, (\"store\", 2))", "(None, None)"),
        ("((\"slot\", 0), None)", "(None, None)"),
        (
            "builtin.make_shape(heap, ((\"slot\", 0), 4))",
            "builtin.make_shape(heap, ((\"slot\", 0), 3))",
        ),
        ("field_1 = t[1]", "field_1 = t[0]"),
        ("\"tuple\",\n        2,", "\"tuple\",\n        3,"),
    ];
    none_is_proved(&folder, &text, &edits);
}

#[test]
fn built_ins_by_position_are_compared_with_those_by_name() {
    let folder = Folder::new();
    folder.write("typed.rx", TYPED);
    let lowered = |file: &str, route: [&str; 2]| {
        let (text, code) = folder.ended(&[&["opt", file][..], &route].concat());
        assert_eq!(code, Some(0), "{text}");
        text
    };
    folder.write("memory.rx", &lowered("typed.rx", ["--to", "P2.1"]));
    let before = lowered("memory.rx", ["--passes", "lower_shapes"]);
    folder.write("a.rx", &before);
    let text = lowered("a.rx", ["--passes", "lower_builtins"]);
    assert_ne!(before, text);
    folder.write("b.rx", &text);
    let equiv = ["equiv", "a.rx", "b.rx", "--cases", "0"];
    let (said, code) = folder.ended(&[&equiv[..], &["--certificate", "c.cert"]].concat());
    assert_eq!(code, Some(5), "{said}");
    assert_eq!(folder.ended(&["verify", "c.cert"]).1, Some(0));
    let edits = [
        ("\"tensor\",\n        2,\n        \"f32\"", "\"tensor\",\n        2,\n        None"),
        ("\"i32\",\n        \"boundary\"", "\"i64\",\n        \"boundary\""),
        ("\"tensor\",\n        1,", "\"tensor\",\n        2,"),
        ("\"upper_bound\", 64,", "\"upper_bound\", 63,"),
        ("(heap, 1, \"multiple_of\", 2,", "(heap, 0, \"multiple_of\", 2,"),
        ("((\"store\", 0), None)", "(None, (\"store\", 0))"),
        ("((\"slot\", 4), None)", "((\"slot\", 0), None)"),
        ("((\"slot\", 2),)", "(None,)"),
        ("heap, 4, \"*\", (\"slot\", 0), 2,", "heap, 4, \"+\", (\"slot\", 0), 2,"),
        ("make_shape(heap, ((\"slot\", 0), 2))", "make_shape(heap, ((\"slot\", 4), 2))"),
        ("memory.alloc_storage(dims_2, \"f32\"", "memory.alloc_storage(dims_2, \"f16\""),
        ("a_storage, dims_2, \"f32\", 0)", "a_storage, dims_2, \"f32\", 4)"),
        ("a_storage, dims_2, \"f32\", 0)", "z_storage, dims_2, \"f32\", 0)"),
    ];
    none_is_proved(&folder, &text, &edits);
    // The tensor program that `x` is given to makes this check too.
    let (from, to) = ("heap, (None, 4), \"boundary\"", "heap, (None, None), \"boundary\"");
    assert!(text.contains(from), "{text}");
    folder.write("b.rx", &text.replacen(from, to, 1));
    let (said, code) = folder.ended(&equiv);
    assert_eq!(code, Some(5), "{said}");
}

/// A function that gives the shape of `x`, by a heap; `then` comes before it does.
fn by_heap(then: &str, others: &str) -> String {
    format!(
        r#"module_attr("phase", "P2.3")

def f(x: Object, c: Object) -> Object:
    heap = builtin.alloc_shape_heap(2)
    builtin.check_kind(x, "tensor", 1, "f32", "boundary", "x", "")
    builtin.check_kind(c, "tensor", 0, "bool", "boundary", "c", "")
    builtin.match_shape(x, heap, (("store", 0),), "boundary", "x", "")
    builtin.compute_dim(heap, 1, "*", ("slot", 0), 1, "dim/value", "")
{then}
    dims = builtin.make_shape(heap, (("slot", 1),))
    return dims
{others}"#
    )
}

#[test]
fn what_a_slot_holds_is_what_was_stored_last_on_every_way() {
    let folder = Folder::new();
    folder.write(
        "a.rx",
        "def f(x: Tensor((\"n\",), \"f32\"), c: Tensor((), \"bool\")) -> Object:\n    n = sym_var()\n    return shape(n)\n",
    );
    let branch = |then: i64, otherwise: i64| {
        let store = |factor| {
            format!(
                "        builtin.compute_dim(heap, 1, \"*\", (\"slot\", 0), {factor}, \"dim/value\", \"\")\n        a = 1"
            )
        };
        format!("    if c:\n{}\n    else:\n{}", store(then), store(otherwise))
    };
    let other = |factor: i64| {
        format!(
            "\ndef set(heap: Object) -> Object:\n    func_attr(\"private\", True)\n    builtin.compute_dim(heap, 1, \"*\", (\"slot\", 0), {factor}, \"dim/value\", \"\")\n    return shape(1)\n"
        )
    };
    let call = "    a = set(heap)".to_owned();
    let public = other(1).replace("    func_attr(\"private\", True)\n", "");
    for (then, others, is_equal) in [
        (String::new(), String::new(), true),
        (branch(1, 1), String::new(), true),
        (branch(1, 2), String::new(), false),
        (branch(2, 1), String::new(), false),
        (call.clone(), other(1), true),
        (call.clone(), other(2), false),
        (call.clone(), public.clone(), true),
    ] {
        folder.write("b.rx", &by_heap(&then, &others));
        let (said, code) = folder.ended(&["equiv", "a.rx", "b.rx", "--entry", "f", "--cases", "0"]);
        assert_eq!(code, Some(if is_equal { 5 } else { 6 }), "{then}{others}: {said}");
    }
    // Nobody looks into what both programs have.
    let more = "    builtin.compute_dim(heap, 0, \"*\", (\"slot\", 0), 1, \"dim/value\", \"\")";
    folder.write("a.rx", &by_heap(&call, &public));
    folder.write("b.rx", &by_heap(&format!("{call}\n{more}"), &public));
    let (said, code) = folder.ended(&["equiv", "a.rx", "b.rx", "--entry", "f", "--cases", "0"]);
    assert!(code == Some(6) && said.contains("a heap that another function is given"), "{said}");
}

#[test]
fn a_bound_that_is_checked_too_late_says_nothing_of_memory_before_it() {
    let folder = Folder::new();
    folder.write(
        "a.rx",
        "def f(x: Tensor((\"n\",), \"f32\")) -> Object:\n    n = sym_var(upper_bound=2)\n    return exp(x)\n",
    );
    let (bound, place) = (
        "    builtin.check_bound(heap, 0, \"upper_bound\", 2, \"n\", \"dim\")\n",
        "    dims = builtin.make_shape(heap, (2,))\n    s = memory.alloc_storage(dims, \"f32\", 0, \"global\")\n    more = builtin.make_shape(heap, ((\"slot\", 0),))\n    z = memory.alloc_tensor(s, more, \"f32\", 0)\n    exponential(x, z)\n",
    );
    for (steps, code) in [([bound, place], 5), ([place, bound], 6)] {
        let [first, second] = steps;
        let text = format!(
            "module_attr(\"phase\", \"P2.3\")\n\ndef f(x: Object) -> Object:\n    heap = builtin.alloc_shape_heap(2)\n    builtin.check_kind(x, \"tensor\", 1, \"f32\", \"boundary\", \"x\", \"\")\n    builtin.match_shape(x, heap, ((\"store\", 0),), \"boundary\", \"x\", \"\")\n{first}{second}    return z\n\n@tensorir_function\ndef exponential(X: Buffer((\"n\",), \"f32\"), Y: Buffer((\"n\",), \"f32\")):\n    for i in range(n):\n        Y[i] = exp(X[i])\n"
        );
        folder.write("b.rx", &text);
        let (said, ended) = folder.ended(&["equiv", "a.rx", "b.rx", "--cases", "0"]);
        assert_eq!(ended, Some(code), "{said}");
        assert_eq!(code == 6, said.contains("`z` lies inside its storage"), "{said}");
    }
}

#[test]
fn storages_are_alike_where_their_sizes_are() {
    let text = |bytes: i64| {
        format!(
            "module_attr(\"phase\", \"P2.1\")\n\ndef f():\n    s = memory.alloc_storage(shape({bytes}), \"u8\")\n    return s\n"
        )
    };
    for (bytes, code) in [(32, 0), (33, 1)] {
        let folder = folder(&text(32), &text(bytes));
        let (said, ended) = folder.ended(&["equiv", "a.rx", "b.rx"]);
        assert_eq!(ended, Some(code), "{said}");
    }
}
