//! The floor: a bare handler that produces the bytes that the door would, and answers when they are acknowledged.
//!
//! It knows no sender, reads no event and sizes nothing. What the door costs is what it costs beside this.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::serve::ListenerExt;
use axum::{Json, Router};
use bytes::Bytes;
use mailrail_types::{
    Attributes, Event, EventId, MailboxKey, PartitionCount, SourceMailbox, TenantId, Timestamp,
};
use rdkafka::producer::{FutureProducer, FutureRecord};
use serde::Serialize;
use tokio::net::TcpListener;

/// Mailboxes of a sender at the widest: as many keys, and so as many partitions, as the door writes to.
pub(crate) const WIDTH: u32 = 64;

/// What the bare handler is told by `door`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to listen.
    #[arg(long)]
    listen: SocketAddr,
    /// `host:port` of a broker.
    #[arg(long)]
    kafka: String,
    /// An existing topic.
    #[arg(long)]
    topic: String,
    /// Its partitions.
    #[arg(long)]
    partitions: NonZeroU32,
}

struct Floor {
    producer: FutureProducer,
    topic: String,
    /// Key and partition of each mailbox, taken in turn.
    mailboxes: Vec<(MailboxKey, i32)>,
    turn: AtomicUsize,
    frame: Frame,
    id: String,
}

/// An encoded event without its body.
struct Frame {
    before: Vec<u8>,
    after: Vec<u8>,
    body_bytes: usize,
}

#[derive(Serialize)]
struct Accepted<'a> {
    id: &'a str,
}

/// Serves until the process is killed.
pub(crate) async fn run(args: Args) -> Result<()> {
    let tenant = TenantId::new(crate::door::FLOOR_TENANT)?;
    let count = PartitionCount(args.partitions);
    let mailboxes = (0..WIDTH)
        .map(|bucket| {
            let key = mailbox(&tenant, bucket).key();
            let partition = i32::try_from(key.partition(count)).context("too many partitions")?;
            Ok((key, partition))
        })
        .collect::<Result<Vec<_>>>()?;
    let floor = Arc::new(Floor {
        producer: crate::clients::producer_config(&args.kafka).create()?,
        topic: args.topic,
        mailboxes,
        turn: AtomicUsize::new(0),
        frame: Frame::of(&tenant)?,
        id: EventId::derive(&tenant, crate::events::SOURCE, &crate::events::event_id(0)).to_string(),
    });
    let listener = TcpListener::bind(args.listen).await?.tap_io(|stream| {
        // As the door: its answers are small and complete.
        let _ = stream.set_nodelay(true);
    });
    let router = Router::new().route("/v1/events", post(produce)).with_state(floor);
    Ok(axum::serve(listener, router).await?)
}

async fn produce(
    State(floor): State<Arc<Floor>>,
    body: Bytes,
) -> Result<(StatusCode, Json<serde_json::Value>), (StatusCode, String)> {
    let failed = |text: String| (StatusCode::SERVICE_UNAVAILABLE, text);
    let value = floor.frame.around(&body).ok_or_else(|| failed("not the expected size".to_owned()))?;
    let turn = floor.turn.fetch_add(1, Ordering::Relaxed) % floor.mailboxes.len();
    let (key, partition) = &floor.mailboxes[turn];
    let record = FutureRecord::to(&floor.topic).partition(*partition).key(key.as_str()).payload(&value);
    let report = floor.producer.send_result(record).map_err(|(error, _)| failed(error.to_string()))?;
    match report.await {
        // No offset: librdkafka took it for written because a later one was. On a partition that has not heard of this
        // producer yet the broker takes any first sequence number, so that conclusion can be wrong.
        Ok(Ok(delivery)) if delivery.offset < 0 => Err(failed("acknowledged without an offset".to_owned())),
        Ok(Ok(_)) => {
            let answer = serde_json::to_value(Accepted { id: &floor.id }).unwrap_or_default();
            Ok((StatusCode::ACCEPTED, Json(answer)))
        }
        Ok(Err((error, _))) => Err(failed(error.to_string())),
        Err(_) => Err(failed("the producer is gone".to_owned())),
    }
}

fn mailbox(tenant: &TenantId, bucket: u32) -> SourceMailbox {
    SourceMailbox {
        pipeline: "default".into(),
        region: "".into(),
        tenant: tenant.clone(),
        integration: None,
        event_type: Some(crate::events::EVENT_TYPE.into()),
        bucket,
    }
}

impl Frame {
    /// What stands around a body of [`crate::events::BODY_BYTES`] in the record of an event like those that are sent.
    fn of(tenant: &TenantId) -> Result<Self> {
        // A byte that no attribute holds.
        let body = Bytes::from(vec![0xFF; crate::events::BODY_BYTES]);
        let id = crate::events::event_id(0);
        let event = Event {
            id: EventId::derive(tenant, crate::events::SOURCE, &id),
            tenant: tenant.clone(),
            attributes: Attributes {
                id,
                source: crate::events::SOURCE.to_owned(),
                event_type: crate::events::EVENT_TYPE.to_owned(),
                content_type: Some("application/json".to_owned()),
                ..Attributes::default()
            },
            ordering_key: Some("1000".to_owned()),
            body: body.clone(),
            trace: None,
            forwarded: None,
            accepted_at: Timestamp(1_700_000_000_000),
            setup_seq: 1,
            unknown: Bytes::new(),
        };
        let record = mailrail_wire::encode_event(&event);
        let at = record
            .windows(body.len())
            .position(|window| window == body)
            .context("the record of an event does not hold its body")?;
        let (before, after) = (record[..at].to_vec(), record[at + body.len()..].to_vec());
        Ok(Self { before, after, body_bytes: body.len() })
    }

    fn around(&self, body: &[u8]) -> Option<Vec<u8>> {
        (body.len() == self.body_bytes).then(|| [&self.before, body, &self.after].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The floor would be a false one if it wrote less than the door does.
    #[test]
    fn the_floor_writes_records_that_decode() {
        let tenant = TenantId::new(crate::door::FLOOR_TENANT).expect("valid");
        let frame = Frame::of(&tenant).expect("frame");
        let body = vec![b'x'; crate::events::BODY_BYTES];
        let record = Bytes::from(frame.around(&body).expect("the size"));
        let event = mailrail_wire::decode_event(&record).expect("an event");
        assert_eq!(event.body, body);
        assert_eq!(event.attributes.event_type, crate::events::EVENT_TYPE);
        assert!(frame.around(b"short").is_none());
    }

    #[test]
    fn the_floor_writes_to_as_many_mailboxes_as_a_wide_sender_has() {
        let tenant = TenantId::new(crate::door::FLOOR_TENANT).expect("valid");
        let keys: std::collections::HashSet<MailboxKey> =
            (0..WIDTH).map(|bucket| mailbox(&tenant, bucket).key()).collect();
        assert_eq!(keys.len(), WIDTH as usize);
    }
}
