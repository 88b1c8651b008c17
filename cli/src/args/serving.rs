//! Arguments of `relax serve`.

use super::LoadingArgs;
use clap::Args;
use std::net::SocketAddr;
use std::num::NonZero;

/// Serve a language model over HTTP, as clients of OpenAI expect it
///
/// `/v1/chat/completions`, `/v1/completions` and `/v1/models`, with streams; `/health`, and `/metrics` for Prometheus. A request gets the
/// same text as `relax generate` gives for its prompt and seed, whatever else is computed at that time. A call of the model computes the next token
/// of all sequences, so that weights are read once for all of them (continuous batching). SIGINT and SIGTERM end running answers first.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) loading: LoadingArgs,
    /// Address and port; port 0 is any that is free. An address that is not of the loopback interface needs a key
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    pub(crate) listen: SocketAddr,
    /// The key that requests need, as `Authorization: Bearer KEY`; by default RELAX_API_KEY. Other users may see command lines
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<String>,
    /// The name of the model in requests; by default that of the file or folder
    #[arg(long, value_name = "NAME")]
    pub(crate) model_name: Option<String>,
    /// Sequences that are computed together; others wait
    #[arg(long, value_name = "N", default_value = "8")]
    pub(crate) parallel: NonZero<usize>,
    /// Sequences that wait; more are refused with status 429
    #[arg(long, value_name = "N", default_value = "64")]
    pub(crate) queue: NonZero<usize>,
    /// Tokens of an answer at most, and where a request gives no number
    #[arg(long, value_name = "N", default_value = "1024")]
    pub(crate) max_tokens: NonZero<usize>,
    /// Tokens of a prompt and its answer at most; by default the context of the model
    #[arg(long, value_name = "N")]
    pub(crate) context: Option<NonZero<usize>>,
    /// Limit on keys and values of all sequences: bytes, or with K, M, G
    #[arg(long, value_name = "SIZE", default_value = "2G")]
    pub(crate) cache_memory: String,
    /// Limit on the body of a request: bytes, or with K, M, G
    #[arg(long, value_name = "SIZE", default_value = "4M")]
    pub(crate) max_body: String,
    /// Seconds from a request to the end of its answer
    #[arg(long, value_name = "S", default_value = "600")]
    pub(crate) timeout: NonZero<u32>,
    /// Seconds that running answers have after SIGINT or SIGTERM
    #[arg(long, value_name = "S", default_value = "30")]
    pub(crate) grace: u32,
}
