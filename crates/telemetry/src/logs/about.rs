//! Lines about an event or a delivery: one set of names for whom and what they are about.

use mailrail_types::{Event, TraceContext};

/// Where `traceparent` has the id of the trace.
const TRACE_ID: std::ops::Range<usize> = 3..35;

/// The surface that an event came in by, as lines and metrics name it: `product_event` or `forward`.
#[must_use]
pub const fn surface(event: &Event) -> &'static str {
    if event.forwarded.is_some() { "forward" } else { "product_event" }
}

/// The id of the trace that an event is in, when it is in one: 32 hexadecimal digits.
#[must_use]
pub fn trace_id(event: &Event) -> Option<&str> {
    let TraceContext { traceparent, .. } = event.trace.as_ref()?;
    traceparent.get(TRACE_ID)
}

/// A log line about one delivery: `delivery_line!(info, delivery, outcome, …)`, then what [`tracing::info!`] takes. It has
/// `event_id`, `delivery_id`, `surface`, `tenant`, `endpoint` (the recipient), `outcome`, and `trace_id` when there is one.
/// `outcome` is a code of `types::Outcome`, or what became of the delivery where it had no attempt.
#[macro_export]
macro_rules! delivery_line {
    ($level:ident, $delivery:expr, $outcome:expr, $($rest:tt)+) => {{
        let delivery: &$crate::Delivery = $delivery;
        $crate::tracing::$level!(
            event_id = %delivery.event.id,
            delivery_id = %delivery.id,
            surface = $crate::surface(&delivery.event),
            tenant = %delivery.event.tenant,
            endpoint = %delivery.endpoint,
            outcome = $outcome,
            trace_id = $crate::trace_id(&delivery.event),
            $($rest)+
        )
    }};
}
