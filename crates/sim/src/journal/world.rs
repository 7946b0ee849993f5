//! The state of a run, and its loop.

use std::collections::{BTreeMap, BTreeSet};

use mailrail_mailbox::{Checkpoint, OrderKey, Place};
use mailrail_types::{MailboxKey, Timestamp};

use super::agenda::Agenda;
use super::attempts::Attempt;
use super::chance::Chance;
use super::event::{AttemptId, Event, OwnerId, Stored};
use super::failure::Failure;
use super::group::Group;
use super::mutation::RuleBook;
use super::oracle::Oracle;
use super::owner::Owner;
use super::processes::Process;
use super::receivers::Receiver;
use super::scenario::Scenario;
use super::topic::Topic;

/// A record of the deliveries; no mailbox: it cannot be read, or repeats another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub(super) mailbox: Option<usize>,
    pub(super) bytes: usize,
    /// What it is about; `None`: nothing that another could be about.
    pub(super) key: Option<OrderKey>,
    /// It takes the process down that attempts it.
    pub(super) poison: bool,
}

pub(super) struct Partition {
    pub(super) deliveries: Topic<Record>,
    pub(super) journal: Topic<Stored>,
}

/// What a trace prints.
pub(super) type Trace<'a> = Option<&'a mut dyn FnMut(String)>;

pub(super) struct World<'a> {
    pub(super) now: Timestamp,
    pub(super) agenda: Agenda<Event>,
    pub(super) chance: Chance,
    pub(super) plan: Scenario,
    pub(super) rules: RuleBook,
    pub(super) keys: Vec<MailboxKey>,
    pub(super) partitions: Vec<Partition>,
    pub(super) group: Group,
    pub(super) receivers: Vec<Receiver>,
    pub(super) processes: Vec<Process>,
    pub(super) owners: BTreeMap<OwnerId, Owner>,
    pub(super) attempts: BTreeMap<AttemptId, Attempt>,
    /// Places of the entries of a batch that arrived.
    pub(super) batches: BTreeMap<u64, Vec<Place>>,
    /// Batches that still lie in the memory of a process.
    pub(super) buffered: BTreeMap<u64, usize>,
    /// Batches that died with their process.
    pub(super) dropped: BTreeSet<u64>,
    /// The last checkpoint that anybody sent of a partition.
    pub(super) last_sent: BTreeMap<usize, Checkpoint>,
    pub(super) oracle: Oracle,
    pub(super) next_id: u64,
    pub(super) accepted: u64,
    /// Deliveries that are still to come that take their process down.
    pub(super) poisons: usize,
    /// All trouble is over.
    pub(super) calm: bool,
    pub(super) trace: Trace<'a>,
}

/// How long after the trouble everything must be done. A delivery under suspicion that chance holds many times in a row waits twice as long each
/// time, up to minutes.
const CALM_MAX: std::time::Duration = std::time::Duration::from_mins(120);
/// How long it stays watched when all is done: the last snapshot, commit and trim.
const REST: std::time::Duration = std::time::Duration::from_mins(2);
/// Most events of a run.
const EVENTS_MAX: u64 = 3_000_000;

/// Prints a line of the trace, when there is one.
macro_rules! say {
    ($world:expr, $($what:tt)+) => {
        if let Some(trace) = &mut $world.trace {
            trace(format!("{:>9} {}", $world.now.millis(), format_args!($($what)+)));
        }
    };
}
pub(super) use say;

impl<'a> World<'a> {
    pub(super) fn new(seed: u64, rules: RuleBook, trace: Trace<'a>) -> Self {
        let mut chance = Chance::new(seed);
        let plan = Scenario::draw(&mut chance);
        // Those of an endpoint have one recipient.
        let endpoints = plan.mailboxes.iter().map(|of| of.endpoint).enumerate();
        let keys: Vec<MailboxKey> =
            endpoints.map(|(n, e)| MailboxKey::from_text(&format!("p:r:t:e{e}::{n}"))).collect();
        let watched = keys.iter().cloned().zip(&plan.mailboxes).map(|(key, m)| (key, m.traits)).collect();
        let partition = |_| Partition { deliveries: Topic::new(), journal: Topic::new() };
        let mut new = Self {
            now: Timestamp::from_secs(1_000_000),
            agenda: Agenda::new(),
            partitions: (0..plan.partitions).map(partition).collect(),
            group: Group::new(plan.partitions),
            receivers: plan.receivers.iter().map(|_| Receiver::default()).collect(),
            processes: (0..plan.processes).map(|_| Process::default()).collect(),
            owners: BTreeMap::new(),
            attempts: BTreeMap::new(),
            batches: BTreeMap::new(),
            buffered: BTreeMap::new(),
            dropped: BTreeSet::new(),
            last_sent: BTreeMap::new(),
            oracle: Oracle::new(plan.partitions, watched, plan.attempts_max),
            next_id: 1,
            accepted: 0,
            poisons: plan.poisons,
            calm: false,
            chance,
            plan,
            rules,
            keys,
            trace,
        };
        new.begin();
        new
    }

    fn begin(&mut self) {
        say!(self, "{:?}", self.plan);
        for process in 0..self.processes.len() {
            self.after(0, 3000, Event::Boot(process));
        }
        for receiver in 0..self.receivers.len() {
            self.after(1000, 20_000, Event::Receiver(receiver));
        }
        self.after(0, 5000, Event::Delivery);
        self.after(5000, 15_000, Event::Trouble);
        self.after(1000, 1000, Event::Sessions);
        self.agenda.put(self.now.plus(self.plan.trouble), Event::Calm);
    }

    pub(super) fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Puts an event down `low` to `high` milliseconds from now.
    pub(super) fn after(&mut self, low: u64, high: u64, event: Event) {
        let at = self.now.plus(self.chance.millis(low, high));
        self.agenda.put(at, event);
    }

    /// Whether a fault of this probability happens now.
    pub(super) fn faulty(&mut self, probability: f64) -> bool {
        !self.calm && self.chance.happens(probability)
    }

    /// Runs to the end, or to the first failure.
    pub(super) fn run(&mut self) {
        let calm_end = self.now.plus(self.plan.trouble).plus(CALM_MAX);
        let mut rest: Option<Timestamp> = None;
        for _ in 0..EVENTS_MAX {
            let Some((at, event)) = self.agenda.pop() else { break };
            self.now = self.now.max(at);
            self.handle(event);
            if self.oracle.failure.is_some() {
                return;
            }
            if !self.calm {
                continue;
            }
            if !self.oracle.is_drained() {
                rest = None;
                if self.now > calm_end {
                    self.say_owners();
                    let open = self.oracle.open();
                    return self.oracle.fail(self.oracle.lost().unwrap_or(Failure::Stuck { open }));
                }
                continue;
            }
            let end = *rest.get_or_insert_with(|| self.now.plus(REST));
            if self.now >= end {
                return self.check_end();
            }
        }
        self.oracle.fail(Failure::Stuck { open: "events without end".to_owned() });
    }

    /// What every owner has in hand, for a trace of a run that is stuck.
    fn say_owners(&mut self) {
        let owners: Vec<String> =
            self.owners.values().map(|o| format!("{} {:?} {:?}", o.id, o.phase, o.protocol)).collect();
        for owner in owners {
            say!(self, "owner {owner}");
        }
    }

    fn handle(&mut self, event: Event) {
        let Some(event) = self.kept_from_stopped(event) else { return };
        match event {
            Event::Delivery => self.deliver(),
            Event::Receiver(receiver) => self.receiver_changes(receiver),
            Event::Trouble => self.trouble(),
            Event::Calm => self.calm_down(),
            Event::Resume(process) => self.resume(process),
            Event::Boot(process) => self.boot(process),
            Event::Heartbeat { process, member } => self.heartbeat(process, member),
            Event::Sessions => self.sessions(),
            Event::Sync { process, member } => self.sync(process, member),
            Event::Wake(owner) => self.wake(owner),
            Event::Timer(owner) => self.timer(owner),
            Event::TakeOver(owner) => self.take_over(owner),
            Event::CommitTick(owner) => self.commit_tick(owner),
            Event::Land { partition, batch, at, stored } => self.land(partition, batch, at, *stored),
            Event::Appended { owner, batch, arrived } => self.appended(owner, batch, arrived),
            Event::CommitArrives { request, answer_lost } => self.commit_arrives(request, answer_lost),
            Event::CommitAnswered { request, answer } => self.commit_answered(&request, answer),
            Event::Arrive(attempt) => self.arrive(attempt),
            Event::Kill(attempt) => self.kill(attempt),
            Event::Reply(attempt) => self.reply(attempt),
            Event::Recorded { owner, source, dead, written } => self.recorded(owner, source, dead, written),
            Event::Scan(owner) => self.scan(owner),
            Event::HandOver(owner) => self.hand_over_ends(owner),
        }
    }

    /// Keeps what a stopped process cannot take until it goes on.
    fn kept_from_stopped(&mut self, event: Event) -> Option<Event> {
        let process = match &event {
            Event::Heartbeat { process, .. } | Event::Sync { process, .. } => Some(*process),
            Event::Wake(owner)
            | Event::Timer(owner)
            | Event::TakeOver(owner)
            | Event::CommitTick(owner)
            | Event::Scan(owner)
            | Event::HandOver(owner)
            | Event::Appended { owner, .. }
            | Event::Recorded { owner, .. } => self.owners.get(owner).map(|owner| owner.process),
            Event::CommitAnswered { request, .. } => {
                self.owners.get(&request.owner).map(|owner| owner.process)
            }
            Event::Reply(attempt) | Event::Kill(attempt) => {
                self.attempts.get(attempt).map(|attempt| attempt.process)
            }
            Event::Land { batch, .. } => self.buffered.get(batch).copied(),
            _ => None,
        };
        match process.and_then(|process| self.processes.get_mut(process)).filter(|process| process.stopped) {
            Some(stopped) => {
                stopped.kept.push(event);
                None
            }
            None => Some(event),
        }
    }

    /// A delivery is appended, or a burst of one mailbox.
    fn deliver(&mut self) {
        let left =
            self.plan.deliveries - usize::try_from(self.accepted).unwrap_or(0).min(self.plan.deliveries);
        if left == 0 {
            return;
        }
        let burst = if self.plan.bursts && self.chance.happens(0.2) { self.chance.within(3, 20) } else { 1 };
        let mailbox = self.chance.index(self.plan.mailboxes.len());
        for _ in 0..burst.min(left as u64) {
            let partition = self.plan.mailboxes[mailbox].partition;
            let mailbox = (!self.chance.happens(0.03)).then_some(mailbox);
            let bytes = self.chance.within(50, 600) as usize;
            let gap = if self.faulty(self.plan.faults.gap) { self.chance.within(1, 3) } else { 0 };
            let keys = mailbox.map_or(0, |mailbox| self.plan.mailboxes[mailbox].keys);
            let key = (keys > 0).then(|| self.chance.index(keys) as OrderKey);
            let poison = mailbox.is_some() && self.poisons > 0 && self.chance.happens(0.1);
            self.poisons -= usize::from(poison);
            let record = Record { mailbox, bytes, key, poison };
            let source = self.partitions[partition].deliveries.append(record, gap);
            self.oracle.appended(partition, source, &record);
            say!(self, "D{partition}/{source} {record:?}");
            self.accepted += 1;
            self.show(partition);
        }
        let mean = self.plan.trouble.as_millis() as u64 / self.plan.deliveries as u64;
        self.after(0, mean * 2 * burst, Event::Delivery);
    }

    /// Lets the owners of a partition see, a little later, what its logs hold.
    pub(super) fn show(&mut self, partition: usize) {
        let owners: Vec<OwnerId> =
            self.owners.values().filter(|owner| owner.partition == partition).map(|owner| owner.id).collect();
        for owner in owners {
            self.after(1, 150, Event::Wake(owner));
        }
    }

    /// From here on nothing goes wrong.
    fn calm_down(&mut self) {
        say!(self, "calm");
        self.calm = true;
        for receiver in 0..self.receivers.len() {
            self.receiver_recovers(receiver);
        }
        for process in 0..self.processes.len() {
            if self.processes[process].stopped {
                self.after(0, 1000, Event::Resume(process));
            }
        }
        // What is left of the deliveries comes at once.
        while (self.accepted as usize) < self.plan.deliveries {
            self.deliver();
        }
    }
}
