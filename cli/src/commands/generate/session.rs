//! A sequence of tokens that grows: the calls of `step`, and the keys and values of earlier positions between them.

use super::compiled::Compiled;
use relax_llm::Config;
use relax_runtime::{DType, Stop, Tensor, Value};

/// A sequence and what its positions have computed.
pub(super) struct Session<'m> {
    model: &'m Compiled,
    /// Keys and values of each layer: (1, positions, heads, elements).
    caches: Vec<Value>,
    /// Tokens so far.
    pub(super) positions: usize,
}

impl<'m> Session<'m> {
    pub(super) fn new(model: &'m Compiled, config: &Config) -> Result<Self, String> {
        let shape = [1, 0, dim(config.kv_heads)?, dim(config.head_dim)?];
        let empty = Tensor::from_bytes(DType::F32, &shape, &[])?;
        let caches = vec![Value::Tensor(empty); 2 * config.layers.len()];
        Ok(Self { model, caches, positions: 0 })
    }

    /// Adds tokens, at least one; the logits of the token after them.
    pub(super) fn step(&mut self, tokens: &[u32]) -> Result<Vec<f32>, Stop> {
        let bytes: Vec<u8> =
            tokens.iter().flat_map(|&token| i64::from(token).to_ne_bytes()).collect();
        let count = dim(tokens.len()).map_err(Stop::Unsupported)?;
        let tokens = Tensor::from_bytes(DType::I64, &[1, count], &bytes);
        let tokens = Value::Tensor(tokens.map_err(Stop::Unsupported)?);
        let mut arguments = vec![tokens];
        // They are dropped behind the call, so that the next one reuses their memory.
        arguments.append(&mut self.caches);
        let step = self.model.module.function("step").ok_or_else(|| no("function `step`"))?;
        let result = step.call(&arguments)?;
        drop(arguments);
        let Value::Tuple(items) = &result else { return Err(no("tuple")) };
        let (logits, caches) = items.items().split_first().ok_or_else(|| no("logits"))?;
        self.caches = caches.to_vec();
        self.positions += usize::try_from(count).unwrap_or(0);
        match logits {
            Value::Tensor(logits) => logits.to_f32().ok_or_else(|| no("logits of f32")),
            _ => Err(no("tensor of logits")),
        }
    }
}

fn dim(extent: usize) -> Result<i64, String> {
    i64::try_from(extent).map_err(|error| error.to_string())
}

fn no(what: &str) -> Stop {
    Stop::Unsupported(format!("the program of the model gives no {what}"))
}
