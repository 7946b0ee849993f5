//! The journal: what the protocol says goes there, comes back, and is read again when its time has come.

use bytes::Bytes;
use mailrail_log::{LogError, NewRecord, StoredRecord};
use mailrail_mailbox::{Entry, Kind, Place, Scanned, Source};
use mailrail_types::HoldReason;
use mailrail_wire::{decode_delivery, decode_entry, encode_delivery, encode_entry};

use super::reading::Reading;
use super::turns::not_at_hand;
use super::{Partition, Step};
use crate::config::{BATCH_RECORDS_MAX, ENTRIES_MAX};
use crate::contents::Held;
use crate::decode::{class, shape};
use crate::takeover::entry;

impl Partition {
    /// Appends the next batch, when there is one and none is on its way.
    ///
    /// # Errors
    /// When what is to be parked is not at hand: written without it, it would be lost.
    pub(super) fn append_what_waits(&mut self) -> Result<(), LogError> {
        let Some(batch) = self.protocol.take_batch(ENTRIES_MAX, self.shared.now()) else { return Ok(()) };
        let records = batch.iter().map(|entry| self.journal_record(entry)).collect::<Result<_, _>>()?;
        let (shared, partition) = (self.shared.clone(), self.claim.partition);
        self.tasks.spawn(async move {
            Step::Appended(shared.log.append(&shared.config.journal_topic, partition, records).await)
        });
        Ok(())
    }

    fn journal_record(&self, entry: &Entry) -> Result<NewRecord, LogError> {
        let (mailbox, content) = match &entry.kind {
            Kind::Park(park) => (Some(&park.mailbox), Some(park.source)),
            Kind::Aside(aside) => {
                (Some(&aside.mailbox), aside.content.is_none().then_some(aside.head.source))
            }
            Kind::State(state) => (Some(&state.mailbox), None),
            Kind::Clear { mailbox } | Kind::AsideEnded { mailbox, .. } => (Some(mailbox), None),
            Kind::Claim(_)
            | Kind::HandOff(_)
            | Kind::Snapshot(_)
            | Kind::Trial { .. }
            | Kind::TrialEnded { .. }
            | Kind::IsolationEnded => (None, None),
        };
        let content = content.map(|source| self.content(source)).transpose()?;
        let key = mailbox.map(|mailbox| Bytes::copy_from_slice(mailbox.as_str().as_bytes()));
        let value = encode_entry(entry, content.as_deref());
        Ok(NewRecord { key: key.unwrap_or_default(), value, headers: Vec::new() })
    }

    fn content(&self, source: Source) -> Result<Bytes, LogError> {
        let held = self.contents.get(source);
        debug_assert!(held.is_some(), "what is parked is at hand");
        held.map(|held| encode_delivery(&held.delivery)).ok_or_else(|| not_at_hand(source, "is to be parked"))
    }

    /// Entries come back from the journal.
    pub(super) fn take_tail(&mut self, batch: Result<Vec<StoredRecord>, LogError>) -> Result<(), LogError> {
        for record in self.read_or_wait("journal", batch)? {
            let entry = entry(self.claim.partition, record.offset, &record.value)?;
            self.take_entry(record.offset, &entry, record.value.len())?;
        }
        Ok(())
    }

    pub(super) fn take_entry(&mut self, place: Place, entry: &Entry, bytes: usize) -> Result<(), LogError> {
        self.observed.note_entry(bytes);
        // It may stay at hand.
        if let Some((source, reason)) = parked_for(&entry.kind)
            && let Some(held) = self.contents.get_mut(source)
        {
            held.hold_back(reason);
        }
        let applied = self.protocol.applied(place, entry, bytes, self.shared.now());
        self.forget();
        applied.map_err(|fenced| self.fenced(fenced))
    }

    /// Reads parked deliveries again that are due and not at hand.
    pub(super) fn scan_what_is_wanted(&mut self) {
        if self.scan.is_some() {
            return;
        }
        let Some(from) = self.protocol.start_scan() else { return };
        match self.shared.backlogs.open(&self.shared.config.journal_topic, self.claim.partition, from) {
            Ok(reader) => self.scan = Some(Reading::new(reader, BATCH_RECORDS_MAX)),
            Err(error) => {
                self.protocol.scan_failed();
                self.wait_for_log("journal", &error.to_string());
            }
        }
    }

    pub(super) fn take_scanned(
        &mut self,
        batch: Result<Vec<StoredRecord>, LogError>,
    ) -> Result<(), LogError> {
        if let Err(error @ LogError::OutOfRange { .. }) = &batch {
            // A successor of ours trimmed what we still wanted: the end of the journal says so, and ends this owner. While it
            // does not, the pass is made again.
            self.protocol.scan_failed();
            self.scan = None;
            self.wait_for_log("journal", &error.to_string());
            return Ok(());
        }
        for record in self.read_or_wait("journal", batch)? {
            if self.protocol.is_scanning() {
                self.take_scanned_entry(&record)?;
            }
        }
        if !self.protocol.is_scanning() {
            self.scan = None;
        }
        Ok(())
    }

    fn take_scanned_entry(&mut self, record: &StoredRecord) -> Result<(), LogError> {
        let place = record.offset;
        let (entry, content) = decode_entry(&record.value).map_err(|error| unreadable(place, &error))?;
        let delivery = content.map(|content| decode_delivery(&content)).transpose();
        let delivery = delivery.map_err(|error| unreadable(place, &error))?;
        let bytes = record.value.len();
        let class = delivery.as_ref().and_then(|delivery| class(&self.shared.directory, delivery));
        let shape = delivery.as_ref().map(|delivery| shape(class.as_deref(), delivery, bytes));
        let scanned = self.protocol.scanned(place, &entry, shape, self.shared.now());
        self.forget();
        if let (Scanned::Wanted(source), Some(delivery)) = (scanned, delivery)
            && self.contents.get(source).is_none()
        {
            let mut held = Held::new(delivery);
            held.class = class;
            if let Some((_, reason)) = parked_for(&entry.kind) {
                held.hold_back(reason);
            }
            self.contents.insert(source, held);
        }
        Ok(())
    }
}

/// Which delivery an entry parks or sets aside, and why.
fn parked_for(kind: &Kind) -> Option<(Source, HoldReason)> {
    match kind {
        Kind::Park(park) => Some((park.source, park.hold.reason)),
        Kind::Aside(aside) => Some((aside.head.source, aside.head.hold.reason)),
        Kind::State(_)
        | Kind::Clear { .. }
        | Kind::AsideEnded { .. }
        | Kind::Claim(_)
        | Kind::HandOff(_)
        | Kind::Snapshot(_)
        | Kind::Trial { .. }
        | Kind::TrialEnded { .. }
        | Kind::IsolationEnded => None,
    }
}

fn unreadable(place: Place, error: &mailrail_wire::Error) -> LogError {
    LogError::Unavailable(format!("what is parked at {place} of the journal cannot be read: {error}"))
}
