//! Brute force: a small grid of values and random points, on which the facts hold and the goal fails or has no value.

use crate::draw::Question;
use relax_symbolic::claims::Formula;
use relax_syntax::Name;
use relax_syntax::facts::Counterexample;
use std::collections::BTreeSet;

/// Values of the grid for each of at most three variables.
const GRID: std::ops::RangeInclusive<i64> = -3..=5;
/// Random points, half of them near 0.
const POINTS: u64 = 600;

/// Values of the variables for which the claim does not hold, where one was found.
pub(crate) fn counterexample(question: &Question) -> Option<Counterexample> {
    let names = variables(question);
    let fails = |values: &Counterexample| {
        satisfies(question, values) && question.goal.holds(values) != Some(true)
    };
    let named = |values: &[i64]| -> Counterexample {
        names.iter().cloned().zip(values.iter().copied()).collect()
    };
    let mut points = grid(if names.len() <= 3 { names.len() } else { 0 });
    points.extend((0..POINTS).map(|point| random_point(point, names.len())));
    points.into_iter().map(|point| named(&point)).find(fails)
}

/// Whether the facts hold and the goal fails for these values, with 0 for variables that are left out.
pub(crate) fn refutes(question: &Question, values: &Counterexample) -> bool {
    let mut values = values.clone();
    variables(question).into_iter().for_each(|name| _ = values.entry(name).or_insert(0));
    satisfies(question, &values) && question.goal.holds(&values) == Some(false)
}

fn satisfies(question: &Question, values: &Counterexample) -> bool {
    question.facts.iter().all(|fact| fact.holds(values) == Some(true))
}

fn variables(question: &Question) -> Vec<Name> {
    let mut names = BTreeSet::new();
    for formula in question.facts.iter().chain([&question.goal]) {
        collect(formula, &mut names);
    }
    names.into_iter().collect()
}

fn collect(formula: &Formula, names: &mut BTreeSet<Name>) {
    match formula {
        Formula::True | Formula::False => {}
        Formula::Claim(claim) => {
            for side in [&claim.left, &claim.right] {
                side.visit_vars(&mut |name| _ = names.insert(name.clone()));
            }
        }
        Formula::And(parts) | Formula::Or(parts) => {
            parts.iter().for_each(|part| collect(part, names));
        }
        Formula::Not(operand) => collect(operand, names),
        Formula::Implies(parts) => {
            collect(&parts.0, names);
            collect(&parts.1, names);
        }
    }
}

fn grid(dims: usize) -> Vec<Vec<i64>> {
    let mut points = vec![Vec::new()];
    for _ in 0..dims {
        let longer = |point: &Vec<i64>| {
            let point = point.clone();
            GRID.map(move |value| [point.as_slice(), &[value]].concat())
        };
        points = points.iter().flat_map(longer).collect();
    }
    points.retain(|point| point.len() == dims && dims > 0);
    points
}

fn random_point(point: u64, count: usize) -> Vec<i64> {
    let mut state = point.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        i64::try_from(state >> 40).expect("24 bits")
    };
    let (low, width) = if point.is_multiple_of(2) { (-4, 11) } else { (0, 60) };
    (0..count).map(|_| low + next() % width).collect()
}
