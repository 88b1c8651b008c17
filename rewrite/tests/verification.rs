//! Verification finds what is wrong: programs and what a wrong pass could make of them.

use relax_program::frontend::Program;
use relax_rewrite::pass::Exactness;
use relax_rewrite::verify::{Difference, Effort, Tally, verify};
use relax_syntax::dtype::DType;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use std::collections::BTreeMap;

const EFFORT: Effort = Effort { cases: 40, seed: 0 };

fn module(text: &str) -> Module {
    let program = Program::load(Source::new("text", text));
    assert!(!program.has_errors(), "{:#?}", program.diagnostics);
    program.module
}

fn held(before: &str, after: &str) -> Result<Tally, Box<Difference>> {
    verify(&module(before), &module(after), Exactness::Exact, EFFORT, &BTreeMap::new())
}

/// Held as what rounds operands is.
fn held_rounded(before: &str, after: &str) -> Result<Tally, Box<Difference>> {
    let exactness = Exactness::Rounded(DType::F16);
    verify(&module(before), &module(after), exactness, EFFORT, &BTreeMap::new())
}

fn difference(before: &str, after: &str) -> Difference {
    *held(before, after).expect_err("they differ")
}

const HEADER: &str = "def f(x: Tensor((\"n\", \"m\"), \"f32\"), y: Tensor((\"k\", \"m\"), \"f32\")):\n    \
                      n, m, k = sym_var(), sym_var(), sym_var()\n";

fn body(lines: &[&str]) -> String {
    lines.iter().fold(HEADER.to_owned(), |text, line| text + "    " + line + "\n")
}

#[test]
fn a_program_is_like_itself() {
    let text = body(&["a = add(x, y)", "return a"]);
    let tally = held(&text, &text).expect("they are the same");
    assert!(tally.compared > 0 && tally.trapped > 0 && tally.rejected == 0, "{tally:?}");
}

#[test]
fn the_first_wrong_binding_is_named() {
    let before = body(&["a = abs(x)", "b = exp(a)", "c = add(b, b)", "return c"]);
    let after = body(&["a = abs(x)", "b = exp(x)", "c = add(b, b)", "return c"]);
    let found = difference(&before, &after);
    assert_eq!(found.binding.as_deref(), Some("b"), "{found}");
    let dims: Vec<i64> = found.dims.values().copied().collect();
    // One element is negative and shows it; the other dims do not matter.
    assert!(dims.iter().all(|&dim| dim <= 4), "{found}");
}

#[test]
fn a_lost_check_is_found_at_small_dims() {
    let before = body(&["a = match_cast(y, Tensor((n, m), \"f32\"))", "return x"]);
    let found = difference(&before, &body(&["return x"]));
    assert!(found.why.contains("match_cast/dim"), "{found}");
    assert_eq!(found.dims.values().sum::<i64>(), 1, "one row of nothing is enough: {found}");
}

#[test]
fn an_invented_trap_another_trap_and_lost_output_are_found() {
    let plain = body(&["return x"]);
    let traps = body(&["a = match_cast(y, Tensor((n, m), \"f32\"))", "return x"]);
    assert!(difference(&plain, &traps).why.contains("it gave a value"));
    let other = body(&["a = concat((x, y), axis=1)", "return x"]);
    assert!(difference(&traps, &other).why.contains("it stopped with"));
    let prints = body(&["print(x)", "return x"]);
    assert!(difference(&prints, &plain).why.contains("it printed"));
}

#[test]
fn dims_that_are_equal_by_accident_are_among_the_cases() {
    // Right only where n and k are the same.
    let before = body(&["s = shape(n, m)", "return s"]);
    let after = body(&["s = shape(k, m)", "return s"]);
    difference(&before, &after);
    // Wrong only where they are.
    let before = body(&["a = add(x, y)", "return x"]);
    let after = body(&["return x"]);
    difference(&before, &after);
}

#[test]
fn a_function_may_only_go_when_it_is_private() {
    let other = "\ndef g(x: Object):\n    return x\n";
    let text = body(&["return x"]);
    let found = difference(&(text.clone() + other), &text);
    assert!(found.why.contains("gone"), "{found}");
    let private = "\ndef g(x: Object):\n    func_attr(\"private\", True)\n    return x\n";
    held(&(text.clone() + private), &text).expect("it is private");
}

#[test]
fn what_a_signature_leaves_open_is_drawn_so_that_casts_pass() {
    let text = "def f(x: Object, y: Tensor(ndim=2)):\n    n = sym_var()\n    a = match_cast(x, Tensor((n, 3), \"f32\"))\n    \
                b = match_cast(y, Tensor((n, 3), \"f32\"))\n    return add(a, b)\n";
    let many = Effort { cases: 400, seed: 0 };
    let tally = verify(&module(text), &module(text), Exactness::Exact, many, &BTreeMap::new())
        .expect("the same");
    assert!(tally.compared > 0 && tally.trapped > 0 && tally.rejected == 0, "{tally:?}");
}

#[test]
fn integers_made_of_rounded_floats_are_not_held() {
    let text = |cast: &str, last: &str| {
        body(&[&format!("a = {cast}"), &format!("b = {last}"), "return b"])
    };
    let rounded = "astype(astype(multiply(x, x), \"f16\"), \"f32\")";
    let cast = "astype(multiply(a, const(1000.0, \"f32\")), \"i32\")";
    let [before, after] = ["multiply(x, x)", rounded].map(|first| text(first, cast));
    assert!(held(&before, &after).is_err());
    assert!(held_rounded(&before, &after).expect("integers come of floats").compared > 0);
    // What is out of range may be so for one of them alone.
    let taken = "take(x, astype(reshape(a, (n * m,)), \"i64\"), axis=0)";
    let [before, after] = ["multiply(x, x)", rounded].map(|first| text(first, taken));
    held_rounded(&before, &after).expect("indices come of floats");
    // Shapes, traps and integers of other origin are held.
    let [before, after] =
        ["1", "2"].map(|one| text("multiply(x, x)", &format!("full((n,), const({one}, \"i32\"))")));
    assert!(held_rounded(&before, &after).is_err());
    let lost = body(&["a = match_cast(y, Tensor((n, m), \"f32\"))", "return x"]);
    assert!(held_rounded(&lost, &body(&["return x"])).is_err());
    let less = |shape: &str| {
        text("multiply(x, x)", &format!("less(reshape(a, {shape}), const(0.0, \"f32\"))"))
    };
    assert!(held_rounded(&less("(n, m)"), &less("(n * m,)")).is_err());
}

#[test]
fn floats_that_are_printed_are_held_as_results_are() {
    let printing = |value: &str| body(&[&format!("print({value})"), "return shape(n)"]);
    let scaled = |by: &str| printing(&format!("multiply(x, const({by}, \"f32\"))"));
    let held_close = |before: &str, after: &str| {
        verify(&module(before), &module(after), Exactness::Approximate, EFFORT, &BTreeMap::new())
    };
    held_close(&scaled("3.0"), &scaled("3.0000002")).expect("digits that rounding may change");
    for other in [scaled("3.00001"), scaled("-3.0"), printing("shape(n)")] {
        let found = held_close(&scaled("3.0"), &other).expect_err("no rounding does that");
        assert!(found.why.contains("it printed"), "{found}");
    }
    let found = difference(&scaled("3.0"), &scaled("3.0000002"));
    assert!(found.why.contains("it printed"), "{found}");
    held_rounded(&scaled("3.0"), &scaled("3.5")).expect("floats are any");
    let found = held_rounded(&printing("shape(n)"), &printing("shape(m)"));
    assert!(found.expect_err("no float").why.contains("it printed"));
}
