//! Recurrent networks of a few steps, one after the other. Sequences that are symbolic or longer are scans of these.

use super::activation::scaled;
use super::arithmetic::pair;
use super::shape::permuted;
use super::slice::along;
use crate::argument::{Arg, key};
use crate::builder::V;
use crate::node::{Importer, Node};
use crate::reason::{Done, Reason, invalid, unsupported};
use relax_syntax::dim::Dim;

pub(super) const OPERATORS: &[(&str, Importer)] = &[
    ("RNN", |node| recurrent(node, Cell::Simple)),
    ("GRU", |node| recurrent(node, Cell::Gated)),
    ("LSTM", |node| recurrent(node, Cell::Long)),
];

/// Steps that are unrolled.
pub(crate) const MOST_STEPS: i64 = 256;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Simple,
    Gated,
    Long,
}

/// The weights of one direction.
struct Weights {
    /// `(in, gates * h)`
    input: V,
    /// `(h, gates * h)`
    state: V,
    /// Of the input and of the state.
    bias: Option<(V, V)>,
    peepholes: Option<V>,
    hidden: i64,
}

/// Hidden state, and the cell's of an LSTM.
#[derive(Clone, Copy)]
struct State {
    h: V,
    c: V,
}

fn recurrent(node: &mut Node, cell: Cell) -> Done<Vec<V>> {
    plain_attributes(node, cell)?;
    let batch_first = node.int("layout", 0) == 1;
    let mut x = node.input(0)?;
    if batch_first {
        x = permuted(node, x, &[1, 0, 2])?;
    }
    let dims = node.dims(x);
    let steps = dims.first().and_then(Dim::as_int).filter(|steps| (1..=MOST_STEPS).contains(steps));
    let steps =
        steps.ok_or_else(|| Reason::Unsupported("a symbolic or long sequence".to_owned()))?;
    whole_sequences(node, steps)?;
    let directions: &[bool] = match node.string("direction", "forward")?.as_str() {
        "forward" => &[false],
        "reverse" => &[true],
        "bidirectional" => &[false, true],
        other => return invalid(format!("direction {other:?}")),
    };
    let (mut all, mut hs, mut cs) = (Vec::new(), Vec::new(), Vec::new());
    for (index, &backwards) in directions.iter().enumerate() {
        let weights = weights(node, cell, index as i64)?;
        let mut state = start(node, x, &weights, index as i64, batch_first)?;
        let mut outputs = Vec::new();
        for step in 0..steps {
            let at = if backwards { steps - 1 - step } else { step };
            let now = picked(node, x, 0, at)?;
            state = match cell {
                Cell::Simple => simple(node, now, state, &weights)?,
                Cell::Gated => gated(node, now, state, &weights)?,
                Cell::Long => long(node, now, state, &weights)?,
            };
            outputs.push(state.h);
        }
        if backwards {
            outputs.reverse();
        }
        all.push(node.call("stack", &[outputs.into(), key("axis", 0_i64)])?);
        hs.push(state.h);
        cs.push(state.c);
    }
    // (steps, directions, b, h), or batches first: (b, steps, directions, h).
    let mut y = node.call("stack", &[all.into(), key("axis", 1_i64)])?;
    let axis = i64::from(batch_first);
    let h = node.call("stack", &[hs.into(), key("axis", axis)])?;
    let c = node.call("stack", &[cs.into(), key("axis", axis)])?;
    if batch_first {
        y = permuted(node, y, &[2, 0, 1, 3])?;
    }
    Ok(vec![y, h, c])
}

/// Refuses attributes that change the cell.
fn plain_attributes(node: &Node, cell: Cell) -> Done<()> {
    let usual: &[&str] = match cell {
        Cell::Simple => &["Tanh"],
        Cell::Gated => &["Sigmoid", "Tanh"],
        Cell::Long => &["Sigmoid", "Tanh", "Tanh"],
    };
    if let Some(activations) = node.strings("activations")?
        && activations.iter().enumerate().any(|(index, name)| name != usual[index % usual.len()])
    {
        return unsupported(format!("the activations {}", activations.join(", ")));
    }
    if node.attribute("clip").is_some() || node.int("input_forget", 0) != 0 {
        return unsupported("clip or input_forget");
    }
    Ok(())
}

/// Sequences that end before the last step are not supported.
fn whole_sequences(node: &Node, steps: i64) -> Done<()> {
    let Some(lengths) = node.optional(4) else { return Ok(()) };
    let lengths = node.known_ints(lengths, "sequence_lens")?;
    if lengths.iter().any(|&length| length != steps) {
        return unsupported("sequences of different lengths");
    }
    Ok(())
}

/// One slice along an axis, which is then gone.
fn picked(node: &mut Node, x: V, axis: i64, at: i64) -> Done<V> {
    let axes = Arg::from(vec![axis]);
    let args = [x.into(), axes.clone(), Arg::from(vec![at]), Arg::from(vec![at + 1])];
    let slice = node.call("strided_slice", &args)?;
    node.call("squeeze", &[slice.into(), Arg::Key("axis", Box::new(axes))])
}

fn weights(node: &mut Node, cell: Cell, direction: i64) -> Done<Weights> {
    let gates = match cell {
        Cell::Simple => 1,
        Cell::Gated => 3,
        Cell::Long => 4,
    };
    let recurrence = node.input(2)?;
    let hidden = node.dims(recurrence).get(2).and_then(Dim::as_int).filter(|&h| h <= 1 << 24);
    let hidden = hidden.ok_or_else(|| Reason::Unsupported("a symbolic hidden size".to_owned()))?;
    let mut matrices = Vec::new();
    for index in [1, 2] {
        let matrix = picked(node, node.input(index)?, 0, direction)?;
        matrices.push(node.call("permute_dims", &[matrix.into()])?);
    }
    let bias = match node.optional(3) {
        None => None,
        Some(bias) => {
            let bias = picked(node, bias, 0, direction)?;
            Some((part(node, bias, 0, gates * hidden)?, part(node, bias, 1, gates * hidden)?))
        }
    };
    let peepholes = match node.optional(7).filter(|_| cell == Cell::Long) {
        None => None,
        Some(peepholes) => Some(picked(node, peepholes, 0, direction)?),
    };
    Ok(Weights { input: matrices[0], state: matrices[1], bias, peepholes, hidden })
}

/// The part of that number and width of the last axis.
fn part(node: &mut Node, x: V, number: i64, width: i64) -> Done<V> {
    let axis = node.rank(x) - 1;
    along(node, x, axis, (number * width, (number + 1) * width, 1))
}

fn start(node: &mut Node, x: V, w: &Weights, direction: i64, batch_first: bool) -> Done<State> {
    let batch = node.dims(x)[1].clone();
    let dtype = node.dtype(x);
    let mut states = Vec::new();
    for index in [5, 6] {
        states.push(match node.optional(index) {
            Some(given) => picked(node, given, i64::from(batch_first), direction)?,
            None => {
                let shape = Arg::Shape(vec![batch.clone(), Dim::Int(w.hidden)]);
                node.call("zeros", &[shape, dtype.into()])?
            }
        });
    }
    Ok(State { h: states[0], c: states[1] })
}

/// What input and state give to all gates, each with its bias.
fn products(node: &mut Node, x: V, h: V, w: &Weights) -> Done<(V, V)> {
    let mut a = node.call("matmul", &[x.into(), w.input.into()])?;
    let mut b = node.call("matmul", &[h.into(), w.state.into()])?;
    if let Some((first, second)) = w.bias {
        a = pair(node, "add", a, first)?;
        b = pair(node, "add", b, second)?;
    }
    Ok((a, b))
}

fn simple(node: &mut Node, x: V, state: State, w: &Weights) -> Done<State> {
    let (a, b) = products(node, x, state.h, w)?;
    let sum = pair(node, "add", a, b)?;
    let h = node.call("tanh", &[sum.into()])?;
    Ok(State { h, ..state })
}

/// `h' = (1 - z) * n + z * h`
fn gated(node: &mut Node, x: V, state: State, w: &Weights) -> Done<State> {
    let (a, b) = products(node, x, state.h, w)?;
    let mut gates = Vec::new();
    for number in [0, 1] {
        let (a, b) = (part(node, a, number, w.hidden)?, part(node, b, number, w.hidden)?);
        let sum = pair(node, "add", a, b)?;
        gates.push(node.call("sigmoid", &[sum.into()])?);
    }
    let (z, r) = (gates[0], gates[1]);
    let from_input = part(node, a, 2, w.hidden)?;
    let from_state = if node.int("linear_before_reset", 0) != 0 {
        let own = part(node, b, 2, w.hidden)?;
        pair(node, "multiply", r, own)?
    } else {
        let kept = pair(node, "multiply", r, state.h)?;
        let matrix = part(node, w.state, 2, w.hidden)?;
        let product = node.call("matmul", &[kept.into(), matrix.into()])?;
        match w.bias {
            None => product,
            Some((_, bias)) => {
                let bias = part(node, bias, 2, w.hidden)?;
                pair(node, "add", product, bias)?
            }
        }
    };
    let sum = pair(node, "add", from_input, from_state)?;
    let new = node.call("tanh", &[sum.into()])?;
    let less = scaled(node, z, -1.0)?;
    let rest = super::activation::plus(node, less, 1.0)?;
    let (new, old) = (pair(node, "multiply", rest, new)?, pair(node, "multiply", z, state.h)?);
    Ok(State { h: pair(node, "add", new, old)?, ..state })
}

/// Gates in the order input, output, forget, cell.
fn long(node: &mut Node, x: V, state: State, w: &Weights) -> Done<State> {
    let (a, b) = products(node, x, state.h, w)?;
    let sum = pair(node, "add", a, b)?;
    let gate = |node: &mut Node, number: i64, peephole: i64, c: V| -> Done<V> {
        let mut gate = part(node, sum, number, w.hidden)?;
        if let Some(peepholes) = w.peepholes {
            let peephole = part(node, peepholes, peephole, w.hidden)?;
            let seen = pair(node, "multiply", peephole, c)?;
            gate = pair(node, "add", gate, seen)?;
        }
        node.call("sigmoid", &[gate.into()])
    };
    let input = gate(node, 0, 0, state.c)?;
    let forget = gate(node, 2, 2, state.c)?;
    let new = part(node, sum, 3, w.hidden)?;
    let new = node.call("tanh", &[new.into()])?;
    let (kept, added) =
        (pair(node, "multiply", forget, state.c)?, pair(node, "multiply", input, new)?);
    let c = pair(node, "add", kept, added)?;
    let output = gate(node, 1, 1, c)?;
    let shown = node.call("tanh", &[c.into()])?;
    Ok(State { h: pair(node, "multiply", output, shown)?, c })
}
