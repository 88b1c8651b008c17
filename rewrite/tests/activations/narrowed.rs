//! How far activations in bf16 move a product: within the bound that the operands give, and near it.

use ndarray::{ArrayD, IxDyn};
use relax_program::frontend::{Program, RunOptions, print, run as interpret};
use relax_rewrite::pass::Settings;
use relax_rewrite::passes::narrow_activations;
use relax_rewrite::pipeline::{Route, Unwatched, run};
use relax_semantics::random::Random;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_symbolic::Prover;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;

const PRODUCTS: &str = r#"
@tensorir_function
def bytes(w: Buffer(("c", "b * 32"), "i8"), d: Buffer(("c", "b"), "f32"), y: Buffer(("c", "b * 32"), "f32")):
    c, b = sym_var(), sym_var()
    for i, j in grid(c, b * 32):
        y[i, j] = f32(w[i, j]) * d[i, j // 32]

def decoded(x: Tensor(("n", "b * 32"), "f32"), w: Tensor(("c", "b * 32"), "i8"), d: Tensor(("c", "b"), "f32")):
    n, b, c = sym_var(), sym_var(), sym_var()
    return matmul(x, permute_dims(call_tir(bytes, [w, d], Tensor((c, b * 32), "f32"))))

def of_bf16(x: Tensor(("n", "k"), "f32"), w: Tensor(("c", "k"), "bf16")):
    return matmul(x, permute_dims(astype(w, "f32")))

def of_f16(x: Tensor(("n", "k"), "f32"), w: Tensor(("k", "c"), "f16")):
    return matmul(x, astype(w, "f32"))
"#;

fn modules() -> [Module; 2] {
    let program = Program::load(Source::new("text", PRODUCTS));
    assert!(!program.has_errors(), "{:#?}", program.diagnostics);
    let route = Route::Passes(vec![&narrow_activations::PASS]);
    let settings = Settings::default();
    let after = run(&program.module, &route, &settings, &mut Prover::new(), &mut Unwatched)
        .expect("the pass runs");
    let text = print(&after);
    let casts = text.lines().filter(|line| line.contains("astype(") && line.contains("\"bf16\""));
    assert_eq!(casts.count(), 3, "{text}");
    [program.module, after]
}

fn floats(module: &Module, name: &str, operands: &[Tensor]) -> Vec<f64> {
    let arguments = operands.iter().cloned().map(Value::Tensor).collect();
    match interpret(module, name, arguments, &RunOptions::default()).result {
        Ok(Value::Tensor(tensor)) => tensor.to_floats().iter().copied().collect(),
        other => panic!("{other:?}"),
    }
}

/// The operands of a product, and its weights as (terms, columns) in f32.
fn operands(name: &str, [n, c, b]: [usize; 3], seed: u64) -> (Vec<Tensor>, ArrayD<f64>) {
    let mut random = Random::new(seed, "operands");
    let x = random.normal_tensor(DType::F32, &[n, 32 * b]);
    match name {
        "decoded" => {
            let w = random.tensor(DType::I8, &[c, 32 * b], &(-128..=127));
            let d = random.normal_tensor(DType::F32, &[c, b]);
            let (bytes, scales) = (w.to_floats(), d.to_floats());
            let weights = ArrayD::from_shape_fn(IxDyn(&[32 * b, c]), |at| {
                bytes[[at[1], at[0]]] * scales[[at[1], at[0] / 32]]
            });
            (vec![x, w, d], weights)
        }
        "of_bf16" => {
            let w = random.normal_tensor(DType::BF16, &[c, 32 * b]);
            let weights = w.to_floats().reversed_axes();
            (vec![x, w], weights)
        }
        _ => {
            let w = random.normal_tensor(DType::F16, &[32 * b, c]);
            let weights = w.to_floats();
            (vec![x, w], weights)
        }
    }
}

/// The bound for each element.
fn bounds(x: &ArrayD<f64>, weights: &ArrayD<f64>) -> Vec<f64> {
    let (rows, terms, columns) = (x.shape()[0], x.shape()[1], weights.shape()[1]);
    let mut bounds = Vec::new();
    for i in 0..rows {
        for j in 0..columns {
            let (mut moved, mut sum) = (0.0, 0.0);
            for k in 0..terms {
                let (x, w) = (x[[i, k]].abs(), weights[[k, j]].abs());
                moved += (2.0_f64.powi(-9) * x + 2.0_f64.powi(-134)) * w;
                sum += x * (1.0 + 2.0_f64.powi(-9)) * w;
            }
            #[allow(clippy::cast_precision_loss)]
            bounds.push(moved + (terms as f64 + 4.0) * 2.0_f64.powi(-23) * sum);
        }
    }
    bounds
}

#[test]
fn products_stay_within_the_bound() {
    let [before, after] = modules();
    for name in ["decoded", "of_bf16", "of_f16"] {
        let mut worst: f64 = 0.0;
        for extents in [[0, 3, 2], [2, 0, 2], [2, 3, 0], [1, 1, 1], [3, 5, 2], [8, 4, 7]] {
            for seed in 0..20 {
                let (operands, weights) = operands(name, extents, seed);
                let (want, got) =
                    (floats(&before, name, &operands), floats(&after, name, &operands));
                let bounds = bounds(&operands[0].to_floats(), &weights);
                assert_eq!([want.len(), got.len()], [bounds.len(); 2]);
                for ((want, got), bound) in want.iter().zip(&got).zip(bounds) {
                    let difference = (want - got).abs();
                    assert!(difference <= bound, "{name} {extents:?}: {difference} > {bound}");
                    worst = worst.max(difference / bound);
                }
            }
        }
        // Errors of 32 terms cancel in part.
        assert!(worst > 0.1, "{name}: {worst}");
    }
}

/// A row of one element by a column of one.
fn of_one(x: f64) -> f64 {
    let shaped = |value| ArrayD::from_elem(IxDyn(&[1, 1]), value);
    let operands = [(DType::F32, x), (DType::BF16, 1.0)];
    let operands = operands.map(|(dtype, value)| Tensor::from_floats(dtype, shaped(value)));
    floats(&modules()[1], "of_bf16", &operands)[0]
}

#[test]
fn ties_are_rounded_to_even_and_nan_is_kept() {
    let step = 2.0_f64.powi(-7);
    for (x, want) in [
        (1.0 + 0.5 * step, 1.0),
        (1.0 + 1.5 * step, 1.0 + 2.0 * step),
        (-1.0 - 0.51 * step, -1.0 - step),
        (f64::from(f32::MAX), f64::INFINITY),
        (f64::NEG_INFINITY, f64::NEG_INFINITY),
        (-0.0, 0.0),
        // Half of the smallest number is 0, and more is not.
        (2.0_f64.powi(-134), 0.0),
        (1.5 * 2.0_f64.powi(-134), 2.0_f64.powi(-133)),
    ] {
        assert_eq!(of_one(x), want, "{x}");
    }
    assert!(of_one(f64::NAN).is_nan());
}
