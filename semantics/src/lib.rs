//! Floor 1: what programs mean. Values, the operator table, deduction, well-formedness, and the
//! reference interpreter, which *is* the meaning.
//!
//! Nothing here asks a prover at run time: there every dim is a number. At compile time questions on
//! dims go through the port [`relax_syntax::facts::Facts`].

pub mod check;
pub mod concrete;
pub mod formula;
pub mod interp;
pub mod library;
pub mod memory;
pub mod ops;
pub mod philox;
pub mod random;
pub mod ranks;
pub mod round;
pub mod scalar;
pub mod show;
pub mod stop;
pub mod tensor;
pub mod tir;
pub mod traps;
pub mod value;
