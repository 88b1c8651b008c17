//! Numbers of bytes as expressions of dims, compared for all dims.
//!
//! The same few sums come again and again in a plan, so each is kept once, with its value for a few
//! dims: what does not hold there is not asked, and what was asked is not asked again.

use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use relax_syntax::ir::Function;
use std::collections::{BTreeMap, BTreeSet};

/// A number of bytes: an index into [`Extents`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bytes(u32);

/// Each dim takes these values in turn, as far as what is declared of it allows.
const SAMPLES: [i64; 4] = [1, 13, 128, 1000];
/// For so many dims, one at a time is much greater and much smaller than all others.
const SKEWED: usize = 8;

/// The numbers of bytes of one function.
pub(crate) struct Extents<'f> {
    facts: &'f mut dyn Facts,
    samples: Vec<BTreeMap<Name, i64>>,
    exprs: Vec<Dim>,
    /// The value of each for each of the samples.
    values: Vec<Vec<i128>>,
    /// How many samples say what an arena costs. The others only show what is not at most something else.
    costs: usize,
    known: BTreeMap<Dim, Bytes>,
    sums: BTreeMap<(Bytes, Bytes), Bytes>,
    at_most: BTreeMap<(Bytes, Bytes), bool>,
}

/// What is declared of the symbolic variables of a function, and that each is at least 0.
pub(crate) fn declared(function: &Function) -> Vec<Claim> {
    let mut claims = Vec::new();
    for dim in &function.dims {
        let var = || Dim::Var(dim.name.clone());
        claims.push(Claim::new(dim.lower.unwrap_or(0).max(0), Relation::AtMost, var()));
        claims.extend(dim.upper.map(|upper| Claim::new(var(), Relation::AtMost, upper)));
        claims.extend(dim.multiple_of.map(|step| Claim::new(step, Relation::Divides, var())));
    }
    claims
}

impl<'f> Extents<'f> {
    /// For a function, whose facts `facts` has been told.
    pub(crate) fn of(function: &Function, facts: &'f mut dyn Facts) -> Self {
        let mut samples: Vec<_> = SAMPLES.iter().map(|value| sample(function, *value)).collect();
        let costs = samples.len();
        samples.extend(skewed(function));
        let (exprs, values) = (Vec::new(), Vec::new());
        let (known, sums, at_most) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut extents = Self { facts, samples, exprs, values, costs, known, sums, at_most };
        // 0 is always there, and the first.
        extents.intern(Dim::Int(0));
        extents
    }

    /// 0.
    pub(crate) fn zero() -> Bytes {
        Bytes(0)
    }

    /// An expression.
    pub(crate) fn bytes(&mut self, dim: &Dim) -> Bytes {
        if let Some(known) = self.known.get(dim) {
            return *known;
        }
        let canonical = self.facts.simplify(dim);
        let bytes = self.intern(canonical);
        self.known.insert(dim.clone(), bytes);
        bytes
    }

    fn intern(&mut self, dim: Dim) -> Bytes {
        if let Some(known) = self.known.get(&dim) {
            return *known;
        }
        let bytes = Bytes(u32::try_from(self.exprs.len()).expect("invariant: ids are u32"));
        let value = |sample: &BTreeMap<Name, i64>| {
            dim.eval(&|name| sample.get(name).copied()).map_or(i128::MAX / 4, i128::from)
        };
        self.values.push(self.samples.iter().map(value).collect());
        self.known.insert(dim.clone(), bytes);
        self.exprs.push(dim);
        bytes
    }

    /// As an expression.
    pub(crate) fn dim(&self, bytes: Bytes) -> &Dim {
        &self.exprs[bytes.0 as usize]
    }

    /// The values for the samples by which costs are compared.
    pub(crate) fn values(&self, bytes: Bytes) -> &[i128] {
        &self.values[bytes.0 as usize][..self.costs]
    }

    /// `a + b`
    pub(crate) fn sum(&mut self, a: Bytes, b: Bytes) -> Bytes {
        let key = (a.min(b), a.max(b));
        if let Some(known) = self.sums.get(&key) {
            return *known;
        }
        let dim = Dim::op(DimOp::Add, self.dim(key.0).clone(), self.dim(key.1).clone());
        let sum = self.bytes(&dim);
        self.sums.insert(key, sum);
        sum
    }

    /// `a - b`, which is known not to be negative.
    pub(crate) fn difference(&mut self, a: Bytes, b: Bytes) -> Bytes {
        let dim = Dim::op(DimOp::Sub, self.dim(a).clone(), self.dim(b).clone());
        self.bytes(&dim)
    }

    /// The largest of some: those that are at most another one are left out. `None` where the others together are longer
    /// expressions than `longest`.
    pub(crate) fn largest(&mut self, of: &BTreeSet<Bytes>, longest: usize) -> Option<Bytes> {
        let mut kept: Vec<Bytes> = Vec::new();
        for &next in of {
            if kept.iter().any(|&other| self.at_most(next, other)) {
                continue;
            }
            kept.retain(|&other| !self.at_most(other, next));
            kept.push(next);
        }
        if kept.iter().map(|&bytes| self.dim(bytes).size()).sum::<usize>() > longest {
            return None;
        }
        let dims: Vec<Dim> = kept.iter().map(|&bytes| self.dim(bytes).clone()).collect();
        let largest = dims.into_iter().reduce(|a, b| Dim::op(DimOp::Max, a, b));
        Some(largest.map_or(Self::zero(), |dim| self.bytes(&dim)))
    }

    /// Whether `a <= b` for all dims.
    pub(crate) fn at_most(&mut self, a: Bytes, b: Bytes) -> bool {
        if a == b || a == Self::zero() {
            return true;
        }
        let values = |bytes: Bytes| self.values[bytes.0 as usize].iter();
        if values(a).zip(values(b)).any(|(a, b)| a > b) {
            return false;
        }
        if let Some(known) = self.at_most.get(&(a, b)) {
            return *known;
        }
        let claim = Claim::new(self.dim(a).clone(), Relation::AtMost, self.dim(b).clone());
        let proved = self.facts.decide(&claim) == Answer::Proved;
        self.at_most.insert((a, b), proved);
        proved
    }

    /// Decides a claim.
    pub(crate) fn is_proved(&mut self, claim: &Claim) -> bool {
        self.facts.decide(claim) == Answer::Proved
    }
}

/// A value for each dim, near `value`; different dims differ now and then.
fn sample(function: &Function, value: i64) -> BTreeMap<Name, i64> {
    let dims = function.dims.iter().zip([0, 1, 2].into_iter().cycle());
    let values = dims.map(|(dim, third)| {
        let near = round_up(value + third * (value / 3), dim.multiple_of.unwrap_or(1).max(1));
        let near = near.min(dim.upper.unwrap_or(i64::MAX)).max(dim.lower.unwrap_or(0));
        (dim.name.clone(), near)
    });
    values.collect()
}

/// Samples in which one dim differs much from the others, as far as dims of parameters are at least 0 there.
fn skewed(function: &Function) -> Vec<BTreeMap<Name, i64>> {
    let mut extents = Vec::new();
    for &param in &function.lambda.params {
        function.param_annotation(param).visit_dims(&mut |dim: &Dim| extents.push(dim.clone()));
    }
    let (small, large) = (sample(function, SAMPLES[0]), sample(function, SAMPLES[3]));
    let mut samples = Vec::new();
    if function.dims.len() < 2 {
        return samples;
    }
    for dim in function.dims.iter().take(SKEWED) {
        for (one, others) in [(&large, &small), (&small, &large)] {
            let mut skewed = others.clone();
            skewed.insert(dim.name.clone(), one[&dim.name]);
            let value = |name: &Name| skewed.get(name).copied();
            if extents.iter().all(|extent| extent.eval(&value).map_or(true, |value| value >= 0)) {
                samples.push(skewed);
            }
        }
    }
    samples
}

fn round_up(value: i64, step: i64) -> i64 {
    let rest = value % step;
    if rest == 0 { value } else { value.saturating_add(step - rest) }
}
