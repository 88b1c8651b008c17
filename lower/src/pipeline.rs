//! The stages of P2, after those of `relax-rewrite`.

use crate::passes::{
    attach_global_symbol, block_rows, fuse_loops, lift_workspaces, lower_builtins, lower_call_tir,
    lower_operators, lower_shapes, lower_views, narrow_floats, narrow_sums, pack_weights,
    parallelize_loops, plan_memory, rewrite_cuda_graph, schedule_gpu, schedule_gpu_freely,
    schedule_tensor_cores, to_non_dataflow, update_donated, version_loops,
};
use relax_rewrite::pass::Pass;
use relax_rewrite::passes::{
    annotate_tir_op_pattern, canonicalize_bindings, drop_unit_loops, eliminate_dead_code,
    erase_sharding, expand_libraries, fuse_ops, fuse_siblings, fuse_tir, guard_constraints,
    inline_buffers, legalize_ops, move_reshapes, name_dims, stitch_products, stitch_rows,
    widen_halves,
};
use relax_rewrite::pipeline::{
    INGESTION, OPTIMIZATION, OPTIMIZATION_FAST, OPTIONAL as REWRITES, Pipeline, Stage, Step,
};
use relax_semantics::check::Phase;

/// From text to what a virtual machine runs.
pub static PIPELINE: Pipeline = Pipeline {
    stages: &[&INGESTION, &OPTIMIZATION, &EARLY_BUILD, &TARGET, &LOWERED_BUILTINS],
    optional: &[REWRITES, OPTIONAL],
};

/// The same for devices that are slow in f64, where float sums are reassociated: f32 is computed in f32.
pub static NARROW: Pipeline = Pipeline {
    stages: &[&INGESTION, &OPTIMIZATION, &EARLY_BUILD_NARROW, &TARGET, &LOWERED_BUILTINS],
    optional: &[REWRITES, OPTIONAL],
};

/// The same where float sums are reassociated: sums of products of f32 are formed in f32.
pub static FAST: Pipeline = Pipeline {
    stages: &[&INGESTION, &OPTIMIZATION_FAST, &EARLY_BUILD_FAST, &TARGET, &LOWERED_BUILTINS],
    optional: &[REWRITES, OPTIONAL],
};

/// Programs for one device, of operators alone: there are no layouts, nor functions of libraries that the target lacks.
const OPERATORS: &[Step] =
    &[Step::Once(&erase_sharding::PASS), Step::Once(&expand_libraries::PASS)];

/// Operators become tensor programs, which are fused.
const PROGRAMS: &[Step] = &[
    Step::Once(&guard_constraints::PASS),
    Step::Fixpoint(&[&name_dims::PASS]),
    Step::Once(&move_reshapes::PASS),
    Step::Once(&lower_views::PASS),
    Step::Once(&legalize_ops::PASS),
    Step::Once(&annotate_tir_op_pattern::PASS),
    Step::Once(&fuse_ops::PASS),
    Step::Once(&fuse_tir::PASS),
    Step::Once(&drop_unit_loops::PASS),
    Step::Once(&inline_buffers::PASS),
    Step::Once(&stitch_rows::PASS),
    Step::Once(&fuse_tir::PASS),
    Step::Once(&inline_buffers::PASS),
    Step::Once(&stitch_products::PASS),
    Step::Once(&fuse_tir::PASS),
    Step::Once(&fuse_siblings::PASS),
    Step::Once(&fuse_tir::PASS),
    Step::Once(&eliminate_dead_code::PASS),
    Step::Once(&block_rows::PASS),
    Step::Once(&lower_operators::PASS),
    Step::Once(&to_non_dataflow::PASS),
];

/// Memory of tensor programs is allocated around them.
const WORKSPACES: &[Step] = &[Step::Once(&lift_workspaces::PASS)];

/// Memory becomes explicit.
const MEMORY: &[Step] = &[
    Step::Once(&update_donated::PASS),
    Step::Once(&lower_call_tir::PASS),
    Step::Once(&canonicalize_bindings::PASS),
    Step::Once(&plan_memory::PASS),
];

/// P2.1.
pub static EARLY_BUILD: Stage =
    Stage { phase: Phase::P21, steps: &[OPERATORS, PROGRAMS, WORKSPACES, MEMORY] };

/// The same where sums of f32 may be formed in f32.
static EARLY_BUILD_FAST: Stage = Stage {
    phase: Phase::P21,
    steps: &[
        OPERATORS,
        &[Step::Once(&widen_halves::PASS)],
        PROGRAMS,
        &[Step::Once(&narrow_sums::PASS)],
        WORKSPACES,
        MEMORY,
    ],
};

/// The same for devices that are slow in f64.
static EARLY_BUILD_NARROW: Stage = Stage {
    phase: Phase::P21,
    steps: &[OPERATORS, PROGRAMS, &[Step::Once(&narrow_floats::PASS)], WORKSPACES, MEMORY],
};

/// What is fused, for costs of parts of programs.
pub static FUSION: Pipeline = Pipeline {
    stages: &[
        &INGESTION,
        &OPTIMIZATION,
        &Stage { phase: Phase::P21, steps: &[OPERATORS, PROGRAMS, WORKSPACES] },
    ],
    optional: &[],
};

/// The same where float sums are reassociated on the processor.
pub static FUSION_FAST: Pipeline = Pipeline {
    stages: &[
        &INGESTION,
        &OPTIMIZATION_FAST,
        &Stage {
            phase: Phase::P21,
            steps: &[OPERATORS, &[Step::Once(&widen_halves::PASS)], PROGRAMS, WORKSPACES],
        },
    ],
    optional: &[],
};

/// P2.2: what only some targets have.
pub static TARGET: Stage =
    Stage { phase: Phase::P22, steps: &[&[Step::Once(&rewrite_cuda_graph::PASS)]] };

/// P2.3.
pub static LOWERED_BUILTINS: Stage = Stage {
    phase: Phase::P23,
    steps: &[&[
        Step::Once(&lower_shapes::PASS),
        Step::Once(&lower_builtins::PASS),
        Step::Once(&attach_global_symbol::PASS),
    ]],
};

/// Passes of this crate that no stage runs.
pub static OPTIONAL: &[&Pass] = &[
    &fuse_loops::PASS,
    &narrow_floats::PASS,
    &narrow_sums::PASS,
    &pack_weights::PASS,
    &parallelize_loops::PASS,
    &schedule_gpu::PASS,
    &schedule_gpu_freely::PASS,
    &schedule_tensor_cores::PASS,
    &version_loops::PASS,
];
