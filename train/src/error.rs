//! Why training does not begin, or ends before its last step.

use crate::config::ConfigError;
use relax_driver::CompileError;
use relax_program::frontend::Program;
use relax_program::tensor_files::FileError;
use relax_rewrite::pipeline::Failed;
use relax_semantics::stop::Stop;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::span::Source;
use thiserror::Error;

/// Why training does not begin, or ends before its last step.
#[derive(Debug, Error)]
pub enum TrainError {
    /// A mistake in the configuration.
    #[error("{}", .0.message)]
    Config(ConfigError),
    /// A file, a tensor in it or an option that is wrong.
    #[error("{0}")]
    Input(String),
    /// A file that cannot be read, or reaches a limit.
    #[error("{0}")]
    File(FileError),
    /// The text of an optimizer is wrong; its diagnostics say how.
    #[error("{}: the optimizer has errors", .0.source.name)]
    Optimizer(Box<Program>),
    /// The program records a phase that cannot be differentiated.
    #[error("{}", .0.message)]
    Program(Box<Diagnostic>),
    /// The program has no gradient.
    #[error("the program cannot be differentiated: {0:?}")]
    Gradient(Box<Failed>),
    /// There is no code for a program.
    #[error("{error}")]
    Compile {
        /// The training step or the optimizer.
        program: Box<Program>,
        /// What is in the way.
        error: CompileError,
    },
    /// A program stopped.
    #[error("step {step}: {stop}")]
    Stopped {
        /// Counts from 1.
        step: u64,
        /// Of the program, or of the optimizer.
        text: Box<Source>,
        /// A trap, or a limit.
        stop: Stop,
    },
    /// A number is NaN or infinite.
    #[error("step {step}: {what}")]
    NotFinite {
        /// Counts from 1.
        step: u64,
        /// The tensor, the element and its value.
        what: String,
    },
}

impl From<ConfigError> for TrainError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<FileError> for TrainError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl From<Failed> for TrainError {
    fn from(failed: Failed) -> Self {
        Self::Gradient(Box::new(failed))
    }
}
