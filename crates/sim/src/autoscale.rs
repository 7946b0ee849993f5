//! How the chart scales match and deliver: KEDA's Kafka trigger and the autoscaler of Kubernetes, fed with recorded lag.
//!
//! [`keda`] and [`hpa`] are the two rules, as their sources have them. [`figures`] reads the figures from the chart. [`recording`]
//! is lag that was recorded from real roles on a real Kafka (`make record-lag`); [`replay`] shows it to the rules as it was, and
//! where the number of replicas changes, [`service`] is the model of what they do, with rates from recordings ([`calibrate`])
//! and held against other recordings ([`proof`]). [`scenario`] and [`verdict`] say what must hold; [`mutation`] shows that it would be
//! noticed if it did not.
//!
//! Not simulated: scaling to zero, `excludePersistentLag`, more triggers, nodes that are full, and KEDA's fallback.

pub mod behavior;
pub mod calibrate;
pub mod figures;
pub mod hpa;
pub mod keda;
pub mod mutation;
pub mod proof;
pub mod recording;
pub mod replay;
pub mod scenario;
pub mod service;
pub mod summary;
pub mod survey;
#[cfg(test)]
mod tests;
pub mod verdict;
pub mod world;
