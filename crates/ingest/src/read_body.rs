//! Takes a request body in: within its size, its time, and the memory that all requests share.

use std::sync::Arc;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::Config;
use crate::problem::{Problem, Refusal, shown};

/// Least bytes that a request counts for: its headers and buffers cost memory too.
const RESERVED_MIN_BYTES: usize = 4096;

/// The bytes that may be in flight; a permit is one byte.
#[derive(Debug, Clone)]
pub(crate) struct InFlight(Arc<Semaphore>);

/// A request's share of the bytes in flight, given back when it is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Reservation {
    _permit: OwnedSemaphorePermit,
}

impl InFlight {
    /// Room for the configured bytes, and for one body in any case.
    pub(crate) fn new(config: &Config) -> Self {
        let one = config.body_limit_bytes.max(RESERVED_MIN_BYTES);
        Self(Arc::new(Semaphore::new(config.bytes_in_flight_max.clamp(one, Semaphore::MAX_PERMITS))))
    }

    /// Reserves room for this body: its announced size, or the limit when it announces none.
    pub(crate) fn reserve(&self, body: &Body, limit: usize) -> Result<Reservation, Refusal> {
        let size = body.size_hint();
        if size.lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
            return Err(too_large(limit));
        }
        let bytes = size
            .upper()
            .and_then(|upper| usize::try_from(upper).ok())
            .map_or(limit, |upper| upper.min(limit));
        let permits = u32::try_from(bytes.max(RESERVED_MIN_BYTES)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.0).try_acquire_many_owned(permits).map_err(|_| {
            Refusal::new(Problem::Overloaded, "too many bytes are being taken in at once; send again later")
        })?;
        Ok(Reservation { _permit: permit })
    }
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

/// Reads the body to its end. The limit counts the bytes that arrive, so it holds for chunked bodies too.
pub(crate) async fn read_body(body: Body, config: &Config) -> Result<Bytes, Refusal> {
    let limit = config.body_limit_bytes;
    match tokio::time::timeout(config.body_timeout, Limited::new(body, limit).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(limit)),
        Ok(Err(_)) => Err(Refusal::new(
            Problem::UnreadableBody,
            "the body broke off or is framed wrongly; send it again",
        )),
        Err(_) => {
            let secs = config.body_timeout.as_secs();
            Err(Refusal::new(
                Problem::RequestTimeout,
                format!("the body did not arrive within {secs} s; send it again"),
            ))
        }
    }
}

fn too_large(limit: usize) -> Refusal {
    Refusal::new(Problem::BodyTooLarge, format!("the body is over {limit} bytes; send less at a time"))
}
