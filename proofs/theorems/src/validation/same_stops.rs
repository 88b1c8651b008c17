//! Whether two programs stop alike.

use super::prove::Elements;
use super::stops::{self, Stop};
use crate::denotation::theorem::{alike_stops, said};
use relax_syntax::facts::{Answer, Claim, Facts};

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

/// Both sides stop the program alike: in each case of the claims that branches ask.
pub(super) fn same_stops(
    elements: &mut Elements,
    plain: &mut dyn Facts,
    before: &[Stop],
    after: &[Stop],
) -> Result<(), String> {
    let differ = |one: &[Stop], other: &[Stop]| one.iter().any(|stop| !other.contains(stop));
    let guards = stops::guards(before.iter().chain(after));
    if guards.len() > MOST_GUARDS || !(differ(before, after) || differ(after, before)) {
        return same_stops_here(elements, plain, before, after);
    }
    for case in 0_usize..1 << guards.len() {
        let claims = guards
            .iter()
            .enumerate()
            .map(|(at, claim)| if case >> at & 1 == 1 { claim.clone() } else { claim.opposite() });
        let known: Vec<Claim> = claims.collect();
        plain.push();
        elements.facts.push();
        for claim in &known {
            plain.assume(claim.clone());
            elements.facts.assume(claim.clone());
        }
        let never = plain.decide(&stops::never()) == Answer::Proved;
        let [one, other] = [before, after].map(|stops| stops::where_holds(stops, &known));
        let found = if never { Ok(()) } else { same_stops_here(elements, plain, &one, &other) };
        elements.facts.pop();
        plain.pop();
        found?;
    }
    Ok(())
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
    // What both sides check holds afterwards on both.
    for stop in before.iter().filter(|stop| after.contains(stop)) {
        if let Stop::Claim(claim) = stop {
            plain.assume(claim.clone());
        }
    }
    let mut lists = Vec::new();
    for (stops, others) in [(only(before, after), after), (only(after, before), before)] {
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
    let bools = elements.bools();
    alike_stops(&lists[0], &lists[1], &mut *elements.facts, &bools)
}
