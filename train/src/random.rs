//! States of random bits: each step has one, made of the seed and the step alone, so that a run that goes on draws as one that
//! was not interrupted.

use crate::config::{ConfigError, RandomConfig};
use ndarray::{ArrayD, IxDyn};
use relax_semantics::tensor::Tensor;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::suggest::hint;

/// The state of a step for `random_bits`: the key is the seed, and the counter is the step times 2³². So 2³⁴ elements of a step
/// share no block with those of the next one. The seed counts modulo 2⁶⁴, the step modulo 2³².
pub(crate) fn state(seed: u64, step: u64) -> Tensor {
    let words = [seed as u32, (seed >> 32) as u32, 0, step as u32].map(i128::from);
    let words = ArrayD::from_shape_vec(IxDyn(&[4]), words.to_vec());
    Tensor::from_ints(DType::U32, words.expect("invariant: there are four"))
}

/// Parameters without the one that gets the state.
///
/// # Errors
/// There is no such parameter among them, or it cannot hold a state.
pub(crate) fn without_state(
    config: Option<&RandomConfig>,
    mut inputs: Vec<(Name, Annotation)>,
) -> Result<Vec<(Name, Annotation)>, ConfigError> {
    let Some(config) = config else { return Ok(inputs) };
    let wanted = &config.parameter;
    let Some(at) = inputs.iter().position(|(name, _)| *name == wanted.value) else {
        let known: Vec<&str> = inputs.iter().map(|(name, _)| name.as_str()).collect();
        let message = format!(
            "no parameter of the program that is no weight is named `{}` (`random.parameter`)",
            wanted.value
        );
        return Err(ConfigError::new(wanted.span, message).with_help(hint(&wanted.value, &known)));
    };
    let (name, annotation) = inputs.remove(at);
    if annotation != Annotation::tensor(vec![Dim::Int(4)], DType::U32) {
        let message = format!(
            "`{name}` is `{annotation}`, and a state of random bits is `Tensor((4,), \"u32\")`"
        );
        return Err(ConfigError::new(wanted.span, message));
    }
    if inputs.is_empty() {
        let message = "every other parameter of the program is a weight: there is no data";
        return Err(ConfigError::new(wanted.span, message));
    }
    Ok(inputs)
}

#[cfg(test)]
mod tests {
    use super::state;
    use relax_semantics::tensor::Number;

    #[test]
    fn states_are_the_seed_and_the_step() {
        let words = |seed, step| [0, 1, 2, 3].map(|at| state(seed, step).number(at));
        let expected = [7, 5, 0, 3].map(Number::Int);
        assert_eq!(words((5 << 32) | 7, 3), expected);
        assert_eq!(words((5 << 32) | 7, (1 << 32) | 3), expected);
    }
}
