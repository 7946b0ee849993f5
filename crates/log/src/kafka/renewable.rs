//! Clients that only ask a question now and then. They report nothing of themselves in time, so one that got no answer is made anew
//! for a later question: it may be one that knows no broker any more (see `brokers`), which would never get one.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::client::{aside, code_of};
use super::replacements::Replacements;
use crate::LogError;

/// How long a client gets no answer before it is given up. While the brokers are away a new one gets none either.
const RENEWED_AFTER: Duration = Duration::from_secs(10);

/// Longest pause between two clients in a row that get no answer. Those of an outage count too, and the last of them may be the one that
/// forgot its brokers when they came back.
const RENEWAL_PAUSE_MAX: Duration = Duration::from_secs(60);

/// A client that may be asked. Its end, which may wait for the network, has a thread of its own wherever the last one lets go of it.
pub(super) struct Lent<C: Send + 'static>(Option<C>);

impl<C: Send> Deref for Lent<C> {
    type Target = C;

    fn deref(&self) -> &C {
        self.0.as_ref().unwrap_or_else(|| unreachable!("it is taken out at its end only"))
    }
}

impl<C: Send> Drop for Lent<C> {
    fn drop(&mut self) {
        let client = self.0.take();
        if let Err(error) = aside(move || drop(client)) {
            tracing::error!(target: "mailrail_log::kafka", %error, "no thread to end a client; it was ended at once");
        }
    }
}

/// A client that is replaced when nobody answers it; more and more seldom where nobody answers the next one either.
pub(super) struct Renewable<C: Send + 'static>(Mutex<Inner<C>>);

struct Inner<C: Send + 'static> {
    state: State<C>,
    replacements: Replacements,
}

enum State<C: Send + 'static> {
    /// `again`: the settings are known to make one.
    None {
        again: bool,
    },
    Made {
        client: Arc<Lent<C>>,
        /// When the last answer came; before it, when the client was made.
        answered: Instant,
        /// When the first question since then was asked that got none.
        unanswered: Option<Instant>,
    },
    Closed,
}

impl<C: Send> Default for Renewable<C> {
    fn default() -> Self {
        let state = State::None { again: false };
        let replacements = Replacements::with_pauses_up_to(RENEWAL_PAUSE_MAX);
        Self(Mutex::new(Inner { state, replacements }))
    }
}

impl<C: Send> Renewable<C> {
    /// The client; made when there is none.
    ///
    /// # Errors
    /// What making it said, and [`LogError::Closed`]. The settings are not to blame ([`LogError::Config`]) once a client was made of them.
    pub(super) fn get(&self, make: impl FnOnce() -> Result<C, LogError>) -> Result<Arc<Lent<C>>, LogError> {
        let mut inner = self.lock();
        let again = match &inner.state {
            State::Made { client, .. } => return Ok(client.clone()),
            State::Closed => return Err(LogError::Closed),
            State::None { again } => *again,
        };
        let client = match make() {
            Ok(client) => Arc::new(Lent(Some(client))),
            Err(LogError::Config(text)) if again => return Err(LogError::Unavailable(text)),
            Err(error) => return Err(error),
        };
        inner.state = State::Made { client: client.clone(), answered: Instant::now(), unanswered: None };
        Ok(client)
    }

    /// The client, if there is one.
    pub(super) fn made(&self) -> Option<Arc<Lent<C>>> {
        match &self.lock().state {
            State::Made { client, .. } => Some(client.clone()),
            State::None { .. } | State::Closed => None,
        }
    }

    /// Notes what a question came to that was asked at `began`: without an answer for so long the next one goes to a new client.
    pub(super) fn asked<T>(
        &self,
        client: &Arc<Lent<C>>,
        answer: &Result<T, KafkaError>,
        began: Instant,
        now: Instant,
    ) {
        let mut inner = self.lock();
        let Inner { state, replacements } = &mut *inner;
        let State::Made { client: current, answered, unanswered } = state else { return };
        if !Arc::ptr_eq(current, client) {
            return;
        }
        if !answer.as_ref().err().is_some_and(is_without_answer) {
            (*answered, *unanswered) = (now, None);
            return;
        }
        // An answer that came to another question meanwhile counts.
        let since = *unanswered.get_or_insert(began.max(*answered));
        if now.saturating_duration_since(since) >= RENEWED_AFTER && replacements.is_due(now) {
            replacements.replaced(now);
            *state = State::None { again: true };
        }
    }

    /// There is no client any more, and none is made again.
    pub(super) fn close(&self) {
        self.lock().state = State::Closed;
    }

    fn lock(&self) -> MutexGuard<'_, Inner<C>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nobody answered. Any other error is an answer.
fn is_without_answer(error: &KafkaError) -> bool {
    matches!(
        code_of(error),
        Some(
            RDKafkaErrorCode::OperationTimedOut
                | RDKafkaErrorCode::BrokerTransportFailure
                | RDKafkaErrorCode::AllBrokersDown
                | RDKafkaErrorCode::WaitingForCoordinator
        )
    )
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::{Thread, ThreadId};

    use super::*;

    fn failed(code: RDKafkaErrorCode) -> Result<(), KafkaError> {
        Err(KafkaError::MetadataFetch(code))
    }

    #[test]
    fn only_a_client_that_got_no_answer_for_a_while_is_made_anew() {
        let clients = Renewable::<u32>::default();
        let first = clients.get(|| Ok(1)).expect("made");
        let none = failed(RDKafkaErrorCode::OperationTimedOut);
        let mut now = Instant::now() + Duration::from_secs(3600);
        clients.asked(&first, &none, now, now + Duration::from_secs(2));
        assert_eq!(
            **clients.get(|| Ok(2)).expect("kept"),
            1,
            "nobody asked for an hour, which is no silence"
        );
        for answer in [Ok(()), failed(RDKafkaErrorCode::UnknownTopicOrPartition)] {
            now += RENEWED_AFTER;
            clients.asked(&first, &answer, now, now);
            clients.asked(&first, &none, now - RENEWED_AFTER, now);
            assert_eq!(**clients.get(|| Ok(2)).expect("kept"), 1, "{answer:?} came meanwhile");
        }
        clients.asked(&first, &none, now, now + RENEWED_AFTER);
        assert_eq!(**clients.get(|| Ok(2)).expect("made"), 2);
        let later = now + 2 * RENEWED_AFTER;
        clients.asked(&first, &none, now, later);
        assert_eq!(**clients.get(|| Ok(3)).expect("kept"), 2, "the answer was another one's");
    }

    /// Each costs threads and connections, and helps nobody where there is no answer to have.
    #[test]
    fn clients_that_get_no_answer_either_are_made_more_and_more_seldom() {
        let clients = Renewable::<u32>::default();
        let none = failed(RDKafkaErrorCode::OperationTimedOut);
        let (mut now, mut made, mut last) = (Instant::now(), 0, Instant::now());
        for _ in 0..360 {
            let client = clients.get(|| {
                assert!(now - last <= 2 * RENEWAL_PAUSE_MAX, "the brokers may be back");
                (made, last) = (made + 1, now);
                Ok(made)
            });
            clients.asked(&client.expect("made"), &none, now, now + RENEWED_AFTER);
            now += RENEWED_AFTER;
        }
        assert!((30..=65).contains(&made), "{made} in an hour");
    }

    #[test]
    fn what_a_broker_says_is_an_answer_whatever_it_is() {
        let code = RDKafkaErrorCode::OperationTimedOut;
        assert!(is_without_answer(&KafkaError::MetadataFetch(code)));
        assert!(is_without_answer(&KafkaError::AdminOp(code)), "an order that got none");
        assert!(!is_without_answer(&KafkaError::AdminOp(RDKafkaErrorCode::RequestTimedOut)));
        assert!(!is_without_answer(&KafkaError::Canceled));
    }

    #[test]
    fn settings_that_a_client_was_made_of_are_not_to_blame() {
        let clients = Renewable::<u32>::default();
        let refused = || Err(LogError::Config("no client can be made".to_owned()));
        assert!(matches!(clients.get(refused), Err(LogError::Config(_))));
        let first = clients.get(|| Ok(1)).expect("made");
        let now = Instant::now();
        clients.asked(&first, &failed(RDKafkaErrorCode::AllBrokersDown), now, now + RENEWED_AFTER);
        assert!(matches!(clients.get(refused), Err(LogError::Unavailable(_))));
    }

    #[test]
    fn a_question_under_way_at_the_close_makes_no_client_afterwards() {
        let clients = Renewable::<u32>::default();
        let first = clients.get(|| Ok(1)).expect("made");
        clients.close();
        assert!(clients.made().is_none());
        let now = Instant::now();
        clients.asked(&first, &failed(RDKafkaErrorCode::OperationTimedOut), now, now + RENEWED_AFTER);
        assert!(matches!(clients.get(|| Ok(2)), Err(LogError::Closed)));
    }

    /// Says on which thread it ends.
    struct Ending(mpsc::Sender<Thread>);

    impl Drop for Ending {
        fn drop(&mut self) {
            let _ = self.0.send(std::thread::current());
        }
    }

    fn is_of_its_own(ended: &mpsc::Receiver<Thread>, here: ThreadId) -> bool {
        let thread = ended.recv_timeout(Duration::from_secs(60)).expect("it ends");
        thread.id() != here && thread.name() == Some("log-replace")
    }

    #[test]
    fn a_client_ends_on_a_thread_of_its_own_whoever_lets_go_of_it_last() {
        let (here, (ends, ended)) = (std::thread::current().id(), mpsc::channel());
        let clients = Renewable::<Ending>::default();
        let asking = clients.get(|| Ok(Ending(ends.clone()))).expect("made");
        let now = Instant::now();
        clients.asked(&asking, &failed(RDKafkaErrorCode::OperationTimedOut), now, now + RENEWED_AFTER);
        assert!(ended.try_recv().is_err(), "who asks still holds it");
        drop(asking);
        assert!(is_of_its_own(&ended, here), "given up");
        drop(clients.get(|| Ok(Ending(ends))).expect("made"));
        clients.close();
        assert!(is_of_its_own(&ended, here), "closed");
    }
}
