//! Bytes for given dims, of a function with all that it calls.

use super::FunctionMemory;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use std::collections::BTreeMap;

/// Bytes for given dims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Of the storages that are there at the same time, at most.
    pub planned: i64,
    /// Of all tensors.
    pub all: i64,
    /// Of the tensors that are in use at the same time, at most: no plan takes less.
    pub in_use: i64,
    /// Of storages that are left when the function has ended: its results lie in them.
    pub left: i64,
}

/// The figures of a function for values of its symbolic variables, functions that it calls and results of
/// libraries included; `None` where a value is missing, a number of bytes leaves i64, or the function
/// may call itself.
#[must_use]
pub fn figures(
    functions: &[FunctionMemory],
    name: &Name,
    dims: &BTreeMap<Name, i64>,
) -> Option<Figures> {
    let functions = functions.iter().map(|function| (&function.function, function)).collect();
    Reader { functions, within: Vec::new(), known: BTreeMap::new() }.of(name, dims)
}

struct Reader<'r> {
    functions: BTreeMap<&'r Name, &'r FunctionMemory>,
    /// Those that are being looked at.
    within: Vec<&'r Name>,
    /// What was found: functions that call others twice would be looked at again and again.
    known: BTreeMap<(&'r Name, BTreeMap<Name, i64>), Option<Figures>>,
}

/// Bytes from one position to another.
pub(super) type Span<T> = (T, usize, usize);

const NOTHING: Figures = Figures { planned: 0, all: 0, in_use: 0, left: 0 };

impl<'r> Reader<'r> {
    fn of(&mut self, name: &Name, dims: &BTreeMap<Name, i64>) -> Option<Figures> {
        // What is not in the report takes nothing.
        let Some((&name, &function)) = self.functions.get_key_value(name) else {
            return Some(NOTHING);
        };
        if let Some(known) = self.known.get(&(name, dims.clone())) {
            return *known;
        }
        if self.within.contains(&name) {
            return None;
        }
        self.within.push(name);
        let figures = self.function(function, dims);
        self.within.pop();
        self.known.insert((name, dims.clone()), figures);
        figures
    }

    fn function(
        &mut self,
        function: &'r FunctionMemory,
        dims: &BTreeMap<Name, i64>,
    ) -> Option<Figures> {
        let (mut in_use, mut all) = (Vec::new(), 0_i64);
        for tensor in &function.tensors {
            let bytes = value(&tensor.bytes, dims)?;
            in_use.push((bytes, tensor.from, tensor.to));
            all = all.checked_add(bytes)?;
        }
        let mut called = Vec::with_capacity(function.calls.len());
        for call in &function.calls {
            let given = call.dims.iter().map(|(name, dim)| Some((name.clone(), value(dim, dims)?)));
            let figures = self.of(&call.function, &given.collect::<Option<_>>()?)?;
            in_use.push((figures.in_use, call.at, call.at));
            all = all.checked_add(figures.all)?;
            called.push((figures.planned, figures.left));
        }
        for given in &function.given {
            let bytes = value(&given.bytes, dims)?;
            // During the call it is memory of the callee.
            in_use.push((bytes, given.from + usize::from(given.call.is_some()), given.last));
            all = all.checked_add(if given.call.is_some() { 0 } else { bytes })?;
        }
        let Planned { spans, left } = planned(function, &called, &|dim| value(dim, dims))?;
        let left = left.into_iter().try_fold(0_i64, i64::checked_add)?;
        Some(Figures { planned: peak(&spans)?, all, in_use: peak(&in_use)?, left })
    }
}

/// Memory that a function holds, as numbers or formulas.
pub(super) struct Planned<T> {
    pub(super) spans: Vec<Span<T>>,
    /// What is there when the function has ended.
    pub(super) left: Vec<T>,
}

/// The storages of a function, what it is given, and what its calls take: of each call the peak, and what is left of it.
pub(super) fn planned<T: Clone>(
    function: &FunctionMemory,
    called: &[(T, T)],
    bytes: &dyn Fn(&Dim) -> Option<T>,
) -> Option<Planned<T>> {
    let mut spans = Vec::new();
    for storage in &function.storages {
        spans.push((bytes(&storage.bytes)?, storage.from, storage.to));
    }
    for given in &function.given {
        // During the call it is memory of the callee.
        spans.push(match given.call {
            Some(call) => (called[call].1.clone(), given.from + 1, given.to),
            None => (bytes(&given.bytes)?, given.from, given.to),
        });
    }
    let at_end = spans.iter().filter(|(_, _, to)| *to == function.length);
    let left = at_end.map(|(bytes, ..)| bytes.clone()).collect();
    let calls = function.calls.iter().zip(called);
    spans.extend(calls.map(|(call, (peak, _))| (peak.clone(), call.at, call.at)));
    spans.retain(|(_, from, to)| from <= to);
    Some(Planned { spans, left })
}

fn value(dim: &Dim, dims: &BTreeMap<Name, i64>) -> Option<i64> {
    dim.eval(&|name| dims.get(name).copied()).ok()
}

/// The most bytes at the same time.
fn peak(spans: &[Span<i64>]) -> Option<i64> {
    let spans = spans.iter().filter(|(_, from, to)| from <= to);
    let mut changes: Vec<(usize, i64)> =
        spans.flat_map(|&(bytes, from, to)| [(from, bytes), (to + 1, -bytes)]).collect();
    // What ends at a position is gone before something begins there.
    changes.sort_unstable();
    let (mut now, mut peak) = (0_i64, 0_i64);
    for (_, change) in changes {
        now = now.checked_add(change)?;
        peak = peak.max(now);
    }
    Some(peak)
}
