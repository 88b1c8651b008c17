//! Where a side of a rule is found in the graph: first by operators and sharing alone, then by annotations and
//! attributes.

use super::binding::{Bound, Met};
use super::graph::Graph;
use super::questions::Questions;
use super::term::{Head, Scalar, Term};
use egg::Id;
use relax_syntax::annotation::Annotation;
use relax_theorems::rules::rule::{Arg, Call, ElementType, Node, Param};
use std::collections::BTreeMap;

/// The most matches of one rule in one class.
const MOST_MATCHES: usize = 16;

/// A side as it stands in the graph, so that an explanation can name the very terms.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Found {
    Class(Id),
    Node(Term, Vec<Found>),
}

/// A match.
#[derive(Clone, Debug)]
pub(super) struct Match {
    pub(super) class: Id,
    pub(super) bound: Bound,
    pub(super) found: Found,
}

/// A match so far, by structure alone.
#[derive(Clone)]
struct Partial<'r> {
    params: BTreeMap<usize, Id>,
    calls: Vec<Met<'r>>,
    constants: Vec<(Scalar, &'r ElementType)>,
}

/// All matches of a side in a class.
pub(super) fn matches(graph: &Graph, params: &[Param], side: &Node, class: Id) -> Vec<Match> {
    let nothing = Partial { params: BTreeMap::new(), calls: Vec::new(), constants: Vec::new() };
    let shapes = structural(graph, side, class, &nothing);
    let mut questions = graph.analysis.questions.borrow_mut();
    questions.trying(shapes.len());
    let mut all = Vec::new();
    for (partial, found) in shapes {
        let annotation = |id: Id| -> Option<Annotation> { graph[id].data.clone() };
        for bound in Bound::of_operands(params, &partial.params, &annotation, &mut questions) {
            if let Some(bound) = completed(bound, &partial, &mut questions) {
                all.push(Match { class, bound, found: found.clone() });
                // Other ways to divide the same axes say nothing new.
                break;
            }
        }
    }
    all
}

fn completed(mut bound: Bound, partial: &Partial, questions: &mut Questions) -> Option<Bound> {
    let attributes = partial.calls.iter().all(|met| bound.attributes(met));
    let constants = partial.constants.iter().all(|(scalar, kind)| bound.constant(*scalar, kind));
    (attributes && constants && bound.close(questions)).then_some(bound)
}

/// Every way in which a side stands in a class.
fn structural<'r>(
    graph: &Graph,
    side: &'r Node,
    class: Id,
    so_far: &Partial<'r>,
) -> Vec<(Partial<'r>, Found)> {
    let class = graph.find(class);
    match side {
        Node::Param(at) => {
            let mut partial = so_far.clone();
            let same = *partial.params.entry(*at).or_insert(class) == class;
            if same { vec![(partial, Found::Class(class))] } else { Vec::new() }
        }
        Node::Constant(value, kind) => {
            let mut all = Vec::new();
            for term in &graph[class].nodes {
                if let Head::Scalar(scalar) = &term.head
                    && scalar.is(*value)
                {
                    let mut partial = so_far.clone();
                    partial.constants.push((*scalar, kind));
                    all.push((partial, Found::Node(term.clone(), Vec::new())));
                }
            }
            all
        }
        Node::Part(whole, at) => {
            let mut all = Vec::new();
            for term in graph[class].nodes.iter().filter(|term| term.head == Head::Part(*at)) {
                for (partial, found) in structural(graph, whole, term.children[0], so_far) {
                    all.push((partial, Found::Node(term.clone(), vec![found])));
                }
            }
            all
        }
        Node::Call(call) => {
            let mut all = Vec::new();
            for term in &graph[class].nodes {
                if all.len() < MOST_MATCHES {
                    of_call(graph, call, term, so_far, &mut all);
                }
            }
            all
        }
    }
}

fn of_call<'r>(
    graph: &Graph,
    call: &'r Call,
    term: &Term,
    so_far: &Partial<'r>,
    all: &mut Vec<(Partial<'r>, Found)>,
) {
    let Head::Call(name, attrs) = &term.head else { return };
    let operands = operands(call);
    if *name != call.row.name || operands.len() != term.children.len() {
        return;
    }
    let mut partial = so_far.clone();
    let first = term.children.first().and_then(|&id| rank(graph, id));
    partial.calls.push(Met { call, attrs: attrs.clone(), first });
    let mut ways = vec![(partial, Vec::new())];
    for (node, &child) in operands.iter().zip(&term.children) {
        let mut next = Vec::new();
        for (partial, found) in ways {
            for (partial, one) in structural(graph, node, child, &partial) {
                let mut found = found.clone();
                found.push(one);
                next.push((partial, found));
            }
        }
        next.truncate(MOST_MATCHES);
        ways = next;
    }
    let node = |(partial, found)| (partial, Found::Node(term.clone(), found));
    all.extend(ways.into_iter().map(node));
}

/// The tensors that a call of a rule is passed, in the order of the children of a term.
pub(super) fn operands(call: &Call) -> Vec<&Node> {
    let mut found = Vec::new();
    for arg in &call.args {
        match arg {
            Arg::Node(node) => found.push(node),
            Arg::Nodes(nodes) => found.extend(nodes),
            _ => {}
        }
    }
    found
}

/// The rank of a class of tensors.
pub(super) fn rank(graph: &Graph, class: Id) -> Option<usize> {
    graph[class].data.as_ref()?.as_tensor()?.extents.rank()
}
