//! Small tensor programs of every class, and those that nearly are of it.

use super::{Analysis, KernelKind, Read, Rows};
use crate::analysis::traps::TrapFree;
use crate::test_program::program;
use relax_symbolic::Prover;

/// Buffers by their shapes, `f32`: `X: n, 4 | Y: n`.
fn buffers(text: &str) -> String {
    let each = text.split('|').map(|buffer| {
        let (name, dims) = buffer.split_once(':').expect("a name and dims");
        let dims = dims.split(',').map(str::trim).filter(|dim| !dim.is_empty());
        let dims: String = dims.map(|dim| format!("\"{dim}\", ")).collect();
        format!("{}: Buffer(({}), \"f32\")", name.trim(), dims.trim_end())
    });
    each.collect::<Vec<_>>().join(", ")
}

#[track_caller]
fn is(pattern: KernelKind, shapes: &str, body: &str) {
    let program = program(&buffers(shapes), body);
    assert_eq!(Analysis::of(&program).kind, pattern, "{body}");
}

#[test]
fn element_wise() {
    let same = "X: n, 4 | Y: n, 4";
    is(KernelKind::ElementWise, same, "for i, j in grid(n, 4):\n    Y[i, j] = exp(X[i, j])");
    is(KernelKind::ElementWise, same, "for j, i in grid(4, n):\n    Y[i, j] = X[i, j] + X[i, j]");
    let named = "for i in parallel(n):\n    for j in vectorized(4):\n        a = i\n        t = X[a, j]\n        Y[i, j] = select(t > 0.0, t, 0.0)";
    is(KernelKind::ElementWise, same, named);
    let axes = "for i, j in grid(n, 4):\n    with block():\n        vi = spatial(n, i)\n        vj = spatial(4, j)\n        Y[vi, vj] = X[vi, vj]";
    is(KernelKind::ElementWise, same, axes);
    is(KernelKind::ElementWise, "X: | Y:", "Y[()] = X[()]");
    is(KernelKind::ElementWise, "X: n, 1 | Y: n, 1", "for i in range(n):\n    Y[i, 0] = X[i, 0]");
}

#[test]
fn broadcast() {
    let rows = "X: n, 4 | B: 4 | Y: n, 4";
    let add = "for i, j in grid(n, 4):\n    Y[i, j] = X[i, j] + B[j]";
    is(KernelKind::ElementWise, rows, add);
    is(KernelKind::Broadcast, "B: 4 | Y: n, 4", "for i, j in grid(n, 4):\n    Y[i, j] = B[j]");
    let outer = "for i, j in grid(n, 4):\n    Y[i, j] = A[i] * B[j]";
    is(KernelKind::Broadcast, "A: n | B: 4 | Y: n, 4", outer);
    let ones = "for i, j in grid(n, 4):\n    Y[i, j] = X[i, 0]";
    is(KernelKind::Broadcast, "X: n, 1 | Y: n, 4", ones);
    is(KernelKind::Injective, "X: n, 2 | Y: n, 4", ones);
    is(KernelKind::Broadcast, "Y: n", "for i in range(n):\n    Y[i] = 1.0");
    // Not in the order of what is written, or twice the same.
    is(
        KernelKind::Injective,
        "X: 4, n | Y: n, 4",
        "for i, j in grid(n, 4):\n    Y[i, j] = X[j, i]",
    );
    is(KernelKind::Injective, "X: n, n | Y: n", "for i in range(n):\n    Y[i] = X[i, i]");
    // The same indices into a larger buffer.
    is(KernelKind::Injective, "X: n + 1 | Y: n", "for i in range(n):\n    Y[i] = X[i]");
}

#[test]
fn injective() {
    is(KernelKind::Injective, "X: n | Y: n", "for i in range(n):\n    Y[i] = X[n - 1 - i]");
    let flat = "for i in range(n * 4):\n    Y[i] = X[i // 4, i % 4]";
    is(KernelKind::Injective, "X: n, 4 | Y: n * 4", flat);
    let mixed = "for i in range(n):\n    Y[i] = X[i] + X[0]";
    is(KernelKind::Injective, "X: n | Y: n", mixed);
}

#[test]
fn reductions() {
    let sum = "X: n, k | Y: n";
    let init = "for i, r in grid(n, k):\n    with block():\n        with init():\n            Y[i] = 0.0\n        Y[i] += X[i, r]";
    is(KernelKind::Reduction, sum, init);
    let before = "for i in range(n):\n    Y[i] = 0.0\n    for r in range(k):\n        Y[i] = max(Y[i], X[i, r])";
    is(KernelKind::Reduction, sum, before);
    let first = "for i, r in grid(n, k):\n    if r == 0:\n        Y[i] = 0.0\n    Y[i] += X[i, r]";
    is(KernelKind::Reduction, sum, first);
    let axes = "for i, a, b in grid(n, 3, 2):\n    with block():\n        vi = spatial(n, i)\n        vk = reduce(6, a * 2 + b)\n        with init():\n            Y[vi] = 0.0\n        Y[vi] += X[vi, vk]";
    is(KernelKind::Reduction, "X: n, 6 | Y: n", axes);
    let squares = "for i, r in grid(n, k):\n    with block():\n        with init():\n            Y[i] = 0.0\n        Y[i] += X[i, r] * X[i, r]";
    is(KernelKind::Reduction, sum, squares);
    // A product for which no place is left: a scalar.
    let dot = "Y[()] = 0.0\nfor r in range(k):\n    Y[()] += X[r] * W[r]";
    is(KernelKind::Reduction, "X: k | W: k | Y:", dot);
}

#[test]
fn reductions_that_set_their_first_value_otherwise() {
    let sum = "X: n, k | Y: n";
    is(KernelKind::Opaque, sum, "for i, r in grid(n, k):\n    Y[i] += X[i, r]");
    is(KernelKind::Opaque, sum, "for i, r in grid(n, k):\n    Y[i] = X[i, r]");
    let second = "for i, r in grid(n, k):\n    if r == 1:\n        Y[i] = 0.0\n    Y[i] += X[i, r]";
    is(KernelKind::Opaque, sum, second);
    let one_of_two = "for i, r, q in grid(n, k, k):\n    if r == 0:\n        Y[i] = 0.0\n    Y[i] += X[i, r] + X[i, q]";
    is(KernelKind::Opaque, sum, one_of_two);
    let both = one_of_two.replace("r == 0", "r == 0 and q == 0");
    is(KernelKind::Reduction, sum, &both);
    // The block does not use `q`, so that each of its values begins anew.
    let unused = "for i, r, q in grid(n, k, 2):\n    with block():\n        with init():\n            Y[i] = 0.0\n        Y[i] += X[i, r]";
    is(KernelKind::Opaque, sum, unused);
    let difference = "for i, r in grid(n, k):\n    with block():\n        with init():\n            Y[i] = 0.0\n        Y[i] -= X[i, r]";
    is(KernelKind::Opaque, sum, difference);
    let elsewhere =
        "for i in range(n):\n    Y[0] = 0.0\n    for r in range(k):\n        Y[i] += X[i, r]";
    is(KernelKind::Opaque, sum, elsewhere);
}

#[test]
fn sums_of_products() {
    let shapes = "X: n, k | W: k, m | Y: n, m";
    let body = |update: &str| {
        format!(
            "for i, j, r in grid(n, m, k):\n    with block():\n        with init():\n            Y[i, j] = 0.0\n        {update}"
        )
    };
    for update in [
        "Y[i, j] += X[i, r] * W[r, j]",
        "Y[i, j] = Y[i, j] + X[i, r] * W[r, j]",
        "Y[i, j] = X[i, r] * W[r, j] + Y[i, j]",
        "Y[i, j] = fma(X[i, r], W[r, j], Y[i, j])",
        "Y[i, j] += f32(X[i, r] * (W[r, j] * 2.0))",
    ] {
        is(KernelKind::OutputEwiseFusible, shapes, &body(update));
    }
    for update in [
        "Y[i, j] += X[i, r] + W[r, j]",
        "Y[i, j] = max(Y[i, j], X[i, r] * W[r, j])",
        "Y[i, j] += X[i, r] * 2.0",
    ] {
        is(KernelKind::Reduction, shapes, &body(update));
    }
    let named = "a = X[i, r]\n        Y[i, j] += a * W[r, j]";
    is(KernelKind::OutputEwiseFusible, shapes, &body(named));
    let convolution =
        "for o, r in grid(n, 3):\n    if r == 0:\n        Y[o] = 0.0\n    Y[o] += X[o + r] * W[r]";
    is(KernelKind::OutputEwiseFusible, "X: n + 2 | W: 3 | Y: n", convolution);
}

#[test]
fn opaque() {
    let same = "X: n | Y: n";
    for body in [
        // Stages, branches, more than one store.
        "T = alloc_buffer((n,), \"f32\")\nfor i in range(n):\n    T[i] = X[i]\nfor i in range(n):\n    Y[i] = T[i]",
        "for i in range(n):\n    if X[i] > 0.0:\n        Y[i] = X[i]\n    else:\n        Y[i] = 0.0",
        "for i in range(n):\n    Y[i] = 0.0\n    Y[i] = X[i]",
        // In place, and what was written before.
        "for i in range(n):\n    X[i] = X[i] + 1.0",
        "for i in range(n):\n    Y[i] = Y[i] + X[i]",
        "for i in range(n):\n    Y[i] += X[i]",
        // Where is read depends on elements.
        "for i in range(n):\n    Y[i] = X[i64(X[i])]",
        "for i in range(n):\n    t = i64(X[i])\n    Y[i] = X[t]",
        // Not every element, not each in its own turn, or at a computed place.
        "for i in range(1, n):\n    Y[i] = X[i]",
        "for i in range(n - 1):\n    Y[i] = X[i]",
        "for i in range(n):\n    Y[n - 1 - i] = X[i]",
        "for i in range(n):\n    Y[0] = X[i]",
        "for r, i in grid(2, n):\n    Y[i] = X[i]",
    ] {
        is(KernelKind::Opaque, same, body);
    }
    let diagonal = "for i in range(n):\n    Y[i, i] = X[i]";
    is(KernelKind::Opaque, "X: n | Y: n, n", diagonal);
    let two = "for i in range(n):\n    Y[i] = X[i]\n    Z[i] = X[i]";
    is(KernelKind::Opaque, "X: n | Y: n | Z: n", two);
    is(KernelKind::Opaque, same, "...");
    let triangle = "for i in range(n):\n    for j in range(i):\n        Y[i, j] = X[i]";
    is(KernelKind::Opaque, "X: n | Y: n, n", triangle);
}

#[test]
fn each_input_is_read_its_own_way() {
    let found = program(
        &buffers("X: n, 4 | B: 4 | T: 4, n | Y: n, 4"),
        "for i, j in grid(n, 4):\n    Y[i, j] = X[i, j] + B[j] * T[j, i]",
    );
    let reads: Vec<Read> = Analysis::of(&found).reads.into_values().collect();
    assert_eq!(reads, [Read::Same, Read::Part, Read::Mapped]);
}

#[test]
fn what_is_recorded_is_read_by_its_name() {
    for pattern in KernelKind::ALL {
        let body = format!("func_attr(\"compute_pattern\", \"{}\")\nY[()] = 1.0", pattern.name());
        assert_eq!(KernelKind::recorded(&program(&buffers("Y:"), &body)), Some(pattern));
    }
    let unknown = "func_attr(\"compute_pattern\", \"Fast\")\nY[()] = 1.0";
    assert_eq!(KernelKind::recorded(&program(&buffers("Y:"), unknown)), None);
}

#[test]
fn long_chains_of_names_are_looked_up_once_each() {
    let mut body = "t0 = X[0]\n".to_owned();
    for at in 1..200 {
        body += &format!("t{at} = t{} + t{}\n", at - 1, at - 1);
    }
    body += "for i in range(n):\n    Y[i] = t199";
    is(KernelKind::Injective, "X: n | Y: n", &body);
}

#[test]
fn programs_that_never_stop() {
    let totals = |shapes: &str, body: &str| {
        TrapFree::of(&program(&buffers(shapes), body), &mut Prover::new())
            .map(|totals| totals.writes_all)
    };
    assert_eq!(totals("X: n | Y: n", "for i in range(n):\n    Y[i] = X[i] / 3.0"), Some(true));
    assert_eq!(totals("X: n | Y: n", "for i in range(n):\n    Y[i] = X[i] // 3.0"), None);
    assert_eq!(totals("X: n + 1 | Y: n", "for i in range(n):\n    Y[i] = X[i]"), None);
    assert_eq!(totals("X: n | Y: n", "for i in range(n):\n    Y[i] = X[0]"), Some(true));
    let mirrored = "for i in range(n):\n    Y[i] = X[n - 1 - i]";
    assert_eq!(totals("X: n | Y: n", mirrored), Some(true));
    let outside = "for i in range(n):\n    Y[i] = X[n - i]";
    assert_eq!(totals("X: n | Y: n", outside), None);
    // Sums of names that double again and again.
    let mut doubled = "for i in range(n):\n    t0 = i\n".to_owned();
    for at in 1..90 {
        doubled += &format!("    t{at} = t{} + t{}\n", at - 1, at - 1);
    }
    assert_eq!(totals("X: n | Y: n", &(doubled + "    Y[i] = X[t89]")), None);
    let sum = "for i, r in grid(n, k):\n    if r == 0:\n        Y[i] = 0.0\n    Y[i] += X[i, r]";
    assert_eq!(totals("X: n, k | Y: n", sum), Some(false));
    let fixed = sum.replace("(n, k)", "(n, 4)");
    assert_eq!(totals("X: n, 4 | Y: n", &fixed), Some(true));
    let bounded = "n = sym_var(lower_bound=2)\nfor i in range(n):\n    Y[i] = X[i]";
    assert_eq!(totals("X: n | Y: n", bounded), None);
}

#[test]
fn a_reduction_in_several_statements_is_one() {
    let sum = |terms: &str, last: &str| {
        format!(
            "T = alloc_buffer((n,), \"f64\")\nfor i in range(n):\n    T[i] = 0.0\n\
             for i, k in grid(n, 4):\n    T[i] += {terms}\nfor i in range(n):\n    Y[i] = {last}"
        )
    };
    let product = "f64(X[i, k]) * f64(W[i, k])";
    let shapes = "X: n, 4 | W: n, 4 | Y: n";
    is(KernelKind::OutputEwiseFusible, shapes, &sum(product, "f32(T[i])"));
    is(KernelKind::Reduction, shapes, &sum("f64(X[i, k])", "f32(T[i] / f64(n))"));
    is(KernelKind::Opaque, shapes, &sum(product, "f32(T[n - 1 - i])"));
    is(KernelKind::Opaque, shapes, &sum(product, "f32(T[i]) + W[i, 0]"));
    is(KernelKind::Opaque, shapes, &sum("T[n - 1 - i]", "f32(T[i])"));
}

#[test]
fn rows_of_parallel_loops_are_those_of_serial_loops() {
    let rows = |kind: &str| {
        let body =
            format!("for i in {kind}(n):\n    for j in range(4):\n        Y[i, j] = X[i, j]");
        Rows::of(&program(&buffers("X: n, 4 | Y: n, 4"), &body)).map(|rows| rows.loops)
    };
    assert_eq!(rows("serial"), Some(1));
    assert_eq!(rows("parallel"), Some(1));
    assert_eq!(rows("vectorized"), None);
}
