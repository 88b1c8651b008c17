//! Speech: the samples of a WAV file, and what a model of speech is asked about them. `generate` and `serve` share it.

use super::checkpoint::Checkpoint;
use super::encoded::Encoded;
use super::pool::Pool;
use super::regular;
use super::sequence::Suppressed;
use crate::args::{GenerateArgs, SpeechTask};
use crate::exit::Failure;
use hound::{SampleFormat, WavReader};
use relax_llm::{SpeechTokens, Task};
use relax_runtime::Stop;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// Floats are from -1 to 1 as a rule. The power of greater ones than these is no f32.
const LOUDEST: f32 = 1e6;
/// Samples a second, of models and therefore of files.
const RATE: u32 = 16_000;
/// Samples of a file at most: four hours.
const LONGEST: usize = 4 * 3600 * RATE as usize;

/// Speech to transcribe.
pub(crate) struct Speech {
    samples: Vec<f32>,
    /// As it was asked for.
    language: Option<String>,
    task: Task,
    /// Whether the text has times, by which windows follow each other.
    pub(super) in_windows: bool,
}

impl Speech {
    /// The file of `--audio`, which a model of speech needs; `None` for a model of text.
    pub(super) fn read(
        args: &GenerateArgs,
        checkpoint: &Checkpoint,
    ) -> Result<Option<Self>, Failure> {
        let (path, speech_tokens) = match (&args.audio, &checkpoint.speech_tokens) {
            (None, None) => return Ok(None),
            (None, Some(_)) => {
                return Err(Failure::usage(
                    "the model transcribes speech: give a WAV file with --audio",
                ));
            }
            (Some(_), None) => return Err(Failure::usage("--audio: the model reads text only")),
            (Some(_), Some(_)) if args.prompt.is_some() || args.chat.is_some() => {
                return Err(Failure::usage(
                    "a model of speech takes --tokens, and neither --prompt nor --chat",
                ));
            }
            (Some(path), Some(speech_tokens)) => (path, speech_tokens),
        };
        let task = match args.task {
            SpeechTask::Transcribe => Task::Transcribe,
            SpeechTask::Translate => Task::Translate,
        };
        let language = args.language.clone();
        if args.tokens.is_none() {
            speech_tokens.prompt(language.as_deref(), task).map_err(Failure::usage)?;
        }
        let window = checkpoint.config.max_samples().unwrap_or(0);
        let has_windows = speech_tokens.times.is_some() && args.tokens.is_none();
        if args.timestamps && !has_windows {
            return Err(Failure::usage("--timestamps: the model has no tokens of times"));
        }
        let most = if has_windows { window.max(LONGEST) } else { window };
        let samples = opened(path).and_then(|file| samples(file, most));
        let samples =
            samples.map_err(|why| Failure::usage(format!("{}: {why}", path.display())))?;
        let in_windows = args.timestamps || samples.len() > window;
        let has_others = args.logprobs || args.bench || args.grammar.is_some();
        if in_windows && (has_others || !args.stop.is_empty()) {
            return Err(Failure::usage(
                "speech of several windows is transcribed without --stop, --grammar, --logprobs and --bench",
            ));
        }
        Ok(Some(Self { samples, language, task, in_windows }))
    }

    /// A WAV file in memory of so many samples at most, in a language that the model knows.
    #[cfg(feature = "serve")]
    pub(crate) fn of_bytes(
        bytes: &[u8],
        most: usize,
        language: Option<String>,
    ) -> Result<Self, String> {
        let (samples, task) = (samples(bytes, most)?, Task::Transcribe);
        Ok(Self { samples, language, task, in_windows: false })
    }

    pub(super) fn samples(&self) -> &[f32] {
        &self.samples
    }

    pub(super) fn seconds(&self) -> f64 {
        seconds(self.samples.len())
    }

    /// Its keys and values of cross attention.
    pub(crate) fn encode(&self, pool: &Pool<'_>) -> Result<Encoded, Stop> {
        pool.encode_speech(&self.samples)
    }

    /// The tokens that the text begins with. A model of several languages detects which one is spoken where none was asked for.
    pub(crate) fn prompt(
        &self,
        speech_tokens: &SpeechTokens,
        encoded: &Encoded,
        pool: &mut Pool<'_>,
    ) -> Result<Vec<u32>, Stop> {
        let mut language = self.language.as_deref();
        let logits;
        if let Some(question) = speech_tokens.question().filter(|_| language.is_none()) {
            let mut rows = pool.rows(encoded.clone());
            logits = pool.step(&mut [(&mut rows, &question)])?;
            language = speech_tokens.language(&logits[0]);
        }
        let prompt = match self.in_windows {
            true => speech_tokens.prompt_with_times(language, self.task),
            false => speech_tokens.prompt(language, self.task),
        };
        prompt.map_err(|error| Stop::Misuse(error.to_string()))
    }
}

/// Tokens that a text of speech does not have.
pub(crate) fn suppressed(speech_tokens: &SpeechTokens) -> Suppressed {
    let SpeechTokens { suppressed, suppressed_first, .. } = speech_tokens;
    Suppressed { always: suppressed.clone(), first: suppressed_first.clone(), times: None }
}

fn seconds(samples: usize) -> f64 {
    samples as f64 / f64::from(RATE)
}

fn opened(path: &Path) -> Result<BufReader<File>, String> {
    regular(path)?;
    let file = File::open(path).map_err(|error| format!("cannot read it: {error}"))?;
    Ok(BufReader::new(file))
}

/// Samples of a file from -1 to 1, the mean of its channels.
fn samples(file: impl Read, most: usize) -> Result<Vec<f32>, String> {
    let mut reader = WavReader::new(file).map_err(|error| {
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
fn values(reader: &mut WavReader<impl Read>) -> Result<Vec<f32>, hound::Error> {
    let spec = reader.spec();
    if spec.sample_format == SampleFormat::Float {
        return reader.samples::<f32>().collect();
    }
    let scale = 1.0 / f64::from(1_u32 << (u32::from(spec.bits_per_sample).clamp(1, 32) - 1));
    let value = |sample: i32| (f64::from(sample) * scale) as f32;
    reader.samples::<i32>().map(|sample| sample.map(value)).collect()
}
