//! Floor 0: runs compiled modules. There is no compiler in it, and it knows no other crate of the project,
//! so that a program that embeds it carries nothing else.
//!
//! A module file (`.rxm`, [`file`]) holds register code ([`program`], [`instruction`]), the signatures of
//! kernels and their machine code, constants, and the source for messages. [`Module`] is such a file,
//! ready to run: [`Module::function`] gives what it offers, [`Callable::call`] calls it. The machine
//! does what the interpreter of the language does with the same program, and stops with the same
//! traps; tensors are computed by kernels ([`Kernels`]), everything else by name by functions that the
//! embedder registers.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use relax_runtime::file::Image;
//! use relax_runtime::instruction::{Instruction, Operand};
//! use relax_runtime::program::{Function, Program};
//! use relax_runtime::{Kernels, KernelTrap, Module, Span, Tensor, TensorArg, Value};
//!
//! struct NoKernels;
//! impl Kernels for NoKernels {
//!     fn call(&self, _: usize, _: &[TensorArg<'_>], _: &[i64]) -> Result<(), KernelTrap> {
//!         Ok(())
//!     }
//! }
//!
//! let identity = Function {
//!     name: "main".to_owned(),
//!     symbol: Some("main".to_owned()),
//!     params: 1,
//!     donated: Vec::new(),
//!     registers: 1,
//!     code: vec![Instruction::Return(Operand::Register(0))],
//!     spans: vec![Span::default()],
//!     span: Span::default(),
//! };
//! let program = Program { functions: vec![identity], ..Program::default() };
//! let bytes = Image { program, ..Image::default() }.to_bytes();
//!
//! let module = Module::new(Image::from_bytes(&bytes)?, Box::new(NoKernels))?;
//! let main = module.function("main").ok_or("no function `main`")?;
//! let x = Tensor::from_f32(&[2], &[1.0, 2.0])?;
//! let Value::Tensor(y) = main.call(&[Value::Tensor(x)])? else { return Err("no tensor".into()) };
//! assert_eq!(y.to_f32(), Some(vec![1.0, 2.0]));
//! # Ok(())
//! # }
//! ```

mod block;
mod dtype;
pub mod file;
pub mod instruction;
mod kernels;
mod mapping;
mod mirrors;
mod module;
mod native;
mod notes;
mod object_file;
mod observer;
pub mod out_of_memory;
pub mod program;
mod signature;
mod steps;
mod stop;
mod target;
mod tensor;
mod tensor_pool;
mod validate;
mod value;
mod vm;
mod workers;

pub use block::ALIGNMENT;
pub use dtype::{DType, dense_bytes};
pub use kernels::{KernelTrap, Kernels, Memory, TensorArg};
pub use mirrors::{Mirror, Mirrors};
pub use module::{Callable, HostCall, HostFunction, Module};
pub use observer::{Callee, ObservedCall, Observer};
pub use signature::Parameter;
pub use steps::StepsLeft;
pub use stop::{Span, Stop, Stopped, Trap};
pub use target::{check_target, host_target};
pub use tensor::Tensor;
pub use tensor_pool::{Scratch, TensorPool};
pub use value::{Closure, Machine, Number, Output, Promise, Tuple, Value};
pub use vm::Limits;
pub use vm::resident::{Blank, Operand, Resident, ResidentCall, ResidentFunction};
pub use workers::count as threads;
