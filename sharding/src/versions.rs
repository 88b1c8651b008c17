//! Plans of a function for different sizes, and the conditions on dims that choose among them.
//!
//! Which layouts move the fewest bytes may depend on the dims and on the number of ranks: few rows go to the weights, of many rows the
//! weights come to them. Plans are made at several sizes. Of those that move the fewest bytes at one of them each becomes a version,
//! with a guard that compares the polynomials of their bytes (multi-versioning; BladeDISC §5 for kernels). A guard decides speed only.

use crate::propagate::{Known, Plan, planned};
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_syntax::ir::{Function, Module};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Versions that a function has, at most.
pub const MOST_VERSIONS: usize = 4;
/// Symbolic dims whose sizes are varied, at most: plans are made at two sizes of each.
const MOST_VARIED: usize = 8;
/// Sizes beside those at which costs are compared by default.
const SIZES: [i64; 2] = [1, 1 << 16];
/// Plans that are made where two others cross along a dim, at most.
const MOST_BETWEEN: usize = 6;
/// A version saves at least one of so many bytes somewhere.
const LEAST_GAIN: i128 = 8;
/// Parts in which savings are compared.
const PARTS: i128 = 1 << 20;

/// A plan, and where it is taken.
#[derive(Clone, Debug)]
pub struct Version {
    /// What must hold, all of it: the bytes are fewer than those of each plan that comes later.
    pub guard: Vec<Claim>,
    /// The layouts and redistributions.
    pub plan: Plan,
}

/// The plan of `sizes`, and those that move fewer bytes at other sizes: each is taken where its guard holds and none before it.
///
/// # Errors
/// What is not supported, with its place.
pub fn versions(
    module: &Module,
    function: &Function,
    sizes: &BTreeMap<Name, i64>,
    facts: &mut dyn Facts,
) -> Result<(Vec<Version>, Plan), Diagnostic> {
    let (known, found) = (Known::default(), Vec::new());
    let mut search = Search { module, function, given: sizes, known, found, facts };
    search.plan(&BTreeMap::new())?;
    let base = &search.found[0].plan;
    let is_told = |name: &Name| function.dim(name).is_none_or(|dim| dim.in_signature);
    let free = base.samples.keys().filter(|name| !sizes.contains_key(*name) && is_told(name));
    let free: Vec<(Name, i64)> =
        free.take(MOST_VARIED).map(|name| (name.clone(), base.samples[name])).collect();
    for (name, middle) in &free {
        search.along(name, *middle)?;
    }
    for size in SIZES {
        let all = free.iter().map(|(name, _)| (name.clone(), search.admitted(name, size)));
        search.plan(&all.collect())?;
    }
    let mut found = search.found;
    let kept = cheapest(&found);
    let guarded = kept.iter().enumerate().filter(|(_, plan)| **plan != 0).map(|(at, &plan)| {
        let later = &kept[at + 1..];
        let own = &found[plan];
        let guard = later.iter().map(|&other| own.cost.less_than(&found[other].cost)).collect();
        Version { guard, plan: own.plan.clone() }
    });
    Ok((guarded.collect(), found.swap_remove(0).plan))
}

/// A plan with the bytes that it moves.
struct Found {
    plan: Plan,
    cost: Sum,
}

struct Search<'a> {
    module: &'a Module,
    function: &'a Function,
    given: &'a BTreeMap<Name, i64>,
    known: Known,
    /// The first one is that of the sizes that are given.
    found: Vec<Found>,
    facts: &'a mut dyn Facts,
}

impl Search<'_> {
    /// The number of the plan for other sizes of some dims.
    fn plan(&mut self, others: &BTreeMap<Name, i64>) -> Result<usize, Diagnostic> {
        let mut sizes = self.given.clone();
        sizes.extend(others.clone());
        let plan = planned(self.module, self.function, &sizes, &self.known, self.facts)?;
        let cost = Sum::of(&plan.cost());
        self.found.push(Found { plan, cost });
        Ok(self.found.len() - 1)
    }

    /// Plans along a dim, those of the others at their samples: at two sizes around the sample, and where one of two plans begins to move
    /// fewer bytes than the other, for a third one may move fewer than both there.
    fn along(&mut self, name: &Name, middle: i64) -> Result<(), Diagnostic> {
        let mut between = Vec::new();
        for size in SIZES.map(|size| self.admitted(name, size)) {
            if size != middle {
                let own = (size, self.plan(&BTreeMap::from([(name.clone(), size)]))?);
                between.push(if size < middle { [own, (middle, 0)] } else { [(middle, 0), own] });
            }
        }
        let most = self.found.len() + MOST_BETWEEN;
        while let Some([(low, first), (high, last)]) = between.pop() {
            if self.found[first].cost == self.found[last].cost || self.found.len() >= most {
                continue;
            }
            let size = self.admitted(name, self.crossing(name, (low, first), (high, last)));
            if size <= low || size >= high {
                continue;
            }
            let own = self.plan(&BTreeMap::from([(name.clone(), size)]))?;
            let at = self.found[own].plan.samples.clone();
            let cost = |plan: usize| self.found[plan].cost.at(&at);
            if cost(own) < cost(first).min(cost(last)) {
                between.extend([[(low, first), (size, own)], [(size, own), (high, last)]]);
            }
        }
        Ok(())
    }

    /// A size from which on the plan for a larger one moves no more bytes than that for a smaller one.
    fn crossing(&self, name: &Name, (low, first): (i64, usize), (high, last): (i64, usize)) -> i64 {
        let mut sizes = self.found[0].plan.samples.clone();
        let (mut low, mut high) = (low, high);
        while high - low > 1 {
            let size = low + (high - low) / 2;
            sizes.insert(name.clone(), size);
            match self.found[last].cost.at(&sizes) <= self.found[first].cost.at(&sizes) {
                true => high = size,
                false => low = size,
            }
        }
        high
    }

    /// The size next to one that a dim, or the extent of an axis of a mesh, may have.
    fn admitted(&self, name: &Name, size: i64) -> i64 {
        if self.found[0].plan.axes.variables().any(|own| own == name) {
            // More ranks than this are rare, and with one nothing is moved.
            return size.clamp(2, 64);
        }
        let Some(dim) = self.function.dim(name) else { return size };
        let (lower, upper) = (dim.lower.unwrap_or(0), dim.upper.unwrap_or(i64::MAX));
        let step = dim.multiple_of.filter(|step| *step > 0).unwrap_or(1);
        size.min(upper).max(lower).saturating_add(step - 1) / step * step
    }
}

/// The numbers of the plans that move the fewest bytes at one of the places where plans were made: first the one that saves the most
/// beside all that come later. The last one is the first of all.
fn cheapest(found: &[Found]) -> Vec<usize> {
    let mut kept = vec![0];
    while kept.len() < MOST_VERSIONS {
        // What a plan saves beside the best of those that are kept.
        let saved = |own: &Found, at: &BTreeMap<Name, i64>| {
            let own = own.cost.at(at);
            let least =
                kept.iter().map(|&plan: &usize| found[plan].cost.at(at)).min().unwrap_or(own);
            let gain = least.saturating_sub(own);
            let is_enough = gain > 0 && gain.saturating_mul(LEAST_GAIN) >= least;
            is_enough.then(|| gain.saturating_mul(PARTS) / least)
        };
        let best = found.iter().enumerate().filter_map(|(number, own)| {
            let places = found.iter().map(|other| &other.plan.samples);
            let most = places.filter_map(|at| saved(own, at)).max()?;
            Some((most, Reverse(number)))
        });
        let Some((_, Reverse(number))) = best.max() else { break };
        kept.insert(0, number);
    }
    kept
}

/// Factors with their powers; those of denominators are negative.
type Factors = BTreeMap<Dim, i64>;

/// A sum of products of dims, in which a quotient counts as exact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sum(BTreeMap<Factors, i128>);

impl Sum {
    fn of(dim: &Dim) -> Self {
        let mut sum = Self::default();
        match dim {
            Dim::Op(DimOp::Add, sides) => {
                sum.add(Self::of(&sides.0), 1);
                sum.add(Self::of(&sides.1), 1);
            }
            product => {
                let (mut factors, mut literal) = (Factors::new(), 1);
                multiplied(product, 1, &mut factors, &mut literal);
                sum.add(Self(BTreeMap::from([(factors, literal)])), 1);
            }
        }
        sum
    }

    fn add(&mut self, other: Self, times: i128) {
        for (factors, literal) in other.0 {
            let own = self.0.entry(factors).or_default();
            *own = own.saturating_add(literal.saturating_mul(times));
        }
        self.0.retain(|_, literal| *literal != 0);
    }

    /// The value at sizes of all variables.
    fn at(&self, sizes: &BTreeMap<Name, i64>) -> i128 {
        let value = |dim: &Dim| {
            dim.eval(&|name| sizes.get(name).copied()).map_or(i128::from(i64::MAX), i128::from)
        };
        let term = |(factors, literal): (&Factors, &i128)| {
            let (mut over, mut under) = (*literal, 1_i128);
            for (factor, power) in factors {
                let own = if *power < 0 { &mut under } else { &mut over };
                (0..power.abs()).for_each(|_| *own = own.saturating_mul(value(factor)));
            }
            over / under.max(1)
        };
        self.0.iter().map(term).fold(0, i128::saturating_add)
    }

    /// The comparison of two sums of bytes, without what both have. No factor is negative, so a factor of all terms does not matter.
    fn less_than(&self, other: &Self) -> Claim {
        let mut difference = self.clone();
        difference.add(other.clone(), -1);
        let common = |factor: &Dim| {
            let powers =
                difference.0.keys().map(|own| own.get(factor).copied().unwrap_or_default());
            powers.min().unwrap_or_default()
        };
        let factors: BTreeSet<&Dim> = difference.0.keys().flat_map(BTreeMap::keys).collect();
        let common: Factors =
            factors.into_iter().map(|factor| (factor.clone(), common(factor))).collect();
        let literal = difference.0.values().fold(0, |own, literal| gcd(own, literal.abs()));
        let mut sides = [Vec::new(), Vec::new()];
        for (factors, own) in &difference.0 {
            let all: BTreeSet<&Dim> = factors.keys().chain(common.keys()).collect();
            let power = |factor: &Dim| {
                let of = |own: &Factors| own.get(factor).copied().unwrap_or_default();
                usize::try_from(of(factors) - of(&common)).unwrap_or_default()
            };
            let dims = all.into_iter().flat_map(|factor| vec![factor.clone(); power(factor)]);
            let literal = i64::try_from(own.abs() / literal.max(1)).unwrap_or(i64::MAX);
            let dims: Vec<Dim> = dims.collect();
            let term = match (literal, dims.is_empty()) {
                (literal, true) => Dim::Int(literal),
                (1, false) => Dim::product(&dims),
                (literal, false) => Dim::op(DimOp::Mul, Dim::Int(literal), Dim::product(&dims)),
            };
            sides[usize::from(*own < 0)].push(term);
        }
        let [left, right] = sides.map(|terms| {
            let sum = terms.into_iter().reduce(|a, b| Dim::op(DimOp::Add, a, b));
            sum.unwrap_or(Dim::Int(0))
        });
        Claim::new(left, Relation::Less, right)
    }
}

/// Multiplies factors by a product, or by 1 over it.
fn multiplied(dim: &Dim, power: i64, factors: &mut Factors, literal: &mut i128) {
    match dim {
        Dim::Op(DimOp::Mul, sides) => {
            multiplied(&sides.0, power, factors, literal);
            multiplied(&sides.1, power, factors, literal);
        }
        Dim::Op(DimOp::FloorDiv, sides) if power == 1 => {
            multiplied(&sides.0, 1, factors, literal);
            multiplied(&sides.1, -1, factors, literal);
        }
        Dim::Int(own) if power == 1 => *literal = literal.saturating_mul(i128::from(*own)),
        other => {
            let own = factors.entry(other.clone()).or_default();
            *own += power;
            if *own == 0 {
                factors.remove(other);
            }
        }
    }
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}
