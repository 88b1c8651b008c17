//! Reductions and running sums.

use super::movement::{linear, unravel, volume};
use super::{Meaning, is_true, meaning, shape_of_first};
use crate::denotation::denoter::{Denoter, extent, first, meaning as meaning_of_call, tensor};
use crate::denotation::names::{DIVIDE, SUBTRACT};
use crate::denotation::term::{Binder, Domain, FoldOp, Known, Term, unknown};
use crate::rules::rule::{Arg, Axis, Call};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};

pub(super) static MEANINGS: &[Meaning] = &[
    meaning("sum", shape, |d, call, at| reduced(d, call, at, FoldOp::Add)),
    meaning("prod", shape, |d, call, at| reduced(d, call, at, FoldOp::Multiply)),
    meaning("max", shape, |d, call, at| reduced(d, call, at, FoldOp::Max)),
    meaning("min", shape, |d, call, at| reduced(d, call, at, FoldOp::Min)),
    meaning("mean", shape, mean),
    meaning("variance", shape, variance),
    meaning("std", shape, deviation),
    meaning("cumsum", cumsum_shape, cumsum),
    meaning("collapse_sum_to", |d, call| d.extents(call.arg("shape")), collapsed),
    meaning("collapse_sum_like", |d, call| d.shape(tensor(call, "collapse_target")?), collapsed),
    meaning("argmax", shape, place_of),
    meaning("argmin", shape, place_of),
];

fn reduced_axes(denoter: &mut Denoter, call: &Call) -> Known<Vec<usize>> {
    let shape = denoter.shape(first(call)?)?;
    denoter.axes(&shape, call.arg("axis"))
}

fn shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let own = denoter.shape(first(call)?)?;
    let axes = reduced_axes(denoter, call)?;
    let keep = is_true(call, "keepdims");
    // How many axes of 1 a group leaves would depend on the group.
    if keep && axes.iter().any(|&axis| matches!(own[axis], Axis::Group(_))) {
        return unknown("a group reduced to axes of 1");
    }
    Ok(unit_axes(&own, &axes, if keep { Some(Dim::Int(1)) } else { None }))
}

/// The axes, those reduced with another extent or left out.
fn unit_axes(own: &[Axis], axes: &[usize], unit: Option<Dim>) -> Vec<Axis> {
    let axis = |(at, axis): (usize, &Axis)| {
        if axes.contains(&at) { unit.clone().map(Axis::Dim) } else { Some(axis.clone()) }
    };
    own.iter().enumerate().filter_map(axis).collect()
}

/// The index of an element that is reduced: fresh variables on the reduced axes.
fn inner(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<(Vec<Binder>, Vec<Dim>)> {
    let own = denoter.shape(first(call)?)?;
    let axes = reduced_axes(denoter, call)?;
    let keep = is_true(call, "keepdims");
    let mut binders = Vec::new();
    let mut rest = at.iter();
    let mut index = Vec::new();
    for (place, axis) in own.iter().enumerate() {
        if axes.contains(&place) {
            let name = denoter.fresh("k");
            index.push(Dim::Var(name.clone()));
            binders.push((name, extent(axis)));
            if keep {
                rest.next();
            }
        } else {
            index.push(rest.next().cloned().unwrap_or(Dim::Int(0)));
        }
    }
    Ok((binders, index))
}

fn reduced(denoter: &mut Denoter, call: &Call, at: &[Dim], op: FoldOp) -> Known<Term> {
    let x = first(call)?;
    let domain = denoter.domain(x)?;
    let (binders, index) = inner(denoter, call, at)?;
    let body = denoter.element(x, &index)?;
    // Floats are summed in their order and rounded once: more is not known of such a sum.
    let op = match (domain, op) {
        (Domain::Bits, FoldOp::Add | FoldOp::Multiply) => {
            FoldOp::Row(call.row.name.into(), Vec::new())
        }
        (_, op) => op,
    };
    Ok(Term::Fold(domain, op, binders, Box::new(body)))
}

fn count(binders: &[Binder]) -> Term {
    let dims: Vec<Dim> = binders.iter().map(|(_, extent)| extent.clone()).collect();
    Term::Extent(Dim::product(&dims))
}

/// The mean of what `body` gives.
fn mean_of(domain: Domain, binders: Vec<Binder>, body: Term) -> Term {
    if domain != Domain::Real {
        return Term::Fold(domain, FoldOp::Row("mean".into(), Vec::new()), binders, Box::new(body));
    }
    let count = count(&binders);
    let sum = Term::Fold(domain, FoldOp::Add, binders, Box::new(body));
    Term::apply(domain, DIVIDE, vec![sum, count])
}

fn mean(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let x = first(call)?;
    let domain = denoter.domain(x)?;
    let (binders, index) = inner(denoter, call, at)?;
    let body = denoter.element(x, &index)?;
    Ok(mean_of(domain, binders, body))
}

fn variance(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let x = first(call)?;
    let domain = denoter.domain(x)?;
    let (binders, index) = inner(denoter, call, at)?;
    let body = denoter.element(x, &index)?;
    if domain != Domain::Real {
        let op = FoldOp::Row("variance".into(), Vec::new());
        return Ok(Term::Fold(domain, op, binders, Box::new(body)));
    }
    let (others, index) = inner(denoter, call, at)?;
    let mean = mean_of(domain, others, denoter.element(x, &index)?);
    let distance = Term::apply(domain, SUBTRACT, vec![body, mean]);
    Ok(mean_of(domain, binders, Term::apply(domain, "square", vec![distance])))
}

fn deviation(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let domain = denoter.domain(first(call)?)?;
    let variance = variance(denoter, call, at)?;
    if domain == Domain::Real {
        return Ok(Term::apply(domain, "sqrt", vec![variance]));
    }
    let Term::Fold(domain, _, binders, body) = variance else { return unknown("no variance") };
    Ok(Term::Fold(domain, FoldOp::Row("std".into(), Vec::new()), binders, body))
}

fn cumsum_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let own = shape_of_first(denoter, call)?;
    Ok(if *call.arg("axis") == Arg::None { vec![Axis::Dim(volume(&own))] } else { own })
}

/// The sum up to and with an element.
fn cumsum(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let x = first(call)?;
    let shape = denoter.shape(x)?;
    let domain = denoter.domain(x)?;
    if *call.arg("dtype") != Arg::None {
        return unknown("a sum in another dtype");
    }
    let name = denoter.fresh("k");
    let var = Dim::Var(name.clone());
    if *call.arg("axis") == Arg::None && shape.len() > 1 && domain != Domain::Bits {
        return flat_cumsum(denoter, call, (&shape, domain), &at[0]);
    }
    let (axis, index) = if *call.arg("axis") == Arg::None {
        (0, unravel(&shape, &var))
    } else {
        let [axis] = denoter.axes(&shape, call.arg("axis"))?[..] else {
            return unknown("one axis");
        };
        let mut index = at.to_vec();
        index[axis] = var;
        (axis, index)
    };
    let body = denoter.element(x, &index)?;
    let own = Dim::Int(i64::from(!is_true(call, "exclusive")));
    let extent = Dim::op(DimOp::Add, at[axis].clone(), own);
    let op = match domain {
        Domain::Bits => FoldOp::Row("sum".into(), Vec::new()),
        _ => FoldOp::Add,
    };
    Ok(Term::Fold(domain, op, vec![(name, extent)], Box::new(body)))
}

/// The sum of all elements that come before a place in row-major order, or up to it.
fn flat_cumsum(
    denoter: &mut Denoter,
    call: &Call,
    (shape, domain): (&[Axis], Domain),
    at: &Dim,
) -> Known<Term> {
    let binders: Vec<Binder> =
        shape.iter().map(|axis| (denoter.fresh("k"), extent(axis))).collect();
    let index: Vec<Dim> = binders.iter().map(|(name, _)| Dim::Var(name.clone())).collect();
    let element = denoter.element(first(call)?, &index)?;
    let relation = if is_true(call, "exclusive") { Relation::Less } else { Relation::AtMost };
    let is_summed = Claim::new(linear(shape, &index), relation, at.clone());
    let body = element.where_all([is_summed].into_iter(), domain);
    Ok(Term::Fold(domain, FoldOp::Add, binders, Box::new(body)))
}

/// The sum over axes that the target lacks, and over those that are 1 in it and not in the operand.
fn collapsed(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let x = first(call)?;
    let (domain, own) = (denoter.domain(x)?, denoter.shape(x)?);
    let target = (meaning_of_call(call)?.shape)(denoter, call)?;
    let Some(lead) = own.len().checked_sub(target.len()) else { return unknown("fewer axes") };
    let (mut binders, mut index) = (Vec::new(), Vec::new());
    for (place, axis) in own.iter().enumerate() {
        let kept = place.checked_sub(lead).map(|place| (&target[place], &at[place]));
        match kept {
            Some((wanted, at)) if denoter.same(axis, wanted) => {
                index.push(at.clone());
                continue;
            }
            // Whether the axis is summed depends on its extent.
            Some((wanted, _)) if !denoter.is_one(wanted) => return unknown("an axis of 1 or more"),
            _ => {}
        }
        if matches!(axis, Axis::Group(_)) && kept.is_some() {
            return unknown("a group reduced to axes of 1");
        }
        let name = denoter.fresh("k");
        index.push(Dim::Var(name.clone()));
        binders.push((name, extent(axis)));
    }
    let body = denoter.element(x, &index)?;
    if binders.is_empty() {
        return Ok(body);
    }
    let op = match domain {
        Domain::Bits => FoldOp::Row(call.row.name.into(), Vec::new()),
        _ => FoldOp::Add,
    };
    Ok(Term::Fold(domain, op, binders, Box::new(body)))
}

/// The place of the greatest or least element: some function of the row.
fn place_of(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let (binders, index) = inner(denoter, call, at)?;
    let body = denoter.element(first(call)?, &index)?;
    let op = FoldOp::Row(call.row.name.into(), Vec::new());
    Ok(Term::Fold(Domain::Ring, op, binders, Box::new(body)))
}
