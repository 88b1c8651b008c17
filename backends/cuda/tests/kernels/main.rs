//! The text for CUDA without a device: NVRTC compiles it, and the processor runs it.

#[path = "../../../cpu/tests/kernels/cases.rs"]
mod cases;
mod compile;
mod run;
mod shim;

use relax_emit::cuda::{CudaSource, print_cuda};
use relax_symbolic::Prover;
use relax_syntax::ir::{Definition, Module, TensorProgram};

/// The text of some programs.
fn printed(programs: &[TensorProgram]) -> CudaSource {
    let definitions = programs.iter().cloned().map(Definition::Tensor).collect();
    print_cuda(&Module { definitions, ..Module::default() }, &mut Prover::new(), None)
}
