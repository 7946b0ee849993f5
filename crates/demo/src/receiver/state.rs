//! What the receiver remembers: one lock over tallies, receipts and journal, so that all three agree on the order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use http::HeaderMap;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::behaviour::{Behaviour, Occasion, Reply};
use super::journal::Journal;
use super::receipt::{Receipt, ReceiverReport};
use super::tally::Tally;
use super::verify::Verifier;
use super::{Arrival, OnReceipt, OrderOf, ReceiverSettings};
use crate::Error;

/// Paths of the receiver itself.
const RESERVED: &[&str] = &["report", "behaviour"];

/// The status for a request whose signature is not good, whatever the script says.
const UNAUTHORIZED: u16 = 401;

pub(crate) struct State {
    /// Requests that are being answered, now and at most.
    in_flight: AtomicU64,
    in_flight_max: AtomicU64,
    order_of: Option<OrderOf>,
    on_receipt: Option<OnReceipt>,
    keep_bodies: bool,
    receipts_max: usize,
    /// By endpoint; read without the lock.
    verifiers: BTreeMap<String, Verifier>,
    memory: Mutex<Memory>,
    changes: watch::Sender<u64>,
}

struct Memory {
    endpoints: BTreeMap<String, (Behaviour, Tally)>,
    receipts: Vec<Receipt>,
    position: u64,
    unknown_endpoint: u64,
    journal: Option<Journal>,
}

/// What goes back to the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) delay: Duration,
    pub(crate) retry_after: Option<u32>,
}

impl State {
    pub(crate) fn new(settings: ReceiverSettings) -> Result<Self, Error> {
        let mut verifiers = BTreeMap::new();
        let mut endpoints = BTreeMap::new();
        for endpoint in settings.endpoints {
            let bad = |problem| Error::Endpoint { name: endpoint.name.clone(), problem };
            if endpoint.name.is_empty() || endpoint.name.contains('/') {
                return Err(bad("needs a name without '/'"));
            }
            if RESERVED.contains(&endpoint.name.as_str()) {
                return Err(bad("has a name that the receiver uses itself: choose another"));
            }
            verifiers.insert(endpoint.name.clone(), Verifier::new(&endpoint.name, &endpoint.secret)?);
            let fresh = (endpoint.behaviour, Tally::new(settings.deliveries_max));
            if endpoints.insert(endpoint.name.clone(), fresh).is_some() {
                return Err(bad("is given twice"));
            }
        }
        let (journal, seen) = match &settings.journal {
            Some(path) => Journal::open(path).map(|(journal, seen)| (Some(journal), seen))?,
            None => (None, Vec::new()),
        };
        let mut memory =
            Memory { endpoints, receipts: Vec::new(), position: 0, unknown_endpoint: 0, journal };
        for receipt in seen {
            memory.remember(receipt, settings.receipts_max);
        }
        Ok(Self {
            in_flight: AtomicU64::new(0),
            in_flight_max: AtomicU64::new(0),
            order_of: settings.order_of,
            on_receipt: settings.on_receipt,
            keep_bodies: settings.keep_bodies,
            receipts_max: settings.receipts_max,
            verifiers,
            memory: Mutex::new(memory),
            changes: watch::Sender::new(0),
        })
    }

    /// Takes a request in and says what to answer; `None`: no such endpoint.
    ///
    /// # Errors
    /// [`Error::Journal`] when the receipt could not be written; then the request does not count.
    pub(crate) fn take(
        &self,
        endpoint: &str,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Option<Answer>, Error> {
        let Some(verifier) = self.verifiers.get(endpoint) else {
            self.lock().unknown_endpoint += 1;
            return Ok(None);
        };
        let mut receipt = receipt(endpoint, headers, body);
        receipt.verified = verifier.accepts(headers, body);
        receipt.body = self.keep_bodies.then(|| body.clone());
        receipt.order = self.order_of.as_ref().and_then(|read| read(&Arrival { endpoint, headers, body }));

        let mut memory = self.lock();
        let answer = memory.answer(&receipt, body);
        receipt.status = match answer.reply {
            Reply::Status(status) => Some(status),
            Reply::Reset | Reply::Hang => None,
        };
        receipt.position = memory.position + 1;
        if let Some(journal) = &mut memory.journal {
            journal.append(&receipt)?;
        }
        if let Some(told) = &self.on_receipt {
            told(&receipt);
        }
        memory.remember(receipt, self.receipts_max);
        drop(memory);
        self.changes.send_modify(|count| *count += 1);
        Ok(Some(answer))
    }

    /// A request is being answered, until the guard is dropped.
    pub(crate) fn answering(self: &Arc<Self>) -> Answering {
        let now = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.in_flight_max.fetch_max(now, Ordering::SeqCst);
        Answering(self.clone())
    }

    /// Most requests that were being answered at the same time.
    pub(crate) fn in_flight_max(&self) -> u64 {
        self.in_flight_max.load(Ordering::SeqCst)
    }

    pub(crate) fn report(&self) -> ReceiverReport {
        let memory = self.lock();
        let mut report = ReceiverReport {
            unknown_endpoint: memory.unknown_endpoint,
            truncated: memory.position > memory.receipts.len() as u64,
            ..ReceiverReport::default()
        };
        for (name, (_, tally)) in &memory.endpoints {
            report.total.add(&tally.counts());
            report.truncated |= tally.is_truncated();
            report.endpoints.insert(name.clone(), tally.counts());
        }
        report
    }

    pub(crate) fn receipts(&self) -> Vec<Receipt> {
        self.lock().receipts.clone()
    }

    pub(crate) fn set_behaviour(&self, endpoint: &str, behaviour: Behaviour) -> Result<(), Error> {
        let mut memory = self.lock();
        let Some((current, _)) = memory.endpoints.get_mut(endpoint) else {
            return Err(Error::Endpoint { name: endpoint.to_owned(), problem: "does not exist" });
        };
        *current = behaviour;
        Ok(())
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn answer(&self, receipt: &Receipt, body: &[u8]) -> Answer {
        let plain =
            |status| Answer { reply: Reply::Status(status), delay: Duration::ZERO, retry_after: None };
        if !receipt.verified {
            return plain(UNAUTHORIZED);
        }
        let Some((behaviour, tally)) = self.endpoints.get(&receipt.endpoint) else { return plain(404) };
        let occasion = Occasion {
            request: tally.counts().verified + 1,
            new_delivery: tally.number_if_new(&receipt.webhook_id),
            body,
        };
        let reply = behaviour.rule.reply(occasion);
        let is_success = matches!(reply, Reply::Status(200..=299));
        Answer { reply, delay: behaviour.delay, retry_after: behaviour.retry_after.filter(|_| !is_success) }
    }

    fn remember(&mut self, receipt: Receipt, receipts_max: usize) {
        self.position = receipt.position;
        if let Some((_, tally)) = self.endpoints.get_mut(&receipt.endpoint) {
            tally.take(&receipt);
        }
        if self.receipts.len() < receipts_max {
            self.receipts.push(receipt);
        }
    }
}

/// SHA-256 of a body as receipts have it: in hex.
/// A request that is being answered.
pub(crate) struct Answering(Arc<State>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(crate) fn body_sha256(body: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(body))
}

fn receipt(endpoint: &str, headers: &HeaderMap, body: &Bytes) -> Receipt {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Receipt {
        position: 0,
        arrived_at_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        endpoint: endpoint.to_owned(),
        webhook_id: text("webhook-id").unwrap_or_default(),
        event_id: text("mailrail-event-id"),
        redrive: text("mailrail-redrive").and_then(|n| n.parse().ok()),
        attempt: text("mailrail-attempt").and_then(|n| n.parse().ok()),
        sequence: text("mailrail-sequence"),
        content_type: text("content-type"),
        body_bytes: body.len() as u64,
        body_sha256: body_sha256(body),
        verified: false,
        status: None,
        order: None,
        body: None,
    }
}
