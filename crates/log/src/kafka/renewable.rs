//! Clients that only ask a question now and then. They report nothing of themselves in time, so one that got no answer is made anew
//! for a later question: it may be one that knows no broker any more (see `brokers`), which would never get one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::LogError;

/// How old a client is at least before it is given up. While the brokers are away a new one gets no answer either.
const RENEWED_AFTER: Duration = Duration::from_secs(10);

/// A client, and when it was made.
pub(super) struct Renewable<C>(Mutex<Option<(Arc<C>, Instant)>>);

impl<C> Default for Renewable<C> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<C> Renewable<C> {
    /// The client; made when there is none.
    ///
    /// # Errors
    /// What making it said.
    pub(super) fn get(&self, make: impl FnOnce() -> Result<C, LogError>) -> Result<Arc<C>, LogError> {
        let mut current = self.lock();
        if let Some((client, _)) = &*current {
            return Ok(client.clone());
        }
        let client = Arc::new(make()?);
        *current = Some((client.clone(), Instant::now()));
        Ok(client)
    }

    /// The client, if there is one.
    pub(super) fn made(&self) -> Option<Arc<C>> {
        self.lock().as_ref().map(|(client, _)| client.clone())
    }

    /// Notes what a question came to: without an answer the next one may go to a new client.
    pub(super) fn asked<T>(&self, client: &Arc<C>, answer: &Result<T, KafkaError>, now: Instant) {
        if !answer.as_ref().err().is_some_and(is_without_answer) {
            return;
        }
        let mut current = self.lock();
        let is_due = current.as_ref().is_some_and(|(it, made)| {
            Arc::ptr_eq(it, client) && now.saturating_duration_since(*made) >= RENEWED_AFTER
        });
        if is_due {
            // Who asks still holds it, and drops it where that may block.
            *current = None;
        }
    }

    /// The client, which is not kept here any more.
    pub(super) fn take(&self) -> Option<Arc<C>> {
        self.lock().take().map(|(client, _)| client)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Arc<C>, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nobody answered. Any other error is an answer.
fn is_without_answer(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::OperationTimedOut
                | RDKafkaErrorCode::RequestTimedOut
                | RDKafkaErrorCode::BrokerTransportFailure
                | RDKafkaErrorCode::AllBrokersDown
                | RDKafkaErrorCode::WaitingForCoordinator
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_client_that_got_no_answer_for_a_while_is_made_anew() {
        let clients = Renewable::<u32>::default();
        let first = clients.get(|| Ok(1)).expect("made");
        let late = Instant::now() + RENEWED_AFTER;
        let failed = |code| Err::<(), _>(KafkaError::MetadataFetch(code));
        let none = failed(RDKafkaErrorCode::OperationTimedOut);
        clients.asked(&first, &Ok(()), late);
        clients.asked(&first, &failed(RDKafkaErrorCode::UnknownTopicOrPartition), late);
        clients.asked(&first, &none, Instant::now());
        assert_eq!(*clients.get(|| Ok(2)).expect("kept"), 1);
        clients.asked(&first, &none, late);
        assert_eq!(*clients.get(|| Ok(2)).expect("made"), 2);
        clients.asked(&first, &none, late + RENEWED_AFTER);
        assert_eq!(*clients.get(|| Ok(3)).expect("kept"), 2, "the answer was another one's");
        assert!(Renewable::<u32>::default().get(|| Err(LogError::Closed)).is_err());
    }
}
