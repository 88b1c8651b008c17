//! The other side of a rule for a match: planned first, so that the graph gets it only when it means the same and
//! never stops the program.

use super::binding::{Bound, attributes_of};
use super::graph::Graph;
use super::matching::{Found, operands};
use super::questions::arguments;
use super::term::{Attr, Head, Scalar, Term};
use egg::Id;
use relax_semantics::ops::Operator;
use relax_semantics::ops::traps::calls::is_removable_call;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::dim::evaluation::always_evaluates;
use relax_theorems::rules::rule::{Call, Node};

/// A side to be, operands before what is made of them.
#[derive(Debug, Default)]
pub(super) struct Plan {
    made: Vec<(Head, Vec<Place>)>,
}

/// An operand of something planned.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Class(Id),
    Made(usize),
}

/// Plans a side; `None` where deduction leaves a check to run time, or a call might stop the program.
pub(super) fn plan(graph: &Graph, bound: &Bound, side: &Node) -> Option<(Plan, Place, Annotation)> {
    let mut plan = Plan::default();
    let (place, annotation) = plan.side(graph, bound, side)?;
    Some((plan, place, annotation))
}

impl Plan {
    fn side(&mut self, graph: &Graph, bound: &Bound, side: &Node) -> Option<(Place, Annotation)> {
        match side {
            Node::Param(at) => {
                let class = *bound.params.get(at)?;
                Some((Place::Class(class), graph[class].data.clone()?))
            }
            Node::Constant(value, kind) => {
                let scalar = Scalar::new(*value, bound.dtype(kind)?)?;
                let annotation = Annotation::tensor(Vec::new(), scalar.dtype());
                Some((self.make(Head::Scalar(scalar), Vec::new()), annotation))
            }
            Node::Part(whole, at) => {
                let (place, annotation) = self.side(graph, bound, whole)?;
                let Annotation::Tuple(items) = annotation else { return None };
                Some((self.make(Head::Part(*at), vec![place]), items.get(*at)?.clone()))
            }
            Node::Call(call) => self.call(graph, bound, call),
        }
    }

    fn call(&mut self, graph: &Graph, bound: &Bound, call: &Call) -> Option<(Place, Annotation)> {
        let (mut places, mut annotations) = (Vec::new(), Vec::new());
        for node in operands(call) {
            let (place, annotation) = self.side(graph, bound, node)?;
            places.push(place);
            annotations.push(annotation);
        }
        let first = annotations.first().and_then(|it| it.as_tensor()?.extents.rank());
        let (row, attrs) = attributes_of(bound, call, first)?;
        let found = graph.analysis.questions.borrow_mut().deduce(row, &attrs, &annotations)?;
        if !never_stops(row, &attrs, &annotations, &found) {
            return None;
        }
        Some((self.make(Head::Call(row.name, attrs), places), found))
    }

    fn make(&mut self, head: Head, operands: Vec<Place>) -> Place {
        self.made.push((head, operands));
        Place::Made(self.made.len() - 1)
    }

    /// Puts what was planned into the graph.
    pub(super) fn add_to(self, graph: &mut Graph, root: Place) -> Id {
        let mut ids: Vec<Id> = Vec::with_capacity(self.made.len());
        let of = |place: Place, ids: &[Id]| match place {
            Place::Class(id) => id,
            Place::Made(at) => ids[at],
        };
        for (head, operands) in self.made {
            let children = operands.into_iter().map(|place| of(place, &ids)).collect();
            ids.push(graph.add_uncanonical(Term { head, children }));
        }
        of(root, &ids)
    }

    /// The class that has it already, if one does.
    pub(super) fn existing(&self, graph: &Graph, root: Place) -> Option<Id> {
        let mut ids: Vec<Id> = Vec::with_capacity(self.made.len());
        let of = |place: Place, ids: &[Id]| match place {
            Place::Class(id) => id,
            Place::Made(at) => ids[at],
        };
        for (head, operands) in &self.made {
            let children = operands.iter().map(|&place| graph.find(of(place, &ids))).collect();
            ids.push(graph.lookup(Term { head: head.clone(), children })?);
        }
        Some(graph.find(of(root, &ids)))
    }
}

/// The very terms of a match, as one term of which an explanation can tell.
pub(super) fn add_found(graph: &mut Graph, found: &Found) -> Id {
    match found {
        Found::Class(id) => *id,
        Found::Node(term, operands) => {
            let children = operands.iter().map(|operand| add_found(graph, operand)).collect();
            graph.add_uncanonical(Term { head: term.head.clone(), children })
        }
    }
}

/// Whether a call gives a value for all elements, given that nothing of its annotations is left to run time.
fn never_stops(
    row: &Operator,
    attrs: &[Attr],
    operands: &[Annotation],
    result: &Annotation,
) -> bool {
    let shapes: Vec<&[Dim]> = operands.iter().filter_map(|annotation| annotation.dims()).collect();
    let evaluates = |dim: &Dim| dim.as_int().is_some() || always_evaluates(dim, &shapes);
    is_removable_call(row, &arguments(row, attrs, operands), result)
        && attrs.iter().all(|attr| match attr {
            Attr::Dim(dim) => evaluates(dim),
            Attr::List(dims) => dims.iter().all(evaluates),
            _ => true,
        })
}
