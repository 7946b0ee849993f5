//! What is on the wire: exactly what was given, and nothing that was not.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use mailrail_egress::Request;
use mailrail_types::ErrorCode;
use tokio::io::AsyncWriteExt;
use tokio::sync::Mutex;

use crate::support::*;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

async fn recorder() -> (Receiver, Arc<Mutex<Vec<Vec<u8>>>>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&requests);
    let receiver = receiver(move |mut stream, _| {
        let record = Arc::clone(&record);
        async move {
            while let Some(request) = read_request(&mut stream).await {
                record.lock().await.push(request);
                if stream.write_all(OK).await.is_err() {
                    return;
                }
            }
        }
    })
    .await;
    (receiver, requests)
}

fn header(name: &'static str, value: &'static str) -> (HeaderName, HeaderValue) {
    (HeaderName::from_static(name), HeaderValue::from_static(value))
}

/// N05 at this end: bytes out = bytes in. And no header that nobody asked for.
#[tokio::test]
async fn n05_the_body_and_the_headers_are_sent_as_given() {
    let (receiver, requests) = recorder().await;
    let body: Vec<u8> = (0..=255).chain(*b"\r\n{\"a\":1,\"a\":123456789012345678901234567890}\0").collect();
    let url = format!("http://{}/hook/a%2Fb?x=1&y=%20", receiver.addr);
    let headers = vec![
        header("webhook-id", "tenant's"),
        header("x-team", "payments"),
        header("content-type", "application/json"),
        header("webhook-id", "ours"),
    ];
    let request = Request { headers, body: Bytes::from(body.clone()), timeout: CEILING };
    let answer = egress().post(&url, request).await;
    assert_eq!((answer.status, answer.error, &answer.excerpt[..]), (Some(200), None, &b"ok"[..]));
    let seen = requests.lock().await.remove(0);
    let cut = seen.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    assert_eq!(&seen[cut + 4..], body);
    let head = String::from_utf8(seen[..cut].to_vec()).unwrap();
    let mut lines: Vec<_> = head.split("\r\n").collect();
    assert_eq!(lines.remove(0), "POST /hook/a%2Fb?x=1&y=%20 HTTP/1.1");
    lines.sort_unstable();
    let (host, length) = (format!("host: {}", receiver.addr), format!("content-length: {}", body.len()));
    let agent = format!("user-agent: mailrail/{}", env!("CARGO_PKG_VERSION"));
    let mut expected = vec![
        "webhook-id: ours",
        "x-team: payments",
        "content-type: application/json",
        &host,
        &length,
        &agent,
    ];
    expected.sort_unstable();
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn an_empty_body_says_so() {
    let (receiver, requests) = recorder().await;
    let url = receiver.url();
    let answer = egress().post(&url, Request { body: Bytes::new(), ..request() }).await;
    assert_eq!(answer.status, Some(200));
    let seen = String::from_utf8(requests.lock().await.remove(0)).unwrap();
    assert!(seen.contains("content-length: 0\r\n"), "{seen}");
}

/// Torture row T21, the last wall: set-up refuses these names already.
#[tokio::test]
async fn n17_t21_framing_headers_cannot_be_set() {
    let receiver = answering(OK).await;
    let egress = egress();
    for name in [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "accept-encoding",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
    ] {
        let url = receiver.url();
        let answer = egress.post(&url, Request { headers: vec![header(name, "1")], ..request() }).await;
        assert_eq!((answer.status, answer.error), (None, Some(ErrorCode::InvalidRequest)), "{name}");
    }
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn connections_are_reused_when_the_answer_was_read_to_its_end() {
    let (receiver, requests) = recorder().await;
    let egress = egress();
    for _ in 0..5 {
        assert_eq!(post(&egress.clone(), &receiver.url()).await.status, Some(200));
    }
    assert_eq!(requests.lock().await.len(), 5);
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn many_posts_at_once_all_get_their_own_answer() {
    let receiver = receiver(|mut stream, _| async move {
        while let Some(request) = read_request(&mut stream).await {
            let body = request.split(|b| *b == b'\n').next_back().unwrap().to_vec();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(&[head.into_bytes(), body].concat()).await;
        }
    })
    .await;
    let egress = egress();
    let posts = (0..200).map(|n| {
        let (egress, url) = (egress.clone(), receiver.url());
        tokio::spawn(async move {
            let body = Bytes::from(format!("number {n}"));
            let answer = egress.post(&url, Request { body: body.clone(), ..request() }).await;
            assert_eq!((answer.status, answer.error, answer.excerpt), (Some(200), None, body));
        })
    });
    for post in posts.collect::<Vec<_>>() {
        post.await.unwrap();
    }
}

#[test]
fn n16_requests_print_no_secrets() {
    let request = Request {
        headers: vec![header("authorization", "Bearer canary")],
        body: Bytes::from_static(b"canary"),
        timeout: CEILING,
    };
    assert!(!format!("{request:?}").contains("canary"));
    let destination = egress().destination("http://127.0.0.1/canary?token=canary").unwrap();
    assert!(!format!("{destination:?}").contains("canary"));
}
