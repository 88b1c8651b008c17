//! Normalizations and attention: over the reals their formulas, of floats some function of a row.

use super::{Meaning, meaning, shape_of_first};
use crate::denotation::denoter::{Denoter, extent, first, tensor};
use crate::denotation::names::{ADD, DIVIDE, MULTIPLY, SUBTRACT};
use crate::denotation::term::{Binder, Domain, FoldOp, Known, Term, unknown};
use crate::rules::rule::{Arg, Axis, Call};
use relax_syntax::dim::Dim;

pub(super) static MEANINGS: &[Meaning] = &[
    meaning("nn.softmax", shape_of_first, softmax),
    meaning("nn.log_softmax", shape_of_first, log_softmax),
    meaning("nn.layer_norm", shape_of_first, layer_norm),
    meaning("nn.rms_norm", shape_of_first, rms_norm),
    meaning("nn.attention", attention_shape, attention),
];

fn apply(name: &str, args: Vec<Term>) -> Term {
    Term::apply(Domain::Real, name, args)
}

fn sum(binders: Vec<Binder>, body: Term) -> Term {
    Term::Fold(Domain::Real, FoldOp::Add, binders, Box::new(body))
}

/// A row: fresh variables at these axes of an index.
fn row(
    denoter: &mut Denoter,
    shape: &[Axis],
    axes: &[usize],
    at: &[Dim],
) -> (Vec<Binder>, Vec<Dim>) {
    let (mut binders, mut index) = (Vec::new(), at.to_vec());
    for &axis in axes {
        let name = denoter.fresh("k");
        index[axis] = Dim::Var(name.clone());
        binders.push((name, extent(&shape[axis])));
    }
    (binders, index)
}

/// What floats as they are make of a row, at a place in it.
fn opaque(name: &str, place: Vec<Dim>, binders: Vec<Binder>, body: Term) -> Term {
    Term::Fold(Domain::Bits, FoldOp::Row(name.into(), place), binders, Box::new(body))
}

fn softmax_row(
    denoter: &mut Denoter,
    call: &Call,
    at: &[Dim],
) -> Known<(Vec<usize>, Vec<Binder>, Term)> {
    let x = first(call)?;
    let shape = denoter.shape(x)?;
    let axes = denoter.axes(&shape, call.arg("axis"))?;
    let (binders, index) = row(denoter, &shape, &axes, at);
    let body = denoter.element(x, &index)?;
    Ok((axes, binders, body))
}

fn softmax(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let domain = denoter.domain(first(call)?)?;
    let (axes, binders, body) = softmax_row(denoter, call, at)?;
    if domain != Domain::Real {
        let place = axes.iter().map(|&axis| at[axis].clone()).collect();
        return Ok(opaque("softmax", place, binders, body));
    }
    let own = apply("exp", vec![denoter.element(first(call)?, at)?]);
    Ok(apply(DIVIDE, vec![own, sum(binders, apply("exp", vec![body]))]))
}

fn log_softmax(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let domain = denoter.domain(first(call)?)?;
    let (axes, binders, body) = softmax_row(denoter, call, at)?;
    if domain != Domain::Real {
        let place = axes.iter().map(|&axis| at[axis].clone()).collect();
        return Ok(opaque("log_softmax", place, binders, body));
    }
    let own = denoter.element(first(call)?, at)?;
    let total = apply("log", vec![sum(binders, apply("exp", vec![body]))]);
    Ok(apply(SUBTRACT, vec![own, total]))
}

fn count(binders: &[Binder]) -> Term {
    let dims: Vec<Dim> = binders.iter().map(|(_, extent)| extent.clone()).collect();
    Term::Extent(Dim::product(&dims))
}

fn mean(binders: Vec<Binder>, body: Term) -> Term {
    let count = count(&binders);
    apply(DIVIDE, vec![sum(binders, body), count])
}

fn epsilon(call: &Call, denoter: &Denoter) -> Known<Term> {
    match call.arg("epsilon") {
        Arg::Float(value) => Ok(Term::Number(Domain::Real, *value)),
        Arg::Scalar(at) => Ok(Term::Scalar(denoter.params[*at].name.clone())),
        _ => unknown("an epsilon that is not written out"),
    }
}

/// An operand whose axes are those of the data that are normalized over.
fn weight(
    denoter: &mut Denoter,
    call: &Call,
    param: &str,
    axes: &[usize],
    at: &[Dim],
) -> Known<Term> {
    let index: Vec<Dim> = axes.iter().map(|&axis| at[axis].clone()).collect();
    denoter.element(tensor(call, param)?, &index)
}

fn needs_reals(denoter: &Denoter, call: &Call) -> Known<()> {
    match denoter.domain(first(call)?)? {
        Domain::Real => Ok(()),
        _ => unknown("the bits of a normalization"),
    }
}

fn layer_norm(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    needs_reals(denoter, call)?;
    let x = tensor(call, "data")?;
    let shape = denoter.shape(x)?;
    let axes = denoter.axes(&shape, call.arg("axes"))?;
    let mean_of_row = |denoter: &mut Denoter| {
        let (binders, index) = row(denoter, &shape, &axes, at);
        Ok(mean(binders, denoter.element(x, &index)?))
    };
    let center = mean_of_row(denoter)?;
    let inner = mean_of_row(denoter)?;
    let (binders, index) = row(denoter, &shape, &axes, at);
    let distance = apply(SUBTRACT, vec![denoter.element(x, &index)?, inner]);
    let variance = mean(binders, apply("square", vec![distance]));
    let deviation = apply("sqrt", vec![apply(ADD, vec![variance, epsilon(call, denoter)?])]);
    let own = apply(SUBTRACT, vec![denoter.element(x, at)?, center]);
    let mut result = apply(DIVIDE, vec![own, deviation]);
    if super::is_true(call, "scale") {
        result = apply(MULTIPLY, vec![result, weight(denoter, call, "gamma", &axes, at)?]);
    }
    if super::is_true(call, "center") {
        result = apply(ADD, vec![result, weight(denoter, call, "beta", &axes, at)?]);
    }
    Ok(result)
}

fn rms_norm(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    needs_reals(denoter, call)?;
    let x = tensor(call, "data")?;
    let shape = denoter.shape(x)?;
    let axes = denoter.axes(&shape, call.arg("axes"))?;
    let (binders, index) = row(denoter, &shape, &axes, at);
    let square = apply("square", vec![denoter.element(x, &index)?]);
    let power = apply(ADD, vec![mean(binders, square), epsilon(call, denoter)?]);
    let result = apply(DIVIDE, vec![denoter.element(x, at)?, apply("sqrt", vec![power])]);
    if *call.arg("weight") == Arg::None {
        return Ok(result);
    }
    Ok(apply(MULTIPLY, vec![result, weight(denoter, call, "weight", &axes, at)?]))
}

fn attention_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let (q, v) = (denoter.shape(tensor(call, "query")?)?, denoter.shape(tensor(call, "value")?)?);
    match (q.as_slice(), v.as_slice()) {
        ([b, s, h, _], [_, _, _, e]) => Ok(vec![b.clone(), s.clone(), h.clone(), e.clone()]),
        _ => unknown("operands of another rank"),
    }
}

/// Attention without groups of heads, masks and bias.
fn attention(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    needs_reals(denoter, call)?;
    let (q, k, v) = (tensor(call, "query")?, tensor(call, "key")?, tensor(call, "value")?);
    let (qs, ks, vs) = (denoter.shape(q)?, denoter.shape(k)?, denoter.shape(v)?);
    let plain = ["bias", "causal_mask", "window_size"].iter().all(|p| *call.arg(p) == Arg::None)
        && denoter.same(&qs[2], &ks[2])
        && denoter.same(&qs[2], &vs[2]);
    let ([b, s, h, e], true) = (at, plain) else { return unknown("attention of this kind") };
    let width = extent(&qs[3]);
    let scale = match call.arg("scale") {
        Arg::None => {
            let root = apply("sqrt", vec![Term::Extent(width.clone())]);
            apply(DIVIDE, vec![Term::Number(Domain::Real, 1.0), root])
        }
        Arg::Float(value) => Term::Number(Domain::Real, *value),
        Arg::Scalar(at) => Term::Scalar(denoter.params[*at].name.clone()),
        _ => return unknown("a scale that is not written out"),
    };
    let score = |denoter: &mut Denoter, column: &Dim| -> Known<Term> {
        let d = denoter.fresh("k");
        let at = |place: &Dim| vec![b.clone(), place.clone(), h.clone(), Dim::Var(d.clone())];
        let (x, y) = (denoter.element(q, &at(s))?, denoter.element(k, &at(column))?);
        let dot = sum(vec![(d, width.clone())], apply(MULTIPLY, vec![x, y]));
        Ok(apply("exp", vec![apply(MULTIPLY, vec![dot, scale.clone()])]))
    };
    let (column, other) = (denoter.fresh("k"), denoter.fresh("k"));
    let columns = extent(&ks[1]);
    let total = score(denoter, &Dim::Var(other.clone()))?;
    let own = score(denoter, &Dim::Var(column.clone()))?;
    let value = denoter.element(v, &[b.clone(), Dim::Var(column.clone()), h.clone(), e.clone()])?;
    let share = apply(DIVIDE, vec![own, sum(vec![(other, columns.clone())], total)]);
    let body = apply(MULTIPLY, vec![share, value]);
    Ok(sum(vec![(column, columns)], body))
}
