//! Whether a client still knows a broker.
//!
//! A broker that has just started may answer that there are none. Librdkafka then forgets every broker, those of the settings too
//! (confluentinc/librdkafka#5301, from 2.10 to 2.15 at least). The last of them that goes down schedules a look at the settings, and most
//! often that look is made. But the answer that emptied the list ends in stopping its timer (`rd_kafka_rebootstrap_tmr_stop`): who is
//! stopped in that race takes the look for one under way (`rk_rebootstrap_in_progress`), schedules no other, and never connects to anything
//! again. No error says so, and nothing of it ends: such a client must be made anew. It shows in what a client tells of itself.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

/// Milliseconds between two reports of a client about itself.
pub(super) const REPORT_INTERVAL_MS: &str = "5000";
/// The same of the producer: a report covers all partitions of its topics, which are megabytes where they are thousands, and a producer
/// that sends nothing is also found when an append gets no acknowledgement in time.
pub(super) const PRODUCER_REPORT_INTERVAL_MS: &str = "20000";
/// Sources of what stands among the brokers and has no address of its own. All others are brokers, whatever a later version calls them.
const NO_BROKERS: [&str; 2] = ["logical", "internal"];
/// Reports without a broker over so many microseconds mean that there will be none. For a moment there may be none.
const WITHOUT_MICROS: i64 = 5_000_000;

/// What the reports of one client said.
#[derive(Debug, Default)]
pub(super) struct KnownBrokers {
    /// The client's time of the first report without a broker, of those in a row.
    without_since: Mutex<Option<i64>>,
    forgotten: AtomicBool,
    /// It was said that a report cannot be read.
    told: AtomicBool,
}

/// The part of a report that counts; librdkafka's STATISTICS.md has all of it.
#[derive(Deserialize)]
struct Report {
    /// Microseconds of a clock that never goes back.
    ts: i64,
    brokers: HashMap<String, Broker>,
}

#[derive(Deserialize)]
struct Broker {
    source: String,
}

impl Report {
    fn knows_a_broker(&self) -> bool {
        self.brokers.values().any(|it| !NO_BROKERS.contains(&it.source.as_str()))
    }
}

impl KnownBrokers {
    /// Takes a report of the client. One that cannot be read says nothing, and that is said once.
    pub(super) fn take(&self, report: &[u8]) {
        let report = match serde_json::from_slice::<Report>(report) {
            Ok(report) => report,
            Err(error) => {
                if !self.told.swap(true, Ordering::Relaxed) {
                    tracing::warn!(target: "mailrail_log::kafka", %error, "what a kafka client reports cannot be read; if it loses its brokers it is not found");
                }
                return;
            }
        };
        let mut since = self.without_since.lock().unwrap_or_else(PoisonError::into_inner);
        if report.knows_a_broker() {
            *since = None;
        } else {
            since.get_or_insert(report.ts);
        }
        let forgotten = since.is_some_and(|first| report.ts.saturating_sub(first) >= WITHOUT_MICROS);
        self.forgotten.store(forgotten, Ordering::Relaxed);
    }

    /// The client knows no broker, and will not hear of one.
    pub(super) fn are_forgotten(&self) -> bool {
        self.forgotten.load(Ordering::Relaxed)
    }
}

/// Two reports of a client that lost its brokers, for tests.
#[cfg(test)]
pub(super) const REPORTS_OF_FORGOTTEN: [&[u8]; 2] =
    [br#"{"ts":1,"brokers":{}}"#, br#"{"ts":5000001,"brokers":{}}"#];

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rdkafka::ClientContext;
    use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
    use rdkafka::mocking::MockCluster;

    use super::*;
    use crate::KafkaConfig;

    const COORDINATOR: &str =
        r#""GroupCoordinator":{"name":"GroupCoordinator","nodeid":-1,"source":"logical"}"#;

    fn report(seconds: u32, broker: &str) -> Vec<u8> {
        format!(
            r#"{{"name":"c","ts":{seconds}000000,"brokers":{{{broker}{COORDINATOR}}},"topics":{{"t":{{}}}}}}"#
        )
        .into_bytes()
    }

    fn broker(source: &str) -> String {
        format!(r#""a:1/1":{{"nodeid":1,"source":"{source}","state":"DOWN"}},"#)
    }

    #[test]
    fn a_client_without_brokers_for_a_while_is_found() {
        let known = KnownBrokers::default();
        known.take(&report(1, ""));
        assert!(!known.are_forgotten(), "it may be between two");
        for (seconds, source) in [(6, "learned"), (11, "configured"), (16, "named by a later version")] {
            known.take(&report(seconds, &broker(source)));
            assert!(!known.are_forgotten(), "{source}: it knew one");
        }
        known.take(&report(21, &broker("internal")));
        known.take(b"no report");
        assert!(!known.are_forgotten());
        known.take(&report(25, ""));
        assert!(!known.are_forgotten(), "reports that come close after each other say no more than one");
        known.take(&report(26, ""));
        assert!(known.are_forgotten());
        known.take(&report(27, &broker("learned")));
        assert!(!known.are_forgotten(), "it knows one after all");
    }

    #[test]
    fn a_report_that_cannot_be_read_is_said_once() {
        let known = KnownBrokers::default();
        known.take(&report(1, ""));
        assert!(!known.told.load(Ordering::Relaxed));
        known.take(br#"{"client_id":"a"b"}"#);
        assert!(known.told.load(Ordering::Relaxed) && !known.are_forgotten());
    }

    /// Keeps reports as they are.
    #[derive(Default)]
    struct Heard(Mutex<Vec<Vec<u8>>>);

    impl ClientContext for Heard {
        fn stats_raw(&self, report: &[u8]) {
            self.0.lock().expect("unpoisoned").push(report.to_vec());
        }
    }

    impl ConsumerContext for Heard {}

    /// What librdkafka really writes.
    #[test]
    fn reports_of_a_healthy_client_have_brokers() {
        let cluster = MockCluster::new(1).expect("mock cluster");
        cluster.create_topic("t", 1, 1).expect("topic");
        let config = KafkaConfig::new(&cluster.bootstrap_servers());
        for client in [config.reader(), config.member("g")] {
            let mut client = client;
            client.set("statistics.interval.ms", "50");
            let client: BaseConsumer<Heard> = client.create_with_context(Heard::default()).expect("client");
            client.subscribe(&["t"]).expect("subscribed");
            let (known, began) = (KnownBrokers::default(), Instant::now());
            let mut learned = 0;
            while learned < 2 {
                assert!(began.elapsed() < Duration::from_secs(60), "no report of a broker");
                let _ = client.poll(Duration::from_millis(10));
                for report in client.context().0.lock().expect("unpoisoned").drain(..) {
                    known.take(&report);
                    let report: Report = serde_json::from_slice(&report).expect("a report");
                    assert!(report.ts > 0 && report.knows_a_broker());
                    learned += usize::from(report.brokers.values().any(|it| it.source == "learned"));
                }
            }
            assert!(!known.told.load(Ordering::Relaxed) && !known.are_forgotten());
        }
    }
}
