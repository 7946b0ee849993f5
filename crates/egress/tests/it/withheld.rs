//! Requests that may not be sent any more when their first byte is due.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use mailrail_egress::{Egress, Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::support::*;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// An egress that asks the switch, which says yes at first.
fn switched(egress: Egress) -> (Egress, Arc<AtomicBool>) {
    let may = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&may);
    egress.ask_before_sending(move || asked.load(Ordering::SeqCst));
    (egress, may)
}

fn withheld() -> Response {
    Response { withheld: true, ..Response::default() }
}

/// Answers one request of each connection; tells how many bytes came after it, once the connection is closed.
async fn one_request_each() -> (Receiver, mpsc::Receiver<usize>) {
    let (tell, told) = mpsc::channel(8);
    let receiver = receiver(move |mut stream, _| {
        let tell = tell.clone();
        async move {
            if read_request(&mut stream).await.is_some() {
                stream.write_all(OK).await.unwrap();
            }
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            let _ = tell.send(rest.len()).await;
        }
    })
    .await;
    (receiver, told)
}

/// I10: a process that was stopped after it decided to send, and goes on.
#[tokio::test]
async fn i10_a_request_on_a_kept_connection_is_withheld() {
    let (receiver, mut rest) = one_request_each().await;
    let (egress, may) = switched(egress());
    assert_eq!(post(&egress, &receiver.url()).await.status, Some(200));
    may.store(false, Ordering::SeqCst);
    assert_eq!(post(&egress, &receiver.url()).await, withheld());
    assert_eq!(rest.recv().await, Some(0), "not a byte came, and the connection is closed");
    assert_eq!(receiver.connections(), 1, "it was not tried on another connection");
    may.store(true, Ordering::SeqCst);
    assert_eq!(post(&egress, &receiver.url()).await.status, Some(200));
}

/// I10: what takes long lies before the look: a name's resolution here.
#[tokio::test]
async fn i10_a_request_whose_connection_took_too_long_is_withheld() {
    let (receiver, mut rest) = one_request_each().await;
    let may = Arc::new(AtomicBool::new(true));
    let (late, asked) = (Arc::clone(&may), Arc::clone(&may));
    let egress = egress_with(|config| {
        config.resolver = Some(Arc::new(Answers(move |_: &str| {
            late.store(false, Ordering::SeqCst);
            Ok(ips("127.0.0.1"))
        })));
    });
    egress.ask_before_sending(move || asked.load(Ordering::SeqCst));
    let url = format!("http://slow.example.com:{}/hook", receiver.addr.port());
    assert_eq!(post(&egress, &url).await, withheld());
    assert_eq!(rest.recv().await, Some(0), "not a byte came");
}

/// What has begun ends: the time of an attempt lies inside the lease. Nobody gains from half a request.
#[tokio::test]
async fn a_request_that_has_begun_is_written_to_its_end() {
    let (egress, may) = switched(egress());
    let switch = Arc::clone(&may);
    let receiver = receiver(move |mut stream, _| {
        let switch = Arc::clone(&switch);
        async move {
            let mut first = [0; 1];
            stream.read_exact(&mut first).await.unwrap();
            switch.store(false, Ordering::SeqCst);
            if read_request(&mut stream).await.is_some() {
                stream.write_all(OK).await.unwrap();
            }
        }
    })
    .await;
    // More than what the sockets between the two take.
    let body = Bytes::from(vec![b'x'; 32 << 20]);
    let request = Request { body, ..request() };
    assert_eq!(egress.post(&receiver.url(), request).await.status, Some(200));
    assert!(!may.load(Ordering::SeqCst));
}
