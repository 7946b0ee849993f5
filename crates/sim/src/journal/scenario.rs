//! What a run has to go through, drawn from its seed.

use std::time::Duration;

use mailrail_mailbox::{Config, Limits, Traits};

use super::chance::Chance;

/// Session timeout of the group.
pub(super) const SESSION: Duration = Duration::from_secs(30);
/// Total time of one attempt.
pub(super) const ATTEMPT: Duration = Duration::from_secs(8);
/// Safety between the end of the lease's last attempt and the end of the session.
pub(super) const LEASE_MARGIN: Duration = Duration::from_secs(5);
/// How long the group waits for a member that is to give partitions up.
pub(super) const REBALANCE: Duration = Duration::from_mins(1);
/// How long an owner that stops waits for its attempts.
pub(super) const HAND_OVER: Duration = Duration::from_secs(4);
/// After this long a producer gives an entry up.
pub(super) const PRODUCE: Duration = Duration::from_secs(10);

/// A mailbox of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct MailboxPlan {
    pub(super) partition: usize,
    pub(super) endpoint: usize,
    pub(super) traits: Traits,
    /// Ordering keys of its deliveries; 0: they have none.
    pub(super) keys: usize,
}

/// How a receiver behaves, as probabilities.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReceiverPlan {
    /// Of each change of its state: that it goes down.
    pub(super) down: f64,
    /// Of an answer: that it is lost though the request arrived.
    pub(super) reply_lost: f64,
    /// Of an answer: that it takes seconds.
    pub(super) slow: f64,
    /// Of a start: that a limit says "not now".
    pub(super) limited: f64,
    /// Of each change of its state: that a person pauses it.
    pub(super) paused: f64,
}

/// Faults, as probabilities; those of the processes for each moment of trouble.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    /// Of an entry: that it never reaches the journal.
    pub(super) entry_lost: f64,
    /// Of a batch: that it reaches the journal late, after its producer gave it up or not.
    pub(super) entry_late: f64,
    /// Of a journal entry, or a delivery: that offsets before it stay empty.
    pub(super) gap: f64,
    /// Of a commit: that it never arrives.
    pub(super) commit_lost: f64,
    /// Of a commit: that it is applied and the answer lost.
    pub(super) answer_lost: f64,
    /// Of a commit: that the coordinator says no for now.
    pub(super) refused: f64,
    /// Of a commit: that what reads its metadata later finds it damaged.
    pub(super) garbled: f64,
    /// Of asking for what was committed: that the answer is "nothing", once.
    pub(super) no_offset: f64,
    /// Of recording an end: that it fails.
    pub(super) record_lost: f64,
    /// Of reading on in a pass over the journal: that it fails.
    pub(super) scan_lost: f64,
    pub(super) crash: f64,
    /// Stopped for less than the session.
    pub(super) short_stop: f64,
    /// Stopped for longer: it wakes as a zombie.
    pub(super) long_stop: f64,
    pub(super) rebalance: f64,
    /// Restarted with a hand-over.
    pub(super) restart: f64,
    /// The group forgets what was committed.
    pub(super) forget: f64,
}

/// A run.
#[derive(Debug, Clone)]
pub(super) struct Scenario {
    pub(super) partitions: usize,
    pub(super) processes: usize,
    pub(super) mailboxes: Vec<MailboxPlan>,
    pub(super) receivers: Vec<ReceiverPlan>,
    pub(super) deliveries: usize,
    /// How long deliveries and trouble come.
    pub(super) trouble: Duration,
    /// Mean time between two moments of trouble.
    pub(super) trouble_every: Duration,
    pub(super) faults: Faults,
    /// Attempts of a delivery before it is dead.
    pub(super) attempts_max: u32,
    /// Longest wait before another attempt.
    pub(super) backoff: Duration,
    /// Deliveries arrive in bursts of one mailbox.
    pub(super) bursts: bool,
    pub(super) config: Config,
    pub(super) batch_max: usize,
    /// Deliveries that take the process down that attempts them.
    pub(super) poisons: usize,
    /// Of a start: that the process has given the recipient all that it may have.
    pub(super) crowded: f64,
    /// Nothing ever goes wrong or takes long: then nothing may be parked.
    pub(super) healthy: bool,
}

impl Scenario {
    pub(super) fn draw(chance: &mut Chance) -> Self {
        let healthy = chance.happens(0.03);
        let partitions = chance.within(1, 3) as usize;
        let endpoints = chance.within(1, 4) as usize;
        let receivers =
            (0..endpoints).map(|_| if healthy { ReceiverPlan::default() } else { receiver(chance) });
        let receivers = receivers.collect();
        let mailboxes = (0..chance.within(2, 8)).map(|_| mailbox(chance, partitions, endpoints)).collect();
        let mut config = config(chance);
        if healthy {
            config.window.records_max = 1000;
            config.window.bytes_max = 1 << 20;
        }
        Self {
            partitions,
            processes: chance.within(1, 3) as usize,
            mailboxes,
            receivers,
            deliveries: chance.within(20, 120) as usize,
            trouble: Duration::from_secs(chance.within(40, 240)),
            trouble_every: Duration::from_secs(chance.within(4, 30)),
            faults: if healthy { Faults::default() } else { faults(chance) },
            attempts_max: chance.within(2, 6) as u32,
            backoff: Duration::from_secs(chance.within(1, 30)),
            bursts: chance.happens(0.4),
            config,
            batch_max: chance.within(1, 8) as usize,
            poisons: if !healthy && chance.happens(0.15) { chance.within(1, 2) as usize } else { 0 },
            crowded: chance.fault(0.4, 0.5),
            healthy,
        }
    }
}

fn mailbox(chance: &mut Chance, partitions: usize, endpoints: usize) -> MailboxPlan {
    let tolerant = chance.happens(0.35);
    MailboxPlan {
        partition: chance.index(partitions),
        endpoint: chance.index(endpoints),
        traits: Traits {
            threads: if tolerant { chance.within(1, 4) as usize } else { 1 },
            tolerant,
            priority: chance.within(1, 3) as u8,
        },
        keys: chance.within(0, 4) as usize,
    }
}

fn receiver(chance: &mut Chance) -> ReceiverPlan {
    ReceiverPlan {
        down: chance.fault(0.7, 0.9),
        reply_lost: chance.fault(0.6, 0.1),
        slow: chance.fault(0.5, 0.3),
        limited: chance.fault(0.3, 0.3),
        paused: chance.fault(0.3, 0.7),
    }
}

fn faults(chance: &mut Chance) -> Faults {
    Faults {
        entry_lost: chance.fault(0.4, 0.1),
        entry_late: chance.fault(0.4, 0.2),
        gap: chance.fault(0.4, 0.3),
        commit_lost: chance.fault(0.4, 0.4),
        answer_lost: chance.fault(0.4, 0.4),
        refused: chance.fault(0.3, 0.3),
        garbled: chance.fault(0.15, 1.0),
        no_offset: chance.fault(0.3, 0.5),
        record_lost: chance.fault(0.3, 0.03),
        scan_lost: chance.fault(0.3, 0.2),
        crash: chance.fault(0.6, 0.5),
        short_stop: chance.fault(0.5, 0.4),
        long_stop: chance.fault(0.5, 0.4),
        rebalance: chance.fault(0.6, 0.6),
        restart: chance.fault(0.5, 0.4),
        forget: chance.fault(0.1, 0.1),
    }
}

/// Limits so small that a run of a hundred deliveries reaches them.
fn config(chance: &mut Chance) -> Config {
    let window = Limits {
        records_max: chance.within(4, 30) as usize,
        bytes_max: chance.within(2000, 12_000) as usize,
    };
    Config {
        queue_max: chance.within(1, 6) as usize,
        save_every: chance.within(1, 5) as u32,
        save_after: chance.millis(50, 2000),
        mailbox_content_max: chance.within(200, 3000) as usize,
        content_max: chance.within(500, 8000) as usize,
        keep_for: chance.millis(0, 10_000),
        mailbox_asides_max: chance.within(0, 5) as usize,
        asides_max: chance.within(1, 10) as usize,
        snapshot_part_max: chance.within(1, 4) as usize,
        snapshot_bytes: chance.within(200, 4000) as usize,
        snapshot_after: chance.millis(2000, 30_000),
        ..Config::new(window, ATTEMPT)
    }
}
