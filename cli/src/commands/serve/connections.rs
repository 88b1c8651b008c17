//! Connections: bounded in number, each with limits on the time that its peer may be silent; and the end of the server.

use super::handlers::{Peer, Shared, router};
use axum::Router;
use axum::extract::Extension;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, Sleep, sleep, timeout};

/// Connections at once; others wait in the system's queue.
const MOST_CONNECTIONS: usize = 1024;
/// In which the head of a request has to arrive, and in which a peer has to take something of an answer.
const HEAD: Duration = Duration::from_secs(30);
const STALLED: Duration = Duration::from_secs(60);
/// Bytes of the head of a request.
const MOST_HEAD: usize = 64 << 10;
/// For the last bytes of answers when the server ends.
const FLUSH: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);

/// Serves until `stop` says so and running answers have ended, or `grace` is over; whether all answers were complete.
pub(super) async fn serve(
    listener: TcpListener,
    shared: Arc<Shared>,
    mut stop: watch::Receiver<bool>,
    grace: Duration,
) -> bool {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let (close, closing) = watch::channel(false);
    let app = router(Arc::clone(&shared));
    let accepting = tokio::spawn(accept(listener, app, Arc::clone(&places), closing));
    // It fails where the sender is gone, which says the same.
    let _ = stop.wait_for(|stop| *stop).await;
    shared.queue.stop();
    let end = Instant::now() + grace;
    while shared.metrics.open.load(Relaxed) > 0 && Instant::now() < end {
        sleep(POLL).await;
    }
    let is_complete = shared.metrics.open.load(Relaxed) == 0;
    shared.queue.cut();
    accepting.abort();
    let _ = close.send(true);
    let all = places.acquire_many(u32::try_from(MOST_CONNECTIONS).unwrap_or(u32::MAX));
    let _ = timeout(FLUSH, all).await;
    is_complete
}

async fn accept(
    listener: TcpListener,
    app: Router,
    places: Arc<Semaphore>,
    closing: watch::Receiver<bool>,
) {
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            // Such as too many open files: others will be closed.
            Err(_) => {
                sleep(POLL).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let app = app.clone().layer(Extension(Peer(peer)));
        let closing = closing.clone();
        tokio::spawn(async move {
            connection(stream, app, closing).await;
            drop(place);
        });
    }
}

async fn connection(stream: TcpStream, app: Router, mut closing: watch::Receiver<bool>) {
    let io = TokioIo::new(Patient { stream, stalled: None });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(MOST_HEAD);
    let mut served = pin!(builder.serve_connection(io, TowerToHyperService::new(app)));
    let is_closing = tokio::select! {
        // An error is one of the peer: it left, or spoke no HTTP, and hyper has answered.
        _ = served.as_mut() => false,
        _ = closing.wait_for(|closing| *closing) => true,
    };
    if is_closing {
        served.as_mut().graceful_shutdown();
        let _ = served.await;
    }
}

/// A stream whose writes fail when the peer takes nothing for a while.
struct Patient {
    stream: TcpStream,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn watched<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(STALLED)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watched(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
