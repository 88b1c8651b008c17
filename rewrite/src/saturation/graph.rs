//! The e-graph: classes of terms that have the same value, and with it one annotation.

use super::questions::Questions;
use super::term::{Head, Term};
use egg::{Analysis, DidMerge, EGraph, Id};
use relax_semantics::ops::lookup;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::Atom;
use std::cell::RefCell;

/// An e-graph over calls.
pub(super) type Graph<'f> = EGraph<Term, Shapes<'f>>;

/// What the analysis needs to know.
pub(super) struct Shapes<'f> {
    pub(super) questions: RefCell<Questions<'f>>,
    pub(super) leaves: Vec<Leaf>,
}

/// A value from outside of a region.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) atom: Atom,
    pub(super) annotation: Annotation,
}

impl Analysis<Term> for Shapes<'_> {
    /// `None`: of no use. No rule makes such a term.
    type Data = Option<Annotation>;

    fn make(graph: &mut EGraph<Term, Self>, term: &Term, _id: Id) -> Option<Annotation> {
        let of = |id: &Id| graph[*id].data.clone();
        match &term.head {
            Head::Leaf(at) => Some(graph.analysis.leaves.get(*at)?.annotation.clone()),
            Head::Scalar(scalar) => Some(Annotation::tensor(Vec::new(), scalar.dtype())),
            Head::Part(at) => match of(term.children.first()?)? {
                Annotation::Tuple(items) => items.get(*at).cloned(),
                _ => None,
            },
            Head::Outputs => None,
            Head::Call(name, attrs) => {
                let operands = term.children.iter().map(of).collect::<Option<Vec<_>>>()?;
                graph.analysis.questions.borrow_mut().deduce(lookup(name)?, attrs, &operands)
            }
        }
    }

    /// Whoever unites classes has proved their annotations to be the same; either text is right.
    fn merge(&mut self, a: &mut Option<Annotation>, b: Option<Annotation>) -> DidMerge {
        if a.is_none() && b.is_some() {
            *a = b;
            return DidMerge(true, false);
        }
        DidMerge(false, a.is_some() && b.is_none())
    }
}
