//! The catalogue: every metric, its labels and its help. One file for each subject.

mod build;
mod control;
mod deliver;
mod delivery;
mod door;
mod ingest;
mod labels;
mod limits;
mod logs;
mod mailbox;
mod matching;
mod register;
mod replay;
mod traces;

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

pub use control::ControlMetrics;
pub use deliver::DeliverMetrics;
pub use delivery::{DELIVERY_KINDS_MAX, DELIVERY_KINDS_NAMED_MAX, DeliveryKind, DeliveryMetrics};
pub use door::{DoorMetrics, OpenRequest, RequestLabels};
pub use ingest::IngestMetrics;
pub use labels::{
    DeadLabels, DeliveryLabels, DepthLabels, FirstAttemptLabels, OutcomeLabels, QueueLabels, ReasonLabels,
    RoutingLabels, StatusLabels,
};
pub use limits::LimitsMetrics;
pub use logs::{LevelLabels, LogMetrics};
pub use mailbox::MailboxMetrics;
pub use matching::MatchMetrics;
pub use replay::ReplayMetrics;
pub use traces::TraceMetrics;

/// All metrics of a process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Of the front door.
    pub ingest: IngestMetrics,
    /// Of the sizing of mailboxes, at both queues.
    pub mailbox: MailboxMetrics,
    /// Of stage one.
    pub matching: MatchMetrics,
    /// Of stage two.
    pub deliver: DeliverMetrics,
    /// Of the limits of endpoints that processes share.
    pub limits: LimitsMetrics,
    /// Of the logs.
    pub logs: LogMetrics,
    /// Of the control API.
    pub control: ControlMetrics,
    /// Of putting dead letters back.
    pub replay: ReplayMetrics,
    /// Of the export of traces.
    pub traces: TraceMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All metrics, at zero.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("mailrail");
        build::register(&mut registry);
        let ingest = IngestMetrics::register(registry.sub_registry_with_prefix("ingest"));
        let matching = MatchMetrics::register(registry.sub_registry_with_prefix("match"));
        let deliver = DeliverMetrics::register(registry.sub_registry_with_prefix("deliver"));
        let mailbox = MailboxMetrics::register(registry.sub_registry_with_prefix("mailbox"));
        let limits = LimitsMetrics::register(registry.sub_registry_with_prefix("limits"));
        let logs = LogMetrics::register(registry.sub_registry_with_prefix("log"));
        let control = ControlMetrics::register(registry.sub_registry_with_prefix("control"));
        let replay = ReplayMetrics::register(registry.sub_registry_with_prefix("replay"));
        let traces = TraceMetrics::register(registry.sub_registry_with_prefix("trace"));
        Metrics { registry, ingest, mailbox, matching, deliver, limits, logs, control, replay, traces }
    }

    /// The OpenMetrics text of `/metrics`; its content type is
    /// `application/openmetrics-text; version=1.0.0; charset=utf-8`.
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = text::encode(&mut out, &self.registry);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// N19: names end in their unit, and a fresh process shows every plain metric.
    #[test]
    fn n19_catalogue_renders() {
        let metrics = Metrics::new();
        let (delivery, delivered) = (&metrics.deliver.delivery, mailrail_types::Outcome::Delivered);
        let kind = delivery.kind("", "push", "strict");
        delivery.attempted(&kind, delivered, 0.1);
        delivery.first_attempted(&kind, delivered, false, 0.1);
        let queue = "source";
        metrics.mailbox.oldest_age_seconds.get_or_create(&QueueLabels { queue }).set(7);
        let labels = DepthLabels { queue, class: "strict".to_owned(), quantile: "0.99" };
        metrics.mailbox.depth.get_or_create(&labels).set(3);
        let text = metrics.render();
        for name in [
            "mailrail_ingest_events_accepted_total",
            "mailrail_ingest_append_seconds_bucket",
            "mailrail_match_events_total",
            "mailrail_deliver_attempts_total{outcome=\"delivered\",event_type=\"push\",class=\"strict\",region=\"\"} 1",
            "mailrail_deliver_in_flight",
            "mailrail_deliver_duplicates_suspected_total 0",
            "mailrail_deliver_unclean_takeovers_total 0",
            "mailrail_deliver_lane_blocked_seconds 0.0",
            "mailrail_deliver_window_fill 0.0",
            "mailrail_mailbox_sizing_unavailable_total 0",
            "mailrail_mailbox_oldest_age_seconds{queue=\"source\"} 7",
            "mailrail_ingest_requests_in_flight 0",
            "mailrail_control_requests_in_flight 0",
            "mailrail_deliver_first_attempt_delay_seconds_count{held=\"false\",outcome=\"delivered\",",
            "mailrail_replay_unfinished 0",
            "mailrail_replay_letters_total{outcome=\"failed\"} 0",
            "mailrail_replay_letters_total{outcome=\"undecided\"} 0",
            "mailrail_replay_letters_total{outcome=\"unreadable\"} 0",
            concat!("mailrail_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\",revision="),
            "mailrail_mailbox_depth{queue=\"source\",class=\"strict\",quantile=\"0.99\"} 3",
        ] {
            assert!(text.contains(name), "{name} is missing in\n{text}");
        }
    }
}
