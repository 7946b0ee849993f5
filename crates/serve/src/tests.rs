//! Over real sockets: each limit, what a broken listener does, and how the end comes.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::{get, post};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::accept::{ACCEPT_FAILURES_MAX, Accept, serve_on};
use crate::connection::Connection;
use crate::linger::{LINGER_BYTES_MAX, LINGER_MAX};
use crate::{HEADER_BYTES_MAX, HEADERS_MAX, Limits, serve};

/// A wait that a healthy machine never sees the end of; only there so that a broken test ends.
const LONG: Duration = Duration::from_secs(60);
/// One request, after which the connection ends.
const LAST: &[u8] = b"GET /quick HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

fn limits() -> Limits {
    Limits {
        name: "test",
        connections_max: 8,
        headers_max: HEADERS_MAX,
        header_bytes_max: HEADER_BYTES_MAX,
        header_timeout: LONG,
        age_max: Duration::MAX,
        end_grace: Duration::MAX,
        drain_timeout: Duration::MAX,
    }
}

fn router() -> Router {
    Router::new()
        .route("/quick", get(async || "ok\n"))
        .route("/stuck", get(async || std::future::pending::<()>().await))
        .route("/echo", post(async |body: Bytes| body))
        .route("/refuse", post(async || (StatusCode::PAYLOAD_TOO_LARGE, "too large\n")))
}

struct Open {
    address: SocketAddr,
    stop: CancellationToken,
    running: JoinHandle<io::Result<()>>,
}

async fn open(limits: Limits) -> Open {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let stop = CancellationToken::new();
    let until = stop.clone();
    let running = tokio::spawn(async move { serve(listener, router(), &limits, until).await });
    Open { address, stop, running }
}

impl Open {
    async fn begin(&self, request: &[u8]) -> TcpStream {
        let mut socket = TcpStream::connect(self.address).await.expect("connects");
        socket.write_all(request).await.expect("written");
        socket
    }

    /// A request whose handler reads its body, of 4 bytes, right now.
    async fn begin_body(&self) -> TcpStream {
        let mut socket = self
            .begin(b"POST /echo HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n")
            .await;
        let mut interim = [0; 25];
        socket.read_exact(&mut interim).await.expect("the body is asked for");
        assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
        socket
    }

    async fn close(self) {
        self.stop.cancel();
        tokio::time::timeout(LONG, self.running).await.expect("it ends").expect("no panic").expect("clean");
    }
}

/// Everything until the other side closes.
async fn rest(mut socket: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is an end, too.
    let _ = tokio::time::timeout(LONG, socket.read_to_end(&mut bytes)).await.expect("it closes");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn n22_half_a_request_does_not_hold_the_end() {
    let end_grace = Duration::from_millis(50);
    for limits in [Limits { end_grace, ..limits() }, Limits { drain_timeout: end_grace, ..limits() }] {
        let open = open(limits).await;
        let mut held = Vec::new();
        for request in [&b"GET /quick HT"[..], b"GET /stuck HTTP/1.1\r\nhost: a\r\n\r\n", b""] {
            held.push(open.begin(request).await);
        }
        assert!(rest(open.begin(LAST).await).await.ends_with("ok\n"), "all before it were accepted");
        open.close().await;
        for socket in held {
            assert_eq!(rest(socket).await, "");
        }
    }
}

#[tokio::test]
async fn n22_a_stop_lets_the_running_request_end() {
    let open = open(limits()).await;
    let mut running = open.begin_body().await;
    open.stop.cancel();
    running.write_all(b"body").await.expect("written");
    let answer = rest(running).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("body"), "{answer}");
    let address = open.address;
    open.close().await;
    assert!(TcpStream::connect(address).await.is_err(), "the port is free");
}

#[tokio::test(start_paused = true)]
async fn n22_a_head_that_is_under_way_at_the_stop_is_served_and_nothing_after_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let mut ours = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("connects");
    let (theirs, _) = listener.accept().await.expect("accepted");
    let stop = CancellationToken::new();
    let limits = Limits { header_timeout: Duration::MAX, ..limits() };
    let connection = Connection::new(router(), &limits, stop.clone());
    ours.write_all(b"GET /quick HT").await.expect("written");
    let serving = tokio::spawn(connection.serve(theirs));
    // The clock moves on when nothing is left to do: the half is read then.
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    tokio::time::resume();
    stop.cancel();
    let remainder = b"TP/1.1\r\nhost: a\r\n\r\nGET /quick HTTP/1.1\r\nhost: a\r\n\r\n";
    ours.write_all(remainder).await.expect("written");
    let answers = rest(ours).await;
    assert_eq!(answers.matches("HTTP/1.1 200 ").count(), 1, "{answers}");
    serving.await.expect("it ends");
}

#[tokio::test]
async fn connections_over_the_limit_wait_their_turn() {
    let limits = limits();
    let most = limits.connections_max;
    let open = open(limits).await;
    let mut held = Vec::new();
    for _ in 0..most {
        let mut socket = open.begin(b"GET /quick HTTP/1.1\r\nhost: a\r\n\r\n").await;
        let mut start = [0; 12];
        socket.read_exact(&mut start).await.expect("an answer");
        assert_eq!(&start, b"HTTP/1.1 200");
        held.push(socket);
    }
    let mut next = open.begin(LAST).await;
    let early = tokio::time::timeout(Duration::from_millis(100), next.read_u8()).await;
    assert!(early.is_err(), "the next one is not served while they are open");
    held.clear();
    assert!(rest(next).await.ends_with("ok\n"));
    open.close().await;
}

#[tokio::test]
async fn headers_have_a_size_and_a_number() {
    let open = open(Limits { header_bytes_max: 2_000, headers_max: 10, ..limits() }).await;
    let many: String = (0..11).map(|n| format!("x-{n}: 1\r\n")).collect();
    for extra in [format!("x: {}\r\n", "y".repeat(2_000)), many] {
        let request = format!("GET /quick HTTP/1.1\r\n{extra}\r\n");
        let answer = rest(open.begin(request.as_bytes()).await).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    open.close().await;
}

#[tokio::test(start_paused = true)]
async fn headers_that_do_not_come_are_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let mut ours = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("connects");
    let (theirs, _) = listener.accept().await.expect("accepted");
    let limits = Limits { header_timeout: Duration::from_secs(10), age_max: LONG, ..limits() };
    let connection = Connection::new(router(), &limits, CancellationToken::new());
    let begun = tokio::time::Instant::now();
    ours.write_all(b"GET /quick HT").await.expect("written");
    connection.serve(theirs).await;
    assert!(begun.elapsed() < limits.age_max, "by the timeout of headers");
}

#[tokio::test]
async fn an_old_connection_is_closed_between_two_requests() {
    let open = open(Limits { age_max: Duration::from_millis(50), ..limits() }).await;
    let answer = rest(open.begin(b"GET /quick HTTP/1.1\r\nhost: a\r\n\r\n").await).await;
    assert!(answer.ends_with("ok\n"), "{answer}");
    open.close().await;
}

/// The head of a request with a body that is refused without being read.
fn refused(bytes: usize) -> String {
    format!("POST /refuse HTTP/1.1\r\nhost: a\r\ncontent-length: {bytes}\r\n\r\n")
}

/// The worst of callers: nothing is read before everything was sent.
#[tokio::test]
async fn a_caller_who_sends_a_refused_body_to_its_end_gets_the_answer() {
    let open = open(limits()).await;
    for bytes in [2_000, 1_500_000, 16 * 1024 * 1024] {
        let mut socket = open.begin(refused(bytes).as_bytes()).await;
        socket.write_all(&vec![b'x'; bytes]).await.expect("all of it is taken");
        // What was taken in before the answer may have been the whole body: the connection goes on then.
        socket.shutdown().await.expect("no reset");
        let answer = rest(socket).await;
        assert!(answer.starts_with("HTTP/1.1 413 ") && answer.ends_with("too large\n"), "{answer}");
    }
    open.close().await;
}

#[tokio::test]
async fn what_is_thrown_away_is_bounded() {
    let open = open(limits()).await;
    let mut socket = open.begin(refused(usize::MAX >> 1).as_bytes()).await;
    let piece = vec![b'x'; 1024 * 1024];
    let mut sent = 0;
    let sending = async {
        while socket.write_all(&piece).await.is_ok() {
            sent += piece.len();
        }
    };
    tokio::time::timeout(LONG, sending).await.expect("it is cut");
    assert!(sent >= LINGER_BYTES_MAX - piece.len(), "{sent}");
    open.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_stops_in_a_refused_body_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let mut ours = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("connects");
    let (theirs, _) = listener.accept().await.expect("accepted");
    let connection = Connection::new(router(), &limits(), CancellationToken::new());
    ours.write_all(refused(1_000_000).as_bytes()).await.expect("written");
    let begun = tokio::time::Instant::now();
    connection.serve(theirs).await;
    assert!(begun.elapsed() >= LINGER_MAX && begun.elapsed() < LONG, "{:?}", begun.elapsed());
    assert!(rest(ours).await.starts_with("HTTP/1.1 413 "));
}

/// Gives what it holds, one after the other, and then only errors.
struct Broken(Mutex<VecDeque<io::Result<TcpStream>>>);

impl Accept for Broken {
    async fn accept(&self) -> io::Result<TcpStream> {
        let next = self.0.lock().expect("not poisoned").pop_front();
        next.unwrap_or_else(|| Err(io::Error::other("no file descriptor")))
    }
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_only_fails_is_given_up_and_one_that_fails_now_and_then_is_not() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let mut ours = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("connects");
    let (theirs, _) = listener.accept().await.expect("accepted");
    let failures = || (0..ACCEPT_FAILURES_MAX).map(|_| Err(io::Error::other("no file descriptor")));
    let broken = Broken(Mutex::new(failures().chain([Ok(theirs)]).collect()));
    ours.write_all(LAST).await.expect("written");
    let begun = tokio::time::Instant::now();
    let error = serve_on(broken, router(), &limits(), CancellationToken::new()).await.expect_err("given up");
    assert_eq!(error.to_string(), "no file descriptor");
    assert!(begun.elapsed() > Duration::from_secs(100), "one that works starts the count anew");
    assert!(rest(ours).await.ends_with("ok\n"), "what was accepted is drained before the error is told");
}

#[tokio::test(start_paused = true)]
async fn connections_that_are_gone_before_they_are_accepted_are_no_failures() {
    let kinds =
        [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset, io::ErrorKind::ConnectionRefused];
    let gone = (0..ACCEPT_FAILURES_MAX).flat_map(|_| kinds.map(|kind| Err(kind.into())));
    let begun = tokio::time::Instant::now();
    let broken = Broken(Mutex::new(gone.collect()));
    let error = serve_on(broken, router(), &limits(), CancellationToken::new()).await.expect_err("given up");
    assert_eq!(error.to_string(), "no file descriptor", "by what came after them");
    assert!(begun.elapsed() < Duration::from_secs(61), "without a pause");
}
