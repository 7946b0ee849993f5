//! What an endpoint asks for with `Retry-After`.

use std::time::{Duration, UNIX_EPOCH};

use mailrail_types::Timestamp;

/// Most copies of the header that are read: honest answers have one, and a proxy may add one.
const COPIES_MAX: usize = 10;

/// How long the endpoint asks us to wait: seconds, or the time until an HTTP date.
///
/// Takes the values of all copies of the header and reads the first 10. A value that is neither form is passed over,
/// so a broken copy does not hide a good one; a date in the past asks for no wait at all. Of several valid copies the
/// largest wins: each comes from a hop that knows its own trouble (the application, the proxy before it), all of them
/// have to be well again, and waiting too long only costs time, which the caller bounds.
///
/// Any number of digits is a number: what does not fit is the longest time there is, not garbage.
#[must_use]
pub fn parse_retry_after<V: AsRef<[u8]>>(values: &[V], now: Timestamp) -> Option<Duration> {
    values.iter().take(COPIES_MAX).filter_map(|value| parse_one(value.as_ref(), now)).max()
}

fn parse_one(value: &[u8], now: Timestamp) -> Option<Duration> {
    let text = std::str::from_utf8(value).ok()?.trim_matches([' ', '\t']);
    if text.is_empty() {
        return None;
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    // Before 1970 is before any `now` that matters.
    let since_epoch = date.duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(Timestamp::ZERO.plus(since_epoch).since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1994-11-06 08:49:37 UTC, the date of RFC 9110's examples.
    const DATE: Timestamp = Timestamp(784_111_777_000);

    fn parse(values: &[&[u8]]) -> Option<Duration> {
        parse_retry_after(values, DATE)
    }

    fn secs(secs: u64) -> Option<Duration> {
        Some(Duration::from_secs(secs))
    }

    /// N09: seconds and HTTP dates.
    #[test]
    fn n09_both_forms_are_read() {
        assert_eq!(parse(&[b"120"]), secs(120));
        assert_eq!(parse(&[b" 120\t"]), secs(120));
        assert_eq!(parse(&[b"0"]), secs(0));
        assert_eq!(parse(&[b"000000000000000000000000000007"]), secs(7));
        assert_eq!(parse(&[b"Sun, 06 Nov 1994 08:51:37 GMT"]), secs(120));
        assert_eq!(parse(&[b"Sunday, 06-Nov-94 08:51:37 GMT"]), secs(120));
        assert_eq!(parse(&[b"Sun Nov  6 08:51:37 1994"]), secs(120));
        let millis = Timestamp(DATE.0 + 500);
        assert_eq!(
            parse_retry_after(&["Sun, 06 Nov 1994 08:51:37 GMT"], millis),
            Some(Duration::from_millis(119_500))
        );
    }

    /// N09: extremes are numbers, and no panic.
    #[test]
    fn n09_extremes_are_numbers_not_panics() {
        assert_eq!(parse(&[b"999999999999"]), secs(999_999_999_999));
        assert_eq!(parse(&[b"99999999999999999999999999999999999999"]), secs(u64::MAX));
        assert_eq!(parse(&[b"Thu, 01 Jan 1970 00:00:00 GMT"]), secs(0));
        assert_eq!(parse(&[b"Sun, 06 Nov 1994 08:49:37 GMT"]), secs(0));
        assert!(parse(&[b"Fri, 31 Dec 9999 23:59:59 GMT"]).unwrap() > Duration::from_hours(24 * 365 * 8000));
        for now in [Timestamp(i64::MIN), Timestamp(i64::MAX)] {
            assert!(parse_retry_after(&["Fri, 31 Dec 9999 23:59:59 GMT"], now).is_some());
        }
    }

    /// N09: garbage is passed over.
    #[test]
    fn n09_garbage_is_passed_over() {
        let garbage: &[&[u8]] = &[
            b"",
            b" ",
            b"-1",
            b"+5",
            b"1e99",
            b"1.5",
            b"5s",
            b"soon",
            b"0x10",
            b"\xff\xfe",
            "５".as_bytes(),
            b"120, 60",
            b"Sun, 31 Feb 1994 08:49:37 GMT",
            b"1994-11-06T08:51:37Z",
            b"1\n2",
        ];
        for value in garbage {
            assert_eq!(parse(&[value]), None, "{value:?}");
        }
        assert_eq!(parse(garbage), None);
        assert_eq!(parse(&[b"soon", b"60"]), secs(60));
        assert_eq!(parse(&[]), None);
    }

    /// N09: of ten copies the largest one counts.
    #[test]
    fn n09_the_largest_of_the_first_ten_copies_wins() {
        assert_eq!(parse(&[b"10", b"60", b"Sun, 06 Nov 1994 08:50:07 GMT"]), secs(60));
        let mut copies: Vec<&[u8]> = vec![b"5"; 10];
        copies[9] = b"7";
        copies.push(b"100");
        assert_eq!(parse(&copies), secs(7));
    }
}
