//! Tensor programs as passes rewrite them: part by part ([`walk`]), with the numbering of their text
//! ([`number`]), up to names ([`canonical`]), what is known of their indices ([`ranges`]),
//! and which expressions never stop a run ([`total`]).

pub mod canonical;
pub(crate) mod number;
pub mod ranges;
pub mod total;
pub mod walk;
