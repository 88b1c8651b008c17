//! Slices of axes, and padding around them.

use super::Request;
use super::builder::Builder;
use super::creation::number;
use super::movement::{moved, with};
use super::scalar::{Scalar, select};
use relax_semantics::ops::Known;
use relax_syntax::dim::Dim;
use relax_syntax::ir::tensor::TExpr;

/// Where a slice of an axis begins, and how far each element is from the one before.
struct Slice {
    begin: Scalar,
    stride: Scalar,
}

/// The literal that a scalar is.
fn literal(scalar: &Scalar) -> Option<i64> {
    match scalar.0 {
        TExpr::Int(value) => Some(value),
        _ => None,
    }
}

impl Slice {
    /// The first index of a slice that has an element: a negative one counts from the end, and is
    /// then limited to the axis. The stride's sign says which end that is.
    fn of(begin: Scalar, stride: Scalar, extent: &Dim) -> Self {
        let n = Scalar::from(extent);
        let begin = match literal(&stride) {
            Some(step) if step > 0 => first(begin, &n, 0, &n),
            Some(_) => first(begin, &n, -1, &(n.clone() - 1)),
            None => {
                let forward = first(begin.clone(), &n, 0, &n);
                let backward = first(begin, &n, -1, &(n.clone() - 1));
                select(stride.greater(0), forward, backward)
            }
        };
        Self { begin, stride }
    }

    fn index(self, at: &Scalar) -> Scalar {
        self.begin + at.clone() * self.stride
    }
}

fn first(begin: Scalar, n: &Scalar, low: i64, high: &Scalar) -> Scalar {
    let from_end = |begin: Scalar| begin + n;
    match literal(&begin) {
        Some(0) if low == 0 => begin,
        Some(0..) => begin.min(high),
        Some(_) => from_end(begin).max(low),
        None => {
            let counted = from_end(begin.clone()).max(low);
            select(begin.less(0), counted, begin.min(high))
        }
    }
}

/// `strided_slice`: its bounds say where it begins, the dims of the result how far it goes.
pub(super) fn slice(request: &Request) -> Option<Builder> {
    let x = request.data()?;
    let axes = request.axes("axes", x.rank())??;
    let begins = request.indices("begin")?;
    let strides = match request.is_none("strides") {
        true => vec![1.into(); axes.len()],
        false => request.indices("strides")?,
    };
    let mut builder = Builder::new(request);
    let (input, output) = (builder.input("x")?, builder.output());
    builder.fill(&output, |at| {
        let mut source = at.to_vec();
        for ((&axis, begin), stride) in axes.iter().zip(begins).zip(strides) {
            let slice = Slice::of(begin, stride, &input.dims[axis]);
            source[axis] = slice.index(&at[axis]);
        }
        input.at(&source)
    });
    Some(builder)
}

/// `slice_scatter`: all of the data, then the slice over it.
pub(super) fn slice_scatter(request: &Request) -> Option<Builder> {
    let axis = request.axis("axis", request.data()?.rank())?;
    let (start, step) = (request.number("start")?, request.number("step")?);
    let mut builder = Builder::new(request);
    let (data, src) = (builder.input("input_tensor")?, builder.input("src")?);
    let output = builder.output();
    moved(&mut builder, &data, &output);
    builder.nest(&src.dims, |builder, at| {
        // A step is at least 1.
        let n = Scalar::from(&data.dims[axis]);
        let slice = Slice { begin: first(start, &n, 0, &n), stride: step };
        let to = with(at, axis, slice.index(&at[axis]));
        builder.store(&output, &to, src.at(at));
    });
    Some(builder)
}

/// `pad`: what lies outside of the data finds its element by the mode.
pub(super) fn pad(request: &Request) -> Option<Builder> {
    let (mode, widths) = (request.str("pad_mode")?, request.ints("pad_width")?);
    let mut builder = Builder::new(request);
    let (data, output) = (builder.input("data")?, builder.output());
    let value = number(data.dtype, &Known::Float(request.float("pad_value")?))?;
    builder.fill(&output, |at| {
        let (mut inside, mut source) = (Scalar::from(true), Vec::new());
        for ((index, dim), sides) in at.iter().zip(&data.dims).zip(widths.chunks_exact(2)) {
            if sides == [0, 0] {
                source.push(index.clone());
                continue;
            }
            let (own, last) = (index.clone() - sides[0], Scalar::from(dim) - 1);
            source.push(match mode {
                "reflect" => last.clone() - (last - own.abs()).abs(),
                "replicate" => own.clamped(0, last),
                "circular" => own % dim,
                _ => {
                    inside = inside.clone().and(own.at_least(0)).and(own.less(dim));
                    own
                }
            });
        }
        select(inside, data.at(&source), value)
    });
    Some(builder)
}
