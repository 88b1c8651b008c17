//! A sequence in steps, each one call of the model: parts of the prompt, then one token after the other. `generate` and `serve` share it, so that
//! they give the same tokens.

use super::checkpoint::Checkpoint;
use super::encoded::Encoded;
use super::pool::{Pool, Rows};
use super::text::Text;
use relax_llm::{
    Chosen, Constraint, GrammarError, Sampler, SamplingError, Timestamps, Tokenizer,
    TokenizerError, top_logprobs,
};
use relax_runtime::Stop;
use std::borrow::Cow;

/// Tokens of a prompt in one step. Other sequences wait for a step, and its memory grows with them; weights are read for each step,
/// which so many rows are enough to hide. Rounding depends on how many tokens a step has, so that all commands divide prompts alike.
const CHUNK: usize = 256;

/// What is to be continued, and how far.
pub(crate) struct Asked {
    /// At least one token of the model.
    pub(crate) prompt: Vec<u32>,
    pub(crate) sampler: Sampler,
    pub(crate) max_tokens: usize,
    /// Positions of the sequence at most, more than the prompt has.
    pub(crate) context: usize,
    /// Probable tokens to report beside each chosen one.
    pub(crate) top_logprobs: usize,
    pub(crate) stops: Vec<String>,
    pub(crate) suppressed: Suppressed,
    /// The form that the text keeps to.
    pub(crate) constraint: Option<Constraint>,
}

/// Tokens that are not chosen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Suppressed {
    pub(crate) always: Vec<u32>,
    /// As the first one after the prompt.
    pub(crate) first: Vec<u32>,
    /// What the times of a text of speech allow.
    pub(crate) times: Option<Timestamps>,
}

/// Why a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    MaxTokens,
    EndToken,
    StopText,
    Context,
    /// The text is whole by its form, and the model has no token that ends it.
    Form,
}

impl Reason {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::EndToken => "end",
            Self::StopText => "stop",
            Self::Context => "context",
            Self::Form => "form",
        }
    }
}

/// A chosen token.
#[derive(Clone, Debug)]
pub(crate) struct Emitted {
    pub(crate) chosen: Chosen,
    /// The most probable tokens, as many as were asked for. Only answers of the server have them.
    #[cfg_attr(not(feature = "serve"), expect(dead_code))]
    pub(crate) top: Vec<Chosen>,
    /// The text that it makes certain; `None` without a tokenizer.
    pub(crate) text: Option<String>,
}

/// What a step did.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// Tokens that the model was called with.
    pub(crate) rows: usize,
    pub(crate) token: Option<Emitted>,
    /// Why there is no more, and the text that was held back.
    pub(crate) end: Option<(Reason, String)>,
}

/// Why a sequence cannot go on.
#[derive(Debug)]
pub(crate) enum Interrupted {
    Stop(Stop),
    Sampling(SamplingError),
    Token(TokenizerError),
    Grammar(GrammarError),
}

pub(crate) struct Sequence<'m> {
    rows: Rows,
    ends: &'m [u32],
    sampler: Sampler,
    max_tokens: usize,
    context: usize,
    top_logprobs: usize,
    text: Option<Text<'m>>,
    suppressed: Suppressed,
    constraint: Option<Constraint>,
    /// The prompt and what continues it.
    tokens: Vec<u32>,
    /// Of these, how many the model has seen.
    seen: usize,
    prompt: usize,
}

impl<'m> Sequence<'m> {
    /// # Errors
    /// When the tokenizer has no such token, or there is no memory.
    pub(crate) fn new(
        (checkpoint, pool): (&'m Checkpoint, &Pool<'_>),
        tokenizer: Option<&'m Tokenizer>,
        (asked, encoded): (Asked, Encoded),
    ) -> Result<Self, Interrupted> {
        let Asked { prompt, sampler, max_tokens, context, top_logprobs, stops, .. } = asked;
        let (suppressed, constraint) = (asked.suppressed, asked.constraint);
        let text = tokenizer.map(|tokenizer| Text::new(tokenizer, &prompt, stops));
        let text = text.transpose().map_err(Interrupted::Token)?;
        let ends = &checkpoint.ends;
        let length = prompt.len();
        Ok(Self {
            rows: pool.rows(encoded),
            ends,
            sampler,
            max_tokens,
            context,
            top_logprobs,
            text,
            suppressed,
            constraint,
            tokens: prompt,
            seen: 0,
            prompt: length,
        })
    }

    pub(crate) fn generated(&self) -> usize {
        self.tokens.len() - self.prompt
    }

    /// How many tokens the next call of the model takes; 0 after the last one.
    pub(crate) fn due(&self) -> usize {
        let is_over = self.generated() >= self.max_tokens;
        if is_over { 0 } else { (self.tokens.len() - self.seen).min(CHUNK) }
    }

    /// A step of this sequence alone.
    pub(crate) fn step(&mut self, pool: &mut Pool<'_>) -> Result<Step, Interrupted> {
        if self.due() == 0 {
            return Ok(Step { end: Some(self.end(Reason::MaxTokens)), ..Step::default() });
        }
        let logits = call(&mut [self], pool).map_err(Interrupted::Stop)?;
        self.take(&logits[0])
    }

    /// One step of each sequence in one call of the model. The next call of all of them takes one token.
    #[cfg(feature = "serve")]
    pub(crate) fn step_together(
        sequences: &mut [&mut Self],
        pool: &mut Pool<'_>,
    ) -> Result<Vec<Result<Step, Interrupted>>, Stop> {
        let logits = call(sequences, pool)?;
        Ok(sequences.iter_mut().zip(&logits).map(|(one, logits)| one.take(logits)).collect())
    }

    /// What becomes of the tokens that the model was called with, by the logits after them.
    fn take(&mut self, logits: &[f32]) -> Result<Step, Interrupted> {
        let rows = self.due();
        self.seen += rows;
        if self.seen < self.tokens.len() {
            return Ok(Step { rows, ..Step::default() });
        }
        let mut logits = self.allowed(logits);
        if let Some(constraint) = &mut self.constraint
            && !constraint.mask(logits.to_mut()).map_err(Interrupted::Grammar)?
        {
            return Ok(Step { rows, token: None, end: Some(self.end(Reason::Form)) });
        }
        let logits = &*logits;
        let chosen = self.sampler.choose(logits, &self.tokens).map_err(Interrupted::Sampling)?;
        if self.ends.contains(&chosen.token) {
            return Ok(Step { rows, token: None, end: Some(self.end(Reason::EndToken)) });
        }
        if let Some(constraint) = &mut self.constraint {
            constraint.push(chosen.token).map_err(Interrupted::Grammar)?;
        }
        self.tokens.push(chosen.token);
        let pushed = self.text.as_mut().map(|text| text.push(chosen.token));
        let (text, stops) = pushed.transpose().map_err(Interrupted::Token)?.unzip();
        let top = top_logprobs(logits, self.top_logprobs).map_err(Interrupted::Sampling)?;
        let reason = match stops {
            Some(true) => Some(Reason::StopText),
            _ if self.seen + 1 >= self.context => Some(Reason::Context),
            _ if self.generated() >= self.max_tokens => Some(Reason::MaxTokens),
            _ => None,
        };
        let end = reason.map(|reason| self.end(reason));
        Ok(Step { rows, token: Some(Emitted { chosen, top, text }), end })
    }

    /// Logits without the tokens that are not chosen.
    fn allowed<'l>(&self, logits: &'l [f32]) -> Cow<'l, [f32]> {
        let Suppressed { always, first, times } = &self.suppressed;
        let first = if self.generated() == 0 { first.as_slice() } else { &[] };
        if always.is_empty() && first.is_empty() && times.is_none() {
            return Cow::Borrowed(logits);
        }
        let mut logits = logits.to_vec();
        for &token in always.iter().chain(first) {
            if let Some(logit) = logits.get_mut(token as usize) {
                *logit = f32::NEG_INFINITY;
            }
        }
        if let Some(times) = times {
            times.restrict(&mut logits, &self.tokens[self.prompt..]);
        }
        Cow::Owned(logits)
    }

    fn end(&mut self, reason: Reason) -> (Reason, String) {
        // After a stop text there is no text.
        let text = self.text.take().filter(|_| reason != Reason::StopText);
        (reason, text.map(Text::finish).unwrap_or_default())
    }
}

/// Calls the model with the tokens that are due of each sequence, which are as many of all.
fn call(sequences: &mut [&mut Sequence<'_>], pool: &mut Pool<'_>) -> Result<Vec<Vec<f32>>, Stop> {
    let rows = sequences.iter_mut().map(|one| {
        let due = one.due();
        (&mut one.rows, &one.tokens[one.seen..one.seen + due])
    });
    pool.step(&mut rows.collect::<Vec<_>>())
}
