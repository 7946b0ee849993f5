//! Log lines, the catalogue of metric names, and traces.
//!
//! **Always holds**: every metric of mailrail is defined in [`catalogue`](Metrics) here, once, with its unit and help;
//! no label holds a tenant, an endpoint or a URL, so the number of series does not grow with customers.
//!
//! **Deliberately absent**: global state. [`Metrics`] is made once by the binary and passed on.

mod extreme;
mod logs;
mod metrics;
mod traces;

pub use extreme::{Extreme, Part};
pub use logs::{LogFormat, LogOptions, Logs, filter_problem, flush_logs, init_logs, surface, trace_id};
#[doc(hidden)]
pub use mailrail_types::Delivery;
pub use metrics::{
    ControlMetrics, DELIVERY_KINDS_MAX, DELIVERY_KINDS_NAMED_MAX, DeadLabels, DeliverMetrics, DeliveryKind,
    DeliveryLabels, DeliveryMetrics, DepthLabels, DoorMetrics, FirstAttemptLabels, IngestMetrics,
    LevelLabels, LimitsMetrics, LogMetrics, MailboxMetrics, MatchMetrics, Metrics, OpenRequest,
    OutcomeLabels, QueueLabels, ReasonLabels, ReplayMetrics, RequestLabels, RoutingLabels, StatusLabels,
    TraceMetrics,
};
pub use traces::{Post, PostError, Posting, Span, TracedProcess, Traces, TracesError, TracesOptions};
#[doc(hidden)]
pub use tracing;
