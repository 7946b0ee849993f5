//! The listener: which connections are taken, and the end of all of them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::Connection;
use crate::limits::Limits;

/// Pause after a failed accept. The usual cause is the limit of open files, which only time and closed connections mend.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Failed accepts in a row after which the listener is given up: about a minute.
pub(crate) const ACCEPT_FAILURES_MAX: u32 = 600;

/// Where connections come from.
pub(crate) trait Accept: Send {
    /// The next one. Nothing is lost when the future is dropped.
    fn accept(&self) -> impl Future<Output = io::Result<TcpStream>> + Send;
}

impl Accept for TcpListener {
    async fn accept(&self) -> io::Result<TcpStream> {
        TcpListener::accept(self).await.map(|(stream, _)| stream)
    }
}

/// Serves `router` on `listener` until `stop`, then drains: the port is closed, no connection takes another request than the one it is
/// at, and those have [`Limits::drain_timeout`] to end before they are cut off.
///
/// # Errors
/// The listener's error, after it failed for about a minute. Connections are drained before it is returned.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: &Limits,
    stop: CancellationToken,
) -> io::Result<()> {
    serve_on(listener, router, limits, stop).await
}

pub(crate) async fn serve_on(
    listener: impl Accept,
    router: Router,
    limits: &Limits,
    stop: CancellationToken,
) -> io::Result<()> {
    let connection = Connection::new(router, limits, stop.child_token());
    let tasks = TaskTracker::new();
    let accepted = accept_until_stop(listener, limits, &connection, &tasks).await;
    connection.stop.cancel();
    tasks.close();
    if tokio::time::timeout(limits.drain_timeout, tasks.wait()).await.is_err() {
        tracing::warn!(
            listener = limits.name,
            connections = tasks.len(),
            "connections did not end within the drain time and are closed"
        );
        connection.abort.cancel();
        tasks.wait().await;
    }
    accepted
}

async fn accept_until_stop(
    listener: impl Accept,
    limits: &Limits,
    connection: &Connection,
    tasks: &TaskTracker,
) -> io::Result<()> {
    let slots = Arc::new(Semaphore::new(limits.connections_max.clamp(1, Semaphore::MAX_PERMITS)));
    let mut failures = 0;
    loop {
        let next = async {
            let slot = Arc::clone(&slots).acquire_owned().await.map_err(io::Error::other)?;
            listener.accept().await.map(|stream| (stream, slot))
        };
        let accepted = tokio::select! {
            () = connection.stop.cancelled() => return Ok(()),
            accepted = next => accepted,
        };
        match accepted {
            Ok((stream, slot)) => {
                failures = 0;
                let connection = connection.clone();
                tasks.spawn(async move {
                    connection.serve(stream).await;
                    drop(slot);
                });
            }
            Err(error) if of_one_connection(&error) => {
                tracing::debug!(listener = limits.name, %error, "a connection ended before it was accepted");
            }
            Err(error) if failures < ACCEPT_FAILURES_MAX => {
                failures += 1;
                tracing::warn!(listener = limits.name, %error, failures, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Says nothing about the listener: the next connection is there to be taken.
fn of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
