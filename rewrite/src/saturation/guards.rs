//! Which form at which dims: a list of guards, learned at samples. A guard is a comparison of two dims, or of one with
//! a number, or two of these; each takes the samples that no guard before it took.

use super::extract::Values;
use crate::guarded::Guard;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::DimVar;

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

/// Numbers that a dim is compared with.
const NUMBERS: [i64; 2] = [1, 64];
/// The mean gain, as a part of the cost, for which one more version is worth its code.
const WORTH: f64 = 0.05;

/// A form that may be chosen.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    /// The logarithm of its cost at each sample.
    pub(super) costs: Vec<f64>,
    /// Without which it is not right.
    pub(super) requires: Guard,
}

/// Learns guards.
pub(super) fn learn(samples: &[Values], offers: &[Offer], dims: &[DimVar], most: usize) -> Choices {
    let guards = guards(dims, offers);
    let mut left: Vec<usize> = (0..samples.len()).collect();
    let mut guarded = Vec::new();
    while guarded.len() + 1 < most {
        let (_, now) = best(offers, &left, &[]);
        let mut found: Option<(f64, Choice)> = None;
        for guard in &guards {
            let (inside, outside): (Vec<usize>, Vec<usize>) =
                left.iter().partition(|&&at| holds(guard, &samples[at]));
            if inside.is_empty() || outside.is_empty() {
                continue;
            }
            let ((form, a), (_, b)) = (best(offers, &inside, guard), best(offers, &outside, &[]));
            // A guard of two parts must be worth the second.
            let cost = a + b + 0.01 * (guard.len() as f64 - 1.0) * left.len() as f64;
            if found.as_ref().is_none_or(|(known, _)| cost < *known - 1e-9) {
                found = Some((cost, Choice { guard: guard.clone(), form }));
            }
        }
        let Some((cost, choice)) = found else { break };
        if now - cost < WORTH * samples.len() as f64 {
            break;
        }
        left.retain(|&at| !holds(&choice.guard, &samples[at]));
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
fn guards(dims: &[DimVar], offers: &[Offer]) -> Vec<Guard> {
    let names: Vec<Dim> = dims
        .iter()
        .filter(|dim| dim.in_signature)
        .take(5)
        .map(|dim| Dim::var(dim.name.clone()))
        .collect();
    let mut claims = Vec::new();
    for a in &names {
        for b in &names {
            if a != b {
                claims.push(Claim::new(a.clone(), Relation::AtMost, b.clone()));
            }
        }
        for number in NUMBERS {
            claims.push(Claim::new(a.clone(), Relation::AtMost, number));
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
