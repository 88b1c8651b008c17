//! The model: its program, its weights, and one run of it per batch.

use crate::tokens::Batch;
use relax_program::externals::constants;
use relax_program::frontend::{Program, RunOptions, run};
use relax_program::tensor_files::Weights;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::span::Source;
use std::path::Path;
use std::sync::Arc;

/// The program is part of the command, so that it runs from any folder.
const PROGRAM: &str = include_str!("../../../corpus/models/minilm.rx");

/// A checked program with its weights.
pub struct Encoder {
    program: Program,
    options: RunOptions,
}

impl Encoder {
    /// Reads the weights and holds them against what the program asks for.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged, or lacks a tensor; a sentence for the user.
    pub fn load(weights: &Path) -> Result<Self, String> {
        let program = Program::load(Source::new("minilm.rx", PROGRAM));
        if let Some(first) = program.diagnostics.first() {
            return Err(format!("minilm.rx: {}: {}", first.code, first.message));
        }
        let externals = Arc::new(constants(&program.module, &Weights::open(weights)?)?);
        let options = RunOptions { externals, ..RunOptions::default() };
        Ok(Self { program, options })
    }

    /// The embeddings of a batch: one row of 384 a sentence, each of length 1.
    ///
    /// # Errors
    /// What stopped the program: an id outside of the vocabulary, more than 512 tokens, memory.
    pub fn embed(&self, batch: &Batch) -> Result<Tensor, String> {
        let arguments = vec![Value::Tensor(batch.ids.clone()), Value::Tensor(batch.mask.clone())];
        let ran = run(&self.program.module, "main", arguments, &self.options);
        match ran.result {
            Ok(Value::Tensor(embeddings)) => Ok(embeddings),
            Ok(other) => Err(format!("minilm.rx gave {}, expected a tensor", other.kind())),
            Err(stop) => Err(format!("minilm.rx stopped: {stop}")),
        }
    }
}
