//! What may become a version of a function: forms that are cheap at some dims, which are right for all, and forms
//! under a guard that a rule needed and nobody could decide.
//!
//! A form under a guard is kept where it is proved to cost no more than the form for all dims wherever the guard
//! holds. It is a function of its own ([`crate::guarded::specialize`]), checked and searched like any other.

use super::cost::Cost;
use super::extract::Values;
use super::guards::{Offer, holds};
use super::polynomial::Polynomial;
use super::samples;
use super::solve::Solved;
use super::undecided::undecided;
use super::walk::{Engine, Extraction};
use crate::dims::assume_declared;
use crate::guarded::specialize::{Specialized, specialize};
use crate::guarded::{Guard, make_private};
use crate::names::Names;
use relax_semantics::check::{Phase, check};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::Facts;
use relax_syntax::ir::{Definition, DimVar, Function, Module};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A form of a whole function.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) source: Source,
    /// What its regions cost.
    pub(super) cost: Cost,
    /// What is compared with the prices of others of the function, before fusion.
    pub(super) price: Dim,
    /// Without which it is not right.
    pub(super) requires: Guard,
}

/// How a form is made.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// By extraction at this sample.
    Sample(usize),
    /// It is at hand.
    Made(Box<Function>),
}

/// The most samples at which each guard is looked at from its other side.
const MOST_ACROSS: usize = 81;

impl Engine<'_> {
    /// Forms that are cheap at samples. What was visited stays.
    pub(super) fn cheap_at(&mut self, function: &Function, samples: &[Values]) -> Vec<Candidate> {
        self.take(Extraction::Sample(0), samples.to_vec());
        self.function(function);
        let visited = self.visited().to_vec();
        let mut found: Vec<(Vec<usize>, Candidate)> = Vec::new();
        // Where several ways of pricing are tried, each sample has a form for each of them.
        let tried = visited.iter().map(|solved| solved.at.len()).min().unwrap_or(samples.len());
        for at in 0..tried {
            let picks: Vec<usize> = visited.iter().map(|solved| solved.at[at]).collect();
            if found.iter().all(|(known, _)| *known != picks) {
                let cost = cost_of(&visited, |place, _| picks[place]);
                let (source, price) = (Source::Sample(at), cost.total());
                found.push((picks, Candidate { source, cost, price, requires: Guard::new() }));
            }
        }
        found.into_iter().map(|(_, candidate)| candidate).collect()
    }

    /// Forms under guards that rules needed at the regions that were visited.
    pub(super) fn cheap_under(
        &mut self,
        function: &Function,
        samples: &[Values],
    ) -> Vec<Candidate> {
        let visited = self.visited().to_vec();
        let guards = undecided(function, &visited, self.facts());
        guards
            .into_iter()
            .filter_map(|guard| self.under(function, &visited, guard, samples))
            .collect()
    }

    fn under(
        &mut self,
        function: &Function,
        visited: &[Rc<Solved>],
        guard: Guard,
        samples: &[Values],
    ) -> Option<Candidate> {
        let mut special = specialize(function, &guard)?;
        let (checked, facts, options, kind) = self.search_again()?;
        special.function.name = Names::of(&checked.module).fresh(&function.name);
        make_private(&mut special.function);
        let mut module: Module = checked.module.clone();
        module.definitions.push(Definition::Graph(special.function.clone()));
        let checked = check(&module, facts, Phase::P0);
        if !checked.is_ok() {
            return None;
        }
        let own = checked.module.function(&special.function.name)?.clone();
        let mut engine = Engine::new(&checked, &mut *facts, options, kind, Extraction::Cheapest);
        engine.assume(special.assumed.clone());
        let made = engine.function(&own);
        let again = engine.visited().to_vec();
        let general = saving(visited);
        let saved = saving(&again);
        let less = is_at_most(&special, &general, &saved, facts)
            && is_less_somewhere(&guard, function, (&general, &saved), samples);
        let as_written = cost_of(visited, |_, _| 0).total();
        let price = Dim::op(DimOp::Sub, as_written, saved);
        let cost = cost_of(&again, |_, solved| solved.always);
        less.then(|| Candidate {
            source: Source::Made(Box::new(made)),
            cost,
            price,
            requires: guard,
        })
    }
}

/// Whether more is saved at some dims at which the guard holds.
fn is_less_somewhere(
    guard: &Guard,
    function: &Function,
    (general, saved): (&Dim, &Dim),
    samples: &[Values],
) -> bool {
    let at = |dim: &Dim, values: &Values| dim.eval(&|name| values.get(name).copied()).ok();
    let more = |values: &Values| match (at(general, values), at(saved, values)) {
        (Some(general), Some(saved)) => saved > general,
        _ => false,
    };
    samples.iter().any(|values| {
        if holds(guard, values) {
            return more(values);
        }
        samples::across(&function.dims, guard, values).is_some_and(|values| more(&values))
    })
}

/// What the forms of some regions cost.
fn cost_of(visited: &[Rc<Solved>], form: impl Fn(usize, &Solved) -> usize) -> Cost {
    let costs = visited.iter().enumerate().map(|(at, solved)| &solved.forms[form(at, solved)].cost);
    costs.fold(Cost::zero(), |sum, cost| sum.plus(cost))
}

/// What the forms that are right and cheap for all dims save.
fn saving(visited: &[Rc<Solved>]) -> Dim {
    let written = cost_of(visited, |_, _| 0).total();
    let cheapest = cost_of(visited, |_, solved| solved.always).total();
    Dim::op(DimOp::Sub, written, cheapest)
}

/// Whether one number of dims is proved to be at most another wherever the guard holds and no dim is 0.
fn is_at_most(special: &Specialized, a: &Dim, b: &Dim, facts: &mut dyn Facts) -> bool {
    facts.push();
    assume_declared(facts, &special.function.dims);
    // What is a multiple is written as one, so that quotients of it are no unknowns.
    let whole = |dim: &&DimVar| dim.multiple_of.is_some_and(|step| step > 1);
    let multiples = special.function.dims.iter().filter(whole).map(|dim| {
        let step = Dim::Int(dim.multiple_of.unwrap_or(1));
        (dim.name.clone(), Dim::op(DimOp::Mul, step, Dim::Var(dim.name.clone())))
    });
    let multiples: BTreeMap<Name, Dim> = multiples.collect();
    let [a, b] = [a, b].map(|dim| {
        let dim = dim.substitute(&special.dims).substitute(&multiples);
        Polynomial::of(&facts.simplify(&dim))
    });
    facts.pop();
    let least = |name: &Name| {
        let dim = special.function.dims.iter().find(|dim| dim.name == *name);
        let lower = dim.and_then(|dim| dim.lower).unwrap_or(0).max(1);
        if multiples.contains_key(name) { 1 } else { lower }
    };
    a.is_at_most(&b, &least)
}

/// The samples, and for each guard some from its other side.
pub(super) fn on_both_sides(
    function: &Function,
    samples: &[Values],
    candidates: &[Candidate],
) -> Vec<Values> {
    let mut all = samples.to_vec();
    for guard in candidates.iter().map(|candidate| &candidate.requires) {
        if guard.is_empty() {
            continue;
        }
        let across = samples.iter().take(MOST_ACROSS);
        all.extend(across.filter_map(|values| samples::across(&function.dims, guard, values)));
    }
    all
}

/// What each candidate costs at each sample, to choose among them.
pub(super) fn offers(candidates: &[Candidate], samples: &[Values]) -> Vec<Offer> {
    let of = |candidate: &Candidate| {
        let at = |values: &Values| {
            let value = candidate.price.eval(&|name| values.get(name).copied());
            (value.unwrap_or(i64::MAX).max(1) as f64).ln()
        };
        let requires = candidate.requires.clone();
        Offer { costs: samples.iter().map(at).collect(), requires }
    };
    candidates.iter().map(of).collect()
}
