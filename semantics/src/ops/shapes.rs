//! Shapes as values.

use super::dims::{tensor, volume};
use super::{Constraint, Effect, Param, Traps, constraint, required};
use super::{Eval, Evaluate, Family, Infer, Kind, Operator, Reject};
use crate::ops::{Programs, programs};
use crate::stop::Stop;
use crate::tensor::{Number, Tensor, array};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

type Row =
    (fn(&mut Infer) -> Result<Annotation, Reject>, fn(&Eval) -> Result<Value, Stop>, Programs);

const fn row(
    name: &'static str,
    doc: &'static str,
    params: &'static [Param],
    constraints: &'static [Constraint],
    traps: Traps,
    (infer, eval, program): Row,
) -> Operator {
    Operator {
        name,
        aliases: &[],
        family: Family::Shapes,
        doc,
        params,
        constraints,
        effect: Effect::Pure,
        traps,
        infer,
        program,
        eval: Evaluate::Values(eval),
    }
}

const TENSOR: Param = required("expr", Kind::Tensor).also("x");

pub(super) static OPERATORS: &[Operator] = &[
    row(
        "shape_of",
        "The shape of a tensor as a value. Reads no element.",
        &[TENSOR],
        &[],
        Traps::Never,
        (infer_shape_of, eval_shape_of, Programs::Shape),
    ),
    row(
        "shape_to_tensor",
        "The dims of a shape as an i64 vector.",
        &[required("expr", Kind::Shape).also("x")],
        &[constraint("C1", "every dim fits i64")],
        Traps::Never,
        (infer_shape_to_tensor, eval_shape_to_tensor, Programs::Of(programs::creation::dims)),
    ),
    row(
        "size",
        "The number of elements as an i64 scalar. Reads no element.",
        &[TENSOR],
        &[],
        Traps::Never,
        (
            |infer| {
                infer.tensor("expr")?;
                Ok(Annotation::tensor(Vec::new(), DType::I64))
            },
            eval_size,
            Programs::Of(programs::creation::size),
        ),
    ),
    row(
        "tensor_to_shape",
        "The elements of an integer vector as the dims of a shape. Its rank is the vector's length.",
        &[TENSOR],
        VECTOR_OF_DIMS,
        Traps::OnElements,
        (infer_tensor_to_shape, eval_tensor_to_shape, Programs::Shape),
    ),
];

/// What a vector must be of which a shape is made.
pub(super) const VECTOR_OF_DIMS: &[Constraint] = &[
    constraint("C1", "the tensor is a vector"),
    constraint("C2", "its dtype is an integer dtype"),
    constraint("C3", "no element is negative, and each fits i64"),
    constraint("C4", "a shape has at most 65536 dims"),
];

/// The most dims that a shape made at run time may have.
const MAX_RANK: i64 = 65536;

fn infer_shape_of(infer: &mut Infer) -> Result<Annotation, Reject> {
    Ok(Annotation::Shape(infer.tensor("expr")?.extents))
}

fn eval_shape_of(eval: &Eval) -> Result<Value, Stop> {
    let shape = eval.tensor_as_it_is("expr").shape();
    Ok(Value::Shape(shape.iter().map(|&dim| i64::try_from(dim).unwrap_or(i64::MAX)).collect()))
}

fn infer_shape_to_tensor(infer: &mut Infer) -> Result<Annotation, Reject> {
    let extents = match infer.shape("expr")? {
        Extents::Known(dims) => {
            infer.settled("C1", &dims)?;
            vector_of(dims.len())
        }
        Extents::Rank(rank) => vector_of(rank),
        Extents::Unknown => Extents::Rank(1),
    };
    Ok(tensor(extents, Some(DType::I64)))
}

fn vector_of(length: usize) -> Extents {
    Extents::Known(vec![Dim::Int(i64::try_from(length).unwrap_or(i64::MAX))])
}

fn eval_shape_to_tensor(eval: &Eval) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    let dims = eval.ints("expr").into_iter().map(i128::from).collect();
    Ok(Value::Tensor(Tensor::from_ints(dtype, array(&shape, dims))))
}

fn eval_size(eval: &Eval) -> Result<Value, Stop> {
    let size = eval.tensor_as_it_is("expr").len();
    Ok(Value::Tensor(Tensor::scalar(DType::I64, Number::Int(size as i128))))
}

pub(super) fn infer_tensor_to_shape(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer.require_dtype("C2", "expr", DType::is_integer)?;
    let extents = infer.tensor("expr")?.extents;
    if let Some(rank) = extents.rank().filter(|&rank| rank != 1) {
        return Err(infer.reject("C1", format!("the tensor must be a vector, found rank {rank}")));
    }
    let Extents::Known(dims) = extents else { return Ok(Annotation::Shape(Extents::Unknown)) };
    let length = infer.facts.simplify(&volume(&dims)).as_int();
    if let Some(length) = length.filter(|&length| length > MAX_RANK) {
        let message = format!("a shape has at most {MAX_RANK} dims, found {length} elements");
        return Err(infer.reject("C4", message));
    }
    let rank = length.and_then(|length| usize::try_from(length).ok());
    Ok(Annotation::Shape(rank.map_or(Extents::Unknown, Extents::Rank)))
}

pub(super) fn eval_tensor_to_shape(eval: &Eval) -> Result<Value, Stop> {
    let elements = eval.tensor("expr")?.to_ints();
    let dim = |element: &i128| {
        let dim = i64::try_from(*element).ok().filter(|&dim| dim >= 0);
        let message = || format!("{element} is no dim of a shape");
        dim.ok_or_else(|| Stop::trap("tensor_to_shape/C3", message()))
    };
    Ok(Value::Shape(elements.iter().map(dim).collect::<Result<_, Stop>>()?))
}
