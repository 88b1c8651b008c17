//! The two ways to send an answer: whole, or as server-sent events while it is generated.

use super::answer::{Choice, Head, usage};
use super::handlers::Shared;
use super::log::Access;
use super::queue::{Event, News};
use super::refusal::{Refusal, object};
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// How often a stream without news says that it lives, so that proxies keep it open.
const BEAT: Duration = Duration::from_secs(15);

/// An answer that is on its way. When it is dropped, its sequences end.
pub(super) struct Answer {
    pub(super) head: Head,
    pub(super) choices: usize,
    pub(super) prompt: usize,
    pub(super) events: News,
    pub(super) deadline: Instant,
    pub(super) shared: Arc<Shared>,
    /// Logged when the last byte is sent.
    pub(super) access: Arc<Access>,
}

/// The next event of a request.
async fn next(
    events: &mut News,
    (deadline, shared): (Instant, &Shared),
) -> Result<(usize, Event), Refusal> {
    match timeout_at(deadline, events.recv()).await {
        Ok(Some(event)) => Ok(event),
        // The thread of the model ended before the sequence did.
        Ok(None) => Err(Refusal::stopping()),
        Err(_) => Err(Refusal::late(shared.timeout.as_secs())),
    }
}

/// The whole text of the only sequence of a request.
pub(super) async fn transcript(
    mut events: News,
    until: (Instant, &Shared),
    access: &Access,
) -> Result<String, Refusal> {
    let mut text = String::new();
    loop {
        match next(&mut events, until).await?.1 {
            Event::Started => {}
            Event::Token(token) => {
                access.generated.fetch_add(1, Relaxed);
                text += token.text.as_deref().unwrap_or_default();
            }
            Event::End(_, rest) => return Ok(text + &rest),
            Event::Failed(refusal) => return Err(refusal),
        }
    }
}

impl Answer {
    async fn next(&mut self) -> Result<(usize, Event), Refusal> {
        next(&mut self.events, (self.deadline, &self.shared)).await
    }

    fn usage(&self) -> serde_json::Value {
        let generated = usize::try_from(self.access.generated.load(Relaxed)).unwrap_or(usize::MAX);
        usage(self.prompt, generated)
    }

    /// The whole answer.
    pub(super) async fn whole(mut self) -> Result<Response, Refusal> {
        let mut choices: Vec<Choice> = (0..self.choices).map(|_| Choice::default()).collect();
        let mut open = self.choices;
        while open > 0 {
            let (index, event) = self.next().await?;
            let choice = choices
                .get_mut(index)
                .ok_or_else(|| Refusal::internal("a choice that nobody asked for"))?;
            match event {
                Event::Started => {}
                Event::Token(token) => {
                    self.access.generated.fetch_add(1, Relaxed);
                    choice.add(token, 0);
                }
                Event::End(reason, rest) => {
                    choice.text += &rest;
                    choice.reason = Some(reason);
                    open -= 1;
                }
                Event::Failed(refusal) => return Err(refusal),
            }
        }
        let whole = self.head.whole(&choices, self.usage(), &self.shared.tokenizer);
        Ok(object(StatusCode::OK, &whole))
    }

    /// A stream that begins when the first sequence does, so that what goes wrong before has its status.
    pub(super) async fn stream(mut self) -> Result<Response, Refusal> {
        match self.next().await? {
            (_, Event::Failed(refusal)) => return Err(refusal),
            (_, Event::Started) => {}
            _ => return Err(Refusal::internal("a token before its sequence")),
        }
        let sent = (0..self.choices).map(|_| None).collect();
        let stream = Events { open: self.choices, sent, answer: self, is_done: false };
        let parts = unfold(stream, |mut stream| async move {
            let part = stream.part().await?;
            Some((Ok::<_, Infallible>(part), stream))
        });
        let mut response = Body::from_stream(parts).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Ok(response)
    }
}

struct Events {
    answer: Answer,
    /// Choices that have not ended.
    open: usize,
    /// Of each choice, characters that are sent; `None` before its first part.
    sent: Vec<Option<usize>>,
    is_done: bool,
}

impl Events {
    /// The next bytes; `None` after the last ones.
    async fn part(&mut self) -> Option<String> {
        loop {
            if self.is_done {
                return None;
            }
            if self.open == 0 {
                self.is_done = true;
                let done = "data: [DONE]\n\n".to_owned();
                if !self.answer.head.include_usage {
                    return Some(done);
                }
                let chunk = self.answer.head.usage_chunk(self.answer.usage());
                return Some(format!("data: {chunk}\n\n{done}"));
            }
            let event = match timeout(BEAT, self.answer.next()).await {
                Err(_) => return Some(": alive\n\n".to_owned()),
                Ok(event) => event,
            };
            match event {
                Err(refusal) | Ok((_, Event::Failed(refusal))) => {
                    // The status was sent; the error is an event, and the stream has no `[DONE]`.
                    self.is_done = true;
                    self.answer.access.status.store(refusal.status.as_u16(), Relaxed);
                    return Some(format!("data: {}\n\n", refusal.json()));
                }
                Ok((index, event)) => {
                    if let Some(text) = self.chunk(index, event) {
                        return Some(text);
                    }
                }
            }
        }
    }

    /// The chunk of an event; text that is held back makes none.
    fn chunk(&mut self, index: usize, event: Event) -> Option<String> {
        let sent = self.sent.get_mut(index)?;
        let is_first = sent.is_none();
        let mut part = Choice::default();
        match event {
            Event::Started | Event::Failed(_) => return None,
            Event::Token(token) => {
                self.answer.access.generated.fetch_add(1, Relaxed);
                part.add(token, sent.unwrap_or(0));
            }
            Event::End(reason, rest) => {
                part.text = rest;
                part.reason = Some(reason);
                self.open -= 1;
            }
        }
        let is_silent = part.text.is_empty() && part.reason.is_none();
        if is_silent && !self.answer.head.has_logprobs {
            return None;
        }
        *sent = Some(sent.unwrap_or(0) + part.text.chars().count());
        let tokenizer = &self.answer.shared.tokenizer;
        let chunk = self.answer.head.chunk((index, is_first), &part, tokenizer);
        Some(format!("data: {chunk}\n\n"))
    }
}
