//! How a metric gets into the registry, and the buckets of histograms.

use std::fmt::Debug;
use std::hash::Hash;

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::extreme::Extreme;

pub(super) const APPEND_BUCKETS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];
pub(super) const REQUEST_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
pub(super) const ATTEMPT_BUCKETS: [f64; 11] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 30.0];
/// Before and after 10 s, the aim of first attempts.
pub(super) const DELAY_BUCKETS: [f64; 11] =
    [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 300.0, 3600.0, 86_400.0];
/// How often a delivery is tried: up to the 16 attempts of a schedule.
pub(super) const TRIES_BUCKETS: [f64; 8] = [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 10.0, 16.0];
pub(super) const AGE_BUCKETS: [f64; 11] =
    [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0, 3600.0, 21_600.0, 86_400.0];

pub(super) fn counter(registry: &mut Registry, name: &str, help: &str) -> Counter {
    let metric = Counter::default();
    registry.register(name, help, metric.clone());
    metric
}

pub(super) fn gauge(registry: &mut Registry, name: &str, help: &str) -> Gauge {
    let metric = Gauge::default();
    registry.register(name, help, metric.clone());
    metric
}

pub(super) fn family<L, M>(registry: &mut Registry, name: &str, help: &str) -> Family<L, M>
where
    L: EncodeLabelSet + Clone + Hash + Eq + Debug + Send + Sync + 'static,
    M: EncodeMetric + TypedMetric + Default + Debug + Send + Sync + 'static,
{
    let metric = Family::<L, M>::default();
    registry.register(name, help, metric.clone());
    metric
}

pub(super) fn extreme(
    registry: &mut Registry,
    name: &str,
    unit: Option<Unit>,
    help: &str,
    metric: Extreme,
) -> Extreme {
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, metric.metric()),
        None => registry.register(name, help, metric.metric()),
    }
    metric
}

pub(super) fn seconds(registry: &mut Registry, name: &str, help: &str, buckets: &[f64]) -> Histogram {
    let metric = Histogram::new(buckets.iter().copied());
    registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
}
