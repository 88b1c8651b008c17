//! Loss scaling: gradients are formed of the loss times a scale, so that those which 16 bits would round to 0 stay, and divided by it
//! in the dtype of the optimizer. A dynamic scale follows the rules of `torch.amp.GradScaler`.
//!
//! The loss, which is not scaled, distinguishes an overflow from a model that diverges: where it is finite and a gradient is not, the
//! scale was too great.

use crate::config::{DynamicScale, LossScale, MixedConfig};
use crate::error::TrainError;
use relax_rewrite::pass::Pass;
use relax_rewrite::passes::to_mixed_precision;
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::value::Value;
use relax_syntax::dtype::DType;

/// The scale of a run between two steps.
pub(crate) struct Scaling {
    rule: LossScale,
    /// Of the loss, in which the scale is passed.
    dtype: DType,
    state: ScalingState,
}

/// What of it changes in steps, and is in a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ScalingState {
    pub(crate) scale: f32,
    /// Steps without overflow in a row, since the scale last changed.
    pub(crate) good: u64,
    /// Steps that were skipped.
    pub(crate) skipped: u64,
}

impl Scaling {
    pub(crate) fn new(config: &MixedConfig, dtype: DType) -> Self {
        let scale = match config.scale {
            LossScale::Constant(scale) => scale,
            LossScale::Dynamic(DynamicScale { init, .. }) => init,
        };
        let state = ScalingState { scale, good: 0, skipped: 0 };
        Self { rule: config.scale, dtype, state }
    }

    pub(crate) fn state(&self) -> ScalingState {
        self.state
    }

    pub(crate) fn restore(&mut self, state: ScalingState) {
        self.state = state;
    }

    /// As the adjoint takes it.
    pub(crate) fn argument(&self) -> Value {
        let scale = Number::Float(f64::from(self.state.scale));
        Value::Tensor(Tensor::scalar(DType::F32, scale).cast(self.dtype))
    }

    /// A gradient without the scale, rounded once.
    pub(crate) fn unscaled(&self, gradient: &Tensor, dtype: DType) -> Tensor {
        match self.state.scale {
            1.0 => gradient.clone(),
            scale => Tensor::from_floats(dtype, gradient.to_floats() / f64::from(scale)),
        }
    }

    /// After a step whose gradients are finite. A scale that f32 cannot hold does not grow.
    pub(crate) fn grow(&mut self) {
        let LossScale::Dynamic(DynamicScale { growth, interval, .. }) = self.rule else { return };
        self.state.good += 1;
        if self.state.good >= interval {
            let grown = self.state.scale * growth;
            let scale = if grown.is_finite() { grown } else { self.state.scale };
            (self.state.scale, self.state.good) = (scale, 0);
        }
    }

    /// After a step that overflowed, for this reason: it is skipped.
    ///
    /// # Errors
    /// A constant scale, or one that falls below the normal numbers of f32: nothing is changed then.
    pub(crate) fn shrink(&mut self, step: u64, why: &str) -> Result<(), TrainError> {
        let scale = self.state.scale;
        let not_finite = |what: String| TrainError::NotFinite { step, what };
        let LossScale::Dynamic(DynamicScale { backoff, .. }) = self.rule else {
            return Err(not_finite(format!("{why}; the loss scale is {scale:e}")));
        };
        let shrunk = scale * backoff;
        if !shrunk.is_normal() {
            return Err(not_finite(format!(
                "{why}; the loss scale falls from {scale:e} to {shrunk:e}, below the normal numbers of f32"
            )));
        }
        self.state = ScalingState { scale: shrunk, good: 0, skipped: self.state.skipped + 1 };
        Ok(())
    }
}

/// The pass that rounds operands of products, those of the adjoint too.
pub(crate) fn pass(config: &MixedConfig) -> &'static Pass {
    match config.dtype.value {
        DType::BF16 => &to_mixed_precision::BRAIN,
        _ => &to_mixed_precision::PASS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Placed;
    use relax_syntax::span::Span;

    fn scaling(init: f32, interval: u64) -> Scaling {
        let rule = DynamicScale { init, growth: 2.0, backoff: 0.5, interval };
        let dtype = Placed { value: DType::F16, span: Span::new(0, 0) };
        Scaling::new(&MixedConfig { dtype, scale: LossScale::Dynamic(rule) }, DType::F32)
    }

    /// The scales of `torch.amp.GradScaler(init_scale=8, growth_interval=3)` for these overflows, by hand from its documentation.
    #[test]
    fn the_scale_grows_after_an_interval_and_shrinks_after_an_overflow() {
        let mut scaling = scaling(8.0, 3);
        let mut scales = Vec::new();
        for overflows in [false, false, true, false, false, false, false, true, true] {
            if overflows {
                scaling.shrink(1, "it is inf").expect("it is dynamic");
            } else {
                scaling.grow();
            }
            scales.push(scaling.state().scale);
        }
        assert_eq!(scales, [8.0, 8.0, 4.0, 4.0, 4.0, 8.0, 8.0, 4.0, 2.0]);
        assert_eq!(scaling.state(), ScalingState { scale: 2.0, good: 0, skipped: 3 });
    }

    #[test]
    fn the_scale_stays_a_normal_number() {
        let mut greatest = scaling(2.0_f32.powi(127), 1);
        greatest.grow();
        assert_eq!(
            greatest.state(),
            ScalingState { scale: 2.0_f32.powi(127), good: 0, skipped: 0 }
        );
        let mut least = scaling(f32::MIN_POSITIVE, 1);
        let error = least.shrink(7, "the gradient of `w`: it is inf").expect_err("it is least");
        assert_eq!(
            error.to_string(),
            "step 7: the gradient of `w`: it is inf; the loss scale falls from \
             1.1754944e-38 to 5.877472e-39, \
             below the normal numbers of f32"
        );
        assert_eq!(least.state().skipped, 0);
    }
}
