//! Times for people.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

/// Milliseconds since 1970 as RFC 3339 in UTC, to the second; as a number where no calendar reaches.
pub(super) fn when(ms: i64) -> String {
    let after = u64::try_from(ms).ok().and_then(|ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms)));
    let mut text = String::new();
    // Not `to_string`, which panics beyond the year 9999.
    match after.map(|after| write!(text, "{}", humantime::format_rfc3339_seconds(after))) {
        Some(Ok(())) => text,
        _ => format!("{ms} ms after 1970"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_shown() {
        assert_eq!(when(1_700_000_000_123), "2023-11-14T22:13:20Z");
        assert_eq!(when(-1), "-1 ms after 1970");
        assert_eq!(when(i64::MAX), format!("{} ms after 1970", i64::MAX));
    }
}
