//! How many elements a slice of one axis takes, for numbers and for symbolic dims.
//!
//! An index that is negative counts from the end, and is then clamped to the axis, as in NumPy. For
//! a symbolic index that holds too: its meaning depends only on its value. Most often the sign is
//! known, or does not matter because a negative value ends up before the first element either way
//! (`n - 1` for n = 0); then the extent is a short expression, the same for the same slice.

use crate::ops::{Infer, Reject};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};

/// A slice of one axis.
#[derive(Clone, Debug)]
pub(super) struct Slice<T> {
    pub(super) begin: T,
    pub(super) end: T,
    pub(super) stride: T,
}

impl Slice<i128> {
    /// The first index and the number of elements, of an axis of extent `n`; the stride is not 0.
    pub(super) fn resolve(&self, n: i128) -> (i128, i128) {
        let from_front = |index: i128| if index < 0 { index + n } else { index };
        let (begin, end) = (from_front(self.begin), from_front(self.end));
        let (begin, distance) = if self.stride > 0 {
            let begin = begin.clamp(0, n);
            (begin, end.clamp(0, n) - begin)
        } else {
            let begin = begin.clamp(-1, n - 1);
            (begin, begin - end.clamp(-1, n - 1))
        };
        let stride = self.stride.abs();
        (begin, (distance.max(0) + stride - 1) / stride)
    }
}

impl Slice<Dim> {
    fn numbers(&self) -> Option<Slice<i128>> {
        let number = |dim: &Dim| dim.as_int().map(i128::from);
        Some(Slice {
            begin: number(&self.begin)?,
            end: number(&self.end)?,
            stride: number(&self.stride)?,
        })
    }
}

/// True for a literal that may leave i64 when a dim is added to or taken from it.
fn is_far(index: &Dim) -> bool {
    index.as_int().is_some_and(|index| index.unsigned_abs() > 1 << 40)
}

fn op(op: DimOp, a: &Dim, b: &Dim) -> Dim {
    Dim::op(op, a.clone(), b.clone())
}

fn at_most(a: &Dim, b: impl Into<Dim>) -> Claim {
    Claim::new(a.clone(), Relation::AtMost, b)
}

/// The number of elements that `slice` takes of an axis of extent `n`; `None` when the sign of its
/// stride is not known.
pub(super) fn extent(infer: &mut Infer, n: &Dim, slice: &Slice<Dim>) -> Option<Dim> {
    if let (Some(n), Some(numbers)) = (n.as_int(), slice.numbers()) {
        let (_, count) = numbers.resolve(n.into());
        return i64::try_from(count).ok().map(Dim::Int);
    }
    let (distance, stride) = if infer.proves(&at_most(&Dim::Int(1), slice.stride.clone())) {
        (forward(infer, n, slice), slice.stride.clone())
    } else if infer.proves(&at_most(&slice.stride, -1)) {
        (backward(infer, n, slice), op(DimOp::Sub, &Dim::Int(0), &slice.stride))
    } else {
        return None;
    };
    Some(infer.facts.simplify(&op(DimOp::CeilDiv, &distance, &stride)))
}

/// `max(min(end, n) - max(begin, 0), 0)`. Neither needs its other clamp: where that would matter,
/// the difference is negative and the result 0. A far literal is clamped all the same, so that the
/// difference stays in i64.
fn forward(infer: &mut Infer, n: &Dim, slice: &Slice<Dim>) -> Dim {
    let begin = from_front(infer, n, &slice.begin, 0);
    let mut begin = at_least(infer, begin, 0);
    if is_far(&slice.begin) {
        begin = capped(infer, begin, n);
    }
    let mut end = from_front(infer, n, &slice.end, 0);
    if is_far(&slice.end) {
        end = at_least(infer, end, 0);
    }
    let end = capped(infer, end, n);
    let distance = op(DimOp::Sub, &end, &begin);
    at_least(infer, distance, 0)
}

/// `max(min(begin, n - 1) - max(end, -1), 0)`, for the same reason.
fn backward(infer: &mut Infer, n: &Dim, slice: &Slice<Dim>) -> Dim {
    let last = op(DimOp::Sub, n, &Dim::Int(1));
    let mut begin = from_front(infer, n, &slice.begin, -1);
    if is_far(&slice.begin) {
        begin = at_least(infer, begin, -1);
    }
    let begin = capped(infer, begin, &last);
    let end = from_front(infer, n, &slice.end, -1);
    let mut end = at_least(infer, end, -1);
    if is_far(&slice.end) {
        end = capped(infer, end, &last);
    }
    let distance = op(DimOp::Sub, &begin, &end);
    at_least(infer, distance, 0)
}

/// `index` counted from the front, up to what clamping at `floor` from below makes equal.
fn from_front(infer: &mut Infer, n: &Dim, index: &Dim, floor: i64) -> Dim {
    if infer.proves(&at_most(&Dim::Int(0), index.clone())) {
        return index.clone();
    }
    // No dim is greater than i64::MAX: this is before the first element, with n or without.
    if index == &Dim::Int(i64::MIN) {
        return Dim::Int(floor);
    }
    let wrapped = op(DimOp::Add, index, n);
    if infer.proves(&at_most(index, -1)) {
        return wrapped;
    }
    infer.facts.push();
    infer.facts.assume(at_most(index, -1));
    let never_inside = infer.proves(&at_most(&wrapped, floor));
    infer.facts.pop();
    if never_inside {
        // Negative, it is before the first element, whether or not n is added.
        return index.clone();
    }
    // 1 where the index is negative, else 0.
    let negative = op(DimOp::Sub, &Dim::Int(0), index);
    let negative = op(DimOp::Max, &negative, &Dim::Int(0));
    let negative = op(DimOp::Min, &negative, &Dim::Int(1));
    op(DimOp::Add, index, &op(DimOp::Mul, n, &negative))
}

fn at_least(infer: &mut Infer, dim: Dim, floor: i64) -> Dim {
    let inside = infer.proves(&at_most(&Dim::Int(floor), dim.clone()));
    if inside { dim } else { op(DimOp::Max, &dim, &Dim::Int(floor)) }
}

fn capped(infer: &mut Infer, dim: Dim, ceiling: &Dim) -> Dim {
    // No dim is greater than i64::MAX, the usual spelling of "to the end".
    if dim == Dim::Int(i64::MAX) {
        return ceiling.clone();
    }
    let inside = &dim == ceiling || infer.proves(&at_most(&dim, ceiling.clone()));
    if inside { dim } else { op(DimOp::Min, &dim, ceiling) }
}

/// The extent when begin and end are claimed to lie in the axis: the claim is a constraint, and
/// nothing is clamped.
pub(super) fn extent_inbound(
    infer: &mut Infer,
    constraint: &'static str,
    n: &Dim,
    slice: &Slice<Dim>,
) -> Result<Option<Dim>, Reject> {
    let forward = infer.proves(&at_most(&Dim::Int(1), slice.stride.clone()));
    if !forward && !infer.proves(&at_most(&slice.stride, -1)) {
        return Ok(None);
    }
    let floor = if forward { 0 } else { -1 };
    let begin = from_front(infer, n, &slice.begin, floor - 1);
    let end = from_front(infer, n, &slice.end, floor - 1);
    let last = op(DimOp::Sub, n, &Dim::Int(1));
    let (low, high, ceiling) = if forward { (&begin, &end, n) } else { (&end, &begin, &last) };
    let message = |what: &str| {
        format!(
            "with `assume_inbound`, {what} must hold for an axis of extent {n}, found begin \
                 {begin} and end {end}"
        )
    };
    infer.require(constraint, at_most(&Dim::Int(floor), low.clone()), || {
        message(if forward { "0 <= begin" } else { "-1 <= end" })
    })?;
    infer.require(constraint, at_most(low, high.clone()), || {
        message(if forward { "begin <= end" } else { "end <= begin" })
    })?;
    infer.require(constraint, at_most(high, ceiling.clone()), || {
        message(if forward { "end <= extent" } else { "begin < extent" })
    })?;
    let stride =
        if forward { slice.stride.clone() } else { op(DimOp::Sub, &Dim::Int(0), &slice.stride) };
    let count = op(DimOp::CeilDiv, &op(DimOp::Sub, high, low), &stride);
    Ok(Some(infer.facts.simplify(&count)))
}

/// The positions that slices of every axis pick, row-major, and the shape they make.
pub(super) fn sliced_positions(
    shape: &[usize],
    slices: &[Slice<i128>],
) -> (Vec<usize>, Vec<usize>) {
    let resolved: Vec<(i128, i128)> =
        slices.iter().zip(shape).map(|(slice, &n)| slice.resolve(n as i128)).collect();
    let counts: Vec<usize> =
        resolved.iter().map(|&(_, count)| usize::try_from(count).unwrap_or(0)).collect();
    if counts.contains(&0) {
        return (counts, Vec::new());
    }
    let mut positions = vec![0usize];
    let steps = crate::tensor::strides(shape);
    for ((slice, &(begin, count)), &step) in slices.iter().zip(&resolved).zip(&steps) {
        let offsets: Vec<usize> = (0..count)
            .map(|index| {
                let index = usize::try_from(begin + index * slice.stride);
                index.expect("invariant: a slice stays inside its axis") * step
            })
            .collect();
        positions = positions
            .iter()
            .flat_map(|&base| offsets.iter().map(move |offset| base + offset))
            .collect();
    }
    (counts, positions)
}
