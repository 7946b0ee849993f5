//! The state that a journal describes: the same for every reader, because it follows from the entries in their order and
//! from nothing else.

use std::collections::BTreeMap;

use mailrail_types::MailboxKey;

use crate::backlog::{Backlog, SetAside};
use crate::checkpoint::Mark;
use crate::entry::{Aside, Claim, Entry, Head, Hold, Kind, Park, Place, Snapshot, Source, State, Unfinished};
use crate::rules::Rules;
use crate::trials::Trials;

/// What an entry is to a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It changed the state.
    Valid,
    /// It says nothing: written under an older claim, or out of its chain.
    Void,
}

/// A snapshot on its way, part by part.
#[derive(Debug)]
struct Building {
    epoch: Place,
    at: Place,
    taken: u32,
    parts: u32,
    backlogs: BTreeMap<MailboxKey, Backlog>,
}

/// The state that the entries describe so far.
#[derive(Debug)]
pub struct Fold {
    rules: Rules,
    /// Latest claim, or the epoch of the newest entry when that claim was trimmed away.
    epoch: Place,
    /// One past the last place taken.
    next: Place,
    backlogs: BTreeMap<MailboxKey, Backlog>,
    building: Option<Building>,
    /// The newest snapshot that is whole.
    snapshot: Option<Place>,
    done_below: Option<Source>,
    mark: Option<Mark>,
    unclean: u32,
    trials: Trials,
    claimed: bool,
    /// The process of the owner before the latest claim has died, as far as it is known.
    died: bool,
    handed_off: bool,
    /// Whether the epoch before the latest claim ended with a hand-off.
    was_handed_off: bool,
    unfinished: Vec<Unfinished>,
    owed: u64,
    asides: usize,
}

impl Fold {
    /// The state before the entry at `from`: that of an empty journal. A snapshot replaces it.
    #[must_use]
    pub fn new(from: Place) -> Self {
        Self::with_rules(from, Rules::ALL)
    }

    /// As [`Fold::new`], with rules switched off: for the simulation alone.
    #[must_use]
    pub fn with_rules(from: Place, rules: Rules) -> Self {
        Self {
            rules,
            epoch: 0,
            next: from,
            backlogs: BTreeMap::new(),
            building: None,
            snapshot: None,
            done_below: None,
            mark: None,
            unclean: 0,
            trials: Trials::default(),
            claimed: from > 0,
            died: false,
            handed_off: false,
            was_handed_off: false,
            unfinished: Vec::new(),
            owed: 0,
            asides: 0,
        }
    }

    /// Takes the entry at `place`. Places grow.
    pub fn apply(&mut self, place: Place, entry: &Entry) -> Verdict {
        debug_assert!(place >= self.next, "journal place {place} was read twice");
        self.next = place + 1;
        if let Kind::Claim(claim) = &entry.kind {
            self.claim(place, claim);
            return Verdict::Valid;
        }
        // A claim that was trimmed away is known by the entries under it: a claim is older than what it covers.
        if entry.epoch < self.epoch && self.rules.void {
            return Verdict::Void;
        }
        self.epoch = self.epoch.max(entry.epoch);
        match &entry.kind {
            Kind::Claim(_) => {}
            Kind::Park(park) => return self.park(place, park),
            Kind::State(state) => self.state(state),
            Kind::Clear { mailbox } => self.change(mailbox, |backlog| {
                backlog.stretches.clear();
                backlog.passed.clear();
                backlog.head = None;
                backlog.tried.clear();
                backlog.owed = 0;
            }),
            Kind::Aside(aside) => self.aside(place, aside),
            Kind::AsideEnded { mailbox, source } => self.change(mailbox, |backlog| {
                backlog.asides.remove(source);
                if backlog.stretches.iter().any(|s| s.owes(*source)) {
                    backlog.passed.insert(*source);
                }
            }),
            Kind::HandOff(unfinished) => {
                self.handed_off = true;
                self.unfinished.clone_from(unfinished);
            }
            Kind::Snapshot(part) => self.take_part(place, entry.epoch, part),
            Kind::Trial { source } => self.trials.running = Some(*source),
            Kind::TrialEnded { source, how } => self.trials.ended(*source, *how),
            Kind::IsolationEnded => self.trials.condemned.clear(),
        }
        Verdict::Valid
    }

    fn claim(&mut self, place: Place, claim: &Claim) {
        self.epoch = place;
        // The first claim of all follows nobody.
        self.died = self.trials.claimed(claim, self.handed_off) && self.claimed;
        self.unclean = match () {
            () if self.handed_off => 0,
            () if self.died => self.unclean.saturating_add(1),
            () => self.unclean,
        };
        self.claimed = true;
        self.building = None;
        self.was_handed_off = self.handed_off;
        self.handed_off = false;
    }

    fn park(&mut self, place: Place, park: &Park) -> Verdict {
        let (rules, epoch) = (self.rules, self.epoch);
        let backlog = self.backlogs.entry(park.mailbox.clone()).or_default();
        if !backlog.park(park, place, epoch, rules) {
            if backlog.is_empty() {
                self.backlogs.remove(&park.mailbox);
            }
            return Verdict::Void;
        }
        if backlog.stretches.first().is_some_and(|lowest| lowest.first == park.source) {
            backlog.set_head(Head { source: park.source, hold: park.hold, history: None });
        }
        backlog.owed += 1;
        self.owed += 1;
        Verdict::Valid
    }

    fn state(&mut self, state: &State) {
        self.change(&state.mailbox, |backlog| {
            if let Some(drained) = state.drained {
                backlog.advance(drained);
            }
            if let Some(head) = &state.head
                && backlog.is_blocked()
            {
                backlog.set_head(head.clone());
            }
        });
    }

    fn aside(&mut self, place: Place, aside: &Aside) {
        let backlog = self.backlogs.entry(aside.mailbox.clone()).or_default();
        let known = backlog.asides.get(&aside.head.source).map(|known| known.content);
        let content = aside.content.or(known).unwrap_or(place);
        backlog.asides.insert(aside.head.source, SetAside { content, head: aside.head.clone() });
        self.owed += u64::from(known.is_none());
        self.asides += usize::from(known.is_none());
    }

    /// Changes a backlog that there is, and forgets it when nothing is left of it.
    fn change(&mut self, mailbox: &MailboxKey, change: impl FnOnce(&mut Backlog)) {
        let Some(backlog) = self.backlogs.get_mut(mailbox) else { return };
        let (owed, asides) = (backlog.owed, backlog.asides.len());
        change(backlog);
        self.asides = (self.asides + backlog.asides.len()).saturating_sub(asides);
        let (before, after) = (owed + asides as u64, backlog.owed + backlog.asides.len() as u64);
        self.owed = (self.owed + after).saturating_sub(before);
        if backlog.is_empty() {
            self.backlogs.remove(mailbox);
        }
    }

    fn take_part(&mut self, place: Place, epoch: Place, part: &Snapshot) {
        if part.part == 0 {
            self.building =
                Some(Building { epoch, at: place, taken: 0, parts: part.parts, backlogs: BTreeMap::new() });
        }
        let Some(building) = &mut self.building else { return };
        if building.epoch != epoch || building.taken != part.part || building.parts != part.parts {
            self.building = None;
            return;
        }
        building.taken += 1;
        building.backlogs.extend(part.backlogs.iter().cloned());
        if building.taken < building.parts {
            return;
        }
        self.done_below = Some(part.done_below);
        self.mark = part.mark;
        self.unclean = part.unclean;
        self.trials.clone_from(&part.trials);
        if let Some(whole) = self.building.take() {
            self.snapshot = Some(whole.at);
            self.backlogs = whole.backlogs;
            self.asides = self.backlogs.values().map(|b| b.asides.len()).sum();
            self.owed = self.asides as u64 + self.backlogs.values().map(|b| b.owed).sum::<u64>();
        }
    }

    /// The backlog of a mailbox, if it has one.
    #[must_use]
    pub fn backlog(&self, mailbox: &MailboxKey) -> Option<&Backlog> {
        self.backlogs.get(mailbox)
    }

    /// All backlogs.
    pub fn backlogs(&self) -> impl Iterator<Item = (&MailboxKey, &Backlog)> {
        self.backlogs.iter()
    }

    /// Mailboxes with a backlog.
    #[must_use]
    pub fn len(&self) -> usize {
        self.backlogs.len()
    }

    /// Whether nothing is parked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.backlogs.is_empty()
    }

    /// Parked deliveries that have not ended, as far as it was written.
    #[must_use]
    pub fn owed(&self) -> u64 {
        self.owed
    }

    /// Deliveries that stand beside their mailbox.
    #[must_use]
    pub fn asides(&self) -> usize {
        self.asides
    }

    /// The latest claim.
    #[must_use]
    pub fn epoch(&self) -> Place {
        self.epoch
    }

    /// One past the last place taken.
    #[must_use]
    pub fn next(&self) -> Place {
        self.next
    }

    /// Whether anybody ever claimed the partition.
    #[must_use]
    pub fn was_claimed(&self) -> bool {
        self.claimed
    }

    /// Place of the newest snapshot that is whole.
    #[must_use]
    pub fn snapshot(&self) -> Option<Place> {
        self.snapshot
    }

    /// Up to where the deliveries were done when that snapshot was taken.
    #[must_use]
    pub fn done_below(&self) -> Option<Source> {
        self.done_below
    }

    /// The newest record below that which was read then.
    #[must_use]
    pub fn mark(&self) -> Option<Mark> {
        self.mark
    }

    /// The last delivery that anything parked tells of.
    #[must_use]
    pub fn last_source(&self) -> Option<Source> {
        let stretches = self.backlogs.values().filter_map(|backlog| backlog.stretches.last().map(|s| s.last));
        let asides = self.backlogs.values().filter_map(|backlog| backlog.asides.keys().next_back().copied());
        stretches.chain(asides).max()
    }

    /// Whether the owner before the latest claim handed the partition over.
    #[must_use]
    pub fn was_handed_off(&self) -> bool {
        self.was_handed_off
    }

    /// Owners in a row whose process has died, since the newest snapshot, with those that it tells of.
    #[must_use]
    pub fn unclean(&self) -> u32 {
        self.unclean
    }

    /// Whether the owner before the latest claim died: it said no last word, and its process does not live.
    #[must_use]
    pub fn has_died(&self) -> bool {
        self.died
    }

    /// What trials have shown.
    #[must_use]
    pub fn trials(&self) -> &Trials {
        &self.trials
    }

    /// Keeps those suspects that are still to be delivered.
    pub(crate) fn keep_suspects(&mut self, is_open: impl Fn(&Self, Source) -> bool) {
        let mut trials = std::mem::take(&mut self.trials);
        trials.deaths.retain(|source, _| is_open(self, *source));
        self.trials = trials;
    }

    /// Attempts that an owner before may still run: what the last hand-over says. Those whose time has passed are over.
    #[must_use]
    pub fn unfinished(&self) -> &[Unfinished] {
        &self.unfinished
    }

    /// First place that a backlog still needs. Never goes back: a backlog only moves on, and a new one is further on.
    #[must_use]
    pub fn pin(&self) -> Option<Place> {
        self.backlogs.values().filter_map(Backlog::pin).min()
    }
}

impl Backlog {
    /// How many deliveries of the stretches wait for their turn: not ended, and not aside, as far as it was written.
    #[must_use]
    pub fn queued(&self) -> u64 {
        let aside =
            self.asides.keys().filter(|source| self.stretches.iter().any(|s| s.owes(**source))).count();
        self.owed.saturating_sub((self.passed.len() + aside) as u64)
    }

    /// Whether the delivery has not ended.
    #[must_use]
    pub fn owes(&self, source: Source) -> bool {
        let in_stretch = self.stretches.iter().any(|s| s.owes(source)) && !self.passed.contains(&source);
        in_stretch || self.asides.contains_key(&source)
    }
}

/// What a head that waits for an event, and not for a time, waits for.
#[must_use]
pub(crate) fn waits_for_event(hold: Hold) -> bool {
    use mailrail_types::HoldReason::{Circuit, Concurrency, Paused, Rate, Setup};
    matches!(hold.reason, Paused | Circuit | Rate | Concurrency | Setup)
}
