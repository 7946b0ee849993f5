//! The events that are sent: 1 KB of JSON about one of many orders, each with an id of its own.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use rand::{RngExt, SeedableRng};
use rand_xorshift::XorShiftRng;

/// Bytes of a body.
pub(crate) const BODY_BYTES: usize = 1024;
/// CloudEvents `type`.
pub(crate) const EVENT_TYPE: &str = "com.example.order.changed";
/// CloudEvents `source`.
pub(crate) const SOURCE: &str = "/shop/orders";
/// Different bodies. They repeat, ids do not: making each anew would take the time of the servers.
const BODIES: usize = 2_048;
/// Orders that events are about, each an ordering key.
const ORDERS: u64 = 4_000;
/// Words of the bodies: what repeats in real events repeats here, so that compression has its usual work.
const WORDS: [&str; 24] = [
    "amber", "basket", "copper", "dozen", "express", "fragile", "garden", "harbour", "indigo", "jasmine",
    "kettle", "lantern", "marble", "nutmeg", "orchid", "pepper", "quartz", "ribbon", "saffron", "timber",
    "umber", "velvet", "walnut", "yarrow",
];

/// Ids have one length, so that every record of a variant has the same.
pub(crate) fn event_id(number: u64) -> String {
    format!("event-{number:014}")
}

/// The number in an id that [`event_id`] made.
pub(crate) fn number_of(id: &str) -> Option<u64> {
    id.strip_prefix("event-")?.parse().ok()
}

/// The bodies of events. A cheap clone.
#[derive(Clone)]
pub(crate) struct Bodies(Arc<[Bytes]>);

/// Makes requests; the next one always has the next id.
pub(crate) struct Events {
    bodies: Bodies,
    next: u64,
}

/// Some requests, told by number.
#[derive(Clone)]
pub(crate) struct Requests {
    bodies: Bodies,
    first: u64,
    pub(crate) count: u32,
}

impl Events {
    pub(crate) fn new(seed: u64) -> Self {
        Self { bodies: Bodies::new(seed), next: 0 }
    }

    pub(crate) fn requests(&mut self, count: u32) -> Requests {
        let first = self.next;
        self.next += u64::from(count);
        Requests { bodies: self.bodies.clone(), first, count }
    }
}

impl Requests {
    /// Writes one request into `buffer`, which is emptied first.
    pub(crate) fn write(&self, index: u32, buffer: &mut Vec<u8>, token: &str) {
        let number = self.first + u64::from(index);
        write_post(buffer, token, number, EVENT_TYPE, self.bodies.of(number));
    }
}

impl Bodies {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = XorShiftRng::seed_from_u64(seed);
        Self((0..BODIES).map(|_| Bytes::from(body(&mut random))).collect())
    }

    /// The body of this event.
    pub(crate) fn of(&self, number: u64) -> &Bytes {
        &self.0[usize::try_from(number).unwrap_or(0) % self.0.len()]
    }
}

/// Writes the request that brings an event to the door into `buffer`, which is emptied first.
pub(crate) fn write_post(buffer: &mut Vec<u8>, token: &str, number: u64, event_type: &str, body: &[u8]) {
    buffer.clear();
    let head = format!(
        "POST /v1/events HTTP/1.1\r\nhost: door\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
         ce-specversion: 1.0\r\nce-id: {}\r\nce-source: {SOURCE}\r\nce-type: {event_type}\r\ncontent-length: {}\r\n\r\n",
        event_id(number),
        body.len()
    );
    buffer.extend_from_slice(head.as_bytes());
    buffer.extend_from_slice(body);
}

/// An order with its lines, filled up with a note.
fn body(random: &mut XorShiftRng) -> String {
    let word = |random: &mut XorShiftRng| WORDS[random.random_range(0..WORDS.len())];
    let mut text = format!(
        r#"{{"order":{{"id":{},"state":"paid","currency":"EUR","lines":["#,
        1_000 + random.random_range(0..ORDERS)
    );
    for line in 0..8 {
        let comma = if line == 0 { "" } else { "," };
        let (sku, cents) = (random.random_range(0..u32::MAX), random.random_range(100..99_999));
        let quantity = random.random_range(1..10);
        let (first, second) = (word(random), word(random));
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            r#"{comma}{{"sku":"{sku:08x}","name":"{first} {second}","quantity":{quantity},"cents":{cents}}}"#
        );
    }
    text += r#"]},"note":""#;
    let end = r#""}"#;
    while text.len() < BODY_BYTES - end.len() {
        text += word(random);
        text.push(' ');
    }
    text.truncate(BODY_BYTES - end.len());
    text + end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_body_is_json_of_one_kilobyte_with_an_ordering_key() {
        let mut random = XorShiftRng::seed_from_u64(7);
        for _ in 0..500 {
            let text = body(&mut random);
            assert_eq!(text.len(), BODY_BYTES);
            let value: serde_json::Value = serde_json::from_str(&text).expect("json");
            assert!(value["order"]["id"].as_u64().is_some(), "{text}");
        }
    }

    #[test]
    fn ids_never_repeat_over_turns() {
        let mut events = Events::new(1);
        let text = |requests: &Requests, index| {
            let mut buffer = Vec::new();
            requests.write(index, &mut buffer, "token");
            String::from_utf8(buffer).expect("text")
        };
        let (one, other) = (events.requests(2), events.requests(2));
        assert!(text(&one, 1).contains(&event_id(1)));
        assert!(text(&other, 0).contains(&event_id(2)));
        assert_eq!(number_of(&event_id(77)), Some(77));
        assert_eq!(event_id(0).len(), event_id(99_999_999).len());
    }
}
