//! One connection that many share: made on first use, let go when it stops to answer, made again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deadpool_redis::redis::{Cmd, Value};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};

use super::server::{Client, Connection, Server};
use crate::Error;

/// Failures in a row after which a connection that is not known to be broken is replaced. Not the first: a cluster
/// connection repairs itself, and one slow answer is no reason to connect again. Not never: that a peer vanished is noticed
/// by TCP a quarter of an hour later.
const FAILURES_MAX: u32 = 3;

pub(crate) struct Link {
    server: Server,
    state: Arc<Mutex<State>>,
}

/// Ends when the attempt did; the outcome is in the state.
type Attempt = Shared<BoxFuture<'static, Result<(), Error>>>;

enum State {
    None,
    /// An attempt goes on by itself, so that callers with a short budget do not cancel it.
    Connecting(Attempt),
    Connected {
        connection: Connection,
        number: u64,
        failures: u32,
    },
}

/// Counts against the connection when it is dropped unanswered: callers cancel what takes too long.
struct Asked<'a> {
    link: &'a Link,
    number: u64,
    verdict: Verdict,
}

/// What a question said about its connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Answered,
    Silent,
    Broken,
}

impl Link {
    pub(crate) fn new(server: Server) -> Self {
        Self { server, state: Arc::new(Mutex::new(State::None)) }
    }

    /// One answer for each command.
    pub(crate) async fn ask(&self, commands: Vec<Cmd>) -> Result<Vec<Result<Value, Error>>, Error> {
        let (client, number) = self.client().await?;
        let mut asked = Asked { link: self, number, verdict: Verdict::Silent };
        let repairs_itself = matches!(client, Client::Cluster(_));
        let answers = client.ask(commands).await;
        let failed = match &answers {
            Ok(answers) => answers.iter().find_map(|it| it.as_ref().err().filter(|it| it.is_outage())),
            Err(error) => Some(error),
        };
        let is_of_a_replica =
            answers.iter().flatten().any(|it| it.as_ref().is_err_and(Error::is_of_a_replica));
        asked.verdict = match failed {
            // A connection stays with its server when that becomes a replica: the address is to be looked up again.
            _ if is_of_a_replica && !repairs_itself => Verdict::Broken,
            Some(Error::NoAnswer(_)) if !repairs_itself => Verdict::Broken,
            Some(_) => Verdict::Silent,
            None => Verdict::Answered,
        };
        answers
    }

    async fn client(&self) -> Result<(Client, u64), Error> {
        let attempt = {
            let mut state = lock(&self.state);
            match &*state {
                State::Connected { connection, number, .. } => return Ok((connection.client(), *number)),
                // One that ended without an outcome was cancelled with its runtime.
                State::Connecting(attempt) if attempt.peek().is_none() => attempt.clone(),
                State::Connecting(_) | State::None => {
                    let attempt = self.attempt();
                    *state = State::Connecting(attempt.clone());
                    attempt
                }
            }
        };
        attempt.await?;
        match &*lock(&self.state) {
            State::Connected { connection, number, .. } => Ok((connection.client(), *number)),
            _ => Err(Error::NotConnected("the new connection is already lost".to_owned())),
        }
    }

    fn attempt(&self) -> Attempt {
        let (server, state) = (self.server.clone(), Arc::clone(&self.state));
        let task = tokio::spawn(async move {
            let connected = server.connect().await;
            let mut state = lock(&state);
            match connected {
                Ok(connection) => {
                    *state = State::Connected { connection, number: next_number(), failures: 0 };
                    Ok(())
                }
                Err(error) => {
                    *state = State::None;
                    Err(error)
                }
            }
        });
        let ended = |it: Result<_, tokio::task::JoinError>| {
            it.unwrap_or_else(|error| Err(Error::NotConnected(error.to_string())))
        };
        task.map(ended).boxed().shared()
    }

    fn settle(&self, number: u64, verdict: Verdict) {
        let mut state = lock(&self.state);
        let State::Connected { number: current, failures, .. } = &mut *state else { return };
        if *current != number {
            return;
        }
        *failures = match verdict {
            Verdict::Answered => 0,
            Verdict::Silent => *failures + 1,
            Verdict::Broken => FAILURES_MAX,
        };
        if *failures >= FAILURES_MAX
            && let State::Connected { connection, .. } = std::mem::replace(&mut *state, State::None)
        {
            connection.abandon();
        }
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.link.settle(self.number, self.verdict);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells one connection from the next.
fn next_number() -> u64 {
    static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}
