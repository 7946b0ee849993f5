//! One partition of the deliveries topic: whose turn it is, what runs, and how far it is done.
//!
//! Everything that decides is in `mailbox::Protocol`; here its inputs and outputs meet the log, the clock and the attempts.

mod deliveries;
mod isolation;
mod journal;
mod positions;
mod reading;
mod turns;
mod unrecorded;

use std::collections::{HashSet, VecDeque};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use mailrail_log::{Claim, Committed, LogError, StoredRecord};
use mailrail_mailbox::{Fenced, Mark, Place, Protocol, RecentIds, Settlement, Source};
use mailrail_types::{DeliveryId, MailboxKey};
use tokio::sync::mpsc;
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};

use crate::attempt::{OfPartition, Turn};
use crate::budget::{Owned, Share};
use crate::config::{BATCH_RECORDS_MAX, DELIVERIES_MAX, RECENT_IDS, WOKEN_MAX};
use crate::contents::Contents;
use crate::gate::Waker;
use crate::numbers::ByNumber;
use crate::observe::Observed;
use crate::permit::{Pass, Permit, TrialTurn};
use crate::places::Bell;
use crate::sequence::Sequences;
use crate::service::Shared;
use crate::takeover::{Taken, take_over};

use reading::Reading;
use unrecorded::Unrecorded;

/// After a reader said that the log does not answer.
const READ_PAUSE: Duration = Duration::from_millis(500);
/// How long a partition sleeps at most while something waits for its time; bounds what a clock that jumps can do.
const SLEEP_MAX: Duration = Duration::from_secs(10);
/// What remains of the hand-over time for the last word and the last commit.
const LAST_WORD: Duration = Duration::from_secs(2);

/// What a task of the partition came to.
enum Step {
    /// A turn is over.
    Turned { source: Source, turn: Turn },
    /// The end of a delivery is in the log, or cannot be.
    Recorded { source: Source, written: Result<(), LogError>, then: Then },
    /// The records of attempts are in the log, or cannot be.
    AllRecorded { ends: Vec<(Source, Then)>, written: Result<(), LogError> },
    /// A batch is in the journal, or is not.
    Appended(Result<Vec<Place>, LogError>),
    /// Which snapshot the group's position names.
    Committed(Option<Place>),
    /// The journal was trimmed below this, or not.
    Trimmed(Place, Result<(), LogError>),
    /// The deliveries topic is the one that it was, or not.
    Checked(Result<(), LogError>),
}

/// What a record was the end of.
enum Then {
    /// Its mailbox went on already.
    Done,
    /// Its mailbox goes on with this.
    Settle(Settlement),
}

/// A pending permit. Kept over the turns of the loop: giving it up would give up the place in the queue for it.
type Waiting = Pin<Box<dyn Future<Output = Pass> + Send>>;

/// Why the loop ends.
enum End {
    /// All that could be finished is finished.
    Drained,
    /// Taken away, or out of time.
    Cut,
}

/// A partition that this process owns.
pub(crate) struct Partition {
    shared: Arc<Shared>,
    claim: Claim,
    protocol: Protocol,
    deliveries: Reading,
    tail: Reading,
    scan: Option<Reading>,
    recent: RecentIds<(DeliveryId, u32)>,
    contents: Contents,
    sequences: Sequences,
    tasks: JoinSet<Step>,
    /// Which delivery an attempt's task is of: a task that panics says no more than its id.
    turns: ByNumber<Id, Source>,
    waiting: Option<Waiting>,
    /// Held while an isolated partition tries a delivery.
    trial: Option<TrialTurn>,
    /// Held while nothing else of the process may run.
    alone: Option<Permit>,
    /// Ends and retries whose record waits for the append before it.
    unrecorded: Unrecorded,
    recording: bool,
    /// Mailboxes that may ask their endpoint again.
    woken: mpsc::Receiver<MailboxKey>,
    /// Those that were told so before it was noted here that they wait.
    woken_early: HashSet<MailboxKey>,
    of_partition: Arc<OfPartition>,
    bell: Arc<Bell>,
    share: Share,
    /// Records whose time is known, to find the newest one below the checkpoint.
    marks: VecDeque<Mark>,
    /// That one.
    mark: Option<Mark>,
    known: positions::Known,
    /// When the log may be read again after it did not answer.
    read_again: Instant,
    /// The set-up that was last looked at for what waits for it.
    setup: u64,
    trim: positions::Trim,
    observed: Observed,
    put: Option<Committed>,
    /// When the last word is due, once asked to stop.
    last_word: Option<Instant>,
    handed_off: bool,
    /// The last word was read back: the next owner knows what was left running.
    is_said: bool,
}

impl Partition {
    /// Takes a partition over and works until asked to stop, then lets what runs finish. Cut, it returns when no attempt runs
    /// any more.
    ///
    /// # Errors
    /// As [`take_over`], and when the journal says that this owner is none any more: it is started again.
    pub(crate) async fn own(shared: Arc<Shared>, claim: Claim) -> Result<Option<Committed>, LogError> {
        let taken = tokio::select! {
            taken = take_over(&shared, &claim) => taken?,
            () = claim.stop.cancelled() => return Ok(None),
            () = claim.cut.cancelled() => return Ok(None),
        };
        let mut partition = Self::new(shared, claim, taken)?;
        partition.put_position();
        partition.claim.position.commit_soon();
        partition.stand_still_if_stuck().await;
        let ended = partition.run().await;
        // What still runs is cut here, and noted as cut when the partition is dropped.
        partition.tasks.shutdown().await;
        match ended? {
            End::Drained => Ok(Some(partition.position())),
            End::Cut => Ok(None),
        }
    }

    fn new(shared: Arc<Shared>, claim: Claim, taken: Taken) -> Result<Self, LogError> {
        let Taken { protocol, tail, ahead, deliveries, mark, read } = taken;
        let (waker, woken) = mpsc::channel(WOKEN_MAX);
        let mut new = Self {
            sequences: Sequences::new(claim.partition, protocol.epoch()),
            recent: RecentIds::new(RECENT_IDS),
            contents: Contents::default(),
            tasks: JoinSet::new(),
            turns: ByNumber::default(),
            waiting: None,
            trial: None,
            alone: None,
            unrecorded: Unrecorded::new(shared.config.commit_interval),
            recording: false,
            woken,
            woken_early: HashSet::new(),
            of_partition: Arc::new(OfPartition {
                lease: claim.lease.clone(),
                waker: Waker(waker),
                stop: claim.stop.clone(),
            }),
            bell: Arc::default(),
            share: shared.budget.share(shared.metrics.clone()),
            marks: VecDeque::new(),
            mark,
            known: positions::Known::new(mark),
            read_again: Instant::now(),
            setup: 0,
            trim: positions::Trim::default(),
            observed: Observed::new(&shared.metrics, protocol.fold(), read, shared.now()),
            put: None,
            last_word: None,
            handed_off: false,
            is_said: false,
            scan: None,
            protocol,
            tail: Reading::new(tail, BATCH_RECORDS_MAX),
            deliveries: Reading::new(deliveries, DELIVERIES_MAX),
            shared,
            claim,
        };
        for (place, entry, bytes) in ahead {
            new.take_entry(place, &entry, bytes)?;
        }
        Ok(new)
    }

    async fn run(&mut self) -> Result<End, LogError> {
        let mut tick = tokio::time::interval(self.shared.config.commit_interval);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.go_on()?;
        let _owned = Owned::new(self.shared.metrics.clone());
        // Made once: a turn of the loop is a part of what every delivery costs.
        let mut cut = pin!(self.claim.cut.clone().cancelled_owned());
        let mut stop = pin!(self.claim.stop.clone().cancelled_owned());
        let mut sleep = pin!(tokio::time::sleep(SLEEP_MAX));
        loop {
            self.go_on()?;
            if self.is_drained()? {
                return Ok(End::Drained);
            }
            let draining = self.last_word.is_some();
            // Told once for a turn: a clock is a part of its cost.
            let now = Instant::now();
            let paused = self.read_again.saturating_duration_since(now);
            let reading = paused.is_zero();
            let taking = reading && self.protocol.has_room() && self.share.has_room();
            let lease = self.claim.lease.holds(now);
            let wake = now + self.time_to_wake(paused, now);
            if sleep.is_elapsed() || wake < sleep.deadline() {
                sleep.as_mut().reset(wake);
            }
            tokio::select! {
                () = &mut cut => return Ok(End::Cut),
                () = &mut stop, if !draining => self.stop(),
                Some(step) = self.tasks.join_next_with_id() => self.take_steps(step)?,
                batch = self.deliveries.next(), if taking => self.take_deliveries(batch)?,
                batch = self.tail.next(), if reading => self.take_tail(batch)?,
                batch = next_of(&mut self.scan), if reading && self.scan.is_some() => self.take_scanned(batch)?,
                permit = permit_of(&mut self.waiting), if self.waiting.is_some() && lease => self.start(permit)?,
                () = self.claim.lease.held(), if !lease && self.waiting.is_some() => {}
                Some(mailbox) = self.woken.recv() => self.wake(mailbox),
                recipients = self.bell.heard() => self.called(recipients),
                () = self.shared.directory.changed_since(self.setup), if !draining => self.look_at_setup(),
                () = &mut sleep => {}
                _ = tick.tick() => self.keep_up(),
            }
        }
    }

    /// Everything that follows without waiting.
    fn go_on(&mut self) -> Result<(), LogError> {
        let now = self.shared.now();
        self.protocol.tick(now);
        self.append_what_waits()?;
        self.record_what_waits();
        self.scan_what_is_wanted();
        self.start_or_wait()?;
        self.forget();
        self.share.set(self.protocol.records(), self.protocol.bytes(), self.held());
        Ok(())
    }

    fn held(&self) -> usize {
        usize::try_from(self.protocol.fold().owed()).unwrap_or(usize::MAX)
    }

    fn forget(&mut self) {
        self.contents.forget(self.protocol.take_forgotten());
    }

    fn time_to_wake(&self, paused: Duration, now: Instant) -> Duration {
        let due = self.protocol.next_wake().map(|due| due.since(self.shared.now()));
        let word = self.last_word.map(|at| at.saturating_duration_since(now));
        let paused = (!paused.is_zero()).then_some(paused);
        let record = self.unrecorded.until().filter(|_| !self.recording);
        let record = record.map(|at| at.saturating_duration_since(now));
        [due, word, paused, record].into_iter().flatten().min().unwrap_or(SLEEP_MAX).min(SLEEP_MAX)
    }

    /// Asked to stop: nothing new is taken or started; what runs may finish, until there is just time for the last word.
    fn stop(&mut self) {
        self.protocol.stop();
        self.waiting = None;
        // From here on others that wait for the same endpoints are called instead. A call that came already is not passed on: they ask by
        // themselves, a commit interval later at most.
        self.bell = Arc::default();
        let time = self.claim.hand_over.saturating_sub(LAST_WORD).max(self.claim.hand_over / 2);
        self.last_word = Some(Instant::now() + time);
    }

    /// Says the last word once nothing runs any more or the time is up; done when that is in the journal.
    fn is_drained(&mut self) -> Result<bool, LogError> {
        let Some(last_word) = self.last_word else { return Ok(false) };
        if self.handed_off {
            self.is_said = self.protocol.is_written();
            return Ok(self.is_said);
        }
        self.protocol.save_all();
        let quiet = self.tasks.is_empty() && self.protocol.is_quiet();
        if quiet || Instant::now() >= last_word {
            let mark = self.known_mark();
            self.protocol.set_mark(mark);
            self.protocol.hand_off(self.shared.now());
            self.handed_off = true;
        }
        self.append_what_waits()?;
        Ok(false)
    }

    fn fenced(&self, fenced: Fenced) -> LogError {
        LogError::Unavailable(format!("partition {}: {fenced}; it is claimed again", self.claim.partition))
    }

    /// The records of a batch; none while the log does not answer, which is waited for.
    ///
    /// # Errors
    /// Everything that waiting does not mend.
    fn read_or_wait(
        &mut self,
        topic: &str,
        batch: Result<Vec<StoredRecord>, LogError>,
    ) -> Result<Vec<StoredRecord>, LogError> {
        if let Err(LogError::Unavailable(problem)) = batch {
            self.wait_for_log(topic, &problem);
            return Ok(Vec::new());
        }
        batch
    }

    /// The log does not answer for now.
    fn wait_for_log(&mut self, topic: &str, problem: &str) {
        tracing::warn!(partition = self.claim.partition, topic, problem, "the log cannot be read; waiting");
        self.read_again = Instant::now() + READ_PAUSE;
    }
}

/// The next records of a reader that there is.
async fn next_of(reader: &mut Option<Reading>) -> Result<Vec<StoredRecord>, LogError> {
    match reader {
        Some(reader) => reader.next().await,
        None => std::future::pending().await,
    }
}

async fn permit_of(waiting: &mut Option<Waiting>) -> Pass {
    match waiting {
        Some(permit) => permit.await,
        None => std::future::pending().await,
    }
}
