//! False neighbours of a rule: its right side with one thing changed.

use super::rule::{Arg, Call, Entry, Node, Rule};
use relax_semantics::ops;
use relax_syntax::dim::{Dim, DimOp};

/// Operators that are easily taken for each other.
const NEIGHBOURS: [(&str, &str); 22] = [
    ("add", "subtract"),
    ("subtract", "add"),
    ("multiply", "add"),
    ("divide", "multiply"),
    ("maximum", "minimum"),
    ("minimum", "maximum"),
    ("sum", "max"),
    ("max", "min"),
    ("min", "max"),
    ("prod", "sum"),
    ("mean", "sum"),
    ("exp", "log"),
    ("log", "exp"),
    ("sqrt", "square"),
    ("rsqrt", "sqrt"),
    ("less", "less_equal"),
    ("less_equal", "less"),
    ("greater", "greater_equal"),
    ("equal", "not_equal"),
    ("logical_and", "logical_or"),
    ("logical_or", "logical_and"),
    ("negative", "abs"),
];

/// The rule with one thing changed, in every way; its own mutant first. Not all of them are false.
#[must_use]
pub fn mutants(rule: &Rule) -> Vec<Rule> {
    let with = |right: Node| Rule { right, mutant: None, ..rule.clone() };
    let mut found: Vec<Rule> = rule.mutant.iter().cloned().map(with).collect();
    for right in changed(&rule.right, rule.params.len()) {
        found.push(with(right));
    }
    for at in 0..rule.conditions.len() {
        let mut fewer = rule.clone();
        fewer.conditions.remove(at);
        found.push(fewer);
    }
    found
}

/// An expression with one thing changed.
fn changed(node: &Node, params: usize) -> Vec<Node> {
    match node {
        Node::Param(at) => {
            let others = (0..params).filter(|other| other != at).map(Node::Param);
            let negative = ops::lookup("negative")
                .map(|row| Node::Call(Call { row, args: vec![Arg::Node(node.clone())] }));
            others.chain(negative).collect()
        }
        Node::Constant(value, kind) => vec![Node::Constant(value + 1.0, kind.clone())],
        Node::Part(whole, at) => {
            let mut found = vec![Node::Part(whole.clone(), at + 1)];
            found.extend(at.checked_sub(1).map(|before| Node::Part(whole.clone(), before)));
            let inner = changed(whole, params).into_iter();
            found.extend(inner.map(|whole| Node::Part(Box::new(whole), *at)));
            found
        }
        Node::Call(call) => {
            let mut found = renamed(call);
            found.extend(swapped(call));
            found.extend(peeled(call));
            for (at, arg) in call.args.iter().enumerate() {
                for other in changed_arg(arg, params) {
                    let mut args = call.args.clone();
                    args[at] = other;
                    found.push(Node::Call(Call { row: call.row, args }));
                }
            }
            found
        }
    }
}

fn renamed(call: &Call) -> Vec<Node> {
    let neighbour = NEIGHBOURS.iter().find(|(name, _)| *name == call.row.name);
    let row = neighbour.and_then(|(_, other)| ops::lookup(other));
    row.map(|row| Node::Call(Call { row, args: call.args.clone() })).into_iter().collect()
}

/// The first operand alone.
fn peeled(call: &Call) -> Option<Node> {
    call.args.iter().find_map(|arg| match arg {
        Arg::Node(node) => Some(node.clone()),
        _ => None,
    })
}

/// The first two operands in the other order.
fn swapped(call: &Call) -> Option<Node> {
    let tensors: Vec<usize> =
        (0..call.args.len()).filter(|&at| matches!(call.args[at], Arg::Node(_))).collect();
    let [first, second, ..] = tensors[..] else { return None };
    let mut args = call.args.clone();
    args.swap(first, second);
    Some(Node::Call(Call { row: call.row, args }))
}

fn changed_arg(arg: &Arg, params: usize) -> Vec<Arg> {
    match arg {
        Arg::Node(node) => changed(node, params).into_iter().map(Arg::Node).collect(),
        Arg::Nodes(nodes) => {
            let mut found = Vec::new();
            if nodes.len() > 1 {
                found.push(Arg::Nodes(nodes.iter().rev().cloned().collect()));
            }
            for (at, node) in nodes.iter().enumerate() {
                for other in changed(node, params) {
                    let mut nodes = nodes.clone();
                    nodes[at] = other;
                    found.push(Arg::Nodes(nodes));
                }
            }
            found
        }
        Arg::Integer(dim) => changed_dim(dim).into_iter().map(Arg::Integer).collect(),
        Arg::List(entries) => changed_list(entries).into_iter().map(Arg::List).collect(),
        Arg::Float(value) => vec![Arg::Float(value + 1.0)],
        Arg::Bool(value) => vec![Arg::Bool(!value)],
        Arg::Scalar(_) | Arg::Str(_) | Arg::Type(_) | Arg::None => Vec::new(),
    }
}

fn changed_dim(dim: &Dim) -> Vec<Dim> {
    [DimOp::Add, DimOp::Sub].map(|op| Dim::op(op, dim.clone(), Dim::Int(1))).into()
}

fn changed_list(entries: &[Entry]) -> Vec<Vec<Entry>> {
    let mut found = Vec::new();
    for at in 1..entries.len() {
        let mut other = entries.to_vec();
        other.swap(at - 1, at);
        found.push(other);
    }
    for (at, entry) in entries.iter().enumerate() {
        let Entry::One(dim) = entry else { continue };
        for dim in changed_dim(dim) {
            let mut other = entries.to_vec();
            other[at] = Entry::One(dim);
            found.push(other);
        }
    }
    found
}
