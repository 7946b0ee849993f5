//! Receivers that misbehave: part B of the torture list.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mailrail_egress::{BODY_MAX_BYTES, HEAD_MAX_BYTES, INFORMATIONAL_MAX, Limits, Request};
use mailrail_types::{AttemptResult, ErrorCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::support::*;

const SHORT: Duration = Duration::from_millis(300);

/// A receiver that sends `head` once and `piece` for ever, and tells when the client has gone.
async fn endless(
    head: &'static [u8],
    piece: &'static [u8],
    pause: Option<Duration>,
) -> (Receiver, Arc<Notify>) {
    let gone = Arc::new(Notify::new());
    let tell = Arc::clone(&gone);
    let receiver = receiver(move |mut stream, _| {
        let tell = Arc::clone(&tell);
        async move {
            read_request(&mut stream).await.unwrap();
            let _ = stream.write_all(head).await;
            match pause {
                None => write_until_closed(&mut stream, piece).await,
                Some(pause) => {
                    while stream.write_all(piece).await.is_ok() {
                        tokio::time::sleep(pause).await;
                    }
                }
            }
            tell.notify_one();
        }
    })
    .await;
    (receiver, gone)
}

async fn hung_up(gone: &Notify) {
    timeout(CEILING, gone.notified()).await.expect("the connection was kept open");
}

/// X03, X02, N17: no redirect is followed, wherever it leads.
#[tokio::test]
async fn x03_n17_t12_redirects_are_not_followed() {
    let target = answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let egress = egress();
    for status in [300, 301, 302, 303, 307, 308] {
        let location = target.url();
        let answer = format!("HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        let receiver = answering(answer).await;
        let answer = post(&egress, &receiver.url()).await;
        assert_eq!((answer.status, answer.error), (Some(status), None));
        assert_eq!(receiver.connections(), 1);
    }
    assert_eq!(target.connections(), 0);
}

#[tokio::test]
async fn n17_t27_nobody_listens() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let answer = post(&egress(), &url).await;
    assert_eq!((answer.status, answer.error), (None, Some(ErrorCode::ConnectFailed)));
}

/// A listener whose queue is full drops the client's SYN, like a black hole.
#[tokio::test]
async fn n17_t27_a_black_hole_ends_with_the_connect_time() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let addr = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(stream) = timeout(SHORT, TcpStream::connect(addr)).await {
        queued.push(stream.unwrap());
        assert!(queued.len() < 64, "the queue never filled");
    }
    let egress = egress_with(|c| c.limits = Limits { connect: SHORT, ..Limits::default() });
    let answer = post(&egress, &format!("http://{addr}/")).await;
    assert_eq!((answer.status, answer.error), (None, Some(ErrorCode::ConnectTimeout)));
}

#[tokio::test]
async fn n17_t27_accept_and_hang_ends_with_the_total_time() {
    let gone = Arc::new(Notify::new());
    let tell = Arc::clone(&gone);
    let receiver = receiver(move |mut stream, _| {
        let tell = Arc::clone(&tell);
        async move {
            read_request(&mut stream).await.unwrap();
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            tell.notify_one();
        }
    })
    .await;
    let url = receiver.url();
    let answer = egress().post(&url, Request { timeout: SHORT, ..request() }).await;
    assert_eq!((answer.status, answer.error), (None, Some(ErrorCode::Timeout)));
    hung_up(&gone).await;
}

#[tokio::test]
async fn n17_t28_a_dripping_head_ends_with_the_total_time() {
    let (receiver, gone) =
        endless(b"HTTP/1.1 200 OK\r\n", b"x: y\r\n", Some(Duration::from_millis(20))).await;
    let url = receiver.url();
    let answer = egress().post(&url, Request { timeout: SHORT, ..request() }).await;
    assert_eq!((answer.status, answer.error), (None, Some(ErrorCode::Timeout)));
    hung_up(&gone).await;
}

#[tokio::test]
async fn n17_t29_informational_answers_are_counted() {
    const HINT: &str = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n";
    for hint in [HINT.as_bytes(), b"HTTP/1.1 100 Continue\r\n\r\n"] {
        let (receiver, gone) = endless(b"", hint, None).await;
        let answer = post(&egress(), &receiver.url()).await;
        assert_eq!((answer.status, answer.error), (None, Some(ErrorCode::InvalidResponse)));
        hung_up(&gone).await;
    }
    let few = HINT.repeat(INFORMATIONAL_MAX.try_into().unwrap());
    let receiver = answering(format!("{few}HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")).await;
    assert_eq!(post(&egress(), &receiver.url()).await.status, Some(200));
}

#[tokio::test]
async fn n17_t30_endless_and_giant_heads_are_refused() {
    let egress = egress();
    let (receiver, gone) = endless(b"HTTP/1.1 200 OK\r\n", b"x-header: value\r\n", None).await;
    let answer = post(&egress, &receiver.url()).await;
    assert_eq!((answer.status, answer.error), (None, Some(ErrorCode::InvalidResponse)));
    hung_up(&gone).await;
    let (receiver, gone) = endless(b"HTTP/1.1 200 OK\r\nx: ", &[b'a'; 4096], None).await;
    let answer = post(&egress, &receiver.url()).await;
    assert_eq!((answer.status, answer.error), (None, Some(ErrorCode::InvalidResponse)));
    hung_up(&gone).await;
    let many = "x: y\r\n".repeat(101);
    let answer = post(&egress, &answering(format!("HTTP/1.1 200 OK\r\n{many}\r\n")).await.url()).await;
    assert_eq!((answer.status, answer.error), (None, Some(ErrorCode::InvalidResponse)));
    let large = "x".repeat(HEAD_MAX_BYTES / 2);
    let head = format!("HTTP/1.1 200 OK\r\nx: {large}\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(
        post(&egress, &answering(head).await.url()).await.status,
        Some(200),
        "a large head is no crime"
    );
}

#[tokio::test]
async fn n17_t31_a_dripping_body_is_cut_and_its_status_counts() {
    let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nretry-after: 7\r\n\r\n";
    let (receiver, gone) = endless(head, b"1\r\nx\r\n", Some(Duration::from_millis(20))).await;
    let egress = egress_with(|c| c.limits = Limits { body: SHORT, ..Limits::default() });
    let answer = post(&egress, &receiver.url()).await;
    assert_eq!((answer.status, answer.error), (Some(200), Some(ErrorCode::Timeout)));
    assert!(answer.excerpt.starts_with(b"x"));
    assert_eq!(answer.retry_after, [Bytes::from_static(b"7")]);
    hung_up(&gone).await;
}

/// The total time also ends a body, when it is the shorter one.
#[tokio::test]
async fn n17_t31_the_total_time_covers_the_body() {
    let head = b"HTTP/1.1 503 Busy\r\ncontent-length: 1000000\r\n\r\n";
    let (receiver, gone) = endless(head, b"x", Some(Duration::from_millis(20))).await;
    let egress = egress_with(|c| c.limits = Limits { body: CEILING, ..Limits::default() });
    let url = receiver.url();
    let answer = egress.post(&url, Request { timeout: SHORT, ..request() }).await;
    assert_eq!((answer.status, answer.error), (Some(503), Some(ErrorCode::Timeout)));
    hung_up(&gone).await;
}

/// X04, N17: of an endless body 64 KiB are read.
#[tokio::test]
async fn n17_t32_an_endless_body_is_cut_at_64_kib() {
    let chunked =
        endless(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"a\r\n0123456789\r\n", None);
    let sized = endless(b"HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n", &[b'x'; 8192], None);
    let egress = egress_with(|c| c.limits = Limits { body: CEILING, ..Limits::default() });
    for (receiver, gone) in [chunked.await, sized.await] {
        let answer = post(&egress, &receiver.url()).await;
        assert_eq!((answer.status, answer.error), (Some(200), None));
        assert_eq!(answer.excerpt.len(), AttemptResult::EXCERPT_MAX_BYTES);
        hung_up(&gone).await;
        post(&egress, &receiver.url()).await;
        assert_eq!(receiver.connections(), 2, "a connection with an unread rest is not used again");
    }
}

/// X04: a body of exactly the cap is whole.
#[tokio::test]
async fn x04_a_body_of_exactly_the_cap_is_read_to_its_end() {
    let body = "x".repeat(BODY_MAX_BYTES);
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {BODY_MAX_BYTES}\r\n\r\n{body}");
    let receiver = receiver(move |mut stream, _| {
        let head = head.clone();
        async move {
            while read_request(&mut stream).await.is_some() {
                stream.write_all(head.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    let egress = egress();
    for _ in 0..2 {
        let answer = post(&egress, &receiver.url()).await;
        assert_eq!((answer.status, answer.error), (Some(200), None));
    }
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn n17_t33_nothing_is_inflated() {
    // A gzip member whose content is 1,000 times "0".
    let gzip = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff3\x30\x18\x05\x23\x1b\x00\x00";
    for encoding in ["gzip", "br", "zstd", "deflate", "gzip, gzip"] {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: {}\r\n\r\n",
            gzip.len()
        );
        let receiver = answering([head.as_bytes(), gzip].concat()).await;
        let answer = post(&egress(), &receiver.url()).await;
        assert_eq!(
            (answer.status, answer.error, &answer.excerpt[..]),
            (Some(200), None, &gzip[..]),
            "{encoding}"
        );
    }
}

/// What each malformed answer gives. No panic, and never success without a complete 2xx head.
#[tokio::test]
async fn n17_t35_t36_t37_malformed_and_odd_answers() {
    use ErrorCode::{ConnectionReset, InvalidResponse};
    let table: &[(&[u8], Option<u16>, Option<ErrorCode>)] = &[
        (b"", None, Some(ConnectionReset)),
        (b"HTTP/1.1 200", None, Some(ConnectionReset)),
        (b"HTTP/1.1 200 OK\r\nx: y", None, Some(ConnectionReset)),
        (b"hello\r\n\r\n", None, Some(InvalidResponse)),
        (b"HTTP/3.0 200 OK\r\n\r\n", None, Some(InvalidResponse)),
        (b"HTTP/1.1 099 Odd\r\n\r\n", None, Some(InvalidResponse)),
        (b"HTTP/1.1 1000 Odd\r\n\r\n", None, Some(InvalidResponse)),
        (b"HTTP/1.1 -1 Odd\r\n\r\n", None, Some(InvalidResponse)),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab", None, Some(InvalidResponse)),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", None, Some(InvalidResponse)),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\n", None, Some(InvalidResponse)),
        (b"HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n", None, Some(InvalidResponse)),
        (b"HTTP/1.1 200 OK\r\nx y: a\r\n\r\n", None, Some(InvalidResponse)),
        (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64", None, Some(InvalidResponse)),
        (b"\x15\x03\x01\x00\x02\x02\x28", None, Some(InvalidResponse)),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", Some(101), None),
        (b"HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n", Some(999), None),
        (b"HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\nstray", Some(204), None),
        (b"HTTP/1.1 205 Reset\r\ncontent-length: 0\r\n\r\n", Some(205), None),
        (b"HTTP/1.1 206 Partial\r\ncontent-length: 1\r\n\r\nx", Some(206), None),
        (b"HTTP/1.1 226 IM Used\r\ncontent-length: 0\r\n\r\n", Some(226), None),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil it closes", Some(200), None),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabcdef", Some(200), None),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc", Some(200), Some(ConnectionReset)),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n", Some(200), Some(ConnectionReset)),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nabc", Some(200), Some(InvalidResponse)),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            Some(200),
            None,
        ),
    ];
    let egress = egress();
    for (answer, status, error) in table {
        let receiver = answering(answer).await;
        let got = post(&egress, &receiver.url()).await;
        assert_eq!((got.status, got.error), (*status, *error), "{}", String::from_utf8_lossy(answer));
        assert_eq!(receiver.connections(), 1, "{}", String::from_utf8_lossy(answer));
    }
}

#[tokio::test]
async fn n17_t35_endless_chunk_extensions_and_trailers_are_refused() {
    let extension = endless(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;", &[b'x'; 4096], None);
    let trailers =
        endless(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", b"x: yyyyyyyy\r\n", None);
    let egress = egress_with(|c| c.limits = Limits { body: CEILING, ..Limits::default() });
    for (receiver, gone) in [extension.await, trailers.await] {
        let answer = post(&egress, &receiver.url()).await;
        assert_eq!((answer.status, answer.error), (Some(200), Some(ErrorCode::InvalidResponse)));
        hung_up(&gone).await;
    }
}

#[tokio::test]
async fn n17_t35_resets_before_and_within_the_answer() {
    for (answer, status) in
        [(&b""[..], None), (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc", Some(200))]
    {
        let receiver = receiver(move |mut stream, _| async move {
            read_request(&mut stream).await.unwrap();
            stream.write_all(answer).await.unwrap();
            stream.set_zero_linger().unwrap();
        })
        .await;
        let got = post(&egress(), &receiver.url()).await;
        assert_eq!((got.status, got.error), (status, Some(ErrorCode::ConnectionReset)));
    }
}

/// Bytes after an answer are never the answer to the next request.
#[tokio::test]
async fn n17_t38_stray_answers_are_not_taken() {
    let receiver = receiver(|mut stream, number| async move {
        read_request(&mut stream).await.unwrap();
        let stray: &[u8] = if number == 0 { b"HTTP/1.1 500 Stray\r\ncontent-length: 0\r\n\r\n" } else { b"" };
        let answer = [&b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"[..], stray].concat();
        stream.write_all(&answer).await.unwrap();
        read_request(&mut stream).await;
    })
    .await;
    let egress = egress();
    assert_eq!(post(&egress, &receiver.url()).await.status, Some(200));
    assert_eq!(post(&egress, &receiver.url()).await.status, Some(200));
    assert_eq!(receiver.connections(), 2);
}

/// N09: all of up to ten copies of `Retry-After` are heard.
#[tokio::test]
async fn n09_ten_copies_of_retry_after_are_passed_on() {
    let copies: String = (1..=12).map(|n| format!("Retry-After: {n}\r\n")).collect();
    let long = format!("retry-after: {}\r\n", "9".repeat(65));
    let head = format!("HTTP/1.1 503 Busy\r\n{long}{copies}content-length: 0\r\n\r\n");
    let answer = post(&egress(), &answering(head).await.url()).await;
    let expected: Vec<Bytes> = (1..=10).map(|n| Bytes::from(n.to_string())).collect();
    assert_eq!(answer.retry_after, expected);
}

/// A receiver that answers and closes without reading a large body is heard, or the break is told; nothing hangs.
#[tokio::test]
async fn an_early_refusal_of_a_large_body_ends() {
    let receiver = receiver(|mut stream, _| async move {
        let mut some = [0; 1024];
        let _ = stream.read(&mut some).await;
        let _ = stream
            .write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .await;
        let _ = stream.shutdown().await;
    })
    .await;
    let url = receiver.url();
    let answer = egress().post(&url, Request { body: Bytes::from(vec![b'x'; 8 << 20]), ..request() }).await;
    let known =
        matches!((answer.status, answer.error), (Some(413), _) | (None, Some(ErrorCode::ConnectionReset)));
    assert!(known, "{answer:?}");
}
