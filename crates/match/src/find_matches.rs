//! Event → the subscriptions that want it.

use std::sync::Arc;

use mailrail_filter::Document;
use mailrail_store::TenantView;
use mailrail_telemetry::MatchMetrics;
use mailrail_types::{Event, Subscription};

use crate::filters::Filters;

/// Looks up (tenant, event type) first: most events match nobody, and that path reads neither body nor filter. A filter
/// that fails is counted and its subscription gets nothing (the default policy of acceptance A08); the others go on.
pub(crate) fn find_matches(
    view: &TenantView,
    filters: &Filters,
    event: &Event,
    metrics: &MatchMetrics,
) -> Vec<Arc<Subscription>> {
    let Some(candidates) = view.by_event_type.get(&event.attributes.event_type) else { return Vec::new() };
    if candidates.iter().all(|s| s.filter.is_none()) {
        return candidates.clone();
    }
    let compiled = filters.of(view);
    let document = Document::new(&event.attributes, &event.body);
    let wants = |subscription: &Subscription| {
        if subscription.filter.is_none() {
            return true;
        }
        match compiled.get(&subscription.id).and_then(Option::as_ref).map(|filter| filter.matches(&document))
        {
            Some(Ok(matched)) => matched,
            Some(Err(error)) => {
                metrics.filter_errors.inc();
                tracing::warn!(tenant = %event.tenant, subscription = %subscription.id, %error, "filter failed");
                false
            }
            None => {
                metrics.filter_errors.inc();
                false
            }
        }
    };
    candidates.iter().filter(|s| wants(s)).cloned().collect()
}
