//! Elementwise operators: one loop nest over the result, operands broadcast by their indices.
//!
//! Each is rounded once, as operators do, so the result is that of the operator bit for bit.

use super::Request;
use super::builder::{Buffer, Builder};
use super::movement::broadcast_index;
use super::scalar::{Scalar, extremum, select};
use relax_semantics::ops::Known;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::{Class, DType};
use relax_syntax::ir::tensor::{BinOp, Intrinsic};
use std::f64::consts::LN_2;

/// Operators of one tensor.
pub(super) static UNARY: &[&str] = &[
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bitwise_not",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "exp",
    "floor",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "logical_not",
    "negative",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
];

/// Operators of two tensors.
pub(super) static BINARY: &[&str] = &[
    "add",
    "atan2",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "divide",
    "equal",
    "floor_divide",
    "floor_mod",
    "greater",
    "greater_equal",
    "left_shift",
    "less",
    "less_equal",
    "log_add_exp",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "not_equal",
    "power",
    "right_shift",
    "subtract",
];

/// An operator of [`UNARY`].
pub(super) fn unary(request: &Request) -> Option<Builder> {
    let (name, dtype) = (request.row.name, request.data()?.dtype);
    map(request, |x| {
        let x = x[0].clone();
        Some(if dtype.is_float() { of_float(name, x)? } else { of_integer(name, dtype, x)? })
    })
}

fn of_float(name: &str, x: Scalar) -> Option<Scalar> {
    Some(match name {
        "negative" => -x,
        "square" => x.clone() * x,
        "sign" => {
            let negative = select(x.less(0.0), -1.0, select(x.equals(0.0), 0.0, &x));
            select(x.greater(0.0), 1.0, negative)
        }
        "isnan" => x.is_nan(),
        // The difference of an infinity and itself is NaN.
        "isfinite" => (x.clone() - &x).equals(0.0),
        "isinf" => x.equals(&x).and((x.clone() - &x).differs(0.0)),
        "logical_not" => x.equals(0.0),
        _ => x.call(Intrinsic::parse(name)?),
    })
}

fn of_integer(name: &str, dtype: DType, x: Scalar) -> Option<Scalar> {
    let signed = dtype.class() == Class::Signed;
    Some(match (name, dtype) {
        ("bitwise_not" | "logical_not", DType::Bool) => x.not(),
        ("logical_not", _) => x.equals(0),
        // Known without a look at it; but an element that nothing wrote stops this too.
        ("isnan" | "isinf", _) => x.differs(&x),
        ("isfinite", _) => x.equals(&x),
        (_, DType::Bool) => return None,
        ("bitwise_not", _) => x.inverted(),
        ("negative", _) => -x,
        ("square", _) => x.clone() * x,
        ("abs", _) if signed => x.abs(),
        ("abs" | "ceil" | "floor" | "round" | "trunc", _) => x,
        ("sign", _) if signed => select(x.greater(0), 1, select(x.less(0), -1, 0)),
        ("sign", _) => select(x.greater(0), 1, 0),
        _ => return None,
    })
}

/// An operator of [`BINARY`].
pub(super) fn binary(request: &Request) -> Option<Builder> {
    let (name, dtype) = (request.row.name, request.data()?.dtype);
    if let Some(relation) = relation(name).filter(|_| !dtype.is_float())
        && (name == "power" || !has_values(request, dtype))
    {
        return partial(request, relation);
    }
    map(request, |x| {
        let [a, b] = x else { return None };
        if let Some(op) = plain(name) {
            return Some(Scalar::pair(op, a, b));
        }
        if let Some(op) = comparison(name) {
            return Some(compared(op, dtype, a, b));
        }
        let truth = |x: &Scalar| match dtype {
            DType::Bool => x.clone(),
            _ if dtype.is_float() => x.differs(0.0),
            _ => x.differs(0),
        };
        Some(match name {
            "maximum" => extremum(BinOp::Max, dtype, a, b),
            "minimum" => extremum(BinOp::Min, dtype, a, b),
            "logical_and" => truth(a).and(truth(b)),
            "logical_or" => truth(a).or(truth(b)),
            "logical_xor" => truth(a).differs(truth(b)),
            _ if !dtype.is_float() => of_integers(name, a, b)?,
            "floor_divide" => a.clone().floor_div(b),
            "floor_mod" => a.clone() % b,
            "divide" => a.clone() / b,
            "mod" => truncated_remainder(a, b),
            "power" => a.clone().call_with(Intrinsic::Pow, std::slice::from_ref(b)),
            "atan2" => a.clone().call_with(Intrinsic::Atan2, std::slice::from_ref(b)),
            "log_add_exp" => log_add_exp(dtype, a, b),
            _ => return None,
        })
    })
}

fn plain(name: &str) -> Option<BinOp> {
    Some(match name {
        "add" => BinOp::Add,
        "subtract" => BinOp::Sub,
        "multiply" => BinOp::Mul,
        "bitwise_and" => BinOp::BitAnd,
        "bitwise_or" => BinOp::BitOr,
        "bitwise_xor" => BinOp::BitXor,
        _ => return None,
    })
}

fn comparison(name: &str) -> Option<BinOp> {
    Some(match name {
        "equal" => BinOp::Equal,
        "not_equal" => BinOp::NotEqual,
        "less" => BinOp::Less,
        "less_equal" => BinOp::LessEqual,
        "greater" => BinOp::Greater,
        "greater_equal" => BinOp::GreaterEqual,
        _ => return None,
    })
}

/// Bools have no order of their own in programs.
fn compared(op: BinOp, dtype: DType, a: &Scalar, b: &Scalar) -> Scalar {
    let ordered = |x: &Scalar| x.clone().cast(dtype, DType::U8);
    match (dtype, op) {
        (DType::Bool, BinOp::Equal | BinOp::NotEqual) => Scalar::pair(op, a, b),
        (DType::Bool, _) => Scalar::pair(op, ordered(a), ordered(b)),
        _ => Scalar::pair(op, a, b),
    }
}

/// What an operation that some integers have no value of says of those: the one stands to the other so.
fn relation(name: &str) -> Option<&'static str> {
    Some(match name {
        "divide" | "floor_divide" => "has no quotient by",
        "floor_mod" | "mod" => "has no remainder by",
        "left_shift" | "right_shift" => "cannot be shifted by",
        "power" => "has no integer power of exponent",
        _ => return None,
    })
}

/// Whether the second operand's elements are spelled, and the operation has a value for all of them.
fn has_values(request: &Request, dtype: DType) -> bool {
    let bits = i128::try_from(dtype.size() * 8).unwrap_or(i128::MAX);
    match request.row.name {
        "left_shift" | "right_shift" => request.lies_in("x2", 0, bits - 1),
        _ => request.lies_in("x2", 1, i128::MAX) || request.lies_in("x2", i128::MIN, -1),
    }
}

/// An operation on integers that has a value for them.
fn of_integers(name: &str, a: &Scalar, b: &Scalar) -> Option<Scalar> {
    Some(match name {
        "left_shift" => Scalar::pair(BinOp::ShiftLeft, a, b),
        "right_shift" => Scalar::pair(BinOp::ShiftRight, a, b),
        "floor_divide" => a.clone().floor_div(b),
        "floor_mod" => a.clone() % b,
        "divide" => truncated(a, b),
        "mod" => a.clone() - truncated(a, b) * b,
        _ => return None,
    })
}

/// An operation on integers that some have no value of: those stop the program, with the place in the result.
fn partial(request: &Request, relation: &str) -> Option<Builder> {
    let (name, dtype) = (request.row.name, request.data()?.dtype);
    let bits = i64::try_from(dtype.size() * 8).ok()?;
    let trap = format!("{}/C3", request.row.short_name());
    let mut builder = Builder::new(request);
    let (x1, x2, output) = (builder.input("x1")?, builder.input("x2")?, builder.output());
    let squares = (name == "power").then(|| builder.allocate("S", &output.dims, dtype));
    let message = message(relation, output.rank());
    let mut is_known = true;
    builder.nest(&output.dims, |builder, at| {
        let operand = |x: &Buffer| Some(x.at(&broadcast_index(&x.dims, &output.dims, at)?));
        let Some((a, b)) = operand(&x1).zip(operand(&x2)) else {
            is_known = false;
            return;
        };
        let (a, b) = (builder.bind(a), builder.bind(b));
        let holds = match name {
            "left_shift" | "right_shift" => b.at_least(0).and(b.less(bits)),
            "power" => b.at_least(0),
            _ => b.differs(0),
        };
        let mut values = vec![(a.clone(), dtype), (b.clone(), dtype)];
        values.extend(at.iter().map(|index| (index.clone(), DType::I64)));
        builder.check_elements(&holds, &trap, &message, &values);
        match (&squares, of_integers(name, &a, &b)) {
            (Some(squares), _) => power(builder, (&output, squares), at, (a, b, bits)),
            (None, Some(value)) => builder.store(&output, at, value),
            (None, None) => is_known = false,
        }
    });
    is_known.then_some(builder)
}

/// `{} has no quotient by {}, at element [{}, {}] of the result`
fn message(relation: &str, rank: usize) -> String {
    let index = vec!["{}"; rank].join(", ");
    format!("{{}} {relation} {{}}, at element [{index}] of the result")
}

/// The power of an integer by an exponent of at least 0: a factor for each bit of that.
fn power(
    builder: &mut Builder,
    (result, squares): (&Buffer, &Buffer),
    at: &[Scalar],
    (base, exponent, bits): (Scalar, Scalar, i64),
) {
    builder.store(result, at, 1);
    builder.store(squares, at, base);
    builder.nest(&[Dim::Int(bits)], |builder, bit| {
        let bit = bit[0].clone().cast(DType::I64, result.dtype);
        let is_set = Scalar::pair(BinOp::ShiftRight, &exponent, bit) % 2;
        builder.when(is_set.equals(1), |builder| {
            builder.update(result, at, BinOp::Mul, squares.at(at));
        });
        builder.store(squares, at, squares.at(at) * squares.at(at));
    });
}

/// The quotient towards zero of integers, by one that is not 0.
fn truncated(a: &Scalar, b: &Scalar) -> Scalar {
    let below = (a.clone() % b).differs(0).and(a.less(0).differs(b.less(0)));
    a.clone().floor_div(b) + select(below, 1, 0)
}

/// The remainder with the sign of `a`, also that of a zero.
fn truncated_remainder(a: &Scalar, b: &Scalar) -> Scalar {
    let size = a.clone().abs() % b.clone().abs();
    select(size.equals(0.0), a.clone() * 0.0, select(a.less(0.0), -size.clone(), size))
}

fn log_add_exp(dtype: DType, a: &Scalar, b: &Scalar) -> Scalar {
    let [a, b] = [a, b].map(|x| x.clone().cast(dtype, DType::F64));
    let difference = a.clone() - &b;
    let beyond =
        |most: &Scalar, distance: Scalar| most.clone() + distance.exp().call(Intrinsic::Log1p);
    let less = select(difference.at_most(0.0), beyond(&b, difference.clone()), &difference);
    let greater = beyond(&a, -difference.clone());
    // The difference of equal infinities would be NaN.
    let result = select(difference.greater(0.0), greater, less);
    select(a.equals(&b), a.clone() + LN_2, result).cast(DType::F64, dtype)
}

/// `where(c, a, b)`
pub(super) fn choice(request: &Request) -> Option<Builder> {
    map(request, |x| {
        let [condition, a, b] = x else { return None };
        Some(select(condition.clone(), a, b))
    })
}

/// `a * b + c`, of floats rounded once.
pub(super) fn fma(request: &Request) -> Option<Builder> {
    let dtype = request.data()?.dtype;
    map(request, |x| {
        let [a, b, c] = x else { return None };
        Some(if dtype.is_float() {
            a.clone().call_with(Intrinsic::Fma, &[b.clone(), c.clone()])
        } else {
            a.clone() * b + c
        })
    })
}

/// `astype(x, dtype)`
pub(super) fn cast(request: &Request) -> Option<Builder> {
    let (from, to) = (request.data()?.dtype, request.out().dtype);
    map(request, |x| Some(x[0].clone().cast(from, to)))
}

/// `max(min(x, max), min)`, where the bounds are literals.
pub(super) fn clip(request: &Request) -> Option<Builder> {
    let dtype = request.data()?.dtype;
    let literal = |name: &str| match request.attrs.get(name)? {
        Known::Dim(Dim::Int(_)) | Known::Float(_) => request.float(name),
        _ => None,
    };
    let (low, high) = (literal("min")?, literal("max")?);
    if dtype.is_float() {
        return map(request, |x| {
            // Bounds are of f64, and rounded last.
            let x = x[0].clone().cast(dtype, DType::F64);
            let below = extremum(BinOp::Min, DType::F64, &x, &high.into());
            let result = extremum(BinOp::Max, DType::F64, &below, &low.into());
            Some(result.cast(DType::F64, dtype))
        });
    }
    // Integers that f64 holds exactly.
    let exact = |value: f64| (value.abs() <= 2f64.powi(53)).then_some(value as i64);
    let (low, high) = (exact(low)?, exact(high)?);
    map(request, |x| Some(x[0].clone().min(high).max(low)))
}

/// One store for each element of the result, of a scalar expression of the operands' elements.
pub(super) fn map(
    request: &Request,
    scalar: impl FnOnce(&[Scalar]) -> Option<Scalar>,
) -> Option<Builder> {
    let mut builder = Builder::new(request);
    let (output, mut is_known) = (builder.output(), true);
    let params: Vec<&str> = request.inputs.iter().map(|input| input.param).collect();
    let inputs: Vec<Buffer> = params.iter().filter_map(|param| builder.input(param)).collect();
    builder.nest(&output.dims, |builder, at| {
        let values =
            inputs.iter().map(|x| Some(x.at(&broadcast_index(&x.dims, &output.dims, at)?)));
        let values: Option<Vec<Scalar>> = values.collect();
        match values.and_then(|values| scalar(&values)) {
            Some(value) => builder.store(&output, at, value),
            None => is_known = false,
        }
    });
    is_known.then_some(builder)
}
