//! What all Kafka clients share: their logs become ours, their errors become the port's, blocking calls leave async
//! threads alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::sync::Semaphore;

use crate::LogError;

/// Blocking questions to the brokers at once: each holds a thread for up to its timeout.
const BLOCKING_CALLS_MAX: usize = 16;

/// Context of a client without callbacks of its own.
#[derive(Debug, Default)]
pub(super) struct Plain {
    /// Grows with every event that a poll consumed without returning it: then there may be more in the queue.
    pub(super) events: AtomicU64,
}

impl ClientContext for Plain {
    fn log(&self, level: RDKafkaLogLevel, fac: &str, log_message: &str) {
        self.events.fetch_add(1, Ordering::Relaxed);
        log(level, fac, log_message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.events.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(target: "mailrail_log::kafka", %error, reason, "kafka client error; it goes on trying");
    }
}

impl ConsumerContext for Plain {}

/// One line of librdkafka's log.
pub(super) fn log(level: RDKafkaLogLevel, fac: &str, text: &str) {
    match level {
        RDKafkaLogLevel::Emerg
        | RDKafkaLogLevel::Alert
        | RDKafkaLogLevel::Critical
        | RDKafkaLogLevel::Error => {
            tracing::error!(target: "mailrail_log::librdkafka", fac, "{text}");
        }
        RDKafkaLogLevel::Warning => tracing::warn!(target: "mailrail_log::librdkafka", fac, "{text}"),
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
            tracing::info!(target: "mailrail_log::librdkafka", fac, "{text}");
        }
        RDKafkaLogLevel::Debug => tracing::debug!(target: "mailrail_log::librdkafka", fac, "{text}"),
    }
}

/// A client could not be made. Values are left out: they may be secrets.
pub(super) fn refused(error: KafkaError) -> LogError {
    match error {
        KafkaError::ClientConfig(_, _, name, _) => LogError::Config(format!(
            "kafka property {name} is refused: its name is unknown or its value not allowed"
        )),
        other => LogError::Config(format!("no kafka client can be made with these settings: {other}")),
    }
}

/// A question or an order that the cluster did not take.
#[expect(clippy::needless_pass_by_value, reason = "given to map_err")]
pub(super) fn unavailable(error: KafkaError) -> LogError {
    LogError::Unavailable(match error.rdkafka_error_code() {
        Some(code) => describe(code),
        None => format!("kafka says: {error}"),
    })
}

/// The code's own text, which is for people.
pub(super) fn describe(code: RDKafkaErrorCode) -> String {
    format!("kafka says: {code}")
}

/// Runs blocking calls, a bounded number at a time.
#[derive(Debug, Clone)]
pub(super) struct Blocking(Arc<Semaphore>);

impl Blocking {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(BLOCKING_CALLS_MAX)))
    }

    pub(super) async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, LogError> {
        let permit = self.0.clone().acquire_owned().await.map_err(|_| LogError::Closed)?;
        let joined = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            call()
        });
        joined.await.map_err(|error| LogError::Unavailable(format!("a kafka call failed inside: {error}")))?
    }
}
