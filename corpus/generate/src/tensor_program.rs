//! Tensor programs: elementwise, reductions, stencils, gathers, and in place.

use super::choices::Choices;

/// What a program computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Y = f(X, W), of one shape.
    Elementwise,
    /// Y is X reduced over its last dim.
    Reduction,
    /// Y = f(X at places around, W).
    Stencil,
    /// Y = X at places that W tells.
    Gather,
    /// X is changed.
    InPlace,
}

/// A program over buffers of `rank` symbolic dims: `X` and `W` of that rank, or `X` alone.
pub(super) fn program(kind: Kind, name: &str, rank: usize, choices: &mut Choices) -> String {
    match kind {
        Kind::Elementwise => elementwise(name, rank, choices),
        Kind::Reduction => reduction(name, rank, choices),
        Kind::Stencil => stencil(name, choices),
        Kind::Gather => gather(name, choices),
        Kind::InPlace => in_place(name, rank, choices),
    }
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|index| format!("{prefix}{index}")).collect()
}

/// `("d0", "d1")`
fn shape(rank: usize) -> String {
    let quoted: Vec<String> = names("d", rank).iter().map(|dim| format!("\"{dim}\"")).collect();
    if rank == 1 { format!("({},)", quoted[0]) } else { format!("({})", quoted.join(", ")) }
}

/// The header, and a line for each dim.
fn header(name: &str, parameters: &[(&str, usize)], dims: usize) -> String {
    let buffers: Vec<String> = parameters
        .iter()
        .map(|(name, rank)| format!("{name}: Buffer({}, \"f32\")", shape(*rank)))
        .collect();
    let mut text = format!("@tensorir_function\ndef {name}({}):\n", buffers.join(", "));
    for dim in names("d", dims) {
        text.push_str(&format!("    {dim} = sym_var()\n"));
    }
    text
}

fn elementwise(name: &str, rank: usize, choices: &mut Choices) -> String {
    let (dims, loops) = (names("d", rank), names("i", rank));
    let index = if rank == 0 { "()".to_owned() } else { loops.join(", ") };
    let value = value(3, &index, choices);
    let mut text = header(name, &[("X", rank), ("W", rank), ("Y", rank)], rank);
    let mut indent = "    ".to_owned();
    if rank > 0 {
        let extents = extents(&dims, choices);
        text.push_str(&format!("{indent}for {} in {extents}:\n", loops.join(", ")));
        indent.push_str("    ");
    }
    if choices.once_in(2) {
        text.push_str(&format!("{indent}with block(\"{name}\"):\n"));
        indent.push_str("    ");
    }
    text + &format!("{indent}t = {value}\n{indent}Y[{index}] = select(t < 9.0, t, X[{index}])\n")
}

/// Over the last dim; `Y` has the others.
fn reduction(name: &str, rank: usize, choices: &mut Choices) -> String {
    let (dims, loops) = (names("d", rank), names("i", rank));
    let outer = &loops[..rank - 1];
    let target = if outer.is_empty() { "()".to_owned() } else { outer.join(", ") };
    let (first, update) = choices.of(&[
        ("0.0", "Y[@] += X[#]"),
        ("-inf", "Y[@] = max(Y[@], X[#])"),
        ("1.0", "Y[@] *= X[#]"),
        ("-0.0", "Y[@] = Y[@] + X[#] * X[#]"),
        ("2.5", "Y[@] = min(Y[@], abs(X[#]))"),
    ]);
    let update = update.replace('@', &target).replace('#', &loops.join(", "));
    let first = if first == "-inf" { "-3.0e38" } else { first };
    let head = header(name, &[("X", rank), ("Y", rank - 1)], rank);
    let grid = if rank == 1 {
        format!("range({})", dims[0])
    } else {
        format!("grid({})", dims.join(", "))
    };
    // A block's init runs with the first iteration only: of nothing, nothing is written. So the init is a
    // nest of its own.
    let nest = if outer.is_empty() {
        format!("    Y[{target}] = {first}\n")
    } else {
        let extents = extents(&dims[..rank - 1], choices);
        format!("    for {} in {extents}:\n        Y[{target}] = {first}\n", outer.join(", "))
    };
    head + &nest + &format!("    for {} in {grid}:\n        {update}\n", loops.join(", "))
}

/// Over the neighbours along one dim, clamped at the ends or left out there.
fn stencil(name: &str, choices: &mut Choices) -> String {
    let head = header(name, &[("X", 1), ("W", 1), ("Y", 1)], 1);
    let (loops, value) = (
        choices.of(&["range", "parallel", "vectorized"]),
        choices.of(&[
            "X[max(i - 1, 0)] + X[min(i + 1, d0 - 1)] * W[i]",
            "X[d0 - 1 - i] - W[i]",
            "X[(i + 1) % d0] + W[(i + d0 - 1) % d0]",
            "X[i // 2] * W[i - i % 2]",
        ]),
    );
    if choices.once_in(3) {
        let inner = "        if i > 0:\n            t = X[i - 1]\n            Y[i] = t + W[i]\n        \
                     else:\n            Y[i] = W[i]\n";
        return format!("{head}    for i in range(d0):\n{inner}");
    }
    format!("{head}    for i in {loops}(d0):\n        Y[i] = {value}\n")
}

/// Places are elements, made to be in range.
fn gather(name: &str, choices: &mut Choices) -> String {
    let head = header(name, &[("X", 1), ("W", 1), ("Y", 1)], 1);
    let place = choices.of(&["max(min(at, d0 - 1), 0)", "abs(at) % d0", "at"]);
    let at = choices.of(&["i64(W[i])", "i64(min(max(W[i], 0.0), 100.0))"]);
    format!("{head}    for i in range(d0):\n        at = {at}\n        Y[i] = X[{place}]\n")
}

fn in_place(name: &str, rank: usize, choices: &mut Choices) -> String {
    let (dims, loops) = (names("d", rank), names("i", rank));
    let head = header(name, &[("X", rank)], rank);
    if rank == 0 {
        return head + "    X[()] = X[()] + 1.0\n";
    }
    let index = loops.join(", ");
    let update = choices.of(&["X[@] = X[@] * 2.0", "X[@] += 1.0", "X[@] = max(X[@], 0.0)"]);
    let update = update.replace('@', &index);
    format!("{head}    for {index} in {}:\n        {update}\n", extents(&dims, choices))
}

/// What one loop ranges over, or several.
fn extents(dims: &[String], choices: &mut Choices) -> String {
    match dims {
        [dim] => format!("{}({dim})", choices.of(&["range", "parallel", "vectorized", "serial"])),
        dims => format!("grid({})", dims.join(", ")),
    }
}

/// An expression of at most `depth` operations in a row.
fn value(depth: usize, index: &str, choices: &mut Choices) -> String {
    match choices.below(if depth == 0 { 3 } else { 8 }) {
        0 => format!("X[{index}]"),
        1 => format!("W[{index}]"),
        2 => choices.of(&["0.5", "2.0", "1e-3", "-0.0"]).to_owned(),
        3 => {
            let functions =
                ["exp", "tanh", "abs", "floor", "sigmoid", "sqrt", "log", "round", "erf"];
            let function = choices.of(&functions);
            format!("{function}(X[{index}] + {})", value(depth - 1, index, choices))
        }
        4 => format!("max({}, X[{index}])", value(depth - 1, index, choices)),
        5 => format!("min(W[{index}], {})", value(depth - 1, index, choices)),
        kind => {
            let symbols = if kind == 6 { ["+", "-"] } else { ["*", "/"] };
            let symbol = choices.of(&symbols);
            let (a, b) = (value(depth - 1, index, choices), value(depth - 1, index, choices));
            format!("(W[{index}] - ({a})) {symbol} ({b})")
        }
    }
}
