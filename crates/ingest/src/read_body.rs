//! Takes a request body in: within its size, its time, and the memory that all requests share.

use axum::body::Body;
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use http_body_util::BodyExt;

use crate::config::Config;
use crate::in_flight::{Reservation, too_large};
use crate::problem::{Problem, Refusal, shown};

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
    let arrived = tokio::time::timeout(config.body_timeout, arrived).await.unwrap_or_else(|_| {
        let secs = config.body_timeout.as_secs();
        Err(Refusal::new(
            Problem::RequestTimeout,
            format!("the body did not arrive within {secs} s; send it again"),
        ))
    });
    arrived.map(Bytes::from)
}

/// One copy of the bytes: frames that are kept would keep the buffers they were read into, which are larger. The buffer has
/// room for what is reserved and no more; while it grows the old one is there beside it, for one copy without a wait.
async fn collect(mut body: Body, limit: usize, reservation: &mut Reservation) -> Result<Vec<u8>, Refusal> {
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
        if bytes > arrived.capacity() {
            let room = reservation.cover(bytes)?;
            arrived.reserve_exact(room - arrived.len());
        }
        arrived.extend_from_slice(&data);
    }
    Ok(arrived)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use mailrail_types::{PartitionCount, TenantId};

    use super::*;
    use crate::in_flight::{InFlight, Payer};

    /// Whatever the sizes of the pieces, the buffer has room for no more than is reserved.
    #[tokio::test]
    async fn a_body_takes_no_more_memory_than_it_reserved() {
        const LIMIT: usize = 1024 * 1024;
        let partitions = PartitionCount(NonZeroU32::MIN);
        let in_flight = InFlight::new(&Config::new("default".to_owned(), "events".to_owned(), partitions));
        let sizes: [&[usize]; 5] =
            [&[1], &[100_000, 50_000], &[5_000; 40], &[65_535, 2, 65_535], &[300_000, 300_000, 424_000]];
        for sizes in sizes {
            let pieces: Vec<std::io::Result<Bytes>> =
                sizes.iter().map(|n| Ok(vec![b'x'; *n].into())).collect();
            let body = Body::from_stream(futures::stream::iter(pieces));
            let payer = Payer::Tenant(TenantId::of("acme"));
            let mut reservation = in_flight.reserve(payer, &body, LIMIT).expect("room");
            let arrived = collect(body, LIMIT, &mut reservation).await.expect("a body");
            assert_eq!(arrived.len(), sizes.iter().sum::<usize>());
            let reserved = reservation.bytes();
            assert!(arrived.capacity() <= reserved, "{sizes:?}: {} of {reserved}", arrived.capacity());
        }
    }
}
