//! The context in records and that of spans, one made of the other.

use bytes::Bytes;
use mailrail_types::TraceContext;
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

/// The header that others know it by.
const TRACEPARENT: &str = "traceparent";
/// Bytes of a `traceparent` of version 00.
const BYTES: usize = 55;
/// As the recommendation has it.
const SAMPLED: u8 = 0x01;

/// Whether its trace is recorded.
pub(super) fn is_sampled(context: &TraceContext) -> bool {
    flags(&context.traceparent).is_some_and(|flags| flags & SAMPLED != 0)
}

fn flags(traceparent: &str) -> Option<u8> {
    let text = traceparent.as_bytes();
    // Looked at for every event: the last two of a fixed number of bytes.
    (text.len() == BYTES).then(|| traceparent.get(BYTES - 2..)).flatten().and_then(hex)
}

fn hex(text: &str) -> Option<u8> {
    u8::from_str_radix(text, 16).ok()
}

/// What a span goes on from; `None` when the text is no `traceparent`. `tracestate` is a header's value, and stays out.
pub(super) fn parent(context: &TraceContext) -> Option<SpanContext> {
    let text = context.traceparent.as_str();
    let flags = TraceFlags::new(flags(text)?);
    let (trace, span) = (text.get(3..35)?, text.get(36..52)?);
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let parent = SpanContext::new(trace, span, flags, true, TraceState::default());
    parent.is_valid().then_some(parent)
}

/// What the next stage goes on from.
pub(super) fn written(span: &SpanContext, tracestate: String) -> TraceContext {
    let (trace, id, flags) = (span.trace_id(), span.span_id(), span.trace_flags().to_u8());
    TraceContext { traceparent: format!("00-{trace}-{id}-{flags:02x}"), tracestate }
}

/// Says that the trace is not recorded here.
pub(super) fn withdraw(context: &mut TraceContext) {
    if let Some(flags) = flags(&context.traceparent) {
        context.traceparent.truncate(BYTES - 2);
        context.traceparent += &format!("{:02x}", flags & !SAMPLED);
    }
}

/// The header of a record.
pub(super) fn headers(context: &TraceContext) -> Vec<(String, Bytes)> {
    vec![(TRACEPARENT.to_owned(), Bytes::copy_from_slice(context.traceparent.as_bytes()))]
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn context(traceparent: &str) -> TraceContext {
        TraceContext { traceparent: traceparent.to_owned(), tracestate: "a=1".to_owned() }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let parent = parent(&context(GOOD)).expect("valid");
        assert!(parent.is_sampled() && parent.is_remote());
        assert_eq!(written(&parent, "a=1".to_owned()), context(GOOD));
        assert_eq!(parent.trace_state().header(), "", "a header's value is not exported");
    }

    #[test]
    fn a_withdrawn_one_keeps_its_ids_and_other_flags() {
        for (flags, left) in [("01", "00"), ("03", "02"), ("00", "00")] {
            let mut asked = context(&GOOD.replace("-01", &format!("-{flags}")));
            withdraw(&mut asked);
            assert_eq!(asked, context(&GOOD.replace("-01", &format!("-{left}"))));
            assert!(!is_sampled(&asked));
        }
    }

    /// Records may come from another version: what cannot be read is no trace, and no panic.
    #[test]
    fn what_is_no_traceparent_starts_nothing() {
        let zeros = GOOD.replace("b7ad6b7169203331", "0000000000000000");
        let wide = format!("{}é", &GOOD[..53]);
        for bad in ["", "01", &GOOD[1..], &GOOD.replace("0af7", "0xf7"), &zeros, &wide, &"ü".repeat(30)] {
            assert_eq!(parent(&context(bad)), None, "{bad}");
        }
        assert!(!is_sampled(&context("01")) && !is_sampled(&context(&wide)));
    }
}
