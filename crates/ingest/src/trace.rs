//! W3C trace context of a request, validated, so that records carry only what the next process can continue.

use http::HeaderMap;
use mailrail_types::{AttributeValue, Attributes, TraceContext};

/// Longest `tracestate` that is kept: what the recommendation asks every participant to carry at least.
const TRACESTATE_MAX_BYTES: usize = 512;

/// The trace context of the request's headers.
pub(crate) fn from_headers(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all("traceparent").iter();
    let (parent, None) = (parents.next()?.to_str().ok()?, parents.next()) else {
        return None;
    };
    let states: Vec<&str> = headers.get_all("tracestate").iter().filter_map(|v| v.to_str().ok()).collect();
    context(parent, &states.join(","))
}

/// The trace context of the event itself (CloudEvents extension "distributed tracing").
pub(crate) fn from_attributes(attributes: &Attributes) -> Option<TraceContext> {
    let text = |name| match attributes.extension(name) {
        Some(AttributeValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    context(text("traceparent")?, text("tracestate").unwrap_or_default())
}

/// `None` when the parent is not valid: a broken trace never refuses an event.
fn context(parent: &str, state: &str) -> Option<TraceContext> {
    let state_ok = state.len() <= TRACESTATE_MAX_BYTES && state.bytes().all(|b| (0x20..0x7f).contains(&b));
    let tracestate = if state_ok { state.to_owned() } else { String::new() };
    Some(TraceContext { traceparent: traceparent(parent)?, tracestate })
}

/// The parent in the form of version 00. Fields of a higher version are read as far as version 00 knows them, as the
/// recommendation asks.
fn traceparent(text: &str) -> Option<String> {
    let lower_hex = |part: &str| part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let set = |part: &str| part.bytes().any(|b| b != b'0');
    let mut parts = text.splitn(5, '-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let rest = parts.next();
    let lengths = version.len() == 2 && trace.len() == 32 && span.len() == 16 && flags.len() == 2;
    let digits = [version, trace, span, flags].into_iter().all(lower_hex);
    let known = version != "ff" && (version != "00" || rest.is_none());
    (lengths && digits && known && set(trace) && set(span)).then(|| format!("00-{trace}-{span}-{flags}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_valid_parent_is_kept_and_a_broken_one_is_dropped() {
        assert_eq!(traceparent(GOOD).as_deref(), Some(GOOD));
        assert_eq!(traceparent(&format!("01{}-more", &GOOD[2..])).as_deref(), Some(GOOD));
        let zero_trace = GOOD.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32));
        let zero_span = GOOD.replace("b7ad6b7169203331", &"0".repeat(16));
        let upper = GOOD.to_ascii_uppercase();
        let long = format!("{GOOD}-x");
        for bad in [
            "",
            "00",
            &GOOD[..54],
            "ff-x",
            &zero_trace,
            &zero_span,
            &upper,
            &long,
            &GOOD.replace("00-", "ff-"),
        ] {
            assert_eq!(traceparent(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn headers_are_joined_and_an_oversized_state_is_dropped() {
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", GOOD.parse().expect("value"));
        headers.append("tracestate", "a=1".parse().expect("value"));
        headers.append("tracestate", "b=2".parse().expect("value"));
        assert_eq!(from_headers(&headers).map(|t| t.tracestate).as_deref(), Some("a=1,b=2"));
        headers.insert("tracestate", "x".repeat(513).parse().expect("value"));
        assert_eq!(from_headers(&headers).map(|t| t.tracestate).as_deref(), Some(""));
        headers.append("traceparent", GOOD.parse().expect("value"));
        assert_eq!(from_headers(&headers), None, "two parents name no trace");
    }
}
