//! What the journal of a partition holds. The content of a parked delivery is not here: it belongs to whoever keeps
//! deliveries, and travels beside its entry.

use mailrail_types::{History, HoldReason, MailboxKey, Timestamp};

/// Where a delivery stands in the deliveries partition. It names the delivery within the protocol.
pub type Source = u64;

/// Where an entry stands in the journal partition.
pub type Place = u64;

/// One entry of the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Place of the claim under which it was written: its owner's [`Kind::Claim`]. 0 in a claim itself, whose place is not
    /// known yet.
    pub epoch: Place,
    /// What it says.
    pub kind: Kind,
}

/// What an entry says.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A member takes the partition over.
    Claim(Claim),
    /// A delivery waits in its mailbox's backlog from now on; its content is in this entry.
    Park(Park),
    /// How far the backlog of a mailbox was worked off, and how its head stands.
    State(State),
    /// The mailbox has no backlog any more.
    Clear {
        /// The mailbox.
        mailbox: MailboxKey,
    },
    /// A delivery waits beside its mailbox, on its own time.
    Aside(Aside),
    /// A delivery that was set aside has ended.
    AsideEnded {
        /// Its mailbox.
        mailbox: MailboxKey,
        /// The delivery.
        source: Source,
    },
    /// The owner gives the partition up; these attempts may still run.
    HandOff(Vec<Unfinished>),
    /// A part of the state at this place.
    Snapshot(Snapshot),
    /// The next attempt is of this delivery. Written only in isolation, to find the delivery that kills its process.
    Trial {
        /// The delivery.
        source: Source,
    },
    /// The process outlived a trial, or the delivery goes without one.
    TrialEnded {
        /// The delivery.
        source: Source,
        /// What came of it.
        how: TrialEnd,
    },
    /// From here on deliveries go without trials.
    IsolationEnded,
}

/// What came of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialEnd {
    /// There was an attempt, and the process lives.
    Survived,
    /// There was no attempt.
    NotTried,
    /// The delivery is in quarantine, for the deaths of its trials before.
    Condemned,
}

impl TrialEnd {
    /// All of them.
    pub const ALL: [TrialEnd; 3] = [TrialEnd::Survived, TrialEnd::NotTried, TrialEnd::Condemned];

    /// Its stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            TrialEnd::Survived => "survived",
            TrialEnd::NotTried => "not_tried",
            TrialEnd::Condemned => "condemned",
        }
    }

    /// The one that has this code.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|end| end.code() == code)
    }
}

/// A member takes the partition over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Who, for people.
    pub member: String,
    /// Unlike that of any other claim.
    pub nonce: u64,
    /// The run of a program that claims: another one after each start. 0: not known.
    pub process: u64,
}

/// How a parked delivery joins the backlog of its mailbox (the chain rule, I4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// It is the first: the mailbox was not blocked.
    First,
    /// It follows this one.
    After(Source),
    /// It starts a stretch in front of the one that starts with this.
    Before(Source),
}

/// Why a delivery waits, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// Why.
    pub reason: HoldReason,
    /// Not before.
    pub until: Timestamp,
}

/// A delivery waits in its mailbox's backlog.
#[derive(Debug, Clone, PartialEq)]
pub struct Park {
    /// The mailbox.
    pub mailbox: MailboxKey,
    /// The delivery.
    pub source: Source,
    /// Its place in the backlog.
    pub link: Link,
    /// What it waits for, when it is the head; behind the head it waits for its turn.
    pub hold: Hold,
}

/// Where reading the journal goes on for a backlog, and the epoch that is valid there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// First place that may hold the next delivery of the backlog.
    pub at: Place,
    /// The latest claim before it.
    pub epoch: Place,
}

/// How far a backlog was worked off.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// The mailbox.
    pub mailbox: MailboxKey,
    /// Every delivery of the backlog up to this one has ended, and where the rest is.
    pub drained: Option<Drained>,
    /// How the head stands, when it was tried.
    pub head: Option<Head>,
}

/// What of a backlog has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// The last delivery that has ended.
    pub through: Source,
    /// Where the next one is.
    pub next: Cursor,
    /// How many have ended since the entry before.
    pub count: u32,
}

/// A delivery that was tried and waits.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// The delivery.
    pub source: Source,
    /// What it waits for.
    pub hold: Hold,
    /// Its attempts; `None`: as its content says.
    pub history: Option<History>,
}

/// A delivery that waits beside its mailbox.
#[derive(Debug, Clone, PartialEq)]
pub struct Aside {
    /// Its mailbox.
    pub mailbox: MailboxKey,
    /// Place of its content; `None`: in this entry.
    pub content: Option<Place>,
    /// Which, its attempts, and what it waits for.
    pub head: Head,
}

/// An attempt that may still run when its owner is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The mailbox.
    pub mailbox: MailboxKey,
    /// The delivery.
    pub source: Source,
    /// When the attempt is over at the latest.
    pub until: Timestamp,
}

/// A part of the state at the place of part 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Number of this part, from 0.
    pub part: u32,
    /// How many parts there are.
    pub parts: u32,
    /// Up to where the deliveries partition was done: a second record of the committed offset.
    pub done_below: Source,
    /// The newest record below that which was read: how the topic is known again when the group forgot its position.
    pub mark: Option<crate::checkpoint::Mark>,
    /// Takeovers in a row that followed an owner that ended without a word, with no progress between them.
    pub unclean: u32,
    /// What trials have shown.
    pub trials: crate::trials::Trials,
    /// The mailboxes with a backlog or deliveries aside.
    pub backlogs: Vec<(MailboxKey, crate::backlog::Backlog)>,
}
