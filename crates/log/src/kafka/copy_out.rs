//! Record of the client → buffer of its partition.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use mailrail_types::Timestamp;
use rdkafka::message::{BorrowedMessage, Headers, Message};

use super::readers::Slot;
use crate::{Offset, StoredRecord};

/// Records after which readers are told at the latest that there are some. A reader that is woken for each record takes one at a
/// time, and each time costs a thread its sleep; at a million records a second this is a quarter of a millisecond.
const UNTOLD_MAX: usize = 256;

/// Buffers by topic and partition.
pub(super) type Slots = HashMap<String, HashMap<u32, Arc<Slot>>>;

/// Buffers that got records which their readers were not told of.
#[derive(Default)]
pub(super) struct Untold {
    /// In the order of their first record. Fetched records of a partition come in runs, so the last one is the next one most often.
    slots: Vec<Arc<Slot>>,
    records: usize,
}

impl Untold {
    /// The buffer of the record before, when it is of the same partition.
    fn same(&self, message: &BorrowedMessage<'_>) -> Option<Arc<Slot>> {
        let last = self.slots.last()?;
        let is_same =
            i64::from(last.partition) == i64::from(message.partition()) && last.topic == message.topic();
        is_same.then(|| last.clone())
    }

    fn add(&mut self, slot: &Arc<Slot>) {
        if !self.slots.last().is_some_and(|last| Arc::ptr_eq(last, slot)) {
            self.slots.push(slot.clone());
        }
        self.records += 1;
        if self.records >= UNTOLD_MAX {
            self.tell();
        }
    }

    /// Wakes their readers.
    pub(super) fn tell(&mut self) {
        self.records = 0;
        // One that is there twice is told twice: it looks once more and finds nothing.
        self.slots.drain(..).for_each(|slot| slot.ready.notify_one());
    }
}

/// Copies the record out: a borrowed one would pin its whole fetched batch. Gives the buffer when it is full now.
pub(super) fn copy_out(
    assigned: &Slots,
    untold: &mut Untold,
    message: &BorrowedMessage<'_>,
) -> Option<Arc<Slot>> {
    let of = || assigned.get(message.topic())?.get(&u32::try_from(message.partition()).ok()?).cloned();
    let slot = untold.same(message).or_else(of)?;
    let offset = Offset::try_from(message.offset()).ok()?;
    let full = slot.put(offset, || copy(offset, message));
    untold.add(&slot);
    full.then_some(slot)
}

fn copy(offset: Offset, message: &BorrowedMessage<'_>) -> StoredRecord {
    let bytes = |it: Option<&[u8]>| Bytes::copy_from_slice(it.unwrap_or_default());
    let headers = message.headers().map_or_else(Vec::new, |headers| {
        headers.iter().map(|it| (it.key.to_owned(), bytes(it.value))).collect()
    });
    StoredRecord {
        offset,
        appended_at: Timestamp(message.timestamp().to_millis().unwrap_or(0)),
        key: bytes(message.key()),
        value: bytes(message.payload()),
        headers,
    }
}
