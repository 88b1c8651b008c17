//! Calls of operators as nodes of an e-graph: a row, its attributes in one spelling, and classes of operands.

use egg::{Id, Language};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{Constant, graph::Literals};
use std::sync::Arc;

/// A node: the operands are classes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Term {
    pub(super) head: Head,
    pub(super) children: Vec<Id>,
}

/// What a node is, apart from its operands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Head {
    /// A value from outside of the region, by its place in the table of them.
    Leaf(usize),
    /// A constant of rank 0.
    Scalar(Scalar),
    /// A call of the row of that name, with an attribute a parameter.
    Call(&'static str, Vec<Attr>),
    /// `t[0]`
    Part(usize),
    /// Everything that is seen after the region, so that one explanation tells of all.
    Outputs,
}

/// What an argument of a call is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Attr {
    /// The next operand.
    Operand,
    /// As many of the next operands.
    Operands(usize),
    None,
    Dim(Dim),
    /// The bits of a float.
    Float(u64),
    Bool(bool),
    Str(Name),
    List(Vec<Dim>),
}

/// A constant of rank 0. Bits of floats, so that 0.0 and -0.0 differ and a NaN is itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Scalar {
    Float(DType, u64),
    Int(DType, i128),
}

impl Scalar {
    /// Of a constant without dims.
    pub(super) fn of(constant: &Constant) -> Option<Scalar> {
        if !constant.shape.is_empty() {
            return None;
        }
        match &constant.data {
            Literals::Float(values) => {
                Some(Scalar::Float(constant.dtype, values.first()?.to_bits()))
            }
            Literals::Int(values) => Some(Scalar::Int(constant.dtype, *values.first()?)),
        }
    }

    pub(super) fn dtype(self) -> DType {
        match self {
            Scalar::Float(dtype, _) | Scalar::Int(dtype, _) => dtype,
        }
    }

    /// The number of a rule in a dtype that holds it: rules have small numbers, most powers of two.
    pub(super) fn new(value: f64, dtype: DType) -> Option<Scalar> {
        if dtype.is_float() {
            // No more than the 8 bits that a bf16 has, and within the exponents of an f16.
            let short = value.to_bits().trailing_zeros() >= 52 - 7;
            let near = value == 0.0 || value.is_infinite() || (1e-4..=1e4).contains(&value.abs());
            return (short && near).then_some(Scalar::Float(dtype, value.to_bits()));
        }
        let most = if dtype == DType::Bool { 1.0 } else { 100.0 };
        let least = if dtype.is_integer() && dtype.class() == relax_syntax::dtype::Class::Signed {
            -100.0
        } else {
            0.0
        };
        let whole = value.fract() == 0.0 && (least..=most).contains(&value);
        whole.then_some(Scalar::Int(dtype, value as i128))
    }

    /// Whether it is the number of a rule, its sign included.
    pub(super) fn is(self, value: f64) -> bool {
        match self {
            Scalar::Float(_, bits) => bits == value.to_bits(),
            Scalar::Int(_, number) => number as f64 == value,
        }
    }

    pub(super) fn constant(self) -> Arc<Constant> {
        let data = match self {
            Scalar::Float(_, bits) => Literals::Float(vec![f64::from_bits(bits)]),
            Scalar::Int(_, value) => Literals::Int(vec![value]),
        };
        Arc::new(Constant { shape: Vec::new(), dtype: self.dtype(), data })
    }
}

/// What nodes must share to match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Leaf,
    Call(&'static str),
    Part,
}

impl Language for Term {
    type Discriminant = Kind;

    fn discriminant(&self) -> Kind {
        match &self.head {
            Head::Leaf(_) | Head::Scalar(_) | Head::Outputs => Kind::Leaf,
            Head::Call(name, _) => Kind::Call(name),
            Head::Part(_) => Kind::Part,
        }
    }

    fn matches(&self, other: &Self) -> bool {
        self.head == other.head && self.children.len() == other.children.len()
    }

    fn children(&self) -> &[Id] {
        &self.children
    }

    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.children
    }
}
