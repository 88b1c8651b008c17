//! Products of matrices.

use super::elementwise::stretched;
use super::{Meaning, broadcast, meaning};
use crate::denotation::denoter::{Denoter, extent, tensor};
use crate::denotation::names::MULTIPLY;
use crate::denotation::term::{Domain, FoldOp, Known, Term, unknown};
use crate::rules::rule::{Arg, Axis, Call, Node};
use relax_syntax::Name;
use relax_syntax::dim::Dim;

pub(super) static MEANINGS: &[Meaning] =
    &[meaning("matmul", shape, element), meaning("outer", outer_shape, outer)];

/// The axes before the matrix, its rows and its columns; a vector lacks one of them.
struct Sides {
    batch: Vec<Axis>,
    kept: Option<Axis>,
    inner: Axis,
}

fn single(axis: &Axis) -> Known<Axis> {
    match axis {
        Axis::Dim(_) => Ok(axis.clone()),
        Axis::Group(_) => unknown("a group as a side of a matrix"),
    }
}

fn left(shape: &[Axis]) -> Known<Sides> {
    match shape {
        [inner] => Ok(Sides { batch: Vec::new(), kept: None, inner: single(inner)? }),
        [batch @ .., rows, inner] => {
            Ok(Sides { batch: batch.to_vec(), kept: Some(single(rows)?), inner: single(inner)? })
        }
        [] => unknown("a product of a scalar"),
    }
}

fn right(shape: &[Axis]) -> Known<Sides> {
    match shape {
        [inner] => Ok(Sides { batch: Vec::new(), kept: None, inner: single(inner)? }),
        [batch @ .., inner, columns] => {
            Ok(Sides { batch: batch.to_vec(), kept: Some(single(columns)?), inner: single(inner)? })
        }
        [] => unknown("a product of a scalar"),
    }
}

fn sides(denoter: &mut Denoter, call: &Call) -> Known<(Sides, Sides, Vec<Axis>)> {
    let (a, b) = (denoter.shape(tensor(call, "x1")?)?, denoter.shape(tensor(call, "x2")?)?);
    let (a, b) = (left(&a)?, right(&b)?);
    if *call.arg("out_dtype") != Arg::None {
        return unknown("a product in another dtype");
    }
    if !denoter.same(&a.inner, &b.inner) {
        return unknown("inner dims that are not known to be equal");
    }
    let batch = broadcast(denoter, &a.batch, &b.batch)?;
    Ok((a, b, batch))
}

fn shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let (a, b, mut shape) = sides(denoter, call)?;
    shape.extend(a.kept);
    shape.extend(b.kept);
    Ok(shape)
}

fn element(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let (a, b, batch) = sides(denoter, call)?;
    let (outer, matrix) = at.split_at(batch.len());
    let name = denoter.fresh("k");
    let k = Dim::Var(name.clone());
    let mut matrix = matrix.iter().cloned();
    let mut x = stretched(denoter, &a.batch, &batch, outer)?;
    x.extend(a.kept.as_ref().and_then(|_| matrix.next()));
    x.push(k.clone());
    let mut y = stretched(denoter, &b.batch, &batch, outer)?;
    y.push(k);
    y.extend(b.kept.as_ref().and_then(|_| matrix.next()));
    let (x1, x2) = (tensor(call, "x1")?, tensor(call, "x2")?);
    let domain = denoter.domain(x1)?;
    let (x, y) = (denoter.element(x1, &x)?, denoter.element(x2, &y)?);
    Ok(sum_of_products(domain, (name, extent(&a.inner)), x, y))
}

/// The sum over `binder` of the products; of floats as they are, products are not rounded and the
/// sum is rounded once.
pub(super) fn sum_of_products(domain: Domain, binder: (Name, Dim), x: Term, y: Term) -> Term {
    let (op, times) = match domain {
        Domain::Bits => (FoldOp::Row("matmul".into(), Vec::new()), "unrounded product"),
        _ => (FoldOp::Add, MULTIPLY),
    };
    Term::Fold(domain, op, vec![binder], Box::new(Term::apply(domain, times, vec![x, y])))
}

fn vectors(denoter: &mut Denoter, call: &Call) -> Known<(Node, Node, Vec<Axis>)> {
    let (a, b) = (tensor(call, "x1")?.clone(), tensor(call, "x2")?.clone());
    let (x, y) = (denoter.shape(&a)?, denoter.shape(&b)?);
    match (x.as_slice(), y.as_slice()) {
        ([x @ Axis::Dim(_)], [y @ Axis::Dim(_)]) => Ok((a, b, vec![x.clone(), y.clone()])),
        _ => unknown("operands that are no vectors"),
    }
}

fn outer_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    Ok(vectors(denoter, call)?.2)
}

fn outer(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let (a, b, _) = vectors(denoter, call)?;
    let domain = denoter.domain(&a)?;
    let (x, y) = (denoter.element(&a, &at[..1])?, denoter.element(&b, &at[1..])?);
    Ok(Term::apply(domain, MULTIPLY, vec![x, y]))
}
