//! Which buffers are watched, and which outputs are written, in small programs.

use super::{summary_of_parameters, unproved};
use relax_program::frontend::Program;
use relax_syntax::ir::{Definition, TensorProgram};
use relax_syntax::span::Source;

fn program(text: String) -> TensorProgram {
    let module = Program::load(Source::new("program", text)).module;
    let program = module.definitions.into_iter().find_map(|definition| match definition {
        Definition::Tensor(program) => Some(program),
        Definition::Graph(_) => None,
    });
    program.filter(|program| program.body.is_some()).expect("the text has one")
}

/// Names of the buffers that are watched in a block of four threads.
fn watched(body: &str) -> Vec<String> {
    let lines: String = body.lines().map(|line| format!("            {line}\n")).collect();
    let text = format!(
        "@tensorir_function\n\
         def f(X: Buffer((8,), \"f32\"), Y: Buffer((8,), \"f32\"), Z: Buffer((\"n\",), \"f32\")):\n    \
             for b in thread_binding(1, \"blockIdx.x\"):\n        \
                 S = alloc_buffer((8,), \"f32\", \"shared\")\n        \
                 for t in thread_binding(4, \"threadIdx.x\"):\n{lines}"
    );
    let program = program(text);
    let found = unproved(&program);
    found.into_iter().map(|id| program.buffer(id).name.to_string()).collect()
}

/// What is known of the output, in words, of a program with a matrix for input.
fn output(shape: &str, body: &str) -> String {
    let lines: String = body.lines().map(|line| format!("    {line}\n")).collect();
    let program = program(format!(
        "@tensorir_function\n\
         def f(X: Buffer((\"n\", \"m\"), \"f32\"), Y: Buffer({shape}, \"f32\")):\n{lines}"
    ));
    let known = summary_of_parameters(&program);
    assert_eq!(known[0].are_written_where, None);
    let read = if known[1].are_read_first { "read, " } else { "" };
    match &known[1].are_written_where {
        None => format!("{read}open"),
        Some(positive) => {
            let dims: Vec<String> = positive.iter().map(ToString::to_string).collect();
            format!("{read}written[{}]", dims.join(" "))
        }
    }
}

#[test]
fn outputs_are_written_block_by_block() {
    let blocks = "for b in range((n - 1) // 64 + 1):\n    \
                      for i, j in grid(min(64, n), m):\n        \
                          if i < n - b * 64:\n            \
                              Y[b * 64 + i, j] = 1.0\n";
    let output = |body: &str| output("(\"n\", \"m\")", body);
    assert_eq!(output(blocks), "written[]");
    assert_eq!(output(&blocks.replace("min(64, n)", "64")), "written[]");
    for (part, other) in [
        ("// 64 + 1", "// 64"),
        ("// 64 + 1", "// 63 + 1"),
        ("b * 64", "b * 63"),
        ("b * 64", "b * 65"),
        ("min(64, n)", "min(63, n)"),
        ("min(64, n)", "min(64, m)"),
        ("if i < n", "if i < n - 1"),
        ("if i < n", "if i < m"),
        ("if i < n - b * 64", "if i < n"),
        ("if i < n", "if i > n"),
        ("i, j]", "i, i]"),
    ] {
        assert_eq!(output(&blocks.replace(part, other)), "open", "{other}");
    }
    // Something else must hold as well.
    let twice = blocks.replace("Y[", "if j < 3: Y[");
    assert_eq!(output(&twice), "open");
}

#[test]
fn blocks_of_a_literal_extent_need_no_guard_where_they_divide_it() {
    let blocks = "for b in range(2):\n    for i in range(64):\n        Y[b * 64 + i] = 1.0\n";
    assert_eq!(output("(128,)", blocks), "written[]");
    assert_eq!(output("(127,)", blocks), "open");
    assert_eq!(output("(192,)", blocks), "open");
    let guarded = blocks.replace("        Y", "        if i < 127 - b * 64:\n            Y");
    assert_eq!(output("(127,)", &guarded), "written[]");
    assert_eq!(output("(126,)", &guarded), "open");
}

#[test]
fn outputs_are_written_by_whole_loops() {
    let matrix = "(\"n\", \"m\")";
    let each = "for i, j in grid(n, m):\n    Y[i, j] = X[i, j]\n";
    assert_eq!(output(matrix, each), "written[]");
    assert_eq!(output(matrix, &each.replace("grid(n", "grid(n - 1")), "open");
    assert_eq!(output(matrix, &each.replace("Y[i, j]", "Y[i, i]")), "open");
    assert_eq!(output(matrix, &each.replace("= X", "+= X")), "read, written[]");
    let behind = "for i, j in grid(n, m):\n    if i < 2:\n        Y[i, j] = X[i, j]\n";
    assert_eq!(output(matrix, behind), "open");
    let rows = "for i in grid(n):\n    for j in grid(m):\n        Y[i, j] = X[i, j]\n    \
                for j in grid(m):\n        Y[i, j] = Y[i, m - 1 - j] * 2.0\n";
    assert_eq!(output(matrix, rows), "written[]");
    assert_eq!(output(matrix, &rows.replace("grid", "parallel")), "written[]");
    assert_eq!(output(matrix, &rows.replace("grid", "vectorized")), "read, open");
    assert_eq!(output(matrix, &rows.replacen("grid(m)", "range(1, m)", 1)), "read, written[]");
    assert_eq!(output(matrix, &rows.replace("Y[i, m", "Y[n - 1 - i, m")), "read, written[]");
    assert_eq!(output("(2,)", "Y[0] = 1.0\nY[1] = 2.0\n"), "written[]");
    assert_eq!(output("(3,)", "Y[0] = 1.0\nY[1] = 2.0\nY[1] = 3.0\n"), "open");
}

#[test]
fn sums_are_written_where_there_are_terms() {
    let sum = "for i, j in grid(n, m):\n    with block():\n        with init():\n            Y[i] = 0.0\n        Y[i] += X[i, j]\n";
    assert_eq!(output("(\"n\",)", sum), "written[m]");
    let last = "for i, j in grid(n, m):\n    Y[i] = X[i, j]\n";
    assert_eq!(output("(\"n\",)", last), "written[m]");
    let first =
        "for i in grid(n):\n    Y[i] = 0.0\n    for j in grid(m):\n        Y[i] += X[i, j]\n";
    assert_eq!(output("(\"n\",)", first), "written[]");
    let two = last.replace("grid(n, m)", "grid(n, 2)");
    assert_eq!(output("(\"n\",)", &two), "written[]");
    assert_eq!(output("(\"n\",)", &two.replace('2', "0")), "open");
}

#[test]
fn what_all_threads_stored_is_there_at_a_barrier() {
    let both = "S[t] = X[t]\nS[t + 4] = X[t + 4]\n";
    assert_eq!(watched(&format!("{both}barrier()\nY[t] = S[7 - t]\n")), [""; 0]);
    assert_eq!(watched(&format!("{both}Y[t] = S[7 - t]\n")), ["S"]);
    let after = "barrier()\nS[t] = X[t]\nS[t + 4] = X[t + 4]\nY[t] = S[7 - t]\n";
    assert_eq!(watched(after), ["S"]);
    assert_eq!(watched("S[t] = X[t]\nbarrier()\nY[t] = S[7 - t]\n"), ["S"]);
    assert_eq!(watched("S[t] = X[t]\nS[t + 3] = X[t]\nbarrier()\nY[t] = S[7 - t]\n"), ["S"]);
}

#[test]
fn what_threads_read_of_a_part_that_all_stored_is_there() {
    assert_eq!(watched("S[t] = X[t]\nbarrier()\nY[t] = S[3 - t]\n"), [""; 0]);
    assert_eq!(watched("S[t] = X[t]\nbarrier()\nY[t] = S[t + 1]\n"), ["S"]);
    assert_eq!(watched("S[t] = X[t]\nY[t] = S[3 - t]\n"), ["S"]);
    let turns = "S[t] = X[t]\nbarrier()\nfor i in grid(2):\n    Y[t] = S[t // 2 + i * 2]\n";
    assert_eq!(watched(turns), [""; 0]);
    assert_eq!(watched(&turns.replace("grid(2)", "grid(3)")), ["S"]);
    assert_eq!(watched(&turns.replace("grid(2)", "range(t)")), ["S"]);
}

#[test]
fn what_the_first_thread_stored_is_there_at_a_barrier() {
    let first = "if t == 0:\n    S[0] = X[0]\n";
    assert_eq!(watched(&format!("{first}barrier()\nY[t] = S[0]\n")), [""; 0]);
    assert_eq!(watched(&format!("{first}Y[t] = S[0]\n")), ["S"]);
    assert_eq!(watched(&format!("{first}barrier()\nY[t] = S[t]\n")), ["S"]);
    // Nobody is that thread, all others store, or it may go another way.
    let others = [("t == 0", "t == 4"), ("t == 0", "t != 0"), ("S[0] =", "S[t + 1] =")];
    for (from, to) in others {
        let other = first.replace(from, to);
        assert_ne!(other, first);
        assert_eq!(watched(&format!("{other}barrier()\nY[t] = S[0]\n")), ["S"], "{to}");
    }
    let inner = "if t == 0:\n    if X[0] < 1.0:\n        S[0] = X[0]\nbarrier()\nY[t] = S[0]\n";
    assert_eq!(watched(inner), ["S"]);
    // Each thread of its own place.
    let own = "for i in grid(8):\n    if t == 0:\n        S[i] = X[i]\nbarrier()\nY[t] = S[t]\n";
    assert_eq!(watched(own), ["S"]);
}

#[test]
fn what_only_some_iterations_store_is_not() {
    let some = "for i in grid(4):\n    S[t * 2] = X[t]\n    S[t * 2 + 1] = X[t]\n    barrier()\n";
    assert_eq!(watched(&format!("{some}Y[t] = S[7 - t]\n")), [""; 0]);
    let never = "for i in grid(0):\n    S[t] = X[t]\nbarrier()\nY[t] = S[3 - t]\n";
    assert_eq!(watched(never), ["S"]);
    let none = some.replace("grid(4)", "range(t)");
    assert_eq!(watched(&format!("{none}Y[t] = S[7 - t]\n")), ["S"]);
    let behind = "if t < 2:\n    S[t] = X[t]\n    S[t + 4] = X[t]\nbarrier()\nY[t] = S[t]\n";
    assert_eq!(watched(behind), ["S"]);
}

#[test]
fn what_either_branch_stores_is_there_where_all_threads_take_the_same() {
    let both = "if n % 2 == 0:\n    for i in grid(2):\n        S[t * 2 + i] = X[t]\nelse:\n    for i in unroll(2):\n        for j in grid(1):\n            S[i * 4 + t + j] = X[t]\n";
    let read = "barrier()\nY[t] = S[7 - t]\n";
    assert_eq!(watched(&format!("{both}{read}")), [""; 0]);
    assert_eq!(watched(&format!("{both}Y[t] = S[7 - t]\n")), ["S"]);
    for (from, to) in [
        ("n % 2 == 0", "t % 2 == 0"),
        ("n % 2 == 0", "X[0] < 1.0"),
        ("S[t * 2 + i]", "S[t * 2]"),
        ("S[i * 4 + t + j]", "S[t + j]"),
        ("grid(1)", "grid(0)"),
        ("grid(1)", "range(t)"),
    ] {
        let other = both.replace(from, to);
        assert_ne!(other, both);
        assert_eq!(watched(&format!("{other}{read}")), ["S"], "{to}");
    }
    let inside = "for i in unroll(2):\n    if n == 3:\n        S[t * 2 + i] = X[t]\n    else:\n        S[i * 4 + t] = X[t]\n";
    assert_eq!(watched(&format!("{inside}{read}")), [""; 0]);
    for (from, to) in [("unroll(2)", "unroll(1)"), ("n == 3", "i == 0"), ("n == 3", "t == 0")] {
        assert_eq!(watched(&format!("{}{read}", inside.replace(from, to))), ["S"], "{to}");
    }
}

#[test]
fn outputs_are_written_by_both_branches() {
    let matrix = "(\"n\", \"m\")";
    let nest = |value: &str| format!("    for i, j in grid(n, m):\n        Y[i, j] = {value}\n");
    let either = format!("if n < m:\n{}else:\n{}", nest("X[i, j]"), nest("0.0"));
    assert_eq!(output(matrix, &either), "written[]");
    let (then, otherwise) = either.split_once("else:").expect("it has two");
    assert_eq!(output(matrix, then), "open");
    assert_eq!(output(matrix, &format!("if n < m:{otherwise}")), "open");
    assert_eq!(output(matrix, &format!("if n < m:\n    pass_ = n\nelse:{otherwise}")), "open");
    for (part, other, expected) in [
        ("grid(n, m)", "grid(n - 1, m)", "open"),
        ("grid(n, m)", "grid(n, 0)", "open"),
        ("Y[i, j] =", "Y[i, i] =", "open"),
        ("Y[i, j] =", "Y[i, j] +=", "read, written[]"),
        ("        Y", "        if i < 2: Y", "open"),
    ] {
        let first = either.replacen(part, other, 1);
        assert_ne!(first, either);
        assert_eq!(output(matrix, &first), expected, "{first}");
        let second = format!("{then}else:{}", otherwise.replace(part, other));
        assert_eq!(output(matrix, &second), expected, "{second}");
    }
    // A condition in a branch, and the first value of a sum.
    let inner: String = either.lines().map(|line| format!("    {line}\n")).collect();
    assert_eq!(output(matrix, &format!("if m < 3:\n{inner}else:{otherwise}")), "written[]");
    assert_eq!(output(matrix, &format!("if m < 3:\n{inner}")), "open");
    let sum = "    for i, j in grid(n, m):\n        Y[i] = X[i, j]\n";
    let zero = "    for i in grid(n):\n        Y[i] = 0.0\n";
    assert_eq!(output("(\"n\",)", &format!("if m < 3:\n{sum}else:\n{zero}")), "written[m]");
    assert_eq!(output("(\"n\",)", &format!("if m < 3:\n{zero}else:\n{zero}")), "written[]");
}

#[test]
fn conditions_on_loop_variables_divide_what_is_written() {
    let rows = "for i, j in grid(n, n):\n    if i < n - 1:\n        Y[i, j] = 1.0\n    else:\n        Y[i, j] = 2.0\n";
    let square = "(\"n\", \"n\")";
    assert_eq!(output(square, rows), "written[]");
    // Above the diagonal both would write the same half of the matrix.
    let halves = rows.replace("i < n - 1", "i < j").replace("Y[i, j] = 2", "Y[j, i] = 2");
    assert_eq!(output(square, &halves), "open");
    assert_eq!(output(square, &rows.replace("Y[i, j] = 2", "Y[i, 0] = 2")), "open");
    assert_eq!(output(square, &rows.replacen("grid(n, n)", "grid(n, n - 1)", 1)), "open");
    let inner = "for i in grid(n):\n    if i < n - 1:\n        for j in grid(n):\n            Y[i, j] = 1.0\n    else:\n        for k in grid(n):\n            Y[i, k] = 2.0\n";
    assert_eq!(output(square, inner), "written[]");
    assert_eq!(output(square, &inner.replace("Y[i, k]", "Y[k, i]")), "open");
    assert_eq!(output(square, &inner.replace("k in grid(n)", "k in grid(n - 1)")), "open");
    // A guard of blocks around the condition.
    let blocks = "for b in range((n - 1) // 64 + 1):\n    for i in range(64):\n        if i < n - b * 64:\n            if i < 3:\n                Y[b * 64 + i] = 1.0\n            else:\n                Y[b * 64 + i] = 2.0\n";
    assert_eq!(output("(\"n\",)", blocks), "written[]");
    assert_eq!(output("(\"n\",)", &blocks.replace("b * 64 + i] = 2", "b * 64] = 2")), "open");
}

#[test]
fn what_either_branch_wrote_is_there_after_it() {
    let alike = "if X[0] < 1.0:\n    Y[t] = 1.0\nelse:\n    Y[t] = 2.0\nZ[0] = Y[t]\n";
    let own = "L = alloc_buffer((4,), \"f32\", \"local\")\n";
    let local = format!("{own}{}", alike.replace("Y[", "L["));
    assert_eq!(watched(&local), [""; 0]);
    assert_eq!(watched(&local.replace("L[t] = 2", "L[0] = 2")), ["L"]);
    assert_eq!(watched(&local.replace("Z[0] = L[t]", "Z[0] = L[0]")), ["L"]);
    assert_eq!(watched(&local.replace("    L[t] = 2.0", "    Z[t] = 2.0")), ["L"]);
    let whole = local.replace("L[t] =", "for i in grid(4):\n        L[i] =");
    assert_eq!(watched(&whole), [""; 0]);
    assert_eq!(watched(&whole.replace("L[i] = 2", "L[0] = 2")), ["L"]);
    assert_eq!(watched(&whole.replacen("grid(4)", "range(1, 4)", 1)), ["L"]);
    // A name means something else in each branch.
    let named = local.replace("    L[t] =", "    k = t // 2\n    L[k] =");
    assert_eq!(watched(&named.replace("= L[t]", "= L[t // 2]")), ["L"]);
}
