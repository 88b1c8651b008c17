//! Elements moved, not computed (but for the two sums that undo a broadcast).
//!
//! None of the movements reads an element: one that was never written moves as such.

mod join;
mod order;
mod stretch;
mod view;

pub use view::reshaped;

#[cfg(test)]
mod tests;

use super::{Constraint, Effect, Literal, Traps, constraint, optional, required};
use super::{Evaluate, Family, Infer, Kind, Operator, Param, Reject};
use crate::ops::{Programs, programs};
use crate::stop::Stop;
use crate::value::Value;
use relax_syntax::annotation::Annotation;

const X: Param = required("x", Kind::Tensor);
const DATA: Param = required("data", Kind::Tensor);
const SHAPE: Param = required("shape", Kind::Shape);
const TENSORS: Param = required("tensors", Kind::Tensors);

const AXIS: Constraint = constraint("C1", "axis is in -rank..rank");
const FITS: &str = "every dim of the result fits i64";

type Row = (
    fn(&mut Infer) -> Result<Annotation, Reject>,
    fn(&super::Eval) -> Result<Value, Stop>,
    Programs,
);

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
        family: Family::Movement,
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
        "broadcast_to",
        "x stretched to that shape: aligned at the last dim, a dim of 1 repeats.",
        &[X, SHAPE],
        &[
            constraint("C1", "no dim of the shape is negative, and each fits i64"),
            constraint("C2", "the shape has at least the rank of x"),
            constraint("C3", "every dim of x is 1 or equals the shape's, aligned at the last"),
        ],
        Traps::Never,
        (
            stretch::infer_broadcast,
            stretch::eval_broadcast,
            Programs::Of(programs::movement::broadcast),
        ),
    ),
    row(
        "collapse_sum_like",
        "As collapse_sum_to, to the shape of collapse_target, of which no element is read.",
        &[DATA, required("collapse_target", Kind::Tensor)],
        stretch::COLLAPSE_CONSTRAINTS,
        Traps::Never,
        (
            stretch::infer_collapse_like,
            stretch::eval_collapse,
            Programs::Of(programs::reduction::collapse),
        ),
    ),
    row(
        "collapse_sum_to",
        "The sum that undoes a broadcast: data summed over the dims that the shape does not have \
         and over those that are 1 in it. Floats are summed in f64 and rounded once, integers wrap. \
         It reads every element.",
        &[DATA, SHAPE],
        stretch::COLLAPSE_CONSTRAINTS,
        Traps::Never,
        (
            stretch::infer_collapse_to,
            stretch::eval_collapse,
            Programs::Of(programs::reduction::collapse),
        ),
    ),
    row(
        "concat",
        "The tensors one after the other along axis. With axis None they must be vectors, as in TVM \
         (NumPy flattens them).",
        &[TENSORS, optional("axis", Kind::OptionalDim, Literal::Int(0))],
        &[
            constraint("C1", "there is at least one tensor"),
            constraint("C2", "the tensors have the same dtype"),
            constraint("C3", "the tensors have the same rank, which is 1 when axis is None"),
            constraint("C4", "axis is in -rank..rank"),
            constraint("C5", "all dims but the one at axis are equal"),
            constraint("C6", FITS),
        ],
        Traps::Never,
        (join::infer_concat, join::eval_concat, Programs::Of(programs::join::joined)),
    ),
    row(
        "expand_dims",
        "x with dims of 1 put in at these axes of the result.",
        &[X, required("axis", Kind::Dims)],
        &[constraint("C1", "the axes are in -r..r of the result's rank r, and differ")],
        Traps::Never,
        (view::infer_expand_dims, view::eval_view, Programs::Of(programs::movement::view)),
    ),
    row(
        "flatten",
        "The elements of x as a vector, in row-major order.",
        &[X],
        &[constraint("C1", FITS)],
        Traps::Never,
        (view::infer_flatten, view::eval_view, Programs::Of(programs::movement::view)),
    ),
    row(
        "flip",
        "x with the order of elements along axis reversed.",
        &[DATA, required("axis", Kind::Dim)],
        &[AXIS],
        Traps::Never,
        (order::infer_flip, order::eval_flip, Programs::Of(programs::movement::mapped)),
    ),
    Operator {
        aliases: &["transpose"],
        ..row(
            "permute_dims",
            "x with its dims in another order: dim i of the result is dim axes[i] of x. Without \
             axes their order is reversed.",
            &[X, optional("axes", Kind::OptionalDims, Literal::None)],
            &[constraint(
                "C1",
                "axes name every dim of x exactly once; negative ones count from the end",
            )],
            Traps::Never,
            (order::infer_permute, order::eval_permute, Programs::Of(programs::movement::permute)),
        )
    },
    row(
        "repeat",
        "Every slice along axis repeated that many times in a row; without axis, every element of \
         the flattened data.",
        &[DATA, required("repeats", Kind::Dim), optional("axis", Kind::OptionalDim, Literal::None)],
        &[AXIS, constraint("C2", "repeats is at least 0"), constraint("C3", FITS)],
        Traps::Never,
        (stretch::infer_repeat, stretch::eval_repeat, Programs::Of(programs::movement::mapped)),
    ),
    row(
        "reshape",
        "The elements of x, in row-major order, in another shape. One literal -1 stands for the dim \
         that makes the sizes equal; it must be determined, so no other dim may be 0 then. A 0 is a \
         dim of 0, as in NumPy (TVM takes it for the dim of x at that place).",
        &[X, required("shape", Kind::InferredShape)],
        &[
            constraint(
                "C1",
                "no dim of the shape is negative but a literal -1, at most one is -1, and each fits i64",
            ),
            constraint("C2", "the shape has as many elements as x"),
            constraint(
                "C3",
                "the product of the other dims divides the number of elements, for -1",
            ),
        ],
        Traps::Never,
        (view::infer_reshape, view::eval_view, Programs::Of(programs::movement::view)),
    ),
    row(
        "reverse_sequence",
        "For each index b along batch_axis, the first seq_lengths[b] elements along seq_axis \
         reversed; the others stay. A length of at most 1 changes nothing, one beyond the dim \
         reverses all, as in TVM.",
        &[
            DATA,
            required("seq_lengths", Kind::Tensor),
            optional("seq_axis", Kind::Dim, Literal::Int(1)),
            optional("batch_axis", Kind::Dim, Literal::Int(0)),
        ],
        &[
            constraint("C1", "seq_axis and batch_axis are in -rank..rank, and differ"),
            constraint("C2", "seq_lengths is a vector of integers"),
            constraint("C3", "seq_lengths is as long as the dim at batch_axis"),
        ],
        Traps::Never,
        (
            order::infer_reverse_sequence,
            order::eval_reverse_sequence,
            Programs::Of(programs::movement::mapped),
        ),
    ),
    row(
        "split",
        "x cut along axis, as a tuple, which also a single part is in (TVM then gives the tensor). \
         A number of sections: parts of ceildiv(dim, sections), the last one what is left, as in TVM \
         (NumPy demands equal parts). A list of indices: the places of the cuts, clamped to the dim, \
         negative ones to 0, as in TVM (NumPy counts negative ones from the end).",
        &[
            X,
            required("indices_or_sections", Kind::Dims).also("sections"),
            optional("axis", Kind::Dim, Literal::Int(0)),
        ],
        &[
            AXIS,
            constraint("C2", "the number of sections is in 1..=65536"),
            constraint("C3", "the sections before the last do not take more than the dim"),
        ],
        Traps::Never,
        (join::infer_split, join::eval_split, Programs::Of(programs::join::split)),
    ),
    row(
        "squeeze",
        "x without the dims of 1 at these axes; without axis, without any dim of 1: its rank is \
         then known only where every dim is known to be 1 or not.",
        &[X, optional("axis", Kind::OptionalDims, Literal::None)],
        &[
            constraint("C1", "the axes are in -rank..rank, and differ"),
            constraint("C2", "the dims at the axes are 1"),
        ],
        Traps::Never,
        (view::infer_squeeze, view::eval_view, Programs::Of(programs::movement::view)),
    ),
    row(
        "stack",
        "The tensors, all of one shape, one after the other along a new dim of the result.",
        &[TENSORS, optional("axis", Kind::Dim, Literal::Int(0))],
        &[
            constraint("C1", "there is at least one tensor"),
            constraint("C2", "the tensors have the same dtype"),
            constraint("C3", "the tensors have the same shape"),
            constraint("C4", "axis is in -r..r of the result's rank r"),
        ],
        Traps::Never,
        (join::infer_stack, join::eval_stack, Programs::Of(programs::join::joined)),
    ),
    row(
        "tile",
        "data repeated as a whole along each dim. The shorter of the dims and repeats counts as led \
         by ones.",
        &[DATA, required("repeats", Kind::Dims)],
        &[constraint("C1", "every repeat is at least 0"), constraint("C2", FITS)],
        Traps::Never,
        (stretch::infer_tile, stretch::eval_tile, Programs::Of(programs::movement::mapped)),
    ),
];
