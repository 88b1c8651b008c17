//! Floor 7: training of programs with dynamic shapes. A [`Config`] names a program with a scalar loss, an optimizer, data and a
//! folder for checkpoints. A [`Session`] compiles the adjoint of the program and the optimizer once for all shapes, and takes
//! steps. Equal configurations give equal bytes, also when a run is interrupted and resumed.

mod checkpoint;
mod config;
mod data;
mod engine;
mod error;
mod gradient;
mod held;
mod initial;
mod memory;
mod optimizer;
mod random;
mod recomputation;
mod run;
mod scaling;
mod schedule;
mod session;
mod tensors;
mod weight;

pub use checkpoint::checkpoints;
pub use config::{
    CheckpointConfig, Config, ConfigError, Cut, DataConfig, DynamicScale, LossScale, MemoryConfig,
    MixedConfig, OptimizerConfig, Placed, RandomConfig, Settings,
};
pub use engine::Environment;
pub use error::TrainError;
pub use gradient::differentiated;
pub use initial::Initial;
pub use recomputation::{Budget, BudgetError, MemoryPlan, Recomputing, differentiated_within};
pub use run::{Ended, last_checkpoint, refuse_checkpoints};
pub use schedule::{Schedule, Shape};
pub use session::{Session, Step};
