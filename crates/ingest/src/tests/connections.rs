//! Over real sockets: limits of headers, and how the door closes.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::Error;

/// A wait that a healthy machine never sees the end of; only there so that a broken test ends.
const LONG: Duration = Duration::from_secs(60);

struct Open {
    address: SocketAddr,
    stop: CancellationToken,
    running: JoinHandle<Result<(), Error>>,
    house: House,
}

async fn open(config: Config) -> Open {
    let house = house_with(config).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let stop = CancellationToken::new();
    let running = tokio::spawn(house.service.clone().run(listener, stop.clone()));
    Open { address, stop, running, house }
}

impl Open {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("a connection")
    }

    /// Stops and waits for the end.
    async fn close(self) {
        self.stop.cancel();
        tokio::time::timeout(LONG, self.running)
            .await
            .expect("it ends")
            .expect("no panic")
            .expect("no error");
    }
}

/// Everything until the other side closes.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset after the answer is an end, too.
    let _ = tokio::time::timeout(LONG, stream.read_to_end(&mut bytes)).await.expect("it closes");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn head(extra: &str) -> String {
    format!(
        "POST {EVENTS_PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ACME}\r\n\
         content-type: application/cloudevents+json\r\n{extra}\r\n"
    )
}

#[tokio::test]
async fn an_event_comes_over_a_socket_in_chunks() {
    let open = open(config()).await;
    let mut stream = open.connect().await;
    let event = event_json("1");
    let request = format!(
        "{}{:x}\r\n{event}\r\n0\r\n\r\n",
        head("transfer-encoding: chunked\r\nconnection: close\r\n"),
        event.len()
    );
    stream.write_all(request.as_bytes()).await.expect("written");
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
    assert_eq!(events(open.house.log.as_ref(), "acme").await.len(), 1);
    open.close().await;
}

#[tokio::test]
async fn headers_have_a_size_and_a_number() {
    let open = open(Config { header_bytes_max: 2_000, headers_max: 10, ..config() }).await;
    let many: String = (0..11).map(|n| format!("x-{n}: 1\r\n")).collect();
    for extra in [format!("x: {}\r\n", "y".repeat(2_000)), many] {
        let mut stream = open.connect().await;
        stream.write_all(head(&extra).as_bytes()).await.expect("written");
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    open.close().await;
}

#[tokio::test]
async fn a_request_without_end_of_headers_is_cut_off() {
    let open = open(Config { header_timeout: Duration::from_millis(50), ..config() }).await;
    let mut stream = open.connect().await;
    stream.write_all(b"POST /v1/events HTTP/1.1\r\nx: ").await.expect("written");
    assert!(!rest(&mut stream).await.contains("202"));
    open.close().await;
}

#[tokio::test]
async fn connections_over_the_limit_wait_their_turn() {
    let open = open(Config { connections_max: 1, ..config() }).await;
    let mut first = open.connect().await;
    let request =
        format!("{}{}", head(&format!("content-length: {}\r\n", event_json("1").len())), event_json("1"));
    first.write_all(request.as_bytes()).await.expect("written");
    let mut start = [0; 12];
    first.read_exact(&mut start).await.expect("an answer");
    assert_eq!(&start, b"HTTP/1.1 202");
    let mut second = open.connect().await;
    let closing = format!(
        "{}{}",
        head(&format!("connection: close\r\ncontent-length: {}\r\n", event_json("2").len())),
        event_json("2")
    );
    second.write_all(closing.as_bytes()).await.expect("written");
    let waiting = tokio::time::timeout(Duration::from_millis(100), second.read_exact(&mut start)).await;
    assert!(waiting.is_err(), "the second connection is not served while the first is open");
    drop(first);
    assert!(rest(&mut second).await.starts_with("HTTP/1.1 202 "));
    open.close().await;
}

#[tokio::test]
async fn a_stop_lets_the_running_request_end() {
    let open = open(config()).await;
    let mut stream = open.connect().await;
    let event = event_json("1");
    let request = head(&format!("expect: 100-continue\r\ncontent-length: {}\r\n", event.len()));
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).await.expect("the door reads the body");
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    open.stop.cancel();
    stream.write_all(event.as_bytes()).await.expect("written");
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
    assert_eq!(events(open.house.log.as_ref(), "acme").await.len(), 1);
    open.close().await;
}

#[tokio::test]
async fn a_stop_does_not_wait_for_ever() {
    let open = open(Config { drain_timeout: Duration::from_millis(50), ..config() }).await;
    let mut stream = open.connect().await;
    stream
        .write_all(head("content-length: 100\r\nexpect: 100-continue\r\n").as_bytes())
        .await
        .expect("written");
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).await.expect("the door reads the body");
    open.close().await;
}

#[tokio::test]
async fn an_old_connection_is_closed_between_two_requests() {
    let open = open(Config { connection_age_max: Duration::from_millis(50), ..config() }).await;
    let mut stream = open.connect().await;
    let event = event_json("1");
    let request = format!("{}{event}", head(&format!("content-length: {}\r\n", event.len())));
    stream.write_all(request.as_bytes()).await.expect("written");
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
    open.close().await;
}
