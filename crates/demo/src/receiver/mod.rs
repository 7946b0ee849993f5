//! The sample receiver: verifies what arrives, answers by script, and remembers enough to be asked about it.

mod behaviour;
mod command;
mod journal;
mod receipt;
mod sequence;
mod series;
mod serve;
mod socket;
mod state;
mod tally;
#[cfg(test)]
mod tests;
mod verify;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use behaviour::{Behaviour, Rule};
pub use command::{LISTENS_ON, ReceiverArgs, run};
pub use receipt::{Counts, Order, Receipt, ReceiverReport};
pub use sequence::{Epoch, Sequence};

pub(crate) use state::body_sha256;
pub(crate) use tally::Tally;

use crate::Error;
use state::State;

/// Receipts kept unless the settings say otherwise: about 50 MB without bodies.
pub const RECEIPTS_MAX: usize = 100_000;

/// Deliveries told apart unless the settings say otherwise: about 100 MB.
pub const DELIVERIES_MAX: usize = 1_000_000;

/// One endpoint of the receiver.
#[derive(Clone)]
pub struct ReceiverEndpoint {
    /// Its name: the path it is reached under.
    pub name: String,
    /// Its secret, `whsec_…`.
    pub secret: String,
    /// How it answers.
    pub behaviour: Behaviour,
}

/// A request that is about to become a receipt.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// The endpoint.
    pub endpoint: &'a str,
    /// All headers.
    pub headers: &'a HeaderMap,
    /// The body.
    pub body: &'a Bytes,
}

/// Reads the producer's order off a request; `None` when it has none.
pub type OrderOf = Arc<dyn Fn(&Arrival<'_>) -> Option<Order> + Send + Sync>;

/// Is told of every receipt, in order of arrival, before the answer goes out. Must be quick.
pub type OnReceipt = Arc<dyn Fn(&Receipt) + Send + Sync>;

/// What a receiver is started with.
#[derive(Clone)]
pub struct ReceiverSettings {
    /// Its endpoints.
    pub endpoints: Vec<ReceiverEndpoint>,
    /// How to read the producer's order; `None`: order is not counted.
    pub order_of: Option<OrderOf>,
    /// Who is told of every receipt.
    pub on_receipt: Option<OnReceipt>,
    /// A file that gets every receipt as a line of JSON before the answer goes out. An existing one is continued: its
    /// receipts count as seen.
    pub journal: Option<PathBuf>,
    /// Whether receipts keep their bodies.
    pub keep_bodies: bool,
    /// Most receipts kept; counts go on beyond it.
    pub receipts_max: usize,
    /// Most deliveries told apart in an endpoint.
    pub deliveries_max: usize,
}

impl ReceiverSettings {
    /// Settings with these endpoints and nothing else.
    #[must_use]
    pub fn new(endpoints: Vec<ReceiverEndpoint>) -> Self {
        Self {
            endpoints,
            order_of: None,
            on_receipt: None,
            journal: None,
            keep_bodies: false,
            receipts_max: RECEIPTS_MAX,
            deliveries_max: DELIVERIES_MAX,
        }
    }
}

/// Reads the order off two fields of a JSON body: `group` (a string or number) and `sequence` (a number).
#[must_use]
pub fn json_order(group: &'static str, sequence: &'static str) -> OrderOf {
    Arc::new(move |arrival| {
        let body: serde_json::Value = serde_json::from_slice(arrival.body).ok()?;
        let group = match body.get(group)? {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Some(Order { group, sequence: body.get(sequence)?.as_u64()? })
    })
}

/// One line about a receipt, for people who watch.
#[must_use]
pub fn line(receipt: &Receipt) -> String {
    let answer = receipt.status.map_or_else(|| "none".to_owned(), |status| status.to_string());
    let signature = if receipt.verified { "signature ok" } else { "SIGNATURE BAD" };
    let attempt = receipt.attempt.map_or_else(|| "?".to_owned(), |n| n.to_string());
    format!(
        "{:<18} {} attempt {attempt}  {signature}  answered {answer}  {} bytes",
        receipt.endpoint, receipt.webhook_id, receipt.body_bytes
    )
}

/// The sample receiver.
pub struct Receiver;

impl Receiver {
    /// Serves on `listener` until the handle is stopped or dropped.
    ///
    /// # Errors
    /// [`Error::Secret`] or [`Error::Endpoint`] for an endpoint that cannot be, [`Error::Journal`] for a journal that
    /// cannot be continued, [`Error::Listen`] when the listener has no address.
    pub fn start(listener: TcpListener, settings: ReceiverSettings) -> Result<ReceiverHandle, Error> {
        let addr = listener.local_addr().map_err(Error::Listen)?;
        let state = Arc::new(State::new(settings)?);
        let stop = CancellationToken::new();
        let task = tokio::spawn(serve::serve(listener, Arc::clone(&state), stop.clone()));
        Ok(ReceiverHandle { addr, state, stop, task: Some(task) })
    }
}

/// A running receiver. Dropping it stops it.
pub struct ReceiverHandle {
    addr: SocketAddr,
    state: Arc<State>,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl ReceiverHandle {
    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL of one of its endpoints.
    #[must_use]
    pub fn url(&self, endpoint: &str) -> String {
        format!("http://{}/{endpoint}", self.addr)
    }

    /// Most requests that were being answered at the same time, over all endpoints.
    #[must_use]
    pub fn in_flight_max(&self) -> u64 {
        self.state.in_flight_max()
    }

    /// Counts so far.
    #[must_use]
    pub fn snapshot(&self) -> ReceiverReport {
        self.state.report()
    }

    /// The receipts so far, in order of arrival; at most as many as the settings keep.
    #[must_use]
    pub fn receipts(&self) -> Vec<Receipt> {
        self.state.receipts()
    }

    /// Changes how an endpoint answers from the next request on.
    ///
    /// # Errors
    /// [`Error::Endpoint`] when there is no such endpoint.
    pub fn set_behaviour(&self, endpoint: &str, behaviour: Behaviour) -> Result<(), Error> {
        self.state.set_behaviour(endpoint, behaviour)
    }

    /// Returns the first report for which `done` holds: now, or after one of the next receipts. Cancel safe.
    pub async fn reached(&self, done: impl Fn(&ReceiverReport) -> bool) -> ReceiverReport {
        let mut changes = self.state.changes();
        loop {
            changes.borrow_and_update();
            let report = self.snapshot();
            // The sender lives in `self.state`, so waiting cannot fail while `self` is borrowed.
            if done(&report) || changes.changed().await.is_err() {
                return report;
            }
        }
    }

    /// Stops listening and waits until open requests have ended; hanging ones are dropped.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take()
            && let Err(error) = task.await
        {
            tracing::warn!(%error, "the receiver ended badly");
        }
    }
}

impl Drop for ReceiverHandle {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
