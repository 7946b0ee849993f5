//! What is wrong with a set-up document: where, a stable code, and what to change.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::path::Path;

/// Most problems that one answer lists: enough to repair a file, too few to flood a terminal or a body.
pub const PROBLEMS_MAX: usize = 100;

/// One thing that is wrong with a set-up document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupProblem {
    /// Stable code; see [`code`].
    pub code: String,
    /// Where, as `tenants[0].apps[0].endpoints[1].url`; empty for the whole document.
    pub path: String,
    /// What is wrong and what to change. Never holds a secret.
    pub detail: String,
    /// Line in the file, from 1, when the reader knows the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

impl SetupProblem {
    /// A problem without a line.
    #[must_use]
    pub fn new(code: &str, path: &Path, detail: impl Into<String>) -> Self {
        SetupProblem { code: code.to_owned(), path: path.to_string(), detail: detail.into(), line: None }
    }
}

impl fmt::Display for SetupProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{} ({})", self.detail, self.code)
    }
}

/// Codes of problems. They are part of the API: never change the meaning of one. A URL has the codes of `UrlError` of
/// crate egress (`malformed_url`, `address_not_allowed` …), a filter those of [`mailrail_filter::FilterError::CODES`].
pub mod code {
    /// Not YAML or JSON, or a key twice.
    pub const SYNTAX: &str = "syntax";
    /// A field that the format does not have.
    pub const UNKNOWN_FIELD: &str = "unknown_field";
    /// A field that must be there is not.
    pub const MISSING_FIELD: &str = "missing_field";
    /// A value of another type than the format says.
    pub const WRONG_TYPE: &str = "wrong_type";
    /// A `version` that this release does not read.
    pub const UNSUPPORTED_VERSION: &str = "unsupported_version";
    /// An id with characters or a length that ids may not have.
    pub const INVALID_ID: &str = "invalid_id";
    /// Two of a kind with the same id.
    pub const DUPLICATE_ID: &str = "duplicate_id";
    /// A name that is too long.
    pub const INVALID_NAME: &str = "invalid_name";
    /// An event type that is empty, too long or holds control characters.
    pub const INVALID_EVENT_TYPE: &str = "invalid_event_type";
    /// An ordering key that is not a path.
    pub const INVALID_ORDERING_KEY: &str = "invalid_ordering_key";
    /// A signing secret of another form than `whsec_` and base64, or a third party's that is too short.
    pub const INVALID_SECRET: &str = "invalid_secret";
    /// A header that mailrail sets itself, or that opens doors in the receiver's network.
    pub const HEADER_NOT_ALLOWED: &str = "header_not_allowed";
    /// A header that is malformed.
    pub const INVALID_HEADER: &str = "invalid_header";
    /// A timeout that is not a duration or out of bounds.
    pub const INVALID_TIMEOUT: &str = "invalid_timeout";
    /// A `head_max_age` that is not a duration or out of bounds.
    pub const INVALID_HEAD_MAX_AGE: &str = "invalid_head_max_age";
    /// A `max_in_flight` that is out of range.
    pub const INVALID_MAX_IN_FLIGHT: &str = "invalid_max_in_flight";
    /// A `rate_per_second` that is out of range.
    pub const INVALID_RATE_PER_SECOND: &str = "invalid_rate_per_second";
    /// An API key token that is too short or not visible ASCII.
    pub const INVALID_TOKEN: &str = "invalid_token";
    /// The same token for two keys.
    pub const DUPLICATE_TOKEN: &str = "duplicate_token";
    /// A subscription names an endpoint that its app does not have, or an integration one that its tenant does not have.
    pub const UNKNOWN_ENDPOINT: &str = "unknown_endpoint";
    /// A class that does not exist.
    pub const UNKNOWN_CLASS: &str = "unknown_class";
    /// An option of a class that is out of range.
    pub const INVALID_CLASS: &str = "invalid_class";
    /// A third party that mailrail does not know.
    pub const UNKNOWN_PROVIDER: &str = "unknown_provider";
    /// A list that may not be empty, or names something twice.
    pub const INVALID_CELLS: &str = "invalid_cells";
    /// A shed rule that names no provider.
    pub const MISSING_PROVIDER: &str = "missing_provider";
    /// An endpoint or subscription that another app of the tenant has.
    pub const OTHER_APP: &str = "belongs_to_other_app";
    /// More of something than allowed.
    pub const TOO_MANY: &str = "too_many";
    /// `{env: X}` where X is not set, or where there is nobody to resolve it.
    pub const ENV: &str = "env_not_resolved";
    /// Warning: a subscription wants an event type that the tenant does not declare.
    pub const UNDECLARED_EVENT_TYPE: &str = "undeclared_event_type";
}
