//! `relax serve`: a language model behind the HTTP interface of OpenAI. The model is called by one thread, which takes sequences from a bounded
//! queue and advances them in turns; another thread runs the server.

#[cfg(feature = "serve")]
mod answer;
#[cfg(feature = "serve")]
mod connections;
#[cfg(feature = "serve")]
mod engine;
#[cfg(feature = "serve")]
mod fields;
#[cfg(feature = "serve")]
mod handlers;
#[cfg(feature = "serve")]
mod log;
#[cfg(feature = "serve")]
mod messages;
#[cfg(feature = "serve")]
mod metrics;
#[cfg(feature = "serve")]
mod queue;
#[cfg(feature = "serve")]
mod refusal;
#[cfg(feature = "serve")]
mod request;
#[cfg(feature = "serve")]
mod start;
#[cfg(feature = "serve")]
mod stream;

#[cfg(feature = "serve")]
pub(super) use start::serve;

#[cfg(not(feature = "serve"))]
pub(super) fn serve(
    _args: &crate::args::ServeArgs,
    _terminal: &mut crate::terminal::Terminal,
) -> crate::exit::Outcome {
    let words = "this build has no server: build the command with the feature `serve`";
    Err(crate::exit::Failure::missing(words))
}
