//! What the plans of the models take beside what is in use at the same time, calls included (paper, §4.2):
//! `bench/memory` makes the table.

use relax_corpus::files;
use relax_corpus::pipeline::Program;
use relax_lower::pipeline::PIPELINE;
use relax_lower::report::{FunctionMemory, figures, memory_report};
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::{Unwatched, run};
use relax_semantics::check::Phase;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::span::Source;
use std::collections::BTreeMap;

fn planned(model: &str) -> Vec<FunctionMemory> {
    let path = files::root().join("models").join(model);
    let text = std::fs::read_to_string(path).expect("the model is there");
    let module = Program::load(Source::new(model, text.as_str())).module;
    let route = PIPELINE.to(Phase::P21);
    let (settings, facts) = (Settings::default(), &mut Prover::new());
    let module = run(&module, &route, &settings, facts, &mut Unwatched);
    memory_report(&module.expect("the model is well-formed"), facts)
}

/// Within a tenth of what no plan can do without, and far less than all tensors together.
fn hold(model: &str, choices: &[&[(&str, i64)]]) {
    let functions = planned(model);
    for choice in choices {
        let dims: BTreeMap<Name, i64> = choice.iter().map(|&(k, v)| (Name::new(k), v)).collect();
        let main = figures(&functions, &Name::new("main"), &dims).expect("all dims are told");
        let bound = main.in_use + main.in_use / 10;
        assert!(main.in_use <= main.planned && main.planned <= bound, "{choice:?}: {main:?}");
        assert!(main.planned < main.all, "{choice:?}: {main:?}");
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
