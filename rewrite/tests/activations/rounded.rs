//! How far activations in bytes move a product.

use super::{EXTENTS, floats, greatest_share, modules};
use ndarray::{ArrayD, IxDyn};
use relax_rewrite::passes::round_activations;
use relax_semantics::random::Random;
use relax_semantics::tensor::Tensor;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Module;

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

fn of_product() -> [Module; 2] {
    modules(PRODUCT, &round_activations::PASS)
}

/// The function of three operands, or that with minimums too.
fn function(operands: &[Tensor]) -> &'static str {
    if operands.len() == 3 { "main" } else { "with_minimum" }
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
    let modules = of_product();
    let mut worst: f64 = 0.0;
    let mut seeds = (0..).zip([3, 4].into_iter().cycle());
    for extents in EXTENTS {
        for (seed, count) in seeds.by_ref().take(20) {
            let operands = operands(extents, seed);
            let operands = &operands[..count];
            let call = (function(operands), operands);
            let case = format!("{extents:?}");
            worst = worst.max(greatest_share(&modules, call, bounds(operands), &case));
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
    of_product().map(|module| floats(&module, "main", &operands)[0])
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
