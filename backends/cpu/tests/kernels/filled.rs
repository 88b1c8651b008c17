//! Products whose factor is computed while it is packed: convolutions and weights that are decoded, at the sizes of the corpus
//! and at those of panels, blocks and slices.

use super::cases::{case, cases, dims_of};
use super::corpus::{Tally, hold_cases};
use super::integers::with_all_integers;
use super::native::{build_all, build_all_with};
use relax_emit::print_c;
use relax_program::frontend::Program;
use relax_runtime::program::Numerics;
use relax_symbolic::Prover;
use relax_syntax::ir::{Definition, TensorProgram};
use relax_syntax::span::Source;

/// Padded and not, with strides and dilation, in groups, of one row, of narrow and of quantized weights, after arithmetic.
const PROGRAMS: &str = r#"
@tensorir_function
def padded(X: Buffer(("n", "c", "h", "w"), "f32"), W: Buffer(("o", "c", 3, 3), "f32"), Y: Buffer(("n", "o", "h", "w"), "f32")):
    T = alloc_buffer((n, o, h, w), "f64")
    for i0, i1, i2, i3 in grid(n, o, h, w):
        T[i0, i1, i2, i3] = 0.0
        for k, ky, kx in grid(c, 3, 3):
            T[i0, i1, i2, i3] += select(i2 - 1 + ky >= 0 and i2 - 1 + ky < h and i3 - 1 + kx >= 0 and i3 - 1 + kx < w, f64(X[i0, k, i2 - 1 + ky, i3 - 1 + kx]), 0.0) * f64(W[i1, k, ky, kx])
        Y[i0, i1, i2, i3] = f32(T[i0, i1, i2, i3])

@tensorir_function
def strided(X: Buffer(("n", "c", "2 * h + 3", "3 * w + 4"), "f32"), W: Buffer(("o", "c", 3, 2), "f32"), Y: Buffer(("n", "o", "h", "w"), "f32")):
    T = alloc_buffer((n, o, h, w), "f64")
    for i0, i1, i2, i3 in grid(n, o, h, w):
        T[i0, i1, i2, i3] = 0.0
        for k, ky, kx in grid(c, 3, 2):
            T[i0, i1, i2, i3] += f64(X[i0, k, 2 * i2 + ky, 3 * i3 + 2 * kx]) * f64(W[i1, k, ky, kx])
        Y[i0, i1, i2, i3] = f32(T[i0, i1, i2, i3])

@tensorir_function
def halved(X: Buffer(("n", "c", "h", "w"), "f32"), W: Buffer(("o", "c", 5, 3), "f32"), Y: Buffer(("n", "o", "(h + 1) // 2", "(w + 2) // 3"), "f32")):
    T = alloc_buffer((n, o, (h + 1) // 2, (w + 2) // 3), "f64")
    for i0, i1, i2, i3 in grid(n, o, (h + 1) // 2, (w + 2) // 3):
        T[i0, i1, i2, i3] = 0.0
        for k, ky, kx in grid(c, 5, 3):
            T[i0, i1, i2, i3] += select(i2 * 2 - 2 + ky >= 0 and i2 * 2 - 2 + ky < h and i3 * 3 - 1 + kx >= 0 and i3 * 3 - 1 + kx < w, f64(X[i0, k, i2 * 2 - 2 + ky, i3 * 3 - 1 + kx]), 0.0) * f64(W[i1, k, ky, kx])
        Y[i0, i1, i2, i3] = f32(T[i0, i1, i2, i3])

@tensorir_function
def by_channel(X: Buffer(("n", "c", "l + 2"), "f32"), W: Buffer(("c", 1, 3), "f32"), Y: Buffer(("n", "c", "l"), "f32")):
    T = alloc_buffer((n, c, l), "f64")
    for i0, i1, i2 in grid(n, c, l):
        T[i0, i1, i2] = 0.0
        for k, kx in grid(1, 3):
            T[i0, i1, i2] += f64(X[i0, i1 + k, i2 + kx]) * f64(W[i1, k, kx])
        Y[i0, i1, i2] = f32(T[i0, i1, i2])

@tensorir_function
def decoded(X: Buffer(("m", "k"), "f32"), Q: Buffer(("k", "n"), "i8"), S: Buffer(("n",), "f32"), Y: Buffer(("m", "n"), "f32")):
    T = alloc_buffer((m, n), "f64")
    for i, j in grid(m, n):
        T[i, j] = 0.0
        for l in grid(k):
            T[i, j] += f64(X[i, l]) * f64(f32(Q[l, j]) * S[j])
        Y[i, j] = f32(T[i, j])

@tensorir_function
def narrow(X: Buffer(("m", "k"), "f32"), W: Buffer(("n", "k"), "f16"), Y: Buffer(("m", "n"), "f32")):
    T = alloc_buffer((m, n), "f64")
    for i, j in grid(m, n):
        T[i, j] = 0.0
        for l in grid(k):
            T[i, j] += f64(X[i, l]) * f64(W[j, l])
        Y[i, j] = f32(T[i, j])

@tensorir_function
def one_row(X: Buffer(("k",), "f32"), W: Buffer(("k", "n"), "f32"), B: Buffer(("n",), "f32"), Y: Buffer(("n",), "f32")):
    for j in grid(n):
        Y[j] = 0.0
        for l in grid(k):
            Y[j] += X[l] * (W[l, j] - B[j])

@tensorir_function
def row_by_bytes(X: Buffer(("k",), "f32"), W: Buffer(("n", "k"), "i8"), S: Buffer(("n", "(k + 31) // 32"), "f32"), Y: Buffer(("n",), "f32")):
    for j in grid(n):
        Y[j] = 0.0
        for l in grid(k):
            Y[j] += X[l] * (f32(W[j, l]) * S[j, l // 32])

@tensorir_function
def row_by_halves(X: Buffer(("k",), "f32"), W: Buffer(("n", "k"), "f16"), S: Buffer(("n", "(k + 63) // 64"), "f16"), Y: Buffer(("n",), "f32")):
    for j in grid(n):
        Y[j] = 0.0
        for l in grid(k):
            Y[j] += X[l] * ((f32(W[j, l]) - 0.5) * f32(S[j, l // 64]))

@tensorir_function
def row_by_integers(X: Buffer(("k",), "f32"), W: Buffer(("n", "k"), "i8"), Y: Buffer(("n",), "f32")):
    for j in grid(n):
        Y[j] = 0.0
        for l in grid(k):
            Y[j] += X[l] * f32(i32(W[j, l]) * 3 - 7)

@tensorir_function
def words(X: Buffer(("m", "k"), "f32"), W: Buffer(("n", "(k + 7) // 8"), "u32"), H: Buffer(("n", "(k + 31) // 32"), "u32"), D: Buffer(("n", "(k + 255) // 256"), "f16"), S: Buffer(("n", "(k + 31) // 32"), "u8"), M: Buffer(("n", "(k + 15) // 16"), "i8"), Y: Buffer(("m", "n"), "f32")):
    T = alloc_buffer((m, n), "f64")
    for i, j in grid(m, n):
        T[i, j] = 0.0
        for l in grid(k):
            T[i, j] += f64(X[i, l]) * f64(f32(D[j, l // 256]) * f32(S[j, l // 32]) * f32(i32(W[j, l // 8] >> u32(l % 8 * 4) & 15 | H[j, l // 32] >> u32(l // 8 % 4 * 8) << 4 >> u32(l % 8) & 16)) - f32(M[j, l // 16]))
        Y[i, j] = f32(T[i, j])

@tensorir_function
def row_by_words(X: Buffer(("k",), "f32"), W: Buffer(("n", "(k + 7) // 8"), "u32"), S: Buffer(("n", "(k + 63) // 64"), "f32"), M: Buffer(("n", "(k + 31) // 32"), "f16"), Y: Buffer(("n",), "f32")):
    for j in grid(n):
        Y[j] = 0.0
        for l in grid(k):
            Y[j] += X[l] * (S[j, l // 64] * f32(i32(W[j, l >> 3] >> u32(l & 7) * 4 & 15) - 8) - f32(M[j, l // 32]))

@tensorir_function
def row_by_far_words(X: Buffer(("k",), "f32"), W: Buffer(("n", "(k + 7) // 8"), "u32"), S: Buffer(("n", "k + 1"), "f32"), Y: Buffer(("n",), "f32")):
    for j in grid(n):
        Y[j] = 0.0
        for l in grid(k):
            Y[j] += X[l] * (f32(i32(W[j, l // 8] >> u32(l % 8 * 4) & 15)) * S[j, l // 32 + 1] + S[j, l // 16])
"#;

/// Terms that are functions of four bits: by columns and by rows, scaled for 32 terms, for 16 that no table is read for, and not at all.
const NIBBLES: &str = r#"
@tensorir_function
def by_columns(X: Buffer(("k",), "f32"), W: Buffer(("(k + 7) // 8", "n"), "u32"), S: Buffer(("(k + 31) // 32", "n"), "f32"), Y: Buffer(("n",), "f32")):
    for j in grid(n):
        Y[j] = 0.0
        for l in grid(k):
            Y[j] += X[l] * (f32(i32(W[l // 8, j] >> u32(l % 8 * 4) & 15) - 8) * S[l // 32, j])

@tensorir_function
def by_sixteen(X: Buffer(("k",), "f32"), W: Buffer(("(k + 7) // 8", "n"), "u32"), S: Buffer(("(k + 15) // 16", "n"), "f32"), Y: Buffer(("n",), "f32")):
    for j in grid(n):
        Y[j] = 0.0
        for l in grid(k):
            Y[j] += X[l] * (f32(i32(W[l // 8, j] >> u32(l % 8 * 4) & 15) - 8) * S[l // 16, j])

@tensorir_function
def unscaled(X: Buffer(("k",), "f32"), W: Buffer(("(k + 7) // 8", "n"), "u32"), Y: Buffer(("n",), "f32")):
    for j in grid(n):
        Y[j] = 0.0
        for l in grid(k):
            Y[j] += X[l] * (sqrt(f32(W[l >> 3, j] >> u32(4 * (l & 7)) & 15)) - 1.5)

@tensorir_function
def by_rows(X: Buffer(("k",), "f32"), W: Buffer(("n", "(k + 7) // 8"), "u32"), S: Buffer(("n", "(k + 31) // 32"), "f16"), Y: Buffer(("n",), "f32")):
    for j in grid(n):
        Y[j] = 0.0
        for l in grid(k):
            Y[j] += X[l] * (f32(S[j, l // 32]) * (f32(W[j, l // 8] >> (u32(l % 8) << 2) & 15) * f32(W[j, l // 8] >> (u32(l % 8) << 2) & 15) - 40.0))
"#;

/// Sums in memory of a program's own that is longer than what is written of it, so that each read of it is checked.
const WATCHED: &str = r#"
@tensorir_function
def product(X: Buffer(("m", "k"), "f32"), W: Buffer(("k", "n"), "f32"), Y: Buffer(("m", "n"), "f32")):
    P = alloc_buffer((m + 1, n), "f32")
    for i, j in grid(m, n):
        P[i, j] = 0.0
        for l in grid(k):
            P[i, j] += X[i, l] * W[l, j]
    for i, j in grid(m, n):
        Y[i, j] = P[m - 1 - i, j] * 2.0

@tensorir_function
def decoded(X: Buffer(("m", "k"), "f32"), Q: Buffer(("k", "n"), "i8"), S: Buffer(("n",), "f32"), Y: Buffer(("m", "n"), "f32")):
    P = alloc_buffer((m + 1, n), "f32")
    for i, j in grid(m, n):
        P[i, j] = 0.0
        for l in grid(k):
            P[i, j] += X[i, l] * (f32(Q[l, j]) * S[j])
    for i, j in grid(m, n):
        Y[i, j] = P[m - 1 - i, j] * 2.0
"#;

/// Programs and what they are in C where sums may be formed in any order.
fn read(text: &str) -> (Vec<TensorProgram>, String) {
    let Program { module, diagnostics, .. } = Program::load(Source::new("filled", text));
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let programs = module.definitions.iter().filter_map(|definition| match definition {
        Definition::Tensor(program) => Some(program.clone()),
        Definition::Graph(_) => None,
    });
    (programs.collect(), print_c(&module, &mut Prover::new(), Numerics::Reassociated).text)
}

#[test]
fn computed_factors_are_packed() {
    let (programs, text) = read(PROGRAMS);
    let count = programs.len();
    // Once each, once where it is declared, and once where it is defined.
    assert_eq!(text.matches("if (rx_product_filled(").count(), count, "{text}");
    assert_eq!(text.matches("rx_product_filled(").count(), count + 2, "{text}");

    assert!(held(&programs) > 130);
}

/// Convolutions of f64: the same routines with half as many lanes.
#[test]
fn computed_factors_of_f64_are_packed() {
    let convolutions = PROGRAMS.split("@tensorir_function\n").skip(1).take(4);
    let text: String = convolutions.map(|own| format!("@tensorir_function\n{own}")).collect();
    let text = text.replace("\"f32\"", "\"f64\"").replace("f64(", "(").replace("f32(", "(");
    let (programs, text) = read(&text);
    assert_eq!(text.matches("if (rx64_product_filled(").count(), 4, "{text}");
    assert!(!text.contains("rx_product_filled("), "{text}");
    // Windows without strides are copied, once each where that is defined.
    assert_eq!(text.matches("rx64_copy_lanes(").count(), 2, "{text}");
    assert!(held(&programs) > 50);
}

/// How many values were compared of programs whose sums are formed in any order, at the sizes of panels, blocks and slices, too.
fn held(programs: &[TensorProgram]) -> usize {
    let built = build_all(programs, Numerics::Reassociated);
    let mut tally = Tally::default();
    for kernel in &built.kernels {
        let sizes = [63, 64, 65, 130, 300, 700, 5000];
        let large = |&size: &i64| {
            // One dim is large, and all others are small.
            let names = dims_of(kernel.program);
            let each = (0..names.len()).map(move |large| {
                let names = names.clone();
                let at = move |name: &str| {
                    let place = names.iter().position(|other| other == name);
                    if place == Some(large) { size } else { 5 }
                };
                case(kernel.program, &at, 7)
            });
            each.flatten().collect::<Vec<_>>()
        };
        let drawn = cases(kernel.program).into_iter().chain(sizes.iter().flat_map(large));
        let all = drawn.zip(1..).map(|(case, seed)| with_all_integers(case, seed)).collect();
        assert_eq!(hold_cases(kernel, all, Numerics::Reassociated, &mut tally), None);
    }
    assert_eq!(tally.traps, 0, "{tally:?}");
    tally.values
}

#[test]
fn functions_of_four_bits_are_read_from_tables() {
    let (programs, text) = read(NIBBLES);
    for (routine, count) in [("rx_weigh_columns(", 2), ("rx_weigh_words(", 1)] {
        // Once where it is defined.
        assert_eq!(text.matches(routine).count(), count + 1, "{routine}: {text}");
    }
    // As the processor has it, without tables, and with tables in plain C.
    for flags in [&[][..], &["-mno-avx512f"], &["-mno-avx512f", "-DRX_TABLES=1"]] {
        let built = build_all_with(&programs, Numerics::Reassociated, flags);
        let mut tally = Tally::default();
        for kernel in &built.kernels {
            let terms = [1, 31, 32, 33, 64, 95, 128, 256, 300, 4224, 8300];
            let columns = [1, 63, 64, 65, 129];
            let sizes = terms.iter().flat_map(|&k| columns.iter().map(move |&n| (k, n)));
            let drawn = sizes.zip(1..).flat_map(|((k, n), seed)| {
                let at = |name: &str| if name == "k" { k } else { n };
                case(kernel.program, &at, seed).map(|case| with_all_integers(case, seed))
            });
            let all = cases(kernel.program).into_iter().chain(drawn).collect();
            assert_eq!(
                hold_cases(kernel, all, Numerics::Reassociated, &mut tally),
                None,
                "{flags:?}"
            );
        }
        assert!(tally.values > 160 && tally.traps == 0, "{tally:?}");
    }
}

#[test]
fn what_is_written_is_noted_where_reads_are_checked() {
    let (programs, text) = read(WATCHED);
    assert!(text.contains("P_written[") && !text.contains("if (rx_product"), "{text}");

    let built = build_all(&programs, Numerics::Reassociated);
    let mut tally = Tally::default();
    for kernel in &built.kernels {
        let all = cases(kernel.program);
        assert_eq!(hold_cases(kernel, all, Numerics::Reassociated, &mut tally), None);
    }
    assert!(tally.values > 10 && tally.traps == 0, "{tally:?}");
}
