//! The peak of planned memory as a formula in the symbolic variables of a function, with all that it calls.

use super::FunctionMemory;
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::Facts;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes from one position to another.
type Span = (Dim, usize, usize);

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
        let mut spans: Vec<Span> = Vec::new();
        let mut left = Vec::new();
        for storage in &function.storages {
            spans.push((storage.bytes.clone(), storage.from, storage.to));
        }
        let mut called = Vec::with_capacity(function.calls.len());
        for call in &function.calls {
            let (peak, stays) = self.of(&call.function)?;
            let known = |dim: &Dim| dim.vars_all(&|name| call.dims.contains_key(name));
            if !known(&peak) || !known(&stays) {
                return None;
            }
            spans.push((peak.substitute(&call.dims), call.at, call.at));
            called.push(stays.substitute(&call.dims));
        }
        for given in &function.given {
            let (held, from) = match given.call {
                Some(call) => (called[call].clone(), given.from + 1),
                None => (given.bytes.clone(), given.from),
            };
            spans.push((held, from, given.to));
        }
        spans.retain(|(bytes, from, to)| from <= to && *bytes != Dim::Int(0));
        for (bytes, _, to) in &spans {
            if *to == function.length {
                left.push(bytes.clone());
            }
        }
        Some((self.peak(&spans), self.sum(left)))
    }

    /// The greatest of the sums at positions where something begins. One of spans that are all there at another
    /// position, too, is not greater than that there.
    fn peak(&mut self, spans: &[Span]) -> Dim {
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
