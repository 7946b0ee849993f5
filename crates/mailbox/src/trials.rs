//! What trials have shown: which delivery is under trial, and which ones took their process with them (I16).

use std::collections::{BTreeMap, BTreeSet};

use crate::entry::{Claim, Source, TrialEnd};

/// After so many trials of a delivery that all ended in the death of the process it goes to quarantine. More than one, so
/// that a process that is killed for another reason takes nobody with it.
pub const TRIALS_MAX: u32 = 3;

/// So many deliveries go to quarantine in one isolation. When there are more, the deliveries are not to blame: the partition
/// stops, rather than divert them all.
pub const CONDEMNED_MAX: usize = 8;

/// Deliveries that are suspected at a time; one more takes the place of the least suspected.
const SUSPECTS_MAX: usize = 16;

/// What the trials of a partition have shown so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trials {
    /// The process of the latest claim; 0: not known.
    pub process: u64,
    /// The delivery whose trial has begun and not ended.
    pub running: Option<Source>,
    /// Deliveries whose last trials all ended in the death of the process: how many.
    pub deaths: BTreeMap<Source, u32>,
    /// Deliveries that went to quarantine since the partition was last out of isolation, or handed over.
    pub condemned: BTreeSet<Source>,
}

impl Trials {
    /// Another owner claims. Says whether the process of the one before has died, as far as can be known: it said no last
    /// word, and the claim is not its own.
    pub(crate) fn claimed(&mut self, claim: &Claim, handed_off: bool) -> bool {
        let lives = self.process != 0 && self.process == claim.process;
        let died = !handed_off && !lives;
        self.process = claim.process;
        // Of a process that lives the trial stays open: its owner says how it ended, unless this claim came late from one that
        // is dead.
        if !lives
            && let Some(source) = self.running.take()
            && died
        {
            *self.deaths.entry(source).or_default() += 1;
            self.forget_least(source);
        }
        if handed_off {
            self.condemned.clear();
        }
        died
    }

    fn forget_least(&mut self, but: Source) {
        if self.deaths.len() <= SUSPECTS_MAX {
            return;
        }
        let others = self.deaths.iter().filter(|(source, _)| **source != but);
        if let Some(least) = others.min_by_key(|(_, deaths)| **deaths).map(|(source, _)| *source) {
            self.deaths.remove(&least);
        }
    }

    /// A trial, or the quarantine of a delivery, is over.
    pub(crate) fn ended(&mut self, source: Source, how: TrialEnd) {
        if self.running == Some(source) {
            self.running = None;
        }
        match how {
            // It says nothing about the delivery.
            TrialEnd::NotTried => {}
            TrialEnd::Survived => drop(self.deaths.remove(&source)),
            // To blame it is until its end is committed: else an owner that does not know of that would try it.
            TrialEnd::Condemned => drop(self.condemned.insert(source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(process: u64) -> Claim {
        Claim { member: String::new(), nonce: 0, process }
    }

    /// So many processes die with `source` under trial.
    fn die(trials: &mut Trials, source: Source, times: u64) {
        for _ in 0..times {
            trials.running = Some(source);
            let next = trials.process + 1;
            assert!(trials.claimed(&claim(next), false));
        }
    }

    #[test]
    fn i16_only_deaths_in_a_row_count() {
        let mut trials = Trials::default();
        die(&mut trials, 7, 2);
        assert_eq!(trials.deaths, BTreeMap::from([(7, 2)]));
        trials.running = Some(7);
        trials.ended(7, TrialEnd::NotTried);
        assert_eq!((trials.running, trials.deaths[&7]), (None, 2), "it was not tried");
        trials.ended(7, TrialEnd::Survived);
        assert!(trials.deaths.is_empty(), "it is no suspect any more");
        die(&mut trials, 7, 3);
        trials.ended(7, TrialEnd::Condemned);
        assert_eq!((trials.deaths[&7], trials.condemned.len()), (3, 1), "to blame until that is committed");
    }

    #[test]
    fn i16_an_owner_that_fails_in_a_living_process_or_hands_over_is_no_death() {
        let mut trials = Trials { process: 5, running: Some(7), ..Trials::default() };
        assert!(!trials.claimed(&claim(5), false), "the same process claims again");
        assert_eq!(trials.running, Some(7), "it says what came of it, or is dead after all");
        assert!(!trials.claimed(&claim(6), true), "it handed over");
        assert_eq!(trials.deaths, BTreeMap::new());
        trials.process = 0;
        assert!(trials.claimed(&claim(0), false), "not known: taken for another one");
    }

    #[test]
    fn i16_suspects_are_bounded_and_the_most_suspected_stay() {
        let mut trials = Trials::default();
        die(&mut trials, 1000, 2);
        for source in 0..100 {
            die(&mut trials, source, 1);
        }
        assert_eq!((trials.deaths.len(), trials.deaths[&1000], trials.deaths[&99]), (SUSPECTS_MAX, 2, 1));
    }
}
