//! Tensor programs as passes rewrite them: part by part ([`walk`]), with the numbering of their text
//! ([`number`]), up to names ([`canonical`]), and what is known of their indices ([`ranges`]).

pub(crate) mod canonical;
pub(crate) mod number;
pub(crate) mod ranges;
pub(crate) mod walk;
