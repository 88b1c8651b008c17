//! Long speech and texts with times: the model reads windows of the levels of the whole speech, which follow each other by the times of the
//! text.

use super::pool::Pool;
use super::sequence::{Asked, Interrupted, Sequence, Suppressed};
use super::speech::{Speech, suppressed};
use super::{Checkpoint, failure, sampling};
use crate::args::{Format, GenerateArgs};
use crate::exit::Failure;
use crate::terminal::Terminal;
use relax_llm::{Sampler, SpeechTokens, Timestamps, Tokenizer};
use relax_runtime::Stop;
use serde_json::json;
use std::ops::Range;

/// Samples of a frame of levels, and of the window that it is computed of.
const STEP: usize = 160;
const LENGTH: usize = 400;
/// Frames that are computed at once, of 30 s.
const FRAMES: usize = 3000;
/// Seconds of a position of the encoder.
const POSITION: f64 = 0.02;

/// Levels of each band, of all frames of a speech, 10 ms each.
struct Levels {
    /// (bands, frames)
    values: Vec<f32>,
    bands: usize,
    frames: usize,
}

impl Levels {
    /// As the feature extractor of transformers computes them: the range is 8 decades below the greatest of all frames, and the
    /// ends are mirrored. Silence follows speech that is shorter than a window of the model.
    fn of(samples: &[f32], window: usize, pool: &Pool<'_>) -> Result<Self, Stop> {
        let mut samples = samples.to_vec();
        samples.resize(samples.len().max(window).max(LENGTH), 0.0);
        let (frames, half) = (samples.len() / STEP, LENGTH / 2);
        let last = samples.len() - 1;
        let before = (1..=half).rev().map(|at| samples[at]);
        let behind = (1..=half).map(|at| samples[last - at]);
        let mirrored: Vec<f32> = before.chain(samples.iter().copied()).chain(behind).collect();
        let (mut parts, mut bands) = (Vec::new(), 0);
        for start in (0..frames).step_by(FRAMES) {
            let count = FRAMES.min(frames - start);
            let end = (start + count - 1) * STEP + LENGTH;
            let (decades, found) = pool.spectrum(&mirrored[start * STEP..end])?;
            bands = found;
            parts.push((decades, count));
        }
        let all = parts.iter().flat_map(|(decades, _)| decades);
        let least = all.copied().fold(f32::NEG_INFINITY, f32::max) - 8.0;
        let mut values = Vec::with_capacity(bands * frames);
        for band in 0..bands {
            for (decades, count) in &parts {
                let decades = &decades[band * count..(band + 1) * count];
                values.extend(decades.iter().map(|decade| (decade.max(least) + 4.0) * 0.25));
            }
        }
        Ok(Self { values, bands, frames })
    }

    /// A part, with zeros where the speech is over.
    fn part(&self, frames: Range<usize>, window: usize) -> Vec<f32> {
        let mut part = vec![0.0; self.bands * window];
        for band in 0..self.bands {
            let of = &self.values[band * self.frames..][frames.clone()];
            part[band * window..][..of.len()].copy_from_slice(of);
        }
        part
    }
}

/// What a speech is transcribed with.
pub(super) struct Windows<'m> {
    pub(super) args: &'m GenerateArgs,
    pub(super) checkpoint: &'m Checkpoint,
    pub(super) tokenizer: &'m Tokenizer,
    pub(super) tokens: &'m SpeechTokens,
    pub(super) times: &'m Timestamps,
}

impl Windows<'_> {
    /// Prints the segments of a speech, window by window.
    pub(super) fn transcribe(
        &self,
        speech: &Speech,
        pool: &mut Pool<'_>,
        terminal: &mut Terminal,
    ) -> Result<Result<(), Stop>, Failure> {
        let samples = self.checkpoint.config.max_samples().unwrap_or(0);
        let window = samples / STEP;
        let levels = match Levels::of(speech.samples(), samples, pool) {
            Ok(levels) => levels,
            Err(stop) => return Ok(Err(stop)),
        };
        let (mut start, mut number, mut prompt) = (0, 0, None);
        while start < levels.frames {
            let frames = window.min(levels.frames - start);
            let part = levels.part(start..start + frames, window);
            let text = match self.text(speech, (&part, levels.bands), (&mut prompt, number), pool) {
                Ok(text) => text,
                Err(Interrupted::Stop(stop)) => return Ok(Err(stop)),
                Err(other) => return Err(failure(other)),
            };
            let (segments, next) = self.times.segments(&text, frames);
            for segment in segments {
                let from = start as f64 / 2.0 * POSITION;
                let times = [segment.positions.start, segment.positions.end];
                let times = times.map(|position| from + position as f64 * POSITION);
                self.show(times, &text[segment.tokens], terminal)?;
            }
            start += next;
            number += 1;
        }
        if !self.args.timestamps && terminal.format == Format::Text {
            terminal.result("\n")?;
        }
        Ok(Ok(()))
    }

    /// The tokens of a window. The prompt is that of the first one, which may detect the language.
    fn text(
        &self,
        speech: &Speech,
        (levels, bands): (&[f32], usize),
        (prompt, number): (&mut Option<Vec<u32>>, u64),
        pool: &mut Pool<'_>,
    ) -> Result<Vec<u32>, Interrupted> {
        let encoded = pool.encode_levels(levels, bands).map_err(Interrupted::Stop)?;
        if prompt.is_none() {
            let found = speech.prompt(self.tokens, &encoded, pool).map_err(Interrupted::Stop)?;
            *prompt = Some(found);
        }
        let seed = self.args.seed.wrapping_add(number);
        let suppressed = suppressed(self.tokens);
        let asked = Asked {
            prompt: prompt.clone().unwrap_or_default(),
            sampler: Sampler::new(sampling(self.args), seed).map_err(Interrupted::Sampling)?,
            max_tokens: self.args.max_tokens.unwrap_or(usize::MAX),
            context: self.checkpoint.config.context,
            top_logprobs: 0,
            stops: Vec::new(),
            suppressed: Suppressed { times: Some(self.times.clone()), ..suppressed },
            constraint: None,
        };
        let mut sequence = Sequence::new((self.checkpoint, pool), None, (asked, encoded))?;
        let mut text = Vec::new();
        loop {
            let step = sequence.step(pool)?;
            text.extend(step.token.map(|token| token.chosen.token));
            if step.end.is_some() {
                return Ok(text);
            }
        }
    }

    /// Prints a segment that has words.
    fn show(
        &self,
        [start, end]: [f64; 2],
        tokens: &[u32],
        terminal: &mut Terminal,
    ) -> Result<(), Failure> {
        let words = tokens.iter().copied().filter(|token| !self.times.is_time(*token));
        let words: Vec<u32> = words.collect();
        let mut stream = self.tokenizer.stream();
        let pieces = words.iter().map(|word| stream.push(*word)).collect::<Result<Vec<_>, _>>();
        let text = pieces.map_err(Failure::usage)?.concat() + &stream.finish();
        if words.is_empty() {
            return Ok(());
        }
        if terminal.format == Format::Json {
            let object = json!({ "type": "segment", "start": start, "end": end, "tokens": words, "text": text });
            terminal.result(&format!("{object}\n"))?;
        } else if self.args.timestamps {
            let text = text.trim_start();
            terminal.result(&format!("[{} --> {}] {text}\n", clock(start), clock(end)))?;
        } else {
            terminal.result(&text)?;
        }
        terminal.flush()
    }
}

/// A time as of subtitles, such as 01:02:03.450.
fn clock(seconds: f64) -> String {
    let millis = (seconds * 1000.0).round() as u64;
    let (hours, minutes) = (millis / 3_600_000, millis / 60_000 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{:03}", millis / 1000 % 60, millis % 1000)
}
