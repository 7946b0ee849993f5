//! What is seen of owned partitions from outside: what is parked and why, how full windows are, how long the lease lasts, and
//! what a takeover may send twice.
//!
//! It costs nothing per delivery: a partition looks at itself with each commit, and walks over what is parked less often when
//! that is much.

use std::time::Duration;

use mailrail_log::{Lease, Offset};
use mailrail_mailbox::{Backlog, Checkpoint, Fold, Limits, Place, Protocol, SPAN_MAX};
use mailrail_telemetry::{DeliverMetrics, Part, ReasonLabels};
use mailrail_types::{HoldReason, Timestamp};
use tokio::time::Instant;

/// Between two walks over what is parked.
const WALK_INTERVAL: Duration = Duration::from_secs(10);
/// So few mailboxes are walked over with each look.
const WALK_ALWAYS_MAX: usize = 256;
/// How many times of journal places are remembered; beyond that every second one is forgotten.
const TIMES_MAX: usize = 256;

const REASONS: usize = HoldReason::ALL.len();

/// What one partition adds to the gauges of its process; dropped, it takes all of it back.
pub(crate) struct Observed {
    metrics: DeliverMetrics,
    shown: Parked,
    oldest_held: Part,
    lane_blocked: Part,
    window_fill: Part,
    lease_margin: Part,
    walk_at: Instant,
    times: Times,
    read: Volume,
    isolated: bool,
    passed_over: usize,
}

/// Entries of the journal.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Volume {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

impl Volume {
    pub(crate) fn add(&mut self, bytes: usize) {
        self.entries += 1;
        self.bytes += bytes as u64;
    }

    /// About how many bytes so many entries have, when they are like these.
    fn scaled_to(self, entries: u64) -> u64 {
        entries.saturating_mul(self.bytes) / self.entries.max(1)
    }
}

/// What is parked.
#[derive(Debug, Default, PartialEq)]
struct Parked {
    /// Deliveries, in the order of [`HoldReason::ALL`].
    deliveries: [i64; REASONS],
    /// Mailboxes, likewise.
    mailboxes: [i64; REASONS],
    /// Entries from the first that is needed to the end.
    pinned: i64,
    /// About how many bytes they have.
    pinned_bytes: i64,
    /// Since when the head has been held that has been held for the longest.
    head: Option<Timestamp>,
    /// The same of deliveries set aside.
    aside: Option<Timestamp>,
}

impl Observed {
    /// Nothing is shown before the first look. `read`: what a takeover read of the journal.
    pub(crate) fn new(metrics: &DeliverMetrics, fold: &Fold, read: Volume, now: Timestamp) -> Self {
        Self {
            shown: Parked::default(),
            oldest_held: metrics.oldest_held_seconds.part(),
            lane_blocked: metrics.lane_blocked_seconds.part(),
            window_fill: metrics.window_fill.part(),
            lease_margin: metrics.lease_margin_seconds.part(),
            walk_at: Instant::now(),
            times: Times(vec![(fold.next(), now)]),
            read,
            isolated: false,
            passed_over: 0,
            metrics: metrics.clone(),
        }
    }

    /// An entry was read back.
    pub(crate) fn note_entry(&mut self, bytes: usize) {
        self.read.add(bytes);
    }

    /// Looks at the partition.
    pub(crate) fn look(&mut self, protocol: &Protocol, limits: Limits, lease: &Lease, now: Timestamp) {
        self.look_at(protocol, limits, lease, now, Instant::now());
    }

    fn look_at(&mut self, protocol: &Protocol, limits: Limits, lease: &Lease, now: Timestamp, at: Instant) {
        self.show_isolated(protocol.is_isolated());
        self.show_passed_over(protocol.passed_over());
        self.window_fill.set(Some(fill(protocol, limits)));
        self.lease_margin.set(lease.until().map(|until| margin(at, until)));
        if at < self.walk_at && protocol.fold().len() > WALK_ALWAYS_MAX {
            return;
        }
        self.walk_at = at + WALK_INTERVAL;
        self.times.note(protocol.fold().next(), now);
        let parked = walk(protocol.fold(), &self.times, self.read);
        let age = |since: Option<Timestamp>| Some(since.map_or(0.0, |since| now.since(since).as_secs_f64()));
        self.oldest_held.set(age(earlier(parked.head, parked.aside)));
        self.lane_blocked.set(age(earlier(parked.head, protocol.held_longest())));
        self.show(parked);
    }

    fn show_isolated(&mut self, isolated: bool) {
        self.metrics.isolated_partitions.inc_by(i64::from(isolated) - i64::from(self.isolated));
        self.isolated = isolated;
    }

    fn show_passed_over(&mut self, count: usize) {
        self.metrics.passed_over.inc_by(number(count as u64) - number(self.passed_over as u64));
        self.passed_over = count;
    }

    fn show(&mut self, parked: Parked) {
        let Parked { deliveries, mailboxes, pinned, pinned_bytes, .. } = &self.shown;
        for (at, reason) in HoldReason::ALL.iter().enumerate() {
            let labels = ReasonLabels { reason: reason.code() };
            for (family, now, before) in [
                (&self.metrics.held_by_reason, parked.deliveries[at], deliveries[at]),
                (&self.metrics.held_mailboxes, parked.mailboxes[at], mailboxes[at]),
            ] {
                if now != before {
                    family.get_or_create(&labels).inc_by(now - before);
                }
            }
        }
        self.metrics.journal_pinned_entries.inc_by(parked.pinned - pinned);
        self.metrics.journal_pinned_bytes.inc_by(parked.pinned_bytes - pinned_bytes);
        self.shown = parked;
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        self.show(Parked::default());
        self.show_isolated(false);
        self.show_passed_over(0);
    }
}

/// By records, bytes or offsets, whichever is nearest to its limit. One record that is larger than the limit fills it.
fn fill(protocol: &Protocol, limits: Limits) -> f64 {
    let (records, bytes, span) = protocol.window_use();
    let part = |used: u64, max: u64| {
        let whole = |number: u64| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
        whole(used) / whole(max.max(1))
    };
    let fullest = part(records as u64, limits.records_max as u64)
        .max(part(bytes as u64, limits.bytes_max as u64))
        .max(part(span, SPAN_MAX));
    fullest.min(1.0)
}

/// Seconds until `until`, negative when it has passed.
fn margin(now: Instant, until: Instant) -> f64 {
    until.saturating_duration_since(now).as_secs_f64() - now.saturating_duration_since(until).as_secs_f64()
}

fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    a.into_iter().chain(b).min()
}

/// Counts everything that is parked.
fn walk(fold: &Fold, times: &Times, read: Volume) -> Parked {
    let mut parked = Parked::default();
    for (_, backlog) in fold.backlogs() {
        parked.add(backlog, times);
    }
    let pinned = fold.pin().map_or(0, |pin| fold.next().saturating_sub(pin));
    Parked { pinned: number(pinned), pinned_bytes: number(read.scaled_to(pinned)), ..parked }
}

impl Parked {
    fn add(&mut self, backlog: &Backlog, times: &Times) {
        let mut first = None;
        let queued = backlog.queued();
        if queued > 0 {
            // A head that is not known to wait has its turn: all that it waits for is that.
            let head = backlog.head.as_ref();
            let reason = head.map_or(HoldReason::BehindHead, |head| head.hold.reason);
            self.deliveries[place_of(reason)] += 1;
            self.deliveries[place_of(HoldReason::BehindHead)] += number(queued - 1);
            first = Some(reason);
            let place = backlog.stretches.first().map(|stretch| stretch.next.at);
            if let Some((head, place)) = head.zip(place) {
                let tried = head.history.as_ref().and_then(|history| history.first_attempt_at);
                self.head = earlier(self.head, Some(tried.unwrap_or_else(|| times.of(place))));
            }
        }
        for aside in backlog.asides.values() {
            self.deliveries[place_of(aside.head.hold.reason)] += 1;
            first.get_or_insert(aside.head.hold.reason);
            let tried = aside.head.history.as_ref().and_then(|history| history.first_attempt_at);
            self.aside = earlier(self.aside, Some(tried.unwrap_or_else(|| times.of(aside.content))));
        }
        if let Some(reason) = first {
            self.mailboxes[place_of(reason)] += 1;
        }
    }
}

/// Where a reason stands in [`HoldReason::ALL`].
fn place_of(reason: HoldReason) -> usize {
    HoldReason::ALL.iter().position(|one| *one == reason).unwrap_or(0)
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// About when places of the journal were written: what stands at a place or behind it is not older than its time. Never empty;
/// the first one is the takeover's.
#[derive(Debug)]
struct Times(Vec<(Place, Timestamp)>);

impl Times {
    /// The journal ends at `end` now.
    fn note(&mut self, end: Place, now: Timestamp) {
        match self.0.as_mut_slice() {
            // Nothing was written since: what comes next is not older than now.
            [_, .., last] if last.0 == end => last.1 = now,
            _ => self.0.push((end, now)),
        }
        if self.0.len() > TIMES_MAX {
            let mut at = 0;
            self.0.retain(|_| {
                at += 1;
                at % 2 == 1
            });
        }
    }

    /// When the entry at `place` was written: up to a look earlier than it was, and never before the takeover.
    fn of(&self, place: Place) -> Timestamp {
        let behind = self.0.partition_point(|(from, _)| *from <= place);
        self.0.get(behind.saturating_sub(1)).map_or(Timestamp::ZERO, |(_, at)| *at)
    }
}

/// Counts what a takeover may send once more. `fold` has taken the journal through the new owner's claim, `from` was committed
/// before it, `end` is where the deliveries ended after it.
///
/// After a hand-over these are the attempts that ran on. After an owner that ended without a word they are every record
/// that is not committed as done, as far as a window reaches: it may have been sent, and the log cannot say how many of
/// them were. And of what is parked they are the heads, and deliveries set aside, whose time had come.
///
/// Gives whether some delivery could have been attempted by the owner before: was open, or parked and due.
pub(crate) fn taken_over(
    metrics: &DeliverMetrics,
    fold: &Fold,
    from: &Checkpoint,
    end: Offset,
    now: Timestamp,
) -> bool {
    let reach = end.min(from.offset.saturating_add(SPAN_MAX));
    let open = (from.offset..reach).filter(|offset| !from.done.contains(*offset)).count();
    let due: usize = fold.backlogs().map(|(_, backlog)| due(backlog, now)).sum();
    let could_be_attempted = open + due > 0;
    // The first claim of all stands at the start of the journal: there was nobody before.
    if fold.epoch() == 0 {
        return could_be_attempted;
    }
    if fold.was_handed_off() {
        metrics.duplicates_suspected.inc_by(fold.unfinished().len() as u64);
        return could_be_attempted;
    }
    // An owner that failed in a process that lives on is no death of one.
    if fold.has_died() {
        metrics.unclean_takeovers.inc();
    }
    metrics.duplicates_suspected.inc_by((open + due) as u64);
    could_be_attempted
}

/// Deliveries of a backlog whose attempt may have been started.
fn due(backlog: &Backlog, now: Timestamp) -> usize {
    let head = backlog.queued() > 0 && backlog.head.as_ref().is_none_or(|head| head.hold.until <= now);
    usize::from(head) + backlog.asides.values().filter(|aside| aside.head.hold.until <= now).count()
}

#[cfg(test)]
mod tests;
