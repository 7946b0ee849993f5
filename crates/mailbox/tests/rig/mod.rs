//! One owner with its journal, both in memory.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mailrail_mailbox::{
    Checkpoint, Claim, Config, Entry, Fold, Hold, Kind, Limits, Link, Offered, OrderKey, Protocol, Scanned,
    Settlement, Shape, Source, Started, Traits,
};
use mailrail_types::{History, HoldReason, MailboxKey, Timestamp};

/// Bytes of every delivery.
const BYTES: usize = 100;

pub(crate) fn config() -> Config {
    let window = Limits { records_max: 100, bytes_max: 1 << 20 };
    // So few snapshots that a test sees those that it asks for.
    let snapshot_after = Duration::from_hours(10);
    Config {
        keep_for: Duration::from_secs(1),
        snapshot_after,
        ..Config::new(window, Duration::from_secs(30))
    }
}

pub(crate) fn claim() -> Entry {
    Entry { epoch: 0, kind: Kind::Claim(Claim { member: "a".to_owned(), nonce: 1, process: 0 }) }
}

pub(crate) fn tolerant(threads: usize) -> Traits {
    Traits { threads, tolerant: true, priority: 5 }
}

pub(crate) fn hold(reason: HoldReason, until: Timestamp) -> Hold {
    Hold { reason, until }
}

/// A failed attempt, its `attempts` counted, to be tried again after so many seconds.
pub(crate) fn retry(attempts: u32, seconds: i64) -> Settlement {
    let history = History { attempts, ..History::default() };
    Settlement::Retry { due: Timestamp::from_secs(1000 + seconds), history }
}

/// The delivery whose content an entry holds.
fn content_of(kind: &Kind) -> Option<Source> {
    match kind {
        Kind::Park(park) => Some(park.source),
        Kind::Aside(aside) if aside.content.is_none() => Some(aside.head.source),
        _ => None,
    }
}

pub(crate) struct Rig {
    pub(crate) owner: Protocol,
    pub(crate) now: Timestamp,
    pub(crate) journal: Vec<Entry>,
    /// Up to where the owner has read it.
    read: usize,
    contents: BTreeSet<Source>,
    /// What every delivery is, as its content says.
    shapes: BTreeMap<Source, Shape>,
    config: Config,
    /// Recipients that have what they may have.
    pub(crate) full: &'static [&'static str],
    /// How often was asked whether one may go.
    pub(crate) asked: usize,
}

impl Rig {
    /// An owner of a partition that nobody ever had, its first snapshot written.
    pub(crate) fn new(config: Config) -> Self {
        let mut rig = Self::claimed(config, Vec::new(), Checkpoint::at(0), Timestamp::from_secs(1000));
        rig.settle_journal();
        rig
    }

    fn claimed(config: Config, mut journal: Vec<Entry>, from: Checkpoint, now: Timestamp) -> Self {
        journal.push(claim());
        let mut fold = Fold::new(0);
        for (place, entry) in (0..).zip(&journal) {
            fold.apply(place, entry);
        }
        let epoch = journal.len() as u64 - 1;
        let owner = Protocol::new(config, fold, epoch, from, now);
        let read = journal.len();
        let (contents, shapes) = (BTreeSet::new(), BTreeMap::new());
        Self { owner, now, read, journal, contents, shapes, config, full: &[], asked: 0 }
    }

    /// The next owner, that knows what is in the journal and `from`.
    pub(crate) fn take_over(&self, from: Checkpoint) -> Self {
        let mut next = Self::claimed(self.config, self.journal.clone(), from, self.now);
        next.shapes.clone_from(&self.shapes);
        next.pass(0);
        next
    }

    pub(crate) fn offer(&mut self, source: Source, mailbox: &str) -> Offered {
        self.offer_with(source, mailbox, Traits::STRICT)
    }

    pub(crate) fn offer_with(&mut self, source: Source, mailbox: &str, traits: Traits) -> Offered {
        self.offer_about(source, mailbox, None, traits)
    }

    pub(crate) fn offer_about(
        &mut self,
        source: Source,
        mailbox: &str,
        key: Option<OrderKey>,
        traits: Traits,
    ) -> Offered {
        let shape = Shape { bytes: BYTES, key, traits };
        self.shapes.insert(source, shape);
        let offered = self.owner.offer(source, &MailboxKey::from_text(mailbox), shape, self.now);
        if offered == Offered::Taken {
            self.contents.insert(source);
        }
        offered
    }

    /// From here on the class of what is parked lets several go at a time.
    pub(crate) fn be_tolerant(&mut self, threads: usize) {
        for shape in self.shapes.values_mut() {
            shape.traits = tolerant(threads);
        }
    }

    pub(crate) fn start(&mut self) -> Option<Source> {
        self.forget();
        let started = self.ask()?;
        assert!(self.contents.contains(&started.source), "the content of {} is not at hand", started.source);
        Some(started.source)
    }

    fn ask(&mut self) -> Option<Started> {
        self.owner.start(self.now, true, |mailbox| {
            self.asked += 1;
            !self.full.contains(&mailbox.recipient())
        })
    }

    pub(crate) fn settle(&mut self, source: Source, settlement: Settlement) {
        self.owner.settle(source, settlement, self.now);
    }

    pub(crate) fn recorded(&mut self, source: Source) {
        self.owner.recorded(source, self.now);
    }

    /// Starts `source`, which is the next to go, and delivers it.
    pub(crate) fn deliver(&mut self, source: Source) {
        assert_eq!(self.start(), Some(source));
        self.finish(source);
    }

    /// The running attempt of `source` delivers it.
    pub(crate) fn finish(&mut self, source: Source) {
        self.settle(source, Settlement::Ended);
        self.recorded(source);
    }

    /// Asserts that nothing is owed, and nothing kept.
    pub(crate) fn assert_at_rest(&mut self) {
        self.settle_journal();
        assert_eq!(self.start(), None);
        self.settle_journal();
        assert!(self.owner.fold().is_empty(), "{:?}", self.owner.fold());
        assert!(self.owner.at_hand().is_empty(), "{:?}", self.owner.at_hand());
        assert!(self.contents.is_empty(), "{:?}", self.contents);
    }

    fn forget(&mut self) {
        for source in self.owner.take_forgotten() {
            self.contents.remove(&source);
        }
    }

    /// Writes what is to be written, and does not read it back.
    pub(crate) fn append(&mut self) {
        while let Some(batch) = self.owner.take_batch(100, self.now) {
            for entry in &batch {
                if let Kind::Park(park) = &entry.kind {
                    assert!(self.contents.contains(&park.source), "parked without its content");
                }
            }
            self.journal.extend(batch);
            self.owner.appended();
        }
        self.forget();
    }

    /// Reads the next entry back; `false` when there is none.
    pub(crate) fn read_one(&mut self) -> bool {
        let Some(entry) = self.journal.get(self.read) else { return false };
        let place = self.read as u64;
        self.read += 1;
        self.owner.applied(place, entry, BYTES, self.now).expect("nobody else claims");
        true
    }

    pub(crate) fn read_back(&mut self) {
        while self.read_one() {}
        self.forget();
    }

    /// Writes and reads back until there is nothing more to write.
    pub(crate) fn settle_journal(&mut self) {
        loop {
            let before = self.journal.len();
            self.append();
            self.read_back();
            if self.journal.len() == before && self.owner.is_written() {
                return;
            }
        }
    }

    /// Reads the journal again for whoever wants it.
    pub(crate) fn scan(&mut self) {
        // Whoever is due says so when it is asked to start.
        self.forget();
        while let Some(from) = self.ask_and_scan() {
            let mut at = usize::try_from(from).expect("small");
            while self.owner.is_scanning() {
                let entry = &self.journal[at];
                let shape = content_of(&entry.kind).map(|source| self.shapes[&source]);
                let scanned = self.owner.scanned(at as u64, entry, shape, self.now);
                if let Scanned::Wanted(source) = scanned {
                    self.contents.insert(source);
                }
                at += 1;
            }
            self.forget();
            if self.owner.has_ready() {
                return;
            }
        }
    }

    fn ask_and_scan(&mut self) -> Option<u64> {
        let now = self.now;
        self.owner.tick(now);
        // Without a lease it only says what it would need.
        if let Some(started) = self.ask() {
            self.owner.settle(started.source, Settlement::NotStarted, now);
            return None;
        }
        self.owner.start_scan()
    }

    /// Lets so many seconds pass, one by one.
    pub(crate) fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now = self.now.plus(Duration::from_secs(1));
            self.owner.tick(self.now);
        }
        self.owner.tick(self.now);
    }

    /// What was written but claims and snapshots.
    pub(crate) fn written(&self) -> Vec<&Kind> {
        let kinds = self.journal.iter().map(|entry| &entry.kind);
        kinds.filter(|kind| !matches!(kind, Kind::Claim(_) | Kind::Snapshot(_))).collect()
    }

    /// How many entries are of this kind, the first snapshot not counted.
    pub(crate) fn written_with_snapshots(&self, is: impl Fn(&Kind) -> bool) -> usize {
        self.journal.iter().skip(2).filter(|entry| is(&entry.kind)).count()
    }

    pub(crate) fn parks(&self) -> Vec<(Source, Link)> {
        let parks = self.journal.iter().filter_map(|entry| match &entry.kind {
            Kind::Park(park) => Some((park.source, park.link)),
            _ => None,
        });
        parks.collect()
    }
}
