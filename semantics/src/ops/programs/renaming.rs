//! Dims of a call as the dims of its program: variables by order of appearance.
//!
//! A variable of the program is bound where it stands alone as a dim of a buffer, an output's
//! included: so no program needs a parameter for a dim. A dim of the call is a variable, or an
//! expression of variables and dims that stand alone elsewhere; any other expression is taken for one unknown.

use super::TensorSpec;
use crate::ops::Known;
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use std::collections::{BTreeMap, BTreeSet};

/// The names that a program gives to the dims of a call.
pub struct Renaming {
    bound: BTreeSet<Name>,
    /// Expressions that are dims.
    whole: BTreeSet<Dim>,
    names: BTreeMap<Dim, Name>,
    scalars: BTreeMap<Dim, (usize, Name)>,
}

impl Renaming {
    /// For the tensors of a call, in the order of the program's buffers.
    pub fn of<'a>(tensors: impl Iterator<Item = &'a TensorSpec>) -> Self {
        let (mut bound, mut whole) = (BTreeSet::new(), BTreeSet::new());
        for dim in tensors.flat_map(|tensor| &tensor.dims) {
            match dim {
                Dim::Int(_) => {}
                Dim::Var(name) => _ = bound.insert(name.clone()),
                Dim::Op(..) => _ = whole.insert(dim.clone()),
            }
        }
        Self { bound, whole, names: BTreeMap::new(), scalars: BTreeMap::new() }
    }

    /// A tensor as the program declares it.
    pub fn tensor(&mut self, tensor: &TensorSpec) -> TensorSpec {
        let dims = tensor.dims.iter().map(|dim| self.dim(dim)).collect();
        TensorSpec { dims, dtype: tensor.dtype }
    }

    fn dim(&mut self, dim: &Dim) -> Dim {
        if self.is_expressed(dim) { self.expressed(dim) } else { self.variable(dim) }
    }

    /// Whether the program can compute it from variables that are bound, those of other dims among them.
    fn is_expressed(&self, dim: &Dim) -> bool {
        match dim {
            Dim::Int(_) => true,
            Dim::Var(name) => self.bound.contains(name),
            // There is no such operation of scalars.
            Dim::Op(DimOp::CeilDiv, _) => false,
            Dim::Op(_, operands) => {
                let is_known = |part: &Dim| self.is_expressed(part) || self.whole.contains(part);
                is_known(&operands.0) && is_known(&operands.1)
            }
        }
    }

    fn expressed(&mut self, dim: &Dim) -> Dim {
        match dim {
            Dim::Int(_) => dim.clone(),
            Dim::Var(_) => self.variable(dim),
            Dim::Op(op, operands) => {
                let (a, b) = (self.dim(&operands.0), self.dim(&operands.1));
                Dim::Op(*op, Box::new((a, b)))
            }
        }
    }

    /// A value of the text as the program sees it. A dim that it cannot compute without leaving i64
    /// where the call would not is a scalar of its own, whose value the call gives.
    pub fn known(&mut self, known: &Known) -> Known {
        match known {
            Known::Dim(dim @ Dim::Int(_)) => Known::Dim(dim.clone()),
            Known::Dim(dim @ Dim::Var(name)) if self.bound.contains(name) => {
                Known::Dim(self.variable(dim))
            }
            Known::Dim(dim) => Known::Dim(self.scalar(dim)),
            Known::List(items) => Known::List(items.iter().map(|item| self.known(item)).collect()),
            other => other.clone(),
        }
    }

    fn scalar(&mut self, dim: &Dim) -> Dim {
        let next = self.scalars.len();
        let name = self
            .scalars
            .entry(dim.clone())
            .or_insert_with(|| (next, Name::new(format!("k{next}"))));
        Dim::Var(name.1.clone())
    }

    /// The scalars, in the order of their names, and their values in the call.
    pub fn unknown(self) -> (Vec<Name>, Vec<Dim>) {
        let mut all: Vec<_> = self.scalars.into_iter().collect();
        all.sort_by_key(|(_, (at, _))| *at);
        all.into_iter().map(|(dim, (_, name))| (name, dim)).unzip()
    }

    fn variable(&mut self, dim: &Dim) -> Dim {
        let next = self.names.len();
        let name = self.names.entry(dim.clone()).or_insert_with(|| Name::new(format!("n{next}")));
        Dim::Var(name.clone())
    }
}
