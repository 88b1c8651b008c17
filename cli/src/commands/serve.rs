//! `relax serve`: a language model behind the HTTP interface of OpenAI. The model is called by one thread, which takes sequences from a bounded
//! queue and computes them together; another thread runs the server.

mod answer;
mod connections;
mod engine;
mod fields;
mod handlers;
mod log;
mod messages;
mod metrics;
mod multipart;
mod queue;
mod refusal;
mod request;
mod start;
mod stream;
mod transcription;

pub(super) use start::serve;
