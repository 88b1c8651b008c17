//! Reductions over axes, and the places of greatest and least elements.

use super::super::call::{Call, Row};
use super::pattern::{binary, normal};
use crate::argument::{Arg, key};
use crate::builder::V;
use crate::operators::arithmetic::pair;
use crate::operators::elementwise::convert;
use crate::operators::reduce::neutral;
use crate::reason::{Done, invalid, unsupported};
use relax_semantics::tensor::Tensor;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[("reduce", reduce)];

fn reduce(call: &mut Call) -> Done<Vec<V>> {
    let x = call.arg(0)?;
    let axes = call.axes(&["dimensions"], call.rank(x))?;
    if call.args.len() == 4
        && let Some(results) = places(call, &axes)?
    {
        return Ok(results);
    }
    let is_other = call.op.regions.first().is_some_and(|region| binary(region).is_err());
    if call.args.len() != 2 || is_other {
        return super::folded::reduced(call, &axes);
    }
    let (x, init) = call.two()?;
    let operator = operator(call)?;
    let reduced = fold(call, &operator, x, init, &axes)?;
    Ok(vec![reduced])
}

/// What it reduces by: `applies stablehlo.add`, or the operation of its region.
fn operator(call: &Call) -> Done<String> {
    match call.op.regions.first() {
        Some(region) => binary(region),
        None => {
            let word = call.op.words.iter().find_map(|word| word.strip_prefix("stablehlo."));
            match word {
                Some(word) => Ok(word.to_owned()),
                None => invalid("nothing says what it reduces by"),
            }
        }
    }
}

/// The operator of the language on two elements.
pub(super) fn on_elements(operator: &str, dtype: DType) -> Done<&'static str> {
    Ok(match (operator, dtype) {
        ("add" | "or" | "maximum", DType::Bool) => "logical_or",
        ("multiply" | "and" | "minimum", DType::Bool) => "logical_and",
        ("add", _) => "add",
        ("multiply", _) => "multiply",
        ("maximum", _) => "maximum",
        ("minimum", _) => "minimum",
        (other, _) => return unsupported(format!("by {other}")),
    })
}

/// Whether an initial value is known to be the neutral one.
pub(super) fn is_neutral(call: &Call, init: V, operator: &str, dtype: DType) -> bool {
    let wanted = neutral(operator, dtype).as_f64();
    call.tensor(init).is_some_and(|init| init.len() == 1 && init.number(0).as_f64() == wanted)
}

fn fold(call: &mut Call, name: &str, x: V, init: V, axes: &[usize]) -> Done<V> {
    let dtype = call.dtype(x);
    let elementwise = on_elements(name, dtype)?;
    let operator = match elementwise {
        "add" => "sum",
        "multiply" => "prod",
        "maximum" | "logical_or" => "max",
        _ => "min",
    };
    let mut reduced = x;
    if !axes.is_empty() {
        let neutral = call.constant(Tensor::scalar(dtype, neutral(elementwise, dtype)));
        let x = never_empty(call, operator, x, neutral, axes)?;
        let axes: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
        reduced = call.call(operator, &[x.into(), key("axis", axes)])?;
        let (_, wanted) = call.result(0)?;
        reduced = convert(call, reduced, wanted)?;
    }
    if is_neutral(call, init, elementwise, dtype) {
        return Ok(reduced);
    }
    pair(call, elementwise, reduced, init)
}

/// The greatest element of nothing is the neutral one: it is put beside the others where an axis may be empty.
fn never_empty(call: &mut Call, operator: &str, x: V, neutral: V, axes: &[usize]) -> Done<V> {
    if !matches!(operator, "max" | "min") {
        return Ok(x);
    }
    let mut x = x;
    for &axis in axes {
        let mut dims = call.dims(x);
        if call.at_least(&dims[axis], 1) {
            continue;
        }
        dims[axis] = Dim::Int(1);
        let more = call.call_kept("broadcast_to", &[neutral.into(), Arg::Shape(dims)])?;
        x = call.call("concat", &[vec![x, more].into(), key("axis", axis)])?;
    }
    Ok(x)
}

/// `argmax` and `argmin` as JAX writes them: values and places from 0 on, the first of equal ones and of NaNs. None of another region.
fn places(call: &mut Call, axes: &[usize]) -> Done<Option<Vec<V>>> {
    let (x, places, init) = (call.arg(0)?, call.arg(1)?, call.arg(2)?);
    let [axis] = *axes else { return Ok(None) };
    let region = call.region(0)?;
    let counts = call.walk.counts.get(&places) == Some(&axis);
    let form = normal(region);
    let operator = [("GT", "argmax", "max"), ("LT", "argmin", "min")].into_iter().find(|by| {
        // Of integers JAX leaves the comparison for NaN out.
        let floats = format!(
            "compare {} 0 2; compare NE 0 0; or 4 5; compare EQ 0 2; compare LT 1 3; and 7 8; or 6 9; \
             select 6 0 2; select 10 1 3; return 11 12; ",
            by.0
        );
        let ints = format!(
            "compare {} 0 2; compare EQ 0 2; compare LT 1 3; and 5 6; or 4 7; select 4 0 2; select 8 1 3; \
             return 9 10; ",
            by.0
        );
        form == floats || form == ints
    });
    let Some((_, place_of, value_of)) = operator.filter(|_| counts) else { return Ok(None) };
    let dtype = call.dtype(x);
    let by = if value_of == "max" { "maximum" } else { "minimum" };
    if !is_neutral(call, init, by, dtype) {
        return Ok(None);
    }
    let wide = if dtype == DType::Bool { convert(call, x, DType::I8)? } else { x };
    let place = call.call(place_of, &[wide.into(), key("axis", axis)])?;
    let (_, wanted) = call.result(1)?;
    let place = convert(call, place, wanted)?;
    let value = call.call(value_of, &[x.into(), key("axis", vec![axis as i64])])?;
    Ok(Some(vec![value, place]))
}
