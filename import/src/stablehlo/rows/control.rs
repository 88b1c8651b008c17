//! Branches and loops. A loop whose condition is known before each iteration is written out.

use super::super::call::{Call, Row};
use crate::builder::{Content, Line, V};
use crate::operators::arithmetic::pair;
use crate::reason::{Done, invalid, unsupported};
use relax_syntax::dim::Dim;

pub(super) const ROWS: &[(&str, Row)] =
    &[("while", repeat), ("case", |call| branch(call, false)), ("if", |call| branch(call, true))];

/// Iterations that are written out. A loop of more, or of a number that only the run knows, is a function that calls itself.
const FEW: usize = 64;
/// Operations of a loop that is written out.
const SHORT: usize = 4096;

fn repeat(call: &mut Call) -> Done<Vec<V>> {
    let before = call.lines.len();
    if let Some(results) = written_out(call)? {
        return Ok(results);
    }
    call.lines.truncate(before);
    super::repeat::recursive(call)
}

/// The values after a loop of few iterations; none where there are more, or the run decides.
fn written_out(call: &mut Call) -> Done<Option<Vec<V>>> {
    let (condition, body) = (call.region(0)?, call.region(1)?);
    let mut carried = call.args.clone();
    let begin = call.walk.count;
    for _ in 0..=FEW {
        if call.walk.count - begin > SHORT {
            return Ok(None);
        }
        let goes_on = super::repeat::goes_on(call, condition, &carried)?;
        let Some(known) = call.tensor(goes_on).filter(|known| known.len() == 1) else {
            return Ok(None);
        };
        if known.number(0).as_f64() == 0.0 {
            return Ok(Some(carried));
        }
        carried = call.walk.region(call.scope, body, &carried)?;
        if carried.len() != call.args.len() {
            return invalid("its body does not give what it takes");
        }
    }
    Ok(None)
}

/// `case` takes a number, of which one outside takes the last branch; `if` a condition, whose first region is that of true.
fn branch(call: &mut Call, is_if: bool) -> Done<Vec<V>> {
    let index = call.arg(0)?;
    let count = call.op.regions.len();
    if count == 0 {
        return invalid("there is no region");
    }
    if let Some(known) = call.tensor(index).filter(|known| known.len() == 1) {
        let value = known.number(0).as_f64();
        let inside = value >= 0.0 && value < count as f64;
        let place = match is_if {
            true => usize::from(value == 0.0),
            false if inside => value as usize,
            false => count - 1,
        };
        let region = call.region(place)?;
        return call.walk.region(call.scope, region, &[]);
    }
    branches(call, index, 0, is_if)
}

/// A branch on whether the index is `from`, and the others in its other side.
fn branches(call: &mut Call, index: V, from: usize, is_if: bool) -> Done<Vec<V>> {
    let region = call.region(from)?;
    if from + 1 == call.op.regions.len() {
        return call.walk.region(call.scope, region, &[]);
    }
    let condition = match is_if {
        true => index,
        false => {
            let dtype = call.dtype(index);
            let place = call.integers(vec![Dim::Int(from as i64)], 0, dtype);
            pair(call, "equal", index, place)?
        }
    };
    let outer = std::mem::take(&mut call.lines);
    let first = call.walk.region(call.scope, region, &[]);
    let then = std::mem::take(&mut call.lines);
    let second = first.and_then(|first| Ok((first, branches(call, index, from + 1, is_if)?)));
    let otherwise = std::mem::replace(&mut call.lines, outer);
    let (first, second) = second?;
    if first.len() != second.len() {
        return invalid("its regions give different numbers of values");
    }
    let (mut then, mut otherwise, mut results) = (then, otherwise, Vec::new());
    for (a, b) in first.into_iter().zip(second) {
        let (x, y) = (call.dims(a), call.dims(b));
        let same = x.len() == y.len() && x.iter().zip(&y).all(|(x, y)| call.same(x, y));
        if !same || call.dtype(a) != call.dtype(b) {
            return unsupported("regions whose results have different shapes");
        }
        let dtype = call.dtype(a);
        let target = call.add(x, dtype, Content::Computed);
        then.push(Line::Alias { target, from: a });
        otherwise.push(Line::Alias { target, from: b });
        results.push(target);
    }
    call.lines.push(Line::If { condition, then, otherwise });
    Ok(results)
}
