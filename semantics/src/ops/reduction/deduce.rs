//! Deduction of reductions: which axes, what shape is left, and that there is something to reduce.

use crate::ops::{Eval, Infer, Reject, normalize_axis};
use relax_syntax::annotation::Extents;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Relation};

/// What a reduction over `axes` (all, where `None`) leaves of `extents`.
pub(super) fn kept(
    infer: &Infer,
    extents: &Extents,
    axes: Option<&[i64]>,
    keepdims: bool,
) -> Result<Extents, Reject> {
    let Some(rank) = extents.rank() else {
        let scalar = axes.is_none() && !keepdims;
        return Ok(if scalar { Extents::Known(Vec::new()) } else { Extents::Unknown });
    };
    let reduced = reduced_axes(infer, axes, rank)?;
    if keepdims && reduced.len() == rank {
        return Ok(Extents::Known(vec![Dim::Int(1); rank]));
    }
    let Some(dims) = extents.dims() else {
        return Ok(match if keepdims { rank } else { rank - reduced.len() } {
            0 => Extents::Known(Vec::new()),
            left => Extents::Rank(left),
        });
    };
    let left = dims.iter().enumerate().filter_map(|(axis, dim)| {
        if !reduced.contains(&axis) { Some(dim.clone()) } else { keepdims.then_some(Dim::Int(1)) }
    });
    Ok(Extents::Known(left.collect()))
}

fn reduced_axes(infer: &Infer, axes: Option<&[i64]>, rank: usize) -> Result<Vec<usize>, Reject> {
    axes.map_or_else(|| Ok((0..rank).collect()), |axes| infer.axes("C1", axes, rank))
}

/// Demands that no reduced dim is 0.
pub(super) fn require_some(
    infer: &mut Infer,
    constraint: &'static str,
    extents: &Extents,
    axes: Option<&[i64]>,
) -> Result<(), Reject> {
    let Some(dims) = extents.dims() else { return Ok(()) };
    for axis in reduced_axes(infer, axes, dims.len())? {
        let dim = &dims[axis];
        infer.require(constraint, Claim::new(1, Relation::AtMost, dim.clone()), || {
            format!("there must be an element to reduce, found the extent {dim} in dim {axis}")
        })?;
    }
    Ok(())
}

/// The attribute `axis` as a list; `None` means every axis.
pub(super) fn axes(infer: &Infer) -> Result<Option<Vec<i64>>, Reject> {
    if infer.is_none("axis") { Ok(None) } else { infer.ints("axis").map(Some) }
}

/// The reduced axes of a call that deduction has accepted, sorted.
pub(super) fn axes_of(eval: &Eval, rank: usize) -> Vec<usize> {
    if eval.is_none("axis") {
        return (0..rank).collect();
    }
    let axes = eval.ints("axis").into_iter().map(|axis| {
        normalize_axis(axis, rank).expect("invariant: infer has checked that axes are in range")
    });
    let mut axes: Vec<usize> = axes.collect();
    axes.sort_unstable();
    axes
}
