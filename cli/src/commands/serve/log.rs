//! The access log: one line a request on the standard error, written by a thread of its own, so that a reader that is slow holds up nobody.

use super::metrics::Metrics;
use crate::args::Format;
use serde_json::json;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Lines that wait for the writer; others are counted and left out.
const MOST_LINES: usize = 1024;
/// Characters of a path in a line.
const MOST_PATH: usize = 200;

#[derive(Clone)]
pub(super) struct Log {
    lines: SyncSender<String>,
    format: Format,
    metrics: Arc<Metrics>,
}

impl Log {
    pub(super) fn new(format: Format, metrics: Arc<Metrics>) -> (Self, Receiver<String>) {
        let (lines, receiver) = sync_channel(MOST_LINES);
        (Self { lines, format, metrics }, receiver)
    }

    fn line(&self, line: String) {
        if let Err(TrySendError::Full(_)) = self.lines.try_send(line) {
            self.metrics.lost_log_lines.fetch_add(1, Relaxed);
        }
    }
}

/// Writes lines until all senders are gone.
pub(super) fn write(lines: &Receiver<String>) {
    for line in lines {
        // Where nobody reads, there is nobody to tell.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

/// Seconds since 1970.
pub(super) fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs_f64() * 1e3).round() / 1e3
}

/// A request, from its head to the end of its answer; then it is logged and counted.
pub(super) struct Access {
    log: Log,
    peer: SocketAddr,
    method: String,
    path: String,
    start: Instant,
    /// 499 until there is one, as of a client that leaves before.
    pub(super) status: AtomicU16,
    pub(super) prompt: AtomicU64,
    pub(super) generated: AtomicU64,
}

impl Access {
    pub(super) fn new(log: &Log, peer: SocketAddr, method: &str, path: &str) -> Self {
        log.metrics.open.fetch_add(1, Relaxed);
        let short = |text: &str| text.escape_default().take(MOST_PATH).collect();
        Self {
            log: log.clone(),
            peer,
            method: short(method),
            path: short(path),
            start: Instant::now(),
            status: AtomicU16::new(499),
            prompt: AtomicU64::new(0),
            generated: AtomicU64::new(0),
        }
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        let metrics = &self.log.metrics;
        let (status, seconds) = (self.status.load(Relaxed), self.start.elapsed().as_secs_f64());
        let (prompt, generated) = (self.prompt.load(Relaxed), self.generated.load(Relaxed));
        metrics.add_request(status);
        let (now, peer, method, path) = (now(), self.peer, &self.method, &self.path);
        let line = match self.log.format {
            Format::Text => format!(
                "{now:.3} {peer} {method} {path} {status}, {prompt} + {generated} tokens, {seconds:.3} s\n"
            ),
            Format::Json => {
                let object = json!({
                    "type": "access",
                    "time": now,
                    "peer": peer.to_string(),
                    "method": method,
                    "path": path,
                    "status": status,
                    "prompt_tokens": prompt,
                    "completion_tokens": generated,
                    "seconds": seconds,
                });
                format!("{object}\n")
            }
        };
        self.log.line(line);
        metrics.open.fetch_sub(1, Relaxed);
    }
}
