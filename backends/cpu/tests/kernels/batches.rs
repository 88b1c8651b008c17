//! Products of a batch in a module with the attribute `batch_invariant`: each matrix has the bits that it has alone.

use super::cases::{Case, case};
use super::integers::with_all_integers;
use super::native::{Built, bits, build_all_as};
use relax_emit::{BATCH_INVARIANT, print_c};
use relax_program::frontend::Program;
use relax_runtime::program::Numerics;
use relax_semantics::tensor::Tensor;
use relax_symbolic::Prover;
use relax_syntax::dim::Dim;
use relax_syntax::ir::{Definition, TensorProgram, attr};
use relax_syntax::span::Source;

/// Every routine of products: matrices as they lie and in panels, weights that are decoded by rows and by columns, rounded rows, and results
/// with one row of each matrix.
const PROGRAMS: &str = r#"
module_attr("batch_invariant", True)

@tensorir_function
def plain(X: Buffer(("b", "n", "k"), "f32"), W: Buffer(("k", "c"), "f32"), Y: Buffer(("b", "n", "c"), "f32")):
    for i, r, j in grid(b, n, c):
        Y[i, r, j] = 0.0
        for l in range(k):
            Y[i, r, j] += X[i, r, l] * W[l, j]
        Y[i, r, j] = max(Y[i, r, j], 0.0)

@tensorir_function
def transposed(X: Buffer(("b", "n", "k"), "f32"), W: Buffer(("c", "k"), "f32"), Y: Buffer(("b", "n", "c"), "f32")):
    for i, r, j in grid(b, n, c):
        Y[i, r, j] = 0.0
        for l in range(k):
            Y[i, r, j] += X[i, r, l] * W[j, l]

@tensorir_function
def in_panels(X: Buffer(("b", "n", "k"), "f32"), P: Buffer((2, "k", 64), "f32"), Y: Buffer(("b", "n", 100), "f32")):
    for i, r, j in grid(b, n, 100):
        Y[i, r, j] = 0.0
        for l in range(k):
            Y[i, r, j] += X[i, r, l] * P[j // 64, l, j % 64]

@tensorir_function
def one_each(X: Buffer(("b", 1, "k"), "f32"), W: Buffer(("k", "c"), "f32"), Y: Buffer(("b", 1, "c"), "f32")):
    for i, j in grid(b, c):
        Y[i, 0, j] = 0.0
        for l in range(k):
            Y[i, 0, j] += X[i, 0, l] * W[l, j]

@tensorir_function
def decoded(X: Buffer(("b", "n", "k"), "f32"), Q: Buffer(("k", "c"), "i8"), S: Buffer(("c",), "f32"), Y: Buffer(("b", "n", "c"), "f32")):
    for i, r, j in grid(b, n, c):
        Y[i, r, j] = 0.0
        for l in range(k):
            Y[i, r, j] += X[i, r, l] * (f32(Q[l, j]) * S[j])

@tensorir_function
def decoded_by_columns(X: Buffer(("b", "n", "k * 32"), "f32"), D: Buffer(("c", "k"), "f16"), Q: Buffer(("c", "k * 4"), "u32"), Y: Buffer(("b", "n", "c"), "f32")):
    for i, r, j in grid(b, n, c):
        Y[i, r, j] = 0.0
        for l in range(k * 32):
            Y[i, r, j] += X[i, r, l] * (f32(D[j, l // 32]) * f32(i32(Q[j, l // 8] >> u32(l % 8 * 4) & 15) - 8))

@tensorir_function
def rounded(X: Buffer(("b", "n", "k * 32"), "i8"), A: Buffer(("b", "n", "k"), "f32"), D: Buffer(("c", "k"), "f16"), Q: Buffer(("c", "k * 4"), "u32"), Y: Buffer(("b", "n", "c"), "f32")):
    for i, r, j in grid(b, n, c):
        Y[i, r, j] = 0.0
        for l in range(k * 32):
            Y[i, r, j] += f32(X[i, r, l]) * A[i, r, l // 32] * (f32(i32(Q[j, l // 8] >> u32(l % 8 * 4) & 15) - 8) * f32(D[j, l // 32]))

@tensorir_function
def rounded_rows(X: Buffer(("b", "k * 32"), "i8"), A: Buffer(("b", "k"), "f32"), D: Buffer(("c", "k"), "f16"), Q: Buffer(("c", "k * 4"), "u32"), Y: Buffer(("b", "c"), "f32")):
    for i, j in grid(b, c):
        Y[i, j] = 0.0
        for l in range(k * 32):
            Y[i, j] += f32(X[i, l]) * A[i, l // 32] * (f32(i32(Q[j, l // 8] >> u32(l % 8 * 4) & 15) - 8) * f32(D[j, l // 32]))

@tensorir_function
def rounded_one_each(X: Buffer(("b", 1, "k * 32"), "i8"), A: Buffer(("b", 1, "k"), "f32"), D: Buffer(("c", "k"), "f16"), Q: Buffer(("c", "k * 4"), "u32"), Y: Buffer(("b", 1, "c"), "f32")):
    for i, j in grid(b, c):
        Y[i, 0, j] = 0.0
        for l in range(k * 32):
            Y[i, 0, j] += f32(X[i, 0, l]) * A[i, 0, l // 32] * (f32(i32(Q[j, l // 8] >> u32(l % 8 * 4) & 15) - 8) * f32(D[j, l // 32]))
"#;

/// The batch, rows of a matrix, columns and terms, or blocks of 32 of them.
const SIZES: [[i64; 4]; 12] = [
    [2, 1, 70, 40],
    [3, 1, 5, 17],
    [7, 1, 65, 9],
    [8, 1, 17, 33],
    [9, 1, 130, 40],
    [31, 1, 3, 8],
    [4, 2, 33, 20],
    [9, 7, 18, 5],
    [3, 8, 33, 20],
    [2, 31, 20, 7],
    // Sums that are computed in slices.
    [3, 1, 4, 4100],
    [4, 1, 2, 200],
];

/// The argument of one matrix of the batch, where it has a batch.
fn alone(program: &TensorProgram, whole: &Case, at: usize) -> Case {
    let buffers: Vec<_> = program.buffer_params().collect();
    let tensors = whole.tensors.iter().zip(buffers).map(|(tensor, buffer)| {
        let has_batch = program.buffer(buffer).shape.first() == Some(&Dim::Var("b".into()));
        if has_batch { item(tensor, at) } else { tensor.clone() }
    });
    Case { tensors: tensors.collect(), ..whole.clone() }
}

fn item(tensor: &Tensor, at: usize) -> Tensor {
    let mut shape = tensor.shape().to_vec();
    shape[0] = 1;
    let count: usize = shape.iter().product();
    tensor.select(&shape, &(at * count..(at + 1) * count).collect::<Vec<_>>())
}

/// How many matrices were compared.
fn compared(kernel: &Built, sizes: [i64; 4], seed: u64) -> usize {
    let at = |name: &str| sizes["bnck".find(name).expect("it is one of them")];
    let Some(whole) = case(kernel.program, &at, seed) else { return 0 };
    let whole = with_all_integers(whole, seed);
    let result = |case: &Case| kernel.run(case).expect("a value").pop().expect("a result");
    let all = result(&whole);
    let count = all.shape()[0];
    for matrix in 0..count {
        let one = result(&alone(kernel.program, &whole, matrix));
        let same = bits(&one) == bits(&item(&all, matrix));
        assert!(same, "{}: {sizes:?}, matrix {matrix}", kernel.program.name);
    }
    count
}

#[test]
fn a_matrix_of_a_batch_has_the_bits_that_it_has_alone() {
    let Program { module, diagnostics, .. } = Program::load(Source::new("batches", PROGRAMS));
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    assert!(attr(&module.attrs, BATCH_INVARIANT).is_some());
    let c = print_c(&module, &mut Prover::new(), Numerics::Reassociated).text;
    for (call, count) in [
        ("n == 1 ? rx_product_rows : rx_product)(", 3),
        ("if (rx_product_rows(", 1),
        ("if (rx_product_filled(", 2),
        ("if (rx_product_rounded(", 3),
    ] {
        assert_eq!(c.matches(call).count(), count, "{call}");
    }
    let programs = module.definitions.iter().filter_map(|definition| match definition {
        Definition::Tensor(program) => Some(program.clone()),
        Definition::Graph(_) => None,
    });
    let programs: Vec<TensorProgram> = programs.collect();
    for flags in [&[][..], &["-DRX_NO_VNNI"], &["-DRX_NO_VNNI", "-DRX_NO_AVX2"]] {
        let built = build_all_as(&programs, Numerics::Reassociated, (flags, &module.attrs));
        let mut count = 0;
        for kernel in &built.kernels {
            for (sizes, seed) in SIZES.into_iter().zip(1..) {
                count += compared(kernel, sizes, seed);
            }
        }
        assert!(count > 400, "{count}");
    }
}
