//! Which letters are meant, as arguments.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use mailrail_control::{FilterParts, RATE_MAX};

/// Which letters. What is not given lets everything pass.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct FilterArgs {
    /// Of this tenant
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    /// For this endpoint of the tenant
    #[arg(long, requires = "tenant")]
    pub(crate) endpoint: Option<String>,
    /// Of events of this type
    #[arg(long)]
    pub(crate) event_type: Option<String>,
    /// Given up for this reason, such as exhausted; may be given several times, or with commas
    #[arg(long, value_delimiter = ',')]
    pub(crate) reason: Vec<String>,
    /// Given up at or after this time (2030-01-31T12:00:00Z), or so long ago at most (2h)
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) since: Option<i64>,
    /// Given up before this time, or so long ago at least
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) until: Option<i64>,
    /// This delivery (dlv_…); may be given several times, or with commas
    #[arg(long, value_delimiter = ',')]
    pub(crate) id: Vec<String>,
}

impl FilterArgs {
    /// The filter as the API takes it.
    ///
    /// # Errors
    /// When a part of it cannot be meant.
    pub(super) fn parts(&self) -> Result<FilterParts> {
        let parts = FilterParts {
            tenant: self.tenant.clone(),
            endpoint: self.endpoint.clone(),
            event_type: self.event_type.clone(),
            reasons: self.reason.clone(),
            since_ms: self.since,
            until_ms: self.until,
            ids: self.id.clone(),
        };
        parts.parse().context("the filter (invalid_filter)")?;
        Ok(parts)
    }
}

/// A time, or a duration before now, in milliseconds since 1970.
fn time(text: &str) -> Result<i64, String> {
    let at = match humantime::parse_duration(text) {
        Ok(ago) => SystemTime::now().checked_sub(ago),
        Err(_) => humantime::parse_rfc3339_weak(text).ok(),
    };
    let since = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).as_ref().map(Duration::as_millis);
    since.and_then(|ms| i64::try_from(ms).ok()).ok_or_else(|| {
        "write a time such as 2030-01-31T12:00:00Z, or a duration before now such as 90m, 2h or 3days"
            .to_owned()
    })
}

/// Letters per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate(pub(crate) u32);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix("/s").unwrap_or(text).trim();
        match number.parse() {
            Ok(rate) if (1..=RATE_MAX).contains(&rate) => Ok(Rate(rate)),
            _ => Err(format!("write 1 to {RATE_MAX} letters per second, as 50 or 50/s")),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates_are_read_or_refused() {
        assert_eq!(time("2030-01-31T12:00:00Z"), Ok(1_896_091_200_000));
        assert!(time("2h").is_ok_and(|at| at > 1_700_000_000_000));
        for bad in ["yesterday", "", "1960-01-01T00:00:00Z"] {
            assert!(time(bad).is_err(), "{bad}");
        }
        assert_eq!("50".parse(), Ok(Rate(50)));
        assert_eq!("7/s".parse(), Ok(Rate(7)));
        for bad in ["0", "10001", "5/m", "-1", ""] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
        assert_eq!(Rate(5).to_string().parse(), Ok(Rate(5)));
    }
}
