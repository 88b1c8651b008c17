//! What operators compute, step by step in the dtypes that they compute in: what a tensor program of the
//! operator is held against. Over floats as they are, a rule only needs that an operator is some function of
//! its elements; a program that computes it needs to know which.
//!
//! Each formula is that of the operator's row (`relax_semantics::ops`). Sums of the narrower floats are formed in
//! f64; that an operator carries the error of each addition along and a program does not is what makes
//! legalization approximate, and is not told here.

mod attention;
mod elementwise;
mod folds;
mod movement;
mod number;
mod windows;

use super::term::{Known, Term};
use relax_semantics::ops::{Known as Value, Operator};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use std::collections::BTreeMap;

/// A tensor operand.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) name: Name,
    pub(crate) dims: Vec<Dim>,
    pub(crate) dtype: DType,
}

/// A call, of which an element of a result is asked.
pub(crate) struct Op<'a> {
    pub(crate) row: &'static Operator,
    /// The tensors, each with its parameter.
    pub(crate) tensors: Vec<(&'static str, Tensor)>,
    /// The other parameters.
    pub(crate) attrs: BTreeMap<&'static str, Value>,
    /// The dims and dtype of each result.
    pub(crate) results: Vec<(Vec<Dim>, DType)>,
    pub(crate) facts: &'a mut dyn Facts,
    pub(crate) fresh: &'a mut usize,
}

/// The element of a result at an index; none where this operator is not among those that are told here.
pub(crate) fn element(op: &mut Op, part: usize, at: &[Dim]) -> Option<Known<Term>> {
    elementwise::element(op, at)
        .or_else(|| folds::element(op, part, at))
        .or_else(|| movement::element(op, part, at))
        .or_else(|| windows::element(op, part, at))
}

impl Tensor {
    /// An element.
    pub(super) fn at(&self, at: &[Dim]) -> Term {
        Term::Read(self.name.clone(), at.to_vec())
    }
}

impl Op<'_> {
    /// The tensor of a parameter.
    pub(super) fn tensor(&self, param: &str) -> Option<Tensor> {
        self.tensors.iter().find(|(own, _)| *own == param).map(|(_, tensor)| tensor.clone())
    }

    /// The first tensor.
    pub(super) fn first(&self) -> Option<Tensor> {
        self.tensors.first().map(|(_, tensor)| tensor.clone())
    }

    pub(super) fn float(&self, param: &str) -> Option<f64> {
        match self.attrs.get(param)? {
            Value::Float(value) => Some(*value),
            Value::Dim(Dim::Int(value)) => Some(*value as f64),
            _ => None,
        }
    }

    fn equal(&mut self, a: &Dim, b: &Dim) -> bool {
        a == b || self.facts.equal(a, b) == Answer::Proved
    }

    /// The element of an operand that is stretched to a shape.
    pub(super) fn stretched(&mut self, tensor: &Tensor, out: &[Dim], at: &[Dim]) -> Option<Term> {
        let lead = out.len().checked_sub(tensor.dims.len())?;
        let mut index = at[lead..].to_vec();
        let mut open = Vec::new();
        for (axis, dim) in tensor.dims.clone().iter().enumerate() {
            if self.equal(dim, &out[lead + axis]) {
                continue;
            }
            if *dim == Dim::Int(1) {
                index[axis] = Dim::Int(0);
            } else {
                open.push((axis, Claim::new(dim.clone(), Relation::Equal, 1)));
            }
        }
        let mut cases = vec![(Vec::new(), index)];
        for (axis, claim) in open {
            cases = cases
                .into_iter()
                .flat_map(|(claims, index): Case| {
                    let mut one = (claims.clone(), index.clone());
                    one.0.push((claim.clone(), true));
                    one.1[axis] = Dim::Int(0);
                    let mut other = (claims, index);
                    other.0.push((claim.clone(), false));
                    [one, other]
                })
                .collect();
        }
        chosen(tensor, &cases, 0)
    }
}

/// Which claims hold, and the index that is read then.
type Case = (Vec<(Claim, bool)>, Vec<Dim>);

/// The case whose claims hold.
fn chosen(tensor: &Tensor, cases: &[Case], depth: usize) -> Option<Term> {
    let (claims, index) = cases.first()?;
    let Some((claim, _)) = claims.get(depth) else { return Some(tensor.at(index)) };
    let (yes, no): (Vec<_>, Vec<_>) =
        cases.iter().cloned().partition(|(claims, _)| claims[depth].1);
    Some(Term::choose(
        claim.clone(),
        chosen(tensor, &yes, depth + 1)?,
        chosen(tensor, &no, depth + 1)?,
    ))
}
