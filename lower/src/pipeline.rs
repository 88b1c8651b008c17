//! The stages of P2, after those of `relax-rewrite`.

use crate::passes::{attach_global_symbol, lower_builtins, lower_shapes, to_non_dataflow};
use relax_rewrite::pass::Pass;
use relax_rewrite::pipeline::{
    INGESTION, OPTIMIZATION, OPTIONAL as REWRITES, Pipeline, Stage, Step,
};
use relax_semantics::check::Phase;

/// From text to what a virtual machine runs.
pub static PIPELINE: Pipeline = Pipeline {
    stages: &[&INGESTION, &OPTIMIZATION, &LOWERED_BUILTINS],
    optional: &[REWRITES, OPTIONAL],
};

/// P2.3.
pub static LOWERED_BUILTINS: Stage = Stage {
    phase: Phase::P23,
    steps: &[
        Step::Once(&lower_shapes::PASS),
        Step::Once(&lower_builtins::PASS),
        Step::Once(&attach_global_symbol::PASS),
    ],
};

/// Passes of this crate that no stage runs.
pub static OPTIONAL: &[&Pass] = &[&to_non_dataflow::PASS];
