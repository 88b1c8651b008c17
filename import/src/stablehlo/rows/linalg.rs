//! LAPACK's functions that JAX calls on the CPU, as far as they are few steps: each step is written out, in f64.

use super::super::call::{Call, Row, int};
use super::super::syntax::Attribute;
use crate::argument::{Arg, key};
use crate::builder::V;
use crate::operators::arithmetic::pair;
use crate::operators::elementwise::convert;
use crate::operators::shape::permuted;
use crate::reason::{Done, Reason, unsupported};
use relax_semantics::tensor::{Number, Tensor};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

/// The row of a function of LAPACK, by the name of its target.
pub(super) fn row(target: &str) -> Option<Row> {
    match target {
        "lapack_strsm_ffi" | "lapack_dtrsm_ffi" => Some(triangular_solve),
        "lapack_spotrf_ffi" | "lapack_dpotrf_ffi" => Some(cholesky),
        _ => None,
    }
}

/// The largest matrix, of which each row is a step.
const MOST: i64 = 64;

/// A letter among the arguments, as LAPACK has them.
fn letter(call: &Call, name: &str) -> Done<char> {
    let field = match call.attribute("mhlo.backend_config") {
        Some(Attribute::Dictionary(fields)) => fields.get(name).and_then(int),
        _ => None,
    };
    let letter = field.and_then(|code| u8::try_from(code).ok()).map(char::from);
    letter.ok_or_else(|| Reason::Invalid(format!("`{name}` is missing")))
}

/// The number of rows of a square matrix.
fn size_of(call: &Call, x: V) -> Done<i64> {
    let dims = call.dims(x);
    let Some([rows, columns]) = dims.last_chunk::<2>() else {
        return unsupported("a matrix of rank 0 or 1");
    };
    match (rows.as_int(), columns.as_int()) {
        (Some(rows), Some(columns)) if rows == columns && rows <= MOST => Ok(rows),
        _ => unsupported(format!(
            "a matrix of {rows} by {columns}, of more than {MOST} rows or not square"
        )),
    }
}

/// Rows or columns from one on to another.
fn cut(call: &mut Call, x: V, axis: usize, begin: i64, end: i64) -> Done<V> {
    let args =
        [x.into(), Arg::from(vec![axis as i64]), Arg::from(vec![begin]), Arg::from(vec![end])];
    call.call("strided_slice", &args)
}

fn turned(call: &mut Call, x: V) -> Done<V> {
    let rank = call.rank(x);
    let mut axes: Vec<i64> = (0..rank as i64).collect();
    axes.swap(rank - 2, rank - 1);
    permuted(call, x, &axes)
}

/// The solution of `op(a) x = b`, or of `x op(a) = b`, of which only one triangle of `a` is read.
fn triangular_solve(call: &mut Call) -> Done<Vec<V>> {
    let (a, b) = call.two()?;
    let dtype = call.dtype(b);
    let n = size_of(call, a)?;
    let is_unit = letter(call, "diag")? == 'U';
    let is_right = letter(call, "side")? == 'R';
    let is_turned = letter(call, "trans_x")? != 'N';
    let is_lower = letter(call, "uplo")? == 'L';
    let (mut a, mut b) = (convert(call, a, DType::F64)?, convert(call, b, DType::F64)?);
    // x a = b is a' x' = b'.
    if is_right {
        b = turned(call, b)?;
    }
    if is_turned != is_right {
        a = turned(call, a)?;
    }
    let from_first = is_lower == (is_turned == is_right);
    let axis = call.rank(b) - 2;
    let mut order: Vec<i64> = (0..n).collect();
    if !from_first {
        order.reverse();
    }
    let mut rows = Vec::new();
    for (step, &at) in order.iter().enumerate() {
        let column = cut(call, a, axis + 1, at, at + 1)?;
        let mut row = cut(call, b, axis, at, at + 1)?;
        if !is_unit {
            let pivot = cut(call, column, axis, at, at + 1)?;
            row = pair(call, "divide", row, pivot)?;
        }
        rows.push(row);
        if step + 1 < order.len() {
            let known = pair(call, "multiply", column, row)?;
            b = pair(call, "subtract", b, known)?;
        }
    }
    if !from_first {
        rows.reverse();
    }
    let mut x = match rows.len() {
        0 => b,
        1 => rows[0],
        _ => call.call("concat", &[rows.into(), key("axis", axis)])?,
    };
    if is_right {
        x = turned(call, x)?;
    }
    Ok(vec![convert(call, x, dtype)?])
}

/// The factor of a symmetric matrix, of which one triangle is read, and the first row without a positive pivot: 0 where there is none.
/// The other triangle stays as it was.
fn cholesky(call: &mut Call) -> Done<Vec<V>> {
    let x = call.arg(0)?;
    let dtype = call.dtype(x);
    let n = size_of(call, x)?;
    let is_lower = letter(call, "uplo")? == 'L';
    let (axis, dims) = (call.rank(x) - 2, call.dims(x));
    let given = if is_lower { x } else { turned(call, x)? };
    let mut rest = convert(call, given, DType::F64)?;
    let (_, wanted) = call.result(1)?;
    let zero = call.constant(Tensor::scalar(wanted, Number::Int(0)));
    let batch = dims[..axis].to_vec();
    let mut failed = spread(call, zero, batch.clone())?;
    let mut columns = Vec::new();
    for at in 0..n {
        let column = cut(call, rest, axis + 1, at, at + 1)?;
        let pivot = cut(call, column, axis, at, at + 1)?;
        let root = call.call("sqrt", &[pivot.into()])?;
        let column = pair(call, "divide", column, root)?;
        let one = Arg::Scalar(DType::F64, Number::Int(0));
        let good = call.call("greater", &[pivot.into(), one])?;
        let good = crate::operators::shape::reshape(call, good, batch.clone())?;
        let none = Arg::Scalar(wanted, Number::Int(0));
        let first = call.call("equal", &[failed.into(), none])?;
        let bad = call.call("logical_not", &[good.into()])?;
        let here = pair(call, "logical_and", first, bad)?;
        let number = Arg::Scalar(wanted, Number::Int((at + 1).into()));
        failed = call.call("where", &[here.into(), number, failed.into()])?;
        columns.push(column);
        if at + 1 < n {
            let row = turned(call, column)?;
            let known = pair(call, "multiply", column, row)?;
            rest = pair(call, "subtract", rest, known)?;
        }
    }
    let factor = match columns.len() {
        0 => rest,
        1 => columns[0],
        _ => call.call("concat", &[columns.into(), key("axis", axis + 1)])?,
    };
    let factor = convert(call, factor, dtype)?;
    let factor = triangle(call, "tril", factor, 0)?;
    let kept = triangle(call, "triu", given, 1)?;
    let factor = pair(call, "add", factor, kept)?;
    Ok(vec![if is_lower { factor } else { turned(call, factor)? }, failed])
}

fn triangle(call: &mut Call, operator: &str, x: V, k: i64) -> Done<V> {
    call.call(operator, &[x.into(), key("k", Dim::Int(k))])
}

fn spread(call: &mut Call, value: V, dims: Vec<Dim>) -> Done<V> {
    if dims.is_empty() {
        Ok(value)
    } else {
        call.call_kept("broadcast_to", &[value.into(), Arg::Shape(dims)])
    }
}
