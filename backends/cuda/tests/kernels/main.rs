//! The text for CUDA without a device: NVRTC compiles it, and the processor runs it.

#[path = "../../../cpu/tests/kernels/cases.rs"]
mod cases;
mod compile;
mod run;
mod shim;

use relax_emit::cuda::{CudaSource, print_cuda};
use relax_lower::gpu::{Limits, schedule};
use relax_symbolic::Prover;
use relax_syntax::ir::{Definition, Module, TensorProgram};

/// The text of some programs as they are run on a device: with loops bound to blocks and threads.
fn printed(programs: &[TensorProgram], limits: Limits) -> CudaSource {
    let scheduled = |program: &TensorProgram| {
        let scheduled = schedule(program, &mut Prover::new(), limits);
        Definition::Tensor(scheduled.unwrap_or_else(|| program.clone()))
    };
    let definitions = programs.iter().map(scheduled).collect();
    print_cuda(&Module { definitions, ..Module::default() }, &mut Prover::new(), None)
}
