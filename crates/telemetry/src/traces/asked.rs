//! How many events a second may be traced because their producers ask for it.

use std::time::Duration;

/// Counts within whole seconds: over any second no more than twice as many as one may have.
#[derive(Debug)]
pub(super) struct Asked {
    per_second_max: u32,
    second: u64,
    granted: u32,
}

impl Asked {
    pub(super) fn new(per_second_max: u32) -> Self {
        Self { per_second_max, second: 0, granted: 0 }
    }

    /// Whether one more may be traced at `now`, a time since some fixed moment.
    pub(super) fn grant(&mut self, now: Duration) -> bool {
        if now.as_secs() != self.second {
            (self.second, self.granted) = (now.as_secs(), 0);
        }
        let granted = self.granted < self.per_second_max;
        self.granted += u32::from(granted);
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_its_number_and_the_next_one_has_it_again() {
        let mut asked = Asked::new(2);
        let at = Duration::from_millis;
        assert_eq!([0, 400, 999].map(|ms| asked.grant(at(ms))), [true, true, false]);
        assert_eq!([1000, 1001, 1002].map(|ms| asked.grant(at(ms))), [true, true, false]);
        assert!(!Asked::new(0).grant(at(5000)), "none is none");
    }
}
