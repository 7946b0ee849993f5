//! One attempt: the list of steps from a delivery whose turn it is to what the attempt meant.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mailrail_log::Lease;
use mailrail_mailbox::Hold;
use mailrail_policy::classify;
use mailrail_types::{
    Attempt, AttemptResult, CancelReason, DeadReason, Delivery, Endpoint, ErrorCode, HoldReason, MailboxKey,
    Outcome, Timestamp,
};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::gate::Waker;
use crate::permit::Permit;
use crate::places::Place;
use crate::prepare::{Prepared, prepare};
use crate::resolve::resolve;
use crate::route::Unsendable;
use crate::send::{Reply, send};
use crate::sequence::Sequence;
use crate::service::Shared;

/// How long an attempt waits for the set-up that its delivery was matched with; it comes within a moment while the store is there.
const SETUP_WAIT: Duration = Duration::from_secs(1);
/// When a delivery whose set-up did not come asks again; it is woken when a set-up comes.
const SETUP_AGAIN: Duration = Duration::from_secs(30);

/// What came of a turn.
#[derive(Debug)]
pub(crate) enum Turn {
    /// An attempt, or an end without a request.
    Attempted(Attempt),
    /// It may not go now, and that is no attempt.
    Held(Hold),
    /// The owner stops, or its lease ran out: the next one makes this attempt.
    NotStarted,
}

/// What an attempt goes with.
pub(crate) struct Turned {
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) mailbox: MailboxKey,
    pub(crate) sequence: Sequence,
    pub(crate) strict: bool,
    pub(crate) of: Arc<OfPartition>,
}

/// What the attempts of a partition share.
pub(crate) struct OfPartition {
    pub(crate) lease: Lease,
    pub(crate) waker: Waker,
    pub(crate) stop: CancellationToken,
}

/// Runs one attempt, unless `stop` comes before its request is started: then there is none. Ends without a request when
/// the delivery expired, is no longer owed, or cannot be sent. The permit is held until the answer is read, and comes back
/// however this ends.
pub(crate) async fn attempt(
    shared: &Shared,
    turned: &Turned,
    _permit: Permit,
    // Given back before the permit: whoever gets that is not to be refused for a place that is free.
    _place: Option<Place>,
) -> Turn {
    let delivery = &*turned.delivery;
    #[cfg(test)]
    crate::tests::panic_on_poison(&delivery.event.body);
    #[cfg(test)]
    crate::tests::die_of_killer(&delivery.event.body).await;
    if shared.directory.seq() < delivery.setup_seq {
        let seen = timeout(SETUP_WAIT, shared.directory.reached(delivery.setup_seq));
        let seen = tokio::select! {
            biased;
            () = turned.of.stop.cancelled() => return Turn::NotStarted,
            seen = seen => seen,
        };
        if seen.is_err() {
            // The store is away, perhaps for long: nobody else may wait for the permit until it is back.
            let until = shared.now().plus(SETUP_AGAIN);
            return Turn::Held(to_deadline(delivery, Hold { reason: HoldReason::Setup, until }));
        }
    } else if turned.of.stop.is_cancelled() {
        return Turn::NotStarted;
    }
    let endpoint = resolve(&shared.directory, delivery);
    let started = shared.now();
    let endpoint = match may_go(delivery, endpoint, started) {
        Ok(endpoint) => endpoint,
        Err(turn) => return *turn,
    };
    let number = delivery.history.attempts + 1;
    let request = match prepared(shared, turned, &endpoint, number, started) {
        Ok(request) => request,
        Err(problem) => {
            let end = Outcome::Dead(DeadReason::Unsendable);
            return Turn::Attempted(without_request(delivery, started, end, unsendable(problem)));
        }
    };
    let (tenant, mailbox) = (&delivery.event.tenant, &turned.mailbox);
    let pass = match shared.gates.enter(tenant, &endpoint, mailbox, &turned.of.waker, started).await {
        Ok(pass) => pass,
        Err(hold) => return Turn::Held(to_deadline(delivery, hold)),
    };
    // Before the first side effect (I10): this task may have been stopped for long. Egress looks again when it writes.
    if !turned.of.lease.holds(Instant::now()) {
        return Turn::NotStarted;
    }
    let reply = send(&shared.egress, request, started).await;
    if reply.withheld {
        return Turn::NotStarted;
    }
    let ended = shared.now();
    let outcome = verdict(shared, turned, &endpoint, number, &reply, ended);
    let attempt = Attempt {
        number,
        duration_ms: u32::try_from(ended.since(started).as_millis()).unwrap_or(u32::MAX),
        result: reply.result,
        ..without_request(delivery, started, outcome, AttemptResult::default())
    };
    pass.report(&attempt, ended, shared.unit_random());
    Turn::Attempted(attempt)
}

/// The request, by the route of the endpoint as it is set up now.
fn prepared(
    shared: &Shared,
    turned: &Turned,
    endpoint: &Arc<Endpoint>,
    number: u32,
    now: Timestamp,
) -> Result<Prepared, Unsendable> {
    let (delivery, egress) = (&*turned.delivery, &shared.egress);
    let route = shared.routes.of(&delivery.event.tenant, endpoint, egress)?;
    prepare(delivery, (&route, egress), number, turned.sequence, now, shared.config.attempt_timeout)
}

/// Whether a request may go out now. An end comes first: a paused endpoint keeps its mail to its deadline, not beyond it.
fn may_go(
    delivery: &Delivery,
    endpoint: Result<Arc<Endpoint>, CancelReason>,
    now: Timestamp,
) -> Result<Arc<Endpoint>, Box<Turn>> {
    let ended = |outcome| {
        Box::new(Turn::Attempted(without_request(delivery, now, outcome, AttemptResult::default())))
    };
    let endpoint = endpoint.map_err(|reason| ended(Outcome::Cancelled(reason)))?;
    if now >= delivery.deadline {
        return Err(ended(Outcome::Dead(DeadReason::Expired)));
    }
    match pause(delivery, &endpoint) {
        Some(hold) => Err(Box::new(Turn::Held(hold))),
        None => Ok(endpoint),
    }
}

/// What holds the mail of an endpoint that is paused: to its deadline, or until the endpoint is resumed, which wakes it.
pub(crate) fn pause(delivery: &Delivery, endpoint: &Endpoint) -> Option<Hold> {
    endpoint.paused.then_some(Hold { reason: HoldReason::Paused, until: delivery.deadline })
}

/// A hold lasts to the deadline of the delivery at most: then it goes, and ends.
pub(crate) fn to_deadline(delivery: &Delivery, hold: Hold) -> Hold {
    Hold { until: hold.until.min(delivery.deadline), ..hold }
}

/// What the reply means, by the failure policy of the delivery's surface and by what its endpoint says of a stuck head.
fn verdict(
    shared: &Shared,
    turned: &Turned,
    endpoint: &Endpoint,
    number: u32,
    reply: &Reply,
    now: Timestamp,
) -> Outcome {
    let delivery = &*turned.delivery;
    let (result, asked, deadline) = (&reply.result, reply.retry_after, delivery.deadline);
    let random = shared.unit_random();
    let outcome = match delivery.event.forwarded {
        Some(_) => mailrail_surfaces::classify_forwarded(result, asked, number, now, deadline, random),
        None => classify(result, asked, number, now, &shared.config.retry, deadline, random),
    };
    let tried_for = delivery.history.first_attempt_at.map(|first| now.since(first));
    match (outcome, endpoint.head_max_age, tried_for) {
        (Outcome::Retry { .. }, Some(max), Some(age)) if turned.strict && age > max => {
            Outcome::Dead(DeadReason::HeadMaxAge)
        }
        _ => outcome,
    }
}

/// The end of a delivery for which nothing was sent; its number is that of the last request.
pub(crate) fn without_request(
    delivery: &Delivery,
    now: Timestamp,
    outcome: Outcome,
    result: AttemptResult,
) -> Attempt {
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
