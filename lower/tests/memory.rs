//! What the plans of the models take beside what is in use at the same time, calls included (paper, §4.2):
//! `bench/memory` makes the table.

use relax_corpus::files;
use relax_lower::pipeline::PIPELINE;
use relax_lower::report::{FunctionMemory, figures, memory_report, peak_formula};
use relax_program::frontend::Program;
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::{Unwatched, run};
use relax_semantics::check::Phase;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::span::Source;
use std::collections::BTreeMap;

fn planned(model: &str) -> Vec<FunctionMemory> {
    let path = files::root().join("models").join(model);
    planned_text(&std::fs::read_to_string(path).expect("the model is there"))
}

fn planned_text(text: &str) -> Vec<FunctionMemory> {
    let module = Program::load(Source::new("planned", text)).module;
    let route = PIPELINE.to(Phase::P21);
    let (settings, facts) = (Settings::default(), &mut Prover::new());
    let module = run(&module, &route, &settings, facts, &mut Unwatched);
    memory_report(&module.expect("the model is well-formed"), facts)
}

/// Within a tenth of what no plan can do without, and far less than all tensors together; the formula gives the same.
fn hold(model: &str, choices: &[&[(&str, i64)]]) {
    let functions = planned(model);
    let formula = peak_formula(&functions, &Name::new("main"), &mut Prover::new());
    let formula = formula.expect("the dims of all calls are known");
    for choice in choices {
        let dims: BTreeMap<Name, i64> = choice.iter().map(|&(k, v)| (Name::new(k), v)).collect();
        let main = figures(&functions, &Name::new("main"), &dims).expect("all dims are told");
        let bound = main.in_use + main.in_use / 10;
        assert!(main.in_use <= main.planned && main.planned <= bound, "{choice:?}: {main:?}");
        assert!(main.planned < main.all, "{choice:?}: {main:?}");
        let value = formula.eval(&|name| dims.get(name).copied());
        assert_eq!(value.ok(), Some(main.planned), "{choice:?}: {formula}");
    }
}

#[test]
fn a_sentence_encoder() {
    let choices: [&[(&str, i64)]; 5] = [
        &[("b", 1), ("n", 1)],
        &[("b", 1), ("n", 16)],
        &[("b", 1), ("n", 128)],
        &[("b", 1), ("n", 512)],
        &[("b", 8), ("n", 64)],
    ];
    hold("minilm.rx", &choices);
}

#[test]
fn a_decoder_with_a_cache() {
    let choices: [&[(&str, i64)]; 5] = [
        &[("m", 0), ("n", 1)],
        &[("m", 0), ("n", 128)],
        &[("m", 127), ("n", 1)],
        &[("m", 2047), ("n", 1)],
        &[("m", 1000), ("n", 7)],
    ];
    hold("llama_decoder.rx", &choices);
}

/// What a function calls, in a branch too, has memory of its own: memory that is not needed before is taken after it.
const CALLS_IN_A_BRANCH: &str = r#"
def main(c: Tensor((), "bool"), x: Tensor(("n",), "f32")):
    n = sym_var()
    if c:
        r = {then}
    else:
        r = {otherwise}
    a = call_tir(sums_before, [x], Tensor((n,), "f32"))
    s = call_tir(sum_of, [a], Tensor((), "f32"))
    return (r, s)

def total(x: Tensor(("n",), "f32")):
    n = sym_var()
    a = call_tir(sums_before, [x], Tensor((n,), "f32"))
    return call_tir(sum_of, [a], Tensor((), "f32"))

@tensorir_function
def sums_before(X: Buffer(("n",), "f32"), Y: Buffer(("n",), "f32")):
    for i in range(n):
        Y[i] = X[i]
        if i > 0:
            Y[i] += Y[i - 1]

@tensorir_function
def sum_of(X: Buffer(("n",), "f32"), Y: Buffer((), "f32")):
    Y[()] = 0.0
    for i in range(n):
        Y[()] += X[i]
"#;

#[test]
fn memory_is_taken_after_calls_in_branches() {
    let dims = BTreeMap::from([(Name::new("n"), 100)]);
    let (call, constant) = ("total(x)", "const(0.0, \"f32\")");
    for (then, otherwise) in [(call, constant), (constant, call)] {
        let text = CALLS_IN_A_BRANCH.replace("{then}", then).replace("{otherwise}", otherwise);
        let main = figures(&planned_text(&text), &Name::new("main"), &dims);
        let main = main.expect("all dims are told");
        assert!((400..500).contains(&main.planned), "one tensor at a time: {main:?}");
    }
}
