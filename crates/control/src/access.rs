//! Who asks: an operator, by a bearer token; and how long a request may take.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::HeaderMap;
use http::header::{AUTHORIZATION, CACHE_CONTROL, HeaderValue};
use subtle::Choice;

use crate::config::Operator;
use crate::problem::Problem;
use crate::service::Shared;

/// The operator of a request, for the audit log.
#[derive(Debug, Clone)]
pub(crate) struct Actor(pub(crate) Arc<str>);

/// Lets operators pass. Everything else, unknown paths included, gets the same 401: it tells nothing.
pub(crate) async fn operators_only(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Response {
    match actor(&shared.config.operators, request.headers()) {
        Some(actor) => {
            request.extensions_mut().insert(actor);
            next.run(request).await
        }
        None => {
            // Not of target `audit`: whoever reaches the port could fill the disk with lines that nothing suppresses.
            tracing::warn!(path = request.uri().path(), "refused: not an operator");
            Problem::unauthorized().into_response()
        }
    }
}

/// Ends a request that takes too long. What it began in the store is rolled back unless it was committed already.
pub(crate) async fn in_time(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    match tokio::time::timeout(shared.config.request_timeout, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::timeout().into_response(),
    }
}

fn actor(operators: &[Operator], headers: &HeaderMap) -> Option<Actor> {
    let token = bearer(headers)?;
    // Every operator is compared, so that the time does not tell which one matched.
    let mut found = None;
    for operator in operators {
        let same: Choice = operator.has(token);
        if bool::from(same) {
            found = Some(Actor(operator.name().into()));
        }
    }
    found
}

/// The token, when there is exactly one credential and it is a bearer token.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?.to_str().ok()?, values.next()) else { return None };
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Answers may hold secrets that are shown once, and set-ups are nobody else's business: no cache keeps them.
pub(crate) async fn never_stored(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
