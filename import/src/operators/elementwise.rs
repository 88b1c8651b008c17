//! Operators on one tensor, element by element, that the language has as they are; casts; `Where`.

use super::arithmetic::broadcast_call;
use crate::argument::Arg;
use crate::builder::{Builder, V};
use crate::node::{Importer, Node};
use crate::reason::{Done, Reason, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dtype::DType;

macro_rules! table {
    ($($name:literal => $operator:literal),* ; $($rest:tt)*) => {
        &[$(($name, |node: &mut Node| one(node, $operator))),*, $($rest)*]
    };
}

pub(super) const OPERATORS: &[(&str, Importer)] = table! {
    "Abs" => "abs", "Acos" => "acos", "Acosh" => "acosh", "Asin" => "asin", "Asinh" => "asinh",
    "Atan" => "atan", "Atanh" => "atanh", "BitwiseNot" => "bitwise_not", "Ceil" => "ceil", "Cos" => "cos",
    "Cosh" => "cosh", "Erf" => "erf", "Exp" => "exp", "Floor" => "floor", "IsNaN" => "isnan",
    "Log" => "log", "Neg" => "negative", "Not" => "logical_not", "Round" => "round",
    "Sigmoid" => "sigmoid", "Sign" => "sign", "Sin" => "sin", "Sinh" => "sinh", "Sqrt" => "sqrt",
    "Tan" => "tan", "Tanh" => "tanh", "Relu" => "relu";
    ("Identity", identity),
    ("Cast", cast),
    ("CastLike", cast_like),
    ("Where", where_),
    ("IsInf", is_inf),
    ("Dropout", dropout),
    ("Reciprocal", reciprocal),
    ("Clip", clip),
};

fn one(node: &mut Node, operator: &str) -> Done<Vec<V>> {
    let x = node.input(0)?;
    Ok(vec![node.call(operator, &[x.into()])?])
}

fn identity(node: &mut Node) -> Done<Vec<V>> {
    Ok(vec![node.input(0)?])
}

/// `astype` where the dtype is another one.
pub(crate) fn convert(node: &mut Builder, x: V, dtype: DType) -> Done<V> {
    if node.dtype(x) == dtype {
        return Ok(x);
    }
    if let (Some(elements), true) = (node.elements(x), dtype.is_integer())
        && node.tensor(x).is_none()
    {
        let rank = node.rank(x);
        return Ok(node.integers(elements, rank, dtype));
    }
    node.call("astype", &[x.into(), dtype.into()])
}

fn cast(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    if let Some(narrow) = node.narrow_attribute("to") {
        return Ok(vec![node.narrowed(x, narrow)?]);
    }
    let to = node.dtype_attribute("to")?;
    let to = to.ok_or_else(|| Reason::Invalid("`to` is missing".to_owned()))?;
    Ok(vec![convert(node, x, to)?])
}

fn cast_like(node: &mut Node) -> Done<Vec<V>> {
    let (x, like) = (node.input(0)?, node.input(1)?);
    if let Some(&narrow) = node.narrow.get(&like) {
        return Ok(vec![node.narrowed(x, narrow)?]);
    }
    let to = node.dtype(like);
    Ok(vec![convert(node, x, to)?])
}

fn where_(node: &mut Node) -> Done<Vec<V>> {
    let args = node.all_inputs()?;
    if let [condition, x, y] = args[..]
        && let (Some(taken), Some(x), Some(y)) =
            (node.tensor(condition), node.elements(x), node.elements(y))
        && taken.rank() <= 1
    {
        let length = taken.len().max(x.len()).max(y.len());
        if [taken.len(), x.len(), y.len()].iter().all(|&l| l == 1 || l == length) {
            let at = |list: &[relax_syntax::dim::Dim], i: usize| list[i % list.len()].clone();
            let pick = |i: usize| {
                if taken.number(i % taken.len()) == Number::Int(0) { at(&y, i) } else { at(&x, i) }
            };
            let rank = args.iter().map(|&v| node.rank(v)).max().unwrap_or(0);
            let dtype = node.dtype(args[1]);
            let elements = (0..length).map(pick).collect();
            return Ok(vec![node.integers(elements, rank, dtype)]);
        }
    }
    Ok(vec![broadcast_call(node, "where", &args)?])
}

fn is_inf(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let dtype = node.dtype(x);
    let zero = Arg::Scalar(dtype, Number::Float(0.0));
    let infinite = node.call("isinf", &[x.into()])?;
    let sign = match (node.int("detect_negative", 1), node.int("detect_positive", 1)) {
        (0, 0) => {
            return Ok(vec![node.call("zeros_like", &[x.into(), DType::Bool.into()])?]);
        }
        (0, _) => "greater",
        (_, 0) => "less",
        _ => return Ok(vec![infinite]),
    };
    let sign = node.call(sign, &[x.into(), zero])?;
    Ok(vec![node.call("logical_and", &[infinite.into(), sign.into()])?])
}

fn dropout(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    if let Some(training) = node.optional(2)
        && node.known_number(training, "training_mode")? != 0.0
    {
        let ratio = node.optional(1);
        let ratio = ratio.map(|ratio| node.known_number(ratio, "ratio")).transpose()?;
        if ratio.unwrap_or(0.5) != 0.0 {
            return unsupported("dropout in training, which is random");
        }
    }
    let mut results = vec![x];
    if node.has_output(1) {
        results.push(node.call("ones_like", &[x.into(), DType::Bool.into()])?);
    }
    Ok(results)
}

fn reciprocal(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let one = Arg::Scalar(node.dtype(x), Number::Float(1.0));
    Ok(vec![node.call("divide", &[one, x.into()])?])
}

/// `min(max(x, low), high)`: the upper bound wins, unlike in the `clip` of the language.
fn clip(node: &mut Node) -> Done<Vec<V>> {
    let mut x = node.input(0)?;
    let dtype = node.dtype(x);
    let bound = |node: &mut Node, name: &str, index: usize| {
        let given = node.optional_float(name);
        node.optional(index).or_else(|| given.map(|value| node.scalar(dtype, value)))
    };
    if let Some(low) = bound(node, "min", 1) {
        x = broadcast_call(node, "maximum", &[x, low])?;
    }
    if let Some(high) = bound(node, "max", 2) {
        x = broadcast_call(node, "minimum", &[x, high])?;
    }
    Ok(vec![x])
}
