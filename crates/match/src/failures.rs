//! Filters that gave no verdict: what becomes of the event, and what is counted.

use std::fmt::Display;

use mailrail_telemetry::{MatchMetrics, ReasonLabels};
use mailrail_types::{FilterErrorPolicy, Subscription, TenantId};

/// Filters that gave no verdict on events of one piece of work.
#[derive(Default)]
pub(crate) struct Failures {
    /// In the order of [`FilterErrorPolicy::ALL`].
    by_policy: [u64; FilterErrorPolicy::ALL.len()],
    /// The first one that counts: a log line for each would be a flood.
    first: Option<(TenantId, String)>,
}

impl Failures {
    /// Takes one down; says whether the subscription gets the event nevertheless.
    pub(crate) fn note(
        &mut self,
        tenant: &TenantId,
        subscription: &Subscription,
        problem: impl Display,
    ) -> bool {
        let policy = subscription.on_filter_error;
        for (count, known) in self.by_policy.iter_mut().zip(FilterErrorPolicy::ALL) {
            *count += u64::from(known == policy);
        }
        if policy.counts() && self.first.is_none() {
            self.first = Some((tenant.clone(), format!("subscription '{}': {problem}", subscription.id)));
        }
        policy.delivers()
    }

    /// Counts all of them, and logs the first of those that count.
    pub(crate) fn tell(&self, metrics: &MatchMetrics) {
        for (count, policy) in
            self.by_policy.iter().zip(FilterErrorPolicy::ALL).filter(|(count, _)| **count > 0)
        {
            metrics.filter_failures.get_or_create(&ReasonLabels { reason: policy.name() }).inc_by(*count);
            if policy.counts() {
                metrics.filter_errors.inc_by(*count);
            }
        }
        if let Some((tenant, problem)) = &self.first {
            let count: u64 = self.by_policy.iter().sum();
            tracing::warn!(%tenant, problem, count, "filters gave no verdict; this is the first of them");
        }
    }
}
