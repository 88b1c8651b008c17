//! Tensors out of nothing or out of a shape.

use crate::argument::{Arg, key};
use crate::builder::V;
use crate::node::{Importer, Node};
use crate::reason::{Done, Reason, invalid, unsupported};
use ndarray::{ArrayD, IxDyn};
use relax_semantics::tensor::{Number, Tensor};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};

use super::elementwise::convert;

pub(super) const OPERATORS: &[(&str, Importer)] = &[
    ("Constant", constant),
    ("ConstantOfShape", of_shape),
    ("Range", range),
    ("EyeLike", eye_like),
    ("Trilu", trilu),
    ("HannWindow", |node| window(node, 0.5, 0.5, 0.0)),
    ("HammingWindow", |node| window(node, 25.0 / 46.0, 21.0 / 46.0, 0.0)),
    ("BlackmanWindow", |node| window(node, 0.42, 0.5, 0.08)),
];

fn constant(node: &mut Node) -> Done<Vec<V>> {
    let (message, beside) = (node.message, node.beside);
    let value = message.named("value");
    if let Some(tensor) = value.and_then(|attribute| attribute.t.as_ref()) {
        return Ok(vec![node.constant_of(tensor, beside, usize::MAX)?]);
    }
    let vector = |floats: Vec<f64>| ArrayD::from_shape_vec(IxDyn(&[floats.len()]), floats);
    let tensor = if let Some(value) = node.attribute("value_float") {
        Tensor::scalar(DType::F32, Number::Float(value.f.unwrap_or(0.0).into()))
    } else if let Some(value) = node.optional_int("value_int") {
        Tensor::scalar(DType::I64, Number::Int(value.into()))
    } else if let Some(values) = node.floats("value_floats") {
        let array = vector(values).map_err(|error| Reason::Invalid(error.to_string()))?;
        Tensor::from_floats(DType::F32, array)
    } else if let Some(values) = node.ints("value_ints") {
        return Ok(vec![node.vector(&values)]);
    } else {
        return unsupported("a constant of this kind");
    };
    Ok(vec![node.constant(tensor)])
}

fn of_shape(node: &mut Node) -> Done<Vec<V>> {
    let shape = node.input(0)?;
    let dims = node.extents(shape, "shape")?;
    let (value, narrow) = match node.tensor_attribute("value")? {
        Some((value, narrow)) if value.len() == 1 => (value, narrow),
        Some(_) => return invalid("`value` must have one element"),
        None => (Tensor::scalar(DType::F32, Number::Float(0.0)), None),
    };
    let scalar = Arg::Scalar(value.dtype(), value.number(0));
    let full = node.call("full", &[Arg::Shape(dims), scalar])?;
    narrow.map(|narrow| node.narrow.insert(full, narrow));
    Ok(vec![full])
}

fn range(node: &mut Node) -> Done<Vec<V>> {
    let bounds = [node.input(0)?, node.input(1)?, node.input(2)?];
    let dtype = node.dtype(bounds[0]);
    if let [Some(start), Some(limit), Some(delta)] = bounds.map(|v| node.elements(v)) {
        let args = [start, limit, delta].map(|elements| elements.first().cloned());
        if let [Some(start), Some(limit), Some(delta)] = args {
            return Ok(vec![integers(node, start, limit, delta, dtype)?]);
        }
    }
    let numbers = bounds.map(|v| {
        node.tensor(v).filter(|tensor| tensor.len() == 1).map(|tensor| tensor.number(0).as_f64())
    });
    if let [Some(start), Some(limit), Some(delta)] = numbers {
        let args = [start.into(), limit.into(), delta.into(), key("dtype", dtype)];
        return Ok(vec![node.call("arange", &args)?]);
    }
    computed_range(node, bounds, dtype)
}

fn integers(node: &mut Node, start: Dim, limit: Dim, delta: Dim, dtype: DType) -> Done<V> {
    let not_empty = Claim::new(start.clone(), Relation::AtMost, limit.clone());
    let known = delta == Dim::Int(1) && start == Dim::Int(0) && node.proves(&not_empty);
    if known {
        return node.call("arange", &[limit.into(), key("dtype", dtype)]);
    }
    node.call("arange", &[start.into(), limit.into(), delta.into(), key("dtype", dtype)])
}

/// The bounds are known when the program runs: their number of elements becomes a variable.
fn computed_range(node: &mut Node, [start, limit, delta]: [V; 3], dtype: DType) -> Done<Vec<V>> {
    let wide = DType::F64;
    let [a, b, c] =
        [convert(node, start, wide)?, convert(node, limit, wide)?, convert(node, delta, wide)?];
    let span = node.call("subtract", &[b.into(), a.into()])?;
    let steps = node.call("divide", &[span.into(), c.into()])?;
    let steps = node.call("ceil", &[steps.into()])?;
    let zero = Arg::Scalar(wide, Number::Float(0.0));
    let steps = node.call("maximum", &[steps.into(), zero])?;
    let count = convert(node, steps, DType::I64)?;
    let count = node.extents(count, "limit")?.first().cloned().unwrap_or(Dim::Int(0));
    let places = node.call("arange", &[count.into(), key("dtype", dtype)])?;
    let offsets = node.call("multiply", &[places.into(), delta.into()])?;
    Ok(vec![node.call("add", &[offsets.into(), start.into()])?])
}

fn eye_like(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let dtype = node.dtype_attribute("dtype")?.unwrap_or(node.dtype(x));
    let k = node.int("k", 0);
    Ok(vec![node.call("eye_like", &[x.into(), key("k", k), key("dtype", dtype)])?])
}

fn trilu(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let operator = if node.int("upper", 1) == 0 { "tril" } else { "triu" };
    let k = match node.optional(1) {
        None => Dim::Int(0),
        Some(k) => match node.known(k, "k")?.first() {
            Some(k) => k.clone(),
            None => return invalid("`k` is empty"),
        },
    };
    Ok(vec![node.call(operator, &[x.into(), key("k", k)])?])
}

/// `a - b * cos(2πi/N) + c * cos(4πi/N)`
fn window(node: &mut Node, a: f64, b: f64, c: f64) -> Done<Vec<V>> {
    let size = node.input(0)?;
    let size = node.extents(size, "size")?.first().cloned().unwrap_or(Dim::Int(0));
    let dtype = node.dtype_attribute("output_datatype")?.unwrap_or(DType::F32);
    let length = match node.int("periodic", 1) {
        0 => node.dim(DimOp::Sub, &size, &Dim::Int(1)),
        _ => size.clone(),
    };
    let wide = |value: f64| Arg::Scalar(DType::F64, Number::Float(value));
    let places = node.call("arange", &[size.into(), key("dtype", DType::F64)])?;
    let length = node.call("full", &[Arg::Shape(Vec::new()), length.into(), DType::F64.into()])?;
    let turns = node.call("divide", &[places.into(), length.into()])?;
    let mut wave = |turn: f64, scale: f64| -> Done<V> {
        let angle = node.call("multiply", &[turns.into(), wide(turn * std::f64::consts::PI)])?;
        let cosine = node.call("cos", &[angle.into()])?;
        node.call("multiply", &[cosine.into(), wide(scale)])
    };
    let (first, second) = (wave(2.0, -b)?, wave(4.0, c)?);
    let sum = node.call("add", &[first.into(), wide(a)])?;
    let sum = node.call("add", &[sum.into(), second.into()])?;
    Ok(vec![convert(node, sum, dtype)?])
}
