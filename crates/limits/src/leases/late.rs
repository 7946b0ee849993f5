//! Answers of the store about a rate that came too late for whoever asked. Pure.
//!
//! Slow is not away: what the store counted is used by the next that asks, and nobody goes without having been counted. While an
//! answer is on its way nobody else asks: each refusal moves the next moment further off.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::Recipient;

/// How long a request that was granted late may begin after that: what is held looks again several times meanwhile. It also
/// bounds how many requests may pile up.
const GRANT_KEPT_FOR: Duration = Duration::from_millis(200);

/// Recipients whose answers are late. Beyond it late answers are lost, and whoever asked counts for itself.
pub(super) const RECIPIENTS_MAX: usize = 10_000;

/// What there is for a request that wants to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// It was granted late.
    Go,
    /// Somebody's moment is then; it is this one's now.
    Wait(Duration),
    /// An answer is on its way.
    Underway,
    /// The store is to be asked.
    Nothing,
}

#[derive(Debug, Default)]
struct Late {
    /// Answers that are on their way.
    underway: u32,
    /// Until when each may be used.
    granted: VecDeque<Instant>,
    /// When to ask again, for as many that were refused.
    moments: VecDeque<Instant>,
}

impl Late {
    fn forget(&mut self, now: Instant) {
        self.granted.retain(|until| now < *until);
        self.moments.retain(|moment| now < *moment);
    }

    fn is_empty(&self) -> bool {
        self.underway == 0 && self.granted.is_empty() && self.moments.is_empty()
    }
}

#[derive(Debug, Default)]
pub(super) struct Lates {
    of: HashMap<Recipient, Late>,
}

impl Lates {
    pub(super) fn find(&mut self, recipient: &Recipient, now: Instant) -> Found {
        let Some(late) = self.of.get_mut(recipient) else { return Found::Nothing };
        late.forget(now);
        let found = if late.granted.pop_front().is_some() {
            Found::Go
        } else if let Some(moment) = late.moments.pop_front() {
            Found::Wait(moment - now)
        } else if late.underway > 0 {
            Found::Underway
        } else {
            Found::Nothing
        };
        if late.is_empty() {
            self.of.remove(recipient);
        }
        found
    }

    /// An answer is late; `false` when there are too many: then it is not to be waited for.
    pub(super) fn expect(&mut self, recipient: &Recipient) -> bool {
        if self.of.len() >= RECIPIENTS_MAX && !self.of.contains_key(recipient) {
            return false;
        }
        self.of.entry(recipient.clone()).or_default().underway += 1;
        true
    }

    /// It is there: `None` when it was no answer, zero when the request may go, or in what time to ask again. That is counted from
    /// when it was `asked`: the next question is on its way for as long.
    pub(super) fn came(
        &mut self,
        recipient: &Recipient,
        wait: Option<Duration>,
        asked: Instant,
        now: Instant,
    ) {
        let Some(late) = self.of.get_mut(recipient) else { return };
        late.underway = late.underway.saturating_sub(1);
        match wait {
            Some(Duration::ZERO) => late.granted.push_back(now + GRANT_KEPT_FOR),
            Some(wait) => late.moments.push_back(asked + wait),
            None => {}
        }
        if late.is_empty() {
            self.of.remove(recipient);
        }
    }

    /// Forgets what nobody came for.
    pub(super) fn forget(&mut self, now: Instant) {
        self.of.retain(|_, late| {
            late.forget(now);
            !late.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn endpoint(name: &str) -> Recipient {
        Recipient { tenant: "acme".parse().expect("id"), endpoint: name.parse().expect("id") }
    }

    #[tokio::test]
    async fn a_late_answer_is_used_once_and_not_for_long() {
        let (mut lates, it, now) = (Lates::default(), endpoint("main"), Instant::now());
        assert_eq!(lates.find(&it, now), Found::Nothing);
        assert!(lates.expect(&it) && lates.expect(&it) && lates.expect(&it));
        assert_eq!(lates.find(&it, now), Found::Underway);
        assert_eq!(lates.find(&endpoint("other"), now), Found::Nothing);
        lates.came(&it, Some(Duration::ZERO), now, now);
        lates.came(&it, Some(500 * MS), now, now + 120 * MS);
        assert_eq!(lates.find(&it, now + 199 * MS), Found::Go);
        assert_eq!(lates.find(&it, now + 200 * MS), Found::Wait(300 * MS));
        assert_eq!(lates.find(&it, now + 200 * MS), Found::Underway);
        lates.came(&it, Some(Duration::ZERO), now, now);
        assert_eq!(lates.find(&it, now + 200 * MS), Found::Nothing, "too late");
        lates.expect(&it);
        lates.came(&it, None, now, now);
        lates.came(&it, Some(Duration::ZERO), now, now);
        assert!(lates.of.is_empty(), "nothing is remembered of what is over");
    }

    #[tokio::test]
    async fn what_is_remembered_is_bounded() {
        let (mut lates, now) = (Lates::default(), Instant::now());
        let name = |number: usize| endpoint(&format!("e-{number}"));
        assert!((0..RECIPIENTS_MAX).all(|number| lates.expect(&name(number))));
        assert!(!lates.expect(&name(RECIPIENTS_MAX)) && lates.expect(&name(0)));
        (0..RECIPIENTS_MAX).for_each(|number| lates.came(&name(number), Some(Duration::ZERO), now, now));
        lates.forget(now + GRANT_KEPT_FOR);
        assert_eq!(lates.of.len(), 1, "one answer is on its way still");
    }
}
