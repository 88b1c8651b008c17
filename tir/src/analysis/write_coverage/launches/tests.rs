//! Launches that store to every element between them, and each way in which they leave some out.

use crate::analysis::definite_init::unproved;
use relax_program::frontend::Program;
use relax_syntax::ir::Definition;
use relax_syntax::span::Source;

/// Two launches that store to a matrix between them, and one that reads it.
const TEXT: &str = include_str!("../launches.rx");

fn is_watched(text: &str) -> bool {
    let module = Program::load(Source::new("launches", text)).module;
    let program = module.definitions.iter().find_map(|definition| match definition {
        Definition::Tensor(program) => Some(program),
        Definition::Graph(_) => None,
    });
    let program = program.expect("the text has one");
    assert!(program.body.is_some(), "{text}");
    let found = unproved(program);
    found.into_iter().any(|id| &*program.buffer(id).name == "M")
}

/// Of a text with one change each.
fn all_are_noticed(right: &str, wrong: &[(&str, &str)]) {
    for (from, to) in wrong {
        let text = right.replacen(from, to, 1);
        assert_ne!(text, right, "`{from}` is in the text");
        assert!(is_watched(&text), "`{to}` is not noticed");
    }
}

#[test]
fn what_launches_store_between_them_is_there_for_the_next() {
    assert!(!is_watched(TEXT));
}

/// Each leaves some element out in some call.
#[test]
fn what_they_leave_out_is_watched() {
    let wrong = [
        ("count = -(-n // 16) * min(n // 16, 1)", "count = (n // 16) * min(n // 16, 1)"),
        ("(1 - min(n // 16, 1))", "(1 - min(n // 8, 1))"),
        ("(1 - min(n // 16, 1))", "(2 - min(n // 16, 1))"),
        (
            "for bx in thread_binding(min(count_1, 65535)",
            "for bx in thread_binding(min(count_1, 65534)",
        ),
        ("at = by * 65535 + bx", "at = by * 65536 + bx"),
        ("thread_binding(-(-count_1 // 65535)", "thread_binding(count_1 // 65535"),
        ("if at < count_1", "if at < count"),
        ("tj = at % 3", "tj = at % 4"),
        ("ti = at // 3 % count", "ti = at // 4 % count"),
        ("i0 = at // (count * 3)", "i0 = at // (count * 6)"),
        ("i1 = ti * 16 + (ty + r * 4)", "i1 = ti * 16 + (ty + r * 3)"),
        ("i1 = ti * 16 + (ty + r * 4)", "i1 = ti * 16 + ty"),
        ("for r in grid(4)", "for r in grid(3)"),
        ("if i1 < n and j < 40", "if i1 < n - 1 and j < 40"),
        ("if i1 < n and j < 40", "if i1 < n and X[0, 0, 0] < 1.0"),
        ("if i1 < n and j < 40", "if j < n and i1 < 40"),
        ("if at_2 < count_3", "if at_2 < count_3 and tx_2 == 0"),
        ("at_2 = bx_2 * 64 + tx_2", "at_2 = bx_2 * 63 + tx_2"),
        ("at_2 = bx_2 * 64 + tx_2", "at_2 = bx_2 * 64 + tx_2 + 1"),
        (
            "for bx_2 in thread_binding(-(-count_3 // 64)",
            "for bx_2 in thread_binding(-(-count_3 // 65)",
        ),
        ("M[i2, i3, i4] = X[i2, i3, i4]", "M[i2, i3, i3] = X[i2, i3, i4]"),
    ];
    all_are_noticed(TEXT, &wrong);
}

/// A matrix in blocks as tensor cores have them.
const WARPS: &str = include_str!("../launches_warps.rx");

#[test]
fn what_all_lanes_of_warps_store_is_there() {
    assert!(!is_watched(WARPS));
    let wrong = [
        ("tx // 4", "tx // 8"),
        ("tx // 4", "tx // 5"),
        ("tx // 4", "tx % 4"),
        ("tx % 4 * 2", "tx % 8 * 2"),
        ("tx % 4 * 2", "tx % 4"),
        ("tx % 4 * 2", "tx * 2"),
        ("ty // 2 * 32", "ty // 4 * 32"),
        ("ty % 2 * 32", "ty // 2 * 32"),
        ("ty % 2 * 32", "ty % 3 * 32"),
        ("thread_binding(4", "thread_binding(3"),
        ("thread_binding(32", "thread_binding(16"),
        ("grid(2, 4, 2, 2)", "grid(2, 4, 1, 2)"),
        ("i = at * 64", "i = at * 65"),
    ];
    all_are_noticed(WARPS, &wrong);
}

/// Rows of whole vectors by one launch, all others by another one.
const VECTORS: &str = include_str!("../launches_vectors.rx");

#[test]
fn vectors_and_the_rest_are_all() {
    assert!(!is_watched(VECTORS));
    let declared = VECTORS.replacen("    M =", "    m = sym_var(multiple_of=8)\n    M =", 1);
    let first = "n * count * (1 - min(m % 4, 1))";
    let alone = declared.replacen(first, "n * count", 1).replacen("min(m % 4, 1)", "0", 1);
    assert!(!is_watched(&alone));
    let odd = alone.replacen("multiple_of=8", "multiple_of=6", 1);
    assert!(is_watched(&odd));
}

#[test]
fn vectors_that_leave_something_out_are_noticed() {
    let wrong = [
        ("(1 - min(m % 4, 1))", "(1 - min(m % 8, 1))"),
        ("(1 - min(m % 4, 1))", "min(m % 4, 1)"),
        ("count_2 = n * m * min(m % 4, 1)", "count_2 = n * m * (1 - min(m % 4, 1))"),
        ("count_2 = n * m * min(m % 4, 1)", "count_2 = n * m * min(m % 2, 1)"),
        ("for lane in vectorized(4)", "for lane in vectorized(3)"),
        ("j = vector * 4 + lane", "j = vector * 2 + lane"),
        ("count = m // 4", "count = m // 8"),
        ("M[i, j] = X[i, j]", "M[i, vector] = X[i, j]"),
    ];
    all_are_noticed(VECTORS, &wrong);
}

/// Pieces of rows in some calls, and what all pieces come to in the same calls.
const PIECES: &str = include_str!("../launches_pieces.rx");

#[test]
fn what_a_launch_stores_is_there_in_the_calls_in_which_it_has_blocks() {
    assert!(!is_watched(PIECES));
    let least = PIECES.replace("-(-count_1 // 8)", "min(-(-count_1 // 8), 65535)");
    assert!(!is_watched(&least));
}

#[test]
fn other_calls_are_noticed() {
    let wrong = [
        ("count_1 = n * min(m // 64, 1)", "count_1 = n * min(m // 32, 1)"),
        ("count_1 = n * min(m // 64, 1)", "count_1 = n"),
        ("count_1 = n * min(m // 64, 1)", "count_1 = n * (1 - min(m // 64, 1))"),
        ("count_1 = n * min(m // 64, 1)", "count_1 = (n - 1) * min(m // 64, 1)"),
        ("-(-count_1 // 8)", "count_1 // 8 + 1"),
        ("-(-count_1 // 8)", "max(count_1, 1)"),
        ("i = at // 16", "i = at // 8"),
        ("if tx == 0", "if tx == 1"),
    ];
    all_are_noticed(PIECES, &wrong);
}
