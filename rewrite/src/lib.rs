//! Floor 3: transformations of modules. A [`pass`] takes a well-formed module to one of the same
//! meaning for all shapes; the [`pipeline`] is the list of them, checks the module after each, and
//! [`verify`] holds what came out against what went in, in the interpreter.

pub mod blocks;
pub mod classes;
pub mod dims;
mod guarded;
pub mod names;
pub mod outline;
pub mod pass;
pub mod passes;
pub mod patterns;
pub mod pipeline;
pub mod precision;
pub mod references;
pub mod saturation;
pub mod verify;
pub mod workspaces;

pub use in_place::dps_arguments;
pub use programs::barriers;
pub use programs::canonical;
pub use programs::launches;
pub use programs::number::renumber_program;
pub use programs::products;
pub use programs::ranges;
pub use programs::total;
pub use programs::walk;
pub use programs::warps;
pub use programs::within;

mod in_place;
pub mod kernels;
mod known;
mod matching;
mod maybe_uninit;
mod programs;
mod substitute;
mod tir_call;
mod trap_free;
