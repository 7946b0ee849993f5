//! The last look before a request is written: right before the system call, on the thread that makes it.
//!
//! Between the decision to send and the first byte lie a queue of the HTTP client, perhaps a name's resolution and a
//! handshake, and whatever else the scheduler runs meanwhile. A process that was stopped there and goes on would send what
//! is another's to send by now.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

type MaySend = Box<dyn Fn() -> bool + Send + Sync>;

/// Whether requests may begin; all may until it is set. A cheap clone.
#[derive(Clone, Default)]
pub(crate) struct Guard(Arc<OnceLock<MaySend>>);

impl Guard {
    /// Only the first call counts.
    pub(crate) fn set(&self, may_send: MaySend) {
        let _ = self.0.set(may_send);
    }

    fn allows(&self) -> bool {
        self.0.get().is_none_or(|may_send| may_send())
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").field(&self.0.get().is_some()).finish()
    }
}

/// The guard did not allow the request: nothing of it was written.
#[derive(Debug, Error)]
#[error("the request may not be sent any more")]
pub(crate) struct Withheld;

impl Withheld {
    /// Whether this is what an error came from.
    pub(crate) fn caused(error: &(dyn std::error::Error + 'static)) -> bool {
        let causes = std::iter::successors(Some(error), |error| error.source());
        causes.filter_map(|error| error.downcast_ref::<io::Error>()).any(Self::is_in)
    }

    fn is_in(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| {
            inner.is::<Self>() || inner.downcast_ref::<io::Error>().is_some_and(Self::is_in)
        })
    }
}

/// Says to a connection that a request begins with what is written next. A cheap clone.
#[derive(Clone)]
pub(crate) struct Beginning(Arc<AtomicBool>);

impl Beginning {
    /// So does a connection: the first thing that is written may be a handshake.
    pub(crate) fn now() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    pub(crate) fn again(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A connection that asks the guard before its first write, and before the first of each request. One that has begun is written to
/// its end, which the time of an attempt bounds.
pub(crate) struct Guarded {
    tcp: TcpStream,
    guard: Guard,
    beginning: Beginning,
}

impl Guarded {
    pub(crate) fn new(tcp: TcpStream, guard: Guard, beginning: Beginning) -> Self {
        Self { tcp, guard, beginning }
    }

    fn may_write(&self) -> io::Result<()> {
        if self.beginning.0.load(Ordering::Relaxed) && !self.guard.allows() {
            Err(io::Error::other(Withheld))
        } else {
            Ok(())
        }
    }

    fn written(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let count = ready!(written)?;
        self.beginning.0.store(false, Ordering::Relaxed);
        Poll::Ready(Ok(count))
    }
}

impl AsyncRead for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.may_write()?;
        let written = Pin::new(&mut self.tcp).poll_write(cx, buf);
        self.written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.may_write()?;
        let written = Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs);
        self.written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
