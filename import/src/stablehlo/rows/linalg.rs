//! LAPACK's functions that JAX calls on the CPU, as far as they are few steps: each step is written out, in f64.

use super::super::call::{Call, Row, int};
use super::super::syntax::Attribute;
use crate::argument::{Arg, key};
use crate::builder::V;
use crate::operators::arithmetic::{broadcast_call, pair};
use crate::operators::elementwise::convert;
use crate::operators::shape::{permuted, reshape};
use crate::operators::slice::along;
use crate::reason::{Done, Reason, invalid, unsupported};
use relax_semantics::tensor::{Number, Tensor};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

/// The row of a function of LAPACK, by the name of its target.
pub(super) fn row(target: &str) -> Option<Row> {
    match target {
        "lapack_strsm_ffi" | "lapack_dtrsm_ffi" => Some(triangular_solve),
        "lapack_spotrf_ffi" | "lapack_dpotrf_ffi" => Some(cholesky),
        "lapack_sgetrf_ffi" | "lapack_dgetrf_ffi" => Some(triangular_factors),
        _ => None,
    }
}

/// The most rows of a matrix, of which each is a step.
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

/// The rows and columns of a matrix, which are numbers.
fn extents_of(call: &Call, x: V) -> Done<(i64, i64)> {
    let dims = call.dims(x);
    let Some([rows, columns]) = dims.last_chunk::<2>() else {
        return unsupported("a matrix of rank 0 or 1");
    };
    match (rows.as_int(), columns.as_int()) {
        (Some(rows), Some(columns)) => Ok((rows, columns)),
        _ => unsupported(format!("a matrix of {rows} by {columns}")),
    }
}

/// The number of rows of a square matrix.
fn size_of(call: &Call, x: V) -> Done<i64> {
    match extents_of(call, x)? {
        (rows, columns) if rows == columns && rows <= MOST => Ok(rows),
        (rows, columns) => unsupported(format!(
            "a matrix of {rows} by {columns}, of more than {MOST} rows or not square"
        )),
    }
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
    if call.rank(a) != call.rank(b) {
        return invalid("its operands have different ranks");
    }
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
        let column = along(call, a, axis + 1, (at, at + 1, 1))?;
        let mut row = along(call, b, axis, (at, at + 1, 1))?;
        if !is_unit {
            let pivot = along(call, column, axis, (at, at + 1, 1))?;
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
    let batch = dims[..axis].to_vec();
    let mut failed = none_failed(call, wanted, batch.clone())?;
    let mut columns = Vec::new();
    for at in 0..n {
        let column = along(call, rest, axis + 1, (at, at + 1, 1))?;
        let pivot = along(call, column, axis, (at, at + 1, 1))?;
        let root = call.call("sqrt", &[pivot.into()])?;
        let column = pair(call, "divide", column, root)?;
        let zero = Arg::Scalar(DType::F64, Number::Int(0));
        let good = call.call("greater", &[pivot.into(), zero])?;
        let bad = call.call("logical_not", &[good.into()])?;
        failed = first_failed(call, failed, bad, at + 1)?;
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

/// 0 for each matrix of a batch.
fn none_failed(call: &mut Call, dtype: DType, batch: Vec<Dim>) -> Done<V> {
    let zero = call.constant(Tensor::scalar(dtype, Number::Int(0)));
    if batch.is_empty() {
        return Ok(zero);
    }
    call.call_kept("broadcast_to", &[zero.into(), Arg::Shape(batch)])
}

/// The number of a step that fails where none before it did; `bad` has a row and a column more.
fn first_failed(call: &mut Call, failed: V, bad: V, step: i64) -> Done<V> {
    let (dtype, batch) = (call.dtype(failed), call.dims(failed));
    let bad = reshape(call, bad, batch)?;
    let none = Arg::Scalar(dtype, Number::Int(0));
    let first = call.call("equal", &[failed.into(), none])?;
    let here = pair(call, "logical_and", first, bad)?;
    let number = Arg::Scalar(dtype, Number::Int(step.into()));
    call.call("where", &[here.into(), number, failed.into()])
}

/// Numbers from 0 on as a column, or as a row, of i64.
fn counted(call: &mut Call, count: i64, dims: [i64; 2]) -> Done<V> {
    let numbers = call.call("arange", &[Dim::Int(count).into(), key("dtype", DType::I64)])?;
    reshape(call, numbers, dims.map(Dim::Int).to_vec())
}

fn compared(call: &mut Call, operator: &str, x: V, number: i64) -> Done<V> {
    call.call(operator, &[x.into(), Arg::Scalar(DType::I64, Number::Int(number.into()))])
}

fn chosen(call: &mut Call, condition: V, yes: V, no: V) -> Done<V> {
    broadcast_call(call, "where", &[condition, yes, no])
}

/// The factors of a matrix whose rows change places: below the diagonal the lower one, else the upper one. With it the row that each step
/// takes, from 1 on, and the first step whose pivot is 0, else 0.
fn triangular_factors(call: &mut Call) -> Done<Vec<V>> {
    let x = call.arg(0)?;
    let (dtype, dims) = (call.dtype(x), call.dims(x));
    let (rows, columns) = extents_of(call, x)?;
    let steps = rows.min(columns);
    if steps > MOST {
        return unsupported(format!("a matrix of {rows} by {columns}, of more than {MOST} steps"));
    }
    let axis = call.rank(x) - 2;
    let batch = dims[..axis].to_vec();
    let ((_, wanted), (_, told)) = (call.result(1)?, call.result(2)?);
    let (down, right) = (counted(call, rows, [rows, 1])?, counted(call, columns, [1, columns])?);
    let mut failed = none_failed(call, told, batch.clone())?;
    let mut factors = convert(call, x, DType::F64)?;
    let mut taken = Vec::new();
    for step in 0..steps {
        let pivot_row = greatest(call, factors, down, (axis, step))?;
        factors = exchanged(call, factors, down, pivot_row, (axis, step))?;
        let column = along(call, factors, axis + 1, (step, step + 1, 1))?;
        let pivot = along(call, column, axis, (step, step + 1, 1))?;
        let zero = Arg::Scalar(DType::F64, Number::Int(0));
        let bad = call.call("equal", &[pivot.into(), zero])?;
        failed = first_failed(call, failed, bad, step + 1)?;
        // Below a pivot of 0 there are zeros alone.
        let one = call.constant(Tensor::scalar(DType::F64, Number::Int(1)));
        let divisor = chosen(call, bad, one, pivot)?;
        let quotients = pair(call, "divide", column, divisor)?;
        let below = compared(call, "greater", down, step)?;
        let behind = compared(call, "greater", right, step)?;
        let row = along(call, factors, axis, (step, step + 1, 1))?;
        let known = pair(call, "multiply", quotients, row)?;
        let less = pair(call, "subtract", factors, known)?;
        let is_own = compared(call, "equal", right, step)?;
        let scaled = chosen(call, is_own, quotients, factors)?;
        let changed = chosen(call, behind, less, scaled)?;
        factors = chosen(call, below, changed, factors)?;
        let number = compared(call, "add", pivot_row, 1)?;
        let mut flat = batch.clone();
        flat.push(Dim::Int(1));
        let number = reshape(call, number, flat)?;
        taken.push(convert(call, number, wanted)?);
    }
    let pivots = match taken.len() {
        0 => {
            let mut flat = batch;
            flat.push(Dim::Int(0));
            call.call("zeros", &[Arg::Shape(flat), wanted.into()])?
        }
        1 => taken[0],
        _ => call.call("concat", &[taken.into(), key("axis", axis)])?,
    };
    Ok(vec![convert(call, factors, dtype)?, pivots, failed])
}

/// The row, not before that of the step, whose element in the column of the step is the greatest.
fn greatest(call: &mut Call, x: V, down: V, (axis, step): (usize, i64)) -> Done<V> {
    let column = along(call, x, axis + 1, (step, step + 1, 1))?;
    let size = call.call("abs", &[column.into()])?;
    let open = compared(call, "greater_equal", down, step)?;
    let none = call.constant(Tensor::scalar(DType::F64, Number::Int(-1)));
    let size = chosen(call, open, size, none)?;
    call.call("argmax", &[size.into(), key("axis", axis), key("keepdims", true)])
}

/// With the row of the step and another one in each other's place.
fn exchanged(call: &mut Call, x: V, down: V, other: V, (axis, step): (usize, i64)) -> Done<V> {
    let dims = call.dims(x);
    let own = call.constant(Tensor::scalar(DType::I64, Number::Int(step.into())));
    let is_other = pair(call, "equal", down, other)?;
    let places = chosen(call, is_other, own, down)?;
    let is_own = compared(call, "equal", down, step)?;
    let places = chosen(call, is_own, other, places)?;
    let places = call.call("broadcast_to", &[places.into(), Arg::Shape(dims)])?;
    call.call("gather_elements", &[x.into(), places.into(), key("axis", axis)])
}
