//! An attempt: one HTTP request for a delivery; and its outcome.

use bytes::Bytes;

use crate::{DeliveryId, EndpointId, EventId, SubscriptionId, TenantId, Timestamp};

/// One HTTP request for a delivery, or a delivery's end without one (expired, cancelled).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Whose attempt this is.
    pub delivery: DeliveryId,
    /// The event that was sent.
    pub event: EventId,
    /// The tenant that owns the endpoint.
    pub tenant: TenantId,
    /// The recipient.
    pub endpoint: EndpointId,
    /// The subscription.
    pub subscription: SubscriptionId,
    /// Numbered from 1 within the delivery; 0 when the delivery ended before any request.
    pub number: u32,
    /// When the request was started.
    pub started_at: Timestamp,
    /// From start to the last byte read, in milliseconds.
    pub duration_ms: u32,
    /// What came back.
    pub result: AttemptResult,
    /// What it meant.
    pub outcome: Outcome,
    /// Record fields written by a newer version, kept for the next reader. Opaque.
    pub unknown: Bytes,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttemptResult {
    /// HTTP status, when there was an answer.
    pub status: Option<u16>,
    /// Why there was none, or why it was not read to its end.
    pub error: Option<ErrorCode>,
    /// First bytes of the answer, at most [`AttemptResult::EXCERPT_MAX_BYTES`].
    pub excerpt: Bytes,
}

impl AttemptResult {
    /// How much of an answer is kept: enough to read an error message, too little to hurt.
    pub const EXCERPT_MAX_BYTES: usize = 1024;
}

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $code:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// All of them, for documentation and label sets.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The stable code, as records, metrics and APIs carry it.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $($name::$variant => $code,)+ }
            }

            /// The variant with this code.
            #[must_use]
            pub fn from_code(code: &str) -> Option<Self> {
                match code { $($code => Some($name::$variant),)+ _ => None }
            }
        }
    };
}

codes!(
    /// Why a request brought no complete answer. What a tenant may see: no address, no error chain.
    ErrorCode {
        /// The URL cannot be used: wrong scheme, host or port.
        InvalidUrl = "invalid_url",
        /// An address of the host is on the deny list.
        BlockedDestination = "blocked_destination",
        /// The name did not resolve.
        DnsFailure = "dns_failure",
        /// No connection within the connect time.
        ConnectTimeout = "connect_timeout",
        /// Connection refused or reset while connecting.
        ConnectFailed = "connect_failed",
        /// The TLS handshake failed.
        TlsError = "tls_error",
        /// No complete answer within the total deadline.
        Timeout = "timeout",
        /// The connection broke before the answer was complete.
        ConnectionReset = "connection_reset",
        /// The answer was not HTTP/1.1 as specified.
        InvalidResponse = "invalid_response",
        /// The request could not be built: a header or secret is unusable.
        InvalidRequest = "invalid_request",
    }
);

codes!(
    /// Why a delivery is tried again.
    RetryReason {
        /// The endpoint asked for less (429).
        Throttled = "throttled",
        /// The endpoint said it cannot now (503 and other 5xx, 408, 409, 425).
        ServerError = "server_error",
        /// An answer outside 200 to 299 and 400 to 599 (3xx is never followed).
        UnexpectedStatus = "unexpected_status",
        /// No complete answer.
        NoAnswer = "no_answer",
    }
);

codes!(
    /// Why a delivery was given up. A closed set.
    DeadReason {
        /// The endpoint refused it for good (4xx but 408, 409, 425, 429).
        Rejected = "rejected",
        /// Every attempt of the schedule failed.
        Exhausted = "exhausted",
        /// Its deadline passed.
        Expired = "expired",
        /// The endpoint said that it is gone (410).
        Gone = "gone",
        /// No request can be made from its set-up (URL, header or secret).
        Unsendable = "unsendable",
        /// At the head of a strict mailbox it failed for longer than the endpoint's
        /// [`head_max_age`](crate::Endpoint::head_max_age), and those behind it were let go on.
        HeadMaxAge = "head_max_age",
    }
);

codes!(
    /// Why a delivery that is owed is not sent now. Holding is no failure and counts as no attempt.
    HoldReason {
        /// An attempt failed and the next one is not due yet.
        Backoff = "backoff",
        /// A rate limit is used up.
        Rate = "rate",
        /// As many requests are open as may be.
        Concurrency = "concurrency",
        /// A person paused the endpoint.
        Paused = "paused",
        /// The endpoint's circuit breaker is open.
        Circuit = "circuit",
        /// An older delivery of its mailbox is held and goes first.
        BehindHead = "behind_head",
        /// Its request takes so long that others are not made to wait for its place in the window.
        Slow = "slow",
        /// Its mailbox has more waiting than is kept in memory.
        Overflow = "overflow",
        /// The process may have lost the partition: nothing is sent until its lease is renewed.
        Lease = "lease",
        /// The owner before this one left it unfinished: it waits until what is known of it was read.
        Unfinished = "unfinished",
        /// The set-up that it was matched with has not reached the process that delivers it.
        Setup = "setup",
    }
);

codes!(
    /// Why a delivery is no longer owed.
    CancelReason {
        /// The endpoint was deleted.
        EndpointDeleted = "endpoint_deleted",
        /// The subscription was deleted.
        SubscriptionDeleted = "subscription_deleted",
        /// The tenant was deleted.
        TenantDeleted = "tenant_deleted",
        /// The event's producer asks for a permission that the app does not have any more.
        PermissionMissing = "permission_missing",
    }
);

/// What an attempt meant. Every case of an answer or error is one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// 2xx.
    Delivered,
    /// Try again, not before `due`.
    Retry {
        /// Earliest start of the next attempt.
        due: Timestamp,
        /// Why.
        reason: RetryReason,
    },
    /// Given up: goes to the dead letters.
    Dead(DeadReason),
    /// No longer owed.
    Cancelled(CancelReason),
}

impl Outcome {
    /// Whether the delivery ends here.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Outcome::Retry { .. })
    }

    /// The stable code, as metrics and APIs carry it.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Outcome::Delivered => "delivered",
            Outcome::Retry { .. } => "retry",
            Outcome::Dead(DeadReason::Expired) => "expired",
            Outcome::Dead(_) => "dead",
            Outcome::Cancelled(_) => "cancelled",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_back_and_no_two_are_the_same() {
        let codes: Vec<_> = HoldReason::ALL.iter().map(|reason| reason.code()).collect();
        let closed = [
            "backoff",
            "rate",
            "concurrency",
            "paused",
            "circuit",
            "behind_head",
            "slow",
            "overflow",
            "lease",
            "unfinished",
            "setup",
        ];
        assert_eq!(codes, closed, "records and metrics carry them");
        for reason in HoldReason::ALL {
            assert_eq!(HoldReason::from_code(reason.code()), Some(*reason));
        }
        assert_eq!(HoldReason::from_code("Paused"), None);
        assert_eq!(DeadReason::from_code("head_max_age"), Some(DeadReason::HeadMaxAge));
        assert_eq!(Outcome::Dead(DeadReason::HeadMaxAge).code(), "dead");
    }
}
