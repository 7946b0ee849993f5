//! A batch that may be written only in part: what of it is in the deliveries, and the rest.

use std::collections::{HashMap, HashSet};

use mailrail_log::{NewRecord, Reader};
use mailrail_types::{DeadLetter, DeliveryId, RedriveBatch, Redriven, Unsent, UnsentReason};
use mailrail_wire::decode_dead_letter;

use super::batch::{Put, READ_AT_A_TIME, REPLAY_HEADER, identity};
use super::run::Run;
use crate::dead_letters::Trouble;
use crate::dead_letters::follow::answer;

/// Deliveries of a batch, with how often each was redriven.
pub(super) type There = HashSet<(DeliveryId, u32)>;

/// Which deliveries of a batch are in the log.
#[derive(Debug)]
pub(super) enum Found {
    /// These, and no others.
    All(There),
    /// These. Whether others are, or were, cannot be said: what would show it is deleted, or too far back.
    Part(There),
    /// The replay is not this process's any more.
    Lost,
    /// The process is to end.
    Stopped,
}

impl Run<'_> {
    /// Looks for the deliveries of a batch, from where it began to the end of the log, or to the last of them.
    pub(super) async fn find(&mut self, batch: &RedriveBatch) -> Result<Found, Trouble> {
        let limits = self.all.inner.limits;
        let topic = &self.all.inner.pipeline.deliveries.name;
        let bounds = answer(limits.answer, self.all.inner.log.bounds(topic, batch.partition)).await?;
        // Trimmed, or made anew.
        let is_cut = bounds.low > batch.deliveries_from || bounds.high < batch.deliveries_from;
        let mut next = batch.deliveries_from.max(bounds.low);
        let end = bounds.high.min(next.saturating_add(self.all.inner.options.searched_max));
        let (mine, mut there) = (self.replay.to_string(), There::new());
        let mut reader = None;
        while next < end && there.len() < batch.letters.len() {
            if self.stop.is_cancelled() {
                return Ok(Found::Stopped);
            }
            if !self.is_heard().await? {
                return Ok(Found::Lost);
            }
            let reader = match &mut reader {
                Some(reader) => reader,
                None => reader.insert(self.readers.open(topic, batch.partition, next).map_err(Trouble::of)?),
            };
            let most = usize::try_from(end - next).unwrap_or(READ_AT_A_TIME).min(READ_AT_A_TIME);
            for record in answer(limits.answer, reader.next(most)).await? {
                next = record.offset + 1;
                let of_mine =
                    record.headers.iter().any(|(name, value)| name == REPLAY_HEADER && *value == mine);
                let found = of_mine.then(|| identity(&record.value)).flatten();
                there.extend(found.filter(|it| is_of(batch, *it)));
            }
        }
        let is_whole = there.len() >= batch.letters.len() || (!is_cut && next >= bounds.high);
        Ok(if is_whole { Found::All(there) } else { Found::Part(there) })
    }

    /// Letters of which nobody can say any more whether they were put back.
    pub(super) fn undecided(&self, batch: &RedriveBatch, records: &[NewRecord]) -> Vec<Unsent> {
        let letters = records.iter().filter_map(|record| identity(&record.value));
        self.say_undecided(batch, letters.map(|(delivery, _)| delivery).collect())
    }

    fn say_undecided(&self, batch: &RedriveBatch, letters: Vec<DeliveryId>) -> Vec<Unsent> {
        if !letters.is_empty() {
            tracing::error!(
                replay = %self.replay, partition = batch.partition, from = batch.deliveries_from, letters = letters.len(),
                "whether letters were put back cannot be found out any more; they are not put back again unless it is said"
            );
        }
        letters.into_iter().map(|delivery| Unsent { delivery, reason: UnsentReason::Undecided }).collect()
    }

    /// Finishes a batch that a runner before this one may have written in part.
    pub(super) async fn settle(&mut self, batch: &RedriveBatch) -> Result<Put, Trouble> {
        let (there, is_whole) = match self.find(batch).await? {
            Found::All(there) => (there, true),
            Found::Part(there) => (there, false),
            Found::Lost => return Ok(Put::Lost),
            Found::Stopped => return Ok(Put::Stopped),
        };
        let missing: Vec<_> =
            batch.letters.iter().filter(|it| !there.contains(&(it.delivery, it.redrives))).copied().collect();
        tracing::info!(
            replay = %self.replay, partition = batch.partition, there = there.len(), missing = missing.len(),
            "a batch that was begun is finished"
        );
        if !is_whole {
            let letters = missing.into_iter().map(|letter| letter.delivery).collect();
            return Ok(Put::Done(self.say_undecided(batch, letters)));
        }
        let Some(mut letters) = self.letters_at(batch.partition, &missing).await? else {
            return Ok(Put::Lost);
        };
        let (mut records, mut gone) = (Vec::new(), Vec::new());
        for letter in missing {
            match letters.remove(&letter.offset).filter(|read| read.delivery.id == letter.delivery) {
                Some(read) => records.push(self.record(read, letter.redrives)),
                None => {
                    tracing::error!(replay = %self.replay, delivery_id = %letter.delivery, "a letter is gone and cannot be put back");
                    gone.push(Unsent { delivery: letter.delivery, reason: UnsentReason::Gone });
                }
            }
        }
        Ok(match self.put_back(batch, records).await? {
            Put::Done(unsent) => Put::Done(gone.into_iter().chain(unsent).collect()),
            other => other,
        })
    }

    /// The letters of a batch as they stand in the dead letters; `None` when the replay is not this process's any more.
    async fn letters_at(
        &mut self,
        partition: u32,
        letters: &[Redriven],
    ) -> Result<Option<HashMap<u64, DeadLetter>>, Trouble> {
        let (limits, mut found) = (self.all.inner.limits, HashMap::new());
        let topic = &self.all.inner.pipeline.dead_letters.name;
        let bounds = answer(limits.answer, self.all.inner.log.bounds(topic, partition)).await?;
        let mut at: Option<(u64, Box<dyn Reader>)> = None;
        // One by one, and not all that is between them: a filter may have taken few of many.
        for letter in letters.iter().filter(|letter| (bounds.low..bounds.high).contains(&letter.offset)) {
            if !self.is_heard().await? {
                return Ok(None);
            }
            let mut reader = match at.take() {
                Some((next, reader)) if next == letter.offset => reader,
                _ => self.readers.open(topic, partition, letter.offset).map_err(Trouble::of)?,
            };
            let records = answer(limits.answer, reader.next(1)).await?;
            if let Some(record) = records.first().filter(|record| record.offset == letter.offset) {
                if let Ok(letter) = decode_dead_letter(&record.value) {
                    found.insert(record.offset, letter);
                }
                at = Some((record.offset + 1, reader));
            }
        }
        Ok(Some(found))
    }
}

fn is_of(batch: &RedriveBatch, (delivery, redrives): (DeliveryId, u32)) -> bool {
    batch.letters.iter().any(|letter| letter.delivery == delivery && letter.redrives == redrives)
}
