//! A connection that is not closed under a caller who is still sending.
//!
//! Where a request is refused before its body was read, closing at once would answer what still arrives with a reset, and a reset takes the
//! refusal away from a caller who has not read it yet. So the writing side is closed, and what the caller still sends is read and thrown
//! away, for a bounded time and a bounded amount.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// Longest that a caller may go on sending after the answer.
pub(crate) const LINGER_MAX: Duration = Duration::from_secs(10);
/// Most bytes that are thrown away for one connection: as much as the command line sends at once.
pub(crate) const LINGER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of one read.
const READ_BYTES: usize = 16 * 1024;

/// Whether the body of the connection's request is not read to its end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unread(Arc<AtomicBool>);

impl Unread {
    fn set(&self, unread: bool) {
        self.0.store(unread, Ordering::Relaxed);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The router of one connection, which notes how far bodies are read.
pub(crate) struct Noting {
    router: TowerToHyperService<Router>,
    unread: Unread,
}

impl Noting {
    pub(crate) fn new(router: Router, unread: Unread) -> Self {
        Self { router: TowerToHyperService::new(router), unread }
    }
}

impl Service<Request<Incoming>> for Noting {
    type Response = <TowerToHyperService<Router> as Service<Request<Noted>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Noted>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Noted>>>::Future;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.router.call(request.map(|body| Noted::new(body, self.unread.clone())))
    }
}

/// A request's body.
pub(crate) struct Noted {
    body: Incoming,
    unread: Unread,
}

impl Noted {
    fn new(body: Incoming, unread: Unread) -> Self {
        // A request after another says that the one before it was read, by whomever.
        unread.set(!body.is_end_stream());
        Self { body, unread }
    }
}

impl Body for Noted {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() || self.body.is_end_stream() {
            self.unread.set(false);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The connection's stream.
pub(crate) struct Lingering {
    stream: TcpStream,
    unread: Unread,
    /// Since the writing side is closed: until when the rest is read.
    until: Option<Pin<Box<Sleep>>>,
    left: usize,
}

impl Lingering {
    pub(crate) fn new(stream: TcpStream, unread: Unread) -> Self {
        Self { stream, unread, until: None, left: LINGER_BYTES_MAX }
    }

    /// Throws away what arrives, until the caller ends, or a limit is reached.
    fn poll_rest(&mut self, until: &mut Pin<Box<Sleep>>, cx: &mut Context<'_>) -> Poll<()> {
        let mut bytes = [0; READ_BYTES];
        while self.left > 0 && until.as_mut().poll(cx).is_pending() {
            let mut buffer = ReadBuf::new(&mut bytes);
            match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {
                    self.left = self.left.saturating_sub(buffer.filled().len());
                }
                // Its end, or the connection's.
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(())
    }
}

impl AsyncRead for Lingering {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Lingering {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut until = match self.until.take() {
            Some(until) => until,
            None => {
                ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
                if !self.unread.get() {
                    return Poll::Ready(Ok(()));
                }
                Box::pin(tokio::time::sleep(LINGER_MAX))
            }
        };
        let read = self.poll_rest(&mut until, cx);
        self.until = Some(until);
        read.map(Ok)
    }
}
