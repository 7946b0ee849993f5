//! Points in time: RFC 3339 timestamps, compared by what they mean and not as they are written.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Nanoseconds since 1970.
pub(crate) type Moment = i128;

/// The longest timestamp that is read, with nanoseconds and an offset, and some digits more.
const TIMESTAMP_MAX_CHARS: usize = 48;

/// The shortest one.
const TIMESTAMP_MIN_CHARS: usize = "2026-01-01T00:00:00Z".len();

/// A time between two moments, both of which belong to it; open where an end is missing.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Moments {
    pub(crate) lower: Option<Moment>,
    pub(crate) upper: Option<Moment>,
}

impl Moments {
    pub(crate) fn contains(self, moment: Moment) -> bool {
        self.lower.is_none_or(|lower| lower <= moment) && self.upper.is_none_or(|upper| moment <= upper)
    }
}

/// Reads a timestamp with its offset: `2026-11-30T09:00:00.5+01:00`. Digits beyond nanoseconds are left out.
pub(crate) fn read_moment(text: &str) -> Option<Moment> {
    if !(TIMESTAMP_MIN_CHARS..=TIMESTAMP_MAX_CHARS).contains(&text.len()) {
        return None;
    }
    OffsetDateTime::parse(text, &Rfc3339).ok().map(OffsetDateTime::unix_timestamp_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_mean_the_same_however_they_are_written() {
        let same = [
            "2026-11-30T09:00:00Z",
            "2026-11-30T10:00:00+01:00",
            "2026-11-30T09:00:00.000Z",
            "2026-11-30t09:00:00z",
        ];
        for text in same {
            assert_eq!(read_moment(text), read_moment(same[0]), "{text}");
            assert!(read_moment(text).is_some(), "{text}");
        }
        assert!(read_moment("2026-11-30T09:00:00.000000001Z") > read_moment(same[0]));
        assert!(read_moment("1969-12-31T23:59:59Z") < Some(0));
    }

    #[test]
    fn what_is_no_timestamp_is_none() {
        for text in [
            "",
            "2026-11-30",
            "2026-11-30T09:00:00",
            "2026-13-30T09:00:00Z",
            "2026-11-30T25:00:00Z",
            "next tuesday at nine",
            "2026-11-30T09:00:00Zx",
        ] {
            assert_eq!(read_moment(text), None, "{text}");
        }
        assert_eq!(read_moment(&format!("2026-11-30T09:00:00.{}Z", "0".repeat(1000))), None);
    }
}
