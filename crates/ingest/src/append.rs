//! Events into the log: one call for all events of a request, and nothing is accepted before it returns.

use mailrail_log::{Log, LogError, NewRecord};
use mailrail_telemetry::IngestMetrics;
use mailrail_types::{Event, TenantId, source_mailbox};
use mailrail_wire::encode_event;
use tokio::time::Instant;

use crate::config::Config;
use crate::problem::{Problem, Refusal};

/// Appends the events of one tenant, in order, to its source mailbox. Returns when all of them are durable.
pub(crate) async fn append(
    log: &dyn Log,
    config: &Config,
    metrics: &IngestMetrics,
    tenant: &TenantId,
    events: &[Event],
) -> Result<(), Refusal> {
    let mailbox = source_mailbox(&config.pipeline, tenant);
    let partition = mailbox.partition(config.partitions);
    let record = |event| NewRecord {
        key: bytes::Bytes::copy_from_slice(mailbox.as_str().as_bytes()),
        value: encode_event(event),
        headers: Vec::new(),
    };
    let records: Vec<NewRecord> = events.iter().map(record).collect();
    let started = Instant::now();
    let appended =
        tokio::time::timeout(config.append_timeout, log.append(&config.topic, partition, records)).await;
    match appended {
        Ok(Ok(_)) => {
            metrics.append_seconds.observe(started.elapsed().as_secs_f64());
            Ok(())
        }
        Ok(Err(LogError::TooLarge { bytes })) => {
            let detail = format!(
                "with its attributes the event has {bytes} bytes, more than the log takes; nothing of \
                                  this request was accepted: send it smaller"
            );
            Err(Refusal::new(Problem::TooLargeRecord, detail))
        }
        Ok(Err(error)) => Err(unavailable(partition, &error.to_string())),
        Err(_) => Err(unavailable(partition, "no acknowledgement in time")),
    }
}

fn unavailable(partition: u32, error: &str) -> Refusal {
    tracing::warn!(partition, error, "an append was not acknowledged; the producer is told to send again");
    let detail = "the log did not acknowledge, so nothing is accepted; send the same request again: events with the same \
                  source and id are the same events";
    Refusal::new(Problem::LogUnavailable, detail)
}
