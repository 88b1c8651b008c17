//! Whether two programs stop alike.

use super::prove::Elements;
use super::stops::{self, Case, Stop};
use super::values::Id;
use crate::denotation::theorem::{alike_stops, said};
use relax_syntax::facts::{Answer, Claim, Facts};
use std::collections::BTreeMap;

/// Whether a claim holds wherever the other side checks all of its own. If that is so both ways, either both sides stop or none.
fn follows(claim: &Claim, others: &[Stop], plain: &mut dyn Facts) -> bool {
    plain.push();
    others.iter().flat_map(Stop::needed).for_each(|other| plain.assume(other));
    let answer = plain.decide(claim);
    plain.pop();
    answer == Answer::Proved
}

/// Guards that are few enough to go through all cases.
const MOST_GUARDS: usize = 5;

/// Both sides stop the program alike: in each case of the claims and elements that branches ask. An element that one
/// side does not compute, because it stops before, may be either.
pub(super) fn same_stops(
    elements: &mut Elements,
    plain: &mut dyn Facts,
    before: &[Stop],
    after: &[Stop],
) -> Result<(), String> {
    let differ = |one: &[Stop], other: &[Stop]| one.iter().any(|stop| !other.contains(stop));
    let [one, other] = [before, after].map(|stops| stops::guards(stops.iter()).1);
    let map = equal_elements(elements, &one, &other);
    let (before, after) = (before.to_vec(), stops::with_elements(after, &map));
    let (claims, truths) = stops::guards(before.iter().chain(&after));
    let count = claims.len() + truths.len();
    if count > MOST_GUARDS || !(differ(&before, &after) || differ(&after, &before)) {
        return same_stops_here(elements, plain, &before, &after);
    }
    for number in 0_usize..1 << count {
        let is_set = |at: usize| number >> at & 1 == 1;
        let sides = claims.iter().enumerate();
        let sides =
            sides.map(|(at, claim)| if is_set(at) { claim.clone() } else { claim.opposite() });
        let truth = |(at, id): (usize, &Id)| (*id, is_set(claims.len() + at));
        let case = Case {
            claims: sides.collect(),
            elements: truths.iter().enumerate().map(truth).collect(),
        };
        plain.push();
        elements.facts.push();
        for claim in &case.claims {
            plain.assume(claim.clone());
            elements.facts.assume(claim.clone());
        }
        let never = plain.decide(&stops::never()) == Answer::Proved;
        let [one, other] = [&before, &after].map(|stops| stops::where_holds(stops, &case));
        let found = if never { Ok(()) } else { same_stops_here(elements, plain, &one, &other) };
        elements.facts.pop();
        plain.pop();
        found?;
    }
    Ok(())
}

/// Of entries that decide branches of the second side those of the first side that are equal to them, one each. They are
/// equal where no side stops. So two of the same side stay two: where a side stops, they may differ.
fn equal_elements(elements: &mut Elements, before: &[Id], after: &[Id]) -> BTreeMap<Id, Id> {
    let mut open: Vec<Id> = before.iter().copied().filter(|id| !after.contains(id)).collect();
    let mut map = BTreeMap::new();
    for &id in after.iter().filter(|id| !before.contains(id)) {
        if let Some(at) = open.iter().position(|&first| elements.equal(first, id).is_ok()) {
            map.insert(id, open.remove(at));
        }
    }
    map
}

/// Whether a claim fails, so that the program stops whatever else is asked.
fn always(stops: &[Stop], plain: &mut dyn Facts) -> bool {
    let mut claims = stops.iter().filter_map(Stop::claim);
    claims.any(|claim| plain.decide(&claim.opposite()) == Answer::Proved)
}

/// The same, where the guards are decided.
fn same_stops_here(
    elements: &mut Elements,
    plain: &mut dyn Facts,
    before: &[Stop],
    after: &[Stop],
) -> Result<(), String> {
    let only = |these: &[Stop], those: &[Stop]| -> Vec<Stop> {
        these.iter().filter(|stop| !those.contains(stop)).cloned().collect()
    };
    let (first, second) = (only(before, after), only(after, before));
    let differ = !first.is_empty() || !second.is_empty();
    if differ && always(before, plain) && always(after, plain) {
        return Ok(());
    }
    // What both sides check holds afterwards on both.
    for stop in before.iter().filter(|stop| after.contains(stop)) {
        if let Stop::Claim(claim) = stop {
            plain.assume(claim.clone());
        }
    }
    let mut lists = Vec::new();
    for (stops, others) in [(first, after), (second, before)] {
        let mut list = Vec::new();
        for stop in stops {
            if let Stop::Claim(claim) = &stop
                && follows(claim, others, plain)
            {
                continue;
            }
            list.extend(elements.stops(&stop).map_err(said)?);
        }
        lists.push(list);
    }
    let operands = elements.operands();
    alike_stops(&lists[0], &lists[1], &mut *elements.facts, &operands)
}
