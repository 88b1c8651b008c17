//! The routes of the server, and what every request must pass: the key, the host, and limits on its body.

use super::answer::Head;
use super::log::{Access, Log, now};
use super::metrics::Metrics;
use super::multipart::{boundary, parts};
use super::queue::{Input, Job, News, Queue};
use super::refusal::{Refusal, object};
use super::request::{Kind, Request, no_model};
use super::stream::{Answer, transcript};
use super::transcription::{Form, Transcription};
use crate::commands::generate::{Asked, Template, Vision};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::StreamExt;
use relax_llm::{GrammarError, Grammars, SpeechTokens, Tokenizer};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{Instant, timeout};

/// In which a body has to arrive.
const BODY: Duration = Duration::from_secs(30);
/// What is read of a body that is too large, in bytes and time, so that its sender reads why it is refused.
const MOST_REFUSED: u64 = 64 << 20;
const REFUSED: Duration = Duration::from_secs(2);

/// What all requests share.
pub(super) struct Shared {
    pub(super) tokenizer: Arc<Tokenizer>,
    /// Logits, and tokens that end a text.
    pub(super) vocabulary: usize,
    pub(super) ends: Vec<u32>,
    /// Made when the first request asks for a form.
    pub(super) grammars: OnceLock<Result<Grammars, GrammarError>>,
    /// Of chats, or why there is none.
    pub(super) template: Result<Template, String>,
    /// How a model of text and images takes these.
    pub(super) vision: Option<Arc<Vision>>,
    /// How a model of speech is asked, and samples at most.
    pub(super) speech: Option<(SpeechTokens, usize)>,
    /// The name of the model.
    pub(super) model: String,
    pub(super) created: u64,
    pub(super) key: Option<String>,
    pub(super) max_tokens: usize,
    pub(super) context: usize,
    pub(super) max_body: u64,
    pub(super) timeout: Duration,
    /// Bytes of keys and values: of all sequences at most, and of one of so many positions.
    pub(super) cache_bytes: u64,
    pub(super) bytes: Box<dyn Fn(usize) -> Option<u64> + Send + Sync>,
    pub(super) most_waiting: usize,
    pub(super) queue: Arc<Queue>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) log: Log,
    pub(super) answers: AtomicU64,
}

impl Shared {
    pub(super) fn grammars(&self) -> Result<&Grammars, GrammarError> {
        let made = || Grammars::new(&self.tokenizer, self.vocabulary, &self.ends);
        self.grammars.get_or_init(made).as_ref().map_err(Clone::clone)
    }
}

/// The address of the client of a connection.
#[derive(Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(text))
        .route("/v1/audio/transcriptions", post(transcription))
        .route("/v1/models", get(models))
        .route("/v1/models/{*name}", get(model))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .fallback(no_path)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(Arc::clone(&shared), guard))
        .with_state(shared)
}

async fn no_path() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "there is no such path")
}

async fn no_method() -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "the path has no such method")
}

/// Logs the request, and refuses it without the key or with the name of another host.
async fn guard(
    State(shared): State<Arc<Shared>>,
    Extension(Peer(peer)): Extension<Peer>,
    mut request: axum::extract::Request,
    next: Next,
) -> Response {
    let (method, path) = (request.method().as_str(), request.uri().path());
    let access = Arc::new(Access::new(&shared.log, peer, method, path));
    let is_health = path == "/health";
    request.extensions_mut().insert(Arc::clone(&access));
    let response = match permitted(&shared, request.headers()) {
        Err(refusal) if !is_health => refusal.into_response(),
        _ => next.run(request).await,
    };
    access.status.store(response.status().as_u16(), Relaxed);
    response
}

fn permitted(shared: &Shared, headers: &HeaderMap) -> Result<(), Refusal> {
    if let Some(key) = &shared.key {
        let given = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
        let given = given.and_then(|value| value.strip_prefix(b"Bearer "));
        return match given {
            Some(given) if are_equal(given, key.as_bytes()) => Ok(()),
            _ => Err(Refusal::new(StatusCode::UNAUTHORIZED, "the API key is missing or wrong")),
        };
    }
    // Without a key, a page of the web whose name was bound to this address would be served.
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if is_loopback(host) {
        return Ok(());
    }
    let words = "without an API key, the host must be localhost or a loopback address";
    Err(Refusal::new(StatusCode::FORBIDDEN, words))
}

/// Takes as long wherever the first difference is.
fn are_equal(left: &[u8], right: &[u8]) -> bool {
    let differences = left.iter().zip(right).fold(0, |all, (left, right)| all | (left ^ right));
    left.len() == right.len() && std::hint::black_box(differences) == 0
}

/// Whether a host with or without a port is this machine.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

async fn health(State(shared): State<Arc<Shared>>) -> Response {
    if shared.queue.is_stopping() {
        return Refusal::stopping().into_response();
    }
    object(StatusCode::OK, &json!({ "status": "ok" }))
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (headers, shared.metrics.text(shared.queue.waiting())).into_response()
}

fn described(shared: &Shared) -> Value {
    json!({
        "id": shared.model,
        "object": "model",
        "created": shared.created,
        "owned_by": "relax",
        "context_length": shared.context,
    })
}

async fn models(State(shared): State<Arc<Shared>>) -> Response {
    object(StatusCode::OK, &json!({ "object": "list", "data": [described(&shared)] }))
}

async fn model(State(shared): State<Arc<Shared>>, Path(name): Path<String>) -> Response {
    if name == shared.model {
        return object(StatusCode::OK, &described(&shared));
    }
    no_model(&shared).into_response()
}

async fn chat(
    State(shared): State<Arc<Shared>>,
    Extension(access): Extension<Arc<Access>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    answer(Kind::Chat, shared, access, (headers, body)).await
}

async fn text(
    State(shared): State<Arc<Shared>>,
    Extension(access): Extension<Arc<Access>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    answer(Kind::Text, shared, access, (headers, body)).await
}

async fn answer(
    kind: Kind,
    shared: Arc<Shared>,
    access: Arc<Access>,
    (headers, body): (HeaderMap, Body),
) -> Result<Response, Refusal> {
    let deadline = Instant::now() + shared.timeout;
    if shared.queue.is_stopping() {
        return Err(Refusal::stopping());
    }
    // Browsers ask before they send JSON to another host, so that pages of the web cannot.
    if !content_type(&headers)
        .split(';')
        .next()
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
    {
        let words = "the content type must be application/json";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, words));
    }
    let body = read(body, shared.max_body).await?;
    let reader = Arc::clone(&shared);
    let request = blocking(move || Request::read(kind, &body, &reader)).await?;
    access.prompt.store(request.prompt.len() as u64, Relaxed);
    let choice = |choice| {
        let images = (request.pixels.images > 0).then(|| Arc::clone(&request.pixels));
        Ok((request.asked(choice, &shared)?, images.map_or(Input::Text, Input::Images)))
    };
    let choices = (0..request.choices).map(choice).collect::<Result<_, Refusal>>()?;
    let events = admit(&shared, (request.positions(&shared), "max_tokens"), choices)?;
    let number = shared.answers.fetch_add(1, Relaxed);
    let kind = if request.kind == Kind::Chat { "chatcmpl" } else { "cmpl" };
    let head = Head {
        kind: request.kind,
        id: format!("{kind}-{}-{number}", shared.created),
        created: now() as u64,
        model: shared.model.clone(),
        has_logprobs: request.logprobs.is_some(),
        include_usage: request.include_usage,
    };
    let (choices, prompt) = (request.choices, request.prompt.len());
    let answer = Answer { head, choices, prompt, events, deadline, shared, access };
    if request.is_stream { answer.stream().await } else { answer.whole().await }
}

async fn transcription(
    State(shared): State<Arc<Shared>>,
    Extension(access): Extension<Arc<Access>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let deadline = Instant::now() + shared.timeout;
    if shared.queue.is_stopping() {
        return Err(Refusal::stopping());
    }
    refuse_pages(&shared, &headers)?;
    let Some(boundary) = boundary(content_type(&headers)) else {
        let words = "the content type must be multipart/form-data with a boundary";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, words));
    };
    let body = read(body, shared.max_body).await?;
    let reader = Arc::clone(&shared);
    let parts = parts(body, boundary).await.map_err(|why| {
        Refusal::new(StatusCode::BAD_REQUEST, format!("the body is no form: {why}"))
    })?;
    let request = blocking(move || Transcription::read(parts, &reader)).await?;
    let form = request.form;
    let sequence = (request.asked(&shared), Input::Speech(request.speech));
    let events = admit(&shared, (shared.context, "file"), vec![sequence])?;
    let text = transcript(events, (deadline, &shared), &access).await?;
    Ok(match form {
        Form::Json => object(StatusCode::OK, &json!({ "text": text })),
        Form::Text => (format!("{text}\n")).into_response(),
    })
}

/// Pages of the web may send forms to any host without asking: without a key, those of other hosts are refused.
fn refuse_pages(shared: &Shared, headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(origin) = headers.get(header::ORIGIN).filter(|_| shared.key.is_none()) else {
        return Ok(());
    };
    let host = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    match host {
        Some((_, host)) if is_loopback(host) => Ok(()),
        _ => Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "without an API key, pages of the web may not send forms",
        )),
    }
}

/// Work that takes long, on a thread of its own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Refusal::internal("the request could not be read"))?
}

fn content_type(headers: &HeaderMap) -> &str {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.unwrap_or_default()
}

/// Puts the sequences of a request into the queue, if they can ever be computed.
fn admit(
    shared: &Shared,
    (positions, param): (usize, &str),
    choices: Vec<(Asked, Input)>,
) -> Result<News, Refusal> {
    let bytes = (shared.bytes)(positions).filter(|bytes| *bytes <= shared.cache_bytes);
    let Some(bytes) = bytes else {
        let words = format!(
            "keys and values of {positions} positions take more memory than the server has for all sequences: ask for fewer tokens"
        );
        return Err(Refusal::field(param, words));
    };
    if choices.len() > shared.most_waiting {
        let words = format!("`n` is {}: the queue has {}", choices.len(), shared.most_waiting);
        return Err(Refusal::field("n", words));
    }
    let (events, receiver) = unbounded_channel();
    let jobs = choices.into_iter().enumerate().map(|(choice, (asked, input))| Job {
        asked,
        input,
        bytes,
        choice,
        events: events.clone(),
    });
    shared.queue.push(jobs.collect())?;
    Ok(receiver)
}

/// A body within the limit.
async fn read(body: Body, most: u64) -> Result<Vec<u8>, Refusal> {
    let mut parts = body.into_data_stream();
    let mut bytes = Vec::new();
    let reading = async {
        while let Some(part) = parts.next().await {
            let part: Bytes = part.map_err(|_| {
                Refusal::new(StatusCode::BAD_REQUEST, "the body ends before its length")
            })?;
            if (bytes.len() + part.len()) as u64 > most {
                return Ok(false);
            }
            bytes.extend_from_slice(&part);
        }
        Ok(true)
    };
    match timeout(BODY, reading).await {
        Ok(Ok(true)) => return Ok(bytes),
        Ok(Ok(false)) => {}
        Ok(Err(refusal)) => return Err(refusal),
        Err(_) => {
            let words = format!("the body took more than {} s", BODY.as_secs());
            return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, words));
        }
    }
    let rest = async {
        let mut passed = 0;
        while let Some(Ok(part)) = parts.next().await {
            passed += part.len() as u64;
            if passed > MOST_REFUSED {
                break;
            }
        }
    };
    let _ = timeout(REFUSED, rest).await;
    let words = format!("the body has more than {most} bytes");
    Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, words))
}

#[cfg(test)]
mod tests {
    use super::{are_equal, is_loopback};

    #[test]
    fn hosts_of_this_machine_are_known() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:8080", "127.9.9.9", "[::1]:1", "[::1]"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["", "example.com", "localhost.example.com", "10.0.0.1:80", "127.0.0.1.a:1"] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn keys_are_compared_whole() {
        assert!(are_equal(b"key", b"key"));
        for other in [b"kez".as_slice(), b"ke", b"keys", b""] {
            assert!(!are_equal(other, b"key"));
        }
    }
}
