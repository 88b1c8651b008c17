//! The cheapest form of all, each shared value counted once, by branch and bound.

use super::extract::Form;
use super::term::Term;
use egg::Id;
use std::collections::{BTreeMap, BTreeSet};

/// A class with its nodes, what each costs by itself, and whether the program has it.
pub(super) type Priced<'t> = (Id, Vec<Node<'t>>);

/// A node that may be chosen for its class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'t> {
    pub(super) term: &'t Term,
    pub(super) own: i128,
    pub(super) is_written: bool,
}

/// What a search found.
#[derive(Clone, Debug)]
pub(super) struct Optimum {
    /// A form that costs less than what was known; of those that were seen, the cheapest.
    pub(super) better: Option<Form>,
    /// Whether none costs less than that.
    pub(super) is_proved: bool,
}

/// Looks in so many steps for forms of some classes that cost less than `known`.
pub(super) fn optimum(classes: &[Priced], roots: &[Id], known: i128, steps: usize) -> Optimum {
    let nodes: BTreeMap<Id, Vec<Candidate>> =
        classes.iter().map(|(id, nodes)| (*id, candidates(*id, nodes))).collect();
    let mut search = Search {
        nodes: &nodes,
        chosen: BTreeMap::new(),
        open: BTreeSet::new(),
        cost: 0,
        least: 0,
        best: known,
        better: None,
        steps,
    };
    for &root in roots {
        search.need(root);
    }
    let is_proved = search.branch().is_ok();
    Optimum { better: search.better, is_proved }
}

/// A node and the classes that it needs.
struct Candidate<'t> {
    term: &'t Term,
    children: BTreeSet<Id>,
    own: i128,
}

/// The nodes of a class, cheap ones first, without those that need all that another one needs and cost no less.
fn candidates<'t>(class: Id, nodes: &[Node<'t>]) -> Vec<Candidate<'t>> {
    let mut nodes = nodes.to_vec();
    nodes.sort_by_key(|node| (node.own, !node.is_written));
    let mut kept: Vec<Candidate> = Vec::new();
    for Node { term, own, .. } in nodes {
        let children: BTreeSet<Id> = term.children.iter().copied().collect();
        // Those that are kept cost no more.
        let is_needless = |cheaper: &Candidate| cheaper.children.is_subset(&children);
        if !children.contains(&class) && !kept.iter().any(is_needless) {
            kept.push(Candidate { term, children, own });
        }
    }
    kept
}

/// The limit of steps was reached.
struct Ended;

struct Search<'s, 't> {
    nodes: &'s BTreeMap<Id, Vec<Candidate<'t>>>,
    chosen: BTreeMap<Id, &'s Candidate<'t>>,
    /// Classes that are needed and have no node yet.
    open: BTreeSet<Id>,
    /// What the chosen nodes cost.
    cost: i128,
    /// What the open classes cost at least, each by itself.
    least: i128,
    best: i128,
    better: Option<Form>,
    steps: usize,
}

impl<'s, 't> Search<'s, 't> {
    fn nodes_of(&self, class: Id) -> &'s [Candidate<'t>] {
        self.nodes.get(&class).map_or(&[], Vec::as_slice)
    }

    fn least_of(&self, class: Id) -> i128 {
        self.nodes_of(class).first().map_or(0, |node| node.own)
    }

    /// Opens a class; whether it was not needed before.
    fn need(&mut self, class: Id) -> bool {
        let is_new = !self.chosen.contains_key(&class) && self.open.insert(class);
        if is_new {
            self.least += self.least_of(class);
        }
        is_new
    }

    fn no_longer_needs(&mut self, class: Id) {
        self.open.remove(&class);
        self.least -= self.least_of(class);
    }

    /// Tries all ways to choose nodes for what is open.
    fn branch(&mut self) -> Result<(), Ended> {
        self.steps = self.steps.checked_sub(1).ok_or(Ended)?;
        // A class with one node leaves no choice, and says what else is needed.
        let next = self.open.iter().copied().min_by_key(|&class| self.nodes_of(class).len());
        let Some(class) = next else {
            self.best = self.cost;
            let chosen = self.chosen.iter().map(|(id, node)| (*id, node.term.clone()));
            self.better = Some(chosen.collect());
            return Ok(());
        };
        self.no_longer_needs(class);
        for node in self.nodes_of(class) {
            if self.needs(node, class) {
                continue;
            }
            let new: Vec<Id> =
                node.children.iter().copied().filter(|&child| self.need(child)).collect();
            self.cost += node.own;
            self.chosen.insert(class, node);
            let is_promising = self.cost + self.least < self.best;
            let done = if is_promising { self.branch() } else { Ok(()) };
            self.chosen.remove(&class);
            self.cost -= node.own;
            new.into_iter().for_each(|child| self.no_longer_needs(child));
            done?;
        }
        self.need(class);
        Ok(())
    }

    /// Whether a node needs a class by what is chosen: then it cannot be chosen for it.
    fn needs(&self, node: &Candidate, class: Id) -> bool {
        let mut seen = BTreeSet::new();
        let mut open: Vec<Id> = node.children.iter().copied().collect();
        while let Some(id) = open.pop() {
            if id == class {
                return true;
            }
            if seen.insert(id)
                && let Some(chosen) = self.chosen.get(&id)
            {
                open.extend(&chosen.children);
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::term::Head;
    use super::*;

    type Graph = Vec<Vec<(Vec<usize>, i128)>>;

    fn terms(graph: &Graph) -> Vec<Vec<(Term, i128)>> {
        let term = |(at, (children, own)): (usize, &(Vec<usize>, i128))| {
            let children = children.iter().map(|&child| Id::from(child)).collect();
            (Term { head: Head::Leaf(at), children }, *own)
        };
        graph.iter().map(|nodes| nodes.iter().enumerate().map(term).collect()).collect()
    }

    /// What the search finds without a form to begin with: its cost, and whether that is proved.
    fn found(graph: &Graph, roots: &[usize], steps: usize) -> (Option<i128>, bool) {
        let terms = terms(graph);
        let mut classes: Vec<Priced> = Vec::new();
        for (at, nodes) in terms.iter().enumerate() {
            let nodes = nodes.iter().map(|(term, own)| Node { term, own: *own, is_written: false });
            classes.push((Id::from(at), nodes.collect()));
        }
        let roots: Vec<Id> = roots.iter().map(|&root| Id::from(root)).collect();
        let Optimum { better, is_proved } = optimum(&classes, &roots, i128::MAX, steps);
        let cost = better.map(|form| {
            let own = |(id, term): (&Id, &Term)| {
                let nodes = &terms[usize::from(*id)];
                nodes.iter().find(|(other, _)| other == term).map(|(_, own)| *own)
            };
            form.iter().map(|choice| own(choice).expect("a node of its class")).sum()
        });
        (cost, is_proved)
    }

    /// The least cost of all ways to choose a node for each class, without those that need themselves.
    fn by_trying_all(graph: &Graph, roots: &[usize]) -> Option<i128> {
        fn cost(graph: &Graph, choice: &[usize], at: usize, state: &mut [u8]) -> Option<i128> {
            match state[at] {
                1 => return None,
                2 => return Some(0),
                _ => state[at] = 1,
            }
            let (children, own) = graph[at].get(choice[at])?;
            let mut sum = *own;
            for &child in children {
                sum += cost(graph, choice, child, state)?;
            }
            state[at] = 2;
            Some(sum)
        }
        let mut least = None;
        let mut choice = vec![0; graph.len()];
        loop {
            let mut state = vec![0; graph.len()];
            let all = roots.iter().map(|&root| cost(graph, &choice, root, &mut state));
            if let Some(sum) = all.sum::<Option<i128>>() {
                least = Some(least.map_or(sum, |known: i128| known.min(sum)));
            }
            let Some(at) = (0..graph.len()).find(|&at| choice[at] + 1 < graph[at].len()) else {
                return least;
            };
            choice[at] += 1;
            choice[..at].fill(0);
        }
    }

    #[test]
    fn a_value_that_two_need_is_paid_once() {
        // Each of 1 and 2 is cheaper by its own operand; both together are cheaper by 5.
        let graph: Graph = vec![
            vec![(vec![1, 2], 1)],
            vec![(vec![3], 0), (vec![5], 0)],
            vec![(vec![4], 0), (vec![5], 0)],
            vec![(vec![], 6)],
            vec![(vec![], 6)],
            vec![(vec![], 8)],
        ];
        assert_eq!(found(&graph, &[0], 100), (Some(9), true));
        assert_eq!(found(&graph, &[1], 100), (Some(6), true));
        assert_eq!(found(&graph, &[0], 3), (None, false));
    }

    #[test]
    fn no_class_needs_itself() {
        let graph: Graph = vec![
            vec![(vec![1], 1)],
            vec![(vec![2], 0), (vec![3], 7)],
            vec![(vec![1], 0)],
            vec![(vec![2], 0), (vec![], 5)],
        ];
        assert_eq!(found(&graph, &[0], 1000), (Some(13), true));
        let none: Graph = vec![vec![(vec![1], 1)], vec![(vec![0], 1)]];
        assert_eq!(found(&none, &[0], 1000), (None, true));
    }

    #[test]
    fn it_finds_what_trying_all_finds() {
        let mut state: u64 = 7;
        let mut draw = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        for _ in 0..3000 {
            let classes = 1 + draw(7);
            let mut graph = Graph::new();
            for _ in 0..classes {
                let nodes = (0..1 + draw(3)).map(|_| {
                    let children = (0..draw(4)).map(|_| draw(classes)).collect();
                    (children, i128::try_from(draw(6)).expect("it is small"))
                });
                graph.push(nodes.collect());
            }
            let roots = [0, draw(classes)];
            let (cost, is_proved) = found(&graph, &roots, 100_000);
            assert!(is_proved, "{graph:?}");
            assert_eq!(cost, by_trying_all(&graph, &roots), "{graph:?} {roots:?}");
        }
    }
}
