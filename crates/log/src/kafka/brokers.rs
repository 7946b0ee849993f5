//! Whether a client still knows a broker.
//!
//! A broker that has just started may answer that there are none. Librdkafka takes that for the truth, forgets every broker, those
//! of the settings too, and never connects to anything again (confluentinc/librdkafka#5301, from 2.10 to 2.15 at least). No error says so,
//! and nothing of it ends: such a client must be made anew. It shows in what a client tells of itself.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::Deserialize;

/// Milliseconds between two reports of a client about itself.
pub(super) const REPORT_INTERVAL_MS: &str = "5000";
/// So many reports without a broker, one after the other, mean that there will be none. Between two brokers there may be one.
const REPORTS_WITHOUT: u32 = 2;

/// What the reports of one client said.
#[derive(Debug, Default)]
pub(super) struct KnownBrokers {
    without: AtomicU32,
}

/// The part of a report that counts; librdkafka's STATISTICS.md has all of it.
#[derive(Deserialize)]
struct Report {
    brokers: HashMap<String, Broker>,
}

#[derive(Deserialize)]
struct Broker {
    source: String,
}

impl KnownBrokers {
    /// Takes a report of the client. One that cannot be read says nothing.
    pub(super) fn take(&self, report: &[u8]) {
        let Ok(report) = serde_json::from_slice::<Report>(report) else { return };
        // The others have no address of their own.
        let knows_one = report.brokers.values().any(|it| it.source == "learned" || it.source == "configured");
        if knows_one {
            self.without.store(0, Ordering::Relaxed);
        } else {
            self.without.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The client knows no broker, and will not hear of one.
    pub(super) fn are_forgotten(&self) -> bool {
        self.without.load(Ordering::Relaxed) >= REPORTS_WITHOUT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COORDINATOR: &str =
        r#""GroupCoordinator":{"name":"GroupCoordinator","nodeid":-1,"source":"logical"}"#;

    fn report(broker: &str) -> Vec<u8> {
        format!(r#"{{"name":"c","ts":1,"brokers":{{{broker}{COORDINATOR}}},"topics":{{"t":{{}}}}}}"#)
            .into_bytes()
    }

    #[test]
    fn a_client_without_brokers_is_found_by_its_second_report() {
        let known = KnownBrokers::default();
        known.take(&report(""));
        assert!(!known.are_forgotten(), "it may be between two");
        known.take(&report(r#""a:1/1":{"nodeid":1,"source":"learned"},"#));
        known.take(&report(""));
        assert!(!known.are_forgotten(), "it knew one since");
        known.take(&report(r#""a:1/bootstrap":{"nodeid":-1,"source":"configured","state":"DOWN"},"#));
        known.take(&report(""));
        known.take(b"no report");
        assert!(!known.are_forgotten());
        known.take(&report(""));
        assert!(known.are_forgotten());
    }
}
