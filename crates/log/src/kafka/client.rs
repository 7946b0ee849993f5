//! What all Kafka clients share: their logs become ours, their errors become the port's, blocking calls leave async
//! threads alone.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::sync::Semaphore;

use super::brokers::KnownBrokers;
use crate::{Bounds, LogError};

/// Blocking questions to the brokers at once: each holds a thread for up to its timeout.
const BLOCKING_CALLS_MAX: usize = 16;

/// Facility of librdkafka's lines about its properties.
const ABOUT_PROPERTIES: &str = "CONFWARN";
/// After this such a line repeats the value, up to a backquote.
const VALUE_FOLLOWS: &str = "set to `";

/// Context of a client that is asked now and then.
#[derive(Debug, Default)]
pub(super) struct Plain {
    /// Grows with every event that a poll consumed without returning it: then there may be more in the queue.
    pub(super) events: AtomicU64,
}

impl ClientContext for Plain {
    fn log(&self, level: RDKafkaLogLevel, fac: &str, text: &str) {
        self.events.fetch_add(1, Ordering::Relaxed);
        log(level, fac, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.events.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(target: "mailrail_log::kafka", %error, reason, "kafka client error; it goes on trying");
    }
}

impl ConsumerContext for Plain {}

/// Context of a client that reads all the time.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) plain: Plain,
    /// Grows with every sign that something is wrong.
    pub(super) signs: AtomicU64,
    pub(super) brokers: KnownBrokers,
}

impl ClientContext for Reading {
    fn log(&self, level: RDKafkaLogLevel, fac: &str, text: &str) {
        self.signs.fetch_add(1, Ordering::Relaxed);
        self.plain.log(level, fac, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.signs.fetch_add(1, Ordering::Relaxed);
        self.plain.error(error, reason);
    }

    fn stats_raw(&self, report: &[u8]) {
        self.plain.events.fetch_add(1, Ordering::Relaxed);
        self.brokers.take(report);
    }
}

impl ConsumerContext for Reading {}

/// What every context with `brokers` does with lines and reports, for its `impl ClientContext`.
macro_rules! lines_and_reports {
    () => {
        fn log(&self, level: rdkafka::config::RDKafkaLogLevel, fac: &str, text: &str) {
            $crate::kafka::client::log(level, fac, text);
        }

        fn stats_raw(&self, report: &[u8]) {
            self.brokers.take(report);
        }
    };
}
pub(super) use lines_and_reports;

/// One line of librdkafka's log.
pub(super) fn log(level: RDKafkaLogLevel, fac: &str, text: &str) {
    let text = &*without_value(fac, text);
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

/// What librdkafka says of a property repeats its value, which may be a secret.
fn without_value<'a>(fac: &str, text: &'a str) -> Cow<'a, str> {
    let Some((before, rest)) = text.split_once(VALUE_FOLLOWS).filter(|_| fac == ABOUT_PROPERTIES) else {
        return Cow::Borrowed(text);
    };
    // A value may hold the sign that ends it: up to the last one is the value.
    let after = rest.rsplit_once('`').map_or("", |(_, after)| after);
    Cow::Owned(format!("{before}{VALUE_FOLLOWS}…`{after}"))
}

/// The code of an error, also of an order's, which the binding leaves out.
pub(super) fn code_of(error: &KafkaError) -> Option<RDKafkaErrorCode> {
    match error {
        KafkaError::AdminOp(code) => Some(*code),
        other => other.rdkafka_error_code(),
    }
}

/// A question or an order that the cluster did not take.
#[expect(clippy::needless_pass_by_value, reason = "given to map_err")]
pub(super) fn unavailable(error: KafkaError) -> LogError {
    LogError::Unavailable(match code_of(&error) {
        Some(code) => describe(code),
        None => format!("kafka says: {error}"),
    })
}

/// The code's own text, which is for people.
pub(super) fn describe(code: RDKafkaErrorCode) -> String {
    format!("kafka says: {code}")
}

/// Watermarks as bounds; `None` when the client gives places that it does not know.
pub(super) fn bounds_in((low, high): (i64, i64)) -> Option<Bounds> {
    Some(Bounds { low: low.try_into().ok()?, high: high.try_into().ok()? })
}

/// Runs what may wait for the network for ever, such as the end of a client, on a thread that nobody waits for: neither an async worker
/// nor the runtime, which at its end waits for what it let block.
///
/// # Errors
/// There is no thread; the work was dropped.
pub(super) fn aside(work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name("log-replace".to_owned()).spawn(work).map(drop)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_are_not_known_are_no_bounds() {
        assert_eq!(bounds_in((3, 9)), Some(Bounds { low: 3, high: 9 }));
        for unknown in [(-1001, 9), (0, -1001)] {
            assert_eq!(bounds_in(unknown), None);
        }
    }

    #[test]
    fn a54_the_value_of_a_property_is_not_repeated() {
        let said =
            "Configuration property `sasl.mechanism` set to `hunter`2` but `security.protocol` is not set";
        assert_eq!(without_value("FAIL", said), said);
        let shown = without_value(ABOUT_PROPERTIES, said);
        assert!(shown.starts_with("Configuration property `sasl.mechanism` set to `…`"), "{shown}");
        assert!(!shown.contains("hunter"), "{shown}");
        let nothing = "a property `is` experimental: when set to true, it is";
        assert_eq!(without_value(ABOUT_PROPERTIES, nothing), nothing);
    }
}
