//! Request → what came back. Exactly one call of egress; retries are decided elsewhere.

use std::time::Duration;

use mailrail_egress::{Egress, Response};
use mailrail_policy::parse_retry_after;
use mailrail_types::{AttemptResult, Timestamp};

use crate::prepare::Prepared;

/// What one request brought.
pub(crate) struct Reply {
    pub(crate) result: AttemptResult,
    /// The lease ran out before the request was written: nothing was sent.
    pub(crate) withheld: bool,
    /// How long the endpoint asked to wait, if it did.
    pub(crate) retry_after: Option<Duration>,
}

/// Sends the request. Cannot fail: whatever happens is a status or an error code.
pub(crate) async fn send(egress: &Egress, prepared: Prepared, now: Timestamp) -> Reply {
    let Prepared { method, destination, request } = prepared;
    let response = match destination {
        Ok(destination) => egress.send(method, &destination, request).await,
        Err(error) => Response { error: Some(error), ..Response::default() },
    };
    Reply {
        withheld: response.withheld,
        retry_after: parse_retry_after(&response.retry_after, now),
        result: AttemptResult { status: response.status, error: response.error, excerpt: response.excerpt },
    }
}
