//! What a caller did that cannot be done: `application/problem+json` with a stable code.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use serde_json::{Map, Value, json};

use crate::setup_file::{SetupProblem, code};

/// Code of an event that somebody wrote down to try a filter on, and that cannot be read.
pub(crate) const INVALID_EVENT: &str = "invalid_event";

/// Code of a tenant that is named and not set up.
pub(crate) const UNKNOWN_TENANT: &str = "unknown_tenant";

/// A refused or failed request.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    title: &'static str,
    detail: String,
    field: Option<String>,
    problems: Vec<SetupProblem>,
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Problem { status, code, title, detail: detail.into(), field: None, problems: Vec::new() }
    }

    pub(crate) fn unauthorized() -> Self {
        let detail = "send 'Authorization: Bearer <operator token>'";
        Self::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "The operator token is missing or not known",
            detail,
        )
    }

    pub(crate) fn no_such_path() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "There is nothing at this path", "check the path")
    }

    pub(crate) fn not_found(kind: &str, id: &str) -> Self {
        let detail = format!("there is no {kind} '{}'", shown(id));
        Self::new(StatusCode::NOT_FOUND, "not_found", "This does not exist", detail)
    }

    pub(crate) fn method_not_allowed() -> Self {
        let detail = "the 'Allow' header names the methods that are";
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "The method is not allowed here",
            detail,
        )
    }

    pub(crate) fn body_too_large(limit: usize) -> Self {
        let detail = format!("send at most {limit} bytes; split a set-up by tenant");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", "The request body is too large", detail)
    }

    pub(crate) fn unreadable_body() -> Self {
        let detail = "the body broke off; send it again";
        Self::new(StatusCode::BAD_REQUEST, "unreadable_body", "The request body could not be read", detail)
    }

    pub(crate) fn look_running() -> Self {
        let detail = "somebody else has this process look for a delivery or an event; ask again soon";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "look_running", "One such look runs already", detail)
    }

    pub(crate) fn timeout() -> Self {
        let detail = "a change may or may not have been made; it is safe to send it again";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "timeout", "The request took too long", detail)
    }

    pub(crate) fn invalid_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", "The request is not valid", detail)
    }

    pub(crate) fn invalid_setup(problems: Vec<SetupProblem>) -> Self {
        let detail = format!("{} problem(s); nothing was changed", problems.len());
        Problem {
            problems,
            ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_setup", "The set-up is not valid", detail)
        }
    }

    /// One value of a request that is well-formed otherwise; `field` says which.
    pub(crate) fn invalid_value(
        code: &'static str,
        field: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        Problem {
            field: Some(field.into()),
            ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, "A value is not valid", detail)
        }
    }

    pub(crate) fn invalid_filter(field: &'static str, detail: String) -> Self {
        Self::invalid_value("invalid_filter", field, detail)
    }

    pub(crate) fn not_looked_at(detail: String) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "It was not found where was looked", detail)
    }

    pub(crate) fn too_many_replays(detail: String) -> Self {
        Self::new(StatusCode::CONFLICT, "too_many_replays", "Too many replays are not over", detail)
    }

    pub(crate) fn ledger_full(detail: String) -> Self {
        Self::new(StatusCode::CONFLICT, "ledger_full", "Too many letters were put back", detail)
    }

    pub(crate) fn ledger_unreadable(detail: String) -> Self {
        let title = "The ledger of redrives is not understood";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ledger_unreadable", title, detail)
    }

    pub(crate) fn log_unavailable(reason: &str) -> Self {
        tracing::warn!(reason, "the log does not answer");
        let detail =
            "an order may or may not have been taken: look at the list of replays before it is sent again";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "log_unavailable", "The log does not answer", detail)
    }

    /// As [`Problem::log_unavailable`], of a look that changes nothing.
    pub(crate) fn log_unreadable(reason: &str) -> Self {
        tracing::warn!(reason, "the log does not answer");
        let detail = "not everything could be looked at, and it was not found in the rest; ask again";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "log_unavailable", "The log does not answer", detail)
    }

    fn conflict(detail: String) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", "The change contradicts what is stored", detail)
    }

    fn store_unavailable() -> Self {
        let detail = "a change may or may not have been made; it is safe to send it again";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", "The store does not answer", detail)
    }

    pub(crate) fn internal() -> Self {
        let detail = "the log of this process says more";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "The request failed", detail)
    }
}

impl From<mailrail_store::Error> for Problem {
    fn from(error: mailrail_store::Error) -> Self {
        use mailrail_store::{Error, SetupError};
        match error {
            Error::Setup(SetupError::ClassOption(error)) => {
                Self::invalid_value(code::INVALID_CLASS, error.field, error.to_string())
            }
            Error::Setup(problem) => Self::conflict(problem.to_string()),
            Error::NotFound { kind, id, .. } => Self::not_found(kind.name(), &id),
            Error::ClassNotFound(class) => Self::not_found("class", class.as_str()),
            Error::Unavailable(reason) => {
                tracing::warn!(reason, "the store does not answer");
                Self::store_unavailable()
            }
            other => {
                tracing::error!(error = %other, "the store failed");
                Self::internal()
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = Map::new();
        body.insert("type".into(), format!("https://mailrail.dev/problems/{}", self.code).into());
        body.insert("title".into(), self.title.into());
        body.insert("status".into(), self.status.as_u16().into());
        body.insert("code".into(), self.code.into());
        body.insert("detail".into(), self.detail.into());
        if let Some(field) = self.field {
            body.insert("field".into(), field.into());
        }
        if !self.problems.is_empty() {
            body.insert("problems".into(), json!(self.problems));
        }
        let mut response = Response::new(Body::from(Value::Object(body).to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }
}

/// A caller's own text, short enough for an answer.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(64).collect()
}
