//! The cache of compiled kernels and module files: where it is, and `relax cache`.

use super::run::size;
use crate::args::{CacheArgs, Format};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::Terminal;
use relax_cpu::{Cache, Contents, LIMIT, Unusable, Usage};
use relax_driver::Modules;
use serde_json::json;
use std::env;
use std::sync::OnceLock;

/// Bytes of the whole cache.
const SIZE: &str = "RELAX_CACHE_SIZE";

/// Bytes of all compiled models of `relax generate`, and what they are where none are given.
const MODEL_SIZE: &str = "RELAX_MODEL_CACHE_SIZE";
const MODEL_LIMIT: u64 = 64 << 30;

/// Of this process.
enum Opened {
    OfUser(Cache),
    /// The user has none that can be used.
    Temporary(Cache, Unusable),
}

static OPENED: OnceLock<Result<Opened, String>> = OnceLock::new();

fn opened() -> Result<&'static Opened, Failure> {
    let limit = limit()?;
    let opened = OPENED.get_or_init(|| match Cache::of_user() {
        // The other half is for module files.
        Ok(cache) => Ok(Opened::OfUser(cache.of_at_most(limit / 2))),
        Err(why) => Cache::temporary()
            .map(|cache| Opened::Temporary(cache, why))
            .map_err(|error| format!("no folder for compiled kernels: {error}")),
    });
    opened.as_ref().map_err(Failure::missing)
}

fn limit() -> Result<u64, Failure> {
    limit_of(SIZE, LIMIT)
}

fn limit_of(variable: &str, default: u64) -> Result<u64, Failure> {
    match env::var_os(variable).filter(|text| !text.is_empty()) {
        None => Ok(default),
        Some(text) => size(variable, &text.to_string_lossy()),
    }
}

/// Where compiled kernels are kept; a folder of this process where the user has none.
pub(super) fn cache() -> Result<&'static Cache, Failure> {
    let (Opened::OfUser(cache) | Opened::Temporary(cache, _)) = opened()?;
    Ok(cache)
}

/// Where what is measured is kept.
pub(super) fn of_user() -> Result<&'static Cache, Failure> {
    match opened()? {
        Opened::OfUser(cache) => Ok(cache),
        Opened::Temporary(_, why) => Err(Failure::missing(why)),
    }
}

/// Where module files are kept, if anywhere.
pub(super) fn modules() -> Result<Option<Modules>, Failure> {
    Ok(match opened()? {
        Opened::OfUser(cache) => Some(Modules::at(cache.modules()).of_at_most(cache.limit())),
        Opened::Temporary(..) => None,
    })
}

/// Where compiled models of `relax generate` are kept, if anywhere: they are large, so that their limit is their own.
pub(super) fn models() -> Result<Option<Modules>, Failure> {
    let limit = limit_of(MODEL_SIZE, MODEL_LIMIT)?;
    Ok(match opened()? {
        Opened::OfUser(cache) => Some(Modules::at(cache.models()).of_at_most(limit)),
        Opened::Temporary(..) => None,
    })
}

/// Says why nothing is kept, after a command that would have kept something.
pub(super) fn note_fallback(terminal: &mut Terminal) {
    if let Some(Ok(Opened::Temporary(_, why))) = OPENED.get() {
        terminal.note(&format!("note: {why}; compiled kernels are not kept"));
    }
}

pub(super) fn show(args: &CacheArgs, terminal: &mut Terminal) -> Outcome {
    let cache = of_user()?;
    let failed = |error| Failure::usage(format!("{}: {error}", cache.folder().display()));
    let contents = cache.contents().map_err(failed)?;
    if args.clear {
        cache.clear().map_err(failed)?;
    }
    let text = match terminal.format {
        Format::Text => text(args, cache, &contents, limit()?),
        Format::Json => json(args, cache, &contents, limit()?),
    };
    terminal.result(&text)?;
    Ok(Exit::Fine)
}

fn text(args: &CacheArgs, cache: &Cache, contents: &Contents, limit: u64) -> String {
    let row = |kind: &str, usage: Usage| {
        format!("{kind}: {} entries, {} bytes\n", usage.entries, usage.bytes)
    };
    let removed = if args.clear { "removed:\n" } else { "" };
    format!(
        "cache: {}\nlimit: {limit} bytes ({SIZE})\n{removed}{}{}{}",
        cache.folder().display(),
        row("kernels", contents.kernels),
        row("modules", contents.modules),
        row("models", contents.models),
    )
}

fn json(args: &CacheArgs, cache: &Cache, contents: &Contents, limit: u64) -> String {
    let of = |usage: Usage| json!({ "entries": usage.entries, "bytes": usage.bytes });
    let object = json!({
        "type": "cache",
        "path": cache.folder().display().to_string(),
        "limit": limit,
        "kernels": of(contents.kernels),
        "modules": of(contents.modules),
        "models": of(contents.models),
        "cleared": args.clear,
    });
    format!("{object}\n")
}
