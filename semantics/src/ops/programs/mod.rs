//! The tensor program of an operator's call, made by the builder of the operator's row.
//!
//! A builder sees the call with its dims renamed (see [`Renaming`]), so that calls which differ only in the names of their
//! dims get the same program. It gives none where it does not know the case.

pub(super) mod attention;
mod builder;
pub(super) mod convolution;
pub(super) mod creation;
pub(super) mod distributed;
pub(super) mod elementwise;
pub(super) mod indexing;
pub(super) mod join;
pub(super) mod movement;
pub(super) mod normalization;
pub(super) mod pooling;
pub(super) mod product;
pub(super) mod random;
pub(super) mod ranking;
pub(super) mod reduction;
mod renaming;
pub(super) mod scan;
pub(super) mod scatter;
pub(super) mod slices;
mod total;
pub(super) mod unique;

pub use builder::Builder;
pub use renaming::Renaming;

use super::{Known, Operator, normalize_axis};
use crate::formula::Scalar;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::ScalarId;
use std::collections::BTreeMap;

/// A tensor of known dims and dtype.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// One for each axis.
    pub dims: Vec<Dim>,
    /// Of its elements.
    pub dtype: DType,
}

impl TensorSpec {
    fn rank(&self) -> usize {
        self.dims.len()
    }
}

/// An operand that is a tensor.
#[derive(Clone, Debug)]
pub struct Input {
    /// The parameter that it is for, alone or among others.
    pub param: &'static str,
    /// What is known of it.
    pub spec: TensorSpec,
    /// The least and greatest of its elements, where the text spells them, as integers.
    pub range: Option<(i128, i128)>,
    /// Whether the program gets it: not, where it is known not to read it.
    pub is_passed: bool,
}

/// What a program of a call gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// The result of the operator.
    Result,
    /// The extents of the result that only elements decide, as a vector.
    Extents,
}

/// How sums of f64 are formed. Those of narrower floats are formed in f64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// The error of each addition is carried along, as operators do.
    Compensated,
    /// As they are.
    Plain,
}

/// A call for which a program is wanted. Every constraint of the operator is proved.
#[derive(Clone)]
pub struct Request {
    /// The operator.
    pub row: &'static Operator,
    /// Which of its programs.
    pub gives: Gives,
    /// Its tensors, in the order of the parameters.
    pub inputs: Vec<Input>,
    /// What it gives: one tensor, or the fields of a tuple.
    pub outs: Vec<TensorSpec>,
    /// Its other parameters, defaults included.
    pub attrs: BTreeMap<&'static str, Known>,
    /// Names of dims in them that the tensors do not tell: scalars of the program.
    pub scalars: Vec<Name>,
    /// How the program forms sums of f64.
    pub sums: Sums,
}

impl Request {
    /// Equal for requests that get the same program: floats are told apart as their text tells them.
    pub fn key(&self) -> String {
        let Self { row, gives, inputs, outs, attrs, scalars, sums: _ } = self;
        format!("{} {gives:?} {inputs:?} {outs:?} {attrs:?} {scalars:?}", row.name)
    }

    /// The first tensor.
    fn data(&self) -> Option<&TensorSpec> {
        self.inputs.first().map(|input| &input.spec)
    }

    /// The one result.
    fn out(&self) -> &TensorSpec {
        &self.outs[0]
    }

    /// Whether a parameter is `None`.
    fn is_none(&self, name: &str) -> bool {
        self.attrs.get(name) == Some(&Known::None)
    }

    /// Literal axes of a tensor of `rank` dims, counted from 0; `None` inside: every axis.
    fn axes(&self, name: &str, rank: usize) -> Option<Option<Vec<usize>>> {
        let known = self.attrs.get(name)?;
        if *known == Known::None {
            return Some(None);
        }
        let position = |dim: &Dim| normalize_axis(dim.as_int()?, rank);
        known.dims()?.iter().map(position).collect::<Option<Vec<_>>>().map(Some)
    }

    /// A literal axis.
    fn axis(&self, name: &str, rank: usize) -> Option<usize> {
        self.axes(name, rank)??.first().copied()
    }

    /// Literal integers; one stands for a list of it.
    fn ints(&self, name: &str) -> Option<Vec<i64>> {
        self.attrs.get(name)?.dims()?.iter().map(Dim::as_int).collect()
    }

    /// A literal integer.
    fn int(&self, name: &str) -> Option<i64> {
        self.ints(name)?.first().copied()
    }

    /// A number of the text, or a dim, as a scalar.
    fn number(&self, name: &str) -> Option<Scalar> {
        match self.attrs.get(name)? {
            Known::Dim(dim) => Some(self.index(dim)),
            Known::Float(value) => Some((*value).into()),
            Known::Bool(value) => Some((*value).into()),
            _ => None,
        }
    }

    /// A dim of an attribute as a scalar.
    fn index(&self, dim: &Dim) -> Scalar {
        if let Dim::Var(name) = dim
            && let Some(at) = self.scalars.iter().position(|scalar| scalar == name)
        {
            return ScalarId(u32::try_from(at).expect("invariant: few scalars")).into();
        }
        dim.into()
    }

    /// Dims of an attribute as scalars.
    fn indices(&self, name: &str) -> Option<Vec<Scalar>> {
        Some(self.attrs.get(name)?.dims()?.iter().map(|dim| self.index(dim)).collect())
    }

    /// A literal float; an integer is taken for one.
    fn float(&self, name: &str) -> Option<f64> {
        match self.attrs.get(name)? {
            Known::Float(value) => Some(*value),
            Known::Dim(dim) => dim.as_int().map(|value| value as f64),
            _ => None,
        }
    }

    fn bool(&self, name: &str) -> Option<bool> {
        match self.attrs.get(name)? {
            Known::Bool(value) => Some(*value),
            _ => None,
        }
    }

    fn str(&self, name: &str) -> Option<&str> {
        match self.attrs.get(name)? {
            Known::Str(text) => Some(text),
            _ => None,
        }
    }

    /// Whether the elements of an operand are spelled, and all in a range of which this holds.
    fn lies_in(&self, param: &str, holds: impl Fn(i128, i128) -> bool) -> bool {
        let mut own = self.inputs.iter().filter(|input| input.param == param);
        own.all(|input| input.range.is_some_and(|(least, most)| holds(least, most)))
    }
}

/// Makes the program of a call, if it knows the case.
pub type Build = fn(&Request) -> Option<Builder>;

/// The tensor programs of a row.
#[derive(Clone, Copy)]
pub enum Programs {
    /// Each element of the result by the row's formula.
    Formula,
    /// One builder for the calls that it knows.
    Of(Build),
    /// Elements decide extents of the result: the program of the result, and that of these extents.
    Counted(Build, Build),
    /// None is needed: it gives a shape, which an instruction reads from a tensor or whose dims the text spells.
    Shape,
    /// None: why.
    None(&'static str),
}

impl Programs {
    /// Whether some calls have one.
    #[must_use]
    pub fn are_some(self) -> bool {
        matches!(self, Programs::Formula | Programs::Of(_) | Programs::Counted(..))
    }
}

/// A program, and which operands it takes.
pub struct Made {
    /// Its name is that of the operator, after `legal_`.
    pub program: TensorProgram,
    /// For each operand, whether the program gets it.
    pub passed: Vec<bool>,
}

/// The program of a call. It gets no operand that it does not read, unless a dim of it is needed.
pub fn kernel(request: &Request) -> Option<Made> {
    let build = |request: &Request| match (request.row.program, request.gives) {
        (Programs::Formula, Gives::Result) => {
            elementwise::elementwise(request, request.row.elementwise()?)
        }
        (Programs::Of(build) | Programs::Counted(build, _), Gives::Result)
        | (Programs::Counted(_, build), Gives::Extents) => build(request),
        _ => None,
    };
    let (mut program, unread) = build(request)?.finish();
    let mut request = request.clone();
    for at in unread {
        if is_told_by_others(&request, at) {
            request.inputs[at].is_passed = false;
        }
    }
    let passed: Vec<bool> = request.inputs.iter().map(|input| input.is_passed).collect();
    if passed.contains(&false) {
        (program, _) = build(&request)?.finish();
    }
    Some(Made { program, passed })
}

/// Whether every variable among the dims of an input stands alone in another tensor.
fn is_told_by_others(request: &Request, at: usize) -> bool {
    let inputs = request.inputs.iter().enumerate();
    let others = inputs.filter(|(other, input)| *other != at && input.is_passed);
    let others: Vec<&TensorSpec> =
        others.map(|(_, input)| &input.spec).chain(&request.outs).collect();
    let mut told = true;
    for dim in &request.inputs[at].spec.dims {
        dim.visit_vars(&mut |name| {
            let alone = Dim::Var(name.clone());
            told &= others.iter().any(|other| other.dims.contains(&alone));
        });
    }
    told
}
