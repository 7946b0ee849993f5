//! Metrics of the control API.

use prometheus_client::registry::Registry;

use super::door::DoorMetrics;

/// Metrics of the control API.
#[derive(Debug, Clone)]
pub struct ControlMetrics {
    /// `mailrail_control_request_seconds`, `mailrail_control_requests_in_flight`
    pub door: DoorMetrics,
}

impl ControlMetrics {
    pub(super) fn register(r: &mut Registry) -> Self {
        Self { door: DoorMetrics::register(r) }
    }
}
