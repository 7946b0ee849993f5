//! `/v1/mailbox-classes`: the options of mailboxes, changed at run time.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use mailrail_types::{ClassError, ClassId, MailboxClass};
use serde_json::{Map, Value, json as value};

use crate::access::Actor;
use crate::problem::Problem;
use crate::resources::{PageQuery, paged, parse_id};
use crate::respond::{json, read_body, visible};
use crate::service::Shared;
use crate::setup_file::{code, parse_json};

/// `GET /v1/mailbox-classes`.
pub(crate) async fn list(State(shared): State<Arc<Shared>>, page: PageQuery) -> Result<Response, Problem> {
    let classes = shared.store.classes().await?;
    paged(classes.iter().map(|class| (class.id.to_string(), shown(class))).collect(), page)
}

/// `GET /v1/mailbox-classes/{id}`.
pub(crate) async fn item(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let found = shared.store.classes().await?.into_iter().find(|class| class.id.as_str() == id);
    found.map(|class| json(&shown(&class))).ok_or_else(|| Problem::not_found("class", &id))
}

/// `PUT /v1/mailbox-classes/{id}`: creates or changes a class. Options that are left out stay as they are, or are the
/// defaults of a new class; the answer is the whole class.
pub(crate) async fn put(
    State(shared): State<Arc<Shared>>,
    Extension(actor): Extension<Actor>,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, Problem> {
    let id: ClassId = id.parse().map_err(|e: mailrail_types::IdError| {
        Problem::invalid_value(code::INVALID_ID, "id", e.to_string())
    })?;
    let body = read_body(&shared, body).await?;
    let options = read_options(&body, &id)?;
    // Locked while read and written, so that two changes of different options in this process both stay.
    let _changing = shared.changing.lock().await;
    let known = shared.store.classes().await?.into_iter().find(|class| class.id == id);
    let class = merge(known, id, options)?;
    class.check().map_err(|e| out_of_range(&e))?;
    let seq = shared.store.put_class(&class).await?;
    tracing::info!(
        target: "audit",
        actor = &*actor.0,
        action = "put_class",
        class = %class.id,
        tolerates_reordering = class.tolerates_reordering,
        threads = class.threads,
        payloads_per_thread = class.payloads_per_thread,
        buckets_max = class.buckets_max,
        fixed_buckets = class.fixed_buckets,
        priority = class.priority,
        seq,
        "class changed"
    );
    visible(&shared, seq).await;
    Ok(json(&shown(&class)))
}

/// `DELETE /v1/mailbox-classes/{id}`.
pub(crate) async fn delete(
    State(shared): State<Arc<Shared>>,
    Extension(actor): Extension<Actor>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let id: ClassId = parse_id("class", &id)?;
    let _changing = shared.changing.lock().await;
    let seq = shared.store.delete_class(&id).await?;
    tracing::info!(target: "audit", actor = &*actor.0, action = "delete", kind = "class", class = %id, seq, "deleted");
    visible(&shared, seq).await;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The options that a body names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Options {
    tolerates_reordering: Option<bool>,
    threads: Option<u32>,
    payloads_per_thread: Option<u32>,
    buckets_max: Option<u32>,
    fixed_buckets: Option<u32>,
    priority: Option<u32>,
}

fn read_options(body: &[u8], id: &ClassId) -> Result<Options, Problem> {
    let tree = parse_json(body).map_err(|problem| {
        Problem::invalid_request(format!("the body is not usable JSON: {}", problem.detail))
    })?;
    let Value::Object(mut object) = tree else {
        return Err(Problem::invalid_request("send an object such as {\"threads\": 8}"));
    };
    let wrong = |field: &str, expected: &str| {
        Problem::invalid_value(code::WRONG_TYPE, field, format!("'{field}' must be {expected}"))
    };
    // What `GET` answers may be sent back, so the id may be there; it cannot be another.
    if let Some(named) = object.remove("id")
        && named.as_str() != Some(id.as_str())
    {
        let detail = format!("the path names class '{id}' and the body another; leave 'id' out");
        return Err(Problem::invalid_value(code::INVALID_ID, "id", detail));
    }
    let tolerates_reordering = match object.remove("tolerates_reordering") {
        None => None,
        Some(Value::Bool(flag)) => Some(flag),
        Some(_) => return Err(wrong("tolerates_reordering", "true or false")),
    };
    let mut number = |field: &'static str| number(&mut object, field);
    let options = Options {
        tolerates_reordering,
        threads: number("threads")?,
        payloads_per_thread: number("payloads_per_thread")?,
        buckets_max: number("buckets_max")?,
        fixed_buckets: number("fixed_buckets")?,
        priority: number("priority")?,
    };
    match object.keys().next() {
        None => Ok(options),
        Some(field) => {
            let detail = "known here: tolerates_reordering, threads, payloads_per_thread, buckets_max, \
                          fixed_buckets, priority";
            Err(Problem::invalid_value(code::UNKNOWN_FIELD, field.as_str(), detail))
        }
    }
}

/// A whole number, whatever its size: which sizes are allowed is said in one place, and so it is brought there.
fn number(object: &mut Map<String, Value>, field: &'static str) -> Result<Option<u32>, Problem> {
    let Some(value) = object.remove(field) else { return Ok(None) };
    let clamped = match (value.as_u64(), value.as_i64()) {
        (Some(number), _) => u32::try_from(number).unwrap_or(u32::MAX),
        // Below zero: as wrong as zero.
        (None, Some(_)) => 0,
        (None, None) => {
            let detail = format!("'{field}' must be a whole number");
            return Err(Problem::invalid_value(code::WRONG_TYPE, field, detail));
        }
    };
    Ok(Some(clamped))
}

fn merge(known: Option<MailboxClass>, id: ClassId, options: Options) -> Result<MailboxClass, Problem> {
    let before = match (known, options.tolerates_reordering) {
        (Some(known), _) => known,
        (None, Some(tolerates_reordering)) => MailboxClass::with_defaults(id, tolerates_reordering),
        (None, None) => {
            let detail = "the class is new: say whether it tolerates reordering";
            return Err(Problem::invalid_value(code::MISSING_FIELD, "tolerates_reordering", detail));
        }
    };
    let mut class = MailboxClass {
        tolerates_reordering: options.tolerates_reordering.unwrap_or(before.tolerates_reordering),
        threads: options.threads.unwrap_or(before.threads),
        payloads_per_thread: options.payloads_per_thread.unwrap_or(before.payloads_per_thread),
        buckets_max: options.buckets_max.unwrap_or(before.buckets_max),
        fixed_buckets: options.fixed_buckets.unwrap_or(before.fixed_buckets),
        ..before
    };
    if let Some(priority) = options.priority {
        class.set_priority(priority).map_err(|e| out_of_range(&e))?;
    }
    Ok(class)
}

fn out_of_range(error: &ClassError) -> Problem {
    Problem::invalid_value(code::INVALID_CLASS, error.field, error.to_string())
}

fn shown(class: &MailboxClass) -> Value {
    value!({
        "id": class.id.as_str(),
        "tolerates_reordering": class.tolerates_reordering,
        "threads": class.threads,
        "payloads_per_thread": class.payloads_per_thread,
        "buckets_max": class.buckets_max,
        "fixed_buckets": class.fixed_buckets,
        "priority": class.priority,
    })
}
