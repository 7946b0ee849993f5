//! Connections between requests: used again, given up when the other side closed them, closed when nobody uses them.

use bytes::Bytes;
use mailrail_egress::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant};

use crate::support::*;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Who closed a half of a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Side {
    Server,
    Client,
}

/// Answers one request of each connection; then closes its half, or says no more. Tells of each half that is closed.
async fn one_answer_each(closes: bool) -> (Receiver, mpsc::Receiver<Side>) {
    let (tell, closed) = mpsc::channel(16);
    let receiver = receiver(move |mut stream, _| {
        let tell = tell.clone();
        async move {
            if read_request(&mut stream).await.is_some() {
                stream.write_all(OK).await.unwrap();
            }
            if closes {
                stream.shutdown().await.unwrap();
                let _ = tell.send(Side::Server).await;
            }
            let rest = stream.read_to_end(&mut Vec::new()).await;
            assert!(matches!(rest, Ok(0) | Err(_)), "nothing was sent on it: {rest:?}");
            let _ = tell.send(Side::Client).await;
        }
    })
    .await;
    (receiver, closed)
}

/// Waits until one more was closed from this side.
async fn closed_by(side: Side, closed: &mut mpsc::Receiver<Side>) {
    while closed.recv().await.unwrap() != side {}
}

/// The other side closed it while it was kept, and nothing of the request was written: it goes on another one.
#[tokio::test]
async fn a_kept_connection_that_was_closed_costs_no_request() {
    let (receiver, mut closed) = one_answer_each(true).await;
    let egress = egress();
    for connections in 1..=5 {
        let answer = post(&egress, &receiver.url()).await;
        assert_eq!((answer.status, answer.error, &answer.excerpt[..]), (Some(200), None, &b"ok"[..]));
        assert_eq!(receiver.connections(), connections);
        // Closed there; and once the runtime has slept, it is known here. Nobody closes this half before the next request comes.
        closed_by(Side::Server, &mut closed).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Nobody closes it, and nobody uses it: after a while it is closed here.
#[tokio::test]
async fn a_connection_that_nobody_uses_is_closed() {
    let (receiver, mut closed) = one_answer_each(false).await;
    let egress = egress();
    assert_eq!(post(&egress, &receiver.url()).await.status, Some(200));
    // From here on time passes as soon as everybody waits.
    tokio::time::pause();
    let kept_since = Instant::now();
    closed_by(Side::Client, &mut closed).await;
    let kept_for = kept_since.elapsed().as_secs();
    assert!((25..=60).contains(&kept_for), "{kept_for} s");
}

/// One that the other side closed is not held open to the end of its time.
#[tokio::test]
async fn a_kept_connection_that_was_closed_is_let_go() {
    let (receiver, mut closed) = one_answer_each(true).await;
    let egress = egress();
    assert_eq!(post(&egress, &receiver.url()).await.status, Some(200));
    tokio::time::pause();
    let kept_since = Instant::now();
    closed_by(Side::Client, &mut closed).await;
    let kept_for = kept_since.elapsed().as_secs();
    assert!(kept_for <= 15, "{kept_for} s");
}

/// Beyond as many as are kept of an origin they are closed at once.
#[tokio::test]
async fn no_more_connections_are_kept_than_may_be() {
    let (receiver, mut closed) = one_answer_each(false).await;
    let egress = egress_with(|config| config.idle_per_host = 1);
    let url = receiver.url();
    let answers = tokio::join!(post(&egress, &url), post(&egress, &url), post(&egress, &url));
    assert_eq!([answers.0.status, answers.1.status, answers.2.status], [Some(200); 3]);
    assert_eq!(receiver.connections(), 3);
    closed_by(Side::Client, &mut closed).await;
    closed_by(Side::Client, &mut closed).await;
    assert!(closed.try_recv().is_err(), "one is kept");
}

/// With the last user of an egress its connections end.
#[tokio::test]
async fn kept_connections_end_with_their_egress() {
    let (receiver, mut closed) = one_answer_each(false).await;
    let egress = egress();
    assert_eq!(post(&egress.clone(), &receiver.url()).await.status, Some(200));
    assert!(closed.try_recv().is_err(), "it is kept");
    drop(egress);
    closed_by(Side::Client, &mut closed).await;
}

/// Some answer before they have read what they answer. The rest is sent all the same: what was delivered must have arrived.
#[tokio::test]
async fn a_request_that_is_answered_early_is_written_to_its_end() {
    const BODY: usize = 8 << 20;
    let (tell, mut read) = mpsc::channel(4);
    let receiver = receiver(move |mut stream, _| {
        let tell = tell.clone();
        async move {
            let mut some = [0; 512];
            let mut seen = stream.read(&mut some).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            // More than what both sockets hold is still unsent.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let mut rest = vec![0; 1 << 16];
            while seen < BODY {
                match stream.read(&mut rest).await {
                    Ok(0) | Err(_) => break,
                    Ok(more) => seen += more,
                }
            }
            let _ = tell.send(seen).await;
        }
    })
    .await;
    let egress = egress();
    let request = Request { body: Bytes::from(vec![b'x'; BODY]), ..request() };
    assert_eq!(egress.post(&receiver.url(), request).await.status, Some(200));
    assert!(read.recv().await.unwrap() >= BODY);
}
