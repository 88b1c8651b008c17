//! Compiled kernels against the interpreter.

mod cases;
mod corpus;
mod functions;
mod native;
mod products;
mod tiles;
