//! The path of a request, before a handler takes ids out of it.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use percent_encoding::percent_decode_str;

use crate::problem::Problem;

/// Refuses a path that is no UTF-8 once it is decoded. The HTTP layer would refuse it too, but with a text of its own and no code.
pub(crate) async fn utf8_only(request: Request, next: Next) -> Response {
    if percent_decode_str(request.uri().path()).decode_utf8().is_err() {
        return Problem::invalid_request("the path is not UTF-8 once it is decoded: check the ids in it")
            .into_response();
    }
    next.run(request).await
}
