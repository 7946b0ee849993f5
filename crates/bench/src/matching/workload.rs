//! Filters and events: two equalities on an issue of a tracker, and issues that match none of them, or one.

use std::fmt::Write as _;

/// Bodies that match no filter.
const MISSES: usize = 32;

/// Bodies that match one filter each, at any number of filters from ten on.
const HITS: usize = 8;

/// Bodies of one size.
pub(crate) struct Bodies {
    pub(crate) misses: Vec<Vec<u8>>,
    pub(crate) hits: Vec<Vec<u8>>,
}

/// Text of filter `i`: `project.key = P<i> and priority.name = Critical`.
pub(crate) fn filter(i: usize) -> String {
    format!(r#"{{"issue":{{"fields":{{"project":{{"key":["P{i}"]}},"priority":{{"name":["Critical"]}}}}}}}}"#)
}

impl Bodies {
    /// Bodies of about `size` bytes.
    pub(crate) fn new(size: usize) -> Self {
        Self {
            misses: (0..MISSES).map(|i| body(&format!("Q{i}"), i, size)).collect(),
            hits: (0..HITS).map(|i| body(&format!("P{i}"), i, size)).collect(),
        }
    }
}

fn person(i: usize) -> String {
    format!(
        r#"{{"accountId":"5b10ac8d82e05b22cc7d{i:04}","displayName":"Person {i}","active":true,"timeZone":"Europe/Berlin"}}"#
    )
}

/// An issue: small objects first, then a description, comments and changes up to the size.
fn body(key: &str, i: usize, size: usize) -> Vec<u8> {
    let mut text = format!(
        r#"{{"timestamp":17251700{i:05},"webhookEvent":"jira:issue_updated","user":{},"issue":{{"id":"100{i}","key":"{key}-{i}","fields":{{"summary":"Lamp number {i} does not light","issuetype":{{"id":"1","name":"Bug","subtask":false}},"project":{{"id":"10000","key":"{key}","name":"Lamps"}},"priority":{{"id":"2","name":"Critical"}},"status":{{"id":"3","name":"In Progress"}},"labels":["lamp","light"],"votes":{i},"assignee":{},"created":"2026-11-30T10:00:00.000+0000","customfield_10010":1.5,"customfield_10011":null,"description":""#,
        person(i),
        person(i + 1),
    );
    let end = r#""}}}"#;
    let rest = size.saturating_sub(text.len() + end.len());
    let prose = "The lamp in the hall stays dark, whatever is done about it. ";
    // Of large bodies a third is prose, the rest are comments and changes.
    let description = if rest > 2_000 { rest / 3 } else { rest };
    text.extend(prose.chars().cycle().take(description));
    text.push('"');
    if rest > 2_000 {
        text.push_str(r#","comments":["#);
        for n in 0.. {
            if text.len() + 240 > size {
                break;
            }
            let comma = if n == 0 { "" } else { "," };
            let written = write!(
                text,
                r#"{comma}{{"id":"{n}","author":{},"body":"I saw it too, on day {n}.","visible":true}}"#,
                person(n)
            );
            debug_assert!(written.is_ok(), "writing to a string does not fail");
        }
        text.push(']');
    }
    text.push_str("}}}");
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_json_of_their_size() {
        for size in [1_024, 10_240] {
            let bodies = Bodies::new(size);
            for body in bodies.misses.iter().chain(&bodies.hits) {
                let value: serde_json::Value = serde_json::from_slice(body).expect("JSON");
                assert_eq!(value["issue"]["fields"]["priority"]["name"], "Critical");
                assert!(body.len().abs_diff(size) < size / 8, "{} bytes", body.len());
            }
        }
    }
}
