//! `relax generate`: tokens of a language model, one after the other.

mod checkpoint;
mod compiled;
mod encoded;
mod form;
mod gguf_metadata;
mod loading;
mod pool;
mod sequence;
mod shown;
mod speech;
mod speed;
mod text;
mod vision;
mod windows;

pub(crate) use checkpoint::Checkpoint;
#[cfg(feature = "serve")]
pub(crate) use checkpoint::Template;
pub(crate) use compiled::Compiled;
pub(crate) use encoded::Encoded;
pub(crate) use loading::{load, opened};
pub(crate) use pool::Pool;
pub(crate) use sequence::{Asked, Interrupted, Sequence, Suppressed};
#[cfg(feature = "serve")]
pub(crate) use sequence::{Emitted, Reason, Step};
pub(crate) use speech::{Speech, suppressed};
pub(crate) use vision::{Pixels, Vision};
use windows::Windows;

use crate::args::GenerateArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::report::{finding_of_stop, show};
use crate::terminal::Terminal;
use form::constraint;
use relax_llm::{Content, Message, Sampler, Sampling, Special, Tokenizer};
use relax_reference::stop_to_semantics;
use relax_runtime::{Module, Stop};
use shown::{Shown, end};
use speed::Speed;
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::path::Path;
use std::time::Instant;

/// Bytes of a prompt, as of [`Tokenizer::encode`], and one more.
const LONGEST_PROMPT: u64 = (16 << 20) + 1;

pub(super) fn generate(args: &GenerateArgs, terminal: &mut Terminal) -> Outcome {
    let sampler = Sampler::new(sampling(args), args.seed).map_err(Failure::usage)?;
    let start = Instant::now();
    let checkpoint = opened(&args.loading)?;
    if args.program {
        terminal.result(&checkpoint.text.text)?;
        return Ok(Exit::Fine);
    }
    // Numbers need no vocabulary.
    let tokenizer = match args.tokens {
        Some(_) => None,
        None => Some(checkpoint.tokenizer()?),
    };
    let (speech, vision) = (Speech::read(args, &checkpoint)?, Vision::of(&checkpoint)?);
    let pixels = match &vision {
        Some(vision) => vision.read(&args.image)?,
        None if args.image.is_empty() => Pixels::default(),
        None => return Err(Failure::usage("--image: the model reads text only")),
    };
    // The prompt of a model of speech may depend on the language that it detects.
    let prompt = match speech.is_some() && args.tokens.is_none() {
        true => None,
        false => Some(prompt(args, &checkpoint, (tokenizer.as_ref(), vision.as_ref()))?),
    };
    let constraint = match (&args.grammar, tokenizer.as_ref()) {
        (Some(path), Some(tokenizer)) => Some(constraint(path, tokenizer, &checkpoint)?),
        _ => None,
    };
    let compiled = load(&args.loading, &checkpoint, terminal)?;
    let mut speed = Speed::new(start.elapsed(), checkpoint.text.step_bytes);
    let (context, max_tokens) = (checkpoint.config.context, max_tokens(args));
    let positions = prompt.as_ref().map(|prompt| prompt.len().saturating_add(max_tokens));
    let positions = context.min(positions.unwrap_or(context));
    let pool = Pool::of_positions(&compiled, &checkpoint.config, positions);
    let mut pool = pool.map_err(Failure::missing)?;
    let given = Given { speech, vision, pixels };
    if let Some(done) =
        given.in_windows((args, &checkpoint, tokenizer.as_ref()), &mut pool, terminal)?
    {
        return match done {
            Ok(()) => Ok(Exit::Fine),
            Err(stop) => stopped(stop, &compiled, terminal),
        };
    }
    let (prompt, encoded) = match given.begin(prompt, &checkpoint, (&mut pool, &mut speed)) {
        Ok(begun) => begun,
        Err(stop) => return stopped(stop, &compiled, terminal),
    };
    let asked = Asked {
        prompt,
        sampler,
        max_tokens,
        context,
        top_logprobs: 0,
        stops: args.stop.clone(),
        suppressed: checkpoint.speech_tokens.as_ref().map_or_else(Suppressed::default, suppressed),
        constraint,
    };
    let sequence = Sequence::new((&checkpoint, &pool), tokenizer.as_ref(), (asked, encoded));
    let sequence = sequence.map_err(failure)?;
    let measured = (&compiled.module, &mut speed);
    if let Err(stop) = print(args, (sequence, &mut pool), measured, terminal)? {
        return stopped(stop, &compiled, terminal);
    }
    if args.bench {
        speed.show(&compiled.module, terminal)?;
    }
    Ok(Exit::Fine)
}

/// What a model is given beside a prompt.
struct Given {
    speech: Option<Speech>,
    vision: Option<Vision>,
    pixels: Pixels,
}

impl Given {
    /// Transcribes speech whose text has times; `None` for anything else.
    fn in_windows(
        &self,
        (args, checkpoint, tokenizer): (&GenerateArgs, &Checkpoint, Option<&Tokenizer>),
        pool: &mut Pool<'_>,
        terminal: &mut Terminal,
    ) -> Result<Option<Result<(), Stop>>, Failure> {
        let speech = self.speech.as_ref().filter(|speech| speech.in_windows);
        let tokens = checkpoint.speech_tokens.as_ref();
        let times = tokens.and_then(|tokens| tokens.times.as_ref());
        let (Some(speech), Some(tokens), Some(times), Some(tokenizer)) =
            (speech, tokens, times, tokenizer)
        else {
            return Ok(None);
        };
        let windows = Windows { args, checkpoint, tokenizer, tokens, times };
        windows.transcribe(speech, pool, terminal).map(Some)
    }

    /// Encodes it; the tokens that the text begins with, which are those of the prompt where there is one.
    fn begin(
        &self,
        prompt: Option<Vec<u32>>,
        checkpoint: &Checkpoint,
        (pool, speed): (&mut Pool<'_>, &mut Speed),
    ) -> Result<(Vec<u32>, Encoded), Stop> {
        let start = Instant::now();
        if let (Some(speech), Some(tokens)) = (&self.speech, &checkpoint.speech_tokens) {
            let encoded = speech.encode(pool)?;
            speed.encode(speech.seconds(), start.elapsed());
            let prompt = prompt.map_or_else(|| speech.prompt(tokens, &encoded, pool), Ok)?;
            return Ok((prompt, encoded));
        }
        let mut encoded = Encoded::Nothing;
        if let Some(vision) = self.vision.as_ref().filter(|_| self.pixels.images > 0) {
            encoded = vision.encode(&self.pixels, pool)?;
            speed.encode_images(self.pixels.images, start.elapsed());
        }
        Ok((prompt.unwrap_or_default(), encoded))
    }
}

/// What is known of a file, which must not be a pipe or a device.
fn regular(path: &Path) -> Result<Metadata, String> {
    let metadata = fs::metadata(path).map_err(|error| format!("cannot read it: {error}"))?;
    if metadata.is_file() { Ok(metadata) } else { Err("it is no file".to_owned()) }
}

fn max_tokens(args: &GenerateArgs) -> usize {
    args.max_tokens.unwrap_or(if args.audio.is_some() { usize::MAX } else { 128 })
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
    (tokenizer, vision): (Option<&Tokenizer>, Option<&Vision>),
) -> Result<Vec<u32>, Failure> {
    let tokens = match (tokenizer, &args.prompt) {
        (None, _) => args.tokens.clone().unwrap_or_default(),
        (Some(tokenizer), None) if args.chat.is_some() => {
            let text = conversation(args, checkpoint, tokenizer)?;
            tokenizer.encode(&text, Special::Template).map_err(Failure::usage)?
        }
        // The places of images are tokens that are spelled.
        (Some(tokenizer), Some(text)) if !args.image.is_empty() => {
            tokenizer.encode(text, Special::Parse).map_err(Failure::usage)?
        }
        (Some(tokenizer), Some(text)) => encoded(tokenizer, text)?,
        (Some(tokenizer), None) => {
            let mut text = String::new();
            let read = io::stdin().take(LONGEST_PROMPT).read_to_string(&mut text);
            read.map_err(|error| Failure::usage(format!("the standard input: {error}")))?;
            encoded(tokenizer, &text)?
        }
    };
    let tokens = match vision {
        Some(vision) => vision.expanded(&tokens, args.image.len()).map_err(Failure::usage)?,
        None => tokens,
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
    let template = checkpoint.chat_template(tokenizer)?;
    let message = |role: &str, text: &Option<String>, images: usize| {
        let (role, text) = (role.to_owned(), text.clone()?);
        let content = match images {
            0 => Content::Text(text),
            _ => Content::with_images(images, text),
        };
        Some(Message { role, content })
    };
    let messages =
        [message("system", &args.system, 0), message("user", &args.chat, args.image.len())];
    let messages: Vec<Message> = messages.into_iter().flatten().collect();
    template.render(&messages).map_err(Failure::usage)
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

fn failure(why: Interrupted) -> Failure {
    match why {
        Interrupted::Stop(stop) => Failure::missing(stop),
        Interrupted::Sampling(why) => Failure::missing(why),
        Interrupted::Token(why) => Failure::usage(why),
        Interrupted::Grammar(why) => Failure::missing(why),
    }
}

/// Prints a text, token by token.
fn print(
    args: &GenerateArgs,
    (mut sequence, pool): (Sequence<'_>, &mut Pool<'_>),
    (module, speed): (&Module, &mut Speed),
    terminal: &mut Terminal,
) -> Result<Result<(), Stop>, Failure> {
    let mut shown = Shown::new();
    loop {
        let (start, allocated) = (Instant::now(), module.allocations());
        let step = match sequence.step(pool) {
            Ok(step) => step,
            Err(Interrupted::Stop(stop)) => return Ok(Err(stop)),
            Err(other) => return Err(failure(other)),
        };
        if step.rows > 0 {
            speed.add(step.rows, start.elapsed(), module.allocations() - allocated);
        }
        if let Some(token) = &step.token {
            speed.end_prompt();
            shown.add(token, args.logprobs, terminal)?;
        }
        if let Some((reason, rest)) = step.end {
            end((reason, &rest), sequence.generated(), terminal)?;
            return Ok(Ok(()));
        }
    }
}
