//! Operators of programs that run on several workers, and what they mean in a single process.
//!
//! All workers run the same program. In a single process there is one that stands for all: it is
//! worker 0, and what others would send is what it has itself. Operators that name the number of
//! workers count that many such copies; the others see a world of one.

mod collective;
mod local_view;
mod sharding;

use super::{Constraint, Effect, Literal, Traps, constraint, optional, required};
use super::{Eval, Evaluate, Family, Infer, Kind, Operator, Param, Reject};
use crate::stop::Stop;
use crate::value::Value;
use relax_syntax::annotation::Annotation;

const X: Param = required("x", Kind::Tensor);
const INPUT: Param = required("input", Kind::Tensor).also("x");
const MESH: Param = required("device_mesh", Kind::Str);
const PLACEMENT: Param = required("placement", Kind::Str);
const WORKERS: Param = required("num_workers", Kind::Dim);
const IN_GROUP: Param = optional("in_group", Kind::Bool, Literal::Bool(true));
const OP_TYPE: Param = optional("op_type", Kind::Str, Literal::Str("sum"));

const ONE_WORKER: Constraint = constraint("C1", "num_workers is at least 1");
const AXIS: Constraint = constraint("C2", "axis is in -rank..rank");
const DIVIDES: Constraint = constraint("C3", "num_workers divides the dim at axis");
const LAYOUT: &[Constraint] = &[
    constraint("C1", "placement is a list of `R` and `S[d]`, where d is a dim of the tensor"),
    constraint("C2", "device_mesh is not empty"),
];

type Row = (fn(&mut Infer) -> Result<Annotation, Reject>, fn(&Eval) -> Result<Value, Stop>);

const fn row(
    names: (&'static str, &'static [&'static str]),
    doc: &'static str,
    params: &'static [Param],
    constraints: &'static [Constraint],
    traps: Traps,
    (infer, eval): Row,
) -> Operator {
    Operator {
        name: names.0,
        aliases: names.1,
        family: Family::Distributed,
        doc,
        params,
        constraints,
        effect: Effect::Pure,
        traps,
        infer,
        eval: Evaluate::Values(eval),
    }
}

pub(super) static OPERATORS: &[Operator] = &[
    row(
        ("all_to_all", &["ccl.all_to_all"]),
        "Every worker cuts x into num_workers parts along split_axis and sends part i to worker i; \
         what a worker receives is joined along concat_axis. In a single process: the first part, \
         num_workers times.",
        &[
            X,
            WORKERS,
            optional("split_axis", Kind::Dim, Literal::Int(0)),
            optional("concat_axis", Kind::Dim, Literal::Int(0)),
            IN_GROUP,
        ],
        &[
            ONE_WORKER,
            constraint("C2", "split_axis and concat_axis are in -rank..rank"),
            constraint("C3", "num_workers divides the dim at split_axis"),
            constraint("C4", "every dim of the result fits i64"),
        ],
        Traps::Never,
        (collective::infer_all_to_all, collective::eval_all_to_all),
    ),
    row(
        ("allgather", &["ccl.allgather"]),
        "The x of every worker, one after the other along dim 0. In a single process: x \
         num_workers times.",
        &[X, WORKERS, IN_GROUP],
        &[
            ONE_WORKER,
            constraint("C2", "x has rank at least 1"),
            constraint("C3", "every dim of the result fits i64"),
        ],
        Traps::Never,
        (collective::infer_allgather, collective::eval_allgather),
    ),
    row(
        ("allreduce", &["ccl.allreduce"]),
        "The x of all workers, reduced element by element: sum, prod, min, max or avg. In a single \
         process, where there is one: x.",
        &[X, OP_TYPE, IN_GROUP],
        &[constraint("C1", "op_type is sum, prod, min, max or avg")],
        Traps::Never,
        (collective::infer_allreduce, collective::eval_same),
    ),
    row(
        ("annotate_sharding", &["dist.annotate_sharding"]),
        "The tensor unmodified, with the wish to lay it over the mesh so. As in TVM the annotation \
         stays what it was until the distribution is propagated.",
        &[INPUT, MESH, PLACEMENT],
        LAYOUT,
        Traps::Never,
        (sharding::infer_annotate, sharding::eval_same),
    ),
    row(
        ("broadcast_from_worker0", &["ccl.broadcast_from_worker0"]),
        "The x of worker 0, on every worker. In a single process: x.",
        &[X],
        &[],
        Traps::Never,
        (collective::infer_same, collective::eval_same),
    ),
    local_view::ROW,
    row(
        ("redistribute", &["dist.redistribute"]),
        "The same tensor, laid over the mesh in another way. TVM takes distributed tensors only; a \
         plain one counts as one that every worker has.",
        &[INPUT, MESH, PLACEMENT],
        LAYOUT,
        Traps::Never,
        (sharding::infer_redistribute, sharding::eval_same),
    ),
    row(
        ("reduce_scatter", &["ccl.reduce_scatter"]),
        "The x of all workers reduced as by allreduce, of which worker i keeps part i along axis. \
         In a single process: num_workers copies of x reduced, the first part of it.",
        &[X, WORKERS, OP_TYPE, optional("axis", Kind::Dim, Literal::Int(0)), IN_GROUP],
        &[ONE_WORKER, AXIS, DIVIDES, constraint("C4", "op_type is sum, prod, min, max or avg")],
        Traps::Never,
        (collective::infer_reduce_scatter, collective::eval_reduce_scatter),
    ),
    row(
        ("scatter_from_worker0", &["ccl.scatter_from_worker0"]),
        "The x of worker 0 cut into num_workers parts along axis, of which worker i gets part i. In \
         a single process: the first part.",
        &[X, WORKERS, optional("axis", Kind::Dim, Literal::Int(0))],
        &[ONE_WORKER, AXIS, DIVIDES],
        Traps::Never,
        (collective::infer_scatter, collective::eval_scatter),
    ),
];
