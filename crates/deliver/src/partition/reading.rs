//! A reader that is asked once for each batch, and not once for each turn of the partition's loop: a question that is dropped
//! gives up its place among those that wait for records, and most turns have to do with something else.

use std::future::poll_fn;
use std::pin::Pin;

use mailrail_log::{LogError, Reader, StoredRecord};

type Batch = Result<Vec<StoredRecord>, LogError>;

/// The next batch, and the reader again.
type Asked = Pin<Box<dyn Future<Output = (Box<dyn Reader>, Batch)> + Send>>;

/// A reader with a question that is open. Dropped, the reader ends.
pub(super) struct Reading {
    asked: Asked,
    max_records: usize,
}

impl Reading {
    /// Takes at most so many records at once.
    pub(super) fn new(reader: Box<dyn Reader>, max_records: usize) -> Self {
        Self { asked: ask(reader, max_records), max_records }
    }

    /// At least one record, as [`Reader::next`]. Cancel safe; while nobody waits here nothing is taken from the reader.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub(super) async fn next(&mut self) -> Batch {
        let (reader, batch) = poll_fn(|cx| self.asked.as_mut().poll(cx)).await;
        self.asked = ask(reader, self.max_records);
        batch
    }
}

fn ask(mut reader: Box<dyn Reader>, max_records: usize) -> Asked {
    Box::pin(async move {
        let batch = reader.next(max_records).await;
        (reader, batch)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use async_trait::async_trait;
    use mailrail_types::Timestamp;
    use tokio::sync::mpsc;
    use tokio::time::{Duration, timeout};

    use super::*;

    /// Gives what is sent to it, and counts how often it is asked.
    struct Given {
        batches: mpsc::Receiver<Batch>,
        asked: mpsc::Sender<usize>,
    }

    #[async_trait]
    impl Reader for Given {
        async fn next(&mut self, max_records: usize) -> Batch {
            let _ = self.asked.try_send(max_records);
            self.batches.recv().await.unwrap_or_else(|| Err(LogError::Closed))
        }
    }

    fn record(offset: u64) -> StoredRecord {
        let empty = bytes::Bytes::new;
        StoredRecord { offset, appended_at: Timestamp(0), key: empty(), value: empty(), headers: Vec::new() }
    }

    #[tokio::test]
    async fn a_reader_is_asked_once_for_each_batch_and_loses_nothing() {
        let (give, batches) = mpsc::channel(8);
        let (asked, mut count) = mpsc::channel(8);
        let mut reading = Reading::new(Box::new(Given { batches, asked }), 7);
        for _ in 0..10 {
            assert!(timeout(Duration::ZERO, reading.next()).await.is_err(), "there is nothing yet");
        }
        let mut seen = VecDeque::new();
        for offset in 0..3 {
            give.try_send(Ok(vec![record(offset)])).expect("it reads");
        }
        give.try_send(Err(LogError::Unavailable("away".to_owned()))).expect("it reads");
        give.try_send(Ok(vec![record(3)])).expect("it reads");
        for _ in 0..5 {
            seen.push_back(reading.next().await.map(|batch| batch[0].offset).ok());
        }
        assert_eq!(seen, [Some(0), Some(1), Some(2), None, Some(3)]);
        let mut questions = Vec::new();
        while let Ok(max_records) = count.try_recv() {
            questions.push(max_records);
        }
        assert_eq!(questions, [7; 5], "once for each batch");
    }
}
