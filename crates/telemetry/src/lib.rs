//! Tracing set-up and the catalogue of metric names.
//!
//! **Always holds**: every metric of mailrail is defined in [`catalogue`](Metrics) here, once, with its unit and help;
//! no label holds a tenant, an endpoint or a URL, so the number of series does not grow with customers.
//!
//! **Deliberately absent**: global state. [`Metrics`] is made once by the binary and passed on.

mod extreme;
mod logs;
mod metrics;

pub use extreme::{Extreme, Part};
pub use logs::{LogFormat, init_logs};
pub use metrics::{
    DeliverMetrics, DepthLabels, IngestMetrics, LimitsMetrics, MailboxMetrics, MatchMetrics, Metrics,
    OutcomeLabels, QueueLabels, ReasonLabels, RoutingLabels, StatusLabels,
};
