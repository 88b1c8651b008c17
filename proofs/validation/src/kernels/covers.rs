//! Every element of what a program gives is written. The witness is the iteration that writes a given element.

use super::Found;
use super::reads::Load;
use super::scope::{Around, Scope};
use super::values::is_of_values;
use super::walk::{Branch, Store};
use crate::obligation::Outcome;
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::BufferId;
use std::collections::BTreeMap;

pub(super) fn obligations(
    program: &TensorProgram,
    stores: &[Store],
    loads: &[Load],
    scope: &mut Scope,
) -> Vec<Found> {
    let params = program.buffer_params();
    let mut found = Vec::new();
    for buffer in params {
        let own: Vec<&Store> = stores.iter().filter(|store| store.buffer == buffer).collect();
        // What is read as well may have been written by whoever calls.
        if own.is_empty() || loads.iter().any(|load| load.buffer == buffer) {
            continue;
        }
        let place = format!("`{}`", program.buffer(buffer).name);
        let outcome = match covered(program, buffer, &own, (scope, &[])) {
            true => Outcome::Proved,
            false => Outcome::Unproved("an element may stay as it was".to_owned()),
        };
        found.push((place, "every element is written".to_owned(), outcome));
    }
    found
}

/// Whether for each element some iteration of one of the stores writes it, within these branches.
pub(super) fn covered(
    program: &TensorProgram,
    buffer: BufferId,
    stores: &[&Store],
    (scope, within): (&mut Scope, &[Branch]),
) -> bool {
    let shape = &program.buffer(buffer).shape;
    let element: Vec<Dim> =
        (0..shape.len()).map(|at| Dim::Var(Name::new(format!("element {at}")))).collect();
    scope.facts.push();
    for (var, extent) in element.iter().zip(shape) {
        scope.facts.assume(Claim::new(0, Relation::AtMost, var.clone()));
        scope.facts.assume(Claim::new(var.clone(), Relation::Less, extent.clone()));
    }
    let is_covered = |scope: &mut Scope| {
        stores.iter().any(|store| writes(store, &element, scope, within))
            || in_parts(stores, &element, scope, within)
    };
    let covered = is_covered(scope)
        || condition(stores).is_some_and(|condition| {
            [condition.opposite(), condition].into_iter().all(|case| {
                scope.facts.push();
                scope.facts.assume(case);
                let covered = is_covered(scope);
                scope.facts.pop();
                covered
            })
        });
    scope.facts.pop();
    covered
}

/// What decides a factor `min(d, 1)` of what is known of stores: whether d is 0. Schedules count by such a factor what is done for some dims only.
fn condition(stores: &[&Store]) -> Option<Claim> {
    let mut known = stores.iter().flat_map(|store| &store.known);
    let found = known.find_map(|claim| capped(&claim.left).or_else(|| capped(&claim.right)))?;
    Some(Claim::new(found.clone(), Relation::Equal, 0))
}

/// The first d of `min(d, 1)` in a dim.
fn capped(dim: &Dim) -> Option<&Dim> {
    let Dim::Op(op, operands) = dim else { return None };
    match (op, &operands.0, &operands.1) {
        (DimOp::Min, other, Dim::Int(1)) => Some(other),
        (_, a, b) => capped(a).or_else(|| capped(b)),
    }
}

fn writes(store: &Store, element: &[Dim], scope: &mut Scope, within: &[Branch]) -> bool {
    Witnessed { store, loops: store.loops.clone(), within }.writes(element, scope)
}

/// A store in some iteration of these of the loops around it.
pub(super) struct Witnessed<'s> {
    pub(super) store: &'s Store,
    pub(super) loops: Vec<Around>,
    /// Branches that are known to be taken.
    pub(super) within: &'s [Branch],
}

impl Witnessed<'_> {
    /// Whether it writes an element, by the witness that its indices suggest.
    pub(super) fn writes(&self, element: &[Dim], scope: &mut Scope) -> bool {
        let Some(indices) = &self.store.indices else { return false };
        let ranges = self.loops.iter().all(|of| of.start.is_some() && of.stop.is_some());
        let runs = self.store.branches.iter().all(|branch| self.within.contains(branch));
        if !runs || !ranges || indices.len() != element.len() {
            return false;
        }
        let Some(witness) = witness(&self.loops, indices, element) else { return false };
        // What is known of loaded integers is no condition here: a store under such a one is in a branch.
        let known = self.store.known.iter().filter(|claim| !is_of_values(claim));
        let known = known.map(|claim| claim.substitute(&witness));
        let equal = indices
            .iter()
            .zip(element)
            .map(|(index, at)| Claim::new(index.substitute(&witness), Relation::Equal, at.clone()));
        // An `init` runs where the reduction axes are 0.
        let first = self.store.init.iter().flatten();
        let first = first.map(|value| Claim::new(value.substitute(&witness), Relation::Equal, 0));
        scope.facts.push();
        // Digits of a number are at most what they are digits of, which is not found where one is compared with several bounds.
        for value in witness.values() {
            each_remainder(value, &mut |number, digit| {
                let at_most = Claim::new(digit.clone(), Relation::AtMost, number.clone());
                if scope.proves(&at_most) {
                    scope.facts.assume(at_most);
                }
            });
        }
        let is_written = known.chain(equal).chain(first).all(|claim| scope.proves(&claim));
        scope.facts.pop();
        is_written
    }
}

/// What a store's indices say of loop variables.
#[derive(Default)]
struct Witness {
    vars: BTreeMap<Name, Dim>,
    /// Sums of loop variables, such as the number of a thread, and what digits of them come to.
    numbers: Vec<(Dim, Dim)>,
}

impl Witness {
    /// Adds the value of some digits of a number.
    fn add(&mut self, number: &Dim, digits: Dim) {
        match self.numbers.iter_mut().find(|(known, _)| known == number) {
            Some((_, value)) => *value = Dim::op(DimOp::Add, value.clone(), digits),
            None => self.numbers.push((number.clone(), digits)),
        }
    }

    fn take_largest(&mut self) -> Option<(Dim, Dim)> {
        let sizes = self.numbers.iter().enumerate().map(|(at, (number, _))| (number.size(), at));
        let (_, at) = sizes.max()?;
        Some(self.numbers.remove(at))
    }
}

/// The iteration that writes an element: loop variables in terms of it. A variable that no index mentions is at its
/// first value.
pub(super) fn witness(
    around: &[Around],
    indices: &[Dim],
    element: &[Dim],
) -> Option<BTreeMap<Name, Dim>> {
    let mut witness = Witness::default();
    let stops = around.iter().filter_map(|around| Some((&around.name, around.stop.as_ref()?)));
    let loops: BTreeMap<&Name, &Dim> = stops.collect();
    for (index, at) in indices.iter().zip(element) {
        let mut matched = witness.vars.clone();
        if matches(index, at, &loops, &mut matched) {
            witness.vars = matched;
        } else {
            solve(index, at.clone(), &loops, &mut witness);
        }
    }
    // Of one in another the outer one is first.
    while let Some((number, value)) = witness.take_largest() {
        solve(&number, value, &loops, &mut witness);
    }
    let mut witness = witness.vars;
    for around in around {
        if !witness.contains_key(&around.name) {
            let start = around.start.clone()?.substitute(&witness);
            witness.insert(around.name.clone(), start);
        }
    }
    Some(witness)
}

/// Whether an index is written like a value, with parts of it in the places of loop variables.
fn matches(
    index: &Dim,
    value: &Dim,
    loops: &BTreeMap<&Name, &Dim>,
    witness: &mut BTreeMap<Name, Dim>,
) -> bool {
    match (index, value) {
        (Dim::Var(name), _) if loops.contains_key(name) => {
            witness.entry(name.clone()).or_insert_with(|| value.clone()) == value
        }
        (Dim::Op(op, a), Dim::Op(other, b)) if op == other => {
            matches(&a.0, &b.0, loops, witness) && matches(&a.1, &b.1, loops, witness)
        }
        _ => index == value,
    }
}

/// Takes an index apart so that it has a value.
fn solve(index: &Dim, value: Dim, loops: &BTreeMap<&Name, &Dim>, witness: &mut Witness) {
    match index {
        Dim::Var(name) if loops.contains_key(name) => {
            witness.vars.entry(name.clone()).or_insert(value);
        }
        Dim::Op(op, operands) => {
            let (a, b) = (&operands.0, &operands.1);
            let (has_a, has_b) = (mentions(a, loops), mentions(b, loops));
            match (op, has_a, has_b) {
                // `a + 3` is v: a is v - 3.
                (DimOp::Add, true, false) => {
                    solve(a, Dim::op(DimOp::Sub, value, b.clone()), loops, witness)
                }
                (DimOp::Add, false, true) => {
                    solve(b, Dim::op(DimOp::Sub, value, a.clone()), loops, witness)
                }
                (DimOp::Sub, true, false) => {
                    solve(a, Dim::op(DimOp::Add, value, b.clone()), loops, witness)
                }
                (DimOp::Sub, false, true) => {
                    solve(b, Dim::op(DimOp::Sub, a.clone(), value), loops, witness)
                }
                (DimOp::Mul, true, false) => {
                    solve(a, Dim::op(DimOp::FloorDiv, value, b.clone()), loops, witness)
                }
                (DimOp::Mul, false, true) => {
                    solve(b, Dim::op(DimOp::FloorDiv, value, a.clone()), loops, witness)
                }
                // `a * c + b` with b below c is v: a is v // c, b is v % c.
                (DimOp::Add, true, true) => {
                    let ((outer, factor), inner) = match (scaled(a, loops), scaled(b, loops)) {
                        (Some(outer), _) => (outer, b),
                        (None, Some(outer)) => (outer, a),
                        (None, None) => return,
                    };
                    let digit = |op| Dim::op(op, value.clone(), factor.clone());
                    solve(inner, digit(DimOp::FloorMod), loops, witness);
                    solve(outer, digit(DimOp::FloorDiv), loops, witness);
                }
                // `x // c` is v and `x % c` is w: x is v * c + w.
                (DimOp::FloorDiv, true, false) => {
                    joined(a, Dim::op(DimOp::Mul, value, b.clone()), witness)
                }
                (DimOp::FloorMod, true, false) => joined(a, value, witness),
                _ => {}
            }
        }
        _ => {}
    }
}

/// The remainders in a dim, with what they are of.
fn each_remainder(dim: &Dim, found: &mut dyn FnMut(&Dim, &Dim)) {
    let Dim::Op(op, operands) = dim else { return };
    each_remainder(&operands.0, found);
    each_remainder(&operands.1, found);
    if *op == DimOp::FloorMod {
        found(&operands.0, dim);
    }
}

/// A quotient and a remainder of one number come one after the other: what is there is added to.
fn joined(of: &Dim, part: Dim, witness: &mut Witness) {
    let Dim::Var(name) = of else { return witness.add(of, part) };
    let sum = match witness.vars.remove(name) {
        Some(other) => Dim::op(DimOp::Add, other, part),
        None => part,
    };
    witness.vars.insert(name.clone(), sum);
}

/// The part of a product that has loop variables, and what it is multiplied by.
fn scaled<'d>(dim: &'d Dim, loops: &BTreeMap<&Name, &Dim>) -> Option<(&'d Dim, &'d Dim)> {
    let Dim::Op(DimOp::Mul, operands) = dim else { return None };
    match (mentions(&operands.0, loops), mentions(&operands.1, loops)) {
        (true, false) => Some((&operands.0, &operands.1)),
        (false, true) => Some((&operands.1, &operands.0)),
        _ => None,
    }
}

fn mentions(dim: &Dim, loops: &BTreeMap<&Name, &Dim>) -> bool {
    !dim.vars_all(&|name| !loops.contains_key(name))
}

/// Whether stores write all parts between them: for a border that an index begins at, what is below it and what is
/// not.
fn in_parts(stores: &[&Store], element: &[Dim], scope: &mut Scope, within: &[Branch]) -> bool {
    let [first, rest @ ..] = stores else { return false };
    if rest.is_empty() || stores.len() > MOST_PARTS {
        return false;
    }
    for (axis, at) in element.iter().enumerate() {
        let Some(border) = end(first, axis) else { continue };
        let below = Claim::new(at.clone(), Relation::Less, border.clone());
        let above = below.opposite();
        let mut holds = |claim: Claim, stores: &[&Store]| {
            scope.facts.push();
            scope.facts.assume(claim);
            let covered = stores.iter().any(|store| writes(store, element, scope, within))
                || in_parts(stores, element, scope, within);
            scope.facts.pop();
            covered
        };
        if holds(below, &stores[..1]) && holds(above, rest) {
            return true;
        }
    }
    false
}

/// Stores of one buffer that are looked at as parts.
const MOST_PARTS: usize = 12;

/// One past the last index that a store writes along an axis, where it is a sum of a loop variable and what no
/// loop changes, or has no loop variable.
fn end(store: &Store, axis: usize) -> Option<Dim> {
    let index = store.indices.as_ref()?.get(axis)?;
    let own = |name: &Name| store.loops.iter().any(|around| around.name == *name);
    if index.vars_all(&|name| !own(name)) {
        return Some(Dim::op(DimOp::Add, index.clone(), Dim::Int(1)));
    }
    let stops =
        store.loops.iter().filter_map(|around| Some((around.name.clone(), around.stop.clone()?)));
    let end = index.substitute(&stops.collect());
    match index {
        Dim::Op(DimOp::Add, _) | Dim::Var(_) => end.vars_all(&|name| !own(name)).then_some(end),
        _ => None,
    }
}
