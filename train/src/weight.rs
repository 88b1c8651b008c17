//! A weight of a training run, with the state that the optimizer has for it.

use crate::config::{Config, ConfigError};
use crate::error::TrainError;
use crate::held::Held;
use crate::optimizer::Optimizer;
use crate::tensors::first_not_finite;
use relax_semantics::tensor::Tensor;
use relax_syntax::Name;
use relax_syntax::dtype::DType;
use std::collections::BTreeMap;

/// A weight in the dtype of the optimizer, as the vector of its elements.
pub(crate) struct Weight {
    pub(crate) name: Name,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    /// The weight, then its state; empty after an update that failed, which may have overwritten them.
    held: Vec<Held>,
}

impl Weight {
    pub(crate) fn new(
        name: Name,
        value: &Tensor,
        optimizer: &Optimizer,
        config: &Config,
    ) -> Result<Self, TrainError> {
        let (dtype, shape, kept) = (value.dtype(), value.shape().to_vec(), optimizer.dtype);
        if kept.size() < dtype.size() {
            let message = format!(
                "the optimizer computes in {kept}, in which the weight `{name}` of {dtype} would lose digits"
            );
            return Err(ConfigError::new(config.optimizer.name.span, message).into());
        }
        if let Some(why) = first_not_finite(value) {
            return Err(TrainError::Input(format!("the weight `{name}` begins wrong: {why}")));
        }
        let held = optimizer.begin(value.reshaped(&[value.len()]).cast(kept))?;
        Ok(Self { name, dtype, shape, held })
    }

    /// Whether an update that failed left nothing.
    pub(crate) fn is_lost(&self) -> bool {
        self.held.is_empty()
    }

    /// The vectors of a checkpoint in the place of those that are there.
    pub(crate) fn restore(&mut self, held: Vec<Held>) {
        self.held = held;
    }

    /// As the program takes it, rounded once; in the same memory where it has the dtype of the program.
    pub(crate) fn for_program(&self, optimizer: &Optimizer) -> Result<Held, TrainError> {
        let value = &self.held[0];
        if value.dtype() == self.dtype {
            return Ok(value.viewed(&self.shape));
        }
        optimizer.hold(value.tensor().cast(self.dtype).reshaped(&self.shape))
    }

    /// Takes a step. An error leaves nothing of the weight.
    pub(crate) fn update(
        &mut self,
        optimizer: &Optimizer,
        (step, update, rate): (u64, u64, f64),
        gradient: Tensor,
    ) -> Result<(), TrainError> {
        let held =
            optimizer.step((step, update, rate), std::mem::take(&mut self.held), gradient)?;
        for vector in &held {
            if let Some(why) = vector.first_not_finite(&self.shape) {
                let what = format!("the optimizer's result for `{}`: {why}", self.name);
                return Err(TrainError::NotFinite { step, what });
            }
        }
        self.held = held;
        Ok(())
    }

    /// Adds the tensors of a checkpoint by their names there.
    pub(crate) fn save(&self, optimizer: &Optimizer, tensors: &mut BTreeMap<String, Tensor>) {
        let names = self.names(optimizer);
        for (name, vector) in names.into_iter().zip(&self.held) {
            tensors.insert(name, vector.tensor().reshaped(&self.shape));
        }
        if self.dtype != optimizer.dtype {
            let rounded = self.held[0].tensor().cast(self.dtype).reshaped(&self.shape);
            tensors.insert(self.name.to_string(), rounded);
        }
    }

    /// The names of the weight in the dtype of the optimizer, and of its state, in a checkpoint.
    pub(crate) fn names(&self, optimizer: &Optimizer) -> Vec<String> {
        let own = match self.dtype == optimizer.dtype {
            true => self.name.to_string(),
            false => format!("master.{}", self.name),
        };
        let state = |state: &Name| format!("optimizer.{state}.{}", self.name);
        std::iter::once(own).chain(optimizer.state.iter().map(state)).collect()
    }
}
