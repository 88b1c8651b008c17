//! How far rounded operands move a product: within the bound that the operands give, and not far within
//! it, so that the bound says something.

use relax_program::frontend::{Program, RunOptions, run as interpret};
use relax_rewrite::pass::{Pass, Settings};
use relax_rewrite::passes::to_mixed_precision;
use relax_rewrite::pipeline::{Route, Unwatched, run};
use relax_semantics::random::Random;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_symbolic::Prover;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;

const PRODUCT: &str = "def main(x: Tensor((\"n\", \"k\"), \"f32\"), w: Tensor((\"k\", \"m\"), \"f32\")):\n    \
                       return matmul(x, w)\n\n\
                       def magnitudes(x: Tensor((\"n\", \"k\"), \"f32\"), w: Tensor((\"k\", \"m\"), \"f32\")):\n    \
                       return matmul(astype(abs(x), \"f64\"), astype(abs(w), \"f64\"))\n";

fn floats(module: &Module, function: &str, operands: &[Tensor; 2]) -> Vec<f64> {
    let arguments = operands.iter().cloned().map(Value::Tensor).collect();
    match interpret(module, function, arguments, &RunOptions::default()).result {
        Ok(Value::Tensor(tensor)) => tensor.to_floats().iter().copied().collect(),
        other => panic!("{other:?}"),
    }
}

/// A pass, the relative error of a rounded operand, and the absolute one below its normal numbers.
type Rounding = (&'static Pass, f64, f64);

fn roundings() -> [Rounding; 2] {
    let power = |exponent| 2.0_f64.powi(exponent);
    [
        (&to_mixed_precision::PASS, power(-11), power(-25)),
        (&to_mixed_precision::BRAIN, power(-8), power(-133)),
    ]
}

/// The difference and the bound for each element.
fn measured((pass, unit, tiny): Rounding, extents: [usize; 3], seed: u64) -> Vec<(f64, f64)> {
    let program = Program::load(Source::new("text", PRODUCT));
    assert!(!program.has_errors(), "{:#?}", program.diagnostics);
    let route = Route::Passes(vec![pass]);
    let settings = Settings::default();
    let after = run(&program.module, &route, &settings, &mut Prover::new(), &mut Unwatched)
        .expect("the pass runs");
    assert_ne!(after, program.module);
    let [n, k, m] = extents;
    let mut random = Random::new(seed, "operands");
    let operands =
        [random.normal_tensor(DType::F32, &[n, k]), random.normal_tensor(DType::F32, &[k, m])];
    let (want, got) =
        (floats(&program.module, "main", &operands), floats(&after, "main", &operands));
    let sums = floats(&after, "magnitudes", &operands);
    // Results are rounded to f32 on both sides.
    let single = 2.0_f64.powi(-24);
    let largest =
        operands.iter().flat_map(|operand| operand.to_floats()).fold(0.0, |a, b| b.abs().max(a));
    #[allow(clippy::cast_precision_loss)]
    let absolute = 2.0 * k as f64 * tiny * (largest + tiny);
    let bound = |sum: f64| (2.0 * unit + unit * unit + 3.0 * single) * sum + absolute;
    let differences = want.iter().zip(&got).map(|(want, got)| (want - got).abs());
    differences.zip(sums.into_iter().map(bound)).collect()
}

#[test]
fn products_stay_within_the_bound() {
    for extents in [[0, 3, 2], [2, 0, 2], [1, 1, 1], [3, 7, 5], [8, 64, 8], [2, 1000, 3]] {
        for seed in 0..20 {
            for rounding in roundings() {
                for (difference, bound) in measured(rounding, extents, seed) {
                    assert!(difference <= bound, "{extents:?}: {difference} is above {bound}");
                }
            }
        }
    }
}

#[test]
fn the_bound_is_near() {
    // One product has no other to cancel with: its error comes near the bound.
    for rounding in roundings() {
        let single = (0..200).flat_map(|seed| measured(rounding, [1, 1, 1], seed));
        let worst = single.map(|(difference, bound)| difference / bound).fold(0.0, f64::max);
        assert!(worst > 0.5, "{worst}");
    }
}
