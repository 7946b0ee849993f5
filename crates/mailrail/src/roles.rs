//! Roles: each one's service from its settings, and running several of them until the stop.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use mailrail_control::DeadLetterOptions;
use mailrail_control::setup_file::UrlRefusal;
use mailrail_egress::{AddressPolicy, Egress, EgressConfig, UrlError, UrlPolicy, check_url};
use mailrail_limits::{LeaseStore, Leases, LocalLeases, RedisLeases, Terms};
use mailrail_log::LeaseTerms;
use mailrail_mailbox::Limits;
use mailrail_policy::{BreakerOptions, RetrySchedule};
use mailrail_telemetry::Traces;
use mailrail_types::PartitionCount;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::admin::{Admin, Check};
use crate::assemble::{Parts, clock, record_bytes_max};
use crate::prepare::warning_of_redis;
use crate::settings::backends::LogKind;
use crate::settings::delivery::{RetryPreset, RetrySettings};
use crate::settings::{Role, Settings};
use crate::traces;

/// Bytes that the windows of one process hold together.
const WINDOWS_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Longest that a partition drains when the group takes it away: the others of the group wait with it.
const HAND_OVER_MAX: Duration = Duration::from_secs(8);
/// What clocks and scheduling may take of a session beside the longest attempt.
const LEASE_MARGIN: Duration = Duration::from_secs(5);
/// Between two renewals of the lease when nothing else is committed; more often when the lease is short, so that one commit
/// that fails ends nothing.
const RENEW_EVERY_MAX: Duration = Duration::from_secs(5);
const RENEWALS_OF_A_LEASE: u32 = 3;
/// How long the log may flush at the end.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// Where the doors of the started roles are.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Doors {
    pub(crate) ingest: Option<SocketAddr>,
    pub(crate) control: Option<SocketAddr>,
    pub(crate) admin: Option<SocketAddr>,
}

/// Running roles.
pub(crate) struct Running {
    pub(crate) doors: Doors,
    tasks: JoinSet<Result<()>>,
    /// Ends what must outlive the roles: admin server and change feed.
    last: CancellationToken,
    afterwards: JoinSet<Result<()>>,
    traces: Traces,
    parts: Arc<Parts>,
    stop: CancellationToken,
}

/// Starts the roles. Listeners are bound before anything runs, so that a taken port is an error and not half a start.
pub(crate) async fn start(role: Role, parts: Arc<Parts>, stop: CancellationToken) -> Result<Running> {
    let settings = &parts.settings;
    let is = |one: Role| role == one || matches!(role, Role::All | Role::Dev);
    let mut doors = Doors::default();
    let ingest = bind(is(Role::Ingest), settings.ingest.listen, &mut doors.ingest).await?;
    let control = bind(is(Role::Control), settings.control.listen, &mut doors.control).await?;
    let admin = bind(true, settings.admin.listen, &mut doors.admin).await?;

    let traces = traces::start(role, member(), &parts)?;
    let last = CancellationToken::new();
    let mut afterwards = JoinSet::new();
    let follow = parts.directory.clone().follow(last.clone());
    afterwards.spawn(async move {
        follow.await;
        Ok(())
    });
    let (sizer, sizing_stop) = (parts.sizer.clone(), last.clone());
    afterwards.spawn(async move {
        sizer.run(sizing_stop).await;
        Ok(())
    });
    if let Some(listener) = admin {
        let sizer = parts.sizer.clone();
        let admin = Admin::new(parts.metrics.clone(), checks(&parts), stop.clone())
            .before_scrape(move |all| all.mailbox.set_sizing_unavailable(sizer.counts().sizing_unavailable));
        let last = last.clone();
        afterwards.spawn(async move { admin.run(listener, last).await.context("admin server") });
    }

    let (asking, last_of_all) = (parts.clone(), last.clone());
    afterwards.spawn(async move {
        tokio::select! {
            () = warn_of_redis(&asking.settings) => {}
            () = last_of_all.cancelled() => {}
        }
        Ok(())
    });

    let mut tasks = JoinSet::new();
    if let Some(listener) = ingest {
        let (service, stop) = (ingest_service(&parts)?.with_traces(traces.clone()), stop.clone());
        tasks.spawn(async move { service.run(listener, stop).await.context("ingest") });
    }
    if is(Role::Match) {
        let (service, stop) = (match_service(&parts)?.with_traces(traces.clone()), stop.clone());
        tasks.spawn(async move { service.run(stop).await.context("match") });
    }
    if is(Role::Deliver) {
        let (service, stop) = (deliver_service(&parts)?.with_traces(traces.clone()), stop.clone());
        tasks.spawn(async move { service.run(stop).await.context("deliver") });
    }
    if let Some(listener) = control {
        let (service, stop) = (control_service(&parts)?, stop.clone());
        tasks.spawn(async move { service.run(listener, stop).await.context("control") });
    }
    tracing::info!(?role, ?doors, "started");
    Ok(Running { doors, tasks, last, afterwards, traces, parts, stop })
}

impl Running {
    /// Waits until every role has drained after the stop. A role that ends by itself stops the others and is the error.
    pub(crate) async fn wait(mut self) -> Result<()> {
        let mut outcome = Ok(());
        while let Some(ended) = self.tasks.join_next().await {
            let ended = ended.map_err(anyhow::Error::from).and_then(|result| result);
            let early = !self.stop.is_cancelled();
            if outcome.is_ok() {
                outcome = ended.and_then(|()| {
                    if early { Err(anyhow!("a role ended without being asked")) } else { Ok(()) }
                });
            }
            self.stop.cancel();
        }
        tokio::join!(self.parts.log.close(CLOSE_WAIT), self.traces.shutdown());
        self.last.cancel();
        let afterwards = async { while self.afterwards.join_next().await.is_some() {} };
        if tokio::time::timeout(CLOSE_WAIT, afterwards).await.is_err() {
            tracing::warn!("something still ran at the end; it is cut");
        }
        tracing::info!("stopped");
        outcome
    }
}

async fn bind(
    wanted: bool,
    address: SocketAddr,
    door: &mut Option<SocketAddr>,
) -> Result<Option<TcpListener>> {
    if !wanted {
        return Ok(None);
    }
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!("{address} cannot be listened on; free the port or set another (MAILRAIL__<SECTION>__LISTEN)")
    })?;
    *door = Some(listener.local_addr()?);
    Ok(Some(listener))
}

/// Says once when Redis may lose what it is told. Nothing waits for it.
async fn warn_of_redis(settings: &Settings) {
    if let Some((code, warning)) = warning_of_redis(settings).await {
        tracing::warn!(code, "{warning}");
    }
}

fn checks(parts: &Arc<Parts>) -> Vec<Check> {
    let (log, directory, stopped) = (parts.log.clone(), parts.directory.clone(), parts.stopped.clone());
    vec![
        Check::new("partitions", move || {
            let count = stopped.count();
            async move {
                if count == 0 {
                    Ok(())
                } else {
                    Err(format!("{count} stand still; see docs/operate/lost-offsets.md"))
                }
            }
        }),
        Check::new("log", move || {
            let log = log.clone();
            async move { log.check().await.map_err(|e| e.to_string()) }
        }),
        Check::new("store", move || {
            let current = directory.is_current();
            async move { if current { Ok(()) } else { Err("the change feed cannot be read".to_owned()) } }
        }),
    ]
}

fn partitions(settings: &Settings) -> Result<PartitionCount> {
    Ok(PartitionCount(NonZeroU32::new(settings.pipeline.partitions).context("pipeline.partitions is 0")?))
}

fn bytes(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn ingest_service(parts: &Parts) -> Result<mailrail_ingest::Service> {
    let settings = &parts.settings;
    let config = mailrail_ingest::Config {
        listen: settings.ingest.listen,
        region: settings.region.clone(),
        body_limit_bytes: bytes(settings.ingest.body_limit_bytes),
        record_bytes_max: record_bytes_max(settings),
        batch_events_max: settings.ingest.batch_events_max,
        ..mailrail_ingest::Config::new(
            settings.pipeline.name.clone(),
            parts.topics.events.clone(),
            partitions(settings)?,
        )
    };
    let (log, directory) = (parts.log.clone(), parts.directory.clone());
    Ok(mailrail_ingest::Service::new(config, log, directory, parts.sizer.clone(), &parts.metrics, clock()))
}

fn match_service(parts: &Parts) -> Result<mailrail_match::Service> {
    let settings = &parts.settings;
    let config = mailrail_match::Config {
        pipeline: settings.pipeline.name.as_str().into(),
        region: settings.region.as_str().into(),
        events_topic: parts.topics.events.clone(),
        deliveries_topic: parts.topics.deliveries.clone(),
        quarantine_topic: parts.topics.quarantine.clone(),
        group: parts.topics.match_group.clone(),
        partitions: partitions(settings)?,
        delivery_lifetime: settings.deliver.delivery_deadline,
        stopped: parts.stopped.clone(),
        commit_interval: settings.deliver.commit_interval,
        hand_over: settings.deliver.drain.min(HAND_OVER_MAX),
    };
    let (log, directory) = (parts.log.clone(), parts.directory.clone());
    Ok(mailrail_match::Service::new(config, log, directory, parts.sizer.clone(), &parts.metrics, clock())?)
}

fn deliver_service(parts: &Parts) -> Result<mailrail_deliver::Service> {
    let settings = &parts.settings;
    let deliver = &settings.deliver;
    let config = mailrail_deliver::Config {
        deliveries_topic: parts.topics.deliveries.clone(),
        attempts_topic: parts.topics.attempts.clone(),
        dead_letters_topic: parts.topics.dead_letters.clone(),
        quarantine_topic: parts.topics.quarantine.clone(),
        journal_topic: parts.topics.journal.clone(),
        member: member(),
        group: parts.topics.deliver_group.clone(),
        window: Limits { records_max: deliver.window_records, bytes_max: bytes(deliver.window_bytes) },
        bytes_max: WINDOWS_BYTES_MAX,
        attempts_in_flight_max: deliver.attempts_in_flight_max,
        attempt_timeout: deliver.attempt_timeout,
        retry: retry_schedule(&deliver.retry)?,
        breaker: BreakerOptions { failures: deliver.breaker_failures, ..BreakerOptions::default() },
        stopped: parts.stopped.clone(),
        commit_interval: deliver.commit_interval,
        hand_over: deliver.drain.min(HAND_OVER_MAX),
        lease: lease_terms(settings),
    };
    let egress = Egress::new(egress_config(settings)?)?;
    let (log, directory) = (parts.log.clone(), parts.directory.clone());
    let metrics = parts.metrics.deliver.clone();
    let service = mailrail_deliver::Service::new(config, log, directory, egress, metrics, clock())?;
    Ok(service.with_leases(leases(parts)?))
}

/// Limits of endpoints, shared over Redis, or of this process where there is none. Redis need not be there: each process keeps
/// to its share then.
fn leases(parts: &Parts) -> Result<Leases> {
    let settings = &parts.settings;
    let store: Arc<dyn LeaseStore> = match settings.limits.redis.as_slice() {
        [] => Arc::new(LocalLeases::new()),
        urls => Arc::new(RedisLeases::new(urls, &settings.topic_prefix).context("limits.redis")?),
    };
    Ok(Leases::new(store, Terms::default(), parts.metrics.limits.clone()))
}

/// Names this process in the journal, for people.
fn member() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "localhost".to_owned());
    format!("{host}/{}", std::process::id())
}

/// An attempt that starts at the last moment of the lease ends before the group may give its partition to another member. The
/// local log takes no membership away.
fn lease_terms(settings: &Settings) -> Option<LeaseTerms> {
    if settings.log.kind == LogKind::Local {
        return None;
    }
    let taken = settings.deliver.attempt_timeout + LEASE_MARGIN;
    let valid_for = settings.log.kafka.session_timeout.saturating_sub(taken);
    Some(LeaseTerms { valid_for, renew_every: RENEW_EVERY_MAX.min(valid_for / RENEWALS_OF_A_LEASE) })
}

fn retry_schedule(retry: &RetrySettings) -> Result<RetrySchedule> {
    if !retry.delays.is_empty() {
        return RetrySchedule::list(retry.delays.clone()).context("deliver.retry.delays");
    }
    Ok(match retry.preset {
        RetryPreset::Standard => RetrySchedule::standard_webhooks(),
        RetryPreset::Sentry => RetrySchedule::sentry(),
    })
}

/// Addresses as URL literals, and names of internal kinds, are what an operator who opened a network means to reach; with no
/// network opened they stay refused.
fn url_policy(settings: &Settings) -> UrlPolicy {
    let egress = &settings.egress;
    let opened = !egress.allow_cidrs.is_empty();
    UrlPolicy {
        allow_http: egress.allow_http,
        allow_ip_literals: opened,
        allow_internal_names: opened,
        deny_hosts: Vec::new(),
        addresses: AddressPolicy {
            allow_cidrs: egress.allow_cidrs.clone(),
            deny_cidrs: egress.deny_cidrs.clone(),
            allow_loopback: false,
        },
    }
}

fn egress_config(settings: &Settings) -> Result<EgressConfig> {
    let url = url_policy(settings);
    if !url.addresses.allow_cidrs.is_empty() {
        tracing::warn!(allow_cidrs = ?url.addresses.allow_cidrs, "endpoints may be in these networks");
    }
    let read =
        |file: &PathBuf| std::fs::read(file).with_context(|| format!("egress.ca_file {}", file.display()));
    let extra_ca_pem = settings.egress.ca_file.as_ref().map(read).transpose()?;
    let idle_per_host = settings.deliver.attempts_in_flight_max;
    Ok(EgressConfig { url, extra_ca_pem, idle_per_host, ..EgressConfig::default() })
}

/// The pipeline as control names its parts.
pub(crate) fn pipeline(settings: &Settings) -> mailrail_control::Pipeline {
    let Settings { topic_prefix, pipeline, .. } = settings;
    mailrail_control::Pipeline::named(topic_prefix, &pipeline.name, pipeline.partitions)
}

/// How dead letters are put back. What a process that died has begun to append has come or is refused before another one looks
/// for it; the local log is one process's.
pub(crate) fn dead_letter_options(settings: &Settings) -> DeadLetterOptions {
    let takeover_after = match settings.log.kind {
        LogKind::Local => Duration::ZERO,
        LogKind::Kafka => settings.log.kafka.delivery_timeout + DeadLetterOptions::TAKEOVER_MARGIN,
    };
    DeadLetterOptions { takeover_after, ..DeadLetterOptions::new(settings.deliver.delivery_deadline) }
}

fn control_service(parts: &Parts) -> Result<mailrail_control::Service> {
    let settings = &parts.settings;
    let token = settings
        .control
        .token
        .as_ref()
        .context("there is no administrator's token: set MAILRAIL_ADMIN_TOKEN")?;
    let operator = mailrail_control::Operator::new("admin", token.expose())?;
    let config = mailrail_control::Config {
        listen: settings.control.listen,
        dead_letters: dead_letter_options(settings),
        scan_records_max: settings.control.scan_records_max,
        why_records_max: settings.control.why_records_max,
        why_timeout: settings.control.why_timeout,
        ..mailrail_control::Config::new(vec![operator], vec![pipeline(settings)])
    };
    let policy = url_policy(settings);
    let refusal = |error: UrlError| UrlRefusal { code: error.code(), detail: error.to_string() };
    let url = Arc::new(move |url: &str| check_url(url, &policy).map(String::from).map_err(refusal));
    let (store, directory, log) = (parts.store.clone(), parts.directory.clone(), parts.log.clone());
    let sizer = parts.sizer.clone();
    Ok(mailrail_control::Service::new(config, store, directory, log, url, sizer, &parts.metrics)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i10_the_lease_leaves_the_session_room_for_the_longest_attempt() {
        let mut settings = Settings::default();
        let terms = lease_terms(&settings).expect("a group can take its partitions away");
        assert_eq!(terms.valid_for, Duration::from_secs(25));
        assert_eq!(terms.renew_every, Duration::from_secs(5));

        settings.deliver.attempt_timeout = Duration::from_secs(49);
        let terms = lease_terms(&settings).expect("terms");
        assert_eq!(terms.valid_for, Duration::from_secs(6));
        assert_eq!(terms.renew_every, Duration::from_secs(2), "one failed renewal ends nothing");

        settings.log.kind = LogKind::Local;
        assert_eq!(lease_terms(&settings), None);
    }
}
