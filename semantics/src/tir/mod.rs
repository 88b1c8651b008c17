//! Tensor programs: static checks and the reference interpreter (`LANGUAGE.md` §4).
//!
//! A program is checked ([`check`]), compiled to a flat list of register operations with explicit
//! jumps ([`Compiled`]), and run on tensors. The flat form is quick, and it makes a thread of
//! execution a value (a program counter and registers), which barriers need.
//!
//! Meaning, where the language reference leaves a choice:
//! - Order is sequential program order for every kind of loop, with one exception: the iterations
//!   of a nest of `threadIdx` loops that contains a barrier run as threads, phase by phase: each
//!   runs, in order of iteration, up to its next barrier, before the first goes on.
//! - Index arithmetic (i64 from loop variables, dims, parameters and literals alone) is checked:
//!   `tir/overflow`. Integers that come from memory wrap in their width, as those of operators do.
//! - `init` of a block runs when every reduction axis is at its first value. Without explicit axes
//!   the axes are the variables of the loops around the block that occur in it, also by way of
//!   scalars computed from them; one that occurs in no index of a store is a reduction axis.
//! - `parallel`, `vectorized`, `thread_binding` and `shard` iterations may run at the same time:
//!   [`Mode::LockStep`] reports two of them that touch one element, one writing, with no barrier in
//!   between: `tir/race`.

mod axes;
mod bind;
mod check;
mod code;
pub mod codes;
mod compile;
mod compile_expr;
mod fibers;
mod floats;
mod kernels;
mod machine;
mod races;
pub mod ranges;
mod scalar;
mod storage;
pub mod total;
mod typed;
mod typing;
pub mod walk;

pub use axes::{Sources, Vars, reductions};
pub use check::check;
pub use codes::CODES;
pub use compile::Compiled;
pub use typed::Typing;

use crate::ops::Limits;
use crate::stop::Stop;
use crate::tensor::Tensor;
use relax_syntax::ir::TensorProgram;

/// What a run watches for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The meaning of the program.
    #[default]
    Sequential,
    /// The same, and data races between iterations that may run at the same time are traps.
    LockStep,
}

/// How to run a program.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Steps and bytes. A step is a store, a branch, an allocation or an iteration of a loop; the
    /// buffers allocated at one time together take at most the bytes of one tensor.
    pub limits: Limits,
    /// What to watch for.
    pub mode: Mode,
}

/// Checks, compiles and runs a program: `buffers` are its inputs, then the initial contents of its
/// outputs ([`Tensor::undefined`] for a fresh one), `scalars` its other parameters, each kind in the
/// order of the parameters. Gives every parameter buffer as the run left it.
///
/// # Errors
/// Traps; `Exhausted`; `Unsupported` for an external or ill-formed program.
pub fn run(
    program: &TensorProgram,
    buffers: Vec<Tensor>,
    scalars: &[i64],
    options: &Options,
) -> Result<Vec<Tensor>, Stop> {
    let compiled = Compiled::new(program).map_err(|diagnostics| {
        let first = diagnostics.first().map_or(String::new(), |found| found.message.clone());
        Stop::Unsupported(format!("`{}` is not well-formed: {first}", program.name))
    })?;
    let mut steps = options.limits.steps;
    compiled.run(buffers, scalars, options, &mut steps)
}

#[cfg(test)]
mod tests;
