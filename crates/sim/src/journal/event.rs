//! What happens in a run.

use mailrail_mailbox::{Checkpoint, Entry};

use super::owner::Content;

/// Names an owner: one process's ownership of one partition, from its claim to its end. Never used again (I11).
pub(super) type OwnerId = u64;
/// Names a member of the group; a process that joins again is another one.
pub(super) type MemberId = u64;
/// Names an attempt.
pub(super) type AttemptId = u64;

/// An entry on its way to the journal, with the content of its delivery.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) entry: Entry,
    pub(super) content: Option<Content>,
    pub(super) bytes: usize,
}

#[derive(Debug, Clone)]
pub(super) struct CommitRequest {
    pub(super) owner: OwnerId,
    pub(super) member: MemberId,
    pub(super) generation: u64,
    pub(super) partition: usize,
    pub(super) checkpoint: Checkpoint,
    pub(super) sent: mailrail_types::Timestamp,
    /// Says which attempt of an owner to commit this is.
    pub(super) number: u64,
}

impl CommitRequest {
    /// The mutation I11: whatever generation it is when the commit arrives.
    pub(super) const ANY_GENERATION: u64 = u64::MAX;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommitAnswer {
    Accepted,
    /// A rebalance, an older generation, a coordinator that is not ready: to be tried again.
    Refused,
    UnknownMember,
    /// No answer came.
    TimedOut,
}

#[derive(Debug, Clone)]
pub(super) enum Event {
    /// A delivery is appended.
    Delivery,
    /// A receiver changes.
    Receiver(usize),
    /// Something goes wrong with the processes.
    Trouble,
    /// From here on nothing goes wrong.
    Calm,
    /// A stopped process goes on.
    Resume(usize),
    /// A process starts.
    Boot(usize),
    Heartbeat {
        process: usize,
        member: MemberId,
    },
    /// The coordinator looks whose session is over.
    Sessions,
    /// The group tells a member the generation and what to give up or take.
    Sync {
        process: usize,
        member: MemberId,
    },
    /// An owner may have something to do.
    Wake(OwnerId),
    /// A time of the protocol of an owner has come.
    Timer(OwnerId),
    /// A takeover fails or goes on.
    TakeOver(OwnerId),
    CommitTick(OwnerId),
    /// A batch, or one entry of it, reaches the journal.
    Land {
        partition: usize,
        batch: u64,
        at: usize,
        stored: Box<Stored>,
    },
    /// The owner learns what became of a batch: its first place, or nothing.
    Appended {
        owner: OwnerId,
        batch: u64,
        arrived: bool,
    },
    CommitArrives {
        request: Box<CommitRequest>,
        answer_lost: bool,
    },
    CommitAnswered {
        request: Box<CommitRequest>,
        answer: CommitAnswer,
    },
    /// A request reaches its receiver.
    Arrive(AttemptId),
    /// A delivery takes the process down that attempts it.
    Kill(AttemptId),
    /// The owner learns what came of an attempt.
    Reply(AttemptId),
    /// An end is recorded, or could not be.
    Recorded {
        owner: OwnerId,
        source: u64,
        dead: bool,
        written: bool,
    },
    /// The next part of a pass over the journal.
    Scan(OwnerId),
    /// An owner that stops waited long enough.
    HandOver(OwnerId),
}
