//! The stages of P2, after those of `relax-rewrite`.

use crate::passes::{lower_call_tir, lower_operators, to_non_dataflow};
use relax_rewrite::pass::Pass;
use relax_rewrite::pipeline::{INGESTION, OPTIMIZATION, OPTIONAL as REWRITES, Pipeline};

/// From text to what a virtual machine runs.
pub static PIPELINE: Pipeline =
    Pipeline { stages: &[&INGESTION, &OPTIMIZATION], optional: &[REWRITES, OPTIONAL] };

/// Passes of this crate that no stage runs.
pub static OPTIONAL: &[&Pass] =
    &[&to_non_dataflow::PASS, &lower_operators::PASS, &lower_call_tir::PASS];
