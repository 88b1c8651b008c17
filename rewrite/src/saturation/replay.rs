//! An explanation is replayed in a graph of its own, in which nothing is united: each step must be an instance of its
//! rule, its conditions proved, and the steps must lead from the region to the form without a gap.

use super::encode::Encoded;
use super::explain::{Explained, Tree};
use super::graph::Graph;
use super::instantiate::plan;
use super::matching::matches;
use super::rulebook::{Directed, named};
use super::term::Term;
use egg::Id;
use relax_syntax::facts::Claim;
use relax_theorems::rules::Rule;
use std::sync::Arc;

/// Whether every step of an explanation is what it says. `graph` has the region and nothing else.
pub(super) fn replays(
    graph: &mut Graph,
    region: &Encoded,
    explained: &[Explained],
    own: &[Arc<Rule>],
) -> bool {
    region.add_to(graph);
    let joined = explained.windows(2).all(|pair| pair[0].whole.1 == pair[1].whole.0);
    joined && explained.iter().all(|step| is_local(step) && is_instance(graph, step, own))
}

/// Whether the whole changes where the part does, and nowhere else.
fn is_local(step: &Explained) -> bool {
    fn differ(a: &Tree, b: &Tree, step: &Explained) -> usize {
        if a == b {
            return 0;
        }
        if *a == step.before && *b == step.after {
            return 1;
        }
        if a.head() != b.head() || a.children().len() != b.children().len() {
            return 2;
        }
        a.children().iter().zip(b.children()).map(|(a, b)| differ(a, b, step)).sum()
    }
    differ(&step.whole.0, &step.whole.1, step) == 1
}

fn is_instance(graph: &mut Graph, step: &Explained, own: &[Arc<Rule>]) -> bool {
    let Some(directed) = named(own, &step.rule) else { return false };
    // A step may be told from its other side.
    let (before, after) = (add(graph, &step.before), add(graph, &step.after));
    graph.rebuild();
    let (before, after) = (graph.find(before), graph.find(after));
    let forward = leads(graph, &directed, before, after);
    forward || leads(graph, &directed.reversed(), after, before)
}

fn leads(graph: &Graph, directed: &Directed, from: Id, to: Id) -> bool {
    matches(graph, &directed.rule.params, directed.from(), from).iter().any(|found| {
        let Some((plan, place, _)) = plan(graph, &found.bound, directed.to()) else { return false };
        let holds = directed.rule.conditions.iter().all(|condition| {
            let sides = found.bound.value(&condition.left).zip(found.bound.value(&condition.right));
            sides.is_some_and(|(left, right)| {
                let claim = Claim::new(left, condition.relation, right);
                graph.analysis.questions.borrow_mut().proves(&claim)
            })
        });
        holds && plan.existing(graph, place) == Some(to)
    })
}

fn add(graph: &mut Graph, tree: &Tree) -> Id {
    let children = tree.children().iter().map(|child| add(graph, child)).collect();
    graph.add(Term { head: tree.head().clone(), children })
}
