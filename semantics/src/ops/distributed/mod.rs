//! Operators of programs that run on several workers, and what they mean in a single process.
//!
//! All workers run the same program. In a single process there is one that stands for all: it is
//! worker 0, and what others would send is what it has itself. Operators that name the number of
//! workers count that many such copies; the others see a world of one.
//!
//! Operators called `spmd.…` are those of one rank in a run by all ranks ([`crate::ranks`]).

mod collective;
mod local_view;
mod passed;
mod placed;
mod ranks;
mod sharding;

pub use passed::{
    Combined, Described, Movement, Passed, collective as collective_of_ranks, is_of_ranks,
    own_rows, without_rows,
};
pub use placed::{Placed, placed, says_layout};

use super::{Constraint, Effect, Literal, Traps, constraint, optional, required};
use super::{Eval, Evaluate, Family, Infer, Kind, Machine, Operator, Param, Reject};
use crate::ops::{Programs, programs};
use crate::stop::Stop;
use crate::value::Value;
use relax_syntax::annotation::Annotation;

/// The parameter that lets a rank go on until it uses what a collective gives.
pub const ASYNC: &str = "async_op";

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
const MESH_DIM: Param = required("mesh_dim", Kind::Dim);
const RANK: Param = required("rank", Kind::Dim);
const SHARD_AXIS: Param = optional("axis", Kind::Dim, Literal::Int(0));
const EXTENT: Param = required("extent", Kind::Dim);
const GROUP: Constraint = constraint(
    "C1",
    "mesh_dim is at least 0, num_workers at least 1, and rank is in 0..num_workers",
);
const RANK_AXIS: Constraint = constraint("C2", "the axes are in -rank(x)..rank(x), and differ");
const IS_SHARD: Constraint =
    constraint("C3", "the dim of x is that of the shard of this rank of extent rows");
const ALIKE: Constraint =
    constraint("C4", "all ranks of the group pass the same dtype and the same other dims");
const ASYNC_OP: Param = optional(ASYNC, Kind::Bool, Literal::Bool(false));
const SOURCE: Param = required("source", Kind::Dim);
const TARGET: Param = required("target", Kind::Dim);
const IS_OF_SOURCE: Constraint = constraint(
    "C3",
    "extent is not negative, and dim 0 of x is extent on rank source and 0 elsewhere; a scalar is on all ranks, and counts on rank source",
);
const RANK_REDUCTION: &str = "op_type is sum, max or min, and x holds numbers";
const LAYOUT: &[Constraint] = &[
    constraint(
        "C1",
        "placement is a list of `R`, of `S[d]`, where d is a dim of the tensor, of `O[k]`, and of `P(sum)`, `P(max)`, `P(min)`",
    ),
    constraint("C2", "device_mesh is not empty"),
];

type CollectiveRow = (
    fn(&mut Infer) -> Result<Annotation, Reject>,
    fn(&Eval, &mut dyn Machine) -> Result<Value, Stop>,
);

/// A row whose evaluation takes part in a collective of ranks.
const fn collective(
    name: &'static str,
    doc: &'static str,
    params: &'static [Param],
    constraints: &'static [Constraint],
    (infer, eval): CollectiveRow,
) -> Operator {
    Operator {
        name,
        aliases: &[],
        family: Family::Distributed,
        doc,
        params,
        constraints,
        effect: Effect::Pure,
        traps: Traps::OnState,
        infer,
        program: ALL_RANKS,
        eval: Evaluate::Machine(eval),
    }
}

type Row =
    (fn(&mut Infer) -> Result<Annotation, Reject>, fn(&Eval) -> Result<Value, Stop>, Programs);

const ALL_RANKS: Programs =
    Programs::None("a rank passes other ranks whole tensors: whoever runs them does it");
const ERASED: Programs = Programs::None("`erase_sharding` puts what it gives in its place");

const fn row(
    names: (&'static str, &'static [&'static str]),
    doc: &'static str,
    params: &'static [Param],
    constraints: &'static [Constraint],
    traps: Traps,
    (infer, eval, program): Row,
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
        program,
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
        (
            collective::infer_all_to_all,
            collective::eval_all_to_all,
            Programs::Of(programs::distributed::all_to_all),
        ),
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
        (
            collective::infer_allgather,
            collective::eval_allgather,
            Programs::Of(programs::distributed::all_gather),
        ),
    ),
    row(
        ("allreduce", &["ccl.allreduce"]),
        "The x of all workers, reduced element by element: sum, prod, min, max or avg. In a single \
         process, where there is one: x.",
        &[X, OP_TYPE, IN_GROUP],
        &[constraint("C1", "op_type is sum, prod, min, max or avg")],
        Traps::Never,
        (collective::infer_allreduce, collective::eval_same, ERASED),
    ),
    row(
        ("annotate_sharding", &["dist.annotate_sharding"]),
        "The tensor unmodified, with the wish to lay it over the mesh so. As in TVM the annotation \
         stays what it was until the distribution is propagated.",
        &[INPUT, MESH, PLACEMENT],
        LAYOUT,
        Traps::Never,
        (sharding::infer_annotate, sharding::eval_same, ERASED),
    ),
    row(
        ("broadcast_from_worker0", &["ccl.broadcast_from_worker0"]),
        "The x of worker 0, on every worker. In a single process: x.",
        &[X],
        &[],
        Traps::Never,
        (collective::infer_same, collective::eval_same, ERASED),
    ),
    local_view::ROW,
    row(
        ("redistribute", &["dist.redistribute"]),
        "The same tensor, laid over the mesh in another way. TVM takes distributed tensors only; a \
         plain one counts as one that every worker has.",
        &[INPUT, MESH, PLACEMENT],
        LAYOUT,
        Traps::Never,
        (sharding::infer_redistribute, sharding::eval_same, ERASED),
    ),
    row(
        ("reduce_scatter", &["ccl.reduce_scatter"]),
        "The x of all workers reduced as by allreduce, of which worker i keeps part i along axis. \
         In a single process: num_workers copies of x reduced, the first part of it.",
        &[X, WORKERS, OP_TYPE, optional("axis", Kind::Dim, Literal::Int(0)), IN_GROUP],
        &[ONE_WORKER, AXIS, DIVIDES, constraint("C4", "op_type is sum, prod, min, max or avg")],
        Traps::Never,
        (
            collective::infer_reduce_scatter,
            collective::eval_reduce_scatter,
            Programs::Of(programs::distributed::reduce_scatter),
        ),
    ),
    row(
        ("scatter_from_worker0", &["ccl.scatter_from_worker0"]),
        "The x of worker 0 cut into num_workers parts along axis, of which worker i gets part i. In \
         a single process: the first part.",
        &[X, WORKERS, optional("axis", Kind::Dim, Literal::Int(0))],
        &[ONE_WORKER, AXIS, DIVIDES],
        Traps::Never,
        (
            collective::infer_scatter,
            collective::eval_scatter,
            Programs::Of(programs::distributed::scatter),
        ),
    ),
    collective(
        "spmd.all_gather",
        "The shards of all ranks of a group, one after the other along axis: the whole, of extent rows.",
        &[X, MESH, MESH_DIM, WORKERS, RANK, required("axis", Kind::Dim), EXTENT, ASYNC_OP],
        &[GROUP, RANK_AXIS, IS_SHARD, ALIKE],
        (ranks::infer_all_gather, ranks::eval_collective),
    ),
    collective(
        "spmd.all_reduce",
        "The x of all ranks of a group, reduced element by element in the order of the ranks.",
        &[X, MESH, MESH_DIM, WORKERS, RANK, OP_TYPE, ASYNC_OP],
        &[
            GROUP,
            constraint("C2", RANK_REDUCTION),
            constraint("C3", "all ranks of the group pass the same dtype and the same dims"),
        ],
        (ranks::infer_all_reduce, ranks::eval_collective),
    ),
    collective(
        "spmd.all_to_all",
        "Shards along another axis: every rank passes its shard along concat_axis of extent rows, cuts it along \
         split_axis, and gets its part of all shards, joined along concat_axis.",
        &[
            X,
            MESH,
            MESH_DIM,
            WORKERS,
            RANK,
            required("split_axis", Kind::Dim),
            required("concat_axis", Kind::Dim),
            EXTENT,
            ASYNC_OP,
        ],
        &[GROUP, RANK_AXIS, IS_SHARD, ALIKE],
        (ranks::infer_all_to_all, ranks::eval_collective),
    ),
    collective(
        "spmd.broadcast",
        "The x of rank source of a group, on every rank of it.",
        &[X, MESH, MESH_DIM, WORKERS, RANK, SOURCE, EXTENT, ASYNC_OP],
        &[GROUP, constraint("C2", "source is in 0..num_workers"), IS_OF_SOURCE, ALIKE],
        (ranks::infer_broadcast, ranks::eval_collective),
    ),
    row(
        ("spmd.only", &[]),
        "A tensor that every rank has, on rank target alone: elsewhere its dim 0 is 0. A scalar stays what it is. No \
         communication.",
        &[X, WORKERS, RANK, TARGET],
        &[
            constraint("C1", "num_workers is at least 1, and rank is in 0..num_workers"),
            constraint("C2", "target is in 0..num_workers"),
        ],
        Traps::Never,
        (ranks::infer_only, ranks::eval_alone, ALL_RANKS),
    ),
    row(
        ("spmd.own_shard", &[]),
        "The shard of a rank along axis of a tensor that the rank has whole: no communication.",
        &[X, WORKERS, RANK, SHARD_AXIS],
        &[
            constraint("C1", "num_workers is at least 1, and rank is in 0..num_workers"),
            constraint("C2", "axis is in -rank(x)..rank(x)"),
        ],
        Traps::Never,
        (ranks::infer_own_shard, ranks::eval_alone, ALL_RANKS),
    ),
    collective(
        "spmd.reduce_scatter",
        "As `spmd.all_reduce`, of which a rank keeps its shard along axis.",
        &[X, MESH, MESH_DIM, WORKERS, RANK, SHARD_AXIS, OP_TYPE, ASYNC_OP],
        &[
            GROUP,
            RANK_AXIS,
            constraint("C3", RANK_REDUCTION),
            constraint("C4", "all ranks of the group pass the same dtype and the same dims"),
        ],
        (ranks::infer_reduce_scatter, ranks::eval_collective),
    ),
    collective(
        "spmd.send",
        "The x of rank source of a group, on rank target of it, and nowhere else. These two wait for each other, and no other rank does.",
        &[X, MESH, MESH_DIM, WORKERS, RANK, SOURCE, TARGET, EXTENT, ASYNC_OP],
        &[
            GROUP,
            constraint("C2", "source and target are in 0..num_workers"),
            IS_OF_SOURCE,
            constraint(
                "C4",
                "the ranks source and target pass the same dtype and the same other dims",
            ),
        ],
        (ranks::infer_send, ranks::eval_collective),
    ),
];
