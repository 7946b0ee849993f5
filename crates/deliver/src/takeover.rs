//! From an assignment to an owner at work: claim, position, journal, and only then the first delivery (I3).

use std::pin::pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mailrail_log::{Bounds, Claim, LogError, NewRecord, Offset, Reader, Readers};
use mailrail_mailbox::{Checkpoint, Config, Entry, Fold, Kind, Mark, Place, Protocol, Source};
use mailrail_wire::{decode_entry, encode_entry};
use tokio::time::Instant;

use crate::config::BATCH_RECORDS_MAX;
use crate::observe::{Volume, taken_over};
use crate::service::Shared;

/// A partition that was taken over.
pub(crate) struct Taken {
    pub(crate) protocol: Protocol,
    /// Reads the journal on from behind the claim.
    pub(crate) tail: Box<dyn Reader>,
    /// Entries that were read behind the claim already.
    pub(crate) ahead: Vec<(Place, Entry, usize)>,
    /// Reads the deliveries from where they are not done.
    pub(crate) deliveries: Box<dyn Reader>,
    /// The newest record below the checkpoint that is known.
    pub(crate) mark: Option<Mark>,
    /// What was read of the journal.
    pub(crate) read: Volume,
}

/// How often a partition is claimed anew when the journal has a hole where the committed position points. It is the sign of a
/// successor that trimmed meanwhile, and only when it stays of data that is gone.
const CLAIMS_MAX: u32 = 3;
/// How long a check of an owned partition may take.
const CHECK_WAIT: Duration = Duration::from_secs(10);
/// Between those claims.
const CLAIM_PAUSE: Duration = Duration::from_millis(700);
/// After this long a step of a takeover is worth a warning, and again after each.
const SLOW_STEP: Duration = Duration::from_secs(10);

/// Takes a partition over.
///
/// # Errors
/// [`LogError::OutOfRange`] when records that are owed are gone, or a topic was made anew: a person must decide. Anything else: try
/// again.
pub(crate) async fn take_over(shared: &Shared, claim: &Claim) -> Result<Taken, LogError> {
    let started = Instant::now();
    let mut claims = 1;
    let (restored, mut from, first) = loop {
        match restore(shared, claim).await {
            Err(LogError::OutOfRange { .. }) if claims < CLAIMS_MAX => claims += 1,
            restored => break restored?,
        }
        tokio::time::sleep(CLAIM_PAUSE).await;
    };
    let partition = claim.partition;
    if first && let Some(done_below) = restored.fold.done_below() {
        // The group forgot its position; the journal did not.
        tracing::warn!(partition, offset = done_below, "no committed offset: the journal's is taken");
        from = Checkpoint { mark: restored.fold.mark(), ..Checkpoint::at(done_below) };
    }
    let mark = from.mark;
    let opened = open_deliveries(shared, partition, &from, restored.fold.last_source());
    let (deliveries, end) = step(partition, "the deliveries to answer", opened).await?;
    let could_kill = taken_over(&shared.metrics, &restored.fold, &from, end, shared.now());
    let config = Config::new(shared.config.window, shared.config.attempt_timeout);
    let (backlogs, handed_off) = (restored.fold.len(), restored.fold.was_handed_off());
    let (offset, epoch) = (from.offset, restored.epoch);
    let mut protocol = Protocol::new(config, restored.fold, epoch, from, shared.now());
    protocol.inherit(shared.cut.of(partition, shared.now()), shared.now());
    if !could_kill {
        protocol.nothing_was_due();
    }
    let took = started.elapsed();
    shared.metrics.takeover_seconds.observe(took.as_secs_f64());
    tracing::info!(
        partition,
        epoch,
        offset,
        backlogs,
        handed_off,
        unclean = protocol.unclean(),
        took_ms = took.as_millis(),
        "partition taken over"
    );
    let Restored { tail, ahead, read, .. } = restored;
    Ok(Taken { protocol, tail, ahead, deliveries, mark, read })
}

/// One step of a takeover. Nobody else delivers what is in the partition meanwhile, so it is said what a slow one waits for.
async fn step<T>(partition: u32, waits_for: &'static str, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        match tokio::time::timeout(SLOW_STEP, &mut work).await {
            Ok(done) => return done,
            Err(_) => tracing::warn!(partition, waits_for, "a partition is not taken over yet"),
        }
    }
}

async fn write_claim(shared: &Shared, partition: u32) -> Result<Place, LogError> {
    let (member, process) = (shared.config.member.clone(), shared.process);
    let claim = mailrail_mailbox::Claim { member, nonce: nonce(), process };
    let value = encode_entry(&Entry { epoch: 0, kind: Kind::Claim(claim) }, None);
    let record = NewRecord { value, ..NewRecord::default() };
    let places = shared.log.append(&shared.config.journal_topic, partition, vec![record]).await?;
    places.first().copied().ok_or_else(|| LogError::Unavailable("the log gave no offset".to_owned()))
}

/// Unlike that of any other claim, and for people only: the place of a claim is what tells it apart.
fn nonce() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX) ^ rand::random::<u64>()
}

struct Restored {
    fold: Fold,
    /// Place of our claim.
    epoch: Place,
    tail: Box<dyn Reader>,
    ahead: Vec<(Place, Entry, usize)>,
    read: Volume,
}

/// Claims the partition, asks where the group is, and reads the journal from there through the claim. Also says whether the
/// group never was anywhere.
async fn restore(shared: &Shared, claim: &Claim) -> Result<(Restored, Checkpoint, bool), LogError> {
    let (topic, partition) = (&shared.config.journal_topic, claim.partition);
    let epoch = step(partition, "its claim to be written", write_claim(shared, partition)).await?;
    // Asked for after the claim is in the journal: whatever the owner before parked and committed stands before it.
    let found = step(partition, "the group's position", claim.find_position()).await;
    let from = Checkpoint::read(found.at.offset, &found.at.metadata);
    let journal = step(partition, "the journal's bounds", bounds(shared, topic, partition)).await?;
    let start = from.snapshot.unwrap_or(journal.low);
    if start < journal.low || start > epoch {
        return Err(out_of_range(topic, partition, start, journal));
    }
    let read = read_journal(shared, partition, start, epoch);
    let restored = step(partition, "the journal to be read", read).await?;
    if start > 0 && restored.fold.snapshot().is_none() {
        // What is below was trimmed, and nothing says what it was.
        return Err(out_of_range(topic, partition, 0, journal));
    }
    Ok((restored, from, found.first))
}

/// Reads the journal from `start` through our own claim at `epoch`.
async fn read_journal(
    shared: &Shared,
    partition: u32,
    start: Place,
    epoch: Place,
) -> Result<Restored, LogError> {
    let mut tail = shared.journals.open(&shared.config.journal_topic, partition, start)?;
    let (mut fold, mut ahead, mut read) = (Fold::new(start), Vec::new(), Volume::default());
    while fold.next() <= epoch {
        for record in tail.next(BATCH_RECORDS_MAX).await? {
            let entry = entry(partition, record.offset, &record.value)?;
            if record.offset <= epoch {
                read.add(record.value.len());
                fold.apply(record.offset, &entry);
            } else {
                ahead.push((record.offset, entry, record.value.len()));
            }
        }
    }
    Ok(Restored { fold, epoch, tail, ahead, read })
}

/// The entry of a journal record. One that cannot be read stops the partition: what it says about a delivery is not known.
///
/// # Errors
/// [`LogError::Unavailable`]: an older version of this program cannot go on, a newer one can.
pub(crate) fn entry(partition: u32, place: Place, value: &bytes::Bytes) -> Result<Entry, LogError> {
    match decode_entry(value) {
        Ok((entry, _)) => Ok(entry),
        Err(error) => {
            Err(LogError::Unavailable(format!("journal entry {partition}/{place} cannot be read: {error}")))
        }
    }
}

/// Opens the deliveries where they are not done. When a record below is known, reading starts there, to see that it is still
/// the same: a topic that was made anew holds another one. Says where the deliveries end, too.
async fn open_deliveries(
    shared: &Shared,
    partition: u32,
    from: &Checkpoint,
    last_known: Option<Source>,
) -> Result<(Box<dyn Reader>, Offset), LogError> {
    let topic = &shared.config.deliveries_topic;
    let bounds = bounds(shared, topic, partition).await?;
    if from.offset < bounds.low || from.offset > bounds.high {
        return Err(out_of_range(topic, partition, from.offset, bounds));
    }
    if let Some(last) = last_known.filter(|last| *last >= bounds.high) {
        // The journal tells of a delivery that this topic never held.
        return Err(out_of_range(topic, partition, last, bounds));
    }
    let Some(mark) = from.mark.filter(|mark| mark.offset >= bounds.low) else {
        return Ok((shared.readers.open(topic, partition, from.offset)?, bounds.high));
    };
    check_mark(shared, &*shared.readers, partition, mark, bounds).await?;
    Ok((shared.readers.open(topic, partition, from.offset)?, bounds.high))
}

/// Whether the deliveries topic is the one that was read before, by a record that was there. One that retention took says
/// nothing.
///
/// # Errors
/// [`LogError::OutOfRange`] when it is another one; what reading it said.
async fn check_mark(
    shared: &Shared,
    readers: &dyn Readers,
    partition: u32,
    mark: Mark,
    bounds: Bounds,
) -> Result<(), LogError> {
    let topic = &shared.config.deliveries_topic;
    if mark.offset < bounds.low {
        return Ok(());
    }
    let mut is_same = false;
    if mark.offset < bounds.high {
        let first = match readers.open(topic, partition, mark.offset)?.next(1).await {
            // Retention may have taken it since the bounds were asked for.
            Err(LogError::OutOfRange { low, .. }) if mark.offset < low => return Ok(()),
            first => first?,
        };
        is_same = first.first().is_some_and(|r| r.offset == mark.offset && r.appended_at == mark.appended_at);
    }
    if is_same {
        return Ok(());
    }
    tracing::error!(
        partition,
        offset = mark.offset,
        "the deliveries topic is not the one that was read before"
    );
    Err(out_of_range(topic, partition, mark.offset, bounds))
}

/// The same while the partition is owned: the group notices a topic that was made anew minutes later, and a reader may not
/// notice it at all.
///
/// # Errors
/// [`LogError::OutOfRange`] when the topic is another one; [`LogError::Unavailable`] when nobody can say.
pub(crate) async fn check_same_topic(shared: &Shared, partition: u32, mark: Mark) -> Result<(), LogError> {
    let check = async {
        let bounds = bounds(shared, &shared.config.deliveries_topic, partition).await?;
        check_mark(shared, &*shared.backlogs, partition, mark, bounds).await
    };
    let unknown = |_| LogError::Unavailable("the deliveries topic does not answer".to_owned());
    tokio::time::timeout(CHECK_WAIT, check).await.map_err(unknown)?
}

async fn bounds(shared: &Shared, topic: &str, partition: u32) -> Result<Bounds, LogError> {
    shared.log.bounds(topic, partition).await
}

fn out_of_range(topic: &str, partition: u32, wanted: Offset, bounds: Bounds) -> LogError {
    let (topic, low, high) = (topic.to_owned(), bounds.low, bounds.high);
    LogError::OutOfRange { topic, partition, wanted, low, high }
}
