//! Redriving dead letters: which ones, and the ledger of what was put back.

use crate::{DeadLetter, DeadReason, DeliveryId, EndpointId, ReplayId, TenantId, Timestamp};

/// Which dead letters are meant. A part that is not given lets everything pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LetterFilter {
    /// Of this tenant.
    pub tenant: Option<TenantId>,
    /// For this endpoint; its name is unique within its tenant.
    pub endpoint: Option<EndpointId>,
    /// Of events of this type.
    pub event_type: Option<String>,
    /// Given up for one of these reasons; empty: for any.
    pub reasons: Vec<DeadReason>,
    /// Given up at or after this time.
    pub since: Option<Timestamp>,
    /// Given up before this time.
    pub until: Option<Timestamp>,
    /// These deliveries; empty: any.
    pub ids: Vec<DeliveryId>,
}

impl LetterFilter {
    /// Most ids that a filter names.
    pub const IDS_MAX: usize = 100;

    /// Whether it lets everything pass.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether `letter` is meant.
    #[must_use]
    pub fn takes(&self, letter: &DeadLetter) -> bool {
        let delivery = &letter.delivery;
        self.tenant.as_ref().is_none_or(|tenant| *tenant == delivery.event.tenant)
            && self.endpoint.as_ref().is_none_or(|endpoint| *endpoint == delivery.endpoint)
            && self.event_type.as_ref().is_none_or(|name| *name == delivery.event.attributes.event_type)
            && (self.reasons.is_empty() || self.reasons.contains(&letter.reason))
            && self.since.is_none_or(|since| letter.died_at >= since)
            && self.until.is_none_or(|until| letter.died_at < until)
            && (self.ids.is_empty() || self.ids.contains(&delivery.id))
    }
}

/// A part of a partition of the dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LetterRange {
    /// The partition.
    pub partition: u32,
    /// First offset.
    pub from: u64,
    /// One past the last offset.
    pub to: u64,
}

/// A replay as it was ordered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayOrder {
    /// Names it.
    pub replay: ReplayId,
    /// Who ordered it.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Which letters.
    pub filter: LetterFilter,
    /// Letters that were redriven before are redriven again.
    pub again: bool,
    /// Most letters per second.
    pub rate: u32,
    /// What it looks at: the dead letters up to their ends when it was ordered. What dies later is another replay's.
    pub ranges: Vec<LetterRange>,
}

/// A letter that is put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Redriven {
    /// The delivery.
    pub delivery: DeliveryId,
    /// How often it was redriven, this time included: what its next dead letter, if there is one, says as well.
    pub redrives: u32,
    /// Where the letter stands in the batch's partition of the dead letters.
    pub offset: u64,
}

/// Letters that are put back together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedriveBatch {
    /// Partition of the dead letters, and of the deliveries.
    pub partition: u32,
    /// The deliveries of this batch stand at or after this offset of the deliveries.
    pub deliveries_from: u64,
    /// The letters, in order.
    pub letters: Vec<Redriven>,
}

/// How far a replay got in one partition, and what it passed over since its entry before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplayStep {
    /// The partition.
    pub partition: u32,
    /// Letters below this offset were looked at.
    pub next: u64,
    /// Letters that it means and that had been redriven before.
    pub skipped: u64,
    /// Records that are no letters that this version can read.
    pub unreadable: u64,
}

/// Why a letter of a batch was not put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnsentReason {
    /// It is larger than the log takes now. It stays a dead letter that was not redriven.
    TooLarge,
    /// The letter itself is deleted meanwhile.
    Gone,
    /// Nobody can say any more whether it was put back: what would show it is deleted, or too far back. It counts as redriven, so that
    /// nothing goes twice unless somebody says so.
    Undecided,
}

impl UnsentReason {
    /// All reasons.
    pub const ALL: [UnsentReason; 3] = [UnsentReason::TooLarge, UnsentReason::Gone, UnsentReason::Undecided];

    /// The stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            UnsentReason::TooLarge => "too_large",
            UnsentReason::Gone => "gone",
            UnsentReason::Undecided => "undecided",
        }
    }

    /// The reason of a code.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.code() == code)
    }
}

/// A letter of a batch that was not put back, or may not have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsent {
    /// The delivery.
    pub delivery: DeliveryId,
    /// Why.
    pub reason: UnsentReason,
}

/// An entry of the ledger of redrives, which is one partition: whoever reads it to its end knows what was put back.
///
/// A replay is carried on by one runner at a time, the one that claimed it. What another one writes about it is void.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedriveEntry {
    /// A replay was ordered.
    Ordered(ReplayOrder),
    /// `runner` carries it on from here, or still does; void when it was not `after` who did before. An empty name: nobody.
    Claimed {
        /// The replay.
        replay: ReplayId,
        /// Who.
        runner: String,
        /// Who did, as far as `runner` knew. Of two who take it over at once only the first one does.
        after: String,
    },
    /// These letters are put back now. What the runner writes next says that they were.
    Sending {
        /// The replay.
        replay: ReplayId,
        /// Who says so.
        runner: String,
        /// How far it is with them.
        step: ReplayStep,
        /// The letters.
        batch: RedriveBatch,
    },
    /// The letters of the batch that was being put back are put back, but for these.
    Settled {
        /// The replay.
        replay: ReplayId,
        /// Who says so.
        runner: String,
        /// Those that are not.
        unsent: Vec<Unsent>,
    },
    /// It went on without a letter to put back.
    Passed {
        /// The replay.
        replay: ReplayId,
        /// Who says so.
        runner: String,
        /// How far it is.
        step: ReplayStep,
    },
    /// Somebody wants it to stop. It stops when what was being put back is settled.
    Cancelled {
        /// The replay.
        replay: ReplayId,
        /// Who.
        by: String,
        /// When.
        at: Timestamp,
    },
    /// It is over.
    Ended {
        /// The replay.
        replay: ReplayId,
        /// Who says so.
        runner: String,
        /// When.
        at: Timestamp,
    },
}

impl RedriveEntry {
    /// The replay that it is about.
    #[must_use]
    pub const fn replay(&self) -> ReplayId {
        match self {
            RedriveEntry::Ordered(order) => order.replay,
            RedriveEntry::Claimed { replay, .. }
            | RedriveEntry::Sending { replay, .. }
            | RedriveEntry::Settled { replay, .. }
            | RedriveEntry::Passed { replay, .. }
            | RedriveEntry::Cancelled { replay, .. }
            | RedriveEntry::Ended { replay, .. } => *replay,
        }
    }
}
