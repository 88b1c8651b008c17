//! The layouts of a function, and what ranks do for them.

use crate::layout::{Axes, Layout};
use crate::movement::Movement;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::Facts;
use relax_syntax::ir::{Function, VarId};
use relax_syntax::span::Span;
use std::collections::BTreeMap;

/// What ranks do, in order.
#[derive(Clone, Debug)]
pub enum Step {
    /// A binding, with the layout of its operands and of its value.
    Bind {
        /// The variable that is bound.
        var: VarId,
        /// Of each tensor operand.
        operands: Vec<Layout>,
        /// Of the value, of each field of a tuple.
        layout: Layout,
    },
    /// Another name of a value in one layout.
    Same {
        /// The new name.
        var: VarId,
        /// The old one.
        of: VarId,
        /// The layout of both.
        layout: Layout,
    },
    /// One of two straight lines, by what every rank has alike.
    If {
        /// The variable that is bound.
        var: VarId,
        /// A bool scalar; a tensor that every rank has whole, or a parameter that is none.
        condition: VarId,
        /// The layout of the value, of each field of a tuple.
        layout: Layout,
        /// Where the condition is true, and where it is not.
        branches: Box<[Branch; 2]>,
    },
    /// A redistribution of a value.
    Move {
        /// The variable that is moved.
        var: VarId,
        /// Its layout before.
        from: Layout,
        /// The layouts on the way and the last one.
        movements: Vec<Movement>,
        /// The binding that wants it.
        span: Span,
        /// What wants it.
        wanted_by: String,
    },
}

/// One of the straight lines of an `if`.
#[derive(Clone, Debug)]
pub struct Branch {
    /// What ranks do, in order.
    pub steps: Vec<Step>,
    /// What it gives: one variable, or one a field of a tuple.
    pub results: Vec<VarId>,
}

/// The layouts of a function.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The mesh of all layouts.
    pub axes: Axes,
    /// The function's name.
    pub function: Name,
    /// What ranks do, in order.
    pub steps: Vec<Step>,
    /// Of each parameter; `None` of what is no tensor.
    pub params: Vec<Option<Layout>>,
    /// Of each result.
    pub results: Vec<(VarId, Layout)>,
    /// The sizes at which costs were compared.
    pub samples: BTreeMap<Name, i64>,
    /// Whether states were left out.
    pub is_truncated: bool,
    /// What is deduced of the value of each `if`: no text tells it.
    pub deduced: BTreeMap<VarId, Annotation>,
}

/// A function with what is deduced of the values of its branches.
pub(crate) fn completed(function: &Function, deduced: &BTreeMap<VarId, Annotation>) -> Function {
    let mut function = function.clone();
    for (VarId(var), annotation) in deduced {
        function.vars[*var as usize].annotation = Some(annotation.clone());
    }
    function
}

impl Plan {
    /// The steps in order, those of both branches of an `if` behind it.
    #[must_use]
    pub fn all_steps(&self) -> Vec<&Step> {
        let mut found = Vec::new();
        visit(&self.steps, &mut |step| found.push(step));
        found
    }

    /// The redistributions, in order.
    pub fn moves(&self) -> impl Iterator<Item = (&Step, &[Movement])> {
        self.all_steps().into_iter().filter_map(|step| match step {
            Step::Move { movements, .. } => Some((step, movements.as_slice())),
            _ => None,
        })
    }

    /// Bytes that all ranks send together, terms alike in one; of branches those of the one that sends more.
    #[must_use]
    pub fn bytes(&self, facts: &mut dyn Facts) -> Dim {
        facts.simplify(&self.cost())
    }

    /// The same, a term for each redistribution.
    pub(crate) fn cost(&self) -> Dim {
        bytes_of(&self.steps)
    }
}

fn visit<'s>(steps: &'s [Step], found: &mut dyn FnMut(&'s Step)) {
    for step in steps {
        found(step);
        if let Step::If { branches, .. } = step {
            branches.iter().for_each(|branch| visit(&branch.steps, found));
        }
    }
}

fn bytes_of(steps: &[Step]) -> Dim {
    let each = steps.iter().flat_map(|step| match step {
        Step::Move { movements, .. } => movements.iter().map(|own| own.bytes.clone()).collect(),
        Step::If { branches, .. } => {
            let [then, otherwise] = branches.each_ref().map(|own| bytes_of(&own.steps));
            let is_same = then == otherwise;
            vec![if is_same { then } else { Dim::op(DimOp::Max, then, otherwise) }]
        }
        Step::Bind { .. } | Step::Same { .. } => Vec::new(),
    });
    each.reduce(|a, b| Dim::op(DimOp::Add, a, b)).unwrap_or(Dim::Int(0))
}
