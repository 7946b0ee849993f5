//! From what was found to the answer.

use mailrail_mailbox::{Backlog, Head, Hold};
use mailrail_types::{Attempt, DeadReason, Delivery, DeliveryId, History, HoldReason, Outcome, TenantId};

use super::search::{Found, Parked, Queued};
use super::{Looked, Why, WhyHead};

/// The answer. A record of its end counts unless it was put into its mailbox again after it.
pub(super) fn conclude(delivery: &DeliveryId, tenant: &TenantId, found: &Found, looked: Looked) -> Why {
    let mut why = Why {
        delivery: delivery.to_string(),
        tenant: tenant.to_string(),
        state: "unknown".to_owned(),
        reason: None,
        until_ms: None,
        ended_at_ms: None,
        attempts: None,
        last_status: None,
        last_error: None,
        before: None,
        head: None,
        mailbox: None,
        endpoint: None,
        event: None,
        looked,
    };
    let since = found
        .parked
        .as_ref()
        .map(|it| it.written_at)
        .or_else(|| found.queued.as_ref().map(|it| it.written_at));
    if let Some((_, attempt)) = &found.last {
        why.tried(attempt);
    }
    if let Some(it) = found.delivery() {
        why.of(it);
    }
    match &found.last {
        Some((at, attempt)) if attempt.outcome.is_terminal() && since.is_none_or(|since| *at >= since) => {
            why.ended(attempt);
        }
        _ => match (&found.parked, &found.queued) {
            (Some(parked), _) => why.parked(parked),
            (None, Some(queued)) => why.queued(queued),
            (None, None) => why.between(found.last.as_ref().map(|(_, attempt)| attempt)),
        },
    }
    why
}

impl Why {
    fn set(&mut self, state: &str, reason: Option<&str>) {
        self.state = state.to_owned();
        self.reason = reason.map(str::to_owned);
    }

    fn of(&mut self, delivery: &Delivery) {
        self.mailbox = Some(delivery.mailbox.key().as_str().to_owned());
        self.endpoint = Some(delivery.endpoint.to_string());
        self.event = Some(delivery.event.id.to_string());
        self.history(&delivery.history);
    }

    /// What is known of its attempts; the most wins, because each place lags behind in its own way.
    fn history(&mut self, history: &History) {
        if self.attempts.is_none_or(|known| history.attempts > known) {
            self.attempts = Some(history.attempts);
            self.last_status = history.last_status;
            // That is of an attempt before this one.
            self.last_error = None;
        }
    }

    fn tried(&mut self, attempt: &Attempt) {
        self.attempts = Some(attempt.number);
        self.last_status = attempt.result.status;
        self.last_error = attempt.result.error.map(|error| error.code().to_owned());
        self.endpoint = Some(attempt.endpoint.to_string());
        self.event = Some(attempt.event.to_string());
    }

    fn ended(&mut self, attempt: &Attempt) {
        match attempt.outcome {
            Outcome::Delivered => self.set("delivered", None),
            Outcome::Dead(DeadReason::Expired) => self.set("expired", Some(DeadReason::Expired.code())),
            Outcome::Dead(reason) => self.set("dead_lettered", Some(reason.code())),
            Outcome::Cancelled(reason) => self.set("cancelled", Some(reason.code())),
            Outcome::Retry { .. } => {}
        }
        self.ended_at_ms = Some(attempt.started_at.millis() + i64::from(attempt.duration_ms));
    }

    fn wait(&mut self, hold: Hold) {
        self.set("waiting", Some(hold.reason.code()));
        self.until_ms = Some(hold.until.millis());
    }

    fn parked(&mut self, parked: &Parked) {
        let Parked { source, backlog, before, head, .. } = parked;
        self.before = *before;
        if let Some(aside) = backlog.asides.get(source) {
            self.before = Some(0);
            return self.held(&aside.head);
        }
        let held = backlog.head.as_ref();
        let is_head = held.map_or_else(|| *before == Some(0), |held| held.source == *source);
        if is_head {
            self.before = Some(0);
            match held {
                Some(held) => self.held(held),
                // Nothing holds it, and nothing is before it.
                None => self.set("running", None),
            }
            return;
        }
        self.behind(backlog, head.as_ref());
    }

    fn held(&mut self, head: &Head) {
        if let Some(history) = &head.history {
            self.history(history);
        }
        self.wait(head.hold);
    }

    /// It waits for its turn, and so for what the head waits for.
    fn behind(&mut self, backlog: &Backlog, head: Option<&DeliveryId>) {
        self.set("waiting", Some(HoldReason::BehindHead.code()));
        let hold = backlog.head.as_ref().map(|head| head.hold);
        self.until_ms = hold.map(|hold| hold.until.millis());
        self.head = Some(WhyHead {
            delivery: head.map(DeliveryId::to_string),
            reason: hold.map(|hold| hold.reason.code().to_owned()),
            until_ms: self.until_ms,
        });
    }

    fn queued(&mut self, queued: &Queued) {
        self.before = Some(queued.before);
        match &queued.backlog {
            Some(backlog) if backlog.queued() > 0 => self.behind(backlog, None),
            _ if queued.before == 0 => self.set("running", None),
            _ => self.set("queued", None),
        }
    }

    /// It was tried and is to be tried again; where it waits was not found within the limits.
    fn between(&mut self, last: Option<&Attempt>) {
        if let Some(Outcome::Retry { due, .. }) = last.map(|attempt| attempt.outcome) {
            self.wait(Hold { reason: HoldReason::Backoff, until: due });
        }
    }
}
