//! Dims as nodes of an e-graph.

use egg::{EGraph, Id, Language};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};

use crate::egraph::ring::Ring;

/// An e-graph over dims.
pub(super) type Graph = EGraph<Node, Ring>;

/// One node: the operands are classes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Node {
    Int(i64),
    Var(Name),
    Op(DimOp, [Id; 2]),
}

/// What nodes must share to match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Leaf,
    Op(DimOp),
}

impl Language for Node {
    type Discriminant = Kind;

    fn discriminant(&self) -> Kind {
        match self {
            Node::Int(_) | Node::Var(_) => Kind::Leaf,
            Node::Op(op, _) => Kind::Op(*op),
        }
    }

    fn matches(&self, other: &Self) -> bool {
        match (self, other) {
            (Node::Op(a, _), Node::Op(b, _)) => a == b,
            _ => self == other,
        }
    }

    fn children(&self) -> &[Id] {
        match self {
            Node::Op(_, operands) => operands,
            _ => &[],
        }
    }

    fn children_mut(&mut self) -> &mut [Id] {
        match self {
            Node::Op(_, operands) => operands,
            _ => &mut [],
        }
    }
}

/// Adds `dim` with all its parts; `class_of` says which class a variable is, where it is not its own.
pub(super) fn add(graph: &mut Graph, dim: &Dim, class_of: &dyn Fn(&Name) -> Option<Id>) -> Id {
    match dim {
        Dim::Int(value) => graph.add(Node::Int(*value)),
        Dim::Var(name) => match class_of(name) {
            Some(id) => id,
            None => graph.add(Node::Var(name.clone())),
        },
        Dim::Op(op, operands) => {
            let a = add(graph, &operands.0, class_of);
            let b = add(graph, &operands.1, class_of);
            graph.add(Node::Op(*op, [a, b]))
        }
    }
}
