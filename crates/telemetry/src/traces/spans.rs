//! The spans: what each stage says of its part.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mailrail_types::{Attempt, Delivery, Event, Outcome, Timestamp};
use opentelemetry::trace::{
    Link, Span as _, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt as _, Tracer as _,
};
use opentelemetry::{Context, KeyValue};

use super::{On, Traces, context, sampled};

/// The door took an event in.
const ACCEPT: &str = "accept";
/// Match found who wants it.
const MATCH: &str = "match";
/// One request of a delivery.
const ATTEMPT: &str = "attempt";
/// A delivery ended without a request: expired, cancelled, or not to be sent.
const SETTLE: &str = "settle";

const OUTCOME: &str = "mailrail.outcome";

/// A span that is open. Dropped, it ends without an outcome: its work was cut.
#[derive(Debug)]
pub struct Span(Box<opentelemetry_sdk::trace::Span>);

impl Span {
    /// Says to how many recipients an event goes.
    #[must_use]
    pub fn with_deliveries(mut self, count: usize) -> Self {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.0.set_attribute(KeyValue::new("mailrail.deliveries", count));
        self
    }

    /// It ended well.
    pub fn end(mut self, outcome: &'static str) {
        self.0.set_attribute(KeyValue::new(OUTCOME, outcome));
        self.0.end();
    }

    /// It ended in an error, which has this code.
    pub fn fail(mut self, code: &'static str) {
        self.0.set_status(Status::error(""));
        self.end(code);
    }

    fn context(&self) -> &SpanContext {
        self.0.span_context()
    }
}

impl Traces {
    /// When a request came in, for [`Traces::accept`]; `None` when traces are off.
    #[must_use]
    pub fn begin(&self) -> Option<SystemTime> {
        self.0.as_ref().map(|_| SystemTime::now())
    }

    /// Decides whether an event is traced, and begins its trace, or goes on with its producer's: the span of the door. The
    /// event carries the context on. A producer that says no is heeded; one that says yes too often is not.
    pub fn accept(&self, event: &mut Event, begun: Option<SystemTime>) -> Option<Span> {
        let on = self.0.as_deref()?;
        let parent = match &mut event.trace {
            None => on.draws().then(SpanContext::empty_context)?,
            Some(came) if !context::is_sampled(came) => return None,
            Some(came) if !on.grants() => {
                context::withdraw(came);
                return None;
            }
            Some(came) => context::parent(came)?,
        };
        let builder = builder(ACCEPT, SpanKind::Server, on.of_event(event));
        let builder = match begun {
            Some(begun) => builder.with_start_time(begun),
            None => builder,
        };
        Some(on.begin(builder, parent, event))
    }

    /// The span of match, of an event that is traced. The deliveries carry its context on.
    pub fn matching(&self, event: &mut Event) -> Option<Span> {
        let on = self.0.as_deref()?;
        let parent = context::parent(sampled(event.trace.as_ref())?)?;
        Some(on.begin(builder(MATCH, SpanKind::Consumer, on.of_event(event)), parent, event))
    }

    /// The span of an attempt, or of an end without one. The first is a part of the event's trace. A later one may come days
    /// after it: it is a trace of its own that is linked to the span which made the delivery.
    pub fn attempted(&self, delivery: &Delivery, attempt: &Attempt) {
        let Some(on) = self.0.as_deref() else { return };
        let Some(made) = sampled(delivery.event.trace.as_ref()).and_then(context::parent) else { return };
        // As the metrics count it: an end without a request has the number of the last one.
        let is_request = attempt.number > delivery.history.attempts;
        let name = if is_request { ATTEMPT } else { SETTLE };
        let kind = if is_request { SpanKind::Client } else { SpanKind::Internal };
        let start = moment(attempt.started_at);
        let builder = builder(name, kind, on.of_attempt(delivery, attempt)).with_start_time(start);
        let is_first = delivery.history.attempts == 0 && delivery.history.redrives == 0;
        let (builder, parent) = if is_first {
            (builder, made)
        } else {
            let link = Link::new(made, Vec::new(), 0);
            (builder.with_links(vec![link]), SpanContext::empty_context())
        };
        let mut span =
            on.tracer.build_with_context(builder, &Context::new().with_remote_span_context(parent));
        if attempt.outcome != Outcome::Delivered {
            span.set_status(Status::error(""));
        }
        span.end_with_timestamp(start + Duration::from_millis(attempt.duration_ms.into()));
    }
}

impl On {
    fn begin(&self, builder: SpanBuilder, parent: SpanContext, event: &mut Event) -> Span {
        let parent = Context::new().with_remote_span_context(parent);
        let span = Span(Box::new(self.tracer.build_with_context(builder, &parent)));
        let tracestate = event.trace.take().map(|came| came.tracestate).unwrap_or_default();
        event.trace = Some(context::written(span.context(), tracestate));
        span
    }

    fn of_event(&self, event: &Event) -> Vec<KeyValue> {
        vec![
            KeyValue::new("mailrail.pipeline", self.pipeline.clone()),
            KeyValue::new("mailrail.tenant", event.tenant.to_string()),
            KeyValue::new("mailrail.event.id", event.id.to_string()),
        ]
    }

    fn of_attempt(&self, delivery: &Delivery, attempt: &Attempt) -> Vec<KeyValue> {
        let mut all = self.of_event(&delivery.event);
        all.extend([
            KeyValue::new("mailrail.delivery.id", delivery.id.to_string()),
            KeyValue::new("mailrail.endpoint", delivery.endpoint.to_string()),
            KeyValue::new("mailrail.attempt", i64::from(attempt.number)),
            KeyValue::new(OUTCOME, attempt.outcome.code()),
        ]);
        let reason = match attempt.outcome {
            Outcome::Delivered => None,
            Outcome::Retry { reason, .. } => Some(reason.code()),
            Outcome::Dead(reason) => Some(reason.code()),
            Outcome::Cancelled(reason) => Some(reason.code()),
        };
        all.extend(reason.map(|code| KeyValue::new("mailrail.reason", code)));
        if delivery.history.redrives > 0 {
            all.push(KeyValue::new("mailrail.redrive", i64::from(delivery.history.redrives)));
        }
        let status = attempt.result.status.map(i64::from);
        all.extend(status.map(|status| KeyValue::new("http.response.status_code", status)));
        all.extend(attempt.result.error.map(|error| KeyValue::new("error.type", error.code())));
        all
    }
}

fn builder(name: &'static str, kind: SpanKind, attributes: Vec<KeyValue>) -> SpanBuilder {
    SpanBuilder::from_name(Cow::Borrowed(name)).with_kind(kind).with_attributes(attributes)
}

fn moment(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(at.0).unwrap_or_default())
}
