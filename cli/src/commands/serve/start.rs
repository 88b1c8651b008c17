//! The start of the server: arguments are checked before the model is loaded, the address is bound, and two threads begin.

use super::connections;
use super::engine::Engine;
use super::handlers::Shared;
use super::log::{self, Log, now};
use super::metrics::Metrics;
use super::queue::Queue;
use crate::args::ServeArgs;
use crate::commands::generate::{Checkpoint, Pool, Template, Vision, load, opened};
use crate::commands::run::size;
use crate::environment::API_KEY;
use crate::exit::{Exit, Failure, Outcome};
use crate::signals;
use crate::terminal::Terminal;
use relax_driver::sizes::binary;
use relax_llm::Tokenizer;
use serde_json::json;
use std::net::TcpListener;
use std::num::NonZero;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;
use tokio::sync::watch;

/// Templates and tokenizers recurse; requests that are read at once.
const STACK: usize = 16 << 20;
const READERS: usize = 4;

pub(crate) fn serve(args: &ServeArgs, terminal: &mut Terminal) -> Outcome {
    let key = key(args)?;
    let (max_body, cache_bytes) =
        (size("--max-body", &args.max_body)?, size("--cache-memory", &args.cache_memory)?);
    let checkpoint = opened(&args.loading)?;
    let tokenizer = Arc::new(checkpoint.tokenizer()?);
    let vision = Vision::of(&checkpoint)?.map(Arc::new);
    let (context, max_tokens) = limits(args, &checkpoint, cache_bytes)?;
    // Before the model is compiled, which takes long.
    let listener = bound(args)?;
    let compiled = load(&args.loading, &checkpoint, terminal)?;
    let template = template(&checkpoint, &tokenizer, terminal);
    let pool = Pool::of_bytes(&compiled, &checkpoint.config, cache_bytes);
    let pool = pool.map_err(Failure::missing)?;
    let (queue, metrics) = (Arc::new(Queue::new(args.queue.get())), Arc::new(Metrics::default()));
    let (log, lines) = Log::new(terminal.format, Arc::clone(&metrics));
    let config = checkpoint.config.clone();
    let shared = Arc::new(Shared {
        tokenizer: Arc::clone(&tokenizer),
        vocabulary: checkpoint.config.vocabulary,
        ends: checkpoint.ends.clone(),
        grammars: OnceLock::new(),
        template,
        vision: vision.clone(),
        speech: checkpoint.speech_tokens.clone().zip(checkpoint.config.max_samples()),
        model: model_name(args),
        created: now() as u64,
        key,
        max_tokens,
        context,
        max_body,
        timeout: Duration::from_secs(args.timeout.get().into()),
        cache_bytes,
        bytes: Box::new(move |positions| Pool::bytes(&config, positions)),
        most_waiting: args.queue.get(),
        queue: Arc::clone(&queue),
        metrics: Arc::clone(&metrics),
        log,
        answers: AtomicU64::new(0),
    });
    let address = listener.local_addr().map_err(Failure::usage)?;
    say(args, &shared, address.to_string(), terminal)?;
    let (stop, stopped) = watch::channel(false);
    let engine = Engine {
        checkpoint: &checkpoint,
        tokenizer: &tokenizer,
        vision: vision.as_deref(),
        queue: &queue,
        metrics: &metrics,
        stop: &stop,
        parallel: args.parallel.get(),
        bytes: cache_bytes,
    };
    let grace = Duration::from_secs(args.grace.into());
    let writer = thread::spawn(move || log::write(&lines));
    stop_on_signal(stop.clone());
    let server = thread::spawn(move || served(listener, (shared, stopped), grace));
    engine.run(pool);
    let is_complete = server.join().unwrap_or(Err("the server panicked".to_owned()));
    let _ = writer.join();
    match is_complete.map_err(Failure::missing)? {
        true => Ok(Exit::Fine),
        false => {
            terminal.warn("answers were cut off when the time after the signal was over");
            Ok(Exit::Stopped)
        }
    }
}

fn stop_on_signal(stop: watch::Sender<bool>) {
    signals::catch_first(Box::new(move || {
        let _ = stop.send(true);
    }));
}

/// The template of chats; a model without one serves texts only, which is said.
fn template(
    checkpoint: &Checkpoint,
    tokenizer: &Tokenizer,
    terminal: &mut Terminal,
) -> Result<Template, String> {
    let template = checkpoint.chat_template(tokenizer).map_err(|why| match why {
        Failure::Message { text, .. } => text,
        _ => String::new(),
    });
    // Models of speech have no chats.
    if let (Err(why), None) = (&template, &checkpoint.speech_tokens) {
        terminal.warn(&format!("no chats: {why}"));
    }
    template
}

/// The server on a thread of its own, until a signal ends it; whether all answers were complete.
fn served(
    listener: TcpListener,
    (shared, stopped): (Arc<Shared>, watch::Receiver<bool>),
    grace: Duration,
) -> Result<bool, String> {
    let queue = Arc::clone(&shared.queue);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().max_blocking_threads(READERS).thread_stack_size(STACK);
    let result = builder.build().map_err(|error| error.to_string()).and_then(|runtime| {
        let complete = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            Ok(connections::serve(listener, shared, stopped, grace).await)
        });
        runtime.shutdown_timeout(Duration::ZERO);
        complete.map_err(|error: std::io::Error| error.to_string())
    });
    // The thread of the model ends too.
    queue.cut();
    result
}

fn key(args: &ServeArgs) -> Result<Option<String>, Failure> {
    let key = match &args.api_key {
        Some(key) => Some(key.clone()),
        None => std::env::var_os(API_KEY)
            .filter(|key| !key.is_empty())
            .map(|key| key.to_string_lossy().into_owned()),
    };
    match &key {
        Some(key) if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Err(Failure::usage("the API key must be visible ASCII characters without spaces"))
        }
        None if !args.listen.ip().is_loopback() => Err(Failure::usage(format!(
            "{} is not a loopback address, so that others can reach it: give a key with {API_KEY} or --api-key",
            args.listen
        ))),
        _ => Ok(key),
    }
}

/// Positions of a sequence and tokens of an answer at most.
fn limits(
    args: &ServeArgs,
    checkpoint: &Checkpoint,
    cache_bytes: u64,
) -> Result<(usize, usize), Failure> {
    let own = checkpoint.config.context;
    let context = args.context.map_or(own, NonZero::get);
    if context > own || context < 2 {
        return Err(Failure::usage(format!(
            "--context {context}: expected 2 to {own}, the context of the model"
        )));
    }
    let max_tokens = args.max_tokens.get().min(context - 1);
    let least = Pool::bytes(&checkpoint.config, max_tokens + 1);
    match least {
        Some(least) if least <= cache_bytes => Ok((context, max_tokens)),
        _ => Err(Failure::usage(format!(
            "--cache-memory {}: keys and values of an answer of {max_tokens} tokens take {}",
            args.cache_memory,
            binary(least.unwrap_or(u64::MAX) as f64)
        ))),
    }
}

fn bound(args: &ServeArgs) -> Result<TcpListener, Failure> {
    let cannot = |error: std::io::Error| {
        Failure::usage(format!("--listen {}: cannot listen there: {error}", args.listen))
    };
    let listener = TcpListener::bind(args.listen).map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    Ok(listener)
}

fn model_name(args: &ServeArgs) -> String {
    let path = &args.loading.model;
    let path = path.canonicalize().unwrap_or_else(|_| path.clone());
    let own = if path.is_dir() { path.file_name() } else { path.file_stem() };
    let own = own.map_or_else(|| "model".to_owned(), |own| own.to_string_lossy().into_owned());
    args.model_name.clone().unwrap_or(own)
}

fn say(
    args: &ServeArgs,
    shared: &Shared,
    address: String,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let model = &shared.model;
    let words = format!("serving `{model}` at http://{address}/v1\n");
    terminal.tell(&words, || {
        json!({
            "type": "serving",
            "address": address,
            "model": model,
            "parallel": args.parallel,
            "decode": if shared.speech.is_some() { "single" } else { "batched" },
            "context": shared.context,
            "max_tokens": shared.max_tokens,
            "cache_bytes": shared.cache_bytes,
        })
    })?;
    terminal.flush()
}
