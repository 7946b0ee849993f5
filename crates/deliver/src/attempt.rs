//! One attempt: the list of steps from a delivery whose turn it is to what the attempt meant.

use std::sync::Arc;

use bytes::Bytes;
use mailrail_policy::classify;
use mailrail_types::{
    Attempt, AttemptResult, CancelReason, DeadReason, Endpoint, ErrorCode, Outcome, Timestamp,
};
use tokio_util::sync::CancellationToken;

use crate::decode::Held;
use crate::permit::Permit;
use crate::prepare::prepare;
use crate::resolve::resolve;
use crate::send::{Reply, send};
use crate::service::Shared;

/// Runs one attempt, unless `stop` comes before its request is started: then there is none. Ends without a request when
/// the delivery expired, is no longer owed, or cannot be sent.
pub(crate) async fn attempt(shared: &Shared, held: &Held, stop: &CancellationToken) -> Option<Attempt> {
    let turn = async {
        let endpoint = resolve(&shared.directory, &held.delivery).await;
        (endpoint, shared.permits.acquire().await)
    };
    let (endpoint, permit) = tokio::select! {
        biased;
        () = stop.cancelled() => return None,
        turn = turn => turn,
    };
    Some(with_permit(shared, held, endpoint, permit).await)
}

/// The permit is held until the answer is read, and comes back however this ends.
async fn with_permit(
    shared: &Shared,
    held: &Held,
    endpoint: Result<Arc<Endpoint>, CancelReason>,
    _permit: Permit,
) -> Attempt {
    let delivery = &held.delivery;
    let started = shared.now();
    let endpoint = match endpoint {
        Ok(endpoint) => endpoint,
        Err(reason) => {
            return without_request(held, started, Outcome::Cancelled(reason), AttemptResult::default());
        }
    };
    if started >= delivery.deadline {
        return without_request(held, started, Outcome::Dead(DeadReason::Expired), AttemptResult::default());
    }
    let number = delivery.history.attempts + 1;
    let request = match prepare(delivery, &endpoint, number, started, shared.config.attempt_timeout) {
        Ok(request) => request,
        Err(problem) => {
            return without_request(
                held,
                started,
                Outcome::Dead(DeadReason::Unsendable),
                unsendable(problem),
            );
        }
    };
    let reply = send(&shared.egress, request, started).await;
    let ended = shared.now();
    let outcome = verdict(shared, held, number, &reply, ended);
    shared.metrics.attempt_seconds.observe(ended.since(started).as_secs_f64());
    Attempt {
        number,
        duration_ms: u32::try_from(ended.since(started).as_millis()).unwrap_or(u32::MAX),
        result: reply.result,
        ..without_request(held, started, outcome, AttemptResult::default())
    }
}

/// What the reply means, by the failure policy of the delivery's surface.
fn verdict(shared: &Shared, held: &Held, number: u32, reply: &Reply, now: Timestamp) -> Outcome {
    let (result, asked, deadline) = (&reply.result, reply.retry_after, held.delivery.deadline);
    let random = shared.unit_random();
    match held.delivery.event.forwarded {
        Some(_) => mailrail_surfaces::classify_forwarded(result, asked, number, now, deadline, random),
        None => classify(result, asked, number, now, &shared.config.retry, deadline, random),
    }
}

/// The end of a delivery for which nothing was sent; its number is that of the last request.
fn without_request(held: &Held, now: Timestamp, outcome: Outcome, result: AttemptResult) -> Attempt {
    let delivery = &held.delivery;
    Attempt {
        delivery: delivery.id,
        event: delivery.event.id,
        tenant: delivery.event.tenant.clone(),
        endpoint: delivery.endpoint.clone(),
        subscription: delivery.subscription.clone(),
        number: delivery.history.attempts,
        started_at: now,
        duration_ms: 0,
        result,
        outcome,
        unknown: Bytes::new(),
    }
}

fn unsendable(problem: String) -> AttemptResult {
    let mut excerpt = Bytes::from(problem);
    excerpt.truncate(AttemptResult::EXCERPT_MAX_BYTES);
    AttemptResult { status: None, error: Some(ErrorCode::InvalidRequest), excerpt }
}
