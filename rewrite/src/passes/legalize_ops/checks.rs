//! What a check before a call establishes for the tensor program of the call.

use relax_semantics::ops::Known;
use relax_semantics::ops::programs::TensorSpec;
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use std::collections::BTreeMap;

/// Variables that are another one, or a number, once the claims hold.
#[derive(Default)]
pub(super) struct Equalities(BTreeMap<Name, Dim>);

impl Equalities {
    pub(super) fn of<'a>(claims: impl Iterator<Item = &'a Claim>) -> Self {
        let mut found = Self::default();
        for claim in claims.filter(|claim| claim.relation == Relation::Equal) {
            let (left, right) = (found.dim(&claim.left), found.dim(&claim.right));
            let (name, dim) = match (left, right) {
                (dim @ (Dim::Var(_) | Dim::Int(_)), Dim::Var(name))
                | (Dim::Var(name), dim @ Dim::Int(_)) => (name, dim),
                _ => continue,
            };
            if dim == Dim::Var(name.clone()) {
                continue;
            }
            let one = Self(BTreeMap::from([(name.clone(), dim.clone())]));
            found.0.values_mut().for_each(|known| *known = one.dim(known));
            found.0.insert(name, dim);
        }
        found
    }

    fn dim(&self, dim: &Dim) -> Dim {
        match dim {
            Dim::Int(_) => dim.clone(),
            Dim::Var(name) => self.0.get(name).unwrap_or(dim).clone(),
            Dim::Op(op, operands) => {
                Dim::Op(*op, Box::new((self.dim(&operands.0), self.dim(&operands.1))))
            }
        }
    }

    pub(super) fn tensor(&self, spec: &TensorSpec) -> TensorSpec {
        let dims = spec.dims.iter().map(|dim| self.dim(dim)).collect();
        TensorSpec { dims, dtype: spec.dtype }
    }

    pub(super) fn known(&self, known: &Known) -> Known {
        match known {
            Known::Dim(dim) => Known::Dim(self.dim(dim)),
            Known::List(items) => Known::List(items.iter().map(|item| self.known(item)).collect()),
            other => other.clone(),
        }
    }
}

/// The dims that shapes broadcast to, given that they do. Of a pair that is not decided it is `n` if `m` is `n` or 1, and
/// `m` if `n` is 1: `max(n, m) * min(n, m, 1)`, which is 0 beside a 0.
pub(in crate::passes) fn broadcast_dims(shapes: &[&[Dim]], facts: &mut dyn Facts) -> Vec<Dim> {
    let rank = shapes.iter().map(|dims| dims.len()).max().unwrap_or(0);
    let mut result = vec![Dim::Int(1); rank];
    for dims in shapes {
        let skipped = rank - dims.len();
        for (wide, dim) in result[skipped..].iter_mut().zip(*dims) {
            *wide = broadcast_dim(wide, dim, facts);
        }
    }
    result
}

fn broadcast_dim(x: &Dim, y: &Dim, facts: &mut dyn Facts) -> Dim {
    let one = Dim::Int(1);
    if *y == one || facts.equal(x, y) == Answer::Proved {
        return x.clone();
    }
    if *x == one {
        return y.clone();
    }
    let mut never_one = |dim: &Dim| {
        let claim = Claim::new(dim.clone(), Relation::NotEqual, 1);
        facts.decide(&claim) == Answer::Proved
    };
    if never_one(x) {
        return x.clone();
    }
    if never_one(y) {
        return y.clone();
    }
    let least = Dim::op(DimOp::Min, x.clone(), y.clone());
    let most = Dim::op(DimOp::Max, x.clone(), y.clone());
    Dim::op(DimOp::Mul, most, Dim::op(DimOp::Min, least, one))
}
