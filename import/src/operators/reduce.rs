//! Reductions, and softmax.

use super::arithmetic::pair;
use super::shape::reshape;
use crate::argument::{Arg, key};
use crate::builder::{Builder, V};
use crate::node::{Importer, Node};
use crate::reason::Done;
use relax_semantics::tensor::Number;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

pub(super) const OPERATORS: &[(&str, Importer)] = &[
    ("ReduceSum", |node| reduce(node, |node, x, axes| fold(node, "sum", x, axes))),
    ("ReduceMean", |node| reduce(node, |node, x, axes| fold(node, "mean", x, axes))),
    ("ReduceProd", |node| reduce(node, |node, x, axes| fold(node, "prod", x, axes))),
    ("ReduceMax", |node| reduce(node, |node, x, axes| extreme(node, "max", x, axes))),
    ("ReduceMin", |node| reduce(node, |node, x, axes| extreme(node, "min", x, axes))),
    ("ReduceL1", |node| reduce(node, l1)),
    ("ReduceL2", |node| reduce(node, l2)),
    ("ReduceSumSquare", |node| reduce(node, sum_of_squares)),
    ("ReduceLogSum", |node| reduce(node, log_sum)),
    ("ReduceLogSumExp", |node| reduce(node, log_sum_exp)),
    ("Softmax", |node| soft(node, "softmax")),
    ("LogSoftmax", |node| soft(node, "log_softmax")),
];

/// Which axes, and whether their dims stay as 1.
pub(super) struct Axes {
    axes: Vec<i64>,
    keepdims: bool,
}

impl Axes {
    fn args(&self, x: V) -> Vec<Arg> {
        let mut args = vec![x.into(), key("axis", self.axes.as_slice())];
        if self.keepdims {
            args.push(key("keepdims", true));
        }
        args
    }

    fn kept(&self) -> Axes {
        Axes { axes: self.axes.clone(), keepdims: true }
    }
}

fn reduce(node: &mut Node, by: fn(&mut Node, V, &Axes) -> Done<V>) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let rank = node.rank(x);
    let given = node.ints_of("axes", 1)?.filter(|axes| !axes.is_empty());
    if given.is_none() && node.int("noop_with_empty_axes", 0) != 0 {
        // Nothing is reduced, but what is done to each element is.
        let axes = Axes { axes: Vec::new(), keepdims: true };
        return Ok(vec![if rank == 0 { x } else { by(node, x, &axes)? }]);
    }
    let axes = match given {
        Some(axes) => node.axes(&axes, rank)?,
        None => (0..rank).collect(),
    };
    let axes: Vec<i64> = axes.into_iter().map(|axis| axis as i64).collect();
    let keepdims = node.int("keepdims", 1) != 0;
    // Of dims: the product of a shape is a size.
    if let (Some(elements), None, Some("ReduceProd")) =
        (node.elements(x), node.tensor(x), node.message.op_type.as_deref())
    {
        let dtype = node.dtype(x);
        let product = Dim::product(&elements);
        return Ok(vec![node.integers(vec![product], usize::from(keepdims), dtype)]);
    }
    Ok(vec![by(node, x, &Axes { axes, keepdims })?])
}

fn fold(node: &mut Builder, operator: &str, x: V, axes: &Axes) -> Done<V> {
    if axes.axes.is_empty() {
        return Ok(x);
    }
    node.call(operator, &axes.args(x))
}

/// The greatest or least element; of nothing, what is beyond all others.
fn extreme(node: &mut Builder, operator: &str, x: V, axes: &Axes) -> Done<V> {
    let dims = node.dims(x);
    let empty = axes.axes.iter().any(|&axis| dims[axis as usize] == Dim::Int(0));
    if !empty {
        return fold(node, operator, x, axes);
    }
    let dtype = node.dtype(x);
    let low = operator == "max";
    let sum = fold(node, if dtype == DType::Bool { "max" } else { "sum" }, x, axes)?;
    let value = if dtype.is_float() {
        Number::Float(if low { f64::NEG_INFINITY } else { f64::INFINITY })
    } else {
        let (least, greatest) = limits(dtype);
        Number::Int(if low { least } else { greatest })
    };
    let shape = node.dims(sum);
    node.call("full", &[Arg::Shape(shape), Arg::Scalar(dtype, value)])
}

/// The least and the greatest value of an integer dtype.
pub(crate) fn limits(dtype: DType) -> (i128, i128) {
    match dtype {
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::I16 => (i16::MIN.into(), i16::MAX.into()),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        DType::U8 => (0, u8::MAX.into()),
        DType::U16 => (0, u16::MAX.into()),
        DType::U32 => (0, u32::MAX.into()),
        DType::U64 => (0, u64::MAX.into()),
        DType::Bool => (0, 1),
        _ => (i64::MIN.into(), i64::MAX.into()),
    }
}

/// What changes nothing where an operator of two elements combines it with another.
pub(crate) fn neutral(operator: &str, dtype: DType) -> Number {
    let (least, greatest) = match dtype.is_float() {
        true => (Number::Float(f64::NEG_INFINITY), Number::Float(f64::INFINITY)),
        false => {
            let (least, greatest) = limits(dtype);
            (Number::Int(least), Number::Int(greatest))
        }
    };
    match operator {
        "multiply" => Number::Int(1),
        "maximum" | "log_add_exp" => least,
        "minimum" => greatest,
        "logical_and" => Number::Int(1),
        _ => Number::Int(0),
    }
}

fn l1(node: &mut Node, x: V, axes: &Axes) -> Done<V> {
    let sizes = node.call("abs", &[x.into()])?;
    fold(node, "sum", sizes, axes)
}

fn sum_of_squares(node: &mut Node, x: V, axes: &Axes) -> Done<V> {
    let squares = node.call("square", &[x.into()])?;
    fold(node, "sum", squares, axes)
}

fn l2(node: &mut Node, x: V, axes: &Axes) -> Done<V> {
    let dtype = node.dtype(x);
    let wide =
        if dtype.is_float() { x } else { node.call("astype", &[x.into(), DType::F64.into()])? };
    let sum = sum_of_squares(node, wide, axes)?;
    let root = node.call("sqrt", &[sum.into()])?;
    super::elementwise::convert(node, root, dtype)
}

fn log_sum(node: &mut Node, x: V, axes: &Axes) -> Done<V> {
    let sum = fold(node, "sum", x, axes)?;
    node.call("log", &[sum.into()])
}

/// With the maximum taken out, so that nothing overflows.
fn log_sum_exp(node: &mut Node, x: V, axes: &Axes) -> Done<V> {
    let dims = node.dims(x);
    if axes.axes.iter().any(|&axis| !node.at_least(&dims[axis as usize], 1)) {
        let powers = node.call("exp", &[x.into()])?;
        return log_sum(node, powers, axes);
    }
    let most = fold(node, "max", x, &axes.kept())?;
    let below = pair(node, "subtract", x, most)?;
    let powers = node.call("exp", &[below.into()])?;
    let sum = fold(node, "sum", powers, axes)?;
    let log = node.call("log", &[sum.into()])?;
    let most = if axes.keepdims { most } else { fold(node, "max", x, axes)? };
    pair(node, "add", log, most)
}

/// Before operator set 13 the dims from the axis on are one.
fn soft(node: &mut Node, operator: &str) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let dims = node.dims(x);
    if node.opset >= 13 {
        let axis = node.axis(node.int("axis", -1), dims.len())?;
        return Ok(vec![node.call(operator, &[x.into(), key("axis", axis)])?]);
    }
    let axis = node.axis(node.int("axis", 1), dims.len())?;
    let (before, after) = dims.split_at(axis);
    let flat = reshape(node, x, vec![Dim::product(before), Dim::product(after)])?;
    let soft = node.call(operator, &[flat.into(), key("axis", 1_i64)])?;
    Ok(vec![reshape(node, soft, dims)?])
}
