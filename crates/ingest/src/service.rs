//! The service: its parts, its routes, and what is counted of each answer.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};
use axum::{Router, middleware};
use mailrail_limits::Sizer;
use mailrail_log::Log;
use mailrail_store::Directory;
use mailrail_telemetry::{IngestMetrics, MailboxMetrics, Metrics, ReasonLabels, StatusLabels, Traces};
use mailrail_types::Timestamp;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::accept::accept;
use crate::config::Config;
use crate::error::Error;
use crate::in_flight::InFlight;
use crate::inbound::take_in;
use crate::problem::{Problem, Refusal};
use crate::reply::Reply;
use crate::source::Sources;

/// The one path that takes events.
pub const EVENTS_PATH: &str = "/v1/events";

/// Beneath it, `{provider}/{integration}` takes a third party's webhooks.
pub const INBOUND_PATH: &str = "/v1/inbound";

/// Tells the time at which an event is taken in.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The front door. A clone is the same door.
#[derive(Clone)]
pub struct Service {
    door: Arc<FrontDoor>,
}

/// What the steps of a request work with.
pub(crate) struct FrontDoor {
    pub(crate) config: Config,
    pub(crate) log: Arc<dyn Log>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) sizer: Sizer,
    pub(crate) metrics: IngestMetrics,
    pub(crate) mailboxes: MailboxMetrics,
    pub(crate) clock: Clock,
    pub(crate) in_flight: InFlight,
    pub(crate) sources: Sources,
    pub(crate) traces: Traces,
}

impl Service {
    /// A front door that appends to `log` what senders known to `directory` bring.
    #[must_use]
    pub fn new(
        config: Config,
        log: Arc<dyn Log>,
        directory: Arc<Directory>,
        sizer: Sizer,
        metrics: &Metrics,
        clock: Clock,
    ) -> Self {
        let in_flight = InFlight::new(&config);
        let sources = Sources::new(&config);
        let (mailboxes, metrics) = (metrics.mailbox.clone(), metrics.ingest.clone());
        Self {
            door: Arc::new(FrontDoor {
                config,
                log,
                directory,
                sizer,
                metrics,
                mailboxes,
                clock,
                in_flight,
                sources,
                traces: Traces::off(),
            }),
        }
    }

    /// With traces of what it accepts. Without it there are none.
    #[must_use]
    pub fn with_traces(mut self, traces: Traces) -> Self {
        if let Some(door) = Arc::get_mut(&mut self.door) {
            door.traces = traces;
        }
        self
    }

    /// Its routes, limits of bodies included. Limits of headers and connections are those of [`Service::run`].
    pub fn router(&self) -> Router {
        Router::new()
            .route(EVENTS_PATH, post(post_events))
            .route(&format!("{INBOUND_PATH}/{{*address}}"), any(any_inbound))
            .method_not_allowed_fallback(method_not_allowed)
            .fallback(not_found)
            .layer(middleware::from_fn_with_state(Arc::clone(&self.door), measured))
            .with_state(Arc::clone(&self.door))
    }

    /// Takes requests from `listener` until `stop`; then no new connection and no new request, and those that run have
    /// [`Config::drain_timeout`] to end.
    ///
    /// # Errors
    /// [`Error::Listener`] when the listener cannot be used any more.
    pub async fn run(self, listener: TcpListener, stop: CancellationToken) -> Result<(), Error> {
        let limits = self.door.config.of_connections();
        Ok(mailrail_serve::serve(listener, self.router(), &limits, stop).await?)
    }
}

async fn post_events(State(door): State<Arc<FrontDoor>>, request: Request) -> Response {
    let reply = accept(&door, request).await;
    count_events(&door.metrics, &reply);
    reply.into_response()
}

async fn any_inbound(State(door): State<Arc<FrontDoor>>, request: Request) -> Response {
    let reply = take_in(&door, request).await;
    count_events(&door.metrics, &reply);
    reply.into_response()
}

async fn method_not_allowed() -> Refusal {
    Refusal::method_not_allowed("POST", "send events with POST")
}

async fn not_found() -> Refusal {
    Refusal::new(Problem::NotFound, format!("send events to {EVENTS_PATH}"))
}

/// Counts the answer and how long it took. One that nobody waited for any more is in neither.
async fn measured(State(door): State<Arc<FrontDoor>>, request: Request, next: Next) -> Response {
    let open = door.metrics.door.begin();
    let route = route_class(request.extensions().get());
    let response = next.run(request).await;
    let status = response.status().as_u16();
    door.metrics.requests.get_or_create(&StatusLabels { status }).inc();
    open.answered(route, status);
    response
}

/// The class of a route, in metrics. Callers choose paths, and there are few classes.
fn route_class(path: Option<&MatchedPath>) -> &'static str {
    match path.map(MatchedPath::as_str) {
        Some(EVENTS_PATH) => "events",
        Some(path) if path.starts_with(INBOUND_PATH) => "inbound",
        Some(_) | None => "other",
    }
}

/// A request that is refused as a whole counts as one event: how many it held may not even be known.
fn count_events(metrics: &IngestMetrics, reply: &Result<Reply, Refusal>) {
    let refused = |refusal: &Refusal| {
        metrics.refused.get_or_create(&ReasonLabels { reason: refusal.problem.code() }).inc();
    };
    match reply {
        Ok(Reply::Single(_)) => {
            metrics.accepted.inc();
        }
        Ok(Reply::NoCells) => {
            metrics.inbound_without_cells.inc();
        }
        Ok(Reply::Batch(outcomes)) => {
            for outcome in outcomes {
                match outcome {
                    Ok(_) => {
                        metrics.accepted.inc();
                    }
                    Err(refusal) => refused(refusal),
                }
            }
        }
        Err(refusal) => refused(refusal),
    }
}
