//! How far rounded activations move a product with quantized weights: within the bound that the operands give, and near it.

#[path = "activations/narrowed.rs"]
mod narrowed;
#[path = "activations/rounded.rs"]
mod rounded;

use relax_program::frontend::{Program, RunOptions, run as interpret};
use relax_rewrite::pass::{Pass, Settings};
use relax_rewrite::pipeline::{Route, Unwatched, run};
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_symbolic::Prover;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;

/// Rows, columns and blocks of 32 terms.
const EXTENTS: [[usize; 3]; 6] = [[0, 3, 2], [2, 0, 2], [2, 3, 0], [1, 1, 1], [3, 5, 2], [8, 4, 7]];

/// A program before a pass, and after it.
fn modules(text: &str, pass: &'static Pass) -> [Module; 2] {
    let program = Program::load(Source::new("text", text));
    assert!(!program.has_errors(), "{:#?}", program.diagnostics);
    let (route, settings) = (Route::Passes(vec![pass]), Settings::default());
    let after = run(&program.module, &route, &settings, &mut Prover::new(), &mut Unwatched)
        .expect("the pass runs");
    assert_ne!(after, program.module);
    [program.module, after]
}

fn floats(module: &Module, name: &str, operands: &[Tensor]) -> Vec<f64> {
    let arguments = operands.iter().cloned().map(Value::Tensor).collect();
    match interpret(module, name, arguments, &RunOptions::default()).result {
        Ok(Value::Tensor(tensor)) => tensor.to_floats().iter().copied().collect(),
        other => panic!("{other:?}"),
    }
}

/// Holds each element to its bound; the greatest share of one that a difference has.
fn greatest_share(
    modules: &[Module; 2],
    (name, operands): (&str, &[Tensor]),
    bounds: Vec<f64>,
    case: &str,
) -> f64 {
    let [want, got] = [0, 1].map(|at: usize| floats(&modules[at], name, operands));
    assert_eq!([want.len(), got.len()], [bounds.len(); 2]);
    let mut worst: f64 = 0.0;
    for ((want, got), bound) in want.iter().zip(&got).zip(bounds) {
        let difference = (want - got).abs();
        assert!(difference <= bound, "{case}: {difference} is above {bound}");
        worst = worst.max(difference / bound);
    }
    worst
}
