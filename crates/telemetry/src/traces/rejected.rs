//! What a collector did not take of an export that it answered with success: the `partial_success` of its answer.
//!
//! The exporter reads it too and keeps it to itself. Two numbers and a text of protobuf are read here by hand: only the records'
//! crate has a library for it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Longest part of the collector's message that is shown.
const MESSAGE_MAX_CHARS: usize = 200;
/// Between two lines about what a collector rejects: it rejects each export for the same reason.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// Fields of `ExportTraceServiceResponse` and of its `ExportTracePartialSuccess`.
const PARTIAL_SUCCESS: u64 = 1;
const REJECTED_SPANS: u64 = 1;
const ERROR_MESSAGE: u64 = 2;

/// What an answer says beside success.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rejected {
    /// Spans that were not taken; none when there is only a message.
    pub(super) spans: u64,
    /// Why, without control characters and of bounded length.
    pub(super) message: String,
}

impl Rejected {
    /// What the body of an answer says; `None` when everything was taken, or the body is something else.
    fn read(body: &[u8]) -> Option<Self> {
        let partial = fields(body).find_map(|it| match it {
            (PARTIAL_SUCCESS, Value::Bytes(bytes)) => Some(bytes),
            _ => None,
        })?;
        let mut rejected = Self::default();
        for field in fields(partial) {
            match field {
                // Signed, and nobody rejects less than none.
                (REJECTED_SPANS, Value::Number(spans)) if i64::try_from(spans).is_ok() => {
                    rejected.spans = spans;
                }
                (ERROR_MESSAGE, Value::Bytes(text)) => {
                    rejected.message = clean(&String::from_utf8_lossy(text));
                }
                _ => {}
            }
        }
        (rejected.spans > 0 || !rejected.message.is_empty()).then_some(rejected)
    }
}

fn clean(text: &str) -> String {
    text.chars().take(MESSAGE_MAX_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// What the answer to the last export says beside success. There is one export at a time. A clone is the same.
#[derive(Debug, Clone, Default)]
pub(super) struct LastAnswer(Arc<Mutex<Option<Rejected>>>);

impl LastAnswer {
    /// Notes an answer.
    pub(super) fn note(&self, body: &[u8]) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Rejected::read(body);
    }

    /// Takes what was noted.
    pub(super) fn take(&self) -> Option<Rejected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Says now and then what is rejected, and at its end what was not said.
#[derive(Debug, Default)]
pub(super) struct Complaint {
    said: Option<Instant>,
    unsaid: u64,
}

impl Complaint {
    /// Adds it, and says it unless something was said a moment ago.
    pub(super) fn add(&mut self, rejected: &Rejected) {
        let Some(spans) = self.due(rejected.spans, Instant::now()) else { return };
        let answer = rejected.message.as_str();
        if spans == 0 {
            tracing::warn!(
                answer,
                "the collector takes all spans of an export and has something to say about them"
            );
            return;
        }
        tracing::warn!(
            spans,
            answer,
            "the collector does not take all spans of an export; look at its limits"
        );
    }

    /// How many spans to say now, of those that were rejected since the last time.
    fn due(&mut self, spans: u64, now: Instant) -> Option<u64> {
        self.unsaid = self.unsaid.saturating_add(spans);
        if self.said.is_some_and(|said| now.duration_since(said) < SAID_EVERY) {
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

impl Drop for Complaint {
    fn drop(&mut self) {
        if self.unsaid > 0 {
            let spans = self.unsaid;
            tracing::warn!(spans, "the collector did not take these spans either; look at its limits");
        }
    }
}

/// A value of a field, as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Other,
}

/// The fields of a message with their numbers, up to the first byte that is no protobuf.
fn fields(mut rest: &[u8]) -> impl Iterator<Item = (u64, Value<'_>)> {
    std::iter::from_fn(move || {
        let tag = varint(&mut rest)?;
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut rest)?),
            1 => skip(&mut rest, 8)?,
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                let (bytes, after) = rest.split_at_checked(length)?;
                rest = after;
                Value::Bytes(bytes)
            }
            5 => skip(&mut rest, 4)?,
            _ => return None,
        };
        Some((tag >> 3, value))
    })
}

fn skip<'a>(rest: &mut &[u8], bytes: usize) -> Option<Value<'a>> {
    *rest = rest.get(bytes..)?;
    Some(Value::Other)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceResponse,
    };
    use prost::Message as _;

    use super::*;

    fn answer(rejected_spans: i64, error_message: &str) -> Vec<u8> {
        let partial = ExportTracePartialSuccess { rejected_spans, error_message: error_message.to_owned() };
        ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec()
    }

    #[test]
    fn what_a_collector_writes_is_read() {
        let read = |spans, text: &str| Rejected::read(&answer(spans, text));
        let told = |spans, message: &str| Some(Rejected { spans, message: message.to_owned() });
        assert_eq!(read(3, "too many"), told(3, "too many"));
        assert_eq!(read(i64::MAX, ""), told(i64::MAX.cast_unsigned(), ""));
        assert_eq!(read(0, "use the new path"), told(0, "use the new path"), "a warning");
        assert_eq!(read(-1, ""), None);
        assert_eq!(read(0, ""), None);
        assert_eq!(read(1, "a\nb\u{1b}[31m"), told(1, "a b [31m"));
        assert_eq!(read(1, &"é".repeat(5_000)).expect("rejected").message.chars().count(), MESSAGE_MAX_CHARS);
    }

    /// Collectors may answer with fields that we do not know, and others with no protobuf at all.
    #[test]
    fn whatever_else_is_answered_is_no_rejection() {
        for body in [&b""[..], b"{}", b"{\"partialSuccess\":{\"rejectedSpans\":3}}", b"<html>", &[0xff; 40]] {
            assert_eq!(Rejected::read(body), None);
        }
        let whole = answer(3, "x");
        for end in 0..whole.len() {
            assert_eq!(Rejected::read(&whole[..end]), None, "cut at {end}");
        }
        let unknown =
            [&[0x79, 1, 2, 3, 4, 5, 6, 7, 8, 0x7d, 1, 2, 3, 4, 0x70, 5, 0x72, 1, 9][..], &whole].concat();
        assert_eq!(Rejected::read(&unknown).map(|it| it.spans), Some(3));
    }

    #[test]
    fn it_is_said_once_a_minute_with_all_that_came_together() {
        let (mut complaint, start) = (Complaint::default(), Instant::now());
        let mut at = |seconds, spans| complaint.due(spans, start + Duration::from_secs(seconds));
        assert_eq!(
            [at(0, 3), at(1, 4), at(59, 5), at(60, 6), at(61, 1)],
            [Some(3), None, None, Some(15), None]
        );
    }

    #[test]
    fn what_was_not_said_is_said_at_the_end_and_a_remark_is_no_rejection() {
        let rejected = |spans, message: &str| Rejected { spans, message: message.to_owned() };
        let remark = said(|complaint| complaint.add(&rejected(0, "use the new path")));
        assert_eq!(remark.lines().count(), 1, "{remark}");
        assert!(remark.contains("takes all spans") && remark.contains("use the new path"), "{remark}");
        let lost = said(|complaint| (3..6).for_each(|spans| complaint.add(&rejected(spans, "over quota"))));
        let lines: Vec<&str> = lost.lines().collect();
        assert!(lines[0].contains("spans=3 answer=\"over quota\""), "{lost}");
        assert!(lines[1].contains("these spans either") && lines[1].contains("spans=9"), "{lost}");
        assert_eq!(lines.len(), 2, "{lost}");
    }

    /// What a complaint says until its end.
    fn said(add: impl FnOnce(&mut Complaint)) -> String {
        let out = Out::default();
        let into = out.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || into.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            let mut complaint = Complaint::default();
            add(&mut complaint);
        });
        String::from_utf8(out.0.lock().expect("not poisoned").clone()).expect("text")
    }

    #[derive(Clone, Default)]
    struct Out(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Out {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
}
