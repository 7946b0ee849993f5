//! From settings to parts: the log, the store, the view of the set-up, the metrics.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use mailrail_limits::{LocalWindows, RedisWindows, Sizer, Windows};
use mailrail_log::{KafkaConfig, KafkaLog, LocalLog, LocalOptions, Log, LogError, StoppedPartitions};
use mailrail_store::{Directory, EncryptionKey, Store};
use mailrail_telemetry::Metrics;
use mailrail_types::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::private;
use crate::settings::Settings;
use crate::settings::backends::{KafkaSettings, LogKind};
use crate::topics::Topics;

/// Between two tries to reach a service that does not answer at start-up.
const START_PAUSE: Duration = Duration::from_secs(2);

/// Between two signs of life of a group member; librdkafka's own default, and never over a third of the session.
const HEARTBEAT_MAX: Duration = Duration::from_secs(3);

/// Name of the database file in the folder of the local log.
const LOCAL_LOG_FILE: &str = "log.db";

/// What records need beyond the body of their event: attributes, headers, history, 16 attempts with their excerpts.
const RECORD_OVERHEAD_BYTES: usize = 512 * 1024;

/// What the roles of a process share.
pub(crate) struct Parts {
    pub(crate) settings: Settings,
    pub(crate) topics: Topics,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) store: Store,
    pub(crate) directory: Arc<Directory>,
    pub(crate) sizer: Sizer,
    pub(crate) stopped: StoppedPartitions,
    pub(crate) metrics: Arc<Metrics>,
}

/// The wall clock, where it enters.
pub(crate) fn clock() -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
    Arc::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    })
}

impl Parts {
    /// Opens everything. Waits for services that do not answer yet, until `stop`; settings that cannot work, and topics or
    /// a database that are not as the settings say, are errors at once.
    pub(crate) async fn open(
        settings: Settings,
        metrics: Arc<Metrics>,
        stop: &CancellationToken,
    ) -> Result<Self> {
        let topics = Topics::named(&settings);
        let log = open_log(&settings)?;
        let specs = topics.specs(&settings);
        let transient = |error: &LogError| matches!(error, LogError::Unavailable(_));
        patiently("log", stop, transient, || log.ensure_topics(&specs)).await?;
        let key = encryption_key(&settings)?;
        let transient =
            |error: &mailrail_store::Error| matches!(error, mailrail_store::Error::Unavailable(_));
        let store =
            patiently("store", stop, transient, || Store::open(&settings.store.url, key.clone())).await?;
        let directory = patiently("store", stop, transient, || Directory::load(store.clone())).await?;
        let sizer = sizer(&settings)?;
        let stopped = StoppedPartitions::default();
        Ok(Self { settings, topics, log, store, directory, sizer, stopped, metrics })
    }
}

/// Counts rates in Redis, or in this process where there is none. Redis need not be there: sizing cannot fail.
fn sizer(settings: &Settings) -> Result<Sizer> {
    let windows: Arc<dyn Windows> = match settings.limits.redis.as_slice() {
        [] => Arc::new(LocalWindows::default()),
        urls => Arc::new(RedisWindows::new(urls, &settings.topic_prefix).context("limits.redis")?),
    };
    Ok(Sizer::new(windows, clock()))
}

/// The log that the settings name; nothing is made in it.
pub(crate) fn open_log(settings: &Settings) -> Result<Arc<dyn Log>> {
    match settings.log.kind {
        LogKind::Local => {
            let folder = &settings.log.path;
            private::folder(folder).with_context(|| format!("folder {} cannot be made", folder.display()))?;
            let file = folder.join(LOCAL_LOG_FILE);
            private::file(&file).with_context(|| format!("{} cannot be made", file.display()))?;
            let options =
                LocalOptions { record_bytes_max: record_bytes_max(settings), ..LocalOptions::default() };
            Ok(Arc::new(LocalLog::open_with(&file, options)?))
        }
        LogKind::Kafka => {
            Ok(Arc::new(KafkaLog::connect(kafka_config(&settings.log.kafka, record_bytes_max(settings)))?))
        }
    }
}

/// Largest record: a body and what goes with it.
pub(crate) fn record_bytes_max(settings: &Settings) -> usize {
    usize::try_from(settings.ingest.body_limit_bytes)
        .unwrap_or(usize::MAX)
        .saturating_add(RECORD_OVERHEAD_BYTES)
}

pub(crate) fn kafka_config(kafka: &KafkaSettings, record_bytes_max: usize) -> KafkaConfig {
    KafkaConfig {
        client_id: kafka.client_id.clone(),
        properties: kafka.properties.clone(),
        replication_factor: kafka.replication_factor,
        min_insync_replicas: kafka.min_insync_replicas,
        record_bytes_max,
        delivery_timeout: kafka.delivery_timeout,
        group_instance_id: kafka.group_instance_id.clone(),
        session_timeout: kafka.session_timeout,
        heartbeat_interval: HEARTBEAT_MAX.min(kafka.session_timeout / 3),
        ..KafkaConfig::new(&kafka.brokers.join(","))
    }
}

pub(crate) fn encryption_key(settings: &Settings) -> Result<EncryptionKey> {
    let text = settings
        .store
        .encryption_key
        .as_ref()
        .context("there is no encryption key: set MAILRAIL_ENCRYPTION_KEY")?;
    EncryptionKey::parse(text.expose()).context("the encryption key cannot be used")
}

/// Tries again while the error is transient and nobody asked to stop.
pub(crate) async fn patiently<T, E, F>(
    what: &str,
    stop: &CancellationToken,
    transient: impl Fn(&E) -> bool,
    mut attempt: impl FnMut() -> F,
) -> Result<T>
where
    E: std::error::Error + Send + Sync + 'static,
    F: Future<Output = Result<T, E>>,
{
    loop {
        let error = match attempt().await {
            Ok(value) => return Ok(value),
            Err(error) if transient(&error) => error,
            Err(error) => return Err(error.into()),
        };
        tracing::warn!(service = what, %error, "not there yet; waiting");
        tokio::select! {
            () = tokio::time::sleep(START_PAUSE) => {}
            () = stop.cancelled() => return Err(error.into()),
        }
    }
}
