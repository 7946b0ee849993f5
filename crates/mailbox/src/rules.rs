//! The rules of the protocol, one by one, so that the simulation can prove that it misses each of them.

/// Which rules are kept. A running system keeps all; only the simulation switches one off, to see itself fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "one switch a rule is the point")]
pub struct Rules {
    /// I1: an offset is committed only when every record below it is done.
    pub terminal_before_commit: bool,
    /// I2b: an offset that the log never gave counts as done.
    pub gaps_are_done: bool,
    /// I4: an entry under an older claim is void.
    pub void: bool,
    /// I4: a parked delivery must continue the chain of its mailbox.
    pub chain: bool,
    /// I5: a parked delivery is done only when its entry was read back.
    pub read_back: bool,
    /// I5: a foreign claim after ours ends the ownership.
    pub fence: bool,
    /// I6: while a mailbox is blocked, every new record of it is parked.
    pub blocked_parks: bool,
    /// I7: a parked head waits until nothing older of its mailbox is open or still to be read.
    pub no_overtaking: bool,
    /// I8: no head holds the prefix for long.
    pub slow_parks: bool,
    /// I9: a snapshot waits until everything written was read back.
    pub quiet_snapshot: bool,
    /// I9: the journal is trimmed below what any backlog still needs.
    pub trim_below_pins: bool,
    /// I10: an attempt starts only under a lease.
    pub lease: bool,
    /// I12: one attempt at a time in a strict mailbox.
    pub one_flight: bool,
    /// I12b: one attempt of an ordering key at a time.
    pub one_key: bool,
    /// I13: the attempts of a delivery are in the journal before the next one starts.
    pub durable_attempts: bool,
    /// I14: the window is bounded.
    pub bounded: bool,
    /// I16: after crashes without progress one delivery is tried at a time.
    pub isolates: bool,
    /// I16: that a delivery is tried is in the journal before its attempt starts.
    pub trial_first: bool,
    /// I16: a delivery is to blame after several trials, not after one.
    pub trials_repeat: bool,
    /// I16: after all others were stopped for a suspect that could not be tried, the next suspect waits.
    pub suspects_wait: bool,
}

impl Rules {
    /// All rules.
    pub const ALL: Rules = Rules {
        terminal_before_commit: true,
        gaps_are_done: true,
        void: true,
        chain: true,
        read_back: true,
        fence: true,
        blocked_parks: true,
        no_overtaking: true,
        slow_parks: true,
        quiet_snapshot: true,
        trim_below_pins: true,
        lease: true,
        one_flight: true,
        one_key: true,
        durable_attempts: true,
        bounded: true,
        isolates: true,
        trial_first: true,
        trials_repeat: true,
        suspects_wait: true,
    };
}

impl Default for Rules {
    fn default() -> Self {
        Self::ALL
    }
}
