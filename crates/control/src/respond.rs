//! Bodies in and out: JSON, bounded.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::Serialize;

use crate::problem::Problem;
use crate::service::Shared;

/// A 200 with this body.
pub(crate) fn json<T: Serialize>(body: &T) -> Response {
    // Own types with string keys: serialising them to memory cannot fail.
    let text = serde_json::to_string(body).unwrap_or_default();
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The whole body, when it is within the limit.
pub(crate) async fn read_body(shared: &Shared, body: Body) -> Result<Bytes, Problem> {
    let limit = shared.config.body_limit_bytes;
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Problem::body_too_large(limit)),
        Err(_) => Err(Problem::unreadable_body()),
    }
}

/// Waits, for a bounded time, until this process's own view shows the change: the next request of the same caller then
/// meets roles that know it. A view that is slower follows by itself.
pub(crate) async fn visible(shared: &Arc<Shared>, seq: u64) -> bool {
    tokio::time::timeout(shared.config.visible_timeout, shared.directory.reached(seq)).await.is_ok()
}
