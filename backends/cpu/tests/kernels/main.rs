//! Compiled kernels against the interpreter.

mod cases;
mod corpus;
mod entries;
mod filled;
mod functions;
mod integers;
mod native;
mod probes;
mod products;
mod programs;
mod rounded;
mod tiles;
