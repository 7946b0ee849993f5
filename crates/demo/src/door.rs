//! The front door as who posts sees it: one event, again and again with the same id until there is an answer.

use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderValue, Method};
use mailrail_egress::operator::{ApiClient, ApiError};
use mailrail_types::{EventId, TenantId};
use tokio::time::{Instant, sleep};

use crate::Error;

/// Pause before an event is posted again, with the same id.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Somebody's way into ingest.
#[derive(Clone)]
pub(crate) struct Door {
    client: ApiClient,
    path: String,
    tenant: TenantId,
    patience: Duration,
}

/// One event as it goes out.
pub(crate) struct Letter<'a> {
    /// What the sender calls it.
    pub(crate) name: &'a str,
    /// What it must be called by ingest.
    pub(crate) event: EventId,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
}

impl Door {
    /// Posts go to `path` at `ingest`, for `tenant`, each again for as long as `patience`.
    pub(crate) fn new(
        ingest: &str,
        path: &str,
        token: Option<&str>,
        tenant: &TenantId,
        patience: Duration,
    ) -> Result<Self, Error> {
        let client =
            ApiClient::new(ingest, token).map_err(|error| refused("none yet", tenant, &error.to_string()))?;
        Ok(Self { client, path: path.to_owned(), tenant: tenant.clone(), patience })
    }

    /// Posts until there is an answer, and gives how often it posted again. An answer that was lost leaves open whether
    /// the event was accepted: the same id again makes it the same event.
    pub(crate) async fn post(&self, letter: Letter<'_>) -> Result<u64, Error> {
        let fail = |problem: String| refused(letter.name, &self.tenant, &problem);
        let end = Instant::now() + self.patience;
        let mut retries = 0;
        loop {
            let sent =
                self.client.send(Method::POST, &self.path, letter.headers.clone(), letter.body.clone());
            match sent.await {
                Ok(answer) if answer["id"] == letter.event.to_string() => return Ok(retries),
                Ok(answer) => {
                    return Err(fail(format!("the answer names {} and not {}", answer["id"], letter.event)));
                }
                Err(error) if is_passing(&error) && Instant::now() < end => {
                    retries += 1;
                    sleep(AGAIN_AFTER).await;
                }
                Err(error) => return Err(fail(error.to_string())),
            }
        }
    }
}

/// Whether the same request may succeed later.
fn is_passing(error: &ApiError) -> bool {
    match error.status {
        Some(status) => matches!(status, 408 | 429 | 500..=599),
        None => matches!(error.code.as_str(), "unreachable" | "timeout"),
    }
}

/// The event was not taken.
pub(crate) fn refused(event: &str, tenant: &TenantId, problem: &str) -> Error {
    Error::Refused { event: event.to_owned(), tenant: tenant.to_string(), problem: problem.to_owned() }
}

/// What a task of a player came to; a task that broke is a refusal.
pub(crate) fn joined<T>(
    task: Result<Result<T, Error>, tokio::task::JoinError>,
    tenant: &str,
) -> Result<T, Error> {
    task.unwrap_or_else(|error| {
        Err(Error::Refused {
            event: "unknown".to_owned(),
            tenant: tenant.to_owned(),
            problem: format!("the player broke: {error}"),
        })
    })
}
