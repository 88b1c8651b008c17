//! Operators on two tensors and more, element by element, with NumPy's broadcast. On integers that are
//! known as dims they compute dims.

use crate::argument::Arg;
use crate::builder::{Builder, V};
use crate::node::{Importer, Node};
use crate::reason::{Done, invalid};
use relax_semantics::tensor::Number;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};

use super::elementwise::convert;
use super::shape::{cancel, factors};

pub(super) const OPERATORS: &[(&str, Importer)] = &[
    ("Add", |node| two(node, "add")),
    ("Sub", |node| two(node, "subtract")),
    ("Mul", |node| two(node, "multiply")),
    ("Div", |node| two(node, "divide")),
    ("And", |node| two(node, "logical_and")),
    ("Or", |node| two(node, "logical_or")),
    ("Xor", |node| two(node, "logical_xor")),
    ("BitwiseAnd", |node| two(node, "bitwise_and")),
    ("BitwiseOr", |node| two(node, "bitwise_or")),
    ("BitwiseXor", |node| two(node, "bitwise_xor")),
    ("Equal", |node| two(node, "equal")),
    ("Less", |node| two(node, "less")),
    ("LessOrEqual", |node| two(node, "less_equal")),
    ("Greater", |node| two(node, "greater")),
    ("GreaterOrEqual", |node| two(node, "greater_equal")),
    ("BitShift", shift),
    ("Mod", modulo),
    ("Pow", power),
    ("Max", |node| many(node, "maximum")),
    ("Min", |node| many(node, "minimum")),
    ("Sum", |node| many(node, "add")),
    ("Mean", mean),
];

fn two(node: &mut Node, operator: &str) -> Done<Vec<V>> {
    let (x, y) = (node.input(0)?, node.input(1)?);
    Ok(vec![pair(node, operator, x, y)?])
}

/// A call on two values, or its result as dims.
pub(crate) fn pair(node: &mut Builder, operator: &str, x: V, y: V) -> Done<V> {
    match on_dims(node, operator, x, y) {
        Some(value) => Ok(value),
        None => broadcast_call(node, operator, &[x, y]),
    }
}

/// What comes of integers that are dims, where it is again an expression over dims, or decided.
fn on_dims(node: &mut Builder, operator: &str, x: V, y: V) -> Option<V> {
    if node.tensor(x).is_some() && node.tensor(y).is_some() {
        return None;
    }
    let (a, b) = (node.elements(x)?, node.elements(y)?);
    let rank = node.rank(x).max(node.rank(y));
    let dtype = node.dtype(x);
    let length = if a.len() == 1 { b.len() } else { a.len() };
    if dtype != node.dtype(y) || (b.len() != 1 && b.len() != length) || length == 0 {
        return None;
    }
    let (mut dims, mut truths) = (Vec::new(), Vec::new());
    for index in 0..length {
        let (a, b) = (a[index % a.len()].clone(), b[index % b.len()].clone());
        match operator {
            "equal" | "less" | "less_equal" | "greater" | "greater_equal" => {
                truths.push(i128::from(decided(node, operator, a, b)?));
            }
            _ => dims.push(computed(node, operator, &a, &b)?),
        }
    }
    if truths.is_empty() {
        return Some(node.integers(dims, rank, dtype));
    }
    let extents: &[usize] = if rank == 0 { &[] } else { &[length] };
    let array = ndarray::ArrayD::from_shape_vec(ndarray::IxDyn(extents), truths).ok()?;
    Some(node.constant(relax_semantics::tensor::Tensor::from_ints(DType::Bool, array)))
}

fn computed(node: &mut Builder, operator: &str, a: &Dim, b: &Dim) -> Option<Dim> {
    if operator == "divide"
        && let Some(quotient) = whole_quotient(node, a, b)
    {
        return Some(quotient);
    }
    let op = match operator {
        "add" => DimOp::Add,
        "subtract" => DimOp::Sub,
        "multiply" => DimOp::Mul,
        "minimum" => DimOp::Min,
        "maximum" => DimOp::Max,
        // Towards zero and towards minus infinity are the same where nothing is negative.
        "divide" if node.at_least(a, 0) && node.at_least(b, 1) => DimOp::FloorDiv,
        // A quotient between -1 and 0 is 0, so that x - 1 may be divided, which is negative where x is 0.
        "divide" if b.as_int().is_some_and(|b| b >= 1 && node.at_least(a, 1 - b)) => {
            let a = node.dim(DimOp::Max, a, &Dim::Int(0));
            return Some(node.dim(DimOp::FloorDiv, &a, b));
        }
        "floor_mod" | "mod" if node.at_least(a, 0) && node.at_least(b, 1) => DimOp::FloorMod,
        _ => return None,
    };
    Some(node.dim(op, a, b))
}

/// `x` of `x * batch` and `batch`, whose other factors all cancel. So a batch of 0 divides nothing.
fn whole_quotient(node: &mut Builder, a: &Dim, b: &Dim) -> Option<Dim> {
    if b.as_int().is_some() {
        return None;
    }
    let (mut rest, mut divisors) = (Vec::new(), Vec::new());
    factors(a, &mut rest);
    factors(b, &mut divisors);
    cancel(&mut rest, &mut divisors, |own, dim| node.same(own, dim));
    divisors.is_empty().then(|| node.simplified(&Dim::product(&rest)))
}

fn decided(node: &mut Builder, operator: &str, a: Dim, b: Dim) -> Option<bool> {
    let claim = match operator {
        "equal" => Claim::new(a, Relation::Equal, b),
        "less" => Claim::new(a, Relation::Less, b),
        "less_equal" => Claim::new(a, Relation::AtMost, b),
        "greater" => Claim::new(b, Relation::Less, a),
        _ => Claim::new(b, Relation::AtMost, a),
    };
    if node.proves(&claim) {
        return Some(true);
    }
    node.proves(&claim.opposite()).then_some(false)
}

/// A call of an operator that broadcasts. A dim that is one of two which both could be 1 gets a variable.
pub(crate) fn broadcast_call(node: &mut Builder, operator: &str, args: &[V]) -> Done<V> {
    let lists: Vec<Vec<Dim>> = args.iter().map(|&v| node.dims(v)).collect();
    let args: Vec<Arg> = args.iter().map(|&v| v.into()).collect();
    let before = node.lines.len();
    let result = node.call(operator, &args)?;
    // A cast behind the call: the dims that are known need no variable of their own.
    if node.lines.len() > before + 1 {
        sharpen(node, result, &lists);
    }
    Ok(result)
}

fn sharpen(node: &mut Builder, result: V, lists: &[Vec<Dim>]) {
    let rank = node.rank(result);
    for axis in 0..rank {
        let aligned: Vec<Dim> = lists
            .iter()
            .filter_map(|dims| (axis + dims.len()).checked_sub(rank).map(|at| dims[at].clone()))
            .filter(|dim| *dim != Dim::Int(1))
            .collect();
        let number = aligned.iter().find(|dim| dim.as_int().is_some());
        let first = aligned.first().cloned().unwrap_or(Dim::Int(1));
        let all_same = aligned.iter().all(|dim| node.same(dim, &first));
        if let Some(known) =
            number.cloned().or(all_same.then_some(first)).or_else(|| limit_of(node, &aligned))
        {
            let V(index) = result;
            node.values[index].dims[axis] = known;
        }
    }
}

/// `n` of `n` and `min(n, 64)`: where they differ and neither is 1, the broadcast is a trap. Both are 0 or neither.
fn limit_of(node: &mut Builder, dims: &[Dim]) -> Option<Dim> {
    let [a, b] = dims else { return None };
    let mut limits = |limited: &Dim, whole: &Dim| match limited {
        Dim::Op(DimOp::Min, operands) => [(&operands.0, &operands.1), (&operands.1, &operands.0)]
            .into_iter()
            .any(|(own, limit)| node.same(own, whole) && node.at_least(limit, 1)),
        _ => false,
    };
    if limits(b, a) {
        return Some(a.clone());
    }
    limits(a, b).then(|| b.clone())
}

fn many(node: &mut Node, operator: &str) -> Done<Vec<V>> {
    let inputs = node.all_inputs()?;
    let Some((&first, rest)) = inputs.split_first() else { return invalid("there is no input") };
    let mut sum = first;
    for &other in rest {
        sum = pair(node, operator, sum, other)?;
    }
    Ok(vec![sum])
}

fn mean(node: &mut Node) -> Done<Vec<V>> {
    let sum = many(node, "add")?[0];
    let count = node.inputs.len() as f64;
    let count = Arg::Scalar(node.dtype(sum), Number::Float(count));
    Ok(vec![node.call("divide", &[sum.into(), count])?])
}

/// Shifts without sign; by the width of the dtype or more, nothing is left.
fn shift(node: &mut Node) -> Done<Vec<V>> {
    let (x, by) = (node.input(0)?, node.input(1)?);
    let left = match node.string("direction", "")?.as_str() {
        "LEFT" => "left_shift",
        "RIGHT" => "right_shift",
        other => return invalid(format!("direction {other:?}")),
    };
    let dtype = node.dtype(x);
    let bits = Arg::Scalar(dtype, Number::Int(bits(dtype)));
    let last = Arg::Scalar(dtype, Number::Int(self::bits(dtype) - 1));
    let fits = node.call("less", &[by.into(), bits])?;
    let clamped = node.call("minimum", &[by.into(), last])?;
    let shifted = broadcast_call(node, left, &[x, clamped])?;
    let zero = node.scalar(dtype, 0.0);
    Ok(vec![broadcast_call(node, "where", &[fits, shifted, zero])?])
}

fn bits(dtype: DType) -> i128 {
    match dtype {
        DType::I8 | DType::U8 => 8,
        DType::I16 | DType::U16 => 16,
        DType::I32 | DType::U32 => 32,
        _ => 64,
    }
}

fn modulo(node: &mut Node) -> Done<Vec<V>> {
    two(node, if node.int("fmod", 0) == 0 { "floor_mod" } else { "mod" })
}

/// The exponent may have another dtype; the result has that of the base.
fn power(node: &mut Node) -> Done<Vec<V>> {
    let (x, exponent) = (node.input(0)?, node.input(1)?);
    let (base, other) = (node.dtype(x), node.dtype(exponent));
    if base == other {
        return Ok(vec![broadcast_call(node, "power", &[x, exponent])?]);
    }
    if base.is_float() {
        let exponent = convert(node, exponent, base)?;
        return Ok(vec![broadcast_call(node, "power", &[x, exponent])?]);
    }
    // Of an integer and a float, or two integers of different width: in f64, then back.
    let (x, exponent) = (convert(node, x, DType::F64)?, convert(node, exponent, DType::F64)?);
    let result = broadcast_call(node, "power", &[x, exponent])?;
    Ok(vec![convert(node, result, base)?])
}
