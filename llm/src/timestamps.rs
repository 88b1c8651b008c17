//! Times in the text of a model of speech (Whisper; Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision", 2022):
//! which tokens may come next, and how the text of a window is cut into segments. Windows follow each other by the times of the text, as in
//! the greedy decoding of transformers.

use std::ops::Range;

/// Frames of a position of the encoder, of 10 ms each.
const FRAMES: usize = 2;

/// Tokens of a text with times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// The token of the time 0; those behind it are of later times, 20 ms apart.
    pub(crate) begin: u32,
    /// The token that ends a text. Tokens below it are words.
    pub(crate) end: u32,
    /// The latest time that a text begins with, in positions.
    pub(crate) latest_first: Option<u32>,
}

/// A part of a text that is said within a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Begin and end from the begin of the window, in positions of 20 ms.
    pub positions: Range<usize>,
    /// Its tokens in the text of the window, with those of times.
    pub tokens: Range<usize>,
}

impl Timestamps {
    /// Whether a token is a time.
    #[must_use]
    pub fn is_time(&self, token: u32) -> bool {
        token >= self.begin
    }

    /// Makes the logits of tokens that may not follow a text negative infinities.
    pub fn restrict(&self, logits: &mut [f32], text: &[u32]) {
        let (begin, end) = (self.begin as usize, self.end as usize);
        let mut forbid = |tokens: Range<usize>| {
            let most = logits.len();
            logits[tokens.start.min(most)..tokens.end.min(most)].fill(f32::NEG_INFINITY);
        };
        // The token of a text without times comes before the one of the time 0.
        forbid(begin.saturating_sub(1)..begin);
        let is_time = |back: usize| Some(self.is_time(*text.get(text.len().checked_sub(back)?)?));
        let ends_in_time = is_time(1) == Some(true);
        // Times come in pairs, but the first one and one before the end.
        let is_pair = ends_in_time && is_time(2) != Some(false);
        match (ends_in_time, is_pair) {
            (true, true) => forbid(begin..usize::MAX),
            (true, false) => forbid(0..end),
            (false, _) => {}
        }
        // Times do not decrease, and no segment is empty.
        if let Some(last) = text.iter().rev().find(|token| self.is_time(**token)) {
            let least = *last as usize + usize::from(!ends_in_time || is_pair);
            forbid(begin..least);
        }
        if text.is_empty() {
            forbid(0..begin);
            if let Some(latest) = self.latest_first {
                forbid(begin + latest as usize + 1..usize::MAX);
            }
        }
        // All times together are more probable than any other token.
        let (words, times) = logits.split_at_mut(begin.min(logits.len()));
        let greatest = |logits: &[f32]| logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let (most, word) = (greatest(times), greatest(words));
        let powers = times.iter().map(|logit| f64::from(logit - most).exp());
        if most > f32::NEG_INFINITY && f64::from(most) + powers.sum::<f64>().ln() > f64::from(word)
        {
            words.fill(f32::NEG_INFINITY);
        }
    }

    /// The segments of the text of a window of so many frames, and how many frames further the next window begins. Between two times a
    /// segment ends; what follows the last such place is not complete, and is computed again.
    #[must_use]
    pub fn segments(&self, text: &[u32], frames: usize) -> (Vec<Segment>, usize) {
        let is_time = |at: usize| text.get(at).is_some_and(|token| self.is_time(*token));
        let position =
            |at: usize| text.get(at).map_or(0, |token| token.saturating_sub(self.begin) as usize);
        let pairs = (1..text.len()).filter(|at| is_time(at - 1) && is_time(*at));
        let mut cuts: Vec<usize> = pairs.collect();
        let ends_in_one = text.len() >= 2 && is_time(text.len() - 1) && !is_time(text.len() - 2);
        let Some(&last) = cuts.last() else {
            let time = (0..text.len()).rev().find(|at| is_time(*at)).map(position);
            let end = time.filter(|time| *time > 0).unwrap_or(frames / FRAMES);
            return (vec![Segment { positions: 0..end, tokens: 0..text.len() }], frames);
        };
        let next = if ends_in_one {
            cuts.push(text.len());
            frames
        } else {
            let next = position(last - 1) * FRAMES;
            // A time that is no later would give the same window again.
            if next == 0 { frames } else { next.min(frames) }
        };
        let starts = std::iter::once(0).chain(cuts.iter().copied());
        let segment = |(start, end): (usize, &usize)| Segment {
            positions: position(start)..position(end - 1),
            tokens: start..*end,
        };
        (starts.zip(&cuts).map(segment).collect(), next)
    }
}

#[cfg(test)]
mod tests {
    use super::{Segment, Timestamps};

    const TIMES: Timestamps = Timestamps { begin: 10, end: 5, latest_first: Some(2) };

    /// The tokens that may follow a text where all are as probable as `word` and `time` say.
    fn allowed(text: &[u32], (word, time): (f32, f32)) -> Vec<usize> {
        let mut logits: Vec<f32> =
            (0..16).map(|token| if token < 10 { word } else { time }).collect();
        TIMES.restrict(&mut logits, text);
        (0..16).filter(|token| logits[*token] > f32::NEG_INFINITY).collect()
    }

    #[test]
    fn times_come_in_pairs_and_do_not_decrease() {
        let words = (9.0, 0.0);
        assert_eq!(allowed(&[], words), [10, 11, 12]);
        assert_eq!(allowed(&[11], words), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(allowed(&[11, 3], words), [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 14, 15]);
        assert_eq!(allowed(&[11, 3, 13], words), [5, 6, 7, 8, 13, 14, 15]);
        assert_eq!(allowed(&[11, 3, 13, 13], words), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        // Six times of a half are three together.
        assert_eq!(allowed(&[11, 3], (1.1, 0.0)), [12, 13, 14, 15]);
        assert_eq!(allowed(&[11, 3], (1.4, 0.0)).len(), 13);
    }

    #[test]
    fn a_text_is_cut_between_two_times() {
        let segment = |positions, tokens| Segment { positions, tokens };
        // Complete, and the rest is silent.
        let (segments, next) = TIMES.segments(&[10, 1, 12, 12, 2, 14], 20);
        assert_eq!(segments, [segment(0..2, 0..3), segment(2..4, 3..6)]);
        assert_eq!(next, 20);
        // The last segment has no end: it is computed again.
        let (segments, next) = TIMES.segments(&[10, 1, 12, 13, 2], 20);
        assert_eq!((segments, next), (vec![segment(0..2, 0..3)], 4));
        let (segments, next) = TIMES.segments(&[10, 1, 12, 13], 20);
        assert_eq!((segments, next), (vec![segment(0..2, 0..3)], 4));
        // Without two times it is one segment.
        assert_eq!(TIMES.segments(&[10, 1, 2], 20), (vec![segment(0..10, 0..3)], 20));
        assert_eq!(TIMES.segments(&[11, 1, 13], 20), (vec![segment(0..3, 0..3)], 20));
        assert_eq!(TIMES.segments(&[], 7), (vec![segment(0..3, 0..0)], 7));
        // A window always ends further.
        assert_eq!(TIMES.segments(&[10, 10, 1], 20).1, 20);
    }
}
