//! A56: one trace over both stages, to a collector that takes OTLP; and collectors that are not well.

mod collector;
mod recipient;

use std::time::Duration;

use bytes::Bytes;
use mailrail_egress::operator::ApiClient;

use crate::rig::{self, PATIENCE, Place, Rig, post_until_accepted};
use crate::services;
use collector::{Collector, Manner, Seen};
use recipient::Recipient;

const TOKEN: &str = "integration-test-key-of-tenant-traced";
/// What the producer's own span is.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";
/// Stands in bodies, secrets, headers and URLs, and never in a span.
const CANARY: &str = "Y2FuYXJ5";

/// Every attribute that a span may have.
const KNOWN: [&str; 11] = [
    "mailrail.pipeline",
    "mailrail.tenant",
    "mailrail.event.id",
    "mailrail.delivery.id",
    "mailrail.endpoint",
    "mailrail.attempt",
    "mailrail.deliveries",
    "mailrail.outcome",
    "mailrail.reason",
    "http.response.status_code",
    "error.type",
];

/// Room and time for every span, however slow the machine is.
const AMPLE: [(&str, &str); 2] = [
    ("MAILRAIL__TELEMETRY__TRACES__QUEUE_SPANS_MAX", "2048"),
    ("MAILRAIL__TELEMETRY__TRACES__EXPORT_TIMEOUT", "30s"),
];
/// So little that spans are soon lost.
const SCANT: [(&str, &str); 2] = [
    ("MAILRAIL__TELEMETRY__TRACES__QUEUE_SPANS_MAX", "16"),
    ("MAILRAIL__TELEMETRY__TRACES__EXPORT_TIMEOUT", "1s"),
];

async fn start(
    place: Place,
    collector: &Collector,
    recipient: &Recipient,
    room: [(&'static str, &'static str); 2],
) -> Rig {
    let env = [
        ("MAILRAIL__TELEMETRY__TRACES__OTLP_ENDPOINT", collector.url.as_str()),
        ("MAILRAIL__TELEMETRY__TRACES__SAMPLE_RATIO", "1"),
        room[0],
        room[1],
        ("MAILRAIL__TELEMETRY__TRACES__BATCH_SPANS_MAX", "8"),
        ("MAILRAIL__TELEMETRY__TRACES__EXPORT_INTERVAL", "50ms"),
        ("OTEL_EXPORTER_OTLP_HEADERS", collector::CREDENTIALS),
        ("MAILRAIL__DELIVER__RETRY__DELAYS", "50ms,1s,1s,1s,1s,1s,1s,1s,1s"),
    ];
    let rig = Rig::start_with(place, None, &env).await;
    let file = rig.folder().join("traced.yaml");
    let text = format!(
        "version: 1\ntenants:\n- id: traced\n  keys: [{{id: producer, token: {TOKEN}}}]\n  apps:\n  - id: app\n    endpoints:\n    \
         - {{id: shop, url: \"{}/path/{CANARY}?q={CANARY}\", secret: \"whsec_{CANARY}ODkwMTIzNDU2Nzg5MDEyMzQ1Njc4OTAx\"}}\n    \
         subscriptions:\n    - {{id: to-shop, endpoint: shop, event_types: [numbered]}}\n",
        recipient.url
    );
    std::fs::write(&file, text).expect("set-up file");
    rig.operate(&["apply", "-f", &file.display().to_string()]);
    rig
}

/// Posts an event and gives its id. The set-up may not have reached the door yet.
async fn post(rig: &Rig, id: &str, traceparent: Option<&str>) -> String {
    let api = ApiClient::new(&rig.ingest, Some(TOKEN)).expect("client");
    let mut more = vec![("x-canary", CANARY)];
    let state = format!("c={CANARY}");
    if let Some(traceparent) = traceparent {
        more.extend([("traceparent", traceparent), ("tracestate", state.as_str())]);
    }
    let body = Bytes::from(format!(r#"{{"secret":"{CANARY}"}}"#));
    post_until_accepted(&api, id, "application/json", &more, body).await.to_string()
}

/// Waits until match has committed what it read: killed before, it would match it again, in another span.
async fn wait_matched(rig: &Rig) {
    let api = ApiClient::new(rig.control(), Some(rig::TOKEN)).expect("client");
    let matched = async {
        loop {
            let status = api.get("/v1/status").await.expect("a status");
            if status["pipelines"][0]["events"]["waiting"].as_u64() == Some(0) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, matched).await.expect("match commits");
}

/// The spans of an event by this name, in the order of their attempts.
fn of<'s>(seen: &'s [Seen], event: &str, name: &str) -> Vec<&'s Seen> {
    let mut found: Vec<_> =
        seen.iter().filter(|it| it.span.name == name && it.attribute("mailrail.event.id") == event).collect();
    found.sort_by_key(|it| it.attribute("mailrail.attempt"));
    found
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Of an event: the door's span, that of match, and its first attempt, each a part of the one before; later attempts are
/// traces of their own with a link to the span of match. Gives the id of that.
fn check_chain(seen: &[Seen], event: &str, producers: Option<&str>) -> String {
    let only = |name: &str| match &of(seen, event, name)[..] {
        [one] => (*one).clone(),
        other => panic!("{name}: {other:#?}"),
    };
    let (accept, matched) = (only("accept"), only("match"));
    let attempts = of(seen, event, "attempt");
    let trace = &accept.span.trace_id;
    assert_eq!(hex(&accept.span.parent_span_id), producers.unwrap_or_default());
    assert_eq!((accept.attribute("mailrail.outcome"), accept.span.kind), ("accepted".to_owned(), 2));
    assert_eq!((&matched.span.trace_id, &matched.span.parent_span_id), (trace, &accept.span.span_id));
    assert_eq!(matched.attribute("mailrail.deliveries"), "1");
    let first = attempts.first().expect("an attempt");
    assert_eq!((&first.span.trace_id, &first.span.parent_span_id), (trace, &matched.span.span_id));
    assert_eq!(first.attribute("mailrail.attempt"), "1");
    assert!(first.span.links.is_empty());
    for later in &attempts[1..] {
        // An attempt that was told of and not recorded when its process was killed is made again, with its number.
        let number: u32 = later.attribute("mailrail.attempt").parse().expect("a number");
        assert!(number >= 2, "{later:#?}");
        assert!(later.span.trace_id != *trace && later.span.parent_span_id.is_empty(), "{later:#?}");
        let [link] = &later.span.links[..] else { panic!("one link: {later:#?}") };
        assert_eq!((&link.trace_id, &link.span_id), (trace, &matched.span.span_id));
    }
    hex(&matched.span.span_id)
}

/// A trace that a producer began goes on to the first attempt. Retries are linked to it, also when the process that made
/// the first ones was killed and the delivery came back from the journal. Nothing of it reaches the recipient.
async fn one_trace_over_both_stages(place: Place) {
    let (collector, recipient) = (Collector::start(Manner::Takes).await, Recipient::start().await);
    let roles: &[&str] = match place {
        Place::Embedded => &["dev"],
        Place::Services { .. } => &["ingest", "match", "deliver"],
    };
    let mut rig = start(place, &collector, &recipient, AMPLE).await;
    let asked = post(&rig, "asked", Some(&format!("00-{TRACE}-{SPAN}-01"))).await;
    let tried = |seen: &[Seen]| of(seen, &asked, "attempt").len() >= 2;
    collector.wait("two attempts", tried).await;
    wait_matched(&rig).await;
    for process in rig.processes.iter_mut().filter(|p| matches!(p.name(), "dev" | "deliver")) {
        process.kill_and_restart();
    }
    recipient.be_well();
    let delivered = |event: &str, seen: &[Seen]| {
        of(seen, event, "attempt").iter().any(|it| it.attribute("mailrail.outcome") == "delivered")
    };
    collector.wait("a delivery", |seen| delivered(&asked, seen)).await;
    let declined = post(&rig, "declined", Some(&format!("00-{TRACE}-{SPAN}-00"))).await;
    let drawn = post(&rig, "drawn", None).await;
    collector.wait("the drawn one", |seen| delivered(&drawn, seen)).await;
    recipient.wait_event("declined").await;
    rig.stop_all().await;

    let seen = collector.seen();
    let matched = check_chain(&seen, &asked, Some(SPAN));
    assert!(of(&seen, &asked, "attempt").len() >= 3);
    check_chain(&seen, &drawn, None);
    assert!(!seen.iter().any(|it| it.attribute("mailrail.event.id") == declined), "{seen:#?}");
    let first = of(&seen, &asked, "attempt")[0];
    assert_eq!(first.attribute("mailrail.outcome"), "retry");
    assert_eq!(first.attribute("http.response.status_code"), "503");
    assert_eq!(hex(&first.span.trace_id), TRACE);
    let mut from: Vec<_> = seen.iter().map(|it| it.role.as_str()).collect();
    from.sort_unstable();
    from.dedup();
    let mut roles = roles.to_vec();
    roles.sort_unstable();
    assert_eq!(from, roles);
    check_what_is_told(&seen);
    check_the_wire(&seen, &recipient);
    let records = rig.delivery_records().await;
    let carried = |record: &&mailrail_log::StoredRecord| {
        let context = format!("00-{TRACE}-{matched}-01");
        record.headers.iter().any(|(name, value)| name == "traceparent" && *value == context)
    };
    let record = records.iter().find(carried).expect("the record carries the context in a header");
    let delivery = mailrail_wire::decode_delivery(&record.value).expect("a delivery");
    let trace = delivery.event.trace.expect("and in itself, for the journal");
    assert_eq!(
        (trace.traceparent, trace.tracestate),
        (format!("00-{TRACE}-{matched}-01"), format!("c={CANARY}"))
    );
}

fn check_what_is_told(seen: &[Seen]) {
    for it in seen {
        for attribute in &it.span.attributes {
            assert!(KNOWN.contains(&attribute.key.as_str()), "{attribute:?}");
        }
        assert!(it.span.events.is_empty() && it.span.trace_state.is_empty(), "{it:#?}");
    }
    let all = format!("{seen:?}");
    for secret in [CANARY, TOKEN, "/path/", "whsec", "127.0.0.1"] {
        assert!(!all.contains(secret), "{secret} is told");
    }
}

/// Neither the context nor any id of a span is sent.
fn check_the_wire(seen: &[Seen], recipient: &Recipient) {
    let got = recipient.got();
    assert!(got.len() >= 5, "three attempts of one event, and two more events");
    for headers in &got {
        for name in ["traceparent", "tracestate", "baggage", "ce-traceparent"] {
            assert!(!headers.contains_key(name), "{headers:?}");
        }
        let text = format!("{headers:?}");
        let ids = seen.iter().flat_map(|it| [hex(&it.span.trace_id), hex(&it.span.span_id)]);
        for id in ids {
            assert!(!text.contains(&id), "{id} is sent: {text}");
        }
    }
}

/// A56: one trace over both stages, as a collector gets it from one process on embedded parts.
#[tokio::test(flavor = "multi_thread")]
async fn a56_one_trace_over_both_stages_embedded() {
    one_trace_over_both_stages(Place::Embedded).await;
}

/// A56: one trace over processes, whose context travels in the records of Kafka.
#[tokio::test(flavor = "multi_thread")]
async fn a56_one_trace_over_both_stages_on_kafka() {
    let (Some(kafka), Some(postgres)) =
        (services::address("MAILRAIL_TEST_KAFKA"), services::address("MAILRAIL_TEST_POSTGRES"))
    else {
        return;
    };
    one_trace_over_both_stages(Place::Services { kafka, postgres }).await;
}

/// A collector that hangs, then fails, then is well: every event is delivered all the while, and what is lost of the traces
/// is counted. It hangs again when the process ends, which ends nevertheless.
#[tokio::test(flavor = "multi_thread")]
async fn a56_a_collector_that_is_not_well_changes_nothing_about_deliveries() {
    let (collector, recipient) = (Collector::start(Manner::Hangs).await, Recipient::start().await);
    recipient.be_well();
    let mut rig = start(Place::Embedded, &collector, &recipient, SCANT).await;
    let mut posted = 0;
    for manner in [Manner::Hangs, Manner::Fails] {
        collector.turn(manner);
        while collector.asked(manner) < 2 {
            post(&rig, &format!("event-{posted}"), None).await;
            posted += 1;
        }
    }
    for _ in 0..20 {
        post(&rig, &format!("event-{posted}"), None).await;
        posted += 1;
    }
    recipient.wait(posted).await;
    let page = rig.metrics().await;
    assert!(dropped(&page, "export_failed") > 0, "{page}");
    collector.turn(Manner::Takes);
    post(&rig, "well-again", None).await;
    recipient.wait(posted + 1).await;
    collector.wait("spans", |seen| !seen.is_empty()).await;
    collector.turn(Manner::Hangs);
    for n in 0..20 {
        post(&rig, &format!("late-{n}"), None).await;
    }
    recipient.wait(posted + 21).await;
    rig.stop_all().await;
}

fn dropped(page: &str, reason: &str) -> u64 {
    let start = format!("mailrail_trace_spans_dropped_total{{reason=\"{reason}\"}} ");
    let line = page.lines().find_map(|line| line.strip_prefix(&start));
    line.and_then(|count| count.parse().ok()).unwrap_or_default()
}
