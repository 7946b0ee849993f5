//! What a tenant sets up: apps, endpoints, subscriptions, event types, keys.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use crate::{AppId, ClassId, EndpointId, FilterErrorPolicy, KeyId, SubscriptionId, TenantId};

/// Largest [`Endpoint::max_in_flight`]: more than one process has open to one recipient.
pub const IN_FLIGHT_MAX: u32 = 1000;
/// Largest [`Endpoint::rate_per_second`]: beyond it a limit of the rate holds nothing back.
pub const RATE_PER_SECOND_MAX: u32 = 10_000;

/// A customer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    /// Its id.
    pub id: TenantId,
    /// A name for people; may be empty.
    pub name: String,
    /// Class of its source mailboxes: how its events are split on their way to match. Strict unless set: a change of
    /// width there would reorder strict recipients too.
    pub source_class: ClassId,
}

/// A consumer that subscribes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct App {
    /// Its id, unique within the tenant.
    pub id: AppId,
    /// A name for people; may be empty.
    pub name: String,
    /// What it may get of events that their producer marked as sensitive: see [`App::may_get`].
    pub permissions: BTreeSet<String>,
}

/// A recipient.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its id, unique within the tenant.
    pub id: EndpointId,
    /// The app it belongs to.
    pub app: AppId,
    /// Where requests go: the serialised form of a parsed URL.
    pub url: String,
    /// Signing secrets, newest first: every attempt is signed with each, so that a rotation overlaps.
    pub secrets: Vec<Secret>,
    /// Headers added to every request; checked by [`check_header`].
    pub headers: Vec<(String, String)>,
    /// Class of its mailboxes.
    pub class: ClassId,
    /// Total time of one attempt, at most the pipeline's; `None`: the pipeline's.
    pub timeout: Option<Duration>,
    /// How long a delivery at the head of a strict mailbox may fail, counted from its first attempt, before it is
    /// dead-lettered ([`crate::DeadReason::HeadMaxAge`]) and its mailbox goes on. `None`: the head holds its mailbox as
    /// long as its retries last. Tolerant mailboxes do not read it: nothing waits behind their failed deliveries.
    pub head_max_age: Option<Duration>,
    /// Most attempts to it at the same time, 1 to [`IN_FLIGHT_MAX`]; `None`: no limit of its own. Over all
    /// processes that share a Redis.
    pub max_in_flight: Option<u32>,
    /// Most attempts to it in a second, 1 to [`RATE_PER_SECOND_MAX`], with a burst of one second; `None`: no limit of its
    /// own. Over all processes that share a Redis.
    pub rate_per_second: Option<u32>,
    /// Whether a person holds its mail for now: nothing is sent, nothing is lost. It is operational state and no set-up:
    /// applying a set-up never changes it.
    pub paused: bool,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("id", &self.id).field("app", &self.app).finish_non_exhaustive()
    }
}

/// A signing secret in its `whsec_…` text form. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes the text as it is; crate `sign` checks its form.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text. Every call is a place where the secret may leak: keep them few.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// App + event types + filter → endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Its id, unique within the tenant.
    pub id: SubscriptionId,
    /// The app that subscribes.
    pub app: AppId,
    /// Where matches go; belongs to the same app.
    pub endpoint: EndpointId,
    /// Event types it wants, exact.
    pub event_types: Vec<String>,
    /// Which of those events; `None`: all.
    pub filter: Option<FilterSource>,
    /// What becomes of an event on which the filter gives no verdict.
    pub on_filter_error: FilterErrorPolicy,
}

/// A filter as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FilterSource {
    /// The language it is written in.
    pub language: FilterLanguage,
    /// Its text: for `pattern` and `eventbridge` a JSON object, for `cloudevents` a JSON list, for `cesql` an expression.
    pub text: String,
}

/// Filter languages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FilterLanguage {
    /// EventBridge-compatible JSON patterns, and more operators.
    Pattern,
    /// JSON patterns, and nothing that EventBridge does not have.
    EventBridge,
    /// CloudEvents SQL expressions, and paths into the data.
    Cesql,
    /// Lists of CloudEvents filters, as of the Subscriptions API.
    CloudEvents,
}

impl FilterLanguage {
    /// Every language.
    pub const ALL: [FilterLanguage; 4] = [
        FilterLanguage::Pattern,
        FilterLanguage::EventBridge,
        FilterLanguage::Cesql,
        FilterLanguage::CloudEvents,
    ];

    /// The name in files and APIs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FilterLanguage::Pattern => "pattern",
            FilterLanguage::EventBridge => "eventbridge",
            FilterLanguage::Cesql => "cesql",
            FilterLanguage::CloudEvents => "cloudevents",
        }
    }

    /// The language with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.name() == name)
    }
}

/// What is known of an event type of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventType {
    /// The CloudEvents `type`.
    pub name: String,
    /// Where the ordering key stands in a JSON body when the event has no `partitionkey`.
    pub ordering_key: Option<JsonPath>,
}

/// A producer's credential, as it is known after it was hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Its public name.
    pub id: KeyId,
    /// The tenant it speaks for.
    pub tenant: TenantId,
}

/// A plain path of object keys and array indices: `repository.id`, `$.items[0].sku`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JsonPath {
    text: String,
    steps: Vec<String>,
}

/// Why a text is not a path.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{text}' is not a path: {problem}; write keys and indices as in 'repository.id' or '$.items[0].sku'"
)]
pub struct JsonPathError {
    text: String,
    problem: &'static str,
}

impl JsonPath {
    /// Most steps in a path.
    pub const STEPS_MAX: usize = 16;

    /// The steps, outermost first. A step that is a number also selects an array element.
    #[must_use]
    pub fn steps(&self) -> &[String] {
        &self.steps
    }

    /// The path as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for JsonPath {
    type Err = JsonPathError;

    fn from_str(text: &str) -> Result<Self, JsonPathError> {
        let bad = |problem| JsonPathError { text: text.chars().take(200).collect(), problem };
        let inner = text.strip_prefix("$.").unwrap_or(text);
        if inner.is_empty() || inner == "$" {
            return Err(bad("it is empty"));
        }
        let mut steps = Vec::new();
        for part in inner.split('.') {
            let (key, mut rest) = part.find('[').map_or((part, ""), |at| part.split_at(at));
            if key.is_empty() {
                return Err(bad("a key is empty"));
            }
            steps.push(key.to_owned());
            while !rest.is_empty() {
                let end = rest.find(']').ok_or_else(|| bad("'[' is not closed"))?;
                let index = rest[..end].strip_prefix('[').ok_or_else(|| bad("text follows ']'"))?;
                index.parse::<u32>().map_err(|_| bad("an index is not a number"))?;
                steps.push(index.to_owned());
                rest = &rest[end + 1..];
            }
        }
        if steps.len() > Self::STEPS_MAX {
            return Err(bad("it has more than 16 steps"));
        }
        Ok(JsonPath { text: text.to_owned(), steps })
    }
}

/// Why a header may not be set on an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// Not an HTTP token, or longer than 128 bytes.
    #[error("header name '{0}' is not valid: use letters, digits and '-'")]
    Name(String),
    /// Set by mailrail itself, or dangerous to the receiver's network.
    #[error("header '{0}' cannot be set: it is reserved")]
    Reserved(String),
    /// Not visible ASCII and spaces, or longer than 4,096 bytes.
    #[error("the value of header '{0}' is not valid: use visible ASCII and spaces, at most 4096 bytes")]
    Value(String),
}

/// Names that are ours, hop-by-hop, or open doors at cloud metadata services.
const RESERVED: &[&str] = &[
    "host",
    "content-length",
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "user-agent",
    "cookie",
    "forwarded",
    "via",
    "metadata",
    "metadata-flavor",
    "accept-encoding",
    "traceparent",
    "tracestate",
];
const RESERVED_PREFIXES: &[&str] = &[
    "webhook-",
    "mailrail-",
    "ce-",
    "proxy-",
    "x-forwarded-",
    "x-aws-ec2-metadata-",
    "x-google-",
    "x-goog-",
    "x-amz-",
    "x-azure-",
];

/// Checks a header that a tenant wants on every request of an endpoint.
///
/// # Errors
/// [`HeaderError`] when the name is not a token, is reserved, or the value has other bytes than visible ASCII and space.
pub fn check_header(name: &str, value: &str) -> Result<(), HeaderError> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let shown: String = name.chars().take(128).collect();
    if name.is_empty() || name.len() > 128 || !name.bytes().all(token) {
        return Err(HeaderError::Name(shown));
    }
    let lower = name.to_ascii_lowercase();
    if RESERVED.contains(&lower.as_str()) || RESERVED_PREFIXES.iter().any(|p| lower.starts_with(p)) {
        return Err(HeaderError::Reserved(shown));
    }
    let visible = |b: u8| (0x20..=0x7e).contains(&b);
    if value.len() > 4096 || !value.bytes().all(visible) || value.trim() != value {
        return Err(HeaderError::Value(shown));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_and_refused() {
        let steps = |t: &str| t.parse::<JsonPath>().map(|p| p.steps().join("/"));
        assert_eq!(steps("repository.id").as_deref(), Ok("repository/id"));
        assert_eq!(steps("$.items[0][12].sku").as_deref(), Ok("items/0/12/sku"));
        for bad in ["", "$", "$.", "a..b", ".a", "a[", "a[x]", "a[0]b", "a[-1]", "[0]"] {
            assert!(bad.parse::<JsonPath>().is_err(), "{bad:?} must be refused");
        }
        assert!(vec!["a"; 17].join(".").parse::<JsonPath>().is_err());
    }

    #[test]
    fn n17_reserved_and_malformed_headers_are_refused() {
        assert_eq!(check_header("X-Team", "payments eu"), Ok(()));
        assert_eq!(check_header("Authorization", "Bearer abc"), Ok(()));
        for name in
            ["Host", "content-length", "Webhook-Signature", "X-Forwarded-For", "metadata-flavor", "Cookie"]
        {
            assert!(matches!(check_header(name, "x"), Err(HeaderError::Reserved(_))), "{name}");
        }
        for name in ["", "a b", "a:b", "é", "a\r\nb"] {
            assert!(matches!(check_header(name, "x"), Err(HeaderError::Name(_))), "{name:?}");
        }
        for value in ["a\r\nb", "a\tb", "é", " a", "a\u{7f}", &"x".repeat(4097)] {
            assert!(matches!(check_header("X-A", value), Err(HeaderError::Value(_))), "{value:?}");
        }
    }

    #[test]
    fn n16_secrets_are_never_printed() {
        assert!(!format!("{:?}", Secret::new("whsec_canary".into())).contains("canary"));
    }
}
