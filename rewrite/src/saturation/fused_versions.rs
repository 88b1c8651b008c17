//! Versions in the pipeline of a target: forms of a whole function are compared by what they cost after fusion.
//!
//! Only forms that are right for all dims are compared: what a rule needs of dims and nobody decides is no guard here.

use super::candidates::{Candidate, Source};
use super::cost::Cost;
use super::extract::Values;
use super::fused::{Fused, Fusion};
use super::guards::{Numbers, Offer, Sample, alike, note_number, usual_numbers};
use super::samples;
use super::versions::{Compared, fits};
use super::walk::{Engine, Extraction};
use crate::guarded::Guard;
use relax_syntax::Name;
use relax_syntax::ir::{Definition, Function};

/// The most forms of a function that are lowered to be compared.
const MOST_FORMS: usize = 8;
/// What a form must save before fusion, as a part of the cost, to be lowered.
const SAVES: f64 = 0.05;
/// Kernels that compare dims for a guard.
const LAUNCHES: i128 = 4;
/// The mean gain, as a part of the cost, for which one more version is worth the code of a whole function.
const WORTH: f64 = 0.1;
/// What a sample beside a number counts: it tells numbers apart, and says little of the gain.
const BESIDE: f64 = 0.05;

impl Engine<'_> {
    /// The function as it is beside forms of it, and what each costs; `None` where there is nothing to choose.
    pub(super) fn compared_after_fusion(
        &mut self,
        function: &Function,
        fusion: &Fusion,
    ) -> Option<Compared> {
        let mut samples = samples::around(&function.dims);
        samples.retain(|values| fits(function, values));
        if samples.is_empty() {
            return None;
        }
        let found = self.cheap_at(function, &samples);
        let written = self.as_written(function);
        let is_cheap = |candidate: &Candidate| {
            let prices = samples.iter().map(|at| (price(candidate, at), price(&written, at)));
            prices.into_iter().any(|(own, written)| own < written * (1.0 - SAVES))
        };
        let forms = found.into_iter().filter(is_cheap).take(MOST_FORMS);
        let candidates: Vec<Candidate> = forms.collect();
        if candidates.is_empty() {
            return None;
        }
        let candidates: Vec<Candidate> = [written].into_iter().chain(candidates).collect();
        self.priced(function, candidates, samples, fusion)
    }

    /// The function as it is, beside forms of it.
    fn as_written(&self, function: &Function) -> Candidate {
        let costs = self.visited().iter().map(|solved| &solved.forms[0].cost);
        let cost = costs.fold(Cost::zero(), |sum, cost| sum.plus(cost));
        let (price, source) = (cost.total(), Source::Made(Box::new(function.clone())));
        Candidate { source, cost, price, requires: Guard::new() }
    }

    /// What candidates cost after fusion; those of which that is not known are left out.
    fn priced(
        &mut self,
        function: &Function,
        candidates: Vec<Candidate>,
        samples: Vec<Values>,
        fusion: &Fusion,
    ) -> Option<Compared> {
        let mut module = self.checked().module.clone();
        let mut names = Vec::with_capacity(candidates.len());
        for candidate in &candidates {
            let mut form = match &candidate.source {
                Source::Made(form) => (**form).clone(),
                Source::Sample(at) => {
                    self.take(Extraction::Sample(*at), samples.clone());
                    self.function(function)
                }
            };
            form.name = self.names().fresh(&function.name);
            // A private function that nothing calls would be dropped.
            form.lambda.attrs.retain(|(key, _)| *key != "private");
            names.push(form.name.clone());
            module.definitions.push(Definition::Graph(form));
        }
        let fused = Fused::of(&module, fusion, self.facts())?;
        let is_known = |name: &Name| fused.cost(name, &samples[0]).is_some();
        if !is_known(&names[0]) {
            return None;
        }
        let (candidates, names): (Vec<Candidate>, Vec<Name>) =
            candidates.into_iter().zip(names).filter(|(_, name)| is_known(name)).unzip();
        let costs = Costs { fused: &fused, names: &names };
        let mut looked_at = samples::apart(&function.dims);
        looked_at.retain(|values| fits(function, values));
        let mut looked_at = alike(looked_at);
        let mut numbers = usual_numbers(&function.dims);
        costs.find_numbers(function, &mut numbers, &mut looked_at);
        looked_at.retain(|at| names.iter().all(|name| fused.cost(name, &at.values).is_some()));
        // Who chooses compares dims before; of a kernel that is all, or nearly so, it takes a part.
        let choosing = (fusion.units.launch * LAUNCHES) as f64;
        let offer = |form: usize| {
            let cost = |at: &Sample| at.weight * (costs.of(form, &at.values) + choosing).ln();
            Offer { costs: looked_at.iter().map(cost).collect(), requires: Guard::new() }
        };
        let without = |form: usize| {
            let cost = |at: &Sample| at.weight * costs.of(form, &at.values).max(1.0).ln();
            looked_at.iter().map(cost).sum::<f64>()
        };
        let without = Some((0..candidates.len()).map(without).fold(f64::INFINITY, f64::min));
        let offers = (0..candidates.len()).map(offer).collect();
        Some(Compared { candidates, samples, looked_at, offers, numbers, without, worth: WORTH })
    }
}

/// What a candidate costs before fusion.
fn price(candidate: &Candidate, values: &Values) -> f64 {
    let value = candidate.price.eval(&|name| values.get(name).copied());
    value.map_or(f64::INFINITY, |value| value as f64)
}

/// What forms of a function cost after fusion.
struct Costs<'c> {
    fused: &'c Fused<'c>,
    /// The functions of the forms.
    names: &'c [Name],
}

impl Costs<'_> {
    fn of(&self, form: usize, values: &Values) -> f64 {
        let cost = self.fused.cost(&self.names[form], values);
        cost.map_or(f64::INFINITY, |cost| cost.weighed(self.fused.units()) as f64)
    }

    /// The form that costs least.
    fn best(&self, values: &Values) -> usize {
        let mut best = (0, f64::INFINITY);
        for form in 0..self.names.len() {
            let cost = self.of(form, values);
            if cost < best.1 {
                best = (form, cost);
            }
        }
        best.0
    }

    /// For each dim the numbers at which another form becomes the best while the other dims are alike, with samples on both sides.
    fn find_numbers(
        &self,
        function: &Function,
        numbers: &mut Numbers,
        looked_at: &mut Vec<Sample>,
    ) {
        for dim in function.dims.iter().filter(|dim| dim.in_signature) {
            for values in samples::alike(&function.dims) {
                let with = |size: i64| {
                    let mut values = values.clone();
                    values.insert(dim.name.clone(), samples::fitting(dim, size));
                    values
                };
                let best = |size: i64| self.best(&with(size));
                let ends = samples::ENDS.map(|size| (size, best(size)));
                for pair in ends.windows(2) {
                    let ((mut low, before), (mut high, after)) = (pair[0], pair[1]);
                    if before == after {
                        continue;
                    }
                    while high - low > 1 {
                        let middle = low + (high - low) / 2;
                        if best(middle) == before { low = middle } else { high = middle }
                    }
                    note_number(numbers, &dim.name, low);
                    let beside = [low, high].map(with).into_iter();
                    let fitting = beside.filter(|values| fits(function, values));
                    looked_at.extend(fitting.map(|values| Sample { values, weight: BESIDE }));
                }
            }
        }
    }
}
