//! Rules switched off one at a time: the simulation must see each of them missing.

use mailrail_mailbox::Rules;

/// What a driver of the protocol must keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "one switch a rule is the point")]
pub(super) struct DriverRules {
    /// I2: metadata that cannot be read marks nothing as done.
    pub(super) unreadable_is_nothing: bool,
    /// I3: what was committed is asked for after the claim is in the journal.
    pub(super) claim_first: bool,
    /// I5: an entry that was not acknowledged ends the ownership.
    pub(super) errors_end: bool,
    /// I9: a snapshot is pointed at once it was read back.
    pub(super) pointer_read_back: bool,
    /// I9: the journal is trimmed below the snapshot of an accepted commit.
    pub(super) trim_accepted: bool,
    /// I11: who has given a partition up commits it no more.
    pub(super) revoked_is_silent: bool,
    /// I12: attempts outlive their owner; the next one of the same process waits for them.
    pub(super) flights_outlive: bool,
    /// What an owner leaves running is in its last word, or it stays until that is over.
    pub(super) unfinished_is_said: bool,
    /// I1: an end that is no delivery is recorded before its mailbox goes on.
    pub(super) dead_is_recorded_first: bool,
    /// I16: of the isolated partitions of a process one tries a delivery at a time.
    pub(super) one_tries: bool,
    /// I17: what had to let others pass is called when an attempt of its recipient ends, and now and then.
    pub(super) calls_again: bool,
}

impl DriverRules {
    const ALL: DriverRules = DriverRules {
        unreadable_is_nothing: true,
        claim_first: true,
        errors_end: true,
        pointer_read_back: true,
        trim_accepted: true,
        revoked_is_silent: true,
        flights_outlive: true,
        unfinished_is_said: true,
        dead_is_recorded_first: true,
        one_tries: true,
        calls_again: true,
    };
}

/// The rules of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RuleBook {
    pub(super) protocol: Rules,
    pub(super) driver: DriverRules,
}

impl RuleBook {
    pub(super) const ALL: RuleBook = RuleBook { protocol: Rules::ALL, driver: DriverRules::ALL };
}

/// One rule switched off.
#[derive(Clone, Copy)]
pub struct Mutation {
    /// What it is called.
    pub name: &'static str,
    /// The rule that it breaks, as docs/delivery-protocol.md names it.
    pub rule: &'static str,
    /// What goes wrong without the rule.
    pub answers: &'static str,
    break_rule: fn(&mut RuleBook),
}

impl Mutation {
    pub(super) fn rules(&self) -> RuleBook {
        let mut rules = RuleBook::ALL;
        (self.break_rule)(&mut rules);
        rules
    }

    const fn new(
        name: &'static str,
        rule: &'static str,
        answers: &'static str,
        break_rule: fn(&mut RuleBook),
    ) -> Self {
        Self { name, rule, answers, break_rule }
    }

    /// All of them.
    pub const ALL: [Mutation; 31] = [
        Self::new("commit_what_is_open", "I1", "a crash loses what was fetched and not done", |r| {
            r.protocol.terminal_before_commit = false;
        }),
        Self::new(
            "dead_settles_before_its_record",
            "I1",
            "a crash tries it again behind its successor",
            |r| {
                r.driver.dead_is_recorded_first = false;
            },
        ),
        Self::new("unreadable_metadata_is_done", "I2", "one delivery vanishes at a takeover", |r| {
            r.driver.unreadable_is_nothing = false;
        }),
        Self::new("gaps_are_open", "I2b", "an offset that the log never gives stops the commit", |r| {
            r.protocol.gaps_are_done = false;
        }),
        Self::new(
            "committed_before_claim",
            "I3",
            "an older commit is taken over: what is done goes out again",
            |r| {
                r.driver.claim_first = false;
            },
        ),
        Self::new("no_void", "I4", "a zombie's entries change the backlog", |r| r.protocol.void = false),
        Self::new("no_chain", "I4", "a lost entry leaves a gap that nobody sees", |r| {
            r.protocol.chain = false;
        }),
        Self::new("acknowledged_is_done", "I5", "an entry that is void counts as parked", |r| {
            r.protocol.read_back = false;
        }),
        Self::new("no_fence", "I5", "two owners, and the older one believes what it wrote", |r| {
            r.protocol.fence = false;
        }),
        Self::new("errors_go_on", "I5", "what never arrived is waited for", |r| r.driver.errors_end = false),
        Self::new("blocked_delivers", "I6", "new deliveries overtake the backlog", |r| {
            r.protocol.blocked_parks = false;
        }),
        Self::new("no_waiting_for_older", "I7", "the backlog overtakes what is still to be read", |r| {
            r.protocol.no_overtaking = false;
        }),
        Self::new("slow_holds", "I8", "what waits or takes long holds the commit", |r| {
            r.protocol.slow_parks = false;
        }),
        Self::new("hasty_snapshot", "I9", "what was on its way is not in the snapshot", |r| {
            r.protocol.quiet_snapshot = false;
        }),
        Self::new("pointer_before_read_back", "I9", "a snapshot is pointed at that is not there", |r| {
            r.driver.pointer_read_back = false;
        }),
        Self::new("trim_past_pins", "I9", "what is owed is trimmed away", |r| {
            r.protocol.trim_below_pins = false;
        }),
        Self::new("trim_unaccepted", "I9", "the next owner reads from a place that is gone", |r| {
            r.driver.trim_accepted = false;
        }),
        Self::new("no_lease", "I10", "a zombie sends beside the new owner", |r| r.protocol.lease = false),
        Self::new("revoked_commits", "I11", "the commit goes back", |r| r.driver.revoked_is_silent = false),
        Self::new("many_flights", "I12", "a strict mailbox has two attempts at a time", |r| {
            r.protocol.one_flight = false;
        }),
        Self::new("keys_forgotten", "I12b", "a mailbox has two attempts of an ordering key at a time", |r| {
            r.protocol.one_key = false;
        }),
        Self::new("flights_forgotten", "I12", "a new owner in the same process sends beside the old", |r| {
            r.driver.flights_outlive = false;
        }),
        Self::new("unfinished_unsaid", "I12", "the next owner sends beside what still runs", |r| {
            r.driver.unfinished_is_said = false;
        }),
        Self::new("attempts_forgotten", "I13", "takeovers make attempts without end", |r| {
            r.protocol.durable_attempts = false;
        }),
        Self::new("never_isolated", "I16", "a delivery that kills its process is tried for ever", |r| {
            r.protocol.isolates = false;
        }),
        Self::new("trial_unsaid", "I16", "nobody knows what was tried when the process died", |r| {
            r.protocol.trial_first = false;
        }),
        Self::new("blamed_at_once", "I16", "a process that is killed takes an innocent one with it", |r| {
            r.protocol.trials_repeat = false;
        }),
        Self::new(
            "suspects_at_once",
            "I16",
            "others are stopped again and again for one that may not go",
            |r| {
                r.protocol.suspects_wait = false;
            },
        ),
        Self::new("trials_side_by_side", "I16", "a death is blamed on what another partition tried", |r| {
            r.driver.one_tries = false;
        }),
        Self::new("never_called", "I17", "what let others pass never gets its turn", |r| {
            r.driver.calls_again = false;
        }),
        Self::new("no_bound", "I14", "memory grows with what waits", |r| r.protocol.bounded = false),
    ];
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Mutation;

    /// The table of rules names each mutation at its rule, and no other.
    #[test]
    fn the_documentation_names_every_mutation() {
        let page = include_str!("../../../../docs/delivery-protocol.md");
        let mut said = BTreeSet::new();
        for row in page.lines().filter(|line| line.starts_with("| **I")) {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
            let rule = cells[0].split("**").nth(1).expect("a rule");
            for name in
                cells.last().expect("cells").split('`').skip(1).step_by(2).filter(|it| !it.ends_with('…'))
            {
                assert!(Mutation::ALL.iter().any(|it| it.name == name), "{name} is no mutation");
                said.insert((name, rule));
            }
        }
        for mutation in Mutation::ALL {
            let is_said = said.contains(&(mutation.name, mutation.rule));
            assert!(is_said, "{} is not in the table at {}", mutation.name, mutation.rule);
        }
    }
}
