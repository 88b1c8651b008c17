//! One file a pass; [`crate::pipeline`] lists them in order.

pub mod alter_op_impl;
pub mod annotate_tir_op_pattern;
pub mod bind_params;
pub mod bubble_up_slices;
pub mod canonicalize_bindings;
pub mod combine_parallel_matmul;
pub mod convert_layout;
pub mod convert_to_dataflow;
pub mod decompose_batch_norm;
pub mod decompose_ops;
pub mod drop_unit_loops;
pub mod eliminate_broadcasts;
pub mod eliminate_checks;
pub mod eliminate_common_subexpr;
pub mod eliminate_dead_code;
pub mod erase_sharding;
pub mod expand_libraries;
pub mod fold_constant;
pub mod fuse_ops;
pub mod fuse_ops_by_pattern;
pub mod fuse_siblings;
pub mod fuse_tir;
pub mod gradient;
pub mod guard_constraints;
pub mod guard_libraries;
pub mod inline_buffers;
pub mod inline_private_functions;
pub mod legalize_ops;
pub mod lift_lambdas;
pub mod lift_transform_params;
pub mod lower_to_library;
pub mod merge_composite_functions;
pub mod move_reshapes;
pub mod name_dims;
pub mod narrow_activations;
pub mod normalize;
pub mod outline_blocks;
pub mod rewrite_dataflow_reshape;
pub mod round_activations;
pub mod run_codegen;
pub mod saturate;
pub mod split_call_tir_by_pattern;
pub mod stitch_products;
pub mod stitch_rows;
pub mod to_mixed_precision;
pub mod widen_halves;

use relax_syntax::ir::{Definition, Function, Module};

/// The module with each graph function that has a body transformed.
pub(crate) fn map_functions(module: &Module, map: &mut dyn FnMut(&Function) -> Function) -> Module {
    let definitions = module.definitions.iter().map(|definition| match definition {
        Definition::Graph(function) if function.lambda.body.is_some() => {
            Definition::Graph(map(function))
        }
        other => other.clone(),
    });
    Module { attrs: module.attrs.clone(), definitions: definitions.collect() }
}
