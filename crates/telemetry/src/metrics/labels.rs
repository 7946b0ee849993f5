//! The sets of labels. Each is closed or counted by what operators name, but for event types, which producers choose: `delivery` names
//! few of them, and short ones. None holds a tenant, an endpoint or a URL that mailrail knows as one.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;

/// Label `status`: HTTP status of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StatusLabels {
    /// HTTP status.
    pub status: u16,
}

/// Label `outcome`: a code of `types::Outcome`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OutcomeLabels {
    /// The code.
    pub outcome: &'static str,
}

/// Labels of what is counted of deliveries. The kinds are bounded: see `DeliveryMetrics::kind`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DeliveryLabels {
    /// A code of `types::Outcome`.
    pub outcome: &'static str,
    /// Of the event.
    pub event_type: Arc<str>,
    /// Of the recipient's mailbox.
    pub class: Arc<str>,
    /// That the mailbox is in; empty where there is one.
    pub region: Arc<str>,
}

/// Those of a delivery that was given up: [`DeliveryLabels`], and why.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DeadLabels {
    /// A code of `types::DeadReason`.
    pub reason: &'static str,
    /// As [`DeliveryLabels::outcome`].
    pub outcome: &'static str,
    /// As [`DeliveryLabels::event_type`].
    pub event_type: Arc<str>,
    /// As [`DeliveryLabels::class`].
    pub class: Arc<str>,
    /// As [`DeliveryLabels::region`].
    pub region: Arc<str>,
}

/// Those of a first attempt: [`DeliveryLabels`], and whether something of the recipient's held it back.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct FirstAttemptLabels {
    /// `true` or `false`.
    pub held: &'static str,
    /// As [`DeliveryLabels::outcome`].
    pub outcome: &'static str,
    /// As [`DeliveryLabels::event_type`].
    pub event_type: Arc<str>,
    /// As [`DeliveryLabels::class`].
    pub class: Arc<str>,
    /// As [`DeliveryLabels::region`].
    pub region: Arc<str>,
}

/// Label `reason`: a code of a closed set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReasonLabels {
    /// The code.
    pub reason: &'static str,
}

/// Labels of a routed payload. `buckets` is a power of two or a strict width: few values, whatever senders do.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RoutingLabels {
    /// `source` at the front door; `product_event` or `forward` for a recipient's mailbox.
    pub surface: &'static str,
    /// Whether the payload went to one of several buckets.
    pub bucketed: &'static str,
    /// Why: `no_key`, `under_rate`, `bucketed`, `fixed` or `sizing_unavailable`.
    pub reason: &'static str,
    /// How many buckets; empty when no width was asked for.
    pub buckets: Option<u32>,
}

/// Label `queue`: `source` (on the way to match) or `recipient` (on the way to an endpoint).
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct QueueLabels {
    /// The queue.
    pub queue: &'static str,
}

/// Labels of the depth of mailboxes. Operators name classes; there are few.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DepthLabels {
    /// As [`QueueLabels::queue`].
    pub queue: &'static str,
    /// Class of the mailboxes; `unknown` when what they belong to is not set up any more.
    pub class: String,
    /// `0.5`, `0.9`, `0.99` or `1` (the deepest).
    pub quantile: &'static str,
}
