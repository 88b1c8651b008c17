//! Elementwise tensor programs of two inputs and one output.

use super::choices::Choices;

/// A program over buffers of `rank` symbolic dims.
pub(super) fn elementwise(name: &str, rank: usize, choices: &mut Choices) -> String {
    let dims: Vec<String> = (0..rank).map(|axis| format!("d{axis}")).collect();
    let loops: Vec<String> = (0..rank).map(|axis| format!("i{axis}")).collect();
    let quoted: Vec<String> = dims.iter().map(|dim| format!("\"{dim}\"")).collect();
    let shape =
        if rank == 1 { format!("({},)", quoted[0]) } else { format!("({})", quoted.join(", ")) };
    let buffer = |name: &str| format!("{name}: Buffer({shape}, \"f32\")");
    let parameters = [buffer("X"), buffer("W"), buffer("Y")].join(", ");
    let index = if rank == 0 { "()".to_owned() } else { loops.join(", ") };
    let value = value(3, &index, choices);
    let mut text = format!("@tensorir_function\ndef {name}({parameters}):\n");
    let mut indent = "    ".to_owned();
    if rank > 0 {
        for dim in &dims {
            text.push_str(&format!("{indent}{dim} = sym_var()\n"));
        }
        text.push_str(&format!(
            "{indent}for {} in {}:\n",
            loops.join(", "),
            header(&dims, choices)
        ));
        indent.push_str("    ");
    }
    if choices.once_in(2) {
        text.push_str(&format!("{indent}with block(\"{name}\"):\n"));
        indent.push_str("    ");
    }
    text + &format!("{indent}t = {value}\n{indent}Y[{index}] = select(t < 9.0, t, X[{index}])\n")
}

/// What one loop ranges over, or several.
fn header(dims: &[String], choices: &mut Choices) -> String {
    match dims {
        [dim] => format!("{}({dim})", choices.of(&["range", "parallel", "vectorized", "serial"])),
        dims => format!("grid({})", dims.join(", ")),
    }
}

/// An expression of at most `depth` operations in a row.
fn value(depth: usize, index: &str, choices: &mut Choices) -> String {
    match choices.below(if depth == 0 { 3 } else { 7 }) {
        0 => format!("X[{index}]"),
        1 => format!("W[{index}]"),
        2 => choices.of(&["0.5", "2.0", "1e-3"]).to_owned(),
        3 => {
            let function = choices.of(&["exp", "tanh", "abs", "floor", "sigmoid"]);
            format!("{function}(X[{index}] + {})", value(depth - 1, index, choices))
        }
        4 => format!("max({}, X[{index}])", value(depth - 1, index, choices)),
        kind => {
            let symbol = choices.of(if kind == 5 { &["+", "-"] } else { &["*", "/"] });
            let (a, b) = (value(depth - 1, index, choices), value(depth - 1, index, choices));
            format!("(W[{index}] - ({a})) {symbol} ({b})")
        }
    }
}
