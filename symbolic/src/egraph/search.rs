//! Saturation within limits: rules are matched, their conditions asked of the first stage, and what
//! holds is merged and noted.

use crate::egraph::Instance;
use crate::egraph::language::{Graph, Node, add};
use crate::egraph::ring::Ring;
use crate::egraph::rules::{self, Rule};
use crate::egraph::views::Views;
use egg::{Id, SearchMatches, Searcher, Subst};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};
use std::collections::{BTreeMap, BTreeSet};

/// How many rounds there are.
const MAX_ROUNDS: usize = 4;
/// How many instances are noted; [`Data::depends`](crate::egraph::ring::Data) has a bit for each.
const MAX_INSTANCES: usize = 64;
/// How many matches of one pattern a round looks at.
const MAX_MATCHES: usize = 30;

/// Why a search stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The sides of the question's equations are the same; it can go on.
    Met,
    /// There is nothing more, within the limits.
    Exhausted,
}

/// A graph with the sides of the question in it, and the instances that merged its classes.
pub(super) struct Search {
    graph: Graph,
    views: Views,
    /// The sides of each claim.
    roots: Vec<[Id; 2]>,
    /// What says that divisors are not 0.
    divisors: Vec<Id>,
    /// Whether all claims are equations, and their sides have not met.
    equations: bool,
    rounds: usize,
    instances: Vec<Instance>,
    /// Matches that were tried: the rule and what its variables stand for.
    tried: BTreeSet<(&'static str, Vec<Option<Id>>)>,
}

impl Search {
    /// A graph of the sides of `claims`.
    pub(super) fn new(ring: Ring, claims: &[&Claim]) -> Self {
        let mut graph = Graph::new(ring);
        let mut roots = Vec::new();
        for claim in claims {
            let sides = [&claim.left, &claim.right].map(|dim| add(&mut graph, dim, &|_| None));
            roots.push(sides);
            if is_order(claim) {
                graph.add(Node::Op(DimOp::Min, sides));
                graph.add(Node::Op(DimOp::Min, [sides[1], sides[0]]));
            }
        }
        let mut views = Views::default();
        views.unite(&mut graph);
        let divisors = views.seed_divisors(&mut graph);
        if claims.iter().any(|claim| is_order(claim)) {
            views.compare_quotients(&mut graph);
        }
        let equations = claims.iter().all(|claim| claim.relation == Relation::Equal);
        let (instances, tried) = (Vec::new(), BTreeSet::new());
        Self { graph, views, roots, divisors, equations, rounds: 0, instances, tried }
    }

    /// Applies rules until the sides of an equation meet, which it says once, nothing is new, or a
    /// limit is met.
    pub(super) fn run(&mut self) -> Stop {
        while self.rounds < MAX_ROUNDS {
            self.rounds += 1;
            let before = self.progress();
            self.views.add(&mut self.graph);
            for (rule, (pattern, other)) in rules::all().iter().flat_map(Rule::searches) {
                if self.is_full() {
                    return Stop::Exhausted;
                }
                let found = pattern.search_with_limit(&self.graph, MAX_MATCHES);
                matches(&found).iter().for_each(|found| self.apply(rule, other, found));
                if self.graph.clean {
                    continue;
                }
                self.views.unite(&mut self.graph);
                if self.equations && self.has_met() {
                    self.equations = false;
                    return Stop::Met;
                }
            }
            if before == self.progress() || self.is_full() {
                break;
            }
        }
        Stop::Exhausted
    }

    fn progress(&self) -> (usize, usize) {
        (self.instances.len(), self.graph.total_number_of_nodes())
    }

    fn is_full(&self) -> bool {
        self.instances.len() >= MAX_INSTANCES || self.views.is_full(&self.graph)
    }

    /// Whether the sides of each claim are the same class.
    fn has_met(&self) -> bool {
        self.roots.iter().all(|sides| self.graph.find(sides[0]) == self.graph.find(sides[1]))
    }

    /// The instances that the sides of the question and its divisors depend on, in the order in
    /// which they were found.
    pub(super) fn used(&self) -> Vec<Instance> {
        let roots = self.roots.iter().flatten().chain(&self.divisors);
        let depends = roots.fold(0, |all, root| all | self.graph[*root].data.depends);
        let used = self.instances.iter().enumerate();
        let used = used.filter(|(index, _)| depends >> index & 1 == 1).map(|(_, one)| one.clone());
        used.collect()
    }

    /// Merges a match with the other side of its rule, if the conditions hold.
    fn apply(&mut self, rule: &'static Rule, other: &Dim, (class, subst): &(Id, Subst)) {
        if self.is_full() {
            return;
        }
        let class_of =
            |name: &Name| rule.variables.get(name).and_then(|var| subst.get(*var)).copied();
        let key = rule.variables.values().map(|var| subst.get(*var).map(|id| self.graph.find(*id)));
        if !self.tried.insert((rule.name, key.collect())) {
            return;
        }
        let (mut with, mut polys) = (BTreeMap::new(), BTreeMap::new());
        for name in rule.variables.keys() {
            let Some(id) = class_of(name) else { return };
            let data = &self.graph[id].data;
            let both = data.poly.clone().zip(data.dim.clone());
            let Some((poly, (_, dim))) = both else { return };
            with.insert(name.clone(), dim);
            polys.insert(name.clone(), poly);
        }
        let ring = &mut self.graph.analysis;
        let Some(found) = ring.polynomial(other, &polys) else { return };
        if self.graph[*class].data.poly.as_ref() == Some(&found) {
            return;
        }
        let ring = &mut self.graph.analysis;
        let instance = Instance::new(rule, with);
        if !instance.conditions.iter().all(|condition| ring.proves(condition))
            || !instance.with.values().all(|dim| ring.defines(dim))
        {
            return;
        }
        let bit = 1 << self.instances.len();
        self.instances.push(instance);
        let equal = add(&mut self.graph, other, &class_of);
        self.graph.union(*class, equal);
        let mut data = self.graph[*class].data.clone();
        data.depends |= bit;
        self.graph.set_analysis_data(*class, data);
    }
}

fn is_order(claim: &Claim) -> bool {
    matches!(claim.relation, Relation::AtMost | Relation::Less)
}

/// All matches. Their order depends on the history of the graph alone.
fn matches(found: &[SearchMatches<'_, Node>]) -> Vec<(Id, Subst)> {
    let pairs = |one: &SearchMatches<'_, Node>| {
        let class = one.eclass;
        one.substs.iter().map(move |subst| (class, subst.clone())).collect::<Vec<_>>()
    };
    found.iter().flat_map(pairs).collect()
}
