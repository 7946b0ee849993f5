//! Who decides what is traced, what the spans say, and collectors that do not answer.

use std::sync::Arc;

use bytes::Bytes;
use mailrail_types::{
    AppId, Attempt, AttemptResult, Attributes, DeadReason, Delivery, DeliveryId, EndpointId, EventId,
    History, Mailbox, RetryReason, SubscriptionId, TenantId,
};
use mailrail_types::{Outcome, Timestamp};
use opentelemetry::trace::{SpanId, TraceId};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::SpanData;
use prost::Message as _;
use tokio::sync::Notify;

use super::*;
use crate::{Metrics, ReasonLabels};

const ASKED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const DECLINED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
/// Longest that a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the collector does with a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Manner {
    Takes,
    Refuses,
    Hangs,
}

#[derive(Debug, Clone)]
struct Collector {
    manner: Arc<Mutex<Manner>>,
    got: Arc<Mutex<Vec<SpanData>>>,
    batches: Arc<Mutex<Vec<usize>>>,
    came: Arc<Notify>,
}

impl Collector {
    fn new(manner: Manner) -> Self {
        let manner = Arc::new(Mutex::new(manner));
        Self { manner, got: Arc::default(), batches: Arc::default(), came: Arc::default() }
    }

    fn spans(&self) -> Vec<SpanData> {
        self.got.lock().expect("lock").clone()
    }
}

impl SpanExporter for Collector {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.batches.lock().expect("lock").push(batch.len());
        self.came.notify_one();
        let manner = *self.manner.lock().expect("lock");
        match manner {
            Manner::Takes => {
                self.got.lock().expect("lock").extend(batch);
                Ok(())
            }
            Manner::Refuses => Err(OTelSdkError::InternalFailure("status 500".to_owned())),
            Manner::Hangs => std::future::pending().await,
        }
    }
}

fn options() -> TracesOptions {
    TracesOptions {
        url: "http://127.0.0.1:1/v1/traces".to_owned(),
        sample_ratio: 1.0,
        asked_per_second_max: 1_000,
        queue_spans_max: 8,
        batch_spans_max: 4,
        export_interval: Duration::from_millis(100),
        export_timeout: Duration::from_secs(5),
        shutdown_timeout: Duration::from_secs(2),
        process: TracedProcess {
            role: "all".to_owned(),
            instance: "test".to_owned(),
            pipeline: "default".to_owned(),
            region: String::new(),
            version: "0",
        },
    }
}

fn start(options: &TracesOptions, collector: &Collector) -> (Traces, TraceMetrics) {
    let metrics = Metrics::new().traces;
    (Traces::with_exporter(options, metrics.clone(), collector.clone(), LastAnswer::default()), metrics)
}

/// Traces over the real exporter, whose posts are answered like this.
fn start_with_answer(body: Vec<u8>) -> (Traces, TraceMetrics) {
    let (metrics, body) = (Metrics::new().traces, Bytes::from(body));
    let post: Post = Arc::new(move |_| {
        let answer = http::Response::new(body.clone());
        Box::pin(async move { Ok(answer) })
    });
    (Traces::start(&options(), metrics.clone(), post).expect("an exporter"), metrics)
}

fn event(traceparent: Option<&str>) -> Event {
    let tenant = TenantId::new("acme").expect("valid");
    Event {
        id: EventId::derive(&tenant, "/src", "1"),
        tenant,
        attributes: Attributes { source: "/canary?canary".to_owned(), ..Attributes::default() },
        ordering_key: None,
        body: Bytes::from_static(b"canary"),
        trace: traceparent
            .map(|t| TraceContext { traceparent: t.to_owned(), tracestate: "canary=1".to_owned() }),
        forwarded: None,
        accepted_at: Timestamp(1_000),
        setup_seq: 0,
        unknown: Bytes::new(),
    }
}

fn delivery(event: &Event, attempts: u32) -> Delivery {
    let subscription = SubscriptionId::new("sub").expect("valid");
    let endpoint = EndpointId::new("shop").expect("valid");
    Delivery {
        id: DeliveryId::derive(&event.id, &event.tenant, &subscription),
        app: AppId::new("app").expect("valid"),
        mailbox: Mailbox {
            pipeline: "default".into(),
            region: "".into(),
            tenant: event.tenant.clone(),
            endpoint: endpoint.clone(),
            event_type: None,
            bucket: 0,
        },
        event: event.clone(),
        subscription,
        endpoint,
        setup_seq: 0,
        matched_at: Timestamp(1_000),
        deadline: Timestamp(9_000),
        history: History { attempts, ..History::default() },
        unknown: Bytes::new(),
    }
}

fn attempt(delivery: &Delivery, number: u32, outcome: Outcome) -> Attempt {
    Attempt {
        delivery: delivery.id,
        event: delivery.event.id,
        tenant: delivery.event.tenant.clone(),
        endpoint: delivery.endpoint.clone(),
        subscription: delivery.subscription.clone(),
        number,
        started_at: Timestamp(2_000),
        duration_ms: 30,
        result: AttemptResult { status: Some(503), error: None, excerpt: Bytes::from_static(b"canary") },
        outcome,
        unknown: Bytes::new(),
    }
}

const RETRY: Outcome = Outcome::Retry { due: Timestamp(3_000), reason: RetryReason::ServerError };

fn dropped(metrics: &TraceMetrics, reason: &'static str) -> u64 {
    metrics.dropped.get_or_create(&ReasonLabels { reason }).get()
}

#[test]
fn off_makes_nothing_and_leaves_the_event_alone() {
    let traces = Traces::off();
    let mut asked = event(Some(ASKED));
    assert!(traces.begin().is_none() && traces.accept(&mut asked, None).is_none());
    assert!(traces.matching(&mut asked).is_none() && traces.headers(&asked).is_empty());
    assert_eq!(asked, event(Some(ASKED)));
}

#[tokio::test]
async fn a_producer_that_declines_is_heeded_and_chance_decides_for_the_others() {
    let collector = Collector::new(Manner::Takes);
    let (all, _) = start(&options(), &collector);
    let mut declined = event(Some(DECLINED));
    assert!(all.accept(&mut declined, None).is_none() && all.headers(&declined).is_empty());
    assert!(all.matching(&mut declined).is_none());
    assert_eq!(declined, event(Some(DECLINED)));
    let mut silent = event(None);
    assert!(all.accept(&mut silent, None).is_some() && silent.trace.is_some());

    let (none, _) = start(&TracesOptions { sample_ratio: 0.0, ..options() }, &collector);
    let mut silent = event(None);
    assert!(none.accept(&mut silent, None).is_none() && silent.trace.is_none());
    assert!(none.accept(&mut event(Some(ASKED)), None).is_some(), "who asks is traced");
}

#[tokio::test]
async fn producers_that_always_ask_get_a_bounded_number() {
    let collector = Collector::new(Manner::Takes);
    let (traces, metrics) = start(&TracesOptions { asked_per_second_max: 0, ..options() }, &collector);
    let mut asked = event(Some(ASKED));
    assert!(traces.accept(&mut asked, None).is_none());
    assert_eq!(asked, event(Some(DECLINED)), "no later stage records it either");
    assert_eq!(metrics.asked_over_limit.get(), 1);
}

/// A56: the parent chain goes from the door through match to the first attempt; each retry is a span linked to it.
#[tokio::test]
async fn a56_one_trace_from_the_door_to_the_first_attempt_and_links_from_the_next() {
    let collector = Collector::new(Manner::Takes);
    let (traces, _) = start(&options(), &collector);
    let mut event = event(Some(ASKED));
    traces.accept(&mut event, traces.begin()).expect("traced").end("accepted");
    let header = traces.headers(&event);
    assert_eq!(header[0].1, event.trace.as_ref().expect("context").traceparent.as_bytes());
    traces.matching(&mut event).expect("traced").with_deliveries(1).end("matched");
    let first = delivery(&event, 0);
    traces.attempted(&first, &attempt(&first, 1, RETRY));
    let second = delivery(&event, 1);
    traces.attempted(&second, &attempt(&second, 2, Outcome::Delivered));
    traces.attempted(&second, &attempt(&second, 1, Outcome::Dead(DeadReason::Expired)));
    traces.shutdown().await;

    let spans = collector.spans();
    let names: Vec<_> = spans.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["accept", "match", "attempt", "attempt", "settle"]);
    let asked = TraceId::from_hex("0af7651916cd43dd8448eb211c80319c").expect("hex");
    assert!(spans[..3].iter().all(|span| span.span_context.trace_id() == asked));
    assert_eq!(spans[0].parent_span_id, SpanId::from_hex("b7ad6b7169203331").expect("hex"));
    assert_eq!(spans[1].parent_span_id, spans[0].span_context.span_id());
    assert_eq!(spans[2].parent_span_id, spans[1].span_context.span_id());
    for later in &spans[3..] {
        assert_eq!(later.parent_span_id, SpanId::INVALID, "a trace of its own");
        assert_ne!(later.span_context.trace_id(), asked);
        assert_eq!(later.links.links[0].span_context.span_id(), spans[1].span_context.span_id());
    }
    let took = spans[2].end_time.duration_since(spans[2].start_time);
    assert_eq!(took.expect("in order"), Duration::from_millis(30));
    let all = format!("{spans:?}");
    assert!(!all.contains("canary"), "no body, answer, URL or header's value: {all}");
    assert_eq!(event.trace.expect("context").tracestate, "canary=1", "it goes on in the record");
}

/// A56: a collector that hangs: what waits is bounded, the rest is dropped, and whoever makes spans never waits.
#[tokio::test(start_paused = true)]
async fn a56_a_collector_that_hangs_costs_spans_and_nothing_else() {
    let collector = Collector::new(Manner::Hangs);
    let (traces, metrics) = start(&options(), &collector);
    for _ in 0..4 {
        drop(traces.accept(&mut event(None), None));
    }
    collector.came.notified().await;
    for _ in 0..20 {
        drop(traces.accept(&mut event(None), None));
    }
    assert_eq!(dropped(&metrics, "queue_full"), 12, "8 wait, 4 are on their way");
    tokio::time::timeout(PATIENCE, async {
        collector.came.notified().await;
        collector.came.notified().await;
    })
    .await
    .expect("the next batches are tried when the first was given up");
    assert!(dropped(&metrics, "export_failed") >= 8);
    // Takes shutdown_timeout and no longer.
    drop(traces.accept(&mut event(None), None));
    let asked = tokio::time::Instant::now();
    traces.shutdown().await;
    assert!(asked.elapsed() <= options().shutdown_timeout + Duration::from_millis(100));
    assert_eq!(metrics.exported.get(), 0);
    let lost = dropped(&metrics, "queue_full") + dropped(&metrics, "export_failed");
    assert_eq!(lost, 25, "each is counted, those on their way at the end as well");
}

/// A56: a collector that refuses gets the next batch when it is well again.
/// An answer of success may say that some spans, or all, were not taken.
#[tokio::test]
async fn a56_spans_that_a_collector_rejects_are_dropped_and_not_exported() {
    for (rejected_spans, lost) in [(0, 0), (2, 2), (4, 4), (1_000, 4)] {
        let partial = ExportTracePartialSuccess { rejected_spans, error_message: "over quota".to_owned() };
        let answer = ExportTraceServiceResponse { partial_success: Some(partial) };
        let (traces, metrics) = start_with_answer(answer.encode_to_vec());
        for _ in 0..4 {
            drop(traces.accept(&mut event(None), None));
        }
        traces.shutdown().await;
        assert_eq!((metrics.exported.get(), dropped(&metrics, "rejected")), (4 - lost, lost));
        assert_eq!(dropped(&metrics, "export_failed"), 0);
    }
    let (traces, metrics) = start_with_answer(Vec::new());
    drop(traces.accept(&mut event(None), None));
    traces.shutdown().await;
    assert_eq!((metrics.exported.get(), dropped(&metrics, "rejected")), (1, 0), "as most answer");
}

#[tokio::test(start_paused = true)]
async fn a56_a_collector_that_refuses_gets_the_next_batch_when_it_is_well_again() {
    let collector = Collector::new(Manner::Refuses);
    let (traces, metrics) = start(&options(), &collector);
    drop(traces.accept(&mut event(None), None));
    tokio::time::timeout(PATIENCE, collector.came.notified()).await.expect("a lone span does not wait long");
    *collector.manner.lock().expect("lock") = Manner::Takes;
    for _ in 0..6 {
        drop(traces.accept(&mut event(None), None));
    }
    traces.shutdown().await;
    assert_eq!((dropped(&metrics, "export_failed"), metrics.exported.get()), (1, 6));
    assert!(collector.batches.lock().expect("lock").iter().all(|size| *size <= 4));
    // The process ends: nobody exports, and nobody waits.
    drop(traces.accept(&mut event(None), None));
    assert_eq!(dropped(&metrics, "queue_full"), 1);
    traces.shutdown().await;
}
