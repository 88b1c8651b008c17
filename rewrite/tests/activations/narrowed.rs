//! How far activations in bf16 move a product: within the bound that the operands give, and near it.

use super::{EXTENTS, floats, greatest_share, modules};
use ndarray::{ArrayD, IxDyn};
use relax_program::frontend::print;
use relax_rewrite::passes::narrow_activations;
use relax_semantics::random::Random;
use relax_semantics::tensor::Tensor;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Module;

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

fn of_products() -> [Module; 2] {
    let both = modules(PRODUCTS, &narrow_activations::PASS);
    let text = print(&both[1]);
    let casts = text.lines().filter(|line| line.contains("astype(") && line.contains("\"bf16\""));
    assert_eq!(casts.count(), 3, "{text}");
    both
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
    let modules = of_products();
    for name in ["decoded", "of_bf16", "of_f16"] {
        let mut worst: f64 = 0.0;
        for extents in EXTENTS {
            for seed in 0..20 {
                let (operands, weights) = operands(name, extents, seed);
                let bounds = bounds(&operands[0].to_floats(), &weights);
                let case = format!("{name} {extents:?}");
                worst = worst.max(greatest_share(&modules, (name, &operands), bounds, &case));
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
    floats(&of_products()[1], "of_bf16", &operands)[0]
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
