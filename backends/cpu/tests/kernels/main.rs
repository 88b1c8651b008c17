//! Compiled kernels against the interpreter.

mod cases;
mod corpus;
mod native;
mod products;
