//! Tensors from shapes and numbers.

mod diagonal;
mod fill;
mod range;

use super::{Effect, Literal, Traps, constraint, optional, required};
use super::{Evaluate, Family, Kind, Operator, Param};
use crate::ops::{Programs, programs};
use crate::tensor::Number;

const SHAPE: super::Constraint =
    constraint("C1", "no dim of the shape is negative, and each fits i64");
const FILL: super::Constraint = constraint(
    "C2",
    "fill_value is a scalar tensor (rank 0), or a number, and then dtype is given",
);
const DTYPE: Param = required("dtype", Kind::DType);
const OPTIONAL_DTYPE: Param = optional("dtype", Kind::OptionalDType, Literal::None);
const X: Param = required("x", Kind::Tensor);
const K: Param = optional("k", Kind::Dim, Literal::Int(0));

type Row = (
    fn(&mut super::Infer) -> Result<relax_syntax::annotation::Annotation, super::Reject>,
    fn(&super::Eval) -> Result<crate::value::Value, crate::stop::Stop>,
    Programs,
);

/// A row without aliases, effects or further constraints than given.
const fn row(
    name: &'static str,
    doc: &'static str,
    params: &'static [Param],
    constraints: &'static [super::Constraint],
    traps: Traps,
    (infer, eval, program): Row,
) -> Operator {
    Operator {
        name,
        aliases: &[],
        family: Family::Creation,
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

pub(super) static OPERATORS: &[Operator] = &[
    row(
        "arange",
        "The numbers from start up to but not including end, step apart: element i is \
         start + i * step, computed in f64 (for integers exactly) and rounded once. With one bound \
         that bound is the end and the start is 0. The dtype is i64 when all three are integers, \
         else f32, as in TVM. The length follows NumPy, for negative steps too, where TVM's is \
         wrong; symbolic: max(0, ceildiv(end - start, step)).",
        &[
            required("start", Kind::Value),
            optional("end", Kind::Value, Literal::None),
            optional("step", Kind::Value, Literal::Int(1)),
            OPTIONAL_DTYPE,
        ],
        &[
            constraint("C1", "step is not 0"),
            constraint("C2", "start, end and step are finite, and the length fits i64"),
            constraint("C3", "dtype is not bool"),
        ],
        Traps::OnExtents,
        (range::infer, range::eval, Programs::Of(programs::creation::arange)),
    ),
    row(
        "empty",
        "A tensor of that shape whose elements are undefined: reading one before it is written is \
         a trap. The paper's operator; moving undefined elements is no read.",
        &[required("shape", Kind::Shape), DTYPE],
        &[SHAPE],
        Traps::Never,
        (
            fill::infer_shaped,
            fill::eval_empty,
            Programs::None("it computes nothing: its elements are not written"),
        ),
    ),
    row(
        "eye",
        "The n by m matrix (n by n when m is None) with ones where column - row is k, zeros elsewhere.",
        &[
            required("n", Kind::Dim),
            optional("m", Kind::OptionalDim, Literal::None),
            K,
            optional("dtype", Kind::DType, Literal::Str("f32")),
        ],
        &[SHAPE],
        Traps::Never,
        (diagonal::infer_eye, diagonal::eval_eye, Programs::Of(programs::creation::eye)),
    ),
    row(
        "eye_like",
        "As eye, with the shape of x, and its dtype unless dtype says otherwise. Reads no element.",
        &[X, K, OPTIONAL_DTYPE],
        &[constraint("C1", "x has rank 2")],
        Traps::Never,
        (diagonal::infer_eye_like, diagonal::eval_eye, Programs::Of(programs::creation::eye)),
    ),
    row(
        "full",
        "A tensor of that shape in which every element is fill_value, converted to dtype as by \
         astype; dtype defaults to that of fill_value. TVM takes only a scalar tensor; a number \
         with a dtype is accepted too.",
        &[required("shape", Kind::Shape), required("fill_value", Kind::Value), OPTIONAL_DTYPE],
        &[SHAPE, FILL],
        Traps::Never,
        (fill::infer_full, fill::eval_full, Programs::Of(programs::creation::constant)),
    ),
    row(
        "full_like",
        "As full, with the shape of x, and its dtype unless dtype says otherwise. Reads no element \
         of x.",
        &[X, required("fill_value", Kind::Value), OPTIONAL_DTYPE],
        &[constraint("C1", "fill_value is a scalar tensor (rank 0) or a number")],
        Traps::Never,
        (fill::infer_full_like, fill::eval_full, Programs::Of(programs::creation::constant)),
    ),
    row(
        "ones",
        "A tensor of that shape and dtype in which every element is 1 (True for bool).",
        &[required("shape", Kind::Shape), DTYPE],
        &[SHAPE],
        Traps::Never,
        (
            fill::infer_shaped,
            |eval| fill::eval_same(eval, Number::Int(1)),
            Programs::Of(programs::creation::constant),
        ),
    ),
    row(
        "ones_like",
        "As ones, with the shape of x, and its dtype unless dtype says otherwise. Reads no element.",
        &[X, OPTIONAL_DTYPE],
        &[],
        Traps::Never,
        (
            fill::infer_like,
            |eval| fill::eval_same(eval, Number::Int(1)),
            Programs::Of(programs::creation::constant),
        ),
    ),
    row(
        "tril",
        "The lower triangle of each matrix of the last two dims: elements with column - row > k \
         become 0.",
        &[X, K],
        &[constraint("C1", "x has rank at least 2")],
        Traps::Never,
        (
            diagonal::infer_triangle,
            |eval| diagonal::eval_triangle(eval, |distance, k| distance <= k),
            Programs::Of(programs::movement::triangle),
        ),
    ),
    row(
        "triu",
        "The upper triangle of each matrix of the last two dims: elements with column - row < k \
         become 0.",
        &[X, K],
        &[constraint("C1", "x has rank at least 2")],
        Traps::Never,
        (
            diagonal::infer_triangle,
            |eval| diagonal::eval_triangle(eval, |distance, k| distance >= k),
            Programs::Of(programs::movement::triangle),
        ),
    ),
    row(
        "zeros",
        "A tensor of that shape and dtype in which every element is 0 (False for bool).",
        &[required("shape", Kind::Shape), DTYPE],
        &[SHAPE],
        Traps::Never,
        (
            fill::infer_shaped,
            |eval| fill::eval_same(eval, Number::Int(0)),
            Programs::Of(programs::creation::constant),
        ),
    ),
    row(
        "zeros_like",
        "As zeros, with the shape of x, and its dtype unless dtype says otherwise. Reads no element.",
        &[X, OPTIONAL_DTYPE],
        &[],
        Traps::Never,
        (
            fill::infer_like,
            |eval| fill::eval_same(eval, Number::Int(0)),
            Programs::Of(programs::creation::constant),
        ),
    ),
];
