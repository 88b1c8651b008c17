//! Equality of what holds floats: bit by bit, so that a NaN is itself and -0.0 is not 0.0. Two definitions that are equal
//! mean the same.

use super::graph::Literals;
use super::tensor::TExpr;
use super::{Atom, AttrValue};

impl PartialEq for Atom {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Atom::Var(a), Atom::Var(b)) => a == b,
            (Atom::Global(a), Atom::Global(b)) | (Atom::Str(a), Atom::Str(b)) => a == b,
            (Atom::Dim(a), Atom::Dim(b)) => a == b,
            (Atom::Float(a), Atom::Float(b)) => a.to_bits() == b.to_bits(),
            (Atom::Bool(a), Atom::Bool(b)) => a == b,
            (Atom::None, Atom::None) => true,
            (Atom::Constant(a), Atom::Constant(b)) => a == b,
            (Atom::External(a), Atom::External(b)) => a == b,
            (Atom::Tuple(a), Atom::Tuple(b)) | (Atom::List(a), Atom::List(b)) => a == b,
            (Atom::Shape(a), Atom::Shape(b)) => a == b,
            (Atom::Annotation(a), Atom::Annotation(b)) => a == b,
            _ => false,
        }
    }
}

impl PartialEq for Literals {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Literals::Int(a), Literals::Int(b)) => a == b,
            (Literals::Float(a), Literals::Float(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.to_bits() == y.to_bits())
            }
            _ => false,
        }
    }
}

impl PartialEq for TExpr {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (TExpr::Int(a), TExpr::Int(b)) => a == b,
            (TExpr::Float(a), TExpr::Float(b)) => a.to_bits() == b.to_bits(),
            (TExpr::Bool(a), TExpr::Bool(b)) => a == b,
            (TExpr::Scalar(a), TExpr::Scalar(b)) => a == b,
            (TExpr::Dim(a), TExpr::Dim(b)) => a == b,
            (
                TExpr::Load { buffer: a, indices: at },
                TExpr::Load { buffer: b, indices: other_at },
            ) => a == b && at == other_at,
            (TExpr::Unary(op, a), TExpr::Unary(other_op, b)) => op == other_op && a == b,
            (TExpr::Binary(op, a), TExpr::Binary(other_op, b)) => op == other_op && a == b,
            (TExpr::Select(a), TExpr::Select(b)) => a == b,
            (TExpr::Cast(to, a), TExpr::Cast(other_to, b)) => to == other_to && a == b,
            (TExpr::Call(of, args), TExpr::Call(other_of, others)) => {
                of == other_of && args == others
            }
            _ => false,
        }
    }
}

impl PartialEq for AttrValue {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (AttrValue::Str(a), AttrValue::Str(b)) => a == b,
            (AttrValue::Int(a), AttrValue::Int(b)) => a == b,
            (AttrValue::Float(a), AttrValue::Float(b)) => a.to_bits() == b.to_bits(),
            (AttrValue::Bool(a), AttrValue::Bool(b)) => a == b,
            _ => false,
        }
    }
}
