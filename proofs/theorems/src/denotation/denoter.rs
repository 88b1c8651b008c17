//! The meaning of an expression of a rule: extents, element type, and the term of each element.
//!
//! A group of axes is one index here. Every operator treats the groups in its operands as a whole (an
//! axis is found by what stands before it, never inside of a group), and row-major order makes the index
//! of a group a number below the product of its dims. So what holds for one axis holds for any number.

use super::meanings::{Meaning, meaning_of};
use super::term::{Binder, Domain, Known, Reals, Term, domain_of, unknown};
use crate::rules::instance::{Types, dtype_of};
use crate::rules::rule::{Arg, Axis, Call, Entry, Node, Operand, Param, rank_of};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use std::collections::BTreeMap;

/// What gives expressions their meaning.
pub(crate) struct Denoter<'a> {
    pub(crate) params: &'a [Param],
    pub(crate) types: &'a Types,
    pub(crate) reals: Reals,
    pub(crate) facts: &'a mut dyn Facts,
    pub(crate) fresh: usize,
    pub(crate) stops: Vec<Stops>,
}

/// Where evaluation of an operator stops the program unless something holds of all elements.
pub(crate) struct Stops {
    /// The constraint, such as `divide/C3`.
    pub(crate) what: String,
    /// The elements: all indices in these extents.
    pub(crate) over: Vec<Binder>,
    /// What it is about.
    pub(crate) terms: Vec<Term>,
}

impl Denoter<'_> {
    pub(crate) fn fresh(&mut self, kind: &str) -> Name {
        self.fresh += 1;
        format!("{kind}#{}", self.fresh).into()
    }

    pub(crate) fn proves(&mut self, claim: &Claim) -> bool {
        self.facts.decide(claim) == Answer::Proved
    }

    pub(crate) fn equal(&mut self, a: &Dim, b: &Dim) -> bool {
        a == b || self.facts.equal(a, b) == Answer::Proved
    }

    pub(crate) fn at_most(&mut self, a: impl Into<Dim>, b: impl Into<Dim>) -> bool {
        self.proves(&Claim::new(a, Relation::AtMost, b))
    }

    pub(crate) fn shape(&mut self, node: &Node) -> Known<Vec<Axis>> {
        match node {
            Node::Param(at) => match &self.params[*at].what {
                Operand::Tensor(axes, _) => Ok(axes.clone()),
                Operand::Float => unknown("a float is no tensor"),
            },
            Node::Constant(..) => Ok(Vec::new()),
            Node::Call(call) => (meaning(call)?.shape)(self, call),
            Node::Part(whole, at) => super::meanings::part_shape(self, whole, *at),
        }
    }

    pub(crate) fn dtype(&self, node: &Node) -> Known<DType> {
        match node {
            Node::Param(at) => match &self.params[*at].what {
                Operand::Tensor(_, kind) => Ok(dtype_of(kind, self.types)),
                Operand::Float => unknown("a float is no tensor"),
            },
            Node::Constant(_, kind) => Ok(dtype_of(kind, self.types)),
            Node::Call(call) => (meaning(call)?.dtype)(self, call),
            Node::Part(whole, at) => super::meanings::part_dtype(self, whole, *at),
        }
    }

    pub(crate) fn domain(&self, node: &Node) -> Known<Domain> {
        Ok(domain_of(self.dtype(node)?, self.reals))
    }

    /// The value of the element at an index.
    pub(crate) fn element(&mut self, node: &Node, at: &[Dim]) -> Known<Term> {
        match node {
            Node::Param(place) => Ok(Term::Read(self.params[*place].name.clone(), at.to_vec())),
            Node::Constant(value, _) => Ok(Term::Number(self.domain(node)?, *value)),
            Node::Call(call) => (meaning(call)?.element)(self, call, at),
            Node::Part(whole, part) => super::meanings::part_element(self, whole, *part, at),
        }
    }

    /// Notes where evaluation of a node, or of one in it, may stop for what elements are.
    pub(crate) fn note_stops(&mut self, node: &Node) -> Known<()> {
        match node {
            Node::Param(_) | Node::Constant(..) => Ok(()),
            Node::Part(whole, _) => self.note_stops(whole),
            Node::Call(call) => {
                for arg in &call.args {
                    match arg {
                        Arg::Node(node) => self.note_stops(node)?,
                        Arg::Nodes(nodes) => {
                            nodes.iter().try_for_each(|node| self.note_stops(node))?;
                        }
                        _ => {}
                    }
                }
                (meaning(call)?.stops)(self, call)
            }
        }
    }

    /// A fresh index for every axis, with its extent.
    pub(crate) fn indices(&mut self, shape: &[Axis]) -> Vec<Binder> {
        shape.iter().map(|axis| (self.fresh("i"), extent(axis))).collect()
    }

    /// The place of an axis that a number names: by what stands before it, or behind it.
    pub(crate) fn axis(&self, shape: &[Axis], position: &Dim) -> Known<usize> {
        let place = place(shape, position)?;
        match shape.get(place) {
            Some(Axis::Dim(_)) => Ok(place),
            _ => unknown(format!("{position} is no single axis")),
        }
    }

    /// The axes that a list names, groups included.
    pub(crate) fn axes(&self, shape: &[Axis], arg: &Arg) -> Known<Vec<usize>> {
        match arg {
            Arg::None => Ok((0..shape.len()).collect()),
            Arg::Integer(dim) => Ok(vec![self.axis(shape, dim)?]),
            Arg::List(entries) => entries
                .iter()
                .map(|entry| match entry {
                    Entry::One(dim) => self.axis(shape, dim),
                    Entry::Span(first, group) => {
                        let place = place(shape, first)?;
                        if shape.get(place) == Some(&Axis::Group(group.clone())) {
                            Ok(place)
                        } else {
                            unknown(format!("the axes of `{group}` do not begin at {first}"))
                        }
                    }
                    Entry::Dims(_) | Entry::Unpadded(_) => unknown("dims where axes are expected"),
                })
                .collect(),
            _ => unknown("expected axes"),
        }
    }

    /// A list of dims as axes.
    pub(crate) fn extents(&self, arg: &Arg) -> Known<Vec<Axis>> {
        let Arg::List(entries) = arg else { return unknown("expected a list of dims") };
        entries
            .iter()
            .map(|entry| match entry {
                Entry::One(dim) => Ok(Axis::Dim(dim.clone())),
                Entry::Dims(group) => Ok(Axis::Group(group.clone())),
                Entry::Span(..) | Entry::Unpadded(_) => {
                    unknown("axes or widths where dims are expected")
                }
            })
            .collect()
    }

    /// Whether two axes have the same extent.
    pub(crate) fn same(&mut self, a: &Axis, b: &Axis) -> bool {
        match (a, b) {
            (Axis::Dim(a), Axis::Dim(b)) => self.equal(a, b),
            (a, b) => a == b,
        }
    }

    pub(crate) fn is_one(&mut self, axis: &Axis) -> bool {
        matches!(axis, Axis::Dim(dim) if self.equal(dim, &Dim::Int(1)))
    }
}

/// What is known of an operator.
pub(super) fn meaning(call: &Call) -> Known<&'static Meaning> {
    meaning_of(call.row.name)
        .map_or_else(|| unknown(format!("`{}` has no denotation", call.row.short_name())), Ok)
}

/// The tensor argument of a parameter.
pub(crate) fn tensor<'c>(call: &'c Call, param: &str) -> Known<&'c Node> {
    match call.arg(param) {
        Arg::Node(node) => Ok(node),
        _ => unknown(format!("`{param}` of `{}` is no tensor", call.row.short_name())),
    }
}

/// The first tensor argument.
pub(crate) fn first(call: &Call) -> Known<&Node> {
    let found = call.args.iter().find_map(|arg| match arg {
        Arg::Node(node) => Some(node),
        Arg::Nodes(nodes) => nodes.first(),
        _ => None,
    });
    found.map_or_else(|| unknown("a call without tensors"), Ok)
}

/// The extent of an axis; of a group the product of its dims.
pub(crate) fn extent(axis: &Axis) -> Dim {
    match axis {
        Axis::Dim(dim) => dim.clone(),
        Axis::Group(name) => Dim::Var(format!("*{name}").into()),
    }
}

/// A number of axes: single ones, and those of groups.
type Count = (i64, BTreeMap<Name, i64>);

/// `2 + len(s)` as a count.
fn count(position: &Dim) -> Known<Count> {
    match position {
        Dim::Int(value) => Ok((*value, BTreeMap::new())),
        Dim::Var(name) => Ok((0, BTreeMap::from([(name.clone(), 1)]))),
        Dim::Op(op @ (DimOp::Add | DimOp::Sub), operands) => {
            let (mut a, b) = (count(&operands.0)?, count(&operands.1)?);
            let sign = if *op == DimOp::Add { 1 } else { -1 };
            a.0 += sign * b.0;
            for (name, times) in b.1 {
                *a.1.entry(name).or_default() += sign * times;
            }
            a.1.retain(|_, times| *times != 0);
            Ok(a)
        }
        Dim::Op(..) => unknown(format!("{position} is no axis")),
    }
}

fn count_of(axes: &[Axis]) -> Count {
    let mut total = (0, BTreeMap::new());
    for axis in axes {
        match axis {
            Axis::Dim(_) => total.0 += 1,
            Axis::Group(name) => *total.1.entry(rank_of(name)).or_default() += 1,
        }
    }
    total
}

/// Where the axis with this number is, counted from the front or, negative, from behind.
pub(crate) fn place(shape: &[Axis], position: &Dim) -> Known<usize> {
    let wanted = count(position)?;
    let found = if wanted.0 < 0 {
        let behind = (-1 - wanted.0, wanted.1);
        (0..shape.len()).find(|&at| count_of(&shape[at + 1..]) == behind)
    } else {
        (0..=shape.len()).find(|&at| count_of(&shape[..at]) == wanted)
    };
    found.map_or_else(|| unknown(format!("there is no axis {position}")), Ok)
}
