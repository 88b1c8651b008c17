//! The search for small assignments that satisfy all facts and make a formula fail. What it returns
//! was evaluated on the claims as they were given, with the semantics of dims, so it is never wrong.

use crate::atoms::{Atom, Atoms};
use crate::claims::Formula;
use crate::context::Context;
use crate::engine::Engine;
use crate::polynomial::{AtomId, Poly};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Counterexample};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many assignments are looked at, in each stage.
const SMALL_STEPS: u32 = 500;
const WIDE_STEPS: u32 = 1500;
const RANDOM_STEPS: u32 = 800;

/// What variables that no fact has mentioned are tried with.
const FIRST_VALUES: [i64; 4] = [1, 2, 8, 0];

/// How hard to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// A handful of tiny assignments.
    Glance,
    /// Everything within the limits.
    Full,
}

/// What an assignment that satisfies the facts must do to be what is looked for.
type Wanted<'a> = &'a dyn Fn(&Counterexample) -> bool;

/// What is looked for.
#[derive(Clone, Copy)]
struct Target<'a> {
    /// What it is about: its literals are tried.
    formula: &'a Formula,
    wanted: Wanted<'a>,
}

/// The variables that are chosen, those that follow, and what must hold.
struct Search<'a> {
    atoms: &'a Atoms,
    /// Chosen one after the other.
    free: Vec<AtomId>,
    /// For each position in `free`, the variables whose values are known after it.
    follows: Vec<Vec<(Name, Poly)>>,
    /// For each position in `free`, the facts that can be evaluated after it.
    facts: Vec<Vec<&'a Claim>>,
    wanted: Wanted<'a>,
    chosen: BTreeMap<AtomId, i128>,
    values: Counterexample,
    steps: u32,
}

impl Engine {
    /// An assignment of the variables of the facts and of `formula` under which the facts hold and
    /// `formula` has a value and fails.
    pub(crate) fn counterexample(
        &mut self,
        context: &Context,
        formula: &Formula,
        effort: Effort,
    ) -> Option<Counterexample> {
        let mut names = BTreeSet::new();
        formula.visit_dims(&mut |dim| dim.visit_vars(&mut |name| _ = names.insert(name.clone())));
        let mut others: Vec<&Claim> = context.claims.iter().collect();
        let facts = connected(&mut names, &mut others);
        let base = match &context.model {
            _ if others.is_empty() => Counterexample::new(),
            Some(model) => {
                let rest = model.iter().filter(|(name, _)| !names.contains(*name));
                rest.map(|(name, value)| (name.clone(), *value)).collect()
            }
            None => self.witness(context, &others, effort)?,
        };
        let wanted = &|values: &Counterexample| formula.holds(values) == Some(false);
        self.search(context, &names, &facts, Target { formula, wanted }, effort, base)
    }

    /// An assignment under which the facts hold and that is `wanted`, tried from the ends of the
    /// ranges of the variables and from `more` values on, the widest first.
    pub(crate) fn extreme_example(
        &mut self,
        context: &Context,
        formula: &Formula,
        more: &[i128],
        wanted: Wanted<'_>,
    ) -> Option<Counterexample> {
        let mut names = BTreeSet::new();
        formula.visit_dims(&mut |dim| dim.visit_vars(&mut |name| _ = names.insert(name.clone())));
        let mut others: Vec<&Claim> = context.claims.iter().collect();
        let facts = connected(&mut names, &mut others);
        let base = self.witness(context, &others, Effort::Full)?;
        let variables = self.valued(context, &names)?;
        let mut search = Search::new(&self.atoms, variables, &facts, wanted, base);
        for more in [&[], more] {
            let ascending = search.candidates(context, more);
            let widest: Vec<Vec<i128>> =
                ascending.iter().map(|values| values.iter().rev().copied().collect()).collect();
            search.steps = WIDE_STEPS;
            if search.exhaust(&widest, 0) {
                return Some(search.shrunk(&ascending));
            }
            search.steps = RANDOM_STEPS;
            if search.sample(&ascending) {
                return Some(search.shrunk(&ascending));
            }
        }
        None
    }

    /// `values`, which satisfy the facts that are connected with `formula`, with values that satisfy
    /// the others; `rest` is asked where the search here does not find any.
    #[cfg(feature = "z3")]
    pub(crate) fn completed(
        &mut self,
        context: &Context,
        formula: &Formula,
        mut values: Counterexample,
        rest: impl FnOnce(&[&Claim]) -> Option<Counterexample>,
    ) -> Option<Counterexample> {
        let mut names = BTreeSet::new();
        formula.visit_dims(&mut |dim| dim.visit_vars(&mut |name| _ = names.insert(name.clone())));
        let mut others: Vec<&Claim> = context.claims.iter().collect();
        connected(&mut names, &mut others);
        if !others.is_empty() {
            let mark = self.atoms.mark();
            let found = self.witness(context, &others, Effort::Full);
            self.forget_from(context, mark);
            values.extend(found.or_else(|| rest(&others))?);
        }
        let holds = context.claims.iter().all(|claim| claim.holds(&values) == Some(true));
        holds.then_some(values)
    }

    /// `model`, which satisfies the facts before `claim`, changed where that claim needs it.
    pub(crate) fn model_with(
        &mut self,
        context: &Context,
        claim: &Claim,
        mut model: Arc<Counterexample>,
    ) -> Option<Arc<Counterexample>> {
        let mut names = BTreeSet::new();
        claim.visit_vars(&mut |name| _ = names.insert(name.clone()));
        let new: Vec<&Name> = names.iter().filter(|name| !model.contains_key(*name)).collect();
        for value in FIRST_VALUES {
            let values = Arc::make_mut(&mut model);
            values.extend(new.iter().map(|name| ((*name).clone(), value)));
            if claim.holds(values) == Some(true) {
                return Some(model);
            }
        }
        // Without a variable there is nothing to choose: the facts are contradictory.
        if names.is_empty() {
            return None;
        }
        let mut others: Vec<&Claim> = context.claims.iter().collect();
        let own = connected(&mut names, &mut others);
        let target = Target { formula: &Formula::False, wanted: &|_| true };
        let mark = self.atoms.mark();
        let none = Counterexample::new();
        let found = self.search(context, &names, &own, target, Effort::Full, none);
        self.forget_from(context, mark);
        Arc::make_mut(&mut model).extend(found?);
        Some(model)
    }

    /// An assignment that satisfies `facts`, component by component.
    fn witness(
        &mut self,
        context: &Context,
        facts: &[&Claim],
        effort: Effort,
    ) -> Option<Counterexample> {
        let mut values = Counterexample::new();
        let mut left = facts.to_vec();
        while let Some(first) = left.first() {
            let mut names = BTreeSet::new();
            first.visit_vars(&mut |name| _ = names.insert(name.clone()));
            if names.is_empty() {
                let claim = left.remove(0);
                if claim.holds(&values) != Some(true) {
                    return None;
                }
                continue;
            }
            let own = connected(&mut names, &mut left);
            let target = Target { formula: &Formula::False, wanted: &|_| true };
            let found =
                self.search(context, &names, &own, target, effort, Counterexample::new())?;
            values.extend(found);
        }
        Some(values)
    }

    fn search(
        &mut self,
        context: &Context,
        names: &BTreeSet<Name>,
        facts: &[&Claim],
        target: Target<'_>,
        effort: Effort,
        base: Counterexample,
    ) -> Option<Counterexample> {
        let variables = self.valued(context, names)?;
        let mut search = Search::new(&self.atoms, variables, facts, target.wanted, base);
        let small = search.candidates(context, &[]);
        if effort == Effort::Glance {
            search.steps = 24;
            return search.exhaust(&small, 0).then(|| search.shrunk(&small));
        }
        search.steps = SMALL_STEPS;
        if search.exhaust(&small, 0) {
            return Some(search.shrunk(&small));
        }
        let wide = search.candidates(context, &interesting(facts, target.formula));
        search.steps = RANDOM_STEPS;
        if search.sample(&wide) {
            return Some(search.shrunk(&wide));
        }
        search.steps = WIDE_STEPS;
        search.exhaust(&wide, 0).then(|| search.shrunk(&wide))
    }

    /// The variables with what equations say of them.
    fn valued(&mut self, context: &Context, names: &BTreeSet<Name>) -> Option<Vec<(Name, Poly)>> {
        let mut variables = Vec::new();
        for name in names {
            let id = self.atoms.intern(Atom::Var(name.clone()))?;
            variables.push((name.clone(), self.value_of(context, id)));
        }
        Some(variables)
    }
}

/// Moves the claims that share a variable with `names`, directly or through others, out of
/// `claims`, and adds their variables.
fn connected<'a>(names: &mut BTreeSet<Name>, claims: &mut Vec<&'a Claim>) -> Vec<&'a Claim> {
    let mut found = Vec::new();
    loop {
        let before = found.len();
        claims.retain(|claim| {
            let mut shares = false;
            claim.visit_vars(&mut |name| shares = shares || names.contains(name));
            if shares {
                claim.visit_vars(&mut |name| _ = names.insert(name.clone()));
                found.push(*claim);
            }
            !shares
        });
        if found.len() == before {
            return found;
        }
    }
}

/// The literals of facts and formula, and their neighbours and multiples.
fn interesting(facts: &[&Claim], formula: &Formula) -> Vec<i128> {
    let mut literals = BTreeSet::new();
    for claim in facts {
        collect_literals(&claim.left, &mut literals);
        collect_literals(&claim.right, &mut literals);
    }
    formula.visit_dims(&mut |dim| collect_literals(dim, &mut literals));
    let mut values: BTreeSet<i128> = BTreeSet::new();
    for literal in literals.into_iter().take(12) {
        let literal = i128::from(literal);
        for value in [literal, literal + 1, literal - 1, 2 * literal] {
            values.extend([value, -value]);
        }
    }
    values.extend(-5..=8);
    values.into_iter().collect()
}

fn collect_literals(dim: &Dim, literals: &mut BTreeSet<i64>) {
    match dim {
        Dim::Int(value) => _ = literals.insert(*value),
        Dim::Var(_) => {}
        Dim::Op(_, operands) => {
            collect_literals(&operands.0, literals);
            collect_literals(&operands.1, literals);
        }
    }
}

impl<'a> Search<'a> {
    fn new(
        atoms: &'a Atoms,
        variables: Vec<(Name, Poly)>,
        facts: &[&'a Claim],
        wanted: Wanted<'a>,
        base: Counterexample,
    ) -> Self {
        let free_in = |poly: &Poly| -> BTreeSet<AtomId> {
            let inside = poly.atoms().into_iter().flat_map(|id| atoms.inside(id).iter().copied());
            inside.filter(|&id| atoms.at(id).is_free()).collect()
        };
        let free: BTreeSet<AtomId> = variables.iter().flat_map(|(_, poly)| free_in(poly)).collect();
        let free: Vec<AtomId> = free.into_iter().collect();
        let level = |ids: &BTreeSet<AtomId>| {
            free.iter().rposition(|id| ids.contains(id)).unwrap_or_default()
        };
        let mut levels = BTreeMap::new();
        let mut follows = vec![Vec::new(); free.len().max(1)];
        for (name, poly) in variables {
            let at = level(&free_in(&poly));
            levels.insert(name.clone(), at);
            follows[at].push((name, poly));
        }
        let mut at_level = vec![Vec::new(); free.len().max(1)];
        for claim in facts {
            let mut last = 0;
            for dim in [&claim.left, &claim.right] {
                dim.visit_vars(&mut |name| last = last.max(levels.get(name).copied().unwrap_or(0)));
            }
            at_level[last].push(*claim);
        }
        let (chosen, values) = (BTreeMap::new(), base);
        Self { atoms, free, follows, facts: at_level, wanted, chosen, values, steps: 0 }
    }

    /// For each free atom the values to try, the smallest first.
    fn candidates(&self, context: &Context, more: &[i128]) -> Vec<Vec<i128>> {
        let values_of = |id: &AtomId| {
            let bounds = context.bounds.get(id).copied().unwrap_or_default();
            let ends = bounds.low.into_iter().flat_map(|low| [low, low + 1, low + 2]);
            let ends = ends.chain(bounds.high.into_iter().flat_map(|high| [high, high - 1]));
            let mut values: Vec<i128> =
                ends.chain([0, 1, 2, -1]).chain(more.iter().copied()).collect();
            let above = |value: i128| bounds.low.is_none_or(|low| value >= low);
            let below = |value: i128| bounds.high.is_none_or(|high| value <= high);
            values.retain(|&value| above(value) && below(value));
            values.sort_by_key(|value| (value.abs(), *value < 0));
            values.dedup();
            values
        };
        self.free.iter().map(values_of).collect()
    }

    /// Tries all combinations from position `at` on. True when the current values are a
    /// counterexample.
    fn exhaust(&mut self, candidates: &[Vec<i128>], at: usize) -> bool {
        if at == self.free.len() {
            return if at == 0 { self.settle(0) && self.fails() } else { self.fails() };
        }
        for &value in &candidates[at] {
            if self.steps == 0 {
                return false;
            }
            self.steps -= 1;
            self.chosen.insert(self.free[at], value);
            if self.settle(at) && self.exhaust(candidates, at + 1) {
                return true;
            }
        }
        false
    }

    /// Tries random combinations, with a fixed seed.
    fn sample(&mut self, candidates: &[Vec<i128>]) -> bool {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        while self.steps > 0 && !self.free.is_empty() {
            let mut alive = true;
            for (at, values) in candidates.iter().enumerate() {
                // A level that rejects a value gets some more tries.
                alive = false;
                for _ in 0..6 {
                    if self.steps == 0 || values.is_empty() {
                        return false;
                    }
                    self.steps -= 1;
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let index = (state >> 33) as usize % values.len();
                    self.chosen.insert(self.free[at], values[index]);
                    if self.settle(at) {
                        alive = true;
                        break;
                    }
                }
                if !alive {
                    break;
                }
            }
            if alive && self.fails() {
                return true;
            }
        }
        false
    }

    /// Computes what follows from the choices up to position `at`; true if the facts hold so far.
    fn settle(&mut self, at: usize) -> bool {
        for index in 0..self.follows[at].len() {
            let value = value_of(self.atoms, &self.follows[at][index].1, &self.chosen)
                .and_then(|value| i64::try_from(value).ok());
            let Some(value) = value else { return false };
            self.values.insert(self.follows[at][index].0.clone(), value);
        }
        self.facts[at].iter().all(|claim| claim.holds(&self.values) == Some(true))
    }

    fn fails(&self) -> bool {
        (self.wanted)(&self.values)
    }

    /// Makes single choices smaller as long as it stays a counterexample.
    fn shrunk(mut self, candidates: &[Vec<i128>]) -> Counterexample {
        let mut best = self.values.clone();
        let mut chosen = self.chosen.clone();
        for (at, values) in candidates.iter().enumerate() {
            let id = self.free[at];
            for &value in values.iter().take_while(|&&value| Some(&value) != chosen.get(&id)) {
                self.chosen = chosen.clone();
                self.chosen.insert(id, value);
                if (0..self.free.len()).all(|level| self.settle(level)) && self.fails() {
                    (best, chosen) = (self.values.clone(), self.chosen.clone());
                    break;
                }
            }
        }
        best
    }
}

/// The value of a polynomial under values of its free atoms.
fn value_of(atoms: &Atoms, poly: &Poly, chosen: &BTreeMap<AtomId, i128>) -> Option<i128> {
    Evaluation { atoms, chosen, done: BTreeMap::new() }.polynomial(poly)
}

/// An evaluation that looks at each atom once: equations make atoms of atoms in which the same one occurs twice on
/// each level, a thousand million times in thirty.
struct Evaluation<'a> {
    atoms: &'a Atoms,
    chosen: &'a BTreeMap<AtomId, i128>,
    /// The composite atoms that have a value.
    done: BTreeMap<AtomId, i128>,
}

impl Evaluation<'_> {
    fn polynomial(&mut self, poly: &Poly) -> Option<i128> {
        let mut sum = 0_i128;
        for (mono, coefficient) in poly.terms() {
            let mut product = *coefficient;
            for &id in mono.atoms() {
                product = product.checked_mul(self.atom(id)?)?;
            }
            sum = sum.checked_add(product)?;
        }
        Some(sum)
    }

    fn atom(&mut self, id: AtomId) -> Option<i128> {
        if let Some(value) = self.chosen.get(&id).or_else(|| self.done.get(&id)) {
            return Some(*value);
        }
        let atoms = self.atoms;
        let value = match atoms.at(id) {
            Atom::Var(_) | Atom::Quotient { .. } => None,
            Atom::Div(numerator, divisor) => {
                let (a, b) = (self.polynomial(numerator)?, self.polynomial(divisor)?);
                let quotient = a.checked_div_euclid(b)?;
                // Euclid rounds up for a negative divisor; floor does not.
                let inexact = a.checked_rem_euclid(b)? != 0;
                quotient.checked_sub(i128::from(b < 0 && inexact))
            }
            Atom::Min(args) => self.all(args)?.into_iter().min(),
            Atom::Max(args) => self.all(args)?.into_iter().max(),
        }?;
        self.done.insert(id, value);
        Some(value)
    }

    fn all(&mut self, args: &[Poly]) -> Option<Vec<i128>> {
        args.iter().map(|arg| self.polynomial(arg)).collect()
    }
}
