//! The peak of planned memory as a formula in the symbolic variables of a function, with all that it calls.

use super::FunctionMemory;
use super::figures::{Planned, Span, planned};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::Facts;
use std::collections::{BTreeMap, BTreeSet};

/// The bytes of the storages that are there at the same time, at most: for all values of the variables what
/// [`super::figures`] gives for some. `None` where the dims of a called function are not known, or one may call itself.
#[must_use]
pub fn peak_formula(
    functions: &[FunctionMemory],
    name: &Name,
    facts: &mut dyn Facts,
) -> Option<Dim> {
    let functions = functions.iter().map(|function| (&function.function, function)).collect();
    let mut reader = Reader { functions, within: Vec::new(), known: BTreeMap::new(), facts };
    Some(reader.of(name)?.0)
}

struct Reader<'r> {
    functions: BTreeMap<&'r Name, &'r FunctionMemory>,
    /// Those that are being looked at.
    within: Vec<&'r Name>,
    /// The peak, and what is left when the function has ended.
    known: BTreeMap<&'r Name, (Dim, Dim)>,
    facts: &'r mut dyn Facts,
}

impl<'r> Reader<'r> {
    fn of(&mut self, name: &Name) -> Option<(Dim, Dim)> {
        let Some((&name, &function)) = self.functions.get_key_value(name) else {
            return Some((Dim::Int(0), Dim::Int(0)));
        };
        if let Some(known) = self.known.get(name) {
            return Some(known.clone());
        }
        if self.within.contains(&name) {
            return None;
        }
        self.within.push(name);
        let found = self.function(function);
        self.within.pop();
        self.known.insert(name, found.clone()?);
        found
    }

    fn function(&mut self, function: &FunctionMemory) -> Option<(Dim, Dim)> {
        let mut called = Vec::with_capacity(function.calls.len());
        for call in &function.calls {
            let (peak, stays) = self.of(&call.function)?;
            let known = |dim: &Dim| dim.vars_all(&|name| call.dims.contains_key(name));
            if !known(&peak) || !known(&stays) {
                return None;
            }
            called.push((peak.substitute(&call.dims), stays.substitute(&call.dims)));
        }
        let Planned { mut spans, left } = planned(function, &called, &|dim| Some(dim.clone()))?;
        spans.retain(|(bytes, ..)| *bytes != Dim::Int(0));
        Some((self.peak(&spans), self.sum(left)))
    }

    /// The greatest of the sums at positions where something begins. One of spans that are all there at another
    /// position, too, is not greater than that there.
    fn peak(&mut self, spans: &[Span<Dim>]) -> Dim {
        let there = |at: usize| -> BTreeSet<usize> {
            let own = spans.iter().enumerate();
            own.filter(|(_, span)| span.1 <= at && at <= span.2).map(|(number, _)| number).collect()
        };
        let begins: BTreeSet<usize> = spans.iter().map(|span| span.1).collect();
        let sets: BTreeSet<BTreeSet<usize>> = begins.into_iter().map(there).collect();
        let greatest =
            sets.iter().filter(|own| !sets.iter().any(|more| *own != more && own.is_subset(more)));
        let sums: Vec<Vec<Dim>> = greatest
            .map(|own| own.iter().map(|&number| spans[number].0.clone()).collect())
            .collect();
        let sums: Vec<Dim> = sums.into_iter().map(|own| self.sum(own)).collect();
        let peak = sums.into_iter().reduce(|a, b| Dim::op(DimOp::Max, a, b));
        peak.map_or(Dim::Int(0), |peak| self.facts.simplify(&peak))
    }

    fn sum(&mut self, dims: Vec<Dim>) -> Dim {
        let sum = dims.into_iter().reduce(|a, b| Dim::op(DimOp::Add, a, b));
        sum.map_or(Dim::Int(0), |sum| self.facts.simplify(&sum))
    }
}
