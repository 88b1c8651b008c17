//! One region: its graph is saturated, and forms of it are taken out that are cheap at some dims.

use super::cost::{Cost, cost_of};
use super::encode::{Encoded, From, Step};
use super::explain::{Explained, explained};
use super::extract::{Form, Forms, Pricing, Values, Wanted, canonical, cost_in, cost_of_form};
use super::graph::{Graph, Shapes};
use super::polynomial::Polynomial;
use super::questions::Questions;
use super::replay::replays;
use super::report::FormCounts;
use super::rulebook::Directed;
use super::search::{Limits, Saturated, saturate};
use super::term::{Head, Term};
use crate::dims::assume_declared;
use crate::guarded::Guard;
use egg::{EGraph, Id};
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_syntax::ir::DimVar;
use relax_theorems::rules::Rule;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is asked of a region.
pub(super) struct Task<'t> {
    pub(super) rules: &'t [Directed],
    /// Those of them that the caller brought.
    pub(super) own: &'t [Arc<Rule>],
    pub(super) limits: &'t Limits,
    /// What holds of dims beside what is declared of them.
    pub(super) assumed: &'t Guard,
    pub(super) samples: &'t [Values],
    pub(super) wanted: Wanted,
    pub(super) explain: bool,
    /// By which forms are looked for.
    pub(super) pricings: &'t [Pricing],
    /// Values from outside that are known when a module is built, of those that calls on them cost nothing then.
    pub(super) constants: &'t BTreeSet<usize>,
    pub(super) clock: Option<fn() -> u64>,
}

/// Chooses among forms by what they cost after fusion; the first is the region as it is. `None`: proofs on [`Cost`] decide.
pub(super) type Choose<'c> = dyn FnMut(&[Solution], &mut dyn Facts) -> Option<usize> + 'c;

/// A form of a region without names.
#[derive(Clone, Debug, Default)]
pub(super) struct Solution {
    pub(super) steps: Vec<Made>,
    /// The value of each output.
    pub(super) outputs: Vec<From>,
    /// Where the values of steps of the region are, of those that are still computed.
    pub(super) now: BTreeMap<usize, From>,
    pub(super) cost: Cost,
    pub(super) explained: Vec<Explained>,
    /// Whether the explanation, where one was asked for, was replayed.
    pub(super) replays: bool,
}

/// A step of a form.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Made {
    pub(super) head: Head,
    pub(super) operands: Vec<From>,
    pub(super) annotation: Annotation,
    /// The step of the region that has the same value, after which it is named.
    pub(super) named: Option<usize>,
    /// The step of the region that is this very call.
    pub(super) verbatim: Option<usize>,
}

/// What came of a region.
#[derive(Clone, Debug)]
pub(super) struct Solved {
    /// The region as it is, then other forms.
    pub(super) forms: Vec<Solution>,
    /// For each sample the form that is cheap there.
    pub(super) at: Vec<usize>,
    /// The cheapest form of those that are proved to cost no more than the region as it is, for all dims.
    pub(super) always: usize,
    pub(super) saturated: Saturated,
    /// How near they are to the cheapest of the graph.
    pub(super) looked_for: FormCounts,
}

/// Saturates a region under what is declared of dims.
pub(super) fn solve(
    region: &Encoded,
    dims: &[DimVar],
    facts: &mut dyn Facts,
    task: &Task,
    choose: &mut Choose,
) -> Option<Solved> {
    facts.push();
    assume_declared(facts, dims);
    task.assumed.iter().for_each(|claim| facts.assume(claim.clone()));
    for leaf in &region.leaves {
        leaf.annotation.visit_dims(&mut |dim| {
            if !matches!(dim, Dim::Int(_) | Dim::Var(_)) {
                facts.assume(Claim::new(0, Relation::AtMost, dim.clone()));
            }
        });
    }
    let solved = within(region, facts, task, choose);
    facts.pop();
    solved
}

fn within(
    region: &Encoded,
    facts: &mut dyn Facts,
    task: &Task,
    choose: &mut Choose,
) -> Option<Solved> {
    let questions = RefCell::new(Questions::new(facts));
    let shapes = Shapes { questions, leaves: region.leaves.clone() };
    let mut graph: Graph = EGraph::new(shapes);
    if task.explain {
        graph = graph.with_explanations_enabled();
    }
    let ids = region.add_to(&mut graph);
    let outputs = region.output_classes(&mut graph, &ids);
    let saturated = saturate(&mut graph, task.rules, task.limits, task.clock);
    let written = written(region, &mut graph, &ids);
    let own = Written::of(region, &graph, &written);
    let mut forms: Vec<Form> = Vec::new();
    let mut at = Vec::with_capacity(task.samples.len());
    let mut looked_for = FormCounts::default();
    {
        let terms = written.iter().map(|(term, _)| term.clone());
        let all = Forms::new(&graph, terms, task.constants);
        let prices = task
            .pricings
            .iter()
            .flat_map(|pricing| task.samples.iter().map(move |sample| (*pricing, sample)));
        for (pricing, sample) in prices {
            let steps = task.limits.extraction;
            let found = all.at(&outputs, sample, (task.wanted, pricing), steps);
            found.iter().for_each(|found| looked_for.add(&FormCounts::of(found)));
            let form = found.map(|found| found.form).filter(|form| !own.is(form));
            let known = |form: Form| match forms.iter().position(|known| *known == form) {
                Some(known) => known + 1,
                None => {
                    forms.push(form);
                    forms.len()
                }
            };
            at.push(form.map_or(0, known));
        }
    }
    let mut solutions = vec![Solution { cost: own.cost.clone(), ..Solution::default() }];
    for form in &forms {
        solutions.push(solution(&graph, region, form, &ids, &written, &outputs));
    }
    let chosen = choose(&solutions, graph.analysis.questions.borrow_mut().facts());
    let always = chosen.unwrap_or_else(|| own.cheapest_of_all(&graph, &forms, &task.samples[0]));
    if task.explain && always > 0 {
        let form = &forms[always - 1];
        solutions[always].explained = explained(&mut graph, form, &outputs, region, &ids);
        let Shapes { questions, leaves } = graph.analysis;
        let mut fresh: Graph = EGraph::new(Shapes { questions, leaves });
        let solution = &mut solutions[always];
        solution.replays = replays(&mut fresh, region, &solution.explained, task.own);
    }
    Some(Solved { forms: solutions, at, always, saturated, looked_for })
}

/// The region as it is, as far as its outputs need it. It is no form: a class may have two of its terms.
struct Written {
    terms: Vec<(Term, Cost)>,
    cost: Cost,
}

impl Written {
    fn of(region: &Encoded, graph: &Graph, written: &[(Term, usize)]) -> Written {
        let mut needed: BTreeSet<usize> = BTreeSet::new();
        let mut open: Vec<From> = region.outputs.iter().map(|var| region.values[var]).collect();
        while let Some(from) = open.pop() {
            if let From::Step(at) = from
                && needed.insert(at)
            {
                open.extend(&region.steps[at].operands);
            }
        }
        let mut terms: Vec<(Term, Cost)> = needed
            .into_iter()
            .map(|at| {
                let term = written[at].0.clone();
                let annotations =
                    region.steps[at].operands.iter().map(|&from| region.annotation(from));
                let annotations: Vec<Annotation> = annotations.collect();
                let cost = cost_of(&term.head, &annotations, &region.steps[at].annotation);
                (term, cost)
            })
            .collect();
        terms.sort_by(|(a, _), (b, _)| a.cmp(b));
        let cost = terms.iter().fold(Cost::zero(), |sum, (_, cost)| sum.plus(cost));
        debug_assert!(
            graph.clean || terms.is_empty(),
            "invariant: terms are over classes as they are"
        );
        Written { terms, cost }
    }

    /// Whether a form is this very region.
    fn is(&self, form: &Form) -> bool {
        let mut calls: Vec<&Term> = form
            .values()
            .filter(|term| !matches!(term.head, Head::Leaf(_) | Head::Scalar(_)))
            .collect();
        calls.sort();
        calls.len() == self.terms.len() && calls.iter().zip(&self.terms).all(|(a, (b, _))| *a == b)
    }

    /// The form that costs least at a sample, of those that are proved never to cost more than the region; 0 is the
    /// region itself.
    fn cheapest_of_all(&self, graph: &Graph, forms: &[Form], sample: &Values) -> usize {
        let price =
            |cost: &Cost| cost.total().eval(&|name| sample.get(name).copied()).unwrap_or(i64::MAX);
        let own = price(&self.cost);
        let prices = forms.iter().map(|form| price(&cost_of_form(graph, form)));
        let mut order: Vec<(i64, usize)> =
            prices.zip(0..).filter(|(cost, _)| *cost < own).collect();
        order.sort_unstable();
        let found = order.into_iter().find(|&(_, at)| self.costs_no_less(graph, &forms[at]));
        found.map_or(0, |(_, at)| at + 1)
    }

    /// Whether a form is proved to cost no more. What both compute is left out.
    fn costs_no_less(&self, graph: &Graph, form: &Form) -> bool {
        let known = |term: &Term| self.terms.binary_search_by(|(own, _)| own.cmp(term)).is_ok();
        let new = form.iter().filter(|(_, term)| !known(term));
        let new = new.map(|(id, term)| cost_in(graph, term, *id));
        let kept: BTreeSet<&Term> = form.values().collect();
        let mut seen = BTreeSet::new();
        let gone = self.terms.iter().filter(|(term, _)| !kept.contains(term) || !seen.insert(term));
        let gone = gone.fold(Cost::zero(), |sum, (_, cost)| sum.plus(cost));
        let new = new.fold(Cost::zero(), |sum, cost| sum.plus(&cost));
        // What an empty tensor costs decides nothing, so that every dim is at least 1 here.
        Polynomial::of(&new.total()).is_at_most(&Polynomial::of(&gone.total()), &|_| 1)
    }
}

/// Each step as a term over the classes as they are now, with the place of the step.
fn written(region: &Encoded, graph: &mut Graph, ids: &[Id]) -> Vec<(Term, usize)> {
    let mut found = Vec::with_capacity(region.steps.len());
    for (at, step) in region.steps.iter().enumerate() {
        let children: Vec<Id> =
            step.operands.iter().map(|&from| super::encode::class(graph, ids, from)).collect();
        found.push((canonical(graph, Term { head: step.head.clone(), children }), at));
    }
    found
}

fn solution(
    graph: &Graph,
    region: &Encoded,
    form: &Form,
    ids: &[Id],
    written: &[(Term, usize)],
    outputs: &[Id],
) -> Solution {
    let mut made =
        Making { graph, region, form, ids, written, steps: Vec::new(), done: BTreeMap::new() };
    let outputs = outputs.iter().map(|&id| made.value(graph.find(id))).collect();
    let done = made.done;
    let steps = made.steps;
    let mut now = BTreeMap::new();
    for (at, &id) in ids.iter().enumerate() {
        if let Some(&from) = done.get(&graph.find(id)) {
            now.insert(at, from);
        }
    }
    let cost = cost_of_form(graph, form);
    Solution { steps, outputs, now, cost, explained: Vec::new(), replays: false }
}

struct Making<'m, 'f> {
    graph: &'m Graph<'f>,
    region: &'m Encoded,
    form: &'m Form,
    ids: &'m [Id],
    written: &'m [(Term, usize)],
    steps: Vec<Made>,
    done: BTreeMap<Id, From>,
}

impl Making<'_, '_> {
    /// The value of a class, operands first.
    fn value(&mut self, id: Id) -> From {
        if let Some(&known) = self.done.get(&id) {
            return known;
        }
        let term = &self.form[&id];
        let from = match &term.head {
            Head::Leaf(at) => From::Leaf(*at),
            Head::Scalar(scalar) => From::Scalar(*scalar),
            _ => {
                let operands = term.children.iter().map(|&child| self.value(child)).collect();
                let verbatim =
                    self.written.iter().find(|(known, _)| known == term).map(|(_, at)| *at);
                let named = verbatim
                    .or_else(|| self.ids.iter().position(|&other| self.graph.find(other) == id));
                let annotation = match (named, &self.graph[id].data) {
                    (Some(at), _) => self.region.steps[at].annotation.clone(),
                    (None, Some(annotation)) => annotation.clone(),
                    (None, None) => Annotation::Object,
                };
                let head = term.head.clone();
                self.steps.push(Made { head, operands, annotation, named, verbatim });
                From::Step(self.steps.len() - 1)
            }
        };
        self.done.insert(id, from);
        from
    }
}

impl Solved {
    /// Whether a form is the region as it is.
    pub(super) fn is_unchanged(&self, form: usize) -> bool {
        form == 0
    }
}

/// Whether two regions are alike up to the names of what they are given.
pub(super) fn are_alike(a: &Encoded, b: &Encoded) -> bool {
    let annotations = |region: &Encoded| -> Vec<Annotation> {
        region.leaves.iter().map(|leaf| leaf.annotation.clone()).collect()
    };
    let outputs = |region: &Encoded| -> Vec<From> {
        region.outputs.iter().map(|var| region.values[var]).collect()
    };
    let steps = |a: &[Step], b: &[Step]| a == b;
    steps(&a.steps, &b.steps) && annotations(a) == annotations(b) && outputs(a) == outputs(b)
}
