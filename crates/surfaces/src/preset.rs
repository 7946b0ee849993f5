//! One preset for each provider: where things stand in its webhooks, and how its mailboxes behave.
//!
//! | provider | key | event type | delivery id | class |
//! |---|---|---|---|---|
//! | github | `repository.id` | `X-GitHub-Event` | `X-GitHub-Delivery` | tolerant |
//! | gitlab | `project.id` | `X-Gitlab-Event` | `Idempotency-Key` | tolerant |
//! | jira | `issue.id` | `webhookEvent` of the body | `X-Atlassian-Webhook-Identifier` | strict |
//! | azure_devops | `resource.workItemId` | `eventType` of the body | `id` of the body | strict |
//! | generic | none | none | none | strict |

use std::sync::LazyLock;

use mailrail_types::{JsonPath, Provider};

use crate::event_type::{AZURE_DEVOPS_TYPES, GITHUB_TYPES, GITLAB_TYPES, JIRA_TYPES, Known};

/// Where a value stands in a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In the header with this name, in lower case.
    Header(&'static str),
    /// At this path into the JSON body.
    Body(JsonPath),
}

/// What is known of a provider. A field that is `None` is something that its webhooks do not tell.
#[derive(Debug)]
pub struct Preset {
    /// Where the key stands: what the payload is about, and what its order is kept by.
    pub key: Option<JsonPath>,
    /// Where the name of what happened stands.
    pub event_type: Option<Place>,
    /// The names that are known: as the provider writes them, and ours.
    pub(crate) event_types: &'static [Known],
    /// Where the id stands that is the same when the provider sends a delivery again, and never the same for two.
    pub delivery_id: Option<Place>,
    /// Whether its mailboxes may be split by rate, unless the integration names a class: its receivers take payloads of
    /// one key out of order.
    pub tolerates_reordering: bool,
    /// Headers that go on to the cells, in lower case. `content-type` always does.
    pub kept_headers: &'static [&'static str],
}

/// The signature headers are kept: the body is untouched, so a cell can check them once more.
const GITHUB_HEADERS: &[&str] = &[
    "content-encoding",
    "user-agent",
    "x-github-delivery",
    "x-github-enterprise-host",
    "x-github-enterprise-version",
    "x-github-event",
    "x-github-hook-id",
    "x-github-hook-installation-target-id",
    "x-github-hook-installation-target-type",
    "x-hub-signature",
    "x-hub-signature-256",
];

/// Not `x-gitlab-token`: it is the secret itself, which the door has checked and no log should hold. Not `webhook-*`: a
/// delivery has its own.
const GITLAB_HEADERS: &[&str] = &[
    "content-encoding",
    "idempotency-key",
    "user-agent",
    "x-gitlab-event",
    "x-gitlab-event-uuid",
    "x-gitlab-instance",
    "x-gitlab-webhook-uuid",
];

const JIRA_HEADERS: &[&str] = &[
    "content-encoding",
    "user-agent",
    "x-atlassian-webhook-flow",
    "x-atlassian-webhook-identifier",
    "x-atlassian-webhook-retry",
    "x-atlassian-webhook-trace",
    "x-hub-signature",
];

const AZURE_DEVOPS_HEADERS: &[&str] =
    &["content-encoding", "user-agent", "x-vss-activityid", "x-vss-subscriptionid"];

/// What senders of plain webhooks use most.
const GENERIC_HEADERS: &[&str] = &[
    "content-encoding",
    "idempotency-key",
    "user-agent",
    "x-event-id",
    "x-event-type",
    "x-request-id",
    "x-signature-256",
];

static GITHUB: LazyLock<Preset> = LazyLock::new(|| Preset {
    key: path("repository.id"),
    event_type: Some(Place::Header("x-github-event")),
    event_types: GITHUB_TYPES,
    delivery_id: Some(Place::Header("x-github-delivery")),
    tolerates_reordering: true,
    kept_headers: GITHUB_HEADERS,
});

/// Not `X-Gitlab-Event-UUID` for the delivery id: all webhooks that follow from one another share it, so the second would
/// be taken for the first sent again. A GitLab too old for `Idempotency-Key` gets an id of ours.
static GITLAB: LazyLock<Preset> = LazyLock::new(|| Preset {
    key: path("project.id"),
    event_type: Some(Place::Header("x-gitlab-event")),
    event_types: GITLAB_TYPES,
    delivery_id: Some(Place::Header("idempotency-key")),
    tolerates_reordering: true,
    kept_headers: GITLAB_HEADERS,
});

static JIRA: LazyLock<Preset> = LazyLock::new(|| Preset {
    key: path("issue.id"),
    event_type: path("webhookEvent").map(Place::Body),
    event_types: JIRA_TYPES,
    delivery_id: Some(Place::Header("x-atlassian-webhook-identifier")),
    tolerates_reordering: false,
    kept_headers: JIRA_HEADERS,
});

static AZURE_DEVOPS: LazyLock<Preset> = LazyLock::new(|| Preset {
    key: path("resource.workItemId"),
    event_type: path("eventType").map(Place::Body),
    event_types: AZURE_DEVOPS_TYPES,
    delivery_id: path("id").map(Place::Body),
    tolerates_reordering: false,
    kept_headers: AZURE_DEVOPS_HEADERS,
});

static GENERIC: LazyLock<Preset> = LazyLock::new(|| Preset {
    key: None,
    event_type: None,
    event_types: &[],
    delivery_id: None,
    tolerates_reordering: false,
    kept_headers: GENERIC_HEADERS,
});

/// What is known of `provider`. One that is newer than this crate is as generic.
#[must_use]
pub fn preset(provider: Provider) -> &'static Preset {
    match provider {
        Provider::GitHub => &GITHUB,
        Provider::GitLab => &GITLAB,
        Provider::Jira => &JIRA,
        Provider::AzureDevOps => &AZURE_DEVOPS,
        _ => &GENERIC,
    }
}

/// A path of this file; a test reads all of them.
fn path(text: &str) -> Option<JsonPath> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S04: table A4 of the original, and the places of names and ids.
    #[test]
    fn s04_every_provider_has_its_places() {
        let text = |place: &Option<Place>| match place {
            Some(Place::Header(name)) => format!("header {name}"),
            Some(Place::Body(path)) => format!("body {}", path.as_str()),
            None => String::new(),
        };
        for (provider, key, event_type, delivery_id, tolerant) in [
            (Provider::GitHub, "repository.id", "header x-github-event", "header x-github-delivery", true),
            (Provider::GitLab, "project.id", "header x-gitlab-event", "header idempotency-key", true),
            (Provider::Jira, "issue.id", "body webhookEvent", "header x-atlassian-webhook-identifier", false),
            (Provider::AzureDevOps, "resource.workItemId", "body eventType", "body id", false),
            (Provider::Generic, "", "", "", false),
        ] {
            let preset = preset(provider);
            assert_eq!(preset.key.as_ref().map_or("", JsonPath::as_str), key, "{provider:?}");
            assert_eq!(text(&preset.event_type), event_type, "{provider:?}");
            assert_eq!(text(&preset.delivery_id), delivery_id, "{provider:?}");
            assert_eq!(preset.tolerates_reordering, tolerant, "{provider:?}");
        }
    }

    /// No list can grow a header that carries a credential, frames a request, speaks for a proxy, or is ours.
    #[test]
    fn no_list_keeps_a_header_that_must_not_go_on() {
        let refused = [
            "authorization",
            "cookie",
            "host",
            "connection",
            "keep-alive",
            "content-length",
            "transfer-encoding",
            "te",
            "trailer",
            "upgrade",
            "expect",
            "forwarded",
            "via",
            "x-real-ip",
            "x-gitlab-token",
            // Not twice: it is an attribute of the event.
            "content-type",
        ];
        let prefixes = ["proxy-", "x-forwarded-", "webhook-", "mailrail-", "ce-", "sec-"];
        for provider in Provider::ALL {
            for name in preset(provider).kept_headers {
                assert!(!refused.contains(name), "{name}");
                assert!(!prefixes.iter().any(|p| name.starts_with(p)), "{name}");
                assert_eq!(*name, name.to_ascii_lowercase());
            }
        }
    }
}
