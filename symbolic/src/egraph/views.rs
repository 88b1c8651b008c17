//! Other ways to write a class, by ring equalities alone: `a*c + r` and `b*c` for a quotient whose
//! divisor has the factor `c`, so that rules find the shape that they are about.

use crate::atoms::Atom;
use crate::egraph::language::{Graph, Node};
use crate::polynomial::{AtomId, Mono, Poly};
use egg::Id;
use relax_syntax::dim::DimOp;
use std::collections::{BTreeMap, BTreeSet};

/// How many nodes a graph may have.
const MAX_NODES: usize = 400;
/// How many terms of polynomials a search may look at when it compares classes.
const MAX_WORK: usize = 40_000;
/// How many factors of one divisor are tried.
const MAX_FACTORS: usize = 12;
/// How many quotients are compared with each other.
const MAX_COMPARED: usize = 5;

/// The classes by polynomial, and the views that are already there.
#[derive(Default)]
pub(super) struct Views {
    classes: BTreeMap<Poly, Id>,
    done: BTreeSet<(Poly, Poly)>,
    spelled: BTreeSet<Poly>,
    /// Terms of polynomials that were looked at.
    work: usize,
}

impl Views {
    /// Whether a limit is met.
    pub(super) fn is_full(&self, graph: &Graph) -> bool {
        self.work > MAX_WORK || graph.total_number_of_nodes() > MAX_NODES
    }

    /// Makes classes with the same polynomial one class, until there are none.
    pub(super) fn unite(&mut self, graph: &mut Graph) {
        loop {
            graph.rebuild();
            if self.is_full(graph) {
                return;
            }
            self.classes.clear();
            let mut same = Vec::new();
            for id in sorted_classes(graph) {
                let Some(poly) = graph[id].data.poly.clone() else { continue };
                self.work += poly.terms().len() + 1;
                if let Some(other) = self.classes.insert(poly, id) {
                    same.push((other, id));
                }
            }
            if same.is_empty() {
                return;
            }
            for (a, b) in same {
                graph.union(a, b);
            }
        }
    }

    /// Adds views of all quotients, minima and maxima.
    pub(super) fn add(&mut self, graph: &mut Graph) {
        self.add_atoms(graph);
        self.spell_out(graph);
        for (op, [a, b]) in operations(graph) {
            if self.is_full(graph) {
                break;
            }
            let both = graph[a].data.poly.clone().zip(graph[b].data.poly.clone());
            let Some((left, right)) = both.filter(|both| self.done.insert(both.clone())) else {
                continue;
            };
            match op {
                DimOp::FloorDiv | DimOp::FloorMod => {
                    self.view_ceiling(graph, b, &left);
                    self.view_quotient(graph, [a, b], &left, &right);
                }
                DimOp::Min | DimOp::Max => self.view_extreme(graph, [a, b], &left, &right),
                _ => {}
            }
        }
        self.unite(graph);
    }

    /// Adds the least of each pair of quotients: inequalities are rules on it.
    pub(super) fn compare_quotients(&mut self, graph: &mut Graph) {
        self.add_atoms(graph);
        let mut ids = sorted_classes(graph);
        ids.retain(|id| graph[*id].nodes.iter().any(is_quotient));
        if ids.len() > MAX_COMPARED {
            return;
        }
        for &a in &ids {
            for &b in ids.iter().filter(|b| **b != a) {
                graph.add(Node::Op(DimOp::Min, [a, b]));
            }
        }
        self.unite(graph);
    }

    /// Adds the lesser of 1 and each divisor that is itself no polynomial: it must not be 0.
    pub(super) fn seed_divisors(&mut self, graph: &mut Graph) -> Vec<Id> {
        self.add_atoms(graph);
        let one = graph.add(Node::Int(1));
        let mut seeds = Vec::new();
        for (op, [_, divisor]) in operations(graph) {
            if op == DimOp::FloorDiv && graph[divisor].nodes.iter().any(is_quotient) {
                seeds.push(graph.add(Node::Op(DimOp::Min, [one, divisor])));
            }
        }
        self.unite(graph);
        seeds
    }

    /// Classes for all atoms of the polynomials: canonical forms may have others than the text.
    fn add_atoms(&mut self, graph: &mut Graph) {
        let polys: Vec<Poly> = self.classes.keys().cloned().collect();
        let atoms: BTreeSet<AtomId> = polys.iter().flat_map(Poly::atoms).collect();
        for id in atoms {
            self.atom(graph, id);
        }
        self.unite(graph);
    }

    /// Writes what is neither sum nor product as its polynomial says: `x % y` as `x - y * (x // y)`.
    /// So it follows what becomes of the atoms in it.
    fn spell_out(&mut self, graph: &mut Graph) {
        for id in sorted_classes(graph) {
            let composite = |node: &Node| matches!(node, Node::Op(op, _) if !matches!(op, DimOp::Add | DimOp::Sub | DimOp::Mul));
            let Some(poly) = graph[id].data.poly.clone() else { continue };
            let atomic = matches!(poly.terms(), [(mono, 1)] if mono.as_atom().is_some());
            if !atomic
                && graph[id].nodes.iter().any(composite)
                && self.spelled.insert(poly.clone())
                && let Some(sum) = self.sum(graph, &poly)
            {
                graph.union(id, sum);
            }
        }
        self.unite(graph);
    }

    /// `(-x) // d` is the negative of `ceildiv(x, d)`.
    fn view_ceiling(&mut self, graph: &mut Graph, divisor: Id, numerator: &Poly) {
        let negative = numerator.terms().iter().all(|(_, coefficient)| *coefficient < 0);
        let Some(mirrored) = numerator.scale(-1).filter(|_| negative) else { return };
        if let Some(mirrored) = self.class_of(graph, &mirrored) {
            graph.add(Node::Op(DimOp::CeilDiv, [mirrored, divisor]));
        }
    }

    fn view_quotient(&mut self, graph: &mut Graph, [n, d]: [Id; 2], top: &Poly, bottom: &Poly) {
        for factor in self.factors(bottom) {
            let split = top.divide(&factor).zip(bottom.divide(&factor));
            let Some(((a, rest), (b, none))) = split else { continue };
            let pointless = a.is_zero() || rest.terms().len() > top.terms().len();
            if pointless || !none.is_zero() || b.as_constant() == Some(1) {
                continue;
            }
            let Some(scaled) = self.product(graph, &a, &factor) else { continue };
            let view = match self.class_of(graph, &rest) {
                _ if rest.is_zero() => scaled,
                Some(rest) => graph.add(Node::Op(DimOp::Add, [scaled, rest])),
                None => continue,
            };
            let Some(divisor) = self.product(graph, &b, &factor) else { continue };
            graph.union(n, view);
            graph.union(d, divisor);
        }
    }

    fn view_extreme(&mut self, graph: &mut Graph, [x, y]: [Id; 2], left: &Poly, right: &Poly) {
        for factor in self.factors(left) {
            let split = left.divide(&factor).zip(right.divide(&factor));
            let Some(((a, left_rest), (b, right_rest))) = split else { continue };
            if left_rest.is_zero() && right_rest.is_zero() {
                let views = self.product(graph, &a, &factor).zip(self.product(graph, &b, &factor));
                let Some((a, b)) = views else { continue };
                graph.union(x, a);
                graph.union(y, b);
            }
        }
    }

    /// Polynomials that divide `poly`: products of its common atoms, and those with several terms
    /// that are classes, times such.
    fn factors(&mut self, poly: &Poly) -> Vec<Poly> {
        let mut factors = parts(&poly.common_mono());
        self.work += self.classes.len() * poly.terms().len();
        for known in self.classes.keys().filter(|known| known.varying().len() > 1) {
            let Some((quotient, rest)) = poly.divide(known) else { continue };
            if rest.is_zero() {
                factors.push(known.clone());
                let parts = parts(&quotient.common_mono());
                factors.extend(parts.iter().filter_map(|part| known.mul(part)));
            }
        }
        factors.truncate(MAX_FACTORS);
        factors
    }

    fn product(&mut self, graph: &mut Graph, a: &Poly, b: &Poly) -> Option<Id> {
        let operands = [self.class_of(graph, a)?, self.class_of(graph, b)?];
        Some(graph.add(Node::Op(DimOp::Mul, operands)))
    }

    /// The class of `poly`, built where there is none.
    fn class_of(&mut self, graph: &mut Graph, poly: &Poly) -> Option<Id> {
        if let Some(id) = self.classes.get(poly) {
            return Some(*id);
        }
        let id = self.sum(graph, poly)?;
        self.classes.insert(poly.clone(), id);
        Some(id)
    }

    fn sum(&mut self, graph: &mut Graph, poly: &Poly) -> Option<Id> {
        let mut sum: Option<Id> = None;
        for (mono, coefficient) in poly.terms() {
            let term = self.term(graph, mono, *coefficient)?;
            sum = Some(match sum {
                None => term,
                Some(sum) => graph.add(Node::Op(DimOp::Add, [sum, term])),
            });
        }
        Some(sum.unwrap_or_else(|| graph.add(Node::Int(0))))
    }

    fn term(&mut self, graph: &mut Graph, mono: &Mono, coefficient: i128) -> Option<Id> {
        let number = i64::try_from(coefficient).ok()?;
        let mut product: Option<Id> = None;
        for &atom in mono.atoms() {
            let factor = self.atom(graph, atom)?;
            product = Some(match product {
                None => factor,
                Some(product) => graph.add(Node::Op(DimOp::Mul, [product, factor])),
            });
        }
        Some(match product {
            Some(product) if number == 1 => product,
            Some(product) => {
                let number = graph.add(Node::Int(number));
                graph.add(Node::Op(DimOp::Mul, [product, number]))
            }
            None => graph.add(Node::Int(number)),
        })
    }

    fn atom(&mut self, graph: &mut Graph, atom: AtomId) -> Option<Id> {
        if let Some(id) = self.classes.get(&Poly::atom(atom)) {
            return Some(*id);
        }
        if self.is_full(graph) {
            return None;
        }
        let id = match graph.analysis.engine.atoms.at(atom).clone() {
            Atom::Var(name) => graph.add(Node::Var(name)),
            Atom::Div(numerator, divisor) | Atom::Quotient { numerator, divisor, .. } => {
                let operands = [self.class_of(graph, &numerator)?, self.class_of(graph, &divisor)?];
                graph.add(Node::Op(DimOp::FloorDiv, operands))
            }
            Atom::Min(args) => self.extreme(graph, DimOp::Min, &args)?,
            Atom::Max(args) => self.extreme(graph, DimOp::Max, &args)?,
        };
        self.classes.insert(Poly::atom(atom), id);
        Some(id)
    }

    fn extreme(&mut self, graph: &mut Graph, op: DimOp, args: &[Poly]) -> Option<Id> {
        let ids = args.iter().map(|arg| self.class_of(graph, arg));
        let ids = ids.collect::<Option<Vec<Id>>>()?;
        ids.into_iter().reduce(|a, b| graph.add(Node::Op(op, [a, b])))
    }
}

fn is_quotient(node: &Node) -> bool {
    matches!(node, Node::Op(DimOp::FloorDiv, _))
}

/// All products of some of the atoms, but 1.
fn parts(mono: &Mono) -> Vec<Poly> {
    let mut parts = BTreeSet::from([Mono::ONE]);
    for &atom in mono.atoms() {
        let longer = parts.iter().filter_map(|part| part.times(&Mono::atom(atom)));
        let longer: Vec<Mono> = longer.collect();
        parts.extend(longer);
        if parts.len() > MAX_FACTORS {
            break;
        }
    }
    parts.into_iter().filter(|part| *part != Mono::ONE).map(|part| Poly::term(part, 1)).collect()
}

/// The classes in the order of their numbers.
pub(super) fn sorted_classes(graph: &Graph) -> Vec<Id> {
    let mut ids: Vec<Id> = graph.classes().map(|class| class.id).collect();
    ids.sort_unstable();
    ids
}

fn operations(graph: &Graph) -> Vec<(DimOp, [Id; 2])> {
    let mut all = Vec::new();
    for id in sorted_classes(graph) {
        for node in &graph[id].nodes {
            if let Node::Op(op, operands) = node {
                all.push((*op, *operands));
            }
        }
    }
    all
}
