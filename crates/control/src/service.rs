//! The role: its routes, and serving them until it is stopped.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{delete, get, post};
use mailrail_limits::Sizer;
use mailrail_log::Log;
use mailrail_store::{Directory, Store};
use mailrail_telemetry::{DoorMetrics, MailboxMetrics, Metrics};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::access::{in_time, operators_only};
use crate::config::Config;
use crate::dead_letters::{DeadLetters, routes as letters};
use crate::error::Error;
use crate::measure::measured;
use crate::parked::Parked;
use crate::problem::Problem;
use crate::request_path::utf8_only;
use crate::setup_file::UrlCheck;
use crate::{apply, classes, explain, gauge, mailboxes, pause, resources, secrets, shed, status, why};

/// Bodies of set-ups held at once: with the body limit it bounds the memory that operators can take.
const SETUPS_AT_ONCE: usize = 4;

/// What every request can reach.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) directory: Arc<Directory>,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) url: Arc<UrlCheck>,
    pub(crate) sizer: Sizer,
    pub(crate) metrics: MailboxMetrics,
    pub(crate) door: DoorMetrics,
    /// Of each pipeline.
    pub(crate) dead_letters: Vec<DeadLetters>,
    /// One look at what waits at a time: the next one waits for it, the log does not serve both.
    pub(crate) looking: Mutex<()>,
    /// What status found parked.
    pub(crate) parked: Parked,
    /// One look at a time for why a delivery waits; whoever comes meanwhile is told to come back.
    pub(crate) explaining: Arc<Mutex<()>>,
    /// One change at a time in this process: what was checked is then what is changed.
    pub(crate) changing: Mutex<()>,
    /// Permits for the bodies of set-ups.
    pub(crate) setups: Semaphore,
}

/// The control API.
#[derive(Clone)]
pub struct Service {
    pub(crate) shared: Arc<Shared>,
}

impl Service {
    /// The service. `url` says whether a URL may be an endpoint's; the binary gives the policy of crate `egress`. What
    /// waits in mailboxes, and how replays go on, is shown in `metrics` as well, while the service runs.
    ///
    /// # Errors
    /// [`Error::NoOperator`] when nobody could use it.
    pub fn new(
        config: Config,
        store: Store,
        directory: Arc<Directory>,
        log: Arc<dyn Log>,
        url: Arc<UrlCheck>,
        sizer: Sizer,
        metrics: &Metrics,
    ) -> Result<Self, Error> {
        if config.operators.is_empty() {
            return Err(Error::NoOperator);
        }
        let letters_of = |of: &crate::Pipeline| {
            DeadLetters::measured(Arc::clone(&log), of.clone(), config.dead_letters, metrics.replay.clone())
        };
        let dead_letters = config.pipelines.iter().map(letters_of).collect();
        let (changing, looking, explaining) = (Mutex::new(()), Mutex::new(()), Arc::default());
        let setups = Semaphore::new(SETUPS_AT_ONCE);
        let shared = Shared {
            config,
            store,
            directory,
            log,
            url,
            sizer,
            metrics: metrics.mailbox.clone(),
            door: metrics.control.door.clone(),
            dead_letters,
            looking,
            parked: Parked::default(),
            explaining,
            changing,
            setups,
        };
        Ok(Service { shared: Arc::new(shared) })
    }

    /// The routes, for serving and for tests.
    pub fn router(&self) -> Router {
        let shared = Arc::clone(&self.shared);
        Router::new()
            .route("/v1/apply", post(apply::apply))
            .route("/v1/status", get(status::status))
            .route("/v1/mailboxes", get(mailboxes::list))
            .route("/v1/filters/test", post(explain::test))
            .route("/v1/events/{id}/explain", get(explain::event))
            .route("/v1/dead-letters", get(letters::list))
            .route("/v1/dead-letters/count", get(letters::count))
            .route("/v1/dead-letters/replays", get(letters::replays).post(letters::order))
            .route("/v1/dead-letters/replays/{id}", get(letters::replay))
            .route("/v1/dead-letters/replays/{id}/cancel", post(letters::cancel))
            .route("/v1/dead-letters/{id}", get(letters::show))
            .route("/v1/quarantine", get(letters::quarantine))
            .route("/v1/quarantine/{position}", get(letters::show_quarantined))
            .route("/v1/mailbox-classes", get(classes::list))
            .route("/v1/mailbox-classes/{id}", get(classes::item).put(classes::put).delete(classes::delete))
            .route("/v1/shed", get(shed::get).put(shed::put))
            .route("/v1/tenants", get(resources::tenants))
            .route("/v1/tenants/{tenant}", get(resources::tenant).delete(resources::delete_tenant))
            .route("/v1/tenants/{tenant}/{kind}", get(resources::list))
            .route("/v1/tenants/{tenant}/{kind}/{id}", get(resources::item).delete(resources::delete_item))
            .route("/v1/tenants/{tenant}/deliveries/{id}/why", get(why::why))
            .route("/v1/tenants/{tenant}/endpoints/{id}/pause", post(pause::pause))
            .route("/v1/tenants/{tenant}/endpoints/{id}/resume", post(pause::resume))
            .route("/v1/tenants/{tenant}/endpoints/{id}/secret/rotate", post(secrets::rotate))
            .route("/v1/tenants/{tenant}/endpoints/{id}/secret/previous", delete(secrets::revoke_previous))
            .route(
                "/v1/tenants/{tenant}/integrations/{id}/secret/previous",
                delete(secrets::revoke_previous_inbound),
            )
            .fallback(async || Problem::no_such_path())
            .method_not_allowed_fallback(async || Problem::method_not_allowed())
            .layer(from_fn(utf8_only))
            .layer(from_fn_with_state(Arc::clone(&shared), operators_only))
            .layer(from_fn_with_state(Arc::clone(&shared), in_time))
            .layer(from_fn(crate::access::never_stored))
            .layer(from_fn_with_state(Arc::clone(&shared), measured))
            .with_state(shared)
    }

    /// Serves until `stop`, then lets running requests end, at most for the drain timeout.
    ///
    /// # Errors
    /// [`Error::Listener`] when the listener cannot be used.
    pub async fn run(self, listener: TcpListener, stop: CancellationToken) -> Result<(), Error> {
        let address = listener.local_addr()?;
        tracing::info!(%address, "control API is up");
        // Replays and the gauge end with the listener, whatever ended it.
        let stop = stop.child_token();
        let gauge = tokio::spawn(gauge::run(Arc::clone(&self.shared), stop.clone()));
        let mut replays = JoinSet::new();
        for all in self.shared.dead_letters.clone() {
            let stop = stop.clone();
            replays.spawn(async move { all.run(stop).await });
        }
        let limits = self.shared.config.of_connections();
        let serving = mailrail_serve::serve(listener, self.router(), &limits, stop.clone());
        let served = serve_beside(serving, replays, stop, limits.drain_timeout).await;
        // It ends with the stop; a panic in there costs a gauge.
        let _ = gauge.await;
        tracing::info!("control API is down");
        Ok(served?)
    }
}

/// Serves, which ends by `stop` or by itself, and ends the replays: they have `drain_timeout` from the stop on, as connections have, and
/// not from the end of those. What is not finished then is carried on by the next process.
pub(crate) async fn serve_beside<T>(
    serving: impl Future<Output = T>,
    mut replays: JoinSet<()>,
    stop: CancellationToken,
    drain_timeout: Duration,
) -> T {
    let serving = async {
        let served = serving.await;
        stop.cancel();
        served
    };
    let ending = async {
        stop.cancelled().await;
        // Each ends with the batch that it is at.
        let ended = async { while replays.join_next().await.is_some() {} };
        if tokio::time::timeout(drain_timeout, ended).await.is_err() {
            tracing::warn!("a replay was cut off within a batch; whoever carries it on finishes that");
            replays.abort_all();
        }
    };
    tokio::join!(serving, ending).0
}
