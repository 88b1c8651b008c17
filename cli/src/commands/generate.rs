//! `relax generate`: tokens of a language model, one after the other.

mod checkpoint;
mod compiled;
mod session;
mod shown;
mod speed;

use crate::args::{Activations, Format, GenerateArgs, Quantize};
use crate::commands::numerics;
use crate::commands::run::size;
use crate::exit::{Exit, Failure, Outcome};
use crate::report::{finding_of_stop, show};
use crate::terminal::Terminal;
use checkpoint::{Checkpoint, Template};
use compiled::{Compiled, compile};
use relax_emit::Sums;
use relax_llm::{Chat, Ending, Message, Quantization, Sampler, Sampling, Special, Tokenizer};
use relax_reference::stop_to_semantics;
use relax_runtime::{Limits, Stop};
use serde_json::json;
use session::Session;
use shown::Shown;
use speed::Speed;
use std::io::{self, Read};
use std::num::NonZero;
use std::time::Instant;

/// Bytes of a prompt, as of [`Tokenizer::encode`], and one more.
const LONGEST_PROMPT: u64 = (16 << 20) + 1;

pub(super) fn generate(args: &GenerateArgs, terminal: &mut Terminal) -> Outcome {
    let sampler = Sampler::new(sampling(args), args.seed).map_err(Failure::usage)?;
    let start = Instant::now();
    let checkpoint = Checkpoint::open(&args.model, args.quantize.map(quantization))?;
    // Numbers need no vocabulary.
    let tokenizer = match args.tokens {
        Some(_) => None,
        None => Some(checkpoint.tokenizer()?),
    };
    let prompt = prompt(args, &checkpoint, tokenizer.as_ref())?;
    let limits = Limits {
        bytes: usize::try_from(size("--max-memory", &args.max_memory)?).unwrap_or(usize::MAX),
        threads: args.threads.map_or(0, NonZero::get),
        ..Limits::default()
    };
    let activations = activations(args, &checkpoint)?;
    let words = match activations {
        Activations::F32 => "activations in f32",
        Activations::Q8 => {
            "products with quantized weights round activations to 8 bits (`--activations f32` does not)"
        }
    };
    if activations == Activations::Q8 && args.activations.is_none() {
        terminal.note(words);
    } else {
        terminal.detail(words);
    }
    let compiled = match compile(args, (&checkpoint, activations), limits, terminal)? {
        Ok(compiled) => compiled,
        Err(exit) => return Ok(exit),
    };
    let words = numerics::words(compiled.module.metadata());
    let weights = args.quantize.map(quantization).map(|to| {
        let count = checkpoint.text.quantized.len();
        format!("; {count} matrices quantized to {to}")
    });
    terminal.detail(&format!("{words}{}", weights.unwrap_or_default()));
    show_quantized(args, &checkpoint, terminal)?;
    let mut speed = Speed::new(start.elapsed());
    let shown = Shown::new(tokenizer.as_ref(), &prompt, &args.stop)?;
    let mut run = Run { args, checkpoint: &checkpoint, sampler, generated: Vec::new(), shown };
    match run.all(&compiled, prompt, &mut speed, terminal)? {
        Ok(()) => {}
        Err(stop) => return stopped(stop, &compiled, terminal),
    }
    if args.bench {
        speed.show(&compiled.module, terminal)?;
    }
    Ok(Exit::Fine)
}

fn quantization(argument: Quantize) -> Quantization {
    match argument {
        Quantize::Q4_0 => Quantization::Q4_0,
        Quantize::Q8_0 => Quantization::Q8_0,
        Quantize::Bf16 => Quantization::Bf16,
    }
}

/// Says which matrices were to be quantized and are not.
fn show_quantized(
    args: &GenerateArgs,
    checkpoint: &Checkpoint,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let (Some(to), text) = (args.quantize.map(quantization), &checkpoint.text) else {
        return Ok(());
    };
    if terminal.format == Format::Json {
        let object = json!({
            "type": "quantization",
            "format": to.name(),
            "matrices": text.quantized,
            "kept": text.kept,
        });
        return terminal.result(&format!("{object}\n"));
    }
    let kept = text.kept.iter().map(|(name, why)| format!("\n  `{name}`: {why}"));
    let kept: String = kept.collect();
    if !kept.is_empty() {
        terminal.note(&format!("not quantized to {to}:{kept}"));
    }
    Ok(())
}

/// Where weights are quantized, activations are rounded by default.
fn activations(args: &GenerateArgs, checkpoint: &Checkpoint) -> Result<Activations, Failure> {
    let rounds = checkpoint.is_quantized && args.numerics.sums() == Sums::AnyOrder;
    let own = if rounds { Activations::Q8 } else { Activations::F32 };
    args.activations.unwrap_or(own).with(args.numerics)
}

fn sampling(args: &GenerateArgs) -> Sampling {
    Sampling {
        temperature: args.temperature,
        top_k: args.top_k,
        top_p: args.top_p,
        min_p: args.min_p,
        repeat_penalty: args.repeat_penalty,
    }
}

/// The tokens to continue.
fn prompt(
    args: &GenerateArgs,
    checkpoint: &Checkpoint,
    tokenizer: Option<&Tokenizer>,
) -> Result<Vec<u32>, Failure> {
    let tokens = match (tokenizer, &args.prompt) {
        (None, _) => args.tokens.clone().unwrap_or_default(),
        (Some(tokenizer), None) if args.chat.is_some() => {
            let text = conversation(args, checkpoint, tokenizer)?;
            tokenizer.encode(&text, Special::Template).map_err(Failure::usage)?
        }
        (Some(tokenizer), Some(text)) => encoded(tokenizer, text)?,
        (Some(tokenizer), None) => {
            let mut text = String::new();
            let read = io::stdin().take(LONGEST_PROMPT).read_to_string(&mut text);
            read.map_err(|error| Failure::usage(format!("the standard input: {error}")))?;
            encoded(tokenizer, &text)?
        }
    };
    let (vocabulary, context) = (checkpoint.config.vocabulary, checkpoint.config.context);
    if tokens.is_empty() {
        return Err(Failure::usage("the prompt has no tokens"));
    }
    if let Some(token) = tokens.iter().find(|&&token| token as usize >= vocabulary) {
        return Err(Failure::usage(format!(
            "--tokens: {token} is no token of the model, which has {vocabulary} of them"
        )));
    }
    if tokens.len() >= context {
        return Err(Failure::usage(format!(
            "the prompt has {} tokens: the context of the model has {context}, of which the last one must be free",
            tokens.len()
        )));
    }
    Ok(tokens)
}

/// The message of `--chat` in the form of the model's template.
fn conversation(
    args: &GenerateArgs,
    checkpoint: &Checkpoint,
    tokenizer: &Tokenizer,
) -> Result<String, Failure> {
    let Template { text, bos, eos } = checkpoint.chat_template(tokenizer)?;
    let message = |role: &str, content: &Option<String>| {
        let content = content.clone()?;
        Some(Message { role: role.to_owned(), content })
    };
    let messages = [message("system", &args.system), message("user", &args.chat)];
    let messages: Vec<Message> = messages.into_iter().flatten().collect();
    // Without a date: the same command gives the same text tomorrow.
    let ending = Ending::GenerationPrompt;
    let chat = Chat { messages: &messages, bos: &bos, eos: &eos, ending, date: None };
    chat.render(&text).map_err(Failure::usage)
}

/// Tokens that control the model are ordinary text in a prompt.
fn encoded(tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, Failure> {
    tokenizer.encode(text, Special::Plain).map_err(Failure::usage)
}

fn stopped(stop: Stop, compiled: &Compiled, terminal: &mut Terminal) -> Outcome {
    let (finding, exit) = finding_of_stop(&stop_to_semantics(stop), &compiled.source);
    show(terminal, &compiled.source, &[finding]);
    Ok(exit)
}

/// One text that is generated.
struct Run<'r> {
    args: &'r GenerateArgs,
    checkpoint: &'r Checkpoint,
    sampler: Sampler,
    generated: Vec<u32>,
    shown: Shown<'r>,
}

impl Run<'_> {
    fn all(
        &mut self,
        compiled: &Compiled,
        prompt: Vec<u32>,
        speed: &mut Speed,
        terminal: &mut Terminal,
    ) -> Result<Result<(), Stop>, Failure> {
        let config = &self.checkpoint.config;
        let most = prompt.len().saturating_add(self.args.max_tokens).min(config.context);
        let mut session = Session::new(compiled, config, most).map_err(Failure::missing)?;
        let mut earlier = prompt.clone();
        let mut next = prompt;
        let reason = loop {
            if self.generated.len() >= self.args.max_tokens {
                break "max_tokens";
            }
            let (start, allocated) = (Instant::now(), compiled.module.allocations());
            let logits = match session.step(&next) {
                Ok(logits) => logits,
                Err(stop) => return Ok(Err(stop)),
            };
            speed.add(next.len(), start.elapsed(), compiled.module.allocations() - allocated);
            let chosen = self.sampler.choose(&logits, &earlier).map_err(Failure::missing)?;
            if self.checkpoint.ends.contains(&chosen.token) {
                break "end";
            }
            earlier.push(chosen.token);
            self.generated.push(chosen.token);
            if self.shown.add(chosen, self.args.logprobs, terminal)? {
                break "stop";
            }
            if session.positions + 1 >= config.context {
                break "context";
            }
            next = vec![chosen.token];
        };
        self.shown.end(reason, self.generated.len(), terminal)?;
        Ok(Ok(()))
    }
}
