//! Communication beside computation. A collective is called early: before what uses the result of the collective before it, where its own
//! operand does not need that result. Where a rank then computes something else before it uses the result, the call says
//! `async_op=True`, and the rank goes on until that use.
//!
//! Bindings are only put in another order: one that uses another stays behind it, collectives stay in their order, as ranks must call
//! them alike, and what may trap keeps its place among them. At most one collective is called before the result of the one before it is
//! used, so that no more than one result lies in memory earlier than without this.

use crate::branches::used_in;
use relax_semantics::check::{Phase, check};
use relax_semantics::ops::traps::calls::never_stops;
use relax_semantics::ops::{ASYNC, Family, Operator, is_of_ranks, lookup};
use relax_syntax::annotation::Annotation;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{
    Atom, Binding, BlockKind, Body, Callee, Definition, Expr, Module, VarId, renumber,
};
use relax_theorems::placement::calls::assume_declared;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;

/// Puts the bindings of a local program in an order in which collectives and computation overlap.
pub(crate) fn overlap(local: &mut Module, facts: &mut dyn Facts) {
    let deduced = check(local, facts, Phase::Surface).annotations;
    for definition in &mut local.definitions {
        let Definition::Graph(function) = definition else { continue };
        facts.push();
        assume_declared(function, facts);
        let mut stops = Stops { annotations: &deduced[&function.name], facts: &mut *facts };
        if let Some(body) = &mut function.lambda.body {
            overlap_body(body, &mut stops);
        }
        facts.pop();
        renumber(function);
    }
}

/// What is known of the values of a local program, and of its dims whatever was checked before a binding.
struct Stops<'a> {
    annotations: &'a [Annotation],
    facts: &'a mut dyn Facts,
}

fn overlap_body(body: &mut Body, stops: &mut Stops<'_>) {
    for block in &mut body.blocks {
        if block.kind != BlockKind::Plain {
            continue;
        }
        for binding in &mut block.bindings {
            if let Expr::If { then, otherwise, .. } = &mut binding.expr {
                overlap_body(then, stops);
                overlap_body(otherwise, stops);
            }
        }
        let mut ordered = Vec::new();
        let mut run = Vec::new();
        for binding in mem::take(&mut block.bindings) {
            if matches!(binding.expr, Expr::If { .. } | Expr::MatchCast(..)) {
                ordered.extend(Schedule::of(mem::take(&mut run), stops));
                ordered.push(binding);
            } else {
                run.push(binding);
            }
        }
        ordered.extend(Schedule::of(run, stops));
        mark(&mut ordered);
        block.bindings = ordered;
    }
}

/// What may be done with the place of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It stays in order with other collectives and with what is fixed.
    Collective,
    /// It is anywhere between what it uses and what uses it.
    Free,
    /// It may trap.
    Fixed,
}

fn row_of(expr: &Expr) -> Option<&'static Operator> {
    match expr {
        Expr::Call { callee: Callee::Operator(name), .. } => lookup(name),
        _ => None,
    }
}

fn is_collective(row: &Operator) -> bool {
    is_of_ranks(row) && row.params.iter().any(|param| param.name == ASYNC)
}

fn kind(expr: &Expr, stops: &mut Stops<'_>) -> Kind {
    match (expr, row_of(expr)) {
        (_, Some(row)) if is_collective(row) => Kind::Collective,
        (Expr::Call { args, attrs, .. }, Some(row))
            if never_stops(row, (args, attrs), stops.annotations, stops.facts) =>
        {
            Kind::Free
        }
        (Expr::Atom(_) | Expr::Get(..), _) => Kind::Free,
        _ => Kind::Fixed,
    }
}

/// Whether a binding computes elements, and not only other names of what is there.
fn is_work(expr: &Expr) -> bool {
    let within = |body: &Body| body.bindings().any(|binding| is_work(&binding.expr));
    let is_cheap = |row: &Operator| {
        matches!(
            row.family,
            Family::Movement | Family::Creation | Family::Shapes | Family::Distributed
        )
    };
    match expr {
        Expr::If { then, otherwise, .. } => within(then) || within(otherwise),
        other => row_of(other).is_some_and(|row| !is_cheap(row)),
    }
}

/// Bindings while they are put in order. No branch is among them, and no check that tells dims: nothing changes sides with these.
struct Schedule {
    kinds: Vec<Kind>,
    works: Vec<bool>,
    /// Of each the earlier ones that it uses.
    uses: Vec<BTreeSet<usize>>,
    order: Vec<usize>,
    is_done: Vec<bool>,
    /// The collective that was called last, until its result is used; whether something was computed since.
    pending: Option<(usize, bool)>,
}

impl Schedule {
    fn of(bindings: Vec<Binding>, stops: &mut Stops<'_>) -> Vec<Binding> {
        let places = bindings.iter().enumerate().map(|(at, binding)| (binding.var, at));
        let places: BTreeMap<VarId, usize> = places.collect();
        let uses = bindings.iter().map(|binding| {
            let mut found = BTreeSet::new();
            used_in(&binding.expr, &mut found);
            found.iter().filter_map(|var| places.get(var).copied()).collect()
        });
        let mut schedule = Self {
            kinds: bindings.iter().map(|binding| kind(&binding.expr, stops)).collect(),
            works: bindings.iter().map(|binding| is_work(&binding.expr)).collect(),
            uses: uses.collect(),
            order: Vec::new(),
            is_done: vec![false; bindings.len()],
            pending: None,
        };
        for at in 0..bindings.len() {
            if schedule.is_done[at] {
                continue;
            }
            match schedule.pending {
                Some((pending, works)) if schedule.uses[at].contains(&pending) => {
                    schedule.before_use(at, (pending, works));
                }
                _ => {}
            }
            schedule.put(at);
        }
        let order = schedule.order;
        let mut bindings: Vec<Option<Binding>> = bindings.into_iter().map(Some).collect();
        order.into_iter().filter_map(|at| bindings[at].take()).collect()
    }

    fn put(&mut self, at: usize) {
        self.is_done[at] = true;
        self.order.push(at);
        match &mut self.pending {
            _ if self.kinds[at] == Kind::Collective => self.pending = Some((at, false)),
            Some((pending, _)) if self.uses[at].contains(pending) => self.pending = None,
            Some((_, works)) => *works |= self.works[at],
            None => {}
        }
    }

    /// Puts what does not need the result of a collective before the binding that uses it: the next collective with what that needs,
    /// or else, where nothing was computed since, what follows up to the next one.
    fn before_use(&mut self, user: usize, (pending, works): (usize, bool)) {
        let count = self.kinds.len();
        let stays = |at: &usize| !self.is_done[*at] && self.kinds[*at] != Kind::Free;
        // The binding itself may trap, before a collective that comes later; what is free never does.
        let next = (user..count).find(stays).unwrap_or(count);
        let after = (user + 1..count).find(stays).unwrap_or(count);
        if self.kinds.get(next) == Some(&Kind::Collective)
            && let Some(needed) = self.needed(next, pending)
        {
            needed.into_iter().for_each(|at| self.put(at));
        } else if !works {
            let mut waits = BTreeSet::from([pending, user]);
            for at in user + 1..after {
                if self.is_done[at] {
                    continue;
                }
                if self.uses[at].is_disjoint(&waits) {
                    self.put(at);
                } else {
                    waits.insert(at);
                }
            }
        }
    }

    /// A binding after those that it needs and that are not there yet; `None` where one of them needs the result of `pending`.
    fn needed(&self, of: usize, pending: usize) -> Option<Vec<usize>> {
        let (mut found, mut work) = (BTreeSet::new(), vec![of]);
        while let Some(at) = work.pop() {
            if self.uses[at].contains(&pending) {
                return None;
            }
            if !self.is_done[at] && found.insert(at) {
                work.extend(&self.uses[at]);
            }
        }
        Some(found.into_iter().collect())
    }
}

/// Says of each collective whether something is computed before its result is used. Of what is sent the sender uses nothing, so its own
/// branches are beside the branch in which the receiver uses it.
fn mark(bindings: &mut [Binding]) {
    for at in 0..bindings.len() {
        let Some(row) = row_of(&bindings[at].expr).filter(|row| is_collective(row)) else {
            continue;
        };
        let is_sent = row.params.iter().any(|param| param.name == "target");
        let (before, after) = bindings.split_at_mut(at + 1);
        let own = &mut before[at];
        let uses = |binding: &&Binding| {
            let mut found = BTreeSet::new();
            match &binding.expr {
                Expr::If { condition, .. } if is_sent => {
                    used_in(&Expr::Atom(condition.clone()), &mut found);
                }
                other => used_in(other, &mut found),
            }
            found.contains(&own.var)
        };
        let mut beside = after.iter().take_while(|binding| !uses(binding));
        let overlaps = beside.any(|binding| is_work(&binding.expr));
        if let Expr::Call { attrs, .. } = &mut own.expr
            && overlaps
        {
            attrs.push((ASYNC.into(), Atom::Bool(true)));
        }
    }
}
