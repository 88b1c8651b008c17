//! What a saturation did: per function its regions, and how often each rule was found and used.

use super::cost::Cost;
use super::explain::Explained;
use super::extract::Extracted;
use super::fused::FusedCost;
use super::rulebook::base;
use super::search::{Saturated, Uses};
use super::versions::Versioned;
use relax_syntax::Name;
use relax_theorems::rules::Rule;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Of a module.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Functions with a region that was rewritten, in text order.
    pub functions: Vec<FunctionReport>,
    /// How often each rule was found and used; regions that are alike count once.
    pub uses: BTreeMap<Name, Uses>,
    /// Regions that were looked at.
    pub regions: usize,
    /// Regions of them that were saturated: the others are like one of these.
    pub saturated: usize,
    /// Regions that have another form now.
    pub rewritten: usize,
    /// Whether it is about versions, whose forms are cheap at some dims.
    pub is_of_versions: bool,
    /// Functions that have versions now.
    pub versions: Vec<Versioned>,
    /// Functions that stay as they are, since neighbours of rewritten regions would fuse less.
    pub kept: Vec<Kept>,
    /// The rules that could be used.
    pub(super) rules: BTreeMap<Name, Arc<Rule>>,
    /// How many saturated regions a limit ended, by its name.
    pub limited: BTreeMap<&'static str, usize>,
    /// The forms that were looked for in saturated regions.
    pub forms: FormCounts,
}

/// How near forms are to the cheapest of their graphs, each at a sample of dims and with a way of pricing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormCounts {
    /// How many there are.
    pub looked_for: usize,
    /// Those that cost less than what the greedy way gives.
    pub cheaper: usize,
    /// Those of which it is not proved that none costs less: the search ended at its limit.
    pub unproved: usize,
    /// What the search saved most, in percent of what the greedy way gives.
    pub most_saved: u8,
}

impl FormCounts {
    /// Of one form.
    pub(super) fn of(found: &Extracted) -> Self {
        Self {
            looked_for: 1,
            cheaper: usize::from(found.saved.is_some()),
            unproved: usize::from(!found.is_proved),
            most_saved: found.saved.unwrap_or(0),
        }
    }

    /// Adds what was counted elsewhere.
    pub fn add(&mut self, more: &FormCounts) {
        self.looked_for += more.looked_for;
        self.cheaper += more.cheaper;
        self.unproved += more.unproved;
        self.most_saved = self.most_saved.max(more.most_saved);
    }
}

/// A function that would cost more if its regions were rewritten.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Which.
    pub name: Name,
    /// What it costs after fusion at some dims, as it is.
    pub before: FusedCost,
    /// What it would cost there.
    pub after: FusedCost,
}

/// Of a function.
#[derive(Clone, Debug)]
pub struct FunctionReport {
    /// Which.
    pub name: Name,
    /// Those that were rewritten, in text order.
    pub regions: Vec<RegionReport>,
}

/// Of a region that was rewritten.
#[derive(Clone, Debug)]
pub struct RegionReport {
    /// The names of the values from outside, by their place.
    pub leaves: Vec<Name>,
    /// What is seen after it.
    pub outputs: Vec<Name>,
    /// What it cost.
    pub before: Cost,
    /// What its form costs.
    pub after: Cost,
    /// How the form follows, where that was asked for.
    pub explained: Vec<Explained>,
    /// Whether it was replayed, each step as an instance of its rule.
    pub replays: bool,
}

impl RegionReport {
    /// The name of a value from outside.
    #[must_use]
    pub fn leaf(&self, at: usize) -> Name {
        self.leaves.get(at).cloned().unwrap_or_default()
    }
}

impl Report {
    /// Adds what was counted for a region that was saturated.
    pub(super) fn count(&mut self, saturated: &Saturated) {
        self.saturated += 1;
        if let Some(limit) = saturated.limit {
            *self.limited.entry(limit).or_default() += 1;
        }
        for (rule, more) in &saturated.uses {
            self.uses.entry(rule.clone()).or_default().add(more);
        }
    }

    /// Adds what was counted as forms of a region were looked for.
    pub(super) fn count_forms(&mut self, forms: &FormCounts) {
        if forms.unproved > 0 {
            *self.limited.entry("extraction").or_default() += 1;
        }
        self.forms.add(forms);
    }

    /// Whether a rule told something new, whichever way it was used.
    #[must_use]
    pub fn is_applied(&self, rule: &Name) -> bool {
        self.uses.iter().any(|(name, uses)| base(name) == rule && uses.applications > 0)
    }

    /// The rules that lead to the form of a region. Of one without an explanation, whose term is too large, every rule that
    /// told something new.
    #[must_use]
    pub fn rules_of(&self, region: &RegionReport) -> BTreeSet<Name> {
        if region.explained.is_empty() {
            let applied = self.uses.iter().filter(|(_, uses)| uses.applications > 0);
            return applied.map(|(name, _)| base(name).into()).collect();
        }
        region.explained.iter().map(|step| step.base().into()).collect()
    }

    /// The rules that lead to the forms of regions, each once.
    #[must_use]
    pub fn rules_used(&self) -> Vec<&Rule> {
        let regions = self.functions.iter().flat_map(|function| &function.regions);
        let names: BTreeSet<Name> = regions.flat_map(|region| self.rules_of(region)).collect();
        names.iter().filter_map(|name| self.rules.get(name).map(AsRef::as_ref)).collect()
    }

    /// The rules that took most work.
    #[must_use]
    pub fn most_expensive(&self, count: usize) -> Vec<(&Name, Uses)> {
        let mut all: Vec<(&Name, Uses)> =
            self.uses.iter().map(|(name, uses)| (name, *uses)).collect();
        all.sort_by(|(a, x), (b, y)| (y.work(), y.matches, a).cmp(&(x.work(), x.matches, b)));
        all.truncate(count);
        all
    }
}
