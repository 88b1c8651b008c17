//! Which form at which dims: a list of guards, learned at samples. A guard is a comparison of two dims, or of one with
//! a number, or two of these; each takes the samples that no guard before it took.

use super::extract::Values;
use super::versions::Compared;
use crate::guarded::Guard;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::DimVar;
use std::collections::BTreeMap;

/// A guard with the form that it leads to, by its place among the candidates.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice {
    pub(super) guard: Guard,
    pub(super) form: usize,
}

/// Guards in order, then what is left.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choices {
    pub(super) guarded: Vec<Choice>,
    pub(super) otherwise: usize,
}

/// Numbers that each dim is compared with.
pub(super) type Numbers = BTreeMap<Name, Vec<i64>>;

/// Numbers that any dim is compared with.
const NUMBERS: [i64; 2] = [1, 64];
/// The most numbers that one dim is compared with.
const MOST_NUMBERS: usize = 6;

/// Dims at which forms are compared, and how much that counts.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) values: Values,
    pub(super) weight: f64,
}

/// Samples that count alike.
pub(super) fn alike(samples: Vec<Values>) -> Vec<Sample> {
    samples.into_iter().map(|values| Sample { values, weight: 1.0 }).collect()
}

/// A form that may be chosen.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    /// The logarithm of its cost at each sample, times the weight of that.
    pub(super) costs: Vec<f64>,
    /// Without which it is not right.
    pub(super) requires: Guard,
}

/// The numbers that a dim is compared with where nothing more is known.
pub(super) fn usual_numbers(dims: &[DimVar]) -> Numbers {
    dims.iter().map(|dim| (dim.name.clone(), NUMBERS.to_vec())).collect()
}

/// Notes a number for a dim, if there are not too many.
pub(super) fn note_number(numbers: &mut Numbers, dim: &Name, number: i64) {
    let known = numbers.entry(dim.clone()).or_default();
    if known.len() < MOST_NUMBERS && !known.contains(&number) {
        known.push(number);
    }
}

/// Learns guards.
pub(super) fn learn(found: &Compared, dims: &[DimVar], most: usize) -> Choices {
    let Compared { looked_at: samples, offers, numbers, worth, .. } = found;
    let mut without = found.without;
    let guards = guards(dims, numbers, offers);
    let mut left: Vec<usize> = (0..samples.len()).collect();
    let weight = |left: &[usize]| left.iter().map(|&at| samples[at].weight).sum::<f64>();
    let all = weight(&left);
    let mut guarded = Vec::new();
    while guarded.len() + 1 < most {
        let now = without.take().unwrap_or_else(|| best(offers, &left, &[]).1);
        let mut found: Option<(f64, Choice)> = None;
        for guard in &guards {
            let (inside, outside): (Vec<usize>, Vec<usize>) =
                left.iter().partition(|&&at| holds(guard, &samples[at].values));
            if inside.is_empty() || outside.is_empty() {
                continue;
            }
            let ((form, a), (_, b)) = (best(offers, &inside, guard), best(offers, &outside, &[]));
            // A guard of two parts must be worth the second.
            let cost = a + b + 0.01 * (guard.len() as f64 - 1.0) * weight(&left);
            if found.as_ref().is_none_or(|(known, _)| cost < *known - 1e-9) {
                found = Some((cost, Choice { guard: guard.clone(), form }));
            }
        }
        let Some((cost, choice)) = found else { break };
        // Costs that are not known have no difference.
        let gain = now - cost;
        if gain.is_nan() || gain < worth * all {
            break;
        }
        left.retain(|&at| !holds(&choice.guard, &samples[at].values));
        guarded.push(choice);
    }
    let (otherwise, _) = best(offers, &left, &[]);
    Choices { guarded, otherwise }
}

/// The form that costs least at some samples, of those that are right where a guard holds.
fn best(offers: &[Offer], at: &[usize], guard: &[Claim]) -> (usize, f64) {
    let mut best = (0, f64::INFINITY);
    for (form, offer) in offers.iter().enumerate() {
        if !offer.requires.iter().all(|claim| guard.contains(claim)) {
            continue;
        }
        let cost = at.iter().map(|&sample| offer.costs[sample]).sum::<f64>();
        if cost < best.1 - 1e-9 {
            best = (form, cost);
        }
    }
    best
}

/// Whether all parts of a guard hold.
pub(super) fn holds(guard: &Guard, values: &Values) -> bool {
    guard.iter().all(|claim| claim.holds(values) == Some(true))
}

/// Comparisons of the dims of a signature, alone and in pairs, and what forms require, alone and with one of these.
fn guards(dims: &[DimVar], numbers: &Numbers, offers: &[Offer]) -> Vec<Guard> {
    let free = dims.iter().filter(|dim| dim.in_signature).take(5);
    let names: Vec<&Name> = free.map(|dim| &dim.name).collect();
    let mut claims = Vec::new();
    for a in &names {
        let dim = Dim::Var((*a).clone());
        for b in names.iter().filter(|b| a != *b) {
            claims.push(Claim::new(dim.clone(), Relation::AtMost, Dim::Var((*b).clone())));
        }
        for &number in numbers.get(*a).into_iter().flatten() {
            claims.push(Claim::new(dim.clone(), Relation::AtMost, number));
        }
    }
    let mut guards: Vec<Guard> = claims.iter().map(|claim| vec![claim.clone()]).collect();
    for (at, a) in claims.iter().enumerate() {
        for b in &claims[at + 1..] {
            guards.push(vec![a.clone(), b.clone()]);
        }
    }
    for requires in offers.iter().map(|offer| &offer.requires).filter(|guard| !guard.is_empty()) {
        let with = claims.iter().filter(|claim| !requires.contains(claim)).map(|claim| {
            let mut guard = requires.clone();
            guard.push(claim.clone());
            guard
        });
        guards.push(requires.clone());
        guards.extend(with);
    }
    guards
}

#[cfg(test)]
mod tests {
    use super::*;
    use relax_syntax::span::Span;

    /// Two forms at two sizes of one dim.
    fn chosen(costs: [[f64; 2]; 2]) -> Choices {
        let values = |size| Values::from([(Name::new("n"), size)]);
        let (name, in_signature, span) = (Name::new("n"), true, Span::default());
        let dims =
            [DimVar { name, in_signature, lower: None, upper: None, multiple_of: None, span }];
        let offers = costs.map(|costs| Offer { costs: costs.to_vec(), requires: Guard::new() });
        let found = Compared {
            candidates: Vec::new(),
            samples: Vec::new(),
            looked_at: alike(vec![values(8), values(1024)]),
            offers: offers.to_vec(),
            numbers: usual_numbers(&dims),
            without: None,
            worth: 0.1,
        };
        learn(&found, &dims, 4)
    }

    #[test]
    fn costs_that_are_not_known_choose_nothing() {
        assert_eq!(chosen([[1.0, 3.0], [3.0, 1.0]]).guarded.len(), 1);
        assert!(chosen([[f64::INFINITY; 2]; 2]).guarded.is_empty());
    }
}
