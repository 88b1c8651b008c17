//! Tensor programs as passes rewrite them: with the numbering of their text ([`number`]), up to names
//! ([`canonical`]). How they are walked, what is known of their indices, and which expressions never stop a
//! run, is told in `relax_semantics::tir`, for those who check the passes as well.

pub mod barriers;
pub mod canonical;
pub mod launches;
pub(crate) mod number;
pub mod products;
pub mod warps;
pub mod within;

pub use relax_semantics::tir::{ranges, total, walk};
