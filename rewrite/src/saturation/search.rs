//! Saturation within limits: all rules are matched, what means the same is united, and so on until nothing is
//! new or a limit is met. Only what was counted limits it, never time, so that a program has one outcome.

use super::graph::Graph;
use super::instantiate::{add_found, plan};
use super::matching::{Found, Match, matches};
use super::rulebook::Directed;
use super::term::{Head, Kind};
use egg::{Id, Language};
use relax_syntax::Name;
use relax_syntax::facts::Claim;
use relax_theorems::rules::rule::Node;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// How far a saturation goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nodes of the graph of a region.
    pub nodes: usize,
    /// Rounds in which every rule is matched.
    pub iterations: usize,
    /// Classes of the graph of a region.
    pub classes: usize,
    /// Matches of one rule in one round; those beyond it have their turn in the next.
    pub matches: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { nodes: 1500, iterations: 8, classes: 1000, matches: 60 }
    }
}

/// How often a rule was found and used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Places where its left side stands and its conditions could be decided.
    pub matches: usize,
    /// Those that told something new.
    pub applications: usize,
}

/// What came of a saturation.
#[derive(Clone, Debug, Default)]
pub(super) struct Saturated {
    pub(super) uses: BTreeMap<Name, Uses>,
    /// Conditions of rules that hold for some dims only.
    pub(super) undecided: BTreeSet<Claim>,
}

/// Applies rules until there is nothing new, within limits.
pub(super) fn saturate(graph: &mut Graph, rules: &[Directed], limits: &Limits) -> Saturated {
    let mut search =
        Search { rules, limits, done: HashSet::new(), saturated: Saturated::default() };
    graph.rebuild();
    for _ in 0..limits.iterations {
        if !search.round(graph) || search.is_full(graph) {
            break;
        }
    }
    search.saturated
}

struct Search<'r> {
    rules: &'r [Directed],
    limits: &'r Limits,
    /// Matches that were tried, by rule.
    done: HashSet<(usize, Found)>,
    saturated: Saturated,
}

impl Search<'_> {
    fn is_full(&self, graph: &Graph) -> bool {
        graph.total_number_of_nodes() >= self.limits.nodes
            || graph.number_of_classes() >= self.limits.classes
    }

    /// Matches every rule, then applies what was found; whether there was anything new.
    fn round(&mut self, graph: &mut Graph) -> bool {
        let places = places(graph);
        let mut found = Vec::new();
        for (at, directed) in self.rules.iter().enumerate() {
            self.find(graph, &places, at, directed, &mut found);
        }
        let mut new = false;
        for (at, found) in found {
            if self.is_full(graph) {
                break;
            }
            new |= self.apply(graph, at, &found);
        }
        graph.rebuild();
        new
    }

    fn find(
        &mut self,
        graph: &Graph,
        places: &BTreeMap<Root, Vec<Id>>,
        at: usize,
        directed: &Directed,
        all: &mut Vec<(usize, Match)>,
    ) {
        let root = match directed.from {
            Node::Call(call) => Root::Call(call.row.name),
            Node::Part(_, part) => Root::Part(*part),
            Node::Param(_) | Node::Constant(..) => return,
        };
        let mut count = 0;
        for &class in places.get(&root).into_iter().flatten() {
            for found in matches(graph, &directed.rule.params, directed.from, class) {
                if count >= self.limits.matches {
                    return;
                }
                if self.done.insert((at, found.found.clone())) {
                    count += 1;
                    all.push((at, found));
                }
            }
        }
    }

    /// Unites a match with the other side, if it is the same and never stops; whether that was new.
    fn apply(&mut self, graph: &mut Graph, at: usize, found: &Match) -> bool {
        let directed = &self.rules[at];
        let Some((plan, place, annotation)) = plan(graph, &found.bound, directed.to) else {
            return false;
        };
        let Some(own) = graph[found.class].data.clone() else { return false };
        let mut open = Vec::new();
        {
            let mut questions = graph.analysis.questions.borrow_mut();
            if !questions.same(&own, &annotation) {
                return false;
            }
            for condition in &directed.rule.conditions {
                let (Some(left), Some(right)) =
                    (found.bound.value(&condition.left), found.bound.value(&condition.right))
                else {
                    return false;
                };
                let claim = Claim::new(left, condition.relation, right);
                if !questions.proves(&claim) {
                    open.push(claim);
                }
            }
        }
        if !open.is_empty() {
            self.saturated.undecided.extend(open);
            return false;
        }
        let uses = self.saturated.uses.entry(directed.name.clone()).or_default();
        uses.matches += 1;
        if plan.existing(graph, place) == Some(graph.find(found.class)) {
            return false;
        }
        uses.applications += 1;
        let other = plan.add_to(graph, place);
        let this = if graph.are_explanations_enabled() {
            add_found(graph, &found.found)
        } else {
            found.class
        };
        graph.union_trusted(this, other, directed.name.as_str())
    }
}

/// What a side begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Root {
    Call(&'static str),
    Part(usize),
}

/// The classes that have a term of each kind, in order.
fn places(graph: &Graph) -> BTreeMap<Root, Vec<Id>> {
    let mut classes: Vec<Id> = graph.classes().map(|class| class.id).collect();
    classes.sort_unstable();
    let mut places: BTreeMap<Root, Vec<Id>> = BTreeMap::new();
    for id in classes {
        let mut roots = BTreeSet::new();
        for term in &graph[id].nodes {
            match &term.head {
                Head::Call(name, _) => _ = roots.insert(Root::Call(name)),
                Head::Part(at) => _ = roots.insert(Root::Part(*at)),
                Head::Leaf(_) | Head::Scalar(_) | Head::Outputs => {
                    debug_assert_eq!(term.discriminant(), Kind::Leaf);
                }
            }
        }
        for root in roots {
            places.entry(root).or_default().push(id);
        }
    }
    places
}
