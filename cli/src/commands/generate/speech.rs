//! Speech: the samples of a WAV file, and what a model of speech is asked about them.

use super::checkpoint::Checkpoint;
use super::pool::Pool;
use super::sequence::Suppressed;
use super::speed::Speed;
use crate::args::{GenerateArgs, SpeechTask};
use crate::exit::Failure;
use hound::{SampleFormat, WavReader};
use relax_llm::{SpeechTokens, Task};
use relax_runtime::Stop;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use std::time::Instant;

/// Floats are from -1 to 1 as a rule. The power of greater ones than these is no f32.
const LOUDEST: f32 = 1e6;
/// Samples a second, of models and therefore of files.
const RATE: u32 = 16_000;

/// Speech to transcribe.
pub(super) struct Speech<'c> {
    samples: Vec<f32>,
    speech_tokens: &'c SpeechTokens,
}

impl<'c> Speech<'c> {
    /// The file of `--audio`, which a model of speech needs; `None` for a model of text.
    pub(super) fn read(
        args: &GenerateArgs,
        checkpoint: &'c Checkpoint,
    ) -> Result<Option<Self>, Failure> {
        match (&args.audio, &checkpoint.speech_tokens) {
            (None, None) => Ok(None),
            (None, Some(_)) => {
                Err(Failure::usage("the model transcribes speech: give a WAV file with --audio"))
            }
            (Some(_), None) => Err(Failure::usage("--audio: the model reads text only")),
            (Some(_), Some(_)) if args.prompt.is_some() || args.chat.is_some() => Err(
                Failure::usage("a model of speech takes --tokens, and neither --prompt nor --chat"),
            ),
            (Some(path), Some(speech_tokens)) => {
                let most = checkpoint.config.max_samples().unwrap_or(0);
                let samples = samples(path, most)
                    .map_err(|why| Failure::usage(format!("{}: {why}", path.display())))?;
                Ok(Some(Self { samples, speech_tokens }))
            }
        }
    }

    /// Tokens that the text does not have.
    pub(super) fn suppressed(&self) -> Suppressed {
        let SpeechTokens { suppressed, suppressed_first, .. } = self.speech_tokens;
        Suppressed { always: suppressed.clone(), first: suppressed_first.clone() }
    }

    /// Encodes the speech; gives the tokens that the text begins with, which are those of `--tokens` where there are some.
    pub(super) fn begin(
        &self,
        (args, tokens): (&GenerateArgs, Option<Vec<u32>>),
        pool: &mut Pool<'_>,
        speed: &mut Speed,
    ) -> Result<Result<Vec<u32>, Stop>, Failure> {
        let start = Instant::now();
        if let Err(stop) = pool.encode_speech(&self.samples) {
            return Ok(Err(stop));
        }
        speed.encode(seconds(self.samples.len()), start.elapsed());
        tokens.map_or_else(|| self.prompt(args, pool), |tokens| Ok(Ok(tokens)))
    }

    /// A model of several languages detects which one is spoken where `--language` does not say.
    fn prompt(
        &self,
        args: &GenerateArgs,
        pool: &mut Pool<'_>,
    ) -> Result<Result<Vec<u32>, Stop>, Failure> {
        let task = match args.task {
            SpeechTask::Transcribe => Task::Transcribe,
            SpeechTask::Translate => Task::Translate,
        };
        let mut language = args.language.clone();
        if let Some(question) = self.speech_tokens.question().filter(|_| language.is_none()) {
            let mut rows = pool.rows();
            let logits = match pool.step(&mut [(&mut rows, &question)]) {
                Ok(logits) => logits,
                Err(stop) => return Ok(Err(stop)),
            };
            language = self.speech_tokens.language(&logits[0]).map(str::to_owned);
        }
        let prompt = self.speech_tokens.prompt(language.as_deref(), task);
        prompt.map(Ok).map_err(|error| Failure::usage(error.to_string()))
    }
}

fn seconds(samples: usize) -> f64 {
    samples as f64 / f64::from(RATE)
}

/// Samples of a file from -1 to 1, the mean of its channels.
fn samples(path: &Path, most: usize) -> Result<Vec<f32>, String> {
    let metadata = fs::metadata(path).map_err(|error| format!("cannot read it: {error}"))?;
    if !metadata.is_file() {
        return Err("it is no file".to_owned());
    }
    let mut reader = WavReader::open(path).map_err(|error| {
        format!("it is no WAV file ({error}); `ffmpeg -i FILE -ac 1 -ar {RATE} FILE.wav` makes one")
    })?;
    let spec = reader.spec();
    if spec.sample_rate != RATE {
        return Err(format!(
            "it has {} samples a second, and the model takes {RATE}: \
             `ffmpeg -i FILE -ac 1 -ar {RATE} FILE.wav` converts it",
            spec.sample_rate
        ));
    }
    let frames = reader.duration() as usize;
    if frames > most {
        return Err(format!(
            "it has {frames} samples ({:.2} s), and the model takes {most} at once ({:.2} s)",
            seconds(frames),
            seconds(most)
        ));
    }
    let values = values(&mut reader).map_err(|error| format!("its samples: {error}"))?;
    let channels = usize::from(spec.channels).max(1);
    let mean = |(at, frame): (usize, &[f32])| {
        let mean = frame.iter().sum::<f32>() / channels as f32;
        let is_sample = mean.abs() <= LOUDEST;
        is_sample
            .then_some(mean)
            .ok_or_else(|| format!("sample {at} is {mean}: expected floats of about -1 to 1"))
    };
    values.chunks(channels).enumerate().map(mean).collect()
}

/// All samples, channel after channel for each time.
fn values(reader: &mut WavReader<BufReader<File>>) -> Result<Vec<f32>, hound::Error> {
    let spec = reader.spec();
    if spec.sample_format == SampleFormat::Float {
        return reader.samples::<f32>().collect();
    }
    let scale = 1.0 / f64::from(1_u32 << (u32::from(spec.bits_per_sample).clamp(1, 32) - 1));
    let value = |sample: i32| (f64::from(sample) * scale) as f32;
    reader.samples::<i32>().map(|sample| sample.map(value)).collect()
}
