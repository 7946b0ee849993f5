//! What a topic holds.

use mailrail_log::{Log, Readers, StoredRecord};

/// Records that are asked for at once.
const READ_RECORDS: usize = 500;

/// Every record that is in the topic now, partition by partition.
///
/// # Panics
/// When the log does not say.
pub async fn read_topic(log: &dyn Log, topic: &str, partitions: u32) -> Vec<StoredRecord> {
    let readers = log.readers().expect("readers");
    let mut records = Vec::new();
    for partition in 0..partitions {
        records.extend(read(log, &*readers, topic, partition).await);
    }
    records
}

/// Every record that is in the partition now.
///
/// # Panics
/// When the log does not say.
pub async fn read_partition(log: &dyn Log, topic: &str, partition: u32) -> Vec<StoredRecord> {
    let readers = log.readers().expect("readers");
    read(log, &*readers, topic, partition).await
}

async fn read(log: &dyn Log, readers: &dyn Readers, topic: &str, partition: u32) -> Vec<StoredRecord> {
    let bounds = log.bounds(topic, partition).await.expect("bounds");
    let mut reader = readers.open(topic, partition, bounds.low).expect("a reader");
    let (mut records, mut next) = (Vec::new(), bounds.low);
    while next < bounds.high {
        let batch = reader.next(READ_RECORDS).await.expect("records");
        next = batch.last().map_or(next, |record| record.offset + 1);
        records.extend(batch);
    }
    records
}
