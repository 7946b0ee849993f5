//! Answers: ids of what was accepted, problems for what was not.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use mailrail_types::EventId;
use serde::Serialize;

use crate::problem::{Problem, Refusal};

/// What became of the events of a request.
#[derive(Debug)]
pub(crate) enum Reply {
    /// One event, accepted.
    Single(EventId),
    /// A batch, event by event, in the producer's order.
    Batch(Vec<Result<EventId, Refusal>>),
    /// A webhook whose integration has no cells: taken, and nothing to keep.
    NoCells,
}

#[derive(Serialize)]
struct Accepted {
    id: String,
}

#[derive(Serialize)]
struct Nowhere {
    cells: u8,
}

#[derive(Serialize)]
struct Items {
    items: Vec<Item>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item {
    Accepted { status: u16, id: String },
    Refused(ProblemBody),
}

/// The members of `application/problem+json` (RFC 9457). Inside a batch the same members say what became of an item.
#[derive(Serialize)]
struct ProblemBody {
    r#type: String,
    title: &'static str,
    status: u16,
    code: &'static str,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<Vec<Item>>,
}

impl From<&Refusal> for ProblemBody {
    fn from(refusal: &Refusal) -> Self {
        Self {
            r#type: refusal.problem.type_uri(),
            title: refusal.problem.title(),
            status: refusal.problem.status(),
            code: refusal.problem.code(),
            detail: refusal.detail.clone().into_owned(),
            field: refusal.field.clone().map(std::borrow::Cow::into_owned),
            items: None,
        }
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        match self {
            Reply::Single(id) => {
                json(StatusCode::ACCEPTED, "application/json", &Accepted { id: id.to_string() })
            }
            Reply::Batch(outcomes) => batch(&outcomes),
            Reply::NoCells => json(StatusCode::ACCEPTED, "application/json", &Nowhere { cells: 0 }),
        }
    }
}

/// 202 when all were accepted, 207 when some were, a problem when none was: no 2xx without a stored event.
fn batch(outcomes: &[Result<EventId, Refusal>]) -> Response {
    let accepted = outcomes.iter().filter(|o| o.is_ok()).count();
    let items: Vec<Item> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Ok(id) => Item::Accepted { status: StatusCode::ACCEPTED.as_u16(), id: id.to_string() },
            Err(refusal) => Item::Refused(refusal.into()),
        })
        .collect();
    if accepted == 0 {
        let detail = "no event was accepted; 'items' says for each what to change";
        let refusal = Refusal::new(Problem::BatchRefused, detail);
        let body = ProblemBody { items: Some(items), ..ProblemBody::from(&refusal) };
        return json(status_of(refusal.problem), PROBLEM_JSON, &body);
    }
    let status = if accepted == outcomes.len() { StatusCode::ACCEPTED } else { StatusCode::MULTI_STATUS };
    json(status, "application/json", &Items { items })
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = json(status_of(self.problem), PROBLEM_JSON, &ProblemBody::from(&self));
        let headers = response.headers_mut();
        if let Some(secs) = self.problem.retry_after_secs() {
            headers.insert(RETRY_AFTER, HeaderValue::from(secs));
        }
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        match self.problem {
            Problem::Unauthorized => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"mailrail\""));
            }
            Problem::BadSignature => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Signature realm=\"mailrail\""));
            }
            _ => {}
        }
        response
    }
}

const PROBLEM_JSON: &str = "application/problem+json";

fn status_of(problem: Problem) -> StatusCode {
    StatusCode::from_u16(problem.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn json<T: Serialize>(status: StatusCode, media_type: &'static str, body: &T) -> Response {
    // Strings and numbers only: this cannot fail, and an empty body with the right status is still a true answer.
    let text = serde_json::to_vec(body).unwrap_or_default();
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}
