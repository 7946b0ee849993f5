//! Batch mode: a JSON array of events. What is wrong with the array refuses all; what is wrong with an event, that event.

use std::fmt;

use bytes::Bytes;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{CloudEvent, structured};
use crate::problem::{Problem, Refusal};

/// Reads the batch, of at most `events_max` events.
pub(crate) fn parse(body: &Bytes, events_max: usize) -> Result<Vec<Result<CloudEvent, Refusal>>, Refusal> {
    let first = body.iter().find(|b| !b.is_ascii_whitespace());
    if first.is_some_and(|b| *b != b'[') {
        return Err(Refusal::new(Problem::MalformedJson, "a batch must be a JSON array of events"));
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    let elements = json
        .deserialize_seq(Elements { max: events_max })
        .and_then(|elements| json.end().map(|()| elements))
        .map_err(|e| structured::malformed("the batch", &e))?;
    match elements.count {
        0 => Err(Refusal::new(Problem::BatchEmpty, "send at least one event")),
        count if count > events_max => {
            let detail = format!("the batch has {count} events; send at most {events_max} at a time");
            Err(Refusal::new(Problem::BatchTooLarge, detail))
        }
        _ => Ok(elements.kept.iter().map(|e| structured::parse(body, e.get().as_bytes())).collect()),
    }
}

/// The elements of an array: the first `max` of them, and how many there are.
struct Counted<'a> {
    kept: Vec<&'a RawValue>,
    count: usize,
}

struct Elements {
    max: usize,
}

impl<'de> Visitor<'de> for Elements {
    type Value = Counted<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Counted<'de>, A::Error> {
        let mut kept = Vec::new();
        while kept.len() < self.max {
            let Some(element) = seq.next_element()? else {
                return Ok(Counted { count: kept.len(), kept });
            };
            kept.push(element);
        }
        let mut count = kept.len();
        while seq.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(Counted { kept, count })
    }
}
