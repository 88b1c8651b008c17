//! Slices of axes, and padding around them.

use super::Request;
use super::builder::{Buffer, Builder};
use super::creation::number;
use super::movement::{moved, with};
use crate::formula::{Scalar, select};
use crate::ops::Known;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
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
pub(in crate::ops) fn slice(request: &Request) -> Option<Builder> {
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
pub(in crate::ops) fn slice_scatter(request: &Request) -> Option<Builder> {
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
pub(in crate::ops) fn pad(request: &Request) -> Option<Builder> {
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

/// The slices of every axis that the elements of three vectors describe.
struct Described {
    begin: Buffer,
    end: Buffer,
    strides: Buffer,
}

impl Described {
    fn of(builder: &Builder) -> Option<Self> {
        let [begin, end, strides] = ["begin", "end", "strides"].map(|param| builder.input(param));
        Some(Self { begin: begin?, end: end?, strides: strides? })
    }

    /// An index of an axis, counted from its end where it is negative, and limited to the axis: the stride's sign says to
    /// which part of it.
    fn limited(&self, vector: &Buffer, axis: &Scalar, n: &Scalar) -> Scalar {
        let index = vector.at(std::slice::from_ref(axis));
        let index = select(index.less(0), index.clone() + n, index);
        let forward = index.clone().clamped(0, n);
        let backward = index.clamped(-1, n.clone() - 1);
        select(self.strides.at(std::slice::from_ref(axis)).greater(0), forward, backward)
    }
}

/// `dynamic_strided_slice`: how many elements of each axis it takes.
pub(in crate::ops) fn dynamic_extents(request: &Request) -> Option<Builder> {
    let dims = request.data()?.dims.clone();
    let mut builder = Builder::new(request);
    let (described, output) = (Described::of(&builder)?, builder.output());
    let axes = || (0_i64..).zip(&dims);
    builder.nest(&[], |builder, _| {
        for (axis, _) in axes() {
            let message = format!("the stride of axis {axis} is 0");
            let holds = described.strides.at(&[axis.into()]).differs(0);
            builder.check(holds, "dynamic_strided_slice/C3", &message, &[]);
        }
        for (axis, dim) in axes() {
            let (axis, n) = (Scalar::from(axis), Scalar::from(dim));
            let stride = builder.bind(described.strides.at(std::slice::from_ref(&axis)));
            let begin = builder.bind(described.limited(&described.begin, &axis, &n));
            let end = builder.bind(described.limited(&described.end, &axis, &n));
            let is_forward = stride.greater(0);
            let distance = select(is_forward.clone(), end.clone() - &begin, begin - end);
            let distance = builder.bind(distance);
            // The size of the least integer is none of i64.
            let step = select(is_forward, &stride, -stride.clone()).into_dtype(DType::U64);
            let after = (distance.clone() - 1).into_dtype(DType::U64).floor_div(step);
            let count = after.into_dtype(DType::I64) + 1;
            builder.store(&output, &[axis], select(distance.greater(0), count, 0));
        }
    });
    Some(builder)
}

/// `dynamic_strided_slice`: its vectors say where it begins, the dims of the result how far it goes.
pub(in crate::ops) fn dynamic(request: &Request) -> Option<Builder> {
    let mut builder = Builder::new(request);
    let (described, x) = (Described::of(&builder)?, builder.input("x")?);
    let output = builder.output();
    builder.nest(&output.dims, |builder, at| {
        let mut source = Vec::with_capacity(at.len());
        for ((axis, index), dim) in (0_i64..).zip(at).zip(&x.dims) {
            let (axis, n) = (Scalar::from(axis), Scalar::from(dim));
            let begin = builder.bind(described.limited(&described.begin, &axis, &n));
            source.push(begin + index.clone() * described.strides.at(&[axis]));
        }
        builder.store(&output, at, x.at(&source));
    });
    Some(builder)
}
