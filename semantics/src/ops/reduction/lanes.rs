//! A tensor walked along some of its axes: a lane is what one element of a reduction reads.

use crate::tensor::{strided_positions, strides};

/// The lanes of a tensor, in the row-major order of the axes that are kept.
pub(in crate::ops) struct Lanes {
    positions: Vec<usize>,
    len: usize,
    count: usize,
}

impl Lanes {
    /// The lanes along `axes` (sorted); the last of them varies fastest within a lane.
    pub(in crate::ops) fn along(shape: &[usize], axes: &[usize]) -> Lanes {
        let kept = (0..shape.len()).filter(|axis| !axes.contains(axis));
        let order: Vec<usize> = kept.chain(axes.iter().copied()).collect();
        let steps = strides(shape);
        let extents: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
        let (outer, inner) = extents.split_at(extents.len() - axes.len());
        let (count, len) = (outer.iter().product(), inner.iter().product());
        // An empty tensor may have huge other dims: nothing is to be listed then.
        let positions = if shape.contains(&0) {
            Vec::new()
        } else {
            strided_positions(&extents, &order.iter().map(|&axis| steps[axis]).collect::<Vec<_>>())
        };
        Lanes { positions, len, count }
    }

    /// The positions of each lane.
    pub(in crate::ops) fn iter(&self) -> impl Iterator<Item = &[usize]> {
        (0..self.count).map(|lane| &self.positions[lane * self.len..(lane + 1) * self.len])
    }

    /// What `reduce` makes of the elements of each lane.
    pub(in crate::ops) fn map<T: Copy, R>(
        &self,
        elements: &[T],
        mut reduce: impl FnMut(&[T]) -> R,
    ) -> Vec<R> {
        let mut lane_elements = Vec::with_capacity(self.len);
        let of_lane = |lane: &[usize]| {
            lane_elements.clear();
            lane_elements.extend(lane.iter().map(|&position| elements[position]));
            reduce(&lane_elements)
        };
        self.iter().map(of_lane).collect()
    }

    /// Elements of the same shape: what `scan` makes of each lane, element by element.
    pub(in crate::ops) fn scan<T: Copy + Default>(
        &self,
        elements: &[T],
        mut scan: impl FnMut(&[T]) -> Vec<T>,
    ) -> Vec<T> {
        let mut result = vec![T::default(); elements.len()];
        let scanned = self.map(elements, &mut scan);
        for (lane, values) in self.iter().zip(scanned) {
            for (&position, value) in lane.iter().zip(values) {
                result[position] = value;
            }
        }
        result
    }
}
