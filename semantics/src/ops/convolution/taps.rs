//! Which element of the data each element of a window sees.

use crate::ops::programs::{self, Build};
use crate::tensor::strides;
use std::ops::Range;

/// Windows over one spatial dim. Indices are i128: padding and strides may be any i64.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// How many elements the data has.
    pub(super) input: usize,
    /// How many elements a window has.
    pub(super) window: usize,
    /// How many windows there are.
    pub(super) output: usize,
    pub(super) stride: i64,
    pub(super) before: i64,
    pub(super) after: i64,
    pub(super) dilation: i64,
}

/// Which way the windows go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// A window is over the data.
    Forward,
    /// A window is over the result, and the data is spread by the stride: the adjoint.
    Transposed,
}

impl Direction {
    /// What builds the tensor program of a convolution.
    pub(super) const fn program(self) -> Build {
        match self {
            Direction::Forward => programs::convolution::forward,
            Direction::Transposed => programs::convolution::transposed,
        }
    }
}

impl Axis {
    /// The index that the first element of a window sees; it may lie outside of the data.
    fn start(&self, window: usize) -> i128 {
        window as i128 * i128::from(self.stride) - i128::from(self.before)
    }

    /// How many elements of a window see an index below `end`.
    fn below(&self, window: usize, end: i128) -> usize {
        let room = end - self.start(window);
        let dilation = i128::from(self.dilation);
        let count = (room + dilation - 1).div_euclid(dilation);
        usize::try_from(count.max(0)).unwrap_or(usize::MAX).min(self.window)
    }

    /// How many elements of a window lie in the data or its padding.
    pub(super) fn in_padded(&self, window: usize) -> usize {
        self.below(window, self.input as i128 + i128::from(self.after))
    }

    /// The elements of a window that lie in the data.
    fn in_data(&self, window: usize) -> Range<usize> {
        self.below(window, 0)..self.below(window, self.input as i128)
    }

    /// What element `at` of a window sees.
    fn tap(&self, direction: Direction, window: usize, at: usize) -> Option<usize> {
        let step = at as i128 * i128::from(self.dilation);
        let index = match direction {
            Direction::Forward => self.start(window) + step,
            Direction::Transposed => {
                let spread = window as i128 + i128::from(self.before) - step;
                let stride = i128::from(self.stride);
                if spread % stride != 0 {
                    return None;
                }
                spread / stride
            }
        };
        usize::try_from(index).ok().filter(|&index| index < self.input)
    }
}

/// Windows over all spatial dims; elements of data and windows are numbered row-major.
#[derive(Clone, Debug)]
pub(super) struct Taps {
    pub(super) axes: Vec<Axis>,
    pub(super) direction: Direction,
}

impl Taps {
    /// How many elements a channel of the data has.
    pub(super) fn inputs(&self) -> usize {
        self.axes.iter().map(|axis| axis.input).product()
    }

    /// How many elements a window has.
    pub(super) fn window(&self) -> usize {
        self.axes.iter().map(|axis| axis.window).product()
    }

    /// How many windows there are.
    pub(super) fn outputs(&self) -> usize {
        self.axes.iter().map(|axis| axis.output).product()
    }

    /// The index of a window along each dim.
    pub(super) fn place(&self, window: usize) -> Vec<usize> {
        let shape: Vec<usize> = self.axes.iter().map(|axis| axis.output).collect();
        let steps = strides(&shape);
        shape.iter().zip(steps).map(|(&extent, step)| window / step % extent).collect()
    }

    /// For each element of a window, row-major, what it sees in a channel of the data; `None` where
    /// that is padding (or, transposed, between elements).
    pub(super) fn all(&self, window: usize) -> Vec<Option<usize>> {
        self.combined(window, |axis, place| {
            (0..axis.window).map(|at| axis.tap(self.direction, place, at)).collect()
        })
    }

    /// What the elements of a (forward) window see in a channel of the data, in order. A window may
    /// be far larger than the data; this is not.
    pub(super) fn in_data(&self, window: usize) -> Vec<usize> {
        let taps = self.combined(window, |axis, place| {
            axis.in_data(place).map(|at| axis.tap(Direction::Forward, place, at)).collect()
        });
        taps.into_iter().flatten().collect()
    }

    /// Every combination of what `along` gives for the dims.
    fn combined(
        &self,
        window: usize,
        along: impl Fn(&Axis, usize) -> Vec<Option<usize>>,
    ) -> Vec<Option<usize>> {
        let mut taps = vec![Some(0)];
        for (axis, place) in self.axes.iter().zip(self.place(window)) {
            let along = along(axis, place);
            let step =
                |base: Option<usize>| along.iter().map(move |&tap| Some(base? * axis.input + tap?));
            taps = taps.iter().flat_map(|&base| step(base)).collect();
        }
        taps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis() -> Axis {
        Axis { input: 5, window: 3, output: 4, stride: 2, before: 2, after: 1, dilation: 2 }
    }

    #[test]
    fn windows_see_padding_and_data() {
        let taps = Taps { axes: vec![axis()], direction: Direction::Forward };
        assert_eq!(taps.all(0), [None, Some(0), Some(2)]);
        assert_eq!(taps.all(2), [Some(2), Some(4), None]);
        for window in 0..4 {
            let seen: Vec<usize> = taps.all(window).into_iter().flatten().collect();
            assert_eq!(taps.in_data(window), seen, "window {window}");
        }
        assert_eq!(axis().in_padded(2), 2);
        let huge = Axis { window: usize::MAX, before: i64::MAX, after: i64::MAX, ..axis() };
        let taps = Taps { axes: vec![huge], direction: Direction::Forward };
        assert_eq!(taps.in_data(0), [1, 3], "an odd padding, in steps of 2");
    }

    #[test]
    fn the_transposed_window_is_the_adjoint() {
        let forward = Taps { axes: vec![axis()], direction: Direction::Forward };
        let swapped = Axis { input: 4, output: 5, ..axis() };
        let transposed = Taps { axes: vec![swapped], direction: Direction::Transposed };
        for (window, at) in (0..4).flat_map(|window| (0..3).map(move |at| (window, at))) {
            if let Some(seen) = forward.all(window)[at] {
                assert_eq!(transposed.all(seen)[at], Some(window));
            }
        }
    }
}
