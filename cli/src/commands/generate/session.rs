//! A sequence of tokens that grows: the calls of `step`, and the cache of keys and values between them.

use super::compiled::Compiled;
use relax_llm::Config;
use relax_runtime::{DType, Stop, Tensor, Value};

/// Rows of the first cache, where the prompt needs no more.
const FIRST: usize = 64;

/// A sequence and what its positions have computed.
pub(super) struct Session<'m> {
    model: &'m Compiled,
    /// Keys and values of each layer: (1, heads, capacity, elements). A step overwrites them.
    caches: Vec<Tensor>,
    /// Rows of a cache.
    capacity: usize,
    /// The most positions that the sequence may take.
    context: usize,
    /// Tokens so far: the rows that are in use.
    pub(super) positions: usize,
}

impl<'m> Session<'m> {
    /// A sequence that takes no more than so many positions.
    pub(super) fn new(
        model: &'m Compiled,
        config: &Config,
        context: usize,
    ) -> Result<Self, String> {
        let shape = [1, dim(config.kv_heads)?, 0, dim(config.head_dim)?];
        let empty = Tensor::zeros(DType::F32, &shape)?;
        let caches = vec![empty; 2 * config.layers.len()];
        Ok(Self { model, caches, capacity: 0, context, positions: 0 })
    }

    /// Bytes of keys and values of so many positions. While a cache grows, one of its tensors is there twice.
    #[cfg(feature = "serve")]
    pub(super) fn bytes(config: &Config, positions: usize) -> Option<u64> {
        let tensors = config.layers.len().checked_mul(2)?.checked_add(1)?;
        let row = config.kv_heads.checked_mul(config.head_dim)?.checked_mul(size_of::<f32>())?;
        u64::try_from(row.checked_mul(tensors)?.checked_mul(positions)?).ok()
    }

    /// Adds tokens, at least one; the logits of the token after them.
    pub(super) fn step(&mut self, tokens: &[u32]) -> Result<Vec<f32>, Stop> {
        self.reserve(self.positions + tokens.len()).map_err(Stop::Unsupported)?;
        let bytes: Vec<u8> =
            tokens.iter().flat_map(|&token| i64::from(token).to_ne_bytes()).collect();
        let count = dim(tokens.len()).map_err(Stop::Unsupported)?;
        let past = dim(self.positions).map_err(Stop::Unsupported)?;
        let given = Tensor::from_bytes(DType::I64, &[1, count], &bytes);
        let given = Value::Tensor(given.map_err(Stop::Unsupported)?);
        let mut arguments = vec![given, Value::Shape([past].into())];
        arguments.extend(self.caches.drain(..).map(Value::Tensor));
        let step = self.model.module.function("step").ok_or_else(|| no("function `step`"))?;
        let result = step.call_donating(arguments)?;
        let Value::Tuple(items) = &result else { return Err(no("tuple")) };
        let (logits, caches) = items.items().split_first().ok_or_else(|| no("logits"))?;
        for cache in caches {
            let Value::Tensor(cache) = cache else { return Err(no("cache")) };
            self.caches.push(cache.clone());
        }
        self.positions += tokens.len();
        match logits {
            Value::Tensor(logits) => logits.to_f32().ok_or_else(|| no("logits of f32")),
            _ => Err(no("tensor of logits")),
        }
    }

    /// Makes room for so many rows. Capacities double, so that a row is copied once in the mean.
    fn reserve(&mut self, rows: usize) -> Result<(), String> {
        if rows <= self.capacity {
            return Ok(());
        }
        self.capacity = rows.max(2 * self.capacity).max(FIRST).min(self.context.max(rows));
        let capacity = dim(self.capacity)?;
        for cache in &mut self.caches {
            *cache = cache.extended(2, capacity)?;
        }
        Ok(())
    }
}

fn dim(extent: usize) -> Result<i64, String> {
    i64::try_from(extent).map_err(|error| error.to_string())
}

fn no(what: &str) -> Stop {
    Stop::Unsupported(format!("the program of the model gives no {what}"))
}
