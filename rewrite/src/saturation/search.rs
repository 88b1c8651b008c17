//! Saturation within limits: all rules are matched, what means the same is united, and so on until nothing is
//! new or a limit is met. Only what was counted limits it, never time, so that a program has one outcome.

use super::graph::Graph;
use super::instantiate::{add_found, plan};
use super::matching::{Found, Match, matches};
use super::rulebook::Directed;
use super::term::{Head, Kind};
use crate::guarded::Guard;
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
    /// Steps of each search for a form that is cheaper than the greedy one.
    pub extraction: usize,
}

impl Limits {
    /// Of builds that nobody asked for rules: the regions of models that gain after fusion do so in a few rounds, which take a quarter
    /// of the time of all.
    pub const OF_BUILDS: Self =
        Self { nodes: 600, iterations: 4, classes: 600, matches: 60, extraction: 1000 };
}

impl Default for Limits {
    fn default() -> Self {
        Self { nodes: 1500, iterations: 8, classes: 1000, matches: 60, extraction: 20_000 }
    }
}

/// How often a rule was found and used, and what that took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Places that were held against its left side, each once in every round.
    pub tried: usize,
    /// Claims on dims that the prover was asked for it; one that was asked before is remembered.
    pub asked: usize,
    /// Nodes that it added.
    pub nodes: usize,
    /// Places where its left side stands and its conditions are proved.
    pub matches: usize,
    /// Those that told something new.
    pub applications: usize,
    /// Time, where there was a clock.
    pub nanoseconds: u64,
}

impl Uses {
    /// A number that is the same in every run, by which rules are compared.
    #[must_use]
    pub fn work(&self) -> usize {
        self.tried + self.asked + self.nodes
    }

    /// Adds what was counted elsewhere.
    pub fn add(&mut self, more: &Uses) {
        self.tried += more.tried;
        self.asked += more.asked;
        self.nodes += more.nodes;
        self.matches += more.matches;
        self.applications += more.applications;
        self.nanoseconds += more.nanoseconds;
    }
}

/// What came of a saturation.
#[derive(Clone, Debug, Default)]
pub(super) struct Saturated {
    pub(super) uses: BTreeMap<Name, Uses>,
    /// What would have let rules be used and holds for some dims only, and how often that was so.
    pub(super) undecided: BTreeMap<Guard, usize>,
    /// The limit that ended it, if there was more to find.
    pub(super) limit: Option<&'static str>,
}

/// Applies rules until there is nothing new, within limits.
pub(super) fn saturate(
    graph: &mut Graph,
    rules: &[Directed],
    limits: &Limits,
    clock: Option<fn() -> u64>,
) -> Saturated {
    let (done, saturated) = (HashSet::new(), Saturated::default());
    let mut search = Search { rules, limits, clock, done, saturated };
    graph.rebuild();
    search.saturated.limit = Some("iterations");
    for _ in 0..limits.iterations {
        if !search.round(graph) {
            search.saturated.limit = None;
            break;
        }
        if let Some(limit) = search.reached(graph) {
            search.saturated.limit = Some(limit);
            break;
        }
    }
    search.saturated.undecided = graph.analysis.questions.borrow().undecided().clone();
    search.saturated
}

struct Search<'r> {
    rules: &'r [Directed],
    limits: &'r Limits,
    /// Tells nanoseconds.
    clock: Option<fn() -> u64>,
    /// Matches that were tried, by rule.
    done: HashSet<(usize, Found)>,
    saturated: Saturated,
}

impl Search<'_> {
    /// The limit on the size of the graph that is reached.
    fn reached(&self, graph: &Graph) -> Option<&'static str> {
        if graph.total_number_of_nodes() >= self.limits.nodes {
            return Some("nodes");
        }
        (graph.number_of_classes() >= self.limits.classes).then_some("classes")
    }

    /// Matches every rule, then applies what was found; whether there was anything new.
    fn round(&mut self, graph: &mut Graph) -> bool {
        let places = places(graph);
        let mut found = Vec::new();
        for (at, directed) in self.rules.iter().enumerate() {
            let before = self.now(graph);
            self.find(graph, &places, at, directed, &mut found);
            self.took(graph, &directed.name, before);
        }
        let mut new = false;
        for (at, found) in found {
            if self.reached(graph).is_some() {
                break;
            }
            let before = self.now(graph);
            new |= self.apply(graph, at, &found);
            self.took(graph, &self.rules[at].name.clone(), before);
        }
        graph.rebuild();
        new
    }

    fn now(&self, graph: &Graph) -> Uses {
        let effort = graph.analysis.questions.borrow().effort();
        let nanoseconds = self.clock.map_or(0, |clock| clock());
        let (tried, asked, nodes) = (effort.tried, effort.asked, graph.total_size());
        Uses { tried, asked, nodes, nanoseconds, ..Uses::default() }
    }

    /// Notes what a rule took since then.
    fn took(&mut self, graph: &Graph, rule: &Name, since: Uses) {
        let now = self.now(graph);
        let took = Uses {
            tried: now.tried - since.tried,
            asked: now.asked - since.asked,
            nodes: now.nodes.saturating_sub(since.nodes),
            nanoseconds: now.nanoseconds.saturating_sub(since.nanoseconds),
            ..Uses::default()
        };
        if took != Uses::default() {
            self.saturated.uses.entry(rule.clone()).or_default().add(&took);
        }
    }

    fn find(
        &mut self,
        graph: &Graph,
        places: &BTreeMap<Root, Vec<Id>>,
        at: usize,
        directed: &Directed,
        all: &mut Vec<(usize, Match)>,
    ) {
        let root = match directed.from() {
            Node::Call(call) => Root::Call(call.row.name),
            Node::Part(_, part) => Root::Part(*part),
            Node::Param(_) | Node::Constant(..) => return,
        };
        let mut count = 0;
        for &class in places.get(&root).into_iter().flatten() {
            for found in matches(graph, &directed.rule.params, directed.from(), class) {
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
        let Some((plan, place, annotation)) = plan(graph, &found.bound, directed.to()) else {
            return false;
        };
        let Some(own) = graph[found.class].data.clone() else { return false };
        let mut conditions = Vec::new();
        for condition in &directed.rule.conditions {
            let (Some(left), Some(right)) =
                (found.bound.value(&condition.left), found.bound.value(&condition.right))
            else {
                return false;
            };
            conditions.push(Claim::new(left, condition.relation, right));
        }
        if !graph.analysis.questions.borrow_mut().same(&own, &annotation, conditions) {
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
