//! Compiled kernels against the interpreter.

mod batches;
mod cases;
mod corpus;
mod elements;
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
