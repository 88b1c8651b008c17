//! Attention step by step: scores, their softmax, and the sum of values weighed by it.

use super::folds::most;
use super::number::Number;
use super::{Op, Tensor};
use crate::denotation::program::cast;
use crate::denotation::term::Term;
use relax_semantics::ops::Known as Value;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};

/// The head of key or value that serves a head of query.
fn shared(head: &Dim, query: &Tensor, other: &Tensor) -> Dim {
    let (all, own) = (&query.dims[2], &other.dims[2]);
    match own {
        _ if all == own => head.clone(),
        Dim::Int(1) => Dim::Int(0),
        _ => {
            let each = Dim::op(DimOp::FloorDiv, all.clone(), own.clone());
            Dim::op(DimOp::FloorDiv, head.clone(), each)
        }
    }
}

/// The score of a row and a column, masked.
fn score(op: &mut Op, [b, h, i]: [&Dim; 3], j: &Dim) -> Option<Number> {
    let (query, key) = (op.tensor("query")?, op.tensor("key")?);
    let depth = query.dims[3].clone();
    let (binders, along) = op.indices(std::slice::from_ref(&depth));
    let d = along[0].clone();
    let x =
        Number::new(query.at(&[b.clone(), i.clone(), h.clone(), d.clone()]), query.dtype).wide();
    let at = [b.clone(), j.clone(), shared(h, &query, &key), d];
    let y = Number::new(key.at(&at), key.dtype).wide();
    let product = op.total(query.dtype, &x.mul(&y), &binders)?;
    let scale = match op.attrs.get("scale")? {
        Value::None => {
            let width = cast(Term::Extent(depth), DType::I64, DType::F64);
            let root = Number::new(width, DType::F64).call("sqrt");
            product.number(1.0).div(&root)
        }
        _ => product.number(op.float("scale")?),
    };
    let mut score = product.mul(&scale);
    if let Some(bias) = op.tensor("bias") {
        let dims = [&query.dims[0], &query.dims[2], &query.dims[1], &key.dims[1]].map(Dim::clone);
        let at = [b.clone(), h.clone(), i.clone(), j.clone()];
        let own = op.stretched(&bias, &dims, &at)?;
        score = score.add(&Number::new(own, bias.dtype).wide());
    }
    let offset = match op.attrs.get("causal_mask")? {
        Value::None => return Some(score),
        Value::Str(mode) if mode == "TopLeft" => Dim::Int(0),
        _ => {
            let distance = Dim::op(DimOp::Sub, query.dims[1].clone(), key.dims[1].clone());
            let opposite = Dim::op(DimOp::Sub, Dim::Int(0), distance.clone());
            Dim::op(DimOp::Max, distance, opposite)
        }
    };
    let last = Dim::op(DimOp::Add, i.clone(), offset);
    let hidden = score.number(f64::NEG_INFINITY).term;
    let mut term = score.term;
    if let Some(Value::Dim(Dim::Int(window))) = op.attrs.get("window_size") {
        let far = Dim::op(DimOp::Sub, last.clone(), j.clone());
        let claim = Claim::new(Dim::Int(*window), Relation::AtMost, far);
        term = Term::choose(claim, hidden.clone(), term);
    }
    let beyond = Claim::new(last, Relation::Less, j.clone());
    Some(Number::new(Term::choose(beyond, hidden, term), DType::F64))
}

pub(super) fn attention(op: &mut Op, at: &[Dim]) -> Option<Term> {
    let (query, key, value) = (op.tensor("query")?, op.tensor("key")?, op.tensor("value")?);
    let [b, i, h, e] = at else { return None };
    let columns = key.dims[1].clone();
    let lane = |op: &mut Op| {
        let (binders, along) = op.indices(std::slice::from_ref(&columns));
        let score = score(op, [b, h, i], &along[0])?;
        Some((binders, along[0].clone(), score))
    };
    let (first, _, score_of_most) = lane(op)?;
    let most = most(op, &score_of_most, &first)?;
    let (second, _, score_of_total) = lane(op)?;
    let total = op.total(query.dtype, &score_of_total.sub(&most).call("exp"), &second)?;
    let (third, j, own) = lane(op)?;
    let weight = own.sub(&most).call("exp").div(&total);
    let at = [b.clone(), j, shared(h, &query, &value), e.clone()];
    let share = weight.mul(&Number::new(value.at(&at), value.dtype).wide());
    Some(op.total(query.dtype, &share, &third)?.to(op.results[0].1).term)
}
