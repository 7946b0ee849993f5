//! Who gets an event, and who does not and why: what match decides, in its order, recipient by recipient.

use std::time::{Duration, Instant};

use mailrail_filter::{Document, Explanation, Filter};
use mailrail_store::TenantView;
use mailrail_types::{AppId, DeliveryId, EndpointId, Event, Subscription, SubscriptionId};
use serde::Serialize;

use super::Which;
use crate::problem::Problem;

/// Recipients of a page when nothing else is asked for.
pub(super) const PAGE_DEFAULT: u32 = 20;
/// Most recipients that a page of `GET /v1/events/{id}/explain` has.
pub const EXPLAIN_PAGE_MAX: u32 = 100;
/// Bytes of a page after which it ends.
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Time after which a page ends.
const PAGE_WITHIN: Duration = Duration::from_secs(5);

/// Some recipients.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    /// Those that ask for events of this type first, in order of their ids; then the others.
    pub(super) recipients: Vec<Recipient>,
    /// Subscriptions of the tenant, or cells of the integration, in all.
    pub(super) recipients_total: usize,
    /// Those that ask for events of this type.
    pub(super) recipients_of_type: usize,
    /// Where the next page begins; `null` when there is none.
    pub(super) next: Option<String>,
}

/// One recipient: a subscription, or a cell of the integration that an event came in by.
#[derive(Debug, Serialize)]
pub(super) struct Recipient {
    kind: &'static str,
    id: String,
    app: Option<String>,
    endpoint: EndpointState,
    /// Whether it gets the event.
    gets: bool,
    /// What decides that: `wants`, `other_event_type`, `permission_missing`, `filter`, `filter_error` (with the subscription's
    /// policy), `filter_unusable`, or `endpoint_missing`.
    reason: &'static str,
    /// The delivery that it gets.
    delivery: Option<String>,
    /// What becomes of an event on which its filter gives no verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_filter_error: Option<&'static str>,
    /// Language and explanation of its filter; not there when it has none, or when it was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<FilterState>,
}

#[derive(Debug, Serialize)]
struct FilterState {
    language: &'static str,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    explanation: Option<Explanation>,
    /// Why the stored filter cannot be used: code and text.
    #[serde(skip_serializing_if = "Option::is_none")]
    unusable: Option<String>,
}

/// Where it would go. A paused endpoint gets its mail when it is resumed.
#[derive(Debug, Serialize)]
struct EndpointState {
    id: String,
    exists: bool,
    paused: bool,
}

impl EndpointState {
    fn of(view: &TenantView, id: &EndpointId) -> Self {
        let endpoint = view.endpoints.get(id);
        Self {
            id: id.to_string(),
            exists: endpoint.is_some(),
            paused: endpoint.is_some_and(|endpoint| endpoint.paused),
        }
    }
}

/// What may get the event.
enum Candidate<'a> {
    Subscription(&'a Subscription),
    Cell(&'a EndpointId),
}

impl Candidate<'_> {
    fn id(&self) -> &str {
        match self {
            Candidate::Subscription(subscription) => subscription.id.as_str(),
            Candidate::Cell(cell) => cell.as_str(),
        }
    }

    fn endpoint(&self) -> &EndpointId {
        match self {
            Candidate::Subscription(subscription) => &subscription.endpoint,
            Candidate::Cell(cell) => cell,
        }
    }

    fn is_of_type(&self, event_type: &str) -> bool {
        match self {
            Candidate::Subscription(subscription) => {
                subscription.event_types.iter().any(|name| name == event_type)
            }
            Candidate::Cell(_) => true,
        }
    }
}

/// A page of those who may get the event.
pub(super) fn page(event: &Event, view: &TenantView, which: &Which) -> Result<Page, Problem> {
    let event_type = &event.attributes.event_type;
    let mut candidates: Vec<(bool, Candidate<'_>)> = candidates(event, view)
        .into_iter()
        .map(|candidate| (!candidate.is_of_type(event_type), candidate))
        .collect();
    let recipients_total = candidates.len();
    let recipients_of_type = candidates.iter().filter(|(other, _)| !other).count();
    check_asked(view, which, &candidates)?;
    candidates.retain(|(_, candidate)| {
        which.subscription.as_deref().is_none_or(|id| id == candidate.id())
            && which.endpoint.as_deref().is_none_or(|id| id == candidate.endpoint().as_str())
    });
    candidates.sort_by(|(a_other, a), (b_other, b)| (a_other, a.id()).cmp(&(b_other, b.id())));
    let after = which.after.as_deref().map(parse_cursor).transpose()?;
    let mut left = candidates.iter().filter(|(other, candidate)| {
        after.is_none_or(|(after_other, after_id)| (*other, candidate.id()) > (after_other, after_id))
    });
    let document = Document::new(&event.attributes, &event.body);
    let until = Instant::now() + PAGE_WITHIN;
    let (mut recipients, mut bytes, mut last) = (Vec::new(), 0, None);
    while recipients.len() < which.limit as usize && bytes < PAGE_BYTES_MAX && Instant::now() < until {
        let Some((other, candidate)) = left.next() else { break };
        let recipient = judge(event, &document, view, candidate, *other);
        bytes += serde_json::to_vec(&recipient).map_or(0, |text| text.len());
        last = Some(cursor(*other, candidate.id()));
        recipients.push(recipient);
    }
    let next = last.filter(|_| left.next().is_some());
    Ok(Page { recipients, recipients_total, recipients_of_type, next })
}

/// Whether what is asked for is there at all. That it has nothing to do with the event is no error, but an empty page.
fn check_asked(
    view: &TenantView,
    which: &Which,
    candidates: &[(bool, Candidate<'_>)],
) -> Result<(), Problem> {
    if let Some(id) = &which.subscription
        && !view.subscriptions.keys().any(|known| known.as_str() == id)
        && !candidates.iter().any(|(_, candidate)| candidate.id() == id)
    {
        return Err(Problem::not_found("subscription", id));
    }
    // One that was deleted may be asked for by what goes there still.
    if let Some(id) = &which.endpoint
        && !view.endpoints.keys().any(|known| known.as_str() == id)
        && !candidates.iter().any(|(_, candidate)| candidate.endpoint().as_str() == id)
    {
        return Err(Problem::not_found("endpoint", id));
    }
    Ok(())
}

fn cursor(other: bool, id: &str) -> String {
    format!("{}:{id}", u8::from(other))
}

fn parse_cursor(text: &str) -> Result<(bool, &str), Problem> {
    match text.split_once(':') {
        Some(("0", id)) => Ok((false, id)),
        Some(("1", id)) => Ok((true, id)),
        _ => Err(Problem::invalid_request("'after' is the 'next' of the page before")),
    }
}

/// Everybody who is asked: the cells of a forwarded webhook, or the subscriptions of the tenant.
fn candidates<'a>(event: &Event, view: &'a TenantView) -> Vec<Candidate<'a>> {
    match event.forwarded.as_deref() {
        None => view.subscriptions.values().map(|it| Candidate::Subscription(it)).collect(),
        Some(forwarded) => {
            let integration = view.integrations.get(&forwarded.integration);
            integration.into_iter().flat_map(|it| it.cells.iter().map(Candidate::Cell)).collect()
        }
    }
}

fn judge(
    event: &Event,
    document: &Document<'_>,
    view: &TenantView,
    candidate: &Candidate<'_>,
    of_other_type: bool,
) -> Recipient {
    let endpoint = EndpointState::of(view, candidate.endpoint());
    let (kind, app, id) = match candidate {
        Candidate::Subscription(it) => ("subscription", Some(&it.app), Some(it.id.clone())),
        Candidate::Cell(cell) => {
            let app = view.endpoints.get(*cell).map(|endpoint| &endpoint.app);
            ("cell", app, SubscriptionId::new(cell.as_str()).ok())
        }
    };
    let mut filter = None;
    let (mut gets, mut reason) = if of_other_type {
        (false, "other_event_type")
    } else if !endpoint.exists && app.is_none() {
        (false, "endpoint_missing")
    } else if !may_get(event, view, app) {
        (false, "permission_missing")
    } else if let Candidate::Subscription(subscription) = candidate {
        let (gets, reason, state) = judge_filter(subscription, document);
        filter = state;
        (gets, reason)
    } else {
        (true, "wants")
    };
    if gets && !endpoint.exists {
        (gets, reason) = (false, "endpoint_missing");
    }
    let delivery =
        id.filter(|_| gets).map(|id| DeliveryId::derive(&event.id, &event.tenant, &id).to_string());
    let on_filter_error = match candidate {
        Candidate::Subscription(it) if filter.is_some() => Some(it.on_filter_error.name()),
        _ => None,
    };
    let (id, app) = (candidate.id().to_owned(), app.map(ToString::to_string));
    Recipient { kind, id, app, endpoint, gets, reason, delivery, on_filter_error, filter }
}

/// As match asks it: an app that is not there has no permission.
fn may_get(event: &Event, view: &TenantView, app: Option<&AppId>) -> bool {
    let app = app.and_then(|app| view.apps.get(app));
    !event.is_sensitive() || app.is_some_and(|app| app.may_get(event))
}

fn judge_filter(
    subscription: &Subscription,
    document: &Document<'_>,
) -> (bool, &'static str, Option<FilterState>) {
    let Some(source) = &subscription.filter else { return (true, "wants", None) };
    let policy = subscription.on_filter_error;
    let language = source.language.name();
    let filter = match Filter::compile(source) {
        Ok(filter) => filter,
        Err(error) => {
            let unusable = Some(format!("{error} ({})", error.code));
            let state = FilterState { language, explanation: None, unusable };
            return (policy.delivers(), "filter_unusable", Some(state));
        }
    };
    let explanation = filter.explain(document);
    let (gets, reason) = match (&explanation.error, explanation.matched) {
        (Some(_), _) => (policy.delivers(), "filter_error"),
        (None, true) => (true, "wants"),
        (None, false) => (false, "filter"),
    };
    (gets, reason, Some(FilterState { language, explanation: Some(explanation), unusable: None }))
}
