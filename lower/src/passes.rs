//! One file each.

pub mod attach_global_symbol;
pub mod block_rows;
pub mod fuse_loops;
pub mod lift_workspaces;
pub mod lower_builtins;
pub mod lower_call_tir;
pub mod lower_operators;
pub mod lower_shapes;
pub mod lower_views;
pub mod narrow_floats;
pub mod narrow_sums;
pub mod pack_weights;
pub mod parallelize_loops;
pub mod plan_memory;
pub mod rewrite_cuda_graph;
pub mod schedule_gpu;
pub mod schedule_gpu_freely;
pub mod schedule_tensor_cores;
pub mod to_non_dataflow;
pub mod update_donated;
pub mod version_loops;
