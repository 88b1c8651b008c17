//! Products of rounded rows with quantized weights: one row, few and many, blocks and columns around those of vectors and tiles, by
//! each text of the routine.

use super::cases::{Case, case};
use super::corpus::{Tally, hold_cases};
use super::native::build_all_with;
use relax_emit::{Sums, print_c};
use relax_program::frontend::Program;
use relax_symbolic::Prover;
use relax_syntax::ir::{Definition, TensorProgram};
use relax_syntax::span::Source;

/// The integers of a weight with their dtype and extent, and the scales with their dtype.
const KINDS: [(&str, &str, &str, &str, &str, &str); 5] = [
    (
        "words",
        "i32(w[j, t // 8] >> u32(t % 8 * 4) & 15) - 8",
        "u32",
        "b * 4",
        "f32(d[j, t // 32])",
        "f16",
    ),
    (
        "nibbles",
        "i32(w[j, t // 2] >> u8(t % 2 * 4) & 15) - 5",
        "u8",
        "b * 16",
        "d[j, t // 32]",
        "f32",
    ),
    ("bytes", "w[j, t]", "i8", "b * 32", "f32(d[j, t // 32])", "f16"),
    ("unsigned", "i32(w[j, t]) - 131", "u8", "b * 32", "d[j, t // 32]", "f32"),
    (
        "without_zero",
        "i32(w[j, t // 8] >> u32(t % 8 * 4) & 15)",
        "u32",
        "b * 4",
        "d[j, t // 32]",
        "f32",
    ),
];

/// As the pass `round_activations` writes them.
fn text() -> String {
    let program = |(name, integer, dtype, extent, scale, of): (
        &str,
        &str,
        &str,
        &str,
        &str,
        &str,
    )| {
        format!(
            "@tensorir_function\n\
             def {name}(q: Buffer((\"n\", \"b * 32\"), \"i8\"), s: Buffer((\"n\", \"b\"), \"f32\"), w: Buffer((\"c\", \"{extent}\"), \"{dtype}\"), \
             d: Buffer((\"c\", \"b\"), \"{of}\"), y: Buffer((\"n\", \"c\"), \"f32\")):\n    \
             for i, j in grid(n, c):\n        \
             y[i, j] = 0.0\n        \
             for t in range(b * 32):\n            \
             y[i, j] += f32(q[i, t]) * s[i, t // 32] * (f32({integer}) * {scale})\n\n"
        )
    };
    KINDS.into_iter().map(program).collect()
}

fn programs() -> (Vec<TensorProgram>, String) {
    let Program { module, diagnostics, .. } = Program::load(Source::new("rounded", text()));
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let programs = module.definitions.iter().filter_map(|definition| match definition {
        Definition::Tensor(program) => Some(program.clone()),
        Definition::Graph(_) => None,
    });
    (programs.collect(), print_c(&module, &mut Prover::new(), Sums::AnyOrder).text)
}

/// All integers of the dtypes occur.
fn drawn(program: &TensorProgram, extents: [i64; 3], seed: u64) -> Option<Case> {
    let at = |name: &str| match name {
        "n" => extents[0],
        "c" => extents[1],
        _ => extents[2],
    };
    Some(case(program, &at, seed)?.with_all_integers(seed))
}

#[test]
fn rounded_products_are_those_of_the_interpreter() {
    let (programs, text) = programs();
    assert_eq!(text.matches("if (rx_product_rounded(").count(), programs.len(), "{text}");
    let rows = [0, 1, 2, 3, 4, 5, 7, 8, 9, 17];
    let (columns, blocks) = ([0, 1, 3, 4, 5, 15, 16, 17, 33], [0, 1, 2, 3, 4, 5]);
    let mut extents = Vec::new();
    for (at, &n) in rows.iter().enumerate() {
        for turn in 0..5 {
            let (c, b) = (columns[(at + 2 * turn) % 9], blocks[(at + turn) % 6]);
            extents.push([n, c, b]);
        }
    }
    // More blocks than a square of words has, and more rows than pass over weights together.
    extents.extend([[1, 5, 17], [8, 17, 17], [130, 3, 2], [5, 2, 33]]);
    for flags in [&[][..], &["-DRX_NO_VNNI"], &["-DRX_NO_VNNI", "-DRX_NO_AVX2"]] {
        let built = build_all_with(&programs, Sums::AnyOrder, flags);
        let mut tally = Tally::default();
        for kernel in &built.kernels {
            let cases = extents.iter().zip(1..);
            let cases = cases.filter_map(|(extents, seed)| drawn(kernel.program, *extents, seed));
            let found = hold_cases(kernel, cases.collect(), Sums::AnyOrder, &mut tally);
            assert_eq!(found, None, "{flags:?}");
        }
        assert!(tally.values > 200 && tally.traps == 0, "{tally:?}");
    }
}
