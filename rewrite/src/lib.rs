//! Floor 3: transformations of modules. A [`pass`] takes a well-formed module to one of the same
//! meaning for all shapes; the [`pipeline`] is the list of them, checks the module after each, and
//! [`verify`] holds what came out against what went in, in the interpreter.

pub mod dims;
pub mod pass;
pub mod passes;
pub mod patterns;
pub mod pipeline;
pub mod rules;
pub mod verify;

pub use mutated::written;
pub use programs::canonical;
pub use programs::number::renumber_program;

mod blocks;
mod denotation;
pub mod kernels;
mod known;
mod matching;
mod mutated;
mod names;
mod outline;
mod programs;
mod references;
mod substitute;
mod tir_call;
mod totality;
mod unwritten;
