//! The receiver over a real socket.

use std::io;
use std::net::SocketAddr;

use http::HeaderMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::verify::tests::{SECRET, signed};
use super::*;

/// One request on a connection of its own; the raw answer.
async fn request(
    addr: SocketAddr,
    method: &str,
    path: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> io::Result<String> {
    let mut stream = TcpStream::connect(addr).await?;
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {}\r\n", value.to_str().expect("text")));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

async fn post(receiver: &ReceiverHandle, endpoint: &str, id: &str, body: &[u8]) -> io::Result<u16> {
    let mut headers = signed(SECRET, id, body);
    headers.insert("mailrail-attempt", 1.into());
    headers.insert("mailrail-event-id", "evt_x".parse().expect("header"));
    let answer = request(receiver.addr(), "POST", &format!("/{endpoint}"), &headers, body).await?;
    Ok(answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("status line"))
}

async fn start(settings: ReceiverSettings) -> ReceiverHandle {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("free port");
    Receiver::start(listener, settings).expect("starts")
}

fn endpoints(list: &[&str]) -> ReceiverSettings {
    ReceiverSettings::new(
        list.iter()
            .map(|text| {
                let (name, script) = text.split_once(' ').expect("name and script");
                format!("{name}={SECRET}:{script}").parse().expect("endpoint")
            })
            .collect(),
    )
}

#[tokio::test]
async fn n05_receipts_hold_the_bytes_that_came() {
    let mut settings = endpoints(&["shop ok"]);
    settings.keep_bodies = true;
    let receiver = start(settings).await;
    let body = b"{\"a\":1,\"a\": 123456789012345678901234567890 }\xff\x00";
    assert_eq!(post(&receiver, "shop", "dlv_1", body).await.expect("answer"), 200);

    let receipts = receiver.receipts();
    let [receipt] = receipts.as_slice() else { panic!("one receipt, not {receipts:?}") };
    assert_eq!(receipt.body.as_deref(), Some(body.as_slice()));
    assert_eq!(receipt.body_bytes, body.len() as u64);
    assert_eq!((receipt.webhook_id.as_str(), receipt.attempt), ("dlv_1", Some(1)));
    assert_eq!((receipt.event_id.as_deref(), receipt.position), (Some("evt_x"), 1));
    assert!(receipt.is_accepted());
    receiver.stop().await;
}

#[tokio::test]
async fn n06_gaps_reorderings_and_repetitions_are_counted_per_endpoint() {
    let receiver = start(endpoints(&["shop ok", "other ok"])).await;
    let send = async |endpoint: &str, id: &str, sequence: &str| {
        let mut headers = signed(SECRET, id, b"{}");
        headers.insert("mailrail-sequence", sequence.parse().expect("header"));
        let path = format!("/{endpoint}");
        let answer = request(receiver.addr(), "POST", &path, &headers, b"{}").await.expect("answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    };
    let sequence = |number: u64, offset: u64| {
        format!(r#"{number};key="00000000000000ff";epoch="0.7.0";offset={offset}"#)
    };
    send("shop", "a", &sequence(1, 10)).await;
    send("shop", "a", &sequence(1, 10)).await;
    send("shop", "e", &sequence(5, 19)).await;
    send("shop", "c", &sequence(3, 14)).await;
    send("shop", "f", "6;epoch=\"0.7.0\"").await;
    send("other", "x", &sequence(1, 3)).await;
    assert_eq!(post(&receiver, "other", "y", b"{}").await.expect("answer"), 200);

    let report = receiver.snapshot();
    let of = |counts: &Counts| {
        [counts.sequence_gaps, counts.sequence_reordered, counts.sequence_repeated, counts.sequence_unread]
    };
    assert_eq!(of(&report.endpoints["shop"]), [2, 1, 1, 1], "2 and 4 are missing");
    assert_eq!(of(&report.endpoints["other"]), [0, 0, 0, 1]);
    assert_eq!(of(&report.total), [2, 1, 1, 2]);
    receiver.stop().await;
}

/// Stopped when the test ends.
struct Sample(std::process::Child);

impl Drop for Sample {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program of docs/receiving.md, on a port that is free, keeping what it takes in `folder`; `None` without Python.
async fn documented_receiver(folder: &std::path::Path) -> Option<(Sample, SocketAddr)> {
    let page = include_str!("../../../../docs/receiving.md");
    let (_, program) = page.split_once("```python\n").expect("a program");
    let (program, _) = program.split_once("```").expect("its end");
    assert!(program.contains("9000"));
    let addr = TcpListener::bind("127.0.0.1:0").await.and_then(|it| it.local_addr()).expect("a port");
    let file = folder.join("receiver.py");
    std::fs::write(&file, program.replace("9000", &addr.port().to_string())).expect("written");
    let mut python = std::process::Command::new("python3");
    python.arg(&file).current_dir(folder).env("SECRET", SECRET);
    python.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let sample = Sample(match python.spawn() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            assert!(std::env::var_os("MAILRAIL_TEST_REQUIRE").is_none(), "this test needs python3");
            eprintln!("skipped: there is no python3");
            return None;
        }
        started => started.expect("it starts"),
    });
    let listening = async {
        while TcpStream::connect(addr).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), listening).await.expect("it listens");
    Some((sample, addr))
}

/// A43: the receiver of docs/receiving.md takes each delivery once, however often and in whatever order attempts of it come, and
/// answers 2xx to those that it knows; what is not signed does nothing.
#[tokio::test]
async fn a43_the_documented_receiver_takes_each_delivery_once() {
    const DELIVERIES: u64 = 40;
    let folder = tempfile::tempdir().expect("a folder");
    let Some((_sample, addr)) = documented_receiver(folder.path()).await else { return };
    // Each comes one to five times; a stride that shares no factor with their number spreads the copies.
    let copies: Vec<u64> = (0..DELIVERIES).flat_map(|n| vec![n; 1 + n as usize % 5]).collect();
    let mut sent = 0;
    for at in 0..copies.len() {
        let n = copies[at * 37 % copies.len()];
        let body = format!("{{\"n\":{n}}}");
        let mut headers = signed(SECRET, &format!("dlv_{n}"), body.as_bytes());
        headers.insert("mailrail-attempt", (at as u64 % 5 + 1).into());
        let answer = request(addr, "POST", "/", &headers, body.as_bytes()).await.expect("answer");
        assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
        sent += 1;
    }
    let forged = signed(SECRET, "dlv_forged", b"signed");
    let answer = request(addr, "POST", "/", &forged, b"other").await.expect("answer");
    assert!(answer.starts_with("HTTP/1.0 401"), "{answer}");
    assert_eq!(sent, 120, "three times each on average");
    let count = "import sqlite3; print(*sqlite3.connect('inbox.db').execute('SELECT count(*), count(DISTINCT id) FROM taken').fetchone())";
    let said = std::process::Command::new("python3").args(["-c", count]).current_dir(folder.path()).output();
    assert_eq!(
        String::from_utf8_lossy(&said.expect("it runs").stdout).trim(),
        format!("{DELIVERIES} {DELIVERIES}")
    );
}

#[tokio::test]
async fn a_bad_signature_is_counted_and_refused() {
    let receiver = start(endpoints(&["shop ok"])).await;
    let headers = signed(SECRET, "dlv_1", b"signed");
    let answer = request(receiver.addr(), "POST", "/shop", &headers, b"other").await.expect("answer");
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    let answer =
        request(receiver.addr(), "POST", "/shop", &HeaderMap::new(), b"signed").await.expect("answer");
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");

    let report = receiver.snapshot();
    assert_eq!((report.total.received, report.total.verified, report.total.bad_signature), (2, 0, 2));
    assert!(receiver.receipts().iter().all(|receipt| !receipt.is_accepted()));
}

#[tokio::test]
async fn scripts_are_followed_per_endpoint() {
    let receiver =
        start(endpoints(&["first first=2:503", "every every=2:500", "field field=/action=deleted:400"]))
            .await;
    let mut answers = Vec::new();
    for (endpoint, id, body) in [
        ("first", "a", "{}"),
        ("first", "a", "{}"),
        ("first", "a", "{}"),
        ("every", "a", "{}"),
        ("every", "b", "{}"),
        ("every", "b", "{}"),
        ("field", "a", r#"{"action":"deleted"}"#),
        ("field", "b", r#"{"action":"created"}"#),
    ] {
        answers.push(post(&receiver, endpoint, id, body.as_bytes()).await.expect("answer"));
    }
    assert_eq!(answers, [503, 503, 200, 200, 500, 200, 400, 200]);
    let report = receiver.snapshot();
    assert_eq!(report.endpoints["first"].duplicates, 0);
    assert_eq!((report.endpoints["every"].deliveries, report.endpoints["every"].delivered), (2, 2));
    assert_eq!((report.endpoints["field"].deliveries, report.endpoints["field"].delivered), (2, 1));
    assert_eq!(report.total.received, 8);
}

#[tokio::test]
async fn a_reset_brings_no_answer_and_a_script_can_change() {
    let receiver = start(endpoints(&["shop reset"])).await;
    let error = post(&receiver, "shop", "a", b"{}").await.expect_err("no answer");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(receiver.receipts()[0].status, None);

    receiver.set_behaviour("shop", "ok".parse().expect("script")).expect("endpoint");
    assert_eq!(post(&receiver, "shop", "a", b"{}").await.expect("answer"), 200);

    let over_http =
        request(receiver.addr(), "PUT", "/behaviour/shop", &HeaderMap::new(), b"status=418\n").await;
    assert!(over_http.expect("answer").starts_with("HTTP/1.1 204"));
    assert_eq!(post(&receiver, "shop", "b", b"{}").await.expect("answer"), 418);

    let unknown = request(receiver.addr(), "PUT", "/behaviour/nobody", &HeaderMap::new(), b"ok").await;
    assert!(unknown.expect("answer").starts_with("HTTP/1.1 400"));
}

#[tokio::test]
async fn a_hanging_endpoint_does_not_hold_up_the_others_nor_the_end() {
    let receiver = start(endpoints(&["stuck hang", "shop ok"])).await;
    let stuck = {
        let addr = receiver.addr();
        tokio::spawn(async move { request(addr, "POST", "/stuck", &signed(SECRET, "a", b"{}"), b"{}").await })
    };
    receiver.reached(|report| report.endpoints["stuck"].received == 1).await;
    assert_eq!(post(&receiver, "shop", "b", b"{}").await.expect("answer"), 200);
    receiver.stop().await;
    assert!(stuck.await.expect("task").is_err(), "a hanging request gets no answer");
}

#[tokio::test]
async fn order_is_read_off_the_body() {
    let mut settings = endpoints(&["shop ok"]);
    settings.order_of = Some(json_order("key", "seq"));
    let receiver = start(settings).await;
    for (id, body) in [
        ("a", r#"{"key":"x","seq":1}"#),
        ("c", r#"{"key":"x","seq":3}"#),
        ("b", r#"{"key":"x","seq":2}"#),
        ("d", r#"{"key":7,"seq":1}"#),
        ("e", "no order"),
    ] {
        post(&receiver, "shop", id, body.as_bytes()).await.expect("answer");
    }
    assert_eq!(receiver.snapshot().total.order_violations, 1);
}

#[tokio::test]
async fn the_journal_continues_after_a_kill() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("receipts.jsonl");
    let mut settings = endpoints(&["shop ok"]);
    settings.journal = Some(path.clone());
    let receiver = start(settings.clone()).await;
    post(&receiver, "shop", "a", b"{}").await.expect("answer");
    post(&receiver, "shop", "b", b"{}").await.expect("answer");
    let before = receiver.receipts();
    receiver.stop().await;
    // A kill in the middle of a line.
    let whole = std::fs::read(&path).expect("journal");
    std::fs::write(&path, [whole.as_slice(), b"{\"position\":3,\"arri"].concat()).expect("journal");

    let receiver = start(settings).await;
    assert_eq!(receiver.receipts(), before);
    post(&receiver, "shop", "b", b"{}").await.expect("answer");
    let report = receiver.snapshot();
    assert_eq!((report.total.received, report.total.deliveries, report.total.duplicates), (3, 2, 1));
    receiver.stop().await;

    let lines = std::fs::read_to_string(&path).expect("journal");
    let positions: Vec<u64> = lines
        .lines()
        .map(|line| serde_json::from_str::<Receipt>(line).expect("a receipt").position)
        .collect();
    assert_eq!(positions, [1, 2, 3]);
}

#[tokio::test]
async fn receipts_are_bounded_and_counts_go_on() {
    let mut settings = endpoints(&["shop ok"]);
    settings.receipts_max = 2;
    let receiver = start(settings).await;
    for id in ["a", "b", "c"] {
        post(&receiver, "shop", id, b"{}").await.expect("answer");
    }
    let report = receiver.snapshot();
    assert_eq!((receiver.receipts().len(), report.total.received, report.truncated), (2, 3, true));
}

#[tokio::test]
async fn the_report_is_served() {
    let receiver = start(endpoints(&["shop ok"])).await;
    post(&receiver, "shop", "a", b"{}").await.expect("answer");
    post(&receiver, "nobody", "a", b"{}").await.expect("answer");
    let answer = request(receiver.addr(), "GET", "/report", &HeaderMap::new(), b"").await.expect("answer");
    let (_, json) = answer.split_once("\r\n\r\n").expect("a body");
    let report: ReceiverReport = serde_json::from_str(json).expect("a report");
    assert_eq!(report, receiver.snapshot());
    assert_eq!((report.total.accepted, report.unknown_endpoint), (1, 1));
}

#[tokio::test]
async fn endpoints_that_cannot_be_are_refused() {
    for (text, part) in [("report ok", "uses itself"), ("a/b ok", "without '/'")] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("free port");
        let error = Receiver::start(listener, endpoints(&[text])).err().expect("refused");
        assert!(error.to_string().contains(part), "{error}");
    }
    assert!("shop".parse::<ReceiverEndpoint>().is_err());
    assert!("shop=whsec_x:never".parse::<ReceiverEndpoint>().is_err());
    let error = State::new(ReceiverSettings::new(vec!["shop=whsec_???".parse().expect("form")])).err();
    let text = error.expect("refused").to_string();
    assert!(!text.contains("???"), "a secret is never echoed: {text}");
}
