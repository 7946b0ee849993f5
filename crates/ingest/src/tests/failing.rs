//! The log does not take it: nothing is reported as accepted.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use mailrail_log::{Bounds, Committed, LogError, Membership, NewRecord, Offset, Readers};

use super::*;

/// How the log fails.
#[derive(Clone, Copy)]
enum Failure {
    Unavailable,
    TooLarge,
    Silent,
}

/// A log that fails every append, for the paths that a real one takes only in bad times.
struct FailingLog {
    failure: Failure,
    calls: Mutex<Vec<usize>>,
}

#[async_trait]
impl Log for FailingLog {
    async fn append(&self, _: &str, _: u32, records: Vec<NewRecord>) -> Result<Vec<Offset>, LogError> {
        self.calls.lock().expect("no panic").push(records.len());
        match self.failure {
            Failure::Unavailable => Err(LogError::Unavailable("canary-broker:9092 is away".into())),
            Failure::TooLarge => Err(LogError::TooLarge { bytes: 2_000_000 }),
            Failure::Silent => std::future::pending().await,
        }
    }

    async fn ensure_topics(&self, _: &[TopicSpec]) -> Result<(), LogError> {
        Err(LogError::Closed)
    }

    fn readers(&self) -> Result<Box<dyn Readers>, LogError> {
        Err(LogError::Closed)
    }

    async fn join(&self, _: &str, _: &str) -> Result<Box<dyn Membership>, LogError> {
        Err(LogError::Closed)
    }

    fn never_committed_is_certain(&self) -> bool {
        true
    }

    async fn committed(&self, _: &str, _: &str, _: u32) -> Result<Option<Committed>, LogError> {
        Err(LogError::Closed)
    }

    async fn bounds(&self, _: &str, _: u32) -> Result<Bounds, LogError> {
        Err(LogError::Closed)
    }

    async fn trim(&self, _: &str, _: u32, _: Offset) -> Result<(), LogError> {
        Err(LogError::Closed)
    }

    async fn check(&self) -> Result<(), LogError> {
        Err(LogError::Closed)
    }

    async fn close(&self, _: Duration) {}
}

struct Failing {
    router: Router,
    log: Arc<FailingLog>,
    metrics: Metrics,
    _folder: TempDir,
}

async fn failing(failure: Failure) -> Failing {
    let folder = TempDir::new().expect("a folder");
    let directory = directory(&folder).await;
    failing_on(failure, folder, directory)
}

fn failing_on(failure: Failure, folder: TempDir, directory: Arc<Directory>) -> Failing {
    let log = Arc::new(FailingLog { failure, calls: Mutex::default() });
    let metrics = Metrics::new();
    let service = Service::new(config(), log.clone(), directory, sizer(), &metrics, Arc::new(|| NOW));
    Failing { router: service.router(), log, metrics, _folder: folder }
}

/// A11: no 202 without the acknowledgement of the log.
#[tokio::test]
async fn a11_nothing_is_accepted_that_the_log_did_not_acknowledge() {
    let door = failing(Failure::Unavailable).await;
    let mixed = format!("[{},5,{}]", event_json("1"), event_json("2"));
    for request in [structured(event_json("1")), batch(mixed)] {
        let answer = send(&door.router, request).await;
        answer.assert_problem(503, "log_unavailable");
        assert_eq!(answer.headers["retry-after"], "5");
        let text = answer.json.to_string();
        assert!(text.contains("send the same request again"), "{text}");
        assert!(
            !text.contains("evt_") && !text.contains("canary"),
            "no id, and nothing of our insides: {text}"
        );
    }
    assert_eq!(*door.log.calls.lock().expect("no panic"), [1, 2], "a batch is one append");
    let text = door.metrics.render();
    assert!(text.contains("mailrail_ingest_events_accepted_total 0"), "{text}");
    assert!(text.contains("mailrail_ingest_events_refused_total{reason=\"log_unavailable\"} 2"), "{text}");
    assert!(text.contains("mailrail_ingest_append_seconds_count 2"), "a failure takes its time too: {text}");
}

#[tokio::test]
async fn a_record_that_the_log_does_not_take_is_the_producers_to_make_smaller() {
    let door = failing(Failure::TooLarge).await;
    let answer = send(&door.router, structured(event_json("1"))).await;
    answer.assert_problem(413, "too_large_record");
    assert!(answer.json["detail"].as_str().is_some_and(|d| d.contains("2000000 bytes")), "{answer:?}");
}

#[tokio::test]
async fn a_silent_log_is_not_waited_for_without_end() {
    let door = failing(Failure::Silent).await;
    tokio::time::pause();
    send(&door.router, structured(event_json("1"))).await.assert_problem(503, "log_unavailable");
}

/// A11: the same of a third party's webhook.
#[tokio::test]
async fn a11_a_webhook_too_is_accepted_only_when_the_log_has_it() {
    for (failure, status, code) in
        [(Failure::Unavailable, 503, "log_unavailable"), (Failure::TooLarge, 413, "too_large_record")]
    {
        let (folder, directory) = super::inbound::directory().await;
        let door = failing_on(failure, folder, directory);
        let request = Request::post("/v1/inbound/github/gh").body(Body::from("{}")).expect("a request");
        send(&door.router, request).await.assert_problem(status, code);
        assert_eq!(*door.log.calls.lock().expect("no panic"), [1]);
        let text = door.metrics.render();
        assert!(text.contains("mailrail_ingest_events_accepted_total 0"), "{text}");
    }
}
