//! How far rounded activations move a product with quantized weights: within the bound that the operands give, and near it.

use ndarray::{ArrayD, IxDyn};
use relax_program::frontend::{Program, RunOptions, run as interpret};
use relax_rewrite::pass::Settings;
use relax_rewrite::passes::round_activations;
use relax_rewrite::pipeline::{Route, Unwatched, run};
use relax_semantics::random::Random;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_symbolic::Prover;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;

const PRODUCT: &str = r#"
@tensorir_function
def bytes(w: Buffer(("c", "b * 32"), "i8"), d: Buffer(("c", "b"), "f32"), y: Buffer(("c", "b * 32"), "f32")):
    c, b = sym_var(), sym_var()
    for i, j in grid(c, b * 32):
        y[i, j] = f32(w[i, j]) * d[i, j // 32]

@tensorir_function
def least(w: Buffer(("c", "b * 32"), "i8"), d: Buffer(("c", "b"), "f32"), m: Buffer(("c", "b"), "f32"), y: Buffer(("c", "b * 32"), "f32")):
    c, b = sym_var(), sym_var()
    for i, j in grid(c, b * 32):
        y[i, j] = f32(w[i, j]) * d[i, j // 32] - m[i, j // 32]

def main(x: Tensor(("n", "b * 32"), "f32"), w: Tensor(("c", "b * 32"), "i8"), d: Tensor(("c", "b"), "f32")):
    n, b, c = sym_var(), sym_var(), sym_var()
    return matmul(x, permute_dims(call_tir(bytes, [w, d], Tensor((c, b * 32), "f32"))))

def with_minimum(x: Tensor(("n", "b * 32"), "f32"), w: Tensor(("c", "b * 32"), "i8"), d: Tensor(("c", "b"), "f32"), m: Tensor(("c", "b"), "f32")):
    n, b, c = sym_var(), sym_var(), sym_var()
    return matmul(x, permute_dims(call_tir(least, [w, d, m], Tensor((c, b * 32), "f32"))))
"#;

fn modules() -> [Module; 2] {
    let program = Program::load(Source::new("text", PRODUCT));
    assert!(!program.has_errors(), "{:#?}", program.diagnostics);
    let route = Route::Passes(vec![&round_activations::PASS]);
    let settings = Settings::default();
    let after = run(&program.module, &route, &settings, &mut Prover::new(), &mut Unwatched)
        .expect("the pass runs");
    assert_ne!(after, program.module);
    [program.module, after]
}

/// With three operands, or with minimums too.
fn floats(module: &Module, operands: &[Tensor]) -> Vec<f64> {
    let arguments = operands.iter().cloned().map(Value::Tensor).collect();
    let name = if operands.len() == 3 { "main" } else { "with_minimum" };
    match interpret(module, name, arguments, &RunOptions::default()).result {
        Ok(Value::Tensor(tensor)) => tensor.to_floats().iter().copied().collect(),
        other => panic!("{other:?}"),
    }
}

/// The bound for each element.
fn bounds(operands: &[Tensor]) -> Vec<f64> {
    let [x, w, d] = [0, 1, 2].map(|at: usize| operands[at].to_floats());
    let least = operands.get(3).map(Tensor::to_floats);
    let (rows, columns, blocks) = (x.shape()[0], d.shape()[0], d.shape()[1]);
    #[allow(clippy::cast_precision_loss)]
    let terms = 32.0 * blocks as f64;
    let mut bounds = Vec::new();
    for i in 0..rows {
        for j in 0..columns {
            let (mut moved, mut sum) = (0.0, 0.0);
            for b in 0..blocks {
                let each = (32 * b..32 * b + 32).map(|k| x[[i, k]].abs());
                let step = each.fold(0.0, f64::max) / 127.0;
                for k in 32 * b..32 * b + 32 {
                    let (scaled, least) =
                        (w[[j, k]] * d[[j, b]], least.as_ref().map_or(0.0, |least| least[[j, b]]));
                    moved += (0.505 * step + 1e-30) * (scaled - least).abs();
                    sum += (x[[i, k]].abs() + step) * (scaled.abs() + least.abs());
                }
            }
            bounds.push(moved + (terms + 4.0) * 2.0_f64.powi(-23) * sum);
        }
    }
    bounds
}

fn operands([n, c, b]: [usize; 3], seed: u64) -> [Tensor; 4] {
    let mut random = Random::new(seed, "operands");
    [
        random.normal_tensor(DType::F32, &[n, 32 * b]),
        random.tensor(DType::I8, &[c, 32 * b], &(-128..=127)),
        random.normal_tensor(DType::F32, &[c, b]),
        random.normal_tensor(DType::F32, &[c, b]),
    ]
}

#[test]
fn products_stay_within_the_bound() {
    let [before, after] = modules();
    let mut worst: f64 = 0.0;
    let mut seeds = (0..).zip([3, 4].into_iter().cycle());
    for extents in [[0, 3, 2], [2, 0, 2], [2, 3, 0], [1, 1, 1], [3, 5, 2], [8, 4, 7]] {
        for (seed, count) in seeds.by_ref().take(20) {
            let operands = operands(extents, seed);
            let operands = &operands[..count];
            let (want, got) = (floats(&before, operands), floats(&after, operands));
            let bounds = bounds(operands);
            assert_eq!([want.len(), got.len()], [bounds.len(); 2]);
            for ((want, got), bound) in want.iter().zip(&got).zip(bounds) {
                let difference = (want - got).abs();
                assert!(difference <= bound, "{extents:?}: {difference} is above {bound}");
                worst = worst.max(difference / bound);
            }
        }
    }
    // Errors of 32 terms cancel in part.
    assert!(worst > 0.1, "{worst}");
}

/// One row by one column of ones.
fn of_row(row: &[f64]) -> [f64; 2] {
    let row = [row, &vec![0.0; 32 - row.len()]].concat();
    let shaped =
        |dims: &[usize], values| ArrayD::from_shape_vec(IxDyn(dims), values).expect("they fit");
    let operands = [
        Tensor::from_floats(DType::F32, shaped(&[1, 32], row)),
        Tensor::from_ints(DType::I8, ArrayD::from_elem(IxDyn(&[1, 32]), 1)),
        Tensor::from_floats(DType::F32, shaped(&[1, 1], vec![1.0])),
    ];
    modules().map(|module| floats(&module, &operands)[0])
}

#[test]
fn blocks_without_a_quotient_are_zeros_or_nan() {
    for row in [&[][..], &[-0.0], &[1e-45], &[-1e-31, 1e-31]] {
        let [want, got] = of_row(row);
        assert!(got == 0.0 && (want - got).abs() < 1e-29, "{row:?}: {got}");
    }
    for row in [&[f64::NAN, 1.0][..], &[1.0, f64::INFINITY], &[f64::NEG_INFINITY]] {
        assert!(of_row(row)[1].is_nan(), "{row:?}");
    }
    // Steps are rounded to even: 0.5 and 1.5 of 127 are 0 and 2.
    assert_eq!(of_row(&[127.0, 0.5, 1.5])[1], 129.0);
    assert_eq!(of_row(&[-127.0, 127.0, -2.5])[1], -2.0);
    assert_eq!(of_row(&[1e-30])[0], of_row(&[1e-30])[1]);
}
