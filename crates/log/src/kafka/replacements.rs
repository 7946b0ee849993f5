//! How often a client that lost its brokers may be replaced.
//!
//! One replacement helps nearly always. Where it does not, as with brokers that go on saying that there are none, each costs whoever uses
//! the client what it had, so that they become rare.

use std::time::{Duration, Instant};

/// After the first replacement; twice as long after each that follows in a row.
const PAUSE: Duration = Duration::from_secs(10);
const PAUSE_MAX: Duration = Duration::from_secs(600);
/// Before another client is tried, where one could not be made.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// When a client may be replaced.
#[derive(Debug)]
pub(super) struct Replacements {
    pause_max: Duration,
    /// When it was, and the pause since then.
    last: Option<(Instant, Duration)>,
    not_before: Option<Instant>,
}

impl Default for Replacements {
    fn default() -> Self {
        Self::with_pauses_up_to(PAUSE_MAX)
    }
}

impl Replacements {
    pub(super) fn with_pauses_up_to(pause_max: Duration) -> Self {
        Self { pause_max, last: None, not_before: None }
    }

    /// Whether the client may be replaced now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|at| at <= now)
    }

    /// It was. In a row are those of which the later client did not live twice as long as it had to.
    pub(super) fn replaced(&mut self, now: Instant) {
        let pause = match self.last {
            Some((at, pause)) if now < at + pause * 2 => (pause * 2).min(self.pause_max),
            _ => PAUSE,
        };
        self.last = Some((now, pause));
        self.not_before = Some(now + pause);
    }

    /// There was no client to take its place.
    pub(super) fn failed(&mut self, now: Instant) {
        self.not_before = Some(now + RETRY_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_in_a_row_become_rare_and_a_client_that_lived_on_ends_the_row() {
        let (mut replacements, mut now) = (Replacements::default(), Instant::now());
        let mut pause = PAUSE;
        for _ in 0..10 {
            assert!(replacements.is_due(now));
            replacements.replaced(now);
            let before = now + pause - Duration::from_millis(1);
            assert!(!replacements.is_due(before) && replacements.is_due(now + pause), "{pause:?}");
            now += pause;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        assert_eq!(pause, PAUSE_MAX);
        now += PAUSE_MAX;
        replacements.replaced(now);
        assert!(replacements.is_due(now + PAUSE), "the last client lived on");
    }

    #[test]
    fn a_failed_replacement_is_tried_again_after_a_pause() {
        let (mut replacements, now) = (Replacements::default(), Instant::now());
        replacements.failed(now);
        assert!(!replacements.is_due(now) && replacements.is_due(now + RETRY_PAUSE));
    }
}
