//! The meaning of expressions over tensors as index functions, and proofs that two are equal for all
//! shapes.
//!
//! A tensor denotes its extents and, for an index in them, a term over elements of the operands
//! ([`term`]). The [`meanings`] of operators are said once. Two terms are equal when their [`normal`] forms
//! are: what is known of functions ([`functions`], [`laws`], [`reals`]) and reductions ([`folds`], [`indicators`]) is applied, and
//! indices are compared by the prover of dims. [`theorem`] puts this together for a rule.

mod basis;
pub(crate) mod comparison;
pub(crate) mod composed;
mod cuts;
pub(crate) mod denoter;
mod equality;
mod folds;
pub(crate) mod fuel;
mod functions;
mod indicators;
mod interning;
mod laws;
pub(crate) mod linear;
mod meanings;
pub(crate) mod names;
mod normal;
pub(crate) mod operands;
mod order;
mod poly;
pub(crate) mod program;
pub(crate) mod ranges;
mod ratio;
mod reals;
pub(crate) mod stepwise;
pub(crate) mod term;
pub(crate) mod theorem;
