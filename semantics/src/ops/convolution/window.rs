//! How windows move over the spatial dims, and how many of them there are.

use crate::ops::nn::require_value;
use crate::ops::{Eval, Infer, Reject};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};

/// The attributes `strides`, `padding` and `dilation`, one entry a spatial dim.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) strides: Vec<i64>,
    pub(super) before: Vec<i64>,
    pub(super) after: Vec<i64>,
    pub(super) dilation: Vec<i64>,
}

/// A list with an entry for each of `spatial` dims; one entry stands for all.
pub(super) fn for_each_dim(list: &[i64], spatial: usize) -> Option<Vec<i64>> {
    match list {
        [one] => Some(vec![*one; spatial]),
        list if list.len() == spatial => Some(list.to_vec()),
        _ => None,
    }
}

impl Window {
    fn new(strides: &[i64], padding: &[i64], dilation: &[i64], spatial: usize) -> Option<Window> {
        let (before, after) = if padding.len() == 2 * spatial {
            (padding[..spatial].to_vec(), padding[spatial..].to_vec())
        } else {
            let sides = for_each_dim(padding, spatial)?;
            (sides.clone(), sides)
        };
        let strides = for_each_dim(strides, spatial)?;
        let dilation = for_each_dim(dilation, spatial)?;
        Some(Window { strides, before, after, dilation })
    }

    /// The window of a call.
    ///
    /// # Errors
    /// A rejection under `constraint` when a list is too short, too long, or has an entry that
    /// makes no sense.
    pub(super) fn read(
        infer: &Infer,
        constraint: &'static str,
        spatial: usize,
    ) -> Result<Window, Reject> {
        let lists = [infer.ints("strides")?, infer.ints("padding")?, infer.ints("dilation")?];
        let [strides, padding, dilation] = &lists;
        let Some(window) = Window::new(strides, padding, dilation, spatial) else {
            let message = format!(
                "`strides` and `dilation` have one entry or {spatial}, `padding` one, {spatial} or \
                 {}; found {}, {} and {}",
                2 * spatial,
                strides.len(),
                dilation.len(),
                padding.len()
            );
            return Err(infer.reject(constraint, message));
        };
        for (param, list, least) in
            [("strides", strides, 1), ("dilation", dilation, 1), ("padding", padding, 0)]
        {
            if let Some(entry) = list.iter().find(|&&entry| entry < least) {
                let message = format!("`{param}` must be at least {least}, found {entry}");
                return Err(infer.reject(constraint, message));
            }
        }
        Ok(window)
    }

    /// The window of a call that `infer` accepted.
    pub(super) fn of(eval: &Eval, spatial: usize) -> Window {
        let ints = |param| eval.ints(param);
        Window::new(&ints("strides"), &ints("padding"), &ints("dilation"), spatial)
            .expect("invariant: infer checked the lists")
    }

    /// How far a window over spatial dim `at` reaches: `dilation * (size - 1) + 1`.
    pub(super) fn reach(&self, at: usize, size: &Dim) -> Dim {
        let steps = Dim::op(DimOp::Sub, size.clone(), Dim::Int(1));
        let reach = Dim::op(DimOp::Mul, Dim::Int(self.dilation[at]), steps);
        Dim::op(DimOp::Add, reach, Dim::Int(1))
    }

    /// A dim with its padding.
    pub(super) fn padded(&self, at: usize, dim: &Dim) -> Dim {
        let with = Dim::op(DimOp::Add, dim.clone(), Dim::Int(self.before[at]));
        Dim::op(DimOp::Add, with, Dim::Int(self.after[at]))
    }

    /// Demands that a window has a size and exceeds the padded dim by at most `excess` elements;
    /// gives what the window leaves of it, which is what it may move.
    ///
    /// # Errors
    /// A rejection under `constraint` when it never fits.
    pub(super) fn room(
        &self,
        infer: &mut Infer,
        constraint: &'static str,
        at: usize,
        dim: &Dim,
        (size, excess): (&Dim, i64),
    ) -> Result<Dim, Reject> {
        infer.require(constraint, Claim::new(1, Relation::AtMost, size.clone()), || {
            format!("a window must have at least one element, found {size} in spatial dim {at}")
        })?;
        let (reach, padded) = (self.reach(at, size), self.padded(at, dim));
        require_value(infer, constraint, &reach)?;
        require_value(infer, constraint, &padded)?;
        // The excess is taken from the reach, which cannot leave i64.
        let inside = Dim::op(DimOp::Sub, reach.clone(), Dim::Int(excess));
        let claim = Claim::new(inside, Relation::AtMost, padded.clone());
        infer.require(constraint, claim, || {
            let more = match excess {
                0 => String::new(),
                _ => format!(" and at most {excess} beyond the end"),
            };
            format!(
                "a window over {reach} does not fit into spatial dim {at}, padded {padded}{more}"
            )
        })?;
        Ok(Dim::op(DimOp::Sub, padded, reach))
    }

    /// How many windows lie wholly in the padded dim: `room // stride + 1`.
    pub(super) fn count(&self, infer: &mut Infer, at: usize, room: Dim) -> Dim {
        let moves = Dim::op(DimOp::FloorDiv, room, Dim::Int(self.strides[at]));
        infer.facts.simplify(&Dim::op(DimOp::Add, moves, Dim::Int(1)))
    }

    /// How many windows there are with `ceil_mode`: a last one, which may be the first, may stick out
    /// at the end, but not if it would start in the padding there. (TVM drops one such window, which is all there can be
    /// unless the padding is larger than the window.)
    pub(super) fn count_up(
        &self,
        infer: &mut Infer,
        at: usize,
        dim: &Dim,
        reach: &Dim,
        room: Dim,
    ) -> Dim {
        let stride = Dim::Int(self.strides[at]);
        let moves = Dim::op(DimOp::CeilDiv, room, stride.clone());
        let all = Dim::op(DimOp::Add, moves.clone(), Dim::Int(1));
        let start = Dim::op(DimOp::Add, dim.clone(), Dim::Int(self.before[at]));
        let in_data = Dim::op(DimOp::CeilDiv, start, stride);
        // The last window starts in the data for sure when `stride <= reach - after`.
        let slack = reach.as_int().and_then(|reach| reach.checked_sub(self.after[at]));
        let count = match slack {
            Some(slack) if self.strides[at] <= slack => all,
            Some(slack) if slack >= 0 => Dim::op(DimOp::Min, all, in_data),
            _ => Dim::op(DimOp::Max, moves, Dim::op(DimOp::Min, all, in_data)),
        };
        infer.facts.simplify(&count)
    }
}
