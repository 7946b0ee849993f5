//! Connections of the admin port: few, short, and never in the way of the end.

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

/// Most connections: probes and a scraper or two need a handful. The next one waits in the listener's backlog.
const CONNECTIONS_MAX: usize = 64;
/// Longest time for the headers of a request, and longest idle time between two.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Age at which a connection is closed between two requests: one that does not read its answer gives its place back.
const CONNECTION_AGE_MAX: Duration = Duration::from_secs(60);
/// Longest time that a connection has to end once it is asked to, as long as a check may take.
const END_GRACE: Duration = Duration::from_secs(2);
/// Pause after a failed accept. The usual cause is the limit of open files, which only time and closed connections mend.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Failed accepts in a row after which the listener is given up: about a minute.
const ACCEPT_FAILURES_MAX: u32 = 600;

/// Answers until `stop`; then what runs has [`END_GRACE`] to end, and is dropped.
pub(super) async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) -> io::Result<()> {
    let tasks = TaskTracker::new();
    let stop = stop.child_token();
    let outcome = accept_until_stop(&listener, &router, &stop, &tasks).await;
    drop(listener);
    stop.cancel();
    tasks.close();
    tasks.wait().await;
    outcome
}

async fn accept_until_stop(
    listener: &TcpListener,
    router: &Router,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> io::Result<()> {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut failures = 0;
    loop {
        let next = async {
            let slot = Arc::clone(&slots).acquire_owned().await.map_err(io::Error::other)?;
            listener.accept().await.map(|(stream, _)| (stream, slot))
        };
        let accepted = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            accepted = next => accepted,
        };
        match accepted {
            Ok((stream, slot)) => {
                failures = 0;
                let (router, stop) = (router.clone(), stop.clone());
                tasks.spawn(async move {
                    answer(stream, router, stop).await;
                    drop(slot);
                });
            }
            Err(error) if failures < ACCEPT_FAILURES_MAX => {
                failures += 1;
                tracing::warn!(%error, failures, "a connection to the admin port could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// One connection, from its first request to its end.
async fn answer(stream: TcpStream, router: Router, stop: CancellationToken) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    tokio::select! {
        result = connection.as_mut() => return log_end(result),
        () = stop.cancelled() => {}
        () = tokio::time::sleep(CONNECTION_AGE_MAX) => {}
    }
    connection.as_mut().graceful_shutdown();
    if let Ok(result) = tokio::time::timeout(END_GRACE, connection).await {
        log_end(result);
    }
}

/// A broken connection is the caller's affair; it is of interest only when one looks for it.
fn log_end(result: hyper::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%error, "a connection to the admin port ended with an error");
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::task::JoinHandle;

    use super::*;

    /// A wait that a healthy machine never sees the end of; only there so that a broken test ends.
    const LONG: Duration = Duration::from_secs(60);
    const REQUEST: &[u8] = b"GET /livez HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

    struct Open {
        address: SocketAddr,
        stop: CancellationToken,
        running: JoinHandle<io::Result<()>>,
    }

    async fn open() -> Open {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let stop = CancellationToken::new();
        let router = Router::new()
            .route("/livez", get(async || "ok\n"))
            .route("/stuck", get(async || std::future::pending::<()>().await));
        let running = tokio::spawn(serve(listener, router, stop.clone()));
        Open { address, stop, running }
    }

    impl Open {
        async fn begin(&self, request: &[u8]) -> TcpStream {
            let mut socket = TcpStream::connect(self.address).await.expect("connects");
            socket.write_all(request).await.expect("written");
            socket
        }

        async fn close(self) {
            self.stop.cancel();
            tokio::time::timeout(LONG, self.running)
                .await
                .expect("it ends")
                .expect("no panic")
                .expect("a clean end");
        }
    }

    /// Everything until the other side closes.
    async fn rest(mut socket: TcpStream) -> String {
        let mut bytes = Vec::new();
        // A reset is an end, too.
        let _ = tokio::time::timeout(LONG, socket.read_to_end(&mut bytes)).await.expect("it closes");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// N22: nothing that a caller leaves half done holds the exit.
    #[tokio::test]
    async fn n22_half_a_request_does_not_hold_the_end() {
        let open = open().await;
        let mut held = Vec::new();
        for request in [&b"GET /livez HT"[..], b"GET /stuck HTTP/1.1\r\nhost: a\r\n\r\n", b""] {
            held.push(open.begin(request).await);
        }
        assert!(rest(open.begin(REQUEST).await).await.ends_with("ok\n"), "all before it were accepted");
        open.close().await;
        for socket in held {
            assert_eq!(rest(socket).await, "");
        }
    }

    #[tokio::test]
    async fn connections_over_the_limit_wait_their_turn() {
        let open = open().await;
        let mut held = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            let mut socket = open.begin(b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n").await;
            let mut start = [0; 12];
            socket.read_exact(&mut start).await.expect("an answer");
            assert_eq!(&start, b"HTTP/1.1 200");
            held.push(socket);
        }
        let mut next = open.begin(REQUEST).await;
        let early = tokio::time::timeout(Duration::from_millis(100), next.read_u8()).await;
        assert!(early.is_err(), "the next one is not served while they are open");
        held.pop();
        assert!(rest(next).await.ends_with("ok\n"));
        open.close().await;
    }

    #[tokio::test(start_paused = true)]
    async fn headers_that_do_not_come_are_not_waited_for() {
        let (ours, theirs) = {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let ours = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("connects");
            (ours, listener.accept().await.expect("accepted").0)
        };
        let served = tokio::spawn(answer(theirs, Router::new(), CancellationToken::new()));
        let begun = tokio::time::Instant::now();
        let mut ours = ours;
        ours.write_all(b"GET /livez HT").await.expect("written");
        served.await.expect("no panic");
        assert!(begun.elapsed() < CONNECTION_AGE_MAX, "by the timeout of headers");
    }
}
