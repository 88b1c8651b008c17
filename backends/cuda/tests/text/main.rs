//! The text for CUDA without a device: NVRTC compiles it, and the processor runs it.

#[path = "../../../cpu/tests/kernels/cases.rs"]
mod cases;
mod compile;
mod run;
mod shim;

use relax_emit::cuda::{CudaSource, print_cuda};
use relax_lower::gpu::{Limits, Order, schedule_in};
use relax_symbolic::Prover;
use relax_syntax::ir::{Definition, Module, TensorProgram};

/// Programs as they are run on a device: with loops bound to blocks and threads.
fn scheduled(programs: &[TensorProgram], limits: Limits, order: Order) -> Vec<TensorProgram> {
    let one = |program: &TensorProgram| {
        let bound = schedule_in(program, &mut Prover::new(), limits, order);
        bound.unwrap_or_else(|| program.clone())
    };
    programs.iter().map(one).collect()
}

/// The text of some programs.
fn printed(programs: &[TensorProgram]) -> CudaSource {
    let definitions = programs.iter().cloned().map(Definition::Tensor).collect();
    print_cuda(&Module { definitions, ..Module::default() }, &mut Prover::new(), None)
}
