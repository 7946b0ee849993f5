//! One connection, from its first request to its end.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::limits::Limits;
use crate::linger::{Lingering, Noting, Unread};

/// What every connection of a listener needs.
#[derive(Clone)]
pub(crate) struct Connection {
    protocol: http1::Builder,
    router: Router,
    name: &'static str,
    age_max: Duration,
    end_grace: Duration,
    /// Asks it to end with the request that runs.
    pub(crate) stop: CancellationToken,
    /// Ends it at once.
    pub(crate) abort: CancellationToken,
}

impl Connection {
    pub(crate) fn new(router: Router, limits: &Limits, stop: CancellationToken) -> Self {
        let mut protocol = http1::Builder::new();
        protocol
            .timer(TokioTimer::new())
            // It would add the longest duration to a time.
            .header_read_timeout(Some(limits.header_timeout).filter(|it| *it != Duration::MAX))
            .max_headers(limits.headers_max)
            .max_header_size(limits.header_bytes_max);
        Self {
            protocol,
            router,
            name: limits.name,
            age_max: limits.age_max,
            end_grace: limits.end_grace,
            stop,
            abort: CancellationToken::new(),
        }
    }

    /// Serves it. It is asked to end between two requests, and made to end when it does not.
    pub(crate) async fn serve(self, stream: TcpStream) {
        // Answers are small and complete: waiting to fill a packet only delays them.
        let _ = stream.set_nodelay(true);
        let unread = Unread::default();
        let router = Noting::new(self.router, unread.clone());
        let stream = TokioIo::new(Lingering::new(stream, unread));
        let connection = self.protocol.serve_connection(stream, router);
        tokio::pin!(connection);
        tokio::select! {
            result = connection.as_mut() => return log_end(self.name, result),
            () = self.stop.cancelled() => {}
            () = tokio::time::sleep(self.age_max) => {}
        }
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            result = connection => log_end(self.name, result),
            () = self.abort.cancelled() => {}
            () = tokio::time::sleep(self.end_grace) => {}
        }
    }
}

/// A broken connection is the client's affair; it is of interest only when one looks for it.
fn log_end(listener: &'static str, result: hyper::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(listener, %error, "a connection ended with an error");
    }
}
