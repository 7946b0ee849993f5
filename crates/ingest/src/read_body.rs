//! Takes a request body in: within its size, its time, and the memory that all requests share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use http_body_util::BodyExt;
use mailrail_types::TenantId;

use crate::config::Config;
use crate::problem::{Problem, Refusal, shown};

/// Least bytes that a request counts for: its headers and buffers cost memory too.
const RESERVED_MIN_BYTES: usize = 4096;

/// Bytes are reserved in steps of this many, as they arrive: a request that sends nothing holds next to nothing, and the
/// shared count is touched a few times a body, not once a packet.
const RESERVED_STEP_BYTES: usize = 64 * 1024;

/// A tenant may hold one in so many of all bytes in flight, so that one alone never shuts the door for the others.
const TENANT_SHARE: usize = 2;

/// The bytes of bodies that are held now, over all requests.
#[derive(Debug, Clone)]
pub(crate) struct InFlight(Arc<Budget>);

#[derive(Debug)]
struct Budget {
    bytes_max: usize,
    /// Of one tenant; room for one body in any case.
    tenant_bytes_max: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    /// Tenants that hold something: no more than there are requests.
    by_tenant: HashMap<TenantId, usize>,
}

/// A request's share of the bytes in flight, given back when it is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    tenant: TenantId,
    bytes: usize,
    /// What the whole body can come to: its announced size, or the limit when it announces none.
    bytes_max: usize,
}

impl InFlight {
    /// Room for the configured bytes, and for one body in any case.
    pub(crate) fn new(config: &Config) -> Self {
        let one = config.body_limit_bytes.max(RESERVED_MIN_BYTES);
        let bytes_max = config.bytes_in_flight_max.max(one);
        let tenant_bytes_max = (bytes_max / TENANT_SHARE).max(one);
        Self(Arc::new(Budget { bytes_max, tenant_bytes_max, held: Mutex::default() }))
    }

    /// Lets a body of this tenant begin. It holds the least there is; [`read_body`] adds what arrives.
    pub(crate) fn reserve(
        &self,
        tenant: &TenantId,
        body: &Body,
        limit: usize,
    ) -> Result<Reservation, Refusal> {
        let size = body.size_hint();
        if size.lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
            return Err(too_large(limit));
        }
        let announced = size.upper().and_then(|upper| usize::try_from(upper).ok());
        let bytes_max = announced.map_or(limit, |upper| upper.min(limit));
        self.0.take(tenant, RESERVED_MIN_BYTES)?;
        let (budget, tenant) = (Arc::clone(&self.0), tenant.clone());
        Ok(Reservation { budget, tenant, bytes: RESERVED_MIN_BYTES, bytes_max })
    }
}

impl Budget {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, tenant: &TenantId, bytes: usize) -> Result<(), Refusal> {
        let mut held = self.held();
        let own = held.by_tenant.get(tenant).copied().unwrap_or_default();
        if own + bytes > self.tenant_bytes_max {
            return Err(overloaded(
                "too many bytes of this tenant are being taken in at once; send less at once, or again later",
            ));
        }
        if held.bytes + bytes > self.bytes_max {
            return Err(overloaded("too many bytes are being taken in at once; send again later"));
        }
        held.bytes += bytes;
        held.by_tenant.insert(tenant.clone(), own + bytes);
        Ok(())
    }

    fn give_back(&self, tenant: &TenantId, bytes: usize) {
        let mut held = self.held();
        held.bytes = held.bytes.saturating_sub(bytes);
        if let Some(own) = held.by_tenant.get_mut(tenant) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                held.by_tenant.remove(tenant);
            }
        }
    }
}

impl Reservation {
    /// Holds at least this many bytes, rounded up to the next step but never beyond what the body can come to.
    fn cover(&mut self, bytes: usize) -> Result<(), Refusal> {
        if bytes > self.bytes {
            let wanted = bytes.next_multiple_of(RESERVED_STEP_BYTES).min(self.bytes_max).max(bytes);
            self.budget.take(&self.tenant, wanted - self.bytes)?;
            self.bytes = wanted;
        }
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give_back(&self.tenant, self.bytes);
    }
}

fn overloaded(detail: &'static str) -> Refusal {
    Refusal::new(Problem::Overloaded, detail)
}

/// A compressed body cannot be matched, and inflating it here would let a small request fill the memory.
pub(crate) fn refuse_encoded(headers: &HeaderMap) -> Result<(), Refusal> {
    let encoded = headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .find(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"));
    match encoded {
        None => Ok(()),
        Some(value) => {
            let name = shown(&String::from_utf8_lossy(value.as_bytes()));
            let detail = format!("content-encoding '{name}' is not supported; send the body without one");
            Err(Refusal::of(Problem::UnsupportedMediaType, "content-encoding", detail))
        }
    }
}

/// Reads the body to its end, within the limit, the time and the bytes in flight. The limit counts the bytes that arrive,
/// so it holds for chunked bodies too.
pub(crate) async fn read_body(
    body: Body,
    config: &Config,
    reservation: &mut Reservation,
) -> Result<Bytes, Refusal> {
    let arrived = collect(body, config.body_limit_bytes, reservation);
    tokio::time::timeout(config.body_timeout, arrived).await.unwrap_or_else(|_| {
        let secs = config.body_timeout.as_secs();
        Err(Refusal::new(
            Problem::RequestTimeout,
            format!("the body did not arrive within {secs} s; send it again"),
        ))
    })
}

/// One copy of the bytes: frames that are kept would keep the buffers they were read into, which are larger.
async fn collect(mut body: Body, limit: usize, reservation: &mut Reservation) -> Result<Bytes, Refusal> {
    let mut arrived = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| {
            Refusal::new(Problem::UnreadableBody, "the body broke off or is framed wrongly; send it again")
        })?;
        let Ok(data) = frame.into_data() else { continue };
        let bytes = arrived.len() + data.len();
        if bytes > limit {
            return Err(too_large(limit));
        }
        reservation.cover(bytes)?;
        arrived.extend_from_slice(&data);
    }
    Ok(Bytes::from(arrived))
}

fn too_large(limit: usize) -> Refusal {
    Refusal::new(Problem::BodyTooLarge, format!("the body is over {limit} bytes; send less at a time"))
}
