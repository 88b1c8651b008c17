//! The forms of a region beside each other: which of them costs least after fusion.

use super::emit::Emit;
use super::encode::Encoded;
use super::extract::{Pricing, Values};
use super::fused::{Constants, Fusion, Part, costs, is_known};
use super::report::{Kept, Report};
use super::samples;
use super::solve::Solution;
use crate::names::Names;
use relax_syntax::Name;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, Function, Module, VarId, VarInfo};
use std::collections::{BTreeMap, BTreeSet};

/// The most regions and forms of a module that are lowered to be compared.
pub(super) const MOST_COMPARISONS: usize = 200;
/// Where fusion decides, forms are looked for as if neighbours fused, as if only other calls counted, and as if none did.
pub(super) const BY_FUSION: [Pricing; 3] = [Pricing::Fused, Pricing::Anchors, Pricing::Separate];

/// A region with its forms; the first is the region as it is.
pub(super) struct Comparison<'c> {
    pub(super) function: &'c Function,
    pub(super) vars: &'c [VarInfo],
    pub(super) samples: &'c [Values],
    pub(super) region: &'c Encoded,
    pub(super) bindings: &'c [Binding],
    /// Variables of the function whose values are known when a module is built.
    pub(super) constants: &'c BTreeSet<VarId>,
}

impl Comparison<'_> {
    /// The form that costs least at the first sample, of those that cost at no sample more launches, bytes or operations
    /// than the region as it is. A choice among forms is right whatever it costs. `None`: that cost is not known.
    pub(super) fn cheapest(
        &self,
        forms: &[Solution],
        (fusion, least_gain): (&Fusion, u8),
        (names, left): (&Names, &mut usize),
        facts: &mut dyn Facts,
    ) -> Option<usize> {
        if forms.len() < 2 || *left < forms.len() {
            return Some(0);
        }
        *left -= forms.len();
        let as_written = self.part(self.vars, self.bindings.to_vec());
        let written = as_written.cost(fusion, facts, self.samples)?;
        let as_it_is = written[0].weighed(fusion.units);
        let gain = as_it_is * i128::from(least_gain) / 100;
        let (mut best, mut least) = (0, as_it_is - gain);
        for (at, form) in forms.iter().enumerate().skip(1) {
            let (mut vars, mut names) = (self.vars.to_vec(), names.clone());
            let span = self.function.span;
            let mut emit = Emit { names: &mut names, vars: &mut vars, span };
            let bindings = emit.bindings(self.region, self.bindings, form);
            let cost = self.part(&vars, bindings).cost(fusion, facts, self.samples);
            let Some(cost) = cost else { continue };
            let is_fine = cost.iter().zip(&written).all(|(new, old)| new.is_at_most(old));
            let cost = cost[0].weighed(fusion.units);
            if is_fine && cost < least {
                (best, least) = (at, cost);
            }
        }
        Some(best)
    }

    fn part<'p>(&'p self, vars: &'p [VarInfo], bindings: Vec<Binding>) -> Part<'p> {
        let mut part = Part { vars, ..Part::of(&self.function.dims, &self.region.outputs) };
        for leaf in &self.region.leaves {
            let Atom::Var(var) = leaf.atom else { continue };
            let is_constant = self.constants.contains(&var);
            let inputs = if is_constant { &mut part.weights } else { &mut part.inputs };
            inputs.push((var, leaf.annotation.clone()));
        }
        Part { bindings, ..part }
    }

    /// The values from outside that are known when a module is built, where calls on them are evaluated then.
    pub(super) fn known_when_built(&self, fusion: Option<Fusion>) -> BTreeSet<usize> {
        if fusion.is_none_or(|fusion| fusion.constants == Constants::Computed) {
            return BTreeSet::new();
        }
        let leaves = self.region.leaves.iter().enumerate();
        leaves.filter(|(_, leaf)| is_known(&leaf.atom, self.constants)).map(|(at, _)| at).collect()
    }
}

/// The variables of a function whose values are known when a module is built: weights, and calls on weights alone.
pub(super) fn constants(body: &Body) -> BTreeSet<VarId> {
    let mut known = BTreeSet::new();
    for binding in body.bindings() {
        let is_constant = match &binding.expr {
            Expr::Atom(atom) | Expr::Get(atom, _) => is_known(atom, &known),
            Expr::Call { callee: Callee::Operator(_), args, .. } => {
                !args.is_empty() && args.iter().all(|arg| is_known(arg, &known))
            }
            _ => false,
        };
        if is_constant {
            known.insert(binding.var);
        }
    }
    known
}

/// Takes functions back that cost more as a whole: a region is compared alone, and its neighbours may fuse less with its new form.
pub(super) fn keep_dearer(
    module: &Module,
    rewritten: &mut Module,
    report: &mut Report,
    (fusion, facts): (&Fusion, &mut dyn Facts),
) {
    let changed = report.functions.iter().filter_map(|function| module.function(&function.name));
    let samples: BTreeMap<Name, Vec<Values>> =
        changed.map(|function| (function.name.clone(), samples::alike(&function.dims))).collect();
    if samples.is_empty() {
        return;
    }
    let before = costs(module, &samples, fusion, facts);
    let after = costs(rewritten, &samples, fusion, facts);
    let mut taken_back: BTreeSet<&Name> = BTreeSet::new();
    for name in samples.keys() {
        // Of what is not known nothing says that it is cheaper.
        if let (Some(old), Some(new)) = (before.get(name), after.get(name)) {
            let mut dearer = new.iter().zip(old).filter(|(new, old)| !new.is_at_most(old));
            let Some((new, old)) = dearer.next() else { continue };
            report.kept.push(Kept { name: name.clone(), before: *old, after: *new });
        }
        take_back(module, rewritten, name);
        taken_back.insert(name);
    }
    let (kept, functions) = std::mem::take(&mut report.functions)
        .into_iter()
        .partition::<Vec<_>, _>(|function| taken_back.contains(&function.name));
    report.functions = functions;
    report.rewritten -= kept.iter().map(|function| function.regions.len()).sum::<usize>();
}

fn take_back(module: &Module, rewritten: &mut Module, name: &Name) {
    let own = module.definitions.iter().find(|definition| definition.name() == name);
    let place = rewritten.definitions.iter_mut().find(|definition| definition.name() == name);
    if let (Some(own), Some(place)) = (own, place) {
        place.clone_from(own);
    }
}
