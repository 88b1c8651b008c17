//! One form of a region out of its graph: cheap at given dims, each shared value counted once.
//!
//! To find the cheapest form with sharing is hard (it contains set cover). The greedy way comes first: a class
//! takes the node whose operands, with all that they need counted once, cost least; a cost never falls below that of
//! the most expensive operand, so what is found for a class without sharing is the cheapest, and with sharing it is
//! at most as many times dearer as a value is used. Then a [search](super::optimal) with a limit of steps looks for a cheaper one;
//! most graphs are small enough that what it leaves is the cheapest of all. Whoever takes a form compares it with the one at hand.

use super::cost::{Cost, cost_of, may_fuse};
use super::graph::Graph;
use super::optimal::{Node, Optimum, Priced, optimum};
use super::term::{Head, Term};
use egg::Id;
use relax_syntax::Name;
use std::collections::{BTreeMap, BTreeSet};

/// The dims at which costs are compared.
pub(super) type Values = BTreeMap<Name, i64>;

/// A form that was taken out of a graph.
pub(super) struct Extracted {
    pub(super) form: Form,
    /// Whether no other one costs less, or a dear one was wanted; false where the search ended at its limit.
    pub(super) is_proved: bool,
    /// What the search saved, in percent of the greedy form, where it found a cheaper one.
    pub(super) saved: Option<u8>,
}

/// A node for each class that is needed.
pub(super) type Form = BTreeMap<Id, Term>;

/// Which way a search for a form goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Cheapest,
    /// The other end: what tests run against the cheapest.
    Dearest,
}

/// How terms are priced when a form is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pricing {
    /// Each call is a kernel that reads and writes memory.
    Separate,
    /// A call that may fuse with a neighbour costs its operations alone.
    Fused,
    /// Such a call costs next to nothing, so that it stays where it is.
    Anchors,
}

/// The node that was chosen for a class, and the cost of each class that it needs, its own included.
#[derive(Clone, Debug)]
struct Choice {
    term: Term,
    needs: BTreeMap<Id, i128>,
    total: i128,
}

/// The graph without what costs nothing to ask again.
pub(super) struct Forms<'g, 'f> {
    graph: &'g Graph<'f>,
    /// Every class with its nodes and their costs, in order.
    classes: Vec<(Id, Vec<(Term, Cost)>)>,
    /// The nodes that the program has.
    written: BTreeSet<Term>,
}

impl<'g, 'f> Forms<'g, 'f> {
    /// Of a graph; `written` are the terms of the program.
    pub(super) fn new(
        graph: &'g Graph<'f>,
        written: impl IntoIterator<Item = Term>,
        constants: &BTreeSet<usize>,
    ) -> Self {
        let constant = constant_classes(graph, constants);
        let canonical = |term: Term| canonical(graph, term);
        let written = written.into_iter().map(canonical).collect();
        let mut classes: Vec<(Id, Vec<(Term, Cost)>)> = Vec::new();
        for class in graph.classes() {
            let mut nodes: Vec<Term> =
                class.nodes.iter().map(|term| self::canonical(graph, term.clone())).collect();
            nodes.sort();
            nodes.dedup();
            let with_cost = nodes.into_iter().map(|term| {
                let is_constant = |child: &Id| constant.contains(child);
                let is_evaluated =
                    !term.children.is_empty() && term.children.iter().all(is_constant);
                let cost = match is_evaluated {
                    true => Cost::zero(),
                    false => cost_in(graph, &term, class.id),
                };
                (term, cost)
            });
            classes.push((class.id, with_cost.collect()));
        }
        classes.sort_by_key(|(id, _)| *id);
        Self { graph, classes, written }
    }

    /// The form of some classes that is cheap (or dear) at some dims; `steps` limit the search for a cheaper one.
    pub(super) fn at(
        &self,
        roots: &[Id],
        values: &Values,
        (wanted, pricing): (Wanted, Pricing),
        steps: usize,
    ) -> Option<Extracted> {
        let value = |term: &Term, cost: &Cost| {
            let sum = |dim: &relax_syntax::dim::Dim| {
                dim.eval(&|name| values.get(name).copied()).map_or(i128::from(i64::MAX), i128::from)
            };
            let total = match pricing {
                Pricing::Fused if may_fuse(&term.head) => sum(&cost.operations),
                Pricing::Anchors if may_fuse(&term.head) => i128::from(is_call(&term.head)),
                _ => sum(&cost.total()),
            };
            if wanted == Wanted::Cheapest { total } else { (1_i128 << 40) / (total + 1) }
        };
        let priced: Vec<Priced> = self
            .classes
            .iter()
            .map(|(id, nodes)| {
                let nodes = nodes.iter().map(|(term, cost)| Node {
                    term,
                    own: value(term, cost),
                    is_written: self.written.contains(term),
                });
                (*id, nodes.collect())
            })
            .collect();
        let roots: Vec<Id> = roots.iter().map(|root| self.graph.find(*root)).collect();
        let form = self.greedy(&roots, &priced)?;
        if wanted == Wanted::Dearest {
            return Some(Extracted { form, is_proved: true, saved: None });
        }
        let known = total(&form, &priced);
        let Optimum { better, is_proved } = optimum(&priced, &roots, known, steps);
        let percent = |form: &Form| 100 - 100 * total(form, &priced) / known.max(1);
        let saved = better.as_ref().map(|form| u8::try_from(percent(form)).unwrap_or(0));
        Some(Extracted { form: better.unwrap_or(form), is_proved, saved })
    }

    /// A form whose classes each have the node that is cheapest with all that it needs.
    fn greedy(&self, roots: &[Id], priced: &[Priced]) -> Option<Form> {
        let mut best: BTreeMap<Id, Choice> = BTreeMap::new();
        let mut changed = true;
        while changed {
            changed = false;
            for (id, nodes) in priced {
                for node in nodes {
                    let Some(choice) = self.choice(*id, node, &best) else { continue };
                    if best.get(id).is_none_or(|known| self.is_better(&choice, known)) {
                        best.insert(*id, choice);
                        changed = true;
                    }
                }
            }
        }
        self.form(roots, &best)
    }

    fn choice(&self, id: Id, node: &Node, best: &BTreeMap<Id, Choice>) -> Option<Choice> {
        let Node { term, own, .. } = *node;
        let mut needs = BTreeMap::new();
        for child in &term.children {
            let known = best.get(child)?;
            if known.needs.contains_key(&id) {
                return None;
            }
            needs.extend(known.needs.iter().map(|(id, cost)| (*id, *cost)));
        }
        needs.insert(id, own);
        let total = needs.values().sum();
        Some(Choice { term: term.clone(), needs, total })
    }

    /// Cheaper, or as cheap and nearer to the program.
    fn is_better(&self, a: &Choice, b: &Choice) -> bool {
        let key = |choice: &Choice| (choice.total, !self.written.contains(&choice.term));
        key(a) < key(b)
    }

    fn form(&self, roots: &[Id], best: &BTreeMap<Id, Choice>) -> Option<Form> {
        let mut form = Form::new();
        let mut open: Vec<Id> = roots.to_vec();
        while let Some(id) = open.pop() {
            if form.contains_key(&id) {
                continue;
            }
            let term = &best.get(&id)?.term;
            open.extend(&term.children);
            form.insert(id, term.clone());
        }
        is_acyclic(&form, roots).then_some(form)
    }
}

/// What a form costs altogether.
fn total(form: &Form, priced: &[Priced]) -> i128 {
    let own = |(id, nodes): &Priced| {
        let chosen = form.get(id)?;
        nodes.iter().find(|node| node.term == chosen).map(|node| node.own)
    };
    priced.iter().filter_map(own).sum()
}

/// The classes whose value is known when a module is built; `leaves` are the values from outside of which that is so.
fn constant_classes(graph: &Graph, leaves: &BTreeSet<usize>) -> BTreeSet<Id> {
    let mut constant = BTreeSet::new();
    if leaves.is_empty() {
        return constant;
    }
    let mut changed = true;
    while changed {
        changed = false;
        for class in graph.classes() {
            let is_known = |term: &Term| match &term.head {
                Head::Leaf(at) => leaves.contains(at),
                Head::Scalar(_) => true,
                Head::Outputs => false,
                _ => {
                    let mut children = term.children.iter();
                    !term.children.is_empty()
                        && children.all(|child| constant.contains(&graph.find(*child)))
                }
            };
            if !constant.contains(&class.id) && class.nodes.iter().any(is_known) {
                changed |= constant.insert(class.id);
            }
        }
    }
    constant
}

fn is_call(head: &Head) -> bool {
    matches!(head, Head::Call(..))
}

/// The operands of a class may have changed their choice after it took its own: then it is no form.
fn is_acyclic(form: &Form, roots: &[Id]) -> bool {
    fn visit(form: &Form, id: Id, open: &mut BTreeSet<Id>, done: &mut BTreeSet<Id>) -> bool {
        if done.contains(&id) {
            return true;
        }
        if !open.insert(id) {
            return false;
        }
        let fine = form[&id].children.iter().all(|&child| visit(form, child, open, done));
        open.remove(&id);
        done.insert(id);
        fine
    }
    let (mut open, mut done) = (BTreeSet::new(), BTreeSet::new());
    roots.iter().all(|&root| visit(form, root, &mut open, &mut done))
}

/// A term over the classes as they are now.
pub(super) fn canonical(graph: &Graph, mut term: Term) -> Term {
    term.children.iter_mut().for_each(|child| *child = graph.find(*child));
    term
}

/// What a term of a class costs.
pub(super) fn cost_in(graph: &Graph, term: &Term, class: Id) -> Cost {
    if matches!(term.head, Head::Outputs) {
        return Cost::zero();
    }
    let operands = term.children.iter().map(|&child| graph[child].data.clone());
    match (operands.collect::<Option<Vec<_>>>(), graph[class].data.as_ref()) {
        (Some(operands), Some(result)) => cost_of(&term.head, &operands, result),
        _ => Cost::zero(),
    }
}

/// What a form costs altogether.
pub(super) fn cost_of_form(graph: &Graph, form: &Form) -> Cost {
    let costs = form.iter().map(|(id, term)| cost_in(graph, term, *id));
    costs.fold(Cost::zero(), |sum, cost| sum.plus(&cost))
}
