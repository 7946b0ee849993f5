//! The problems that a producer can meet: one table of codes, statuses and titles.

use std::borrow::Cow;

/// Most bytes of a producer's own text (an attribute name, a media type) that an answer repeats.
const SHOWN_MAX_CHARS: usize = 64;

macro_rules! problems {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $status:literal, $title:literal;)+) => {
        /// What a request or an event was refused for. Codes are stable: clients may branch on them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Problem { $($(#[$doc])* $variant,)+ }

        impl Problem {
            /// All of them, in the order of the reference.
            pub const ALL: &'static [Problem] = &[$(Problem::$variant,)+];

            /// The stable code.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(Problem::$variant => $code,)+ }
            }

            /// The HTTP status.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Problem::$variant => $status,)+ }
            }

            /// One sentence for people, the same for every occurrence.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Problem::$variant => $title,)+ }
            }
        }
    };
}

problems! {
    /// No API key, or one that is not known; which of both is not told.
    Unauthorized = "unauthorized", 401, "The API key is missing or not known";
    /// A third party's webhook without the proof that its integration asks for.
    BadSignature = "bad_signature", 401, "The webhook was not signed with the integration's secret";
    /// Webhooks of this integration are turned away for now.
    Shed = "shed", 429, "Webhooks of this integration are turned away for now";
    /// The body is over the limit.
    BodyTooLarge = "body_too_large", 413, "The request body is too large";
    /// The body broke off or was framed wrongly.
    UnreadableBody = "unreadable_body", 400, "The request body could not be read to its end";
    /// The body took too long.
    RequestTimeout = "request_timeout", 408, "The request body did not arrive in time";
    /// An encoding, format or charset that is not taken.
    UnsupportedMediaType = "unsupported_media_type", 415, "The content type or encoding is not supported";
    /// A structured event or a batch is not JSON of the right shape.
    MalformedJson = "malformed_json", 400, "The event is not well-formed JSON";
    /// `specversion` is not 1.0.
    UnsupportedSpecversion = "unsupported_specversion", 400, "The CloudEvents version is not supported";
    /// A required attribute is not there.
    MissingAttribute = "missing_attribute", 400, "A required attribute is missing";
    /// An attribute has a value that it cannot have.
    InvalidAttribute = "invalid_attribute", 400, "An attribute is not valid";
    /// An attribute is there twice.
    DuplicateAttribute = "duplicate_attribute", 400, "An attribute is given twice";
    /// Both `data` and `data_base64`.
    DataConflict = "data_conflict", 400, "Both data and data_base64 are given";
    /// `data_base64` is not base64.
    InvalidBase64 = "invalid_base64", 400, "data_base64 is not valid base64";
    /// A batch without events.
    BatchEmpty = "batch_empty", 400, "The batch is empty";
    /// A batch with too many events.
    BatchTooLarge = "batch_too_large", 413, "The batch has too many events";
    /// A batch of which no event was accepted.
    BatchRefused = "batch_refused", 400, "No event of the batch was accepted";
    /// With what the third party added to its URL, a cell's URL is longer than one that is sent.
    UrlTooLong = "url_too_long", 414, "The URL is too long to go on to the cells";
    /// The event with its attributes is larger than the log takes.
    TooLargeRecord = "too_large_record", 413, "The event is larger than the log takes";
    /// The log did not acknowledge.
    LogUnavailable = "log_unavailable", 503, "The event could not be stored";
    /// Too much is being taken in at once.
    Overloaded = "overloaded", 503, "The front door is at its limit";
    /// A method that is not taken at this path.
    MethodNotAllowed = "method_not_allowed", 405, "The method is not allowed here";
    /// Another path than the one that exists.
    NotFound = "not_found", 404, "There is nothing at this path";
}

impl Problem {
    /// The URI that names this problem in `application/problem+json`.
    #[must_use]
    pub fn type_uri(self) -> String {
        format!("https://mailrail.dev/problems/{}", self.code())
    }

    /// Seconds after which sending again is sensible, where it is.
    #[must_use]
    pub const fn retry_after_secs(self) -> Option<u32> {
        match self {
            Problem::LogUnavailable => Some(5),
            Problem::Overloaded => Some(1),
            // What the original answers: long enough that a crowd does not come back at once.
            Problem::Shed => Some(60),
            _ => None,
        }
    }
}

/// One occurrence of a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Which problem.
    pub(crate) problem: Problem,
    /// What is wrong here, and what to change.
    pub(crate) detail: Cow<'static, str>,
    /// The attribute or header that it is about.
    pub(crate) field: Option<Cow<'static, str>>,
    /// The methods that are allowed here, where another one was used.
    pub(crate) allow: Option<&'static str>,
}

impl Refusal {
    /// A refusal of the whole request or event.
    pub(crate) fn new(problem: Problem, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { problem, detail: detail.into(), field: None, allow: None }
    }

    /// A refusal for one attribute or header.
    pub(crate) fn of(
        problem: Problem,
        field: impl Into<Cow<'static, str>>,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { field: Some(field.into()), ..Self::new(problem, detail) }
    }

    /// A refusal of a request for its method; `allow` lists those that are taken.
    pub(crate) fn method_not_allowed(allow: &'static str, detail: &'static str) -> Self {
        Self { allow: Some(allow), ..Self::new(Problem::MethodNotAllowed, detail) }
    }
}

/// A producer's own text, short enough for an answer.
pub(crate) fn shown(text: &str) -> String {
    let mut out: String = text.chars().take(SHOWN_MAX_CHARS).collect();
    if out.len() < text.len() {
        out.push('…');
    }
    out
}
