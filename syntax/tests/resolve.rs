//! Text → IR → text is the identity on normal forms, and errors of resolution have their codes and suggest names.

use relax_syntax::ir::Module;
use relax_syntax::parse::parse_file;
use relax_syntax::print::print_file;
use relax_syntax::raise::raise_module;
use relax_syntax::resolve::resolve_file;
use relax_syntax::span::Source;
use relax_syntax::suggest::{hint, nearest};

fn resolve(text: &str) -> (Module, Vec<&'static str>) {
    let (file, diagnostics) = parse_file(&Source::new("test.rx", text));
    assert!(diagnostics.is_empty(), "{diagnostics:?}\n{text}");
    let (module, diagnostics) = resolve_file(&file);
    (module, diagnostics.iter().map(|diagnostic| diagnostic.code).collect())
}

/// Resolves, prints, resolves again: equal IR and equal text.
fn round_trip(text: &str) -> String {
    let (module, codes) = resolve(text);
    assert_eq!(codes, Vec::<&str>::new(), "{text}");
    let printed = print_file(&raise_module(&module));
    let (again, codes) = resolve(&printed);
    assert_eq!(codes, Vec::<&str>::new(), "{printed}");
    assert_eq!(module, again, "{printed}");
    assert_eq!(printed, print_file(&raise_module(&again)));
    printed
}

#[test]
fn flattens_nested_calls() {
    let printed = round_trip(
        "def main(x: Tensor((\"n\", 4), \"f32\")) -> Tensor((\"n * 4\",), \"f32\"):\n    \
         return flatten(add(exp(x), nn.relu(x)))\n",
    );
    assert_eq!(
        printed,
        "def main(x: Tensor((\"n\", 4), \"f32\")) -> Tensor((\"n * 4\",), \"f32\"):\n    \
         lv0 = exp(x)\n    lv1 = relu(x)\n    lv2 = add(lv0, lv1)\n    lv3 = flatten(lv2)\n    \
         return lv3\n"
    );
}

#[test]
fn branches_and_closures() {
    round_trip(
        "def main(c: Tensor((), \"bool\"), x: Tensor((\"n\",), \"f32\")):\n    \
         n = sym_var(upper_bound=4096)\n    m = sym_var()\n    \
         func_attr(\"purity\", \"pure\")\n    \
         with dataflow():\n        a = exp(x)\n        b = add(a, x)\n    \
         if c:\n        t = relu(b)\n        y = t\n        z = x\n    \
         else:\n        z = negative(x)\n        y = b\n    \
         def f(u: Tensor((\"k\", 2), \"f32\")) -> Tensor((\"k\",), \"f32\"):\n        \
         k = sym_var(multiple_of=8)\n        v = take(u, const(0, \"i64\"), axis=1)\n        return v\n    \
         w = match_cast(unique(y), Tensor((m,), \"f32\"))\n    \
         g: Callable([Tensor((\"k\", n), \"f32\")], Tensor((\"k\",), \"f32\")) = f\n    \
         print(\"x\", w)\n    \
         p, q = split(z, 2)\n    \
         if c:\n        pass\n    else:\n        print(\"no\")\n    \
         return (p, [q, g], shape(n + 1, min(n, 4)), -1.5, inf, const([[1, 2]], \"u8\"))\n",
    );
}

#[test]
fn outputs_are_what_is_used_after_the_block() {
    let printed = round_trip(
        "def main(x: Object):\n    with dataflow():\n        a = exp(x)\n        b = exp(a)\n        \
         c = exp(b)\n    return (c, a)\n",
    );
    assert!(printed.contains("output(a, c)"), "{printed}");
}

#[test]
fn library_calls_have_two_spellings() {
    let printed = round_trip(
        "def main(x: Tensor((\"n\", 4), \"f16\")):\n    \
         a = call_dps_library(\"lib.f\", args=[x], out_shape=(n, 4), dtype=\"float16\")\n    return a\n",
    );
    assert!(printed.contains("out=Tensor((n, 4), \"f16\")"), "{printed}");
}

#[test]
fn errors_have_codes() {
    let cases: &[(&str, &[&str])] = &[
        ("def f(x: Object):\n    return y\n", &["RX0202"]),
        ("def f(x: Object):\n    x = exp(x)\n    return x\n", &["RX0212"]),
        ("def f(x):\n    return x\n", &["RX0218"]),
        ("def f(x: Object):\n    y = exp(x)\n", &["RX0205"]),
        ("def f(x: Object):\n    return x\n    y = exp(x)\n", &["RX0205"]),
        ("def f(x: Object):\n    return x + x\n", &["RX0217"]),
        ("def f(x: Tensor((n,), \"f32\")):\n    return x\n", &["RX0208"]),
        ("def f(x: Tensor((\"n / 2\",), \"f32\")):\n    return x\n", &["RX0206"]),
        ("def f(x: Tensr((4,), \"f32\")):\n    return x\n", &["RX0204"]),
        ("def f(x: Object):\n    return const([[1, 2], [3]], \"f32\")\n", &["RX0210"]),
        ("def f(x: Object):\n    return const(300, \"u8\")\n", &["RX0210"]),
        ("def f(x: Object):\n    return param(\"w\", Tensor(ndim=2))\n", &["RX0211"]),
        (
            "def f(x: Object):\n    n = sym_var(lower_bound=5, upper_bound=4)\n    return x\n",
            &["RX0209"],
        ),
        ("def f(x: Object):\n    return x\ndef f(x: Object):\n    return x\n", &["RX0201"]),
        ("x = 1\n", &["RX0207"]),
        (
            "def f(c: Object, x: Object):\n    if c:\n        y = exp(x)\n    else:\n        z = x\n    return y\n",
            &["RX0202"],
        ),
        (
            "def f(x: Object):\n    with dataflow():\n        a = exp(x)\n        b = exp(a)\n        output(b)\n    return a\n",
            &["RX0202"],
        ),
        ("module_attr(\"a\", 1)\nmodule_attr(\"a\", 2)\n", &["RX0214"]),
        ("@jit\ndef f(x: Object):\n    return x\n", &["RX0219"]),
        ("def f(x: Object):\n    return reshape(x, shape(x, 4))\n", &["RX0216"]),
        (
            "def f(x: Object):\n    with dataflow():\n        a = exp(x)\n        output(x)\n    return x\n",
            &["RX0213"],
        ),
    ];
    for (text, expected) in cases {
        let (_, codes) = resolve(text);
        assert_eq!(&codes, expected, "{text}");
    }
}

#[test]
fn near_words_come_first() {
    // Three edits: a third of nine letters, and more than a third of eight.
    assert_eq!(nearest("kittenabc", ["sittingabc"]), ["sittingabc"]);
    assert!(nearest("kittenab", ["sittingab"]).is_empty());
    assert_eq!(nearest("matmull", ["add", "matmul", "mul"]), ["matmul"]);
    assert_eq!(nearest("rx0203", ["RX0203", "RX0303"]), ["RX0203"]);
    assert_eq!(nearest("rleu", ["relu", "silu", "rsqrt"]), ["relu"]);
    assert_eq!(nearest("w2", ["w", "w1", "x"]), ["w", "w1"]);
    assert!(nearest("y", ["x"]).is_empty());
    assert!(nearest("zzz", ["add"]).is_empty());
    assert!(nearest("", ["add"]).is_empty());
    assert!(nearest(&"relu".repeat(1000), ["relu"]).is_empty());
}

#[test]
fn few_words_are_listed() {
    assert_eq!(hint("y", &["x", "w"]).as_deref(), Some("there is `x`, `w`"));
    assert_eq!(hint("y", &[]), None);
}
