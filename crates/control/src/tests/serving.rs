//! Status, and the life of the role.

use std::time::Duration;

use mailrail_log::{Committed, GroupEvent, NewRecord, TopicSpec};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{TOKEN, document, setting};
use crate::service::serve_beside;

#[tokio::test]
async fn status_says_what_waits_and_never_zero_for_unknown() {
    let setting = setting().await;
    let status = setting.get("/v1/status").await.json();
    let events = &status["pipelines"][0]["events"];
    assert_eq!(events["waiting"], Value::Null, "there is no topic yet: {status}");
    assert!(events["error"].as_str().is_some_and(|e| !e.is_empty()));

    let spec = |name: &str| TopicSpec { name: name.to_owned(), partitions: 3, retention: None };
    let topics =
        ["events.default", "deliveries.default", "dead-letters.default", "attempts.default"].map(spec);
    setting.log.ensure_topics(&topics).await.expect("topics");
    let records = |n: usize| {
        (0..n).map(|_| NewRecord { value: "x".into(), ..NewRecord::default() }).collect::<Vec<_>>()
    };
    for (topic, partition, count) in [
        ("events.default", 0, 5),
        ("events.default", 2, 2),
        ("deliveries.default", 1, 4),
        ("dead-letters.default", 1, 3),
    ] {
        setting.log.append(topic, partition, records(count)).await.expect("append");
    }
    let member = setting.log.join("match.default", "events.default").await.expect("join");
    let partitions = match member.next().await {
        Some(GroupEvent::Assigned { partitions, .. }) => partitions,
        other => panic!("expected an assignment, got {other:?}"),
    };
    assert!(partitions.contains(&0));
    let second = setting.log.bounds("events.default", 0).await.expect("bounds").low + 2;
    member.commit(vec![(0, Committed { offset: second, metadata: String::new() })]).await.expect("commit");

    let status = setting.get("/v1/status").await.json();
    let pipeline = &status["pipelines"][0];
    assert_eq!(pipeline["pipeline"], "default");
    assert_eq!(pipeline["events"], json!({ "topic": "events.default", "partitions": 3, "waiting": 3 + 2 }));
    assert_eq!(pipeline["deliveries"]["waiting"], 4);
    assert_eq!(
        pipeline["dead_letters"],
        json!({ "topic": "dead-letters.default", "partitions": 3, "records": 3 })
    );
    assert_eq!(pipeline["attempts"]["records"], 0);
    assert_eq!(status["store"]["current"], true);

    // What the group did not come to is gone: two partitions go on, and yet there is no number.
    setting.log.trim("events.default", 0, second + 1).await.expect("trim");
    let status = setting.get("/v1/status").await.json();
    let events = &status["pipelines"][0]["events"];
    assert_eq!(events["waiting"], Value::Null, "{status}");
    let error = events["error"].as_str().unwrap_or_default();
    assert!(error.starts_with("partition 0 is stopped: records 2 to 2 were deleted"), "{status}");
    assert_eq!(status["pipelines"][0]["deliveries"]["waiting"], 4);
}

#[tokio::test]
async fn serves_over_a_socket_and_drains() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let setting = setting().await;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let stop = CancellationToken::new();
    let running = tokio::spawn(setting.service.clone().run(listener, stop.clone()));
    // One connection is in the middle of a request when the stop comes, another is idle: the first is answered.
    let mut busy = tokio::net::TcpStream::connect(address).await.expect("connect");
    let mut idle = tokio::net::TcpStream::connect(address).await.expect("connect");
    let body = json!({ "setup": document() }).to_string();
    let head = format!(
        "POST /v1/apply HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    busy.write_all(head.as_bytes()).await.expect("write");
    let mut buffer = [0; 25];
    // Hyper asks for the body once the handler reads it: the request is running for sure.
    busy.read_exact(&mut buffer).await.expect("100 Continue");
    assert!(buffer.starts_with(b"HTTP/1.1 100"));
    stop.cancel();
    busy.write_all(body.as_bytes()).await.expect("write");
    let mut answer = String::new();
    busy.read_to_string(&mut answer).await.expect("read to the end");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(idle.read(&mut buffer).await.expect("closed"), 0);
    running.await.expect("no panic").expect("a clean end");
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "the port is free");
}

/// Both may take all of it, and together no longer.
#[tokio::test(start_paused = true)]
async fn connections_and_replays_have_the_same_time_from_the_stop() {
    const DRAIN: Duration = Duration::from_secs(20);
    for connections in [Duration::ZERO, DRAIN] {
        let (stop, mut replays) = (CancellationToken::new(), JoinSet::new());
        replays.spawn(std::future::pending());
        let stopped = stop.clone();
        let serving = async move {
            stopped.cancelled().await;
            tokio::time::sleep(connections).await;
            "served"
        };
        let ending = tokio::spawn(serve_beside(serving, replays, stop.clone(), DRAIN));
        tokio::time::sleep(DRAIN * 3).await;
        let begun = tokio::time::Instant::now();
        stop.cancel();
        assert_eq!(ending.await.expect("no panic"), "served");
        let took = begun.elapsed();
        assert!(took >= DRAIN && took < DRAIN + Duration::from_secs(1), "{took:?}");
    }
    // A listener that fails ends the replays, too.
    let (stop, mut replays) = (CancellationToken::new(), JoinSet::new());
    let until = stop.clone();
    replays.spawn(async move { until.cancelled().await });
    assert!(serve_beside(async { Err::<(), _>("broken") }, replays, stop, DRAIN).await.is_err());
}
