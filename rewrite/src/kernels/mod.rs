//! The tensor program of an operator's call: one builder a family, found by the operator's name.
//!
//! A builder sees the call with its dims renamed (see [`renaming`]), so that calls which differ only
//! in the names of their dims get the same program. It gives none where it does not know the case:
//! the call then stays as it is. What has no builder at all is listed in [`remaining`].

mod attention;
mod builder;
mod convolution;
mod creation;
mod distributed;
mod elementwise;
mod indexing;
mod join;
mod movement;
mod normalization;
mod pooling;
mod product;
mod ranking;
mod reduction;
mod scan;
mod scatter;
mod slices;
mod total;
mod unique;

pub mod remaining;
pub(crate) mod renaming;

use builder::Builder;
use relax_runtime::program::Numerics;
use relax_semantics::formula::Scalar;
use relax_semantics::ops::{Known, Operator, normalize_axis};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::ScalarId;
use std::collections::BTreeMap;

/// A tensor of known dims and dtype.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorSpec {
    pub(crate) dims: Vec<Dim>,
    pub(crate) dtype: DType,
}

impl TensorSpec {
    fn rank(&self) -> usize {
        self.dims.len()
    }
}

/// An operand that is a tensor.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    /// The parameter that it is for, alone or among others.
    pub(crate) param: &'static str,
    pub(crate) spec: TensorSpec,
    /// The least and greatest of its elements, where the text spells them, as integers.
    pub(crate) range: Option<(i128, i128)>,
    /// Whether the program gets it: not, where it is known not to read it.
    pub(crate) is_passed: bool,
}

/// What a program of a call gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    /// The result of the operator.
    Result,
    /// The extents of the result that only elements decide, as a vector.
    Extents,
}

/// A call for which a program is wanted. Every constraint of the operator is proved.
#[derive(Clone)]
pub(crate) struct Request {
    /// The operator.
    pub(crate) row: &'static Operator,
    pub(crate) gives: Gives,
    /// Its tensors, in the order of the parameters.
    pub(crate) inputs: Vec<Input>,
    /// What it gives: one tensor, or the fields of a tuple.
    pub(crate) outs: Vec<TensorSpec>,
    /// Its other parameters, defaults included.
    pub(crate) attrs: BTreeMap<&'static str, Known>,
    /// Names of dims in them that the tensors do not tell: scalars of the program.
    pub(crate) scalars: Vec<Name>,
    /// What the program may do with sums of floats: those of f64 are compensated where they are exact.
    pub(crate) numerics: Numerics,
}

impl Request {
    /// Equal for requests that get the same program: floats are told apart as their text tells them.
    pub(crate) fn key(&self) -> String {
        let Self { row, gives, inputs, outs, attrs, scalars, numerics: _ } = self;
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
type Build = fn(&Request) -> Option<Builder>;

/// The operators that are not elementwise, or not for all dtypes: names, and the builder for all of them.
static FAMILIES: &[(&[&str], Build)] = &[
    (&["power"], elementwise::power),
    (creation::NAMES, creation::constant),
    (&["arange"], creation::arange),
    (&["size"], creation::size),
    (&["shape_to_tensor"], creation::dims),
    (&["eye", "eye_like"], creation::eye),
    (&["triu", "tril"], movement::triangle),
    (&["broadcast_to"], movement::broadcast),
    (&["permute_dims"], movement::permute),
    (&["reshape", "flatten", "expand_dims", "squeeze", "nn.batch_flatten"], movement::view),
    (&["flip", "repeat", "tile", "reverse_sequence", "nn.pixel_shuffle"], movement::mapped),
    (&["concat", "stack"], join::joined),
    (&["split"], join::split),
    (&["meshgrid"], join::meshgrid),
    (&["nn.dropout"], join::dropout),
    (&["strided_slice"], slices::slice),
    (&["slice_scatter"], slices::slice_scatter),
    (&["nn.pad"], slices::pad),
    (&["dynamic_strided_slice"], slices::dynamic),
    (&["nonzero"], indexing::nonzero),
    (&["take"], indexing::take),
    (&["gather_elements"], indexing::gather_elements),
    (&["gather_nd"], indexing::gather_nd),
    (&["index_tensor"], indexing::index_tensor),
    (&["nn.nll_loss"], indexing::nll_loss),
    (&["scatter_elements"], scatter::scatter_elements),
    (&["scatter_nd"], scatter::scatter_nd),
    (&["index_put"], scatter::index_put),
    (&["one_hot"], indexing::one_hot),
    (&["bucketize"], indexing::bucketize),
    (&["matmul"], product::matmul),
    (&["outer"], product::outer),
    (&["einsum"], product::einsum),
    (&["sum", "mean", "prod"], reduction::fold),
    (&["collapse_sum_to", "collapse_sum_like"], reduction::collapse),
    (&["max", "min"], reduction::extreme),
    (&["variance", "std"], reduction::variance),
    (&["cumsum", "cumprod"], scan::scan),
    (&["argmax", "argmin"], scan::arg),
    (&["sort", "argsort", "topk"], ranking::sorted),
    (&["median"], ranking::median),
    (&["unique"], unique::unique),
    (&["nn.softmax", "nn.log_softmax"], normalization::softmax),
    (&["nn.layer_norm", "nn.rms_norm"], normalization::over_axes),
    (&["nn.group_norm", "nn.instance_norm"], normalization::by_channel),
    (&["nn.batch_norm"], normalization::batch_norm),
    (&["nn.cross_entropy_with_logits"], reduction::cross_entropy),
    (&["nn.conv1d", "nn.conv2d"], convolution::forward),
    (&["nn.conv1d_transpose", "nn.conv2d_transpose"], convolution::transposed),
    (&["nn.max_pool1d", "nn.max_pool2d"], pooling::maximum),
    (&["nn.avg_pool1d", "nn.avg_pool2d"], pooling::average),
    (&["nn.adaptive_avg_pool2d"], pooling::adaptive),
    (&["nn.attention", "nn.attention_bias"], attention::attention),
    (&["allgather"], distributed::all_gather),
    (&["all_to_all"], distributed::all_to_all),
    (&["reduce_scatter"], distributed::reduce_scatter),
    (&["scatter_from_worker0"], distributed::scatter),
];

/// The operators of whose results elements decide extents: which.
static EXTENTS: &[(&[&str], Build)] = &[
    (&["dynamic_strided_slice"], slices::dynamic_extents),
    (&["nonzero"], indexing::nonzero_count),
    (&["unique"], unique::count),
];

/// The operators that have a program for some calls.
#[must_use]
pub fn has_kernels(row: &Operator) -> bool {
    row.elementwise().is_some() || FAMILIES.iter().any(|(names, _)| names.contains(&row.name))
}

/// A program, and which operands it takes.
pub(crate) struct Made {
    /// Its name is that of the operator, after `legal_`.
    pub(crate) program: TensorProgram,
    /// For each operand, whether the program gets it.
    pub(crate) passed: Vec<bool>,
}

/// The program of a call. It gets no operand that it does not read, unless a dim of it is needed.
pub(crate) fn kernel(request: &Request) -> Option<Made> {
    let families = match request.gives {
        Gives::Result => FAMILIES,
        Gives::Extents => EXTENTS,
    };
    let named = families.iter().find(|(names, _)| names.contains(&request.row.name));
    let build = |request: &Request| match named {
        Some((_, build)) => build(request),
        None => elementwise::elementwise(request, request.row.elementwise()?),
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
