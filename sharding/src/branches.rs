//! Control flow that all ranks follow alike: `if` by a condition that each of them has, and checks of values that each has whole.

use crate::beam::State;
use crate::layout::{Layout, is_legal};
use crate::program::visit_bindings;
use crate::propagate::{Branch, Propagation, Step, refused};
use relax_semantics::check::{Phase, check};
use relax_syntax::annotation::{Annotation, Placement};
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{Atom, Body, Expr, Function, Module, VarId};
use relax_syntax::span::Span;
use relax_theorems::placement::calls::{given, tensors};
use std::collections::{BTreeMap, BTreeSet};

/// What the branches of an `if` do for one layout of what they give.
#[derive(Clone)]
struct Way {
    layout: Layout,
    branches: Box<[Branch; 2]>,
    /// Bytes and work of the worse branch.
    cost: (i128, i128),
}

/// The layouts of the values that branches use, and the ways through the branches.
type Ways = (BTreeMap<VarId, Vec<Layout>>, Vec<Way>);

impl Propagation<'_> {
    /// An `if`: every rank has the condition, and takes the same branch. Both give their values in one layout.
    ///
    /// # Errors
    /// What is not supported in it.
    pub(crate) fn branches(
        &self,
        var: VarId,
        condition: &Atom,
        bodies: [&Body; 2],
        states: Vec<State>,
        facts: &mut dyn Facts,
    ) -> Result<Vec<State>, Diagnostic> {
        let span = self.function.var(var).span;
        let Atom::Var(condition) = *condition else {
            return Err(refused(span, "the condition of an `if` is no variable"));
        };
        let results = [results(bodies[0], span)?, results(bodies[1], span)?];
        let mut used = BTreeSet::new();
        bodies.iter().for_each(|body| used_in_body(body, &mut used));
        let mut known: Vec<Ways> = Vec::new();
        let mut next = Vec::new();
        for mut state in states {
            if !self.has_whole(&mut state, condition, (span, "a condition")) {
                continue;
            }
            let mut have = state.have.clone();
            have.retain(|var, _| used.contains(var));
            let at = match known.iter().position(|(own, _)| *own == have) {
                Some(at) => at,
                None => {
                    let ways = self.ways((var, span), bodies, &results, &have, facts)?;
                    known.push((have, ways));
                    known.len() - 1
                }
            };
            for Way { layout, branches, cost: (bytes, work) } in known[at].1.iter().cloned() {
                let mut state = state.clone();
                state.bytes = state.bytes.saturating_add(bytes);
                state.work = state.work.saturating_add(work);
                state.have.insert(var, vec![layout.clone()]);
                state.steps.push(Step::If { var, condition, layout, branches });
                next.push(state);
            }
        }
        if next.is_empty() {
            return Err(refused(span, "the branches of an `if` have no layout in common"));
        }
        Ok(next)
    }

    fn ways(
        &self,
        (var, span): (VarId, Span),
        bodies: [&Body; 2],
        results: &[Vec<VarId>; 2],
        have: &BTreeMap<VarId, Vec<Layout>>,
        facts: &mut dyn Facts,
    ) -> Result<Vec<Way>, Diagnostic> {
        let annotation = self.function.var(var).annotation.as_ref();
        let Some(fields) = annotation.and_then(tensors) else {
            return Err(refused(span, "dims or dtype of what an `if` gives are not known"));
        };
        let start = State { have: have.clone(), ..State::default() };
        let then = self.through(bodies[0], &results[0], start.clone(), facts)?;
        let otherwise = self.through(bodies[1], &results[1], start, facts)?;
        let mut layouts = BTreeSet::from([self.axes.replicated()]);
        for (states, results) in [(&then, &results[0]), (&otherwise, &results[1])] {
            let each = states.iter().flat_map(|state| {
                results.iter().filter_map(|result| state.have.get(result)).flatten().cloned()
            });
            layouts.extend(each);
        }
        let rank = fields.iter().map(|(dims, _)| dims.len()).min().unwrap_or(0);
        layouts.retain(|layout| {
            is_legal(layout)
                && layout.iter().all(|placement| match placement {
                    Placement::Sharded(axis) => *axis < rank,
                    Placement::Replicated | Placement::Only(_) => true,
                    // A value that is a term in one branch only is none.
                    Placement::Partial(_) => false,
                })
        });
        let way = |layout: Layout| {
            let branch = |states: &[State], results: &[VarId]| {
                let wanted: Vec<(VarId, Layout)> =
                    results.iter().map(|result| (*result, layout.clone())).collect();
                let state = self.ended(states, &wanted, (span, BRANCH))?;
                let cost = state.cost();
                Some((cost, Branch { steps: state.steps.to_vec(), results: results.to_vec() }))
            };
            let (one, then) = branch(&then, &results[0])?;
            let (other, otherwise) = branch(&otherwise, &results[1])?;
            let cost = (one.0.max(other.0), one.1.max(other.1));
            Some(Way { layout, branches: Box::new([then, otherwise]), cost })
        };
        Ok(layouts.into_iter().filter_map(way).collect())
    }

    /// `match_cast` of a value that every rank has: all check the same, and bind the same dims.
    ///
    /// # Errors
    /// What is not supported in it.
    pub(crate) fn match_cast(
        &self,
        var: VarId,
        of: VarId,
        annotation: &Annotation,
        states: Vec<State>,
    ) -> Result<Vec<State>, Diagnostic> {
        let span = self.function.var(var).span;
        let is_tensor = match annotation {
            Annotation::Tensor(_) => true,
            Annotation::Shape(_) | Annotation::Prim(_) => false,
            other => {
                return Err(refused(span, format!("a `match_cast` to `{other}` is not sharded")));
            }
        };
        let known = self.function.var(var).annotation.as_ref().and_then(tensors);
        if is_tensor && known.is_none() {
            return Err(refused(span, "dims or dtype of a `match_cast` are not known"));
        }
        let checked = |mut state: State| {
            if !self.has_whole(&mut state, of, (span, "match_cast")) {
                return None;
            }
            let layout = if is_tensor { self.axes.replicated() } else { Layout::new() };
            let operands = vec![layout.clone()];
            state.steps.push(Step::Bind { var, operands, layout: layout.clone() });
            if is_tensor {
                state.have.insert(var, vec![layout]);
            }
            Some(state)
        };
        Ok(states.into_iter().filter_map(checked).collect())
    }

    /// Has every rank have a value whole; a value that is no tensor each has.
    fn has_whole(&self, state: &mut State, var: VarId, wanted: (Span, &str)) -> bool {
        let is_tensor = self.function.var(var).annotation.as_ref().and_then(tensors).is_some();
        !is_tensor || self.ensure(state, var, &self.axes.replicated(), wanted).is_some()
    }
}

/// What wants the layout of what a branch gives.
pub(crate) const BRANCH: &str = "a branch";

/// What is deduced of the value of each `if` of a function.
pub(crate) fn of_branches(
    module: &Module,
    function: &Function,
    facts: &mut dyn Facts,
) -> BTreeMap<VarId, Annotation> {
    let mut vars = Vec::new();
    visit_bindings(function, &mut |binding| {
        if matches!(binding.expr, Expr::If { .. }) {
            vars.push(binding.var);
        }
    });
    if vars.is_empty() {
        return BTreeMap::new();
    }
    let checked = check(module, facts, Phase::Surface);
    let Some(all) = checked.annotations.get(&function.name) else { return BTreeMap::new() };
    let deduced = |var: VarId| Some((var, all.get(var.0 as usize)?.clone()));
    vars.into_iter().filter_map(deduced).collect()
}

/// The variables that a branch gives.
fn results(body: &Body, span: Span) -> Result<Vec<VarId>, Diagnostic> {
    given(body).ok_or_else(|| refused(span, "what a branch gives is no variable"))
}

fn used_in_body(body: &Body, found: &mut BTreeSet<VarId>) {
    body.bindings().for_each(|binding| used_in(&binding.expr, found));
    used_in_atom(&body.result, found);
}

fn used_in_atom(atom: &Atom, found: &mut BTreeSet<VarId>) {
    match atom {
        Atom::Var(own) => _ = found.insert(*own),
        Atom::Tuple(items) | Atom::List(items) => {
            items.iter().for_each(|item| used_in_atom(item, found));
        }
        _ => {}
    }
}

/// The variables that an expression uses, those of branches included.
pub(crate) fn used_in(expr: &Expr, found: &mut BTreeSet<VarId>) {
    match expr {
        Expr::Atom(atom) | Expr::Get(atom, _) | Expr::MatchCast(atom, _) => {
            used_in_atom(atom, found);
        }
        Expr::Call { args, attrs, .. } => {
            let all = args.iter().chain(attrs.iter().map(|(_, atom)| atom));
            all.for_each(|atom| used_in_atom(atom, found));
        }
        Expr::If { condition, then, otherwise } => {
            used_in_atom(condition, found);
            [then, otherwise].into_iter().for_each(|body| used_in_body(body, found));
        }
        // It is refused before anything is made of it.
        Expr::Closure(_) => {}
    }
}
