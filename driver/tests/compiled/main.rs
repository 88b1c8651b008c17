//! Programs that other passes make, as machine code: gradients, and the local programs of distributed ones.

mod by_hand;
#[cfg(feature = "cuda")]
mod devices;
#[cfg(feature = "cuda")]
#[path = "../../../backends/cuda/tests/emulator/mod.rs"]
mod emulator;
mod gradients;
#[path = "../../../sharding/tests/spmd/pipelines.rs"]
mod pipelines;
#[path = "../../../sharding/tests/spmd/programs.rs"]
#[expect(dead_code, reason = "a case by its name is for other tests")]
mod programs;
mod ranks;
