//! A loop as a function that calls itself. It is given how many iterations there are at most, and makes them in two halves, so that
//! the calls are as deep as the logarithm of their number. The second half ends at once where the condition no longer holds.

use super::super::call::Call;
use super::super::syntax::Region;
use crate::argument::Arg;
use crate::builder::{Builder, Content, Line, V};
use crate::reason::{Done, invalid, unsupported};
use relax_semantics::tensor::{Number, Tensor};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};
use std::collections::BTreeSet;

/// The condition of the next iteration, a bool of rank 0.
pub(super) fn goes_on<'m>(call: &mut Call<'_, 'm>, condition: &'m Region, values: &[V]) -> Done<V> {
    match *call.walk.region(call.scope, condition, values)? {
        [goes_on] if call.rank(goes_on) == 0 && call.dtype(goes_on) == DType::Bool => Ok(goes_on),
        _ => invalid("its condition is not one bool"),
    }
}

/// What goes from iteration to iteration.
struct Loop {
    name: String,
    count: V,
    more: V,
    /// Before an iteration. What no iteration changes is the value itself, and no parameter.
    before: Vec<V>,
    changes: Vec<bool>,
    /// Those values after it.
    after: Vec<V>,
    more_after: V,
    /// Those of the iteration.
    lines: Vec<Line>,
}

pub(super) fn recursive(call: &mut Call) -> Done<Vec<V>> {
    let (condition, body) = (call.region(0)?, call.region(1)?);
    let args = call.args.clone();
    let known: BTreeSet<String> = call.variables.keys().cloned().collect();
    let changes = changing(body);
    if changes.len() != args.len() || condition.params.len() != args.len() {
        return invalid("its body does not give what it takes");
    }
    let begins = goes_on(call, condition, &args)?;
    let name = call.names.fresh("iterate");
    let count = call.add(Vec::new(), DType::I64, Content::Computed);
    let more = call.add(Vec::new(), DType::Bool, Content::Computed);
    let before: Vec<V> = args
        .iter()
        .zip(&changes)
        .map(|(&v, &changes)| if changes { like(call, v) } else { v })
        .collect();
    let outer = std::mem::take(&mut call.lines);
    let made = iteration(call, condition, body, &before);
    let lines = std::mem::replace(&mut call.lines, outer);
    let (after, more_after) = made?;
    let parts = Loop { name, count, more, before, changes, after, more_after, lines };
    define(call, parts, &args, begins, &known)
}

/// Whether an iteration changes a value: it gives another one than its parameter.
fn changing(body: &Region) -> Vec<bool> {
    let Some(end) = body.ops.last() else { return Vec::new() };
    let pairs = end.operands.iter().zip(&body.params);
    pairs.map(|(operand, param)| operand.name != param.name).collect()
}

fn like(builder: &mut Builder, v: V) -> V {
    let (dims, dtype) = (builder.dims(v), builder.dtype(v));
    builder.add(dims, dtype, Content::Computed)
}

fn iteration<'m>(
    call: &mut Call<'_, 'm>,
    condition: &'m Region,
    body: &'m Region,
    before: &[V],
) -> Done<(Vec<V>, V)> {
    let mut after = call.walk.region(call.scope, body, before)?;
    for (old, new) in before.iter().zip(&mut after) {
        let (wanted, own) = (call.dims(*old), call.dims(*new));
        if call.dtype(*old) != call.dtype(*new) || wanted.len() != own.len() {
            return invalid("an iteration changes the type of a value");
        }
        let mut is_same = true;
        for (wanted, own) in wanted.iter().zip(&own) {
            let differs = Claim::new(wanted.clone(), Relation::NotEqual, own.clone());
            if call.proves(&differs) {
                return unsupported("an iteration that changes the shape of a value");
            }
            is_same &= call.same(wanted, own);
        }
        if !is_same {
            let target = like(call, *old);
            call.lines.push(Line::Cast { target, from: *new });
            *new = target;
        }
    }
    let more = goes_on(call, condition, &after)?;
    Ok((after, more))
}

fn define(
    call: &mut Call,
    parts: Loop,
    args: &[V],
    begins: V,
    known: &BTreeSet<String>,
) -> Done<Vec<V>> {
    let only = |values: &[V]| -> Vec<V> {
        values
            .iter()
            .zip(&parts.changes)
            .filter(|(_, changes)| **changes)
            .map(|(v, _)| *v)
            .collect()
    };
    let (state, after, given) = (only(&parts.before), only(&parts.after), only(args));
    let mut params = vec![parts.count, parts.more];
    params.extend(&state);
    let returns: Vec<V> = params[1..].iter().map(|&v| like(call, v)).collect();
    let results = returns.iter().map(|&v| call.annotation(v)).collect();
    let outer = std::mem::take(&mut call.lines);
    let made = steps(call, &parts, &state, &after, &returns);
    let lines = std::mem::replace(&mut call.lines, outer);
    made?;
    let locals = call.variables.keys().filter(|name| !known.contains(*name)).cloned().collect();
    let name = parts.name.clone();
    call.lines.push(Line::Define { name, params, results, locals, lines, returns });
    let most = call.constant(Tensor::scalar(DType::I64, Number::Int(i64::MAX.into())));
    let mut values = vec![most, begins];
    values.extend(&given);
    let targets: Vec<V> = values[1..].iter().map(|&v| like(call, v)).collect();
    let function = parts.name;
    call.lines.push(Line::Apply { targets: targets.clone(), function, args: values });
    let mut changed = targets[1..].iter();
    let value = |(&v, &changes): (&V, &bool)| match changes {
        true => *changed.next().expect("invariant: one target for each value that changes"),
        false => v,
    };
    Ok(args.iter().zip(&parts.changes).map(value).collect())
}

/// No iteration, one, or two halves.
fn steps(call: &mut Call, parts: &Loop, state: &[V], after: &[V], returns: &[V]) -> Done<()> {
    let number = |value: i64| Arg::Scalar(DType::I64, Number::Int(value.into()));
    let alias = |from: &[V]| -> Vec<Line> {
        let pairs = returns.iter().zip(from);
        pairs.map(|(&target, &from)| Line::Alias { target, from }).collect()
    };
    let some = call.call("greater", &[parts.count.into(), number(0)])?;
    let some = call.call("logical_and", &[some.into(), parts.more.into()])?;
    let outer = std::mem::take(&mut call.lines);
    let single = call.call("less_equal", &[parts.count.into(), number(1)])?;
    let mut then = std::mem::take(&mut call.lines);
    let half = call.call("floor_divide", &[parts.count.into(), number(2)])?;
    let rest = call.call("subtract", &[parts.count.into(), half.into()])?;
    let mut given: Vec<V> = std::iter::once(parts.more).chain(state.iter().copied()).collect();
    for count in [half, rest] {
        let targets: Vec<V> = given.iter().map(|&v| like(call, v)).collect();
        let args = std::iter::once(count).chain(given).collect();
        let function = parts.name.clone();
        call.lines.push(Line::Apply { targets: targets.clone(), function, args });
        given = targets;
    }
    let mut halves = std::mem::replace(&mut call.lines, outer);
    halves.extend(alias(&given));
    let mut one = parts.lines.clone();
    let last: Vec<V> = std::iter::once(parts.more_after).chain(after.iter().copied()).collect();
    one.extend(alias(&last));
    then.push(Line::If { condition: single, then: one, otherwise: halves });
    let first: Vec<V> = std::iter::once(parts.more).chain(state.iter().copied()).collect();
    let otherwise = alias(&first);
    call.lines.push(Line::If { condition: some, then, otherwise });
    Ok(())
}
