//! Elements in order, and their places: functions of a row, at a place in the order.

use super::{Meaning, Parts, is_true, like_first, meaning, shape_of_first, type_argument};
use crate::denotation::denoter::{Denoter, extent, first};
use crate::denotation::term::{FoldOp, Known, Term, domain_of, unknown};
use crate::rules::rule::{Arg, Axis, Call};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

pub(super) static MEANINGS: &[Meaning] = &[
    meaning("sort", shape_of_first, |d, call, at| ranked(d, call, "descending", true, at)),
    Meaning {
        dtype: |d, call| type_argument(d, call, "dtype"),
        ..meaning("argsort", shape_of_first, |d, call, at| ranked(d, call, "descending", false, at))
    },
    Meaning {
        dtype: |d, call| top_dtype(d, call, part_of(call)?),
        parts: Some(Parts {
            dtype: top_dtype,
            shape: |d, call, _| top_shape(d, call),
            element: top,
        }),
        ..meaning("topk", top_shape, |d, call, at| top(d, call, part_of(call)?, at))
    },
];

/// The element of a row that is at a place in the order, or where it was. The order is stable, so both are functions of the row.
fn ranked(
    denoter: &mut Denoter,
    call: &Call,
    direction: &str,
    is_value: bool,
    at: &[Dim],
) -> Known<Term> {
    let data = first(call)?;
    let shape = denoter.shape(data)?;
    let Arg::Integer(position) = call.arg("axis") else { return unknown("no axis") };
    let axis = denoter.axis(&shape, position)?;
    let name = denoter.fresh("k");
    let binder = (name.clone(), extent(&shape[axis]));
    let mut index = at.to_vec();
    index[axis] = Dim::Var(name);
    let body = denoter.element(data, &index)?;
    let order = if is_true(call, direction) { "descending" } else { "ascending" };
    let (what, dtype) = if is_value {
        (format!("sorted {order}"), denoter.dtype(data)?)
    } else {
        let dtype = type_argument(denoter, call, "dtype")?;
        (format!("places {order} {dtype}"), dtype)
    };
    let domain = domain_of(dtype, denoter.reals);
    let op = FoldOp::Row(what.into(), vec![at[axis].clone()]);
    Ok(Term::Fold(domain, op, vec![binder], Box::new(body)))
}

/// Which of the two results of `topk` its only one is.
fn part_of(call: &Call) -> Known<usize> {
    match call.arg("ret_type") {
        Arg::Str(text) if text.as_str() == "values" => Ok(0),
        Arg::Str(text) if text.as_str() == "indices" => Ok(1),
        _ => unknown("a tuple"),
    }
}

/// The dims of each result: the first `k` of the axis, all of them where `k` is below 1.
fn top_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let mut shape = shape_of_first(denoter, call)?;
    let (Arg::Integer(position), Arg::Integer(k)) = (call.arg("axis"), call.arg("k")) else {
        return unknown("an axis or a number that is not written out");
    };
    let axis = denoter.axis(&shape, position)?;
    if denoter.at_most(1, k.clone()) {
        shape[axis] = Axis::Dim(k.clone());
    } else if !denoter.at_most(k.clone(), 0) {
        return unknown("a number that may be below 1");
    }
    Ok(shape)
}

fn top_dtype(denoter: &Denoter, call: &Call, part: usize) -> Known<DType> {
    match part {
        0 => like_first(denoter, call),
        _ => type_argument(denoter, call, "dtype"),
    }
}

fn top(denoter: &mut Denoter, call: &Call, part: usize, at: &[Dim]) -> Known<Term> {
    ranked(denoter, call, "largest", part == 0, at)
}
