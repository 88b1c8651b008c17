//! Floor 5: the device that every other one is held against. Kernels are run by the interpreter of tensor
//! programs, host functions by the reference library; so the virtual machine is tested without a
//! compiler, and with one what no kernel computes is computed here.

mod hosts;
mod kernels;
mod stops;
mod values;

pub use hosts::{Operators, Printed, register, register_with};
pub use kernels::ReferenceKernels;
pub use stops::{
    span as span_to_semantics, to_machine as stop_to_machine, to_semantics as stop_to_semantics,
};
pub use values::{dtype_to_semantics, to_machine, to_semantics};
