//! Events → outboxes: reads a partition, has its events matched, sizes, and hands over what follows.
//!
//! An outbox is handed over as soon as the one before is in the log. Until then it is filled further, batch after batch: the
//! slower the log, the more goes into an append.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use mailrail_log::{Claim, LogError, Reader, StoredRecord};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, mpsc};

use crate::append::{Handed, Outbox};
use crate::config::BATCH_RECORDS_MAX;
use crate::fan_out::{Owed, fan_out};
use crate::find_matches::{Matched, Piece, find_matches};
use crate::partition::Matching;
use crate::tag::tag;

/// After a reader said that the log does not answer.
const READ_PAUSE: Duration = Duration::from_millis(500);

/// Recipients whose mailboxes are sized side by side, of all events of a piece. Each may wait for a reading of its own
/// counter: one after the other, a wide fan-out or many events would wait as many times.
pub(crate) const SIZED_AT_A_TIME: usize = 64;

/// Recipients that are sized before their records are made: what is known of them takes memory.
const SIZED_MAX: usize = 1_024;

/// What is handed over, and to whom.
pub(crate) struct Feed<'a> {
    matching: &'a Matching,
    partition: u32,
    filling: Outbox,
    /// One: whoever has it may hand over.
    turns: Arc<Semaphore>,
    hand: mpsc::Sender<Handed>,
}

impl<'a> Feed<'a> {
    /// One that hands over to `hand`, which has room for one.
    pub(crate) fn new(matching: &'a Matching, partition: u32, hand: mpsc::Sender<Handed>) -> Self {
        Self { matching, partition, filling: Outbox::default(), turns: Arc::new(Semaphore::new(1)), hand }
    }

    /// Feeds until the stop; everything that was read is then handed over.
    ///
    /// # Errors
    /// What the reader says, but that the log does not answer.
    pub(crate) async fn run(mut self, mut reader: Box<dyn Reader>, claim: &Claim) -> Result<(), LogError> {
        let ended = loop {
            let batch = tokio::select! {
                biased;
                () = claim.stop.cancelled() => break Ok(()),
                turn = turn(&self.turns), if !self.filling.is_empty() => {
                    self.hand_over(turn).await;
                    continue;
                }
                batch = reader.next(BATCH_RECORDS_MAX) => batch,
            };
            match batch {
                Ok(batch) => self.take(batch, claim).await,
                Err(LogError::Unavailable(problem)) => {
                    tracing::warn!(partition = self.partition, problem, "events cannot be read; waiting");
                    tokio::time::sleep(READ_PAUSE).await;
                }
                Err(error) => break Err(error),
            }
        };
        self.empty().await;
        ended
    }

    /// Takes a batch through all steps. At the stop the rest of it is left to the next owner: with filters that cost much, a batch
    /// can take longer than a partition has to end.
    async fn take(&mut self, batch: Vec<StoredRecord>, claim: &Claim) {
        let batch = Arc::new(batch);
        let mut from = 0;
        while from < batch.len() && !claim.stop.is_cancelled() {
            let (records, known) = (batch.clone(), self.matching.known.clone());
            let piece =
                self.matching.pool.run(move |memory| find_matches(&records, from, &known, memory)).await;
            self.count(&piece, &batch).await;
            from = piece.upto;
            let waits_for = piece.waits_for;
            self.fan_out(piece.matched).await;
            self.filling.trace(piece.spans);
            if let Some(last) = from.checked_sub(1).and_then(|at| batch.get(at)) {
                self.filling.done(last.offset + 1);
            }
            if let Some(seq) = waits_for {
                // Others do not wait with it: what is known to follow goes out.
                self.empty().await;
                self.matching.known.directory.reached(seq).await;
                self.matching.known.table.reached(seq).await;
            }
        }
    }

    /// Counts a piece, and adds its records that could not be understood. They fill an outbox as deliveries do.
    async fn count(&mut self, piece: &Piece, batch: &[StoredRecord]) {
        let (metrics, config) = (&self.matching.metrics, &self.matching.config);
        metrics.events.inc_by(piece.events());
        metrics.unmatched.inc_by(piece.unmatched);
        metrics.denied_by_producer.inc_by(piece.denied);
        piece.failures.tell(metrics);
        for (place, problem) in &piece.unreadable {
            let Some(record) = batch.get(*place) else { continue };
            metrics.quarantined.inc();
            let (partition, offset) = (self.partition, record.offset);
            let outcome = "quarantined";
            tracing::error!(partition, offset, problem, outcome, "event record goes to quarantine");
            self.filling.quarantine(&config.events_topic, partition, record, problem);
            if self.filling.room().is_used_up() {
                self.empty().await;
            }
        }
    }

    /// Sizes the recipients of a piece's events and adds their deliveries, in order whichever is sized first.
    async fn fan_out(&mut self, mut matched: Vec<Matched>) {
        if matched.is_empty() {
            return;
        }
        let matching = self.matching;
        let targets: Vec<_> = (0..)
            .zip(&mut matched)
            .flat_map(|(event, matched)| {
                std::mem::take(&mut matched.targets).into_iter().map(move |target| (event, target))
            })
            .collect();
        let matched = Arc::new(matched);
        let events = matched.clone();
        let sized = targets.into_iter().map(|(event, target)| {
            let events = &events;
            async move {
                let class = matching.directory().class(&target.class);
                let of = &events[event].event;
                let (config, sizer, mailboxes) = (&matching.config, &matching.sizer, &matching.mailboxes);
                let tagged = tag(config, sizer, mailboxes, &class, of, &target).await;
                Owed { event, target, tagged }
            }
        });
        let mut sized = std::pin::pin!(stream::iter(sized).buffered(SIZED_AT_A_TIME).chunks(SIZED_MAX));
        while let Some(owed) = sized.next().await {
            self.deliver(&matched, owed).await;
        }
    }

    async fn deliver(&mut self, matched: &Arc<Vec<Matched>>, owed: Vec<Owed>) {
        let owed = Arc::new(owed);
        let mut from = 0;
        while from < owed.len() {
            let (matched, owed, config) = (matched.clone(), owed.clone(), self.matching.config.clone());
            let (room, now) = (self.filling.room(), (self.matching.clock)());
            let made =
                self.matching.pool.run(move |_| fan_out(&matched, &owed, from, room, now, &config)).await;
            from = made.upto;
            self.filling.deliver(made);
            if self.filling.room().is_used_up() {
                self.empty().await;
            }
        }
    }

    /// Hands over what there is, when it is its turn.
    async fn empty(&mut self) {
        if !self.filling.is_empty() {
            let turn = turn(&self.turns).await;
            self.hand_over(turn).await;
        }
    }

    async fn hand_over(&mut self, turn: Result<OwnedSemaphorePermit, AcquireError>) {
        let outbox = std::mem::take(&mut self.filling);
        let Ok(turn) = turn else { return };
        // There is room: nothing is there while it is our turn. Whoever appends ends after us.
        let _ = self.hand.send(Handed { outbox, turn }).await;
    }
}

async fn turn(turns: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, AcquireError> {
    turns.clone().acquire_owned().await
}
