//! Einstein's summation: sums of products over labels.

use super::elementwise::{broadcast, stretched};
use super::{Meaning, meaning};
use crate::denotation::denoter::{Denoter, extent};
use crate::denotation::names::MULTIPLY;
use crate::denotation::term::{Binder, Domain, FoldOp, Known, Term, unknown};
use crate::rules::rule::{Arg, Axis, Call, Node};
use relax_semantics::ops::einsum::{Subscripts, Term as Labels, parse};
use relax_syntax::dim::Dim;
use std::collections::BTreeMap;

pub(super) static MEANINGS: &[Meaning] = &[meaning("einsum", shape, element)];

/// The notation, the operands, the axes of labels, and those of `...` in the result.
struct Product<'c> {
    subscripts: Subscripts,
    operands: &'c [Node],
    axes: BTreeMap<char, Axis>,
    dots: Vec<Axis>,
}

fn product<'c>(denoter: &mut Denoter, call: &'c Call) -> Known<Product<'c>> {
    let (Arg::Nodes(operands), Arg::Str(text)) = (call.arg("operands"), call.arg("subscripts"))
    else {
        return unknown("operands or subscripts that are not written out");
    };
    let subscripts = parse(text).or_else(unknown)?;
    if subscripts.operands.len() != operands.len() {
        return unknown("not one term an operand");
    }
    let (mut axes, mut dots) = (BTreeMap::<char, Axis>::new(), Vec::new());
    for (labels, operand) in subscripts.operands.iter().zip(operands) {
        let own = denoter.shape(operand)?;
        let (named, middle) = divided(labels, &own)?;
        for (label, axis) in named {
            match axes.get(&label) {
                Some(other) if !denoter.same(other, axis) => {
                    return unknown(format!(
                        "two dims of `{label}` that are not known to be equal"
                    ));
                }
                Some(_) => {}
                None => _ = axes.insert(label, axis.clone()),
            }
        }
        dots = broadcast(denoter, &dots, middle)?;
    }
    Ok(Product { subscripts, operands, axes, dots })
}

/// Labels with what stands at their places, and what stands at `...`.
type Divided<'a, T> = (Vec<(char, &'a T)>, &'a [T]);

fn divided<'a, T>(labels: &Labels, all: &'a [T]) -> Known<Divided<'a, T>> {
    let after = labels.after.as_ref().map_or(0, Vec::len);
    let ends = labels.before.len().checked_add(after).filter(|named| {
        if labels.after.is_some() { *named <= all.len() } else { *named == all.len() }
    });
    if ends.is_none() {
        return unknown("not one label an axis");
    }
    let (before, rest) = all.split_at(labels.before.len());
    let (middle, last) = rest.split_at(rest.len() - after);
    Ok((labels.labels().zip(before.iter().chain(last)).collect(), middle))
}

fn shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let own = product(denoter, call)?;
    let axis = |label: &char| match own.axes.get(label) {
        Some(axis) => Ok(axis.clone()),
        None => unknown(format!("no operand has `{label}`")),
    };
    let result = &own.subscripts.result;
    let mut shape = result.before.iter().map(axis).collect::<Known<Vec<_>>>()?;
    if let Some(after) = &result.after {
        shape.extend(own.dots.clone());
        shape.extend(after.iter().map(axis).collect::<Known<Vec<_>>>()?);
    }
    Ok(shape)
}

fn element(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let own = product(denoter, call)?;
    let Some(first) = own.operands.first() else { return unknown("no operands") };
    let domain = denoter.domain(first)?;
    if domain == Domain::Bits {
        return unknown("in which order floats are summed is not known of `einsum`");
    }
    let (named, dots) = divided(&own.subscripts.result, at)?;
    let mut places: BTreeMap<char, Dim> =
        named.into_iter().map(|(label, at)| (label, at.clone())).collect();
    let mut binders: Vec<Binder> = Vec::new();
    let mut summed = |denoter: &mut Denoter, axis: &Axis| {
        let name = denoter.fresh("k");
        binders.push((name.clone(), extent(axis)));
        Dim::Var(name)
    };
    for (label, axis) in &own.axes {
        if !places.contains_key(label) {
            places.insert(*label, summed(denoter, axis));
        }
    }
    // A result without `...` has the sum over it.
    let dots: Vec<Dim> = match own.subscripts.result.after {
        Some(_) => dots.to_vec(),
        None => own.dots.iter().map(|axis| summed(denoter, axis)).collect(),
    };
    let mut factors = Vec::new();
    for (labels, operand) in own.subscripts.operands.iter().zip(own.operands) {
        let axes = denoter.shape(operand)?;
        let (_, middle) = divided(labels, &axes)?;
        let index = |label: &char| places[label].clone();
        let mut at: Vec<Dim> = labels.before.iter().map(index).collect();
        at.extend(stretched(denoter, middle, &own.dots, &dots)?);
        at.extend(labels.after.iter().flatten().map(index));
        factors.push(denoter.element(operand, &at)?);
    }
    let product = factors.into_iter().reduce(|a, b| Term::apply(domain, MULTIPLY, vec![a, b]));
    let Some(product) = product else { return unknown("no operands") };
    if binders.is_empty() {
        return Ok(product);
    }
    Ok(Term::Fold(domain, FoldOp::Add, binders, Box::new(product)))
}
