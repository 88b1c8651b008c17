//! Products of rounded rows with quantized weights: one row, few and many, blocks and columns around those of vectors and tiles, by
//! each text of the routine.

use super::cases::{Case, case};
use super::corpus::{Tally, hold_cases};
use super::integers::with_all_integers;
use super::native::build_all_with;
use relax_emit::print_c;
use relax_program::frontend::Program;
use relax_runtime::program::Numerics;
use relax_symbolic::Prover;
use relax_syntax::ir::{Definition, TensorProgram};
use relax_syntax::span::Source;

/// The name, the extent of a row and the dtype.
type Buffer = (&'static str, &'static str, &'static str);

/// Buffers of a weight, with the extents of a row, and its value at (j, t): the block formats of GGUF, and others that the routine takes.
const KINDS: [(&str, &[Buffer], &str); 12] = [
    ("words", &[D, W], "f32(i32(w[j, t // 8] >> u32(t % 8 * 4) & 15) - 8) * f32(d[j, t // 32])"),
    (
        "nibbles",
        &[("d", "b", "f32"), ("w", "b * 16", "u8")],
        "f32(i32(w[j, t // 2] >> u8(t % 2 * 4) & 15) - 5) * d[j, t // 32]",
    ),
    ("bytes", &[D, ("w", "b * 32", "i8")], "f32(w[j, t]) * f32(d[j, t // 32])"),
    (
        "unsigned",
        &[("d", "b", "f32"), ("w", "b * 32", "u8")],
        "f32(i32(w[j, t]) - 131) * d[j, t // 32]",
    ),
    (
        "without_zero",
        &[("d", "b", "f32"), W],
        "f32(i32(w[j, t // 8] >> u32(t % 8 * 4) & 15)) * d[j, t // 32]",
    ),
    (
        "q4_1",
        &[D, M, W],
        "f32(d[j, t // 32]) * f32(i32(w[j, t // 8] >> u32(t % 8 * 4) & 15)) + f32(m[j, t // 32])",
    ),
    (
        "q5_0",
        &[D, H, W],
        "f32(d[j, t // 32]) * f32(i32(w[j, t // 8] >> u32(t % 8 * 4) & 15 \
         | h[j, t // 32] >> u32(t // 8 % 4 * 8) << 4 >> u32(t % 8) & 16) - 16)",
    ),
    (
        "q5_1",
        &[D, M, H, W],
        "f32(m[j, t // 32]) + f32(i32(h[j, t // 32] >> u32(t % 32) << 4 & 16 \
         | w[j, t // 8] >> u32(t % 8 * 4) & 15)) * f32(d[j, t // 32])",
    ),
    (
        "q4_k",
        &[D_K, LEAST_K, S, L, W],
        "f32(d[j, t // 256]) * f32(s[j, t // 32]) * f32(i32(w[j, t // 8] >> u32(t % 8 * 4) & 15)) \
         - f32(m[j, t // 256]) * f32(l[j, t // 32])",
    ),
    (
        "q5_k",
        &[D_K, LEAST_K, S, L, H, W],
        "f32(d[j, t // 256]) * f32(s[j, t // 32]) * f32(i32(w[j, t // 8] >> u32(t % 8 * 4) & 15 \
         | h[j, t // 32] >> u32(t // 8 % 4 * 8) << 4 >> u32(t % 8) & 16)) \
         - f32(m[j, t // 256]) * f32(l[j, t // 32])",
    ),
    (
        "q6_k",
        &[D_K, ("s", "b * 2", "i8"), ("h", "b * 2", "u32"), W],
        "f32(d[j, t // 256]) * f32(s[j, t // 16]) * f32(i32(w[j, t // 8] >> u32(t % 8 * 4) & 15 \
         | h[j, t // 16] >> u32(t // 8 % 2 * 16) << 4 >> u32(t % 8 * 2) & 48) - 32)",
    ),
    (
        "other_groups",
        &[
            ("d", "(b + 1) // 2", "f32"),
            ("s", "b * 2", "u8"),
            ("m", "(b + 15) // 16", "i8"),
            ("l", "(b + 3) // 4", "f16"),
            ("w", "b * 32", "u8"),
        ],
        "d[j, t // 64] * f32(s[j, t // 16]) * f32(i32(w[j, t]) - 131) + f32(m[j, t // 512]) * f32(l[j, t // 128])",
    ),
];
const D: Buffer = ("d", "b", "f16");
const M: Buffer = ("m", "b", "f16");
const H: Buffer = ("h", "b", "u32");
const W: Buffer = ("w", "b * 4", "u32");
const D_K: Buffer = ("d", "(b + 7) // 8", "f16");
const LEAST_K: Buffer = ("m", "(b + 7) // 8", "f16");
const S: Buffer = ("s", "b", "u8");
const L: Buffer = ("l", "b", "u8");

/// As the pass `round_activations` writes them, but that the last block of 256 terms may be a part of one.
fn text() -> String {
    let program = |(name, buffers, value): (&str, &[Buffer], &str)| {
        let buffer = |(name, extent, dtype): &Buffer| {
            format!("{name}: Buffer((\"c\", \"{extent}\"), \"{dtype}\"), ")
        };
        let buffers: String = buffers.iter().map(buffer).collect();
        format!(
            "@tensorir_function\n\
             def {name}(q: Buffer((\"n\", \"b * 32\"), \"i8\"), x: Buffer((\"n\", \"b\"), \"f32\"), {buffers}\
             y: Buffer((\"n\", \"c\"), \"f32\")):\n    \
             for i, j in grid(n, c):\n        \
             y[i, j] = 0.0\n        \
             for t in range(b * 32):\n            \
             y[i, j] += f32(q[i, t]) * x[i, t // 32] * ({value})\n\n"
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
    (programs.collect(), print_c(&module, &mut Prover::new(), Numerics::Reassociated).text)
}

/// All integers of the dtypes occur.
fn drawn(program: &TensorProgram, extents: [i64; 3], seed: u64) -> Option<Case> {
    let at = |name: &str| match name {
        "n" => extents[0],
        "c" => extents[1],
        _ => extents[2],
    };
    Some(with_all_integers(case(program, &at, seed)?, seed))
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
        let built = build_all_with(&programs, Numerics::Reassociated, flags);
        let mut tally = Tally::default();
        for kernel in &built.kernels {
            let cases = extents.iter().zip(1..);
            let cases = cases.filter_map(|(extents, seed)| drawn(kernel.program, *extents, seed));
            let found = hold_cases(kernel, cases.collect(), Numerics::Reassociated, &mut tally);
            assert_eq!(found, None, "{flags:?}");
        }
        assert!(tally.values > 200 && tally.traps == 0, "{tally:?}");
    }
}
