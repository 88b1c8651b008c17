//! Speeds of a generation, beside what memory gives.

use crate::args::Format;
use crate::commands::build::compiler;
use crate::commands::cache::cache;
use crate::exit::Failure;
use crate::terminal::Terminal;
use relax_cpu::{Cpu, Limits};
use relax_driver::sizes::binary;
use relax_runtime::Module;
use serde_json::json;
use std::time::Duration;

/// Input of an encoder: seconds of speech, or a number of images.
enum Input {
    Speech(f64),
    Images(usize),
}

/// What was measured.
pub(super) struct Speed {
    /// Until the model could be called.
    loading: Duration,
    /// Tokens of the prompt, and the time of their steps: that to the first token.
    prompt: (usize, Duration),
    /// What was encoded, and the time that it took.
    encoded: Option<(Input, Duration)>,
    is_prompt: bool,
    /// The times of later steps, of one token each.
    steps: Vec<Duration>,
    /// Allocations of the last step.
    allocations: u64,
    /// Bytes of weights that a later step reads in whole.
    step_bytes: u64,
}

impl Speed {
    pub(super) fn new(loading: Duration, step_bytes: u64) -> Self {
        let prompt = (0, Duration::ZERO);
        let steps = Vec::new();
        let (is_prompt, encoded, allocations) = (true, None, 0);
        Self { loading, prompt, encoded, is_prompt, steps, allocations, step_bytes }
    }

    /// Notes speech of so many seconds.
    pub(super) fn encode(&mut self, seconds: f64, took: Duration) {
        self.encoded = Some((Input::Speech(seconds), took));
    }

    /// Notes so many images.
    pub(super) fn encode_images(&mut self, images: usize, took: Duration) {
        self.encoded = Some((Input::Images(images), took));
    }

    /// Adds a step of so many tokens; those up to the first generated token are of the prompt.
    pub(super) fn add(&mut self, tokens: usize, took: Duration, allocations: u64) {
        if self.is_prompt {
            self.prompt.0 += tokens;
            self.prompt.1 += took;
        } else {
            self.steps.push(took);
        }
        self.allocations = allocations;
    }

    pub(super) fn end_prompt(&mut self) {
        self.is_prompt = false;
    }

    fn median(&self) -> Option<f64> {
        let mut steps = self.steps.clone();
        steps.sort();
        steps.get(steps.len() / 2).map(Duration::as_secs_f64)
    }

    /// What was encoded in words; nothing where nothing was.
    fn encoded(&self) -> String {
        let Some((input, took)) = &self.encoded else { return String::new() };
        let input = match input {
            Input::Speech(seconds) => format!("{seconds:.2} s of speech"),
            Input::Images(1) => "1 image".to_owned(),
            Input::Images(images) => format!("{images} images"),
        };
        format!("{input}, encoded in {:.3} s\n", took.as_secs_f64())
    }

    /// Prints them; measures how fast memory is read, which takes half a second.
    pub(super) fn show(&self, module: &Module, terminal: &mut Terminal) -> Result<(), Failure> {
        let weights = module.constant_bytes() as f64;
        let compiler = compiler(&Cpu::Native)?;
        let compiler = compiler.settled().map_err(Failure::missing)?;
        let limits = Limits::measured(compiler, cache()?, module.threads());
        let limits = limits.map_err(Failure::missing)?;
        let read = limits.reads.last().map(|(_, rate)| *rate);
        let (tokens, took) = self.prompt;
        let prefill = tokens as f64 / took.as_secs_f64();
        let median = self.median();
        let decode = median.map(|seconds| 1.0 / seconds);
        let bytes = decode.map(|decode| decode * self.step_bytes as f64);
        let share = bytes.zip(read).map(|(bytes, read)| bytes / read);
        let peak = peak_memory();
        if terminal.format == Format::Json {
            let mut object = json!({
                "type": "speed",
                "threads": module.threads(),
                "loading_seconds": self.loading.as_secs_f64(),
                "prompt_tokens": tokens,
                "first_token_seconds": took.as_secs_f64(),
                "prefill_tokens_per_second": prefill,
                "decode_tokens_per_second": decode,
                "weight_bytes": weights,
                "step_weight_bytes": self.step_bytes,
                "weight_bytes_per_second": bytes,
                "read_bytes_per_second": read,
                "share_of_read": share,
                "allocations_per_step": self.allocations,
                "peak_memory_bytes": peak,
            });
            if let Some((input, took)) = &self.encoded {
                match input {
                    Input::Speech(seconds) => object["audio_seconds"] = json!(seconds),
                    Input::Images(images) => object["images"] = json!(images),
                }
                object["encode_seconds"] = json!(took.as_secs_f64());
            }
            return terminal.result(&format!("{object}\n"));
        }
        let threads = module.threads();
        let plural = if threads == 1 { "" } else { "s" };
        let mut lines = format!(
            "{threads} thread{plural}; {} of weights, loaded in {:.2} s\n\
             prefill: {tokens} tokens, {prefill:.1} tokens/s, first token after {:.3} s\n",
            binary(weights),
            self.loading.as_secs_f64(),
            took.as_secs_f64()
        );
        lines += &self.encoded();
        if let Some((decode, bytes)) = decode.zip(bytes) {
            lines += &format!(
                "decode: {} tokens, {decode:.1} tokens/s in the median, {:.1} GB/s of weights",
                self.steps.len(),
                bytes / 1e9
            );
            let share = share.zip(read);
            lines += &share.map_or_else(String::new, |(share, read)| {
                format!(", {:.0}% of the {:.1} GB/s that memory gives", share * 100.0, read / 1e9)
            });
            lines += &format!("\nlast step: {} allocations\n", self.allocations);
        }
        if let Some(peak) = peak {
            lines += &format!(
                "peak memory: {}, with touched pages of mapped files\n",
                binary(peak as f64)
            );
        }
        terminal.result(&lines)
    }
}

/// The greatest resident size of the process; `None` where the system does not tell.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
