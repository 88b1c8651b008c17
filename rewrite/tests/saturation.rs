//! Equality saturation: the classic rewrites of TASO and BladeDISC happen, and what is learned stays as it is.

use relax_corpus::pipeline::{Program, print};
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::{PIPELINE, Unwatched, run};
use relax_symbolic::Prover;
use relax_syntax::span::Source;

/// The bindings of a function after passes, without annotations.
fn after(passes: &str, text: &str) -> String {
    let program = Program::load(Source::new("case", text));
    assert!(program.diagnostics.is_empty(), "{text}\n{:?}", program.diagnostics);
    let route = PIPELINE.named(passes).expect("passes");
    let settings = Settings::default();
    let module = run(&program.module, &route, &settings, &mut Prover::new(), &mut Unwatched);
    let text = print(&module.expect("it runs"));
    let lines = text.lines().map(|line| match line.split_once(": ") {
        Some((name, rest)) if name.starts_with("    ") && !name.contains("if ") => {
            let value = rest.split_once(" = ").map_or(rest, |(_, value)| value);
            format!("{name} = {value}")
        }
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A signature, what it returns, what is found there.
const CASES: &[(&str, &str, &str)] = &[
    (r#"a: Tensor(("n", "m"), "f32")"#, "relu(permute_dims(permute_dims(a)))", "e"),
    (r#"a: Tensor(("n", "m"), "f32"), b: Tensor(("m", "k"), "f32")"#, "matmul(permute_dims(b), permute_dims(a))", "e"),
    (r#"a: Tensor(("n", "m"), "f32"), b: Tensor(("m", "k"), "f32")"#, "permute_dims(matmul(permute_dims(b), permute_dims(a)))", "e"),
    (r#"a: Tensor(("n", "m"), "f32")"#, r#"multiply(a, const(1.0, "f32"))"#, "e"),
    (r#"a: Tensor(("n", "m"), "f32")"#, "reshape(reshape(a, (n * m,)), (n, m))", "e"),
    (r#"a: Tensor(("n", "m"), "f32"), b: Tensor(("k", "m"), "f32")"#, "strided_slice(concat([a, b], 0), [0], [0], [n])", "e"),
    (r#"a: Tensor(("n", "m"), "f32"), b: Tensor(("n", "k"), "f32")"#, "strided_slice(concat([a, b], 1), [1], [0], [m])", "e"),
    (r#"a: Tensor(("n", "m"), "f32"), c: Tensor((), "f32")"#, "sum(multiply(a, c), -1)", "r"),
    (r#"a: Tensor(("n", "m"), "f32"), b: Tensor(("m", "k"), "f32"), c: Tensor(("m", "k"), "f32")"#, "add(matmul(a, b), matmul(a, c))", "r"),
    (r#"a: Tensor(("n", "m"), "f32"), b: Tensor(("m", "k"), "f32"), c: Tensor(("m", "l"), "f32")"#, "concat([matmul(a, b), matmul(a, c)], 1)", "e"),
    (r#"x: Tensor(("n",), "f32")"#, "exp(log(exp(x)))", "r"),
    (r#"x: Tensor(("n", 4), "f32")"#, "relu(permute_dims(relu(permute_dims(x))))", "e"),
    (r#"x: Tensor(("n", 4), "f32")"#, "negative(negative(relu(relu(x))))", "e"),
    (r#"x: Tensor(("n", "m"), "f32"), y: Tensor(("n", "m"), "f32")"#, "add(permute_dims(x), permute_dims(y))", "e"),
    (r#"x: Tensor(("n", "m"), "f32")"#, "sum(sum(x, 1), 0)", "r"),
    (r#"x: Tensor(("n", "m"), "f32")"#, "softmax(add(x, max(x, -1, keepdims=True)), -1)", "r"),
    (r#"x: Tensor(("n", "m"), "f32")"#, "divide(exp(x), sum(exp(x), -1, keepdims=True))", "r"),
    (r#"a: Tensor(("m", "k"), "f32"), b: Tensor(("k", "n"), "f32"), x: Tensor(("n", 1), "f32")"#, "matmul(matmul(a, b), x)", "r"),
    (r#"a: Tensor(("m", "k"), "f32"), b: Tensor(("k", "n"), "f32"), x: Tensor(("n", "p"), "f32")"#, "matmul(matmul(a, b), x)", "v"),
];

#[test]
fn show() {
    for (params, value, how) in CASES {
        let names: Vec<&str> = ["n", "m", "k", "l", "p"].into_iter().filter(|n| params.contains(&format!("\"{n}\""))).collect();
        let syms = vec!["sym_var()"; names.len()].join(", ");
        let text = format!("def main({params}):\n    {} = {syms}\n    return {value}\n", names.join(", "));
        let pass = match *how { "e" => "saturate", "r" => "saturate_reals", _ => "add_versions_reals" };
        println!("=== {value} ({pass})\n{}", after(&format!("normalize,{pass}"), &text));
    }
}
