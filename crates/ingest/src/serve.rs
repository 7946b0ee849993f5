//! Connections: how many, how long, how large their headers, and how they end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::error::Error;

/// Pause after a failed accept. The usual cause is the limit of open files, which only time and closed connections mend.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Failed accepts in a row after which the listener is given up: about a minute.
const ACCEPT_FAILURES_MAX: u32 = 600;

/// Serves until `stop`, then drains.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    config: &Config,
    stop: CancellationToken,
) -> Result<(), Error> {
    let connections = Connections {
        protocol: protocol(config),
        router,
        age_max: config.connection_age_max,
        grace: config.header_timeout + config.body_timeout + config.append_timeout,
        stop: stop.child_token(),
        abort: CancellationToken::new(),
    };
    let tasks = TaskTracker::new();
    let accepted = accept_until_stop(listener, config.connections_max, &connections, &tasks).await;
    connections.stop.cancel();
    tasks.close();
    if tokio::time::timeout(config.drain_timeout, tasks.wait()).await.is_err() {
        tracing::warn!(
            connections = tasks.len(),
            "connections did not end within the drain time and are closed"
        );
        connections.abort.cancel();
        tasks.wait().await;
    }
    accepted
}

/// HTTP/1.1 with our limits.
fn protocol(config: &Config) -> http1::Builder {
    let mut protocol = http1::Builder::new();
    protocol
        .timer(TokioTimer::new())
        .header_read_timeout(config.header_timeout)
        .max_headers(config.headers_max)
        .max_header_size(config.header_bytes_max);
    protocol
}

/// What every connection needs.
#[derive(Clone)]
struct Connections {
    protocol: http1::Builder,
    router: Router,
    age_max: Duration,
    grace: Duration,
    stop: CancellationToken,
    abort: CancellationToken,
}

async fn accept_until_stop(
    listener: TcpListener,
    connections_max: usize,
    connections: &Connections,
    tasks: &TaskTracker,
) -> Result<(), Error> {
    let slots = Arc::new(Semaphore::new(connections_max.clamp(1, Semaphore::MAX_PERMITS)));
    let mut failures = 0;
    loop {
        let next = async {
            let slot = Arc::clone(&slots).acquire_owned().await.map_err(io::Error::other)?;
            listener.accept().await.map(|(stream, _)| (stream, slot))
        };
        let accepted = tokio::select! {
            () = connections.stop.cancelled() => return Ok(()),
            accepted = next => accepted,
        };
        match accepted {
            Ok((stream, slot)) => {
                failures = 0;
                let connection = connections.clone();
                tasks.spawn(async move {
                    connection.serve(stream).await;
                    drop(slot);
                });
            }
            Err(error) if failures < ACCEPT_FAILURES_MAX => {
                failures += 1;
                tracing::warn!(%error, failures, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            Err(error) => return Err(Error::Listener(error)),
        }
    }
}

impl Connections {
    /// One connection, from its first request to its end. It is asked to end between two requests, and made to end when
    /// it does not.
    async fn serve(self, stream: TcpStream) {
        // Answers are small and complete: waiting to fill a packet only delays them.
        let _ = stream.set_nodelay(true);
        let connection =
            self.protocol.serve_connection(TokioIo::new(stream), TowerToHyperService::new(self.router));
        tokio::pin!(connection);
        tokio::select! {
            result = connection.as_mut() => return log_end(result),
            () = self.stop.cancelled() => {}
            () = tokio::time::sleep(self.age_max) => {}
        }
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            result = connection => log_end(result),
            () = self.abort.cancelled() => {}
            () = tokio::time::sleep(self.grace) => {}
        }
    }
}

/// A broken connection is the client's affair; it is of interest only when one looks for it.
fn log_end(result: hyper::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended with an error");
    }
}
