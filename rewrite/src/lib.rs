//! Floor 3: transformations of modules. A [`pass`] takes a well-formed module to one of the same
//! meaning for all shapes; the [`pipeline`] is the list of them, checks the module after each, and
//! [`verify`] holds what came out against what went in, in the interpreter.

pub mod accounts;
pub mod adjoints;
pub mod blocks;
pub mod canonical;
mod casts;
pub mod classes;
pub mod constraint_check;
pub mod dims;
pub mod fallback;
pub mod finite_differences;
mod guarded;
pub mod inlined;
pub mod names;
pub mod outline;
pub mod pass;
pub mod pass_names;
pub mod passes;
pub mod pipeline;
pub mod precision;
pub mod reached;
pub mod references;
pub mod saturation;
pub mod verify;

pub use in_place::dps_arguments;

mod in_place;
mod known;
mod matching;
mod maybe_uninit;
mod substitute;
pub mod tir_call;
mod trap_free;
mod written;
