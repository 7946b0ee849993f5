//! The format of a set-up document: what may be written, and its JSON Schema.

use std::collections::BTreeMap;
use std::fmt;

use mailrail_types::FilterErrorPolicy;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::{Map, Value};

/// A set-up document: tenants and all that belongs to them.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetupFile {
    /// Version of this format: 1.
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// Classes of mailboxes to create or change. Classes that are not listed are left alone; `tolerant` and `strict`
    /// always exist.
    #[serde(default)]
    pub classes: Vec<ClassEntry>,
    /// The tenants to create or update. Tenants that are not listed are left alone.
    pub tenants: Vec<TenantEntry>,
}

/// A class of mailboxes: how wide, and whether order may be given up for width. It belongs to no tenant.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Class")]
pub struct ClassEntry {
    /// Its id.
    #[schemars(regex(pattern = ID_PATTERN))]
    pub id: String,
    /// `true`: the width follows the rate, and a failed delivery does not hold up the rest of its mailbox. `false`: the
    /// width is fixed for ever, and order is kept.
    pub tolerates_reordering: bool,
    /// Requests that a pass of the delivery pool has at once, 1 to 1024. Left out: 4.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1024))]
    pub threads: Option<u32>,
    /// Payloads of each of them in a pass, 1 to 1000000. Left out: 4. Times `threads`, it is what one mailbox is worth.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub payloads_per_thread: Option<u32>,
    /// Widest split when reordering is tolerated, 1 to 4096; floored to a power of two. Left out: 64.
    #[serde(default)]
    #[schemars(range(min = 1, max = 4096))]
    pub buckets_max: Option<u32>,
    /// Width when it is not, 1 to 4096. Left out: 10. It cannot change while something uses the class.
    #[serde(default)]
    #[schemars(range(min = 1, max = 4096))]
    pub fixed_buckets: Option<u32>,
    /// Whose turn it is when not everything can be sent at once: 1, first, to 10. Left out: 5.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10))]
    pub priority: Option<u32>,
}

/// A customer.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Tenant")]
pub struct TenantEntry {
    /// Its id: 1 to 64 of a-z, 0-9, '_', '-' and '.', starting with a letter or digit.
    #[schemars(regex(pattern = ID_PATTERN))]
    pub id: String,
    /// A name for people.
    #[serde(default)]
    pub name: String,
    /// Class of its source mailboxes: how its events are split on their way to match. Left out: `strict`.
    #[serde(default)]
    pub source_class: Option<String>,
    /// API keys of producers.
    #[serde(default)]
    pub keys: Vec<KeyEntry>,
    /// What is known of its event types. A type that is not listed is accepted and has no ordering key.
    #[serde(default)]
    pub event_types: Vec<EventTypeEntry>,
    /// The consumers that subscribe.
    #[serde(default)]
    pub apps: Vec<AppEntry>,
    /// Third parties whose webhooks are taken as they are and forwarded.
    #[serde(default)]
    pub integrations: Vec<IntegrationEntry>,
}

/// A third party's webhooks, forwarded byte for byte.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Integration")]
pub struct IntegrationEntry {
    /// Its id, unique within the tenant; the last part of the address that the third party sends to.
    #[schemars(regex(pattern = ID_PATTERN))]
    pub id: String,
    /// Who sends.
    #[schemars(extend("enum" = ["github", "gitlab", "jira", "azure_devops", "generic"]))]
    pub provider: String,
    /// The secret that the third party signs with, 8 to 512 characters. Left out: kept when there is one; otherwise nothing is checked. Another secret
    /// than the current one is a rotation: the current one is accepted beside it.
    #[serde(default)]
    pub secret: Option<TextOrEnv>,
    /// The tenant's endpoints that each webhook is forwarded to.
    #[schemars(length(min = 1))]
    pub cells: Vec<String>,
    /// Class of its mailboxes. Left out: what suits the provider.
    #[serde(default)]
    pub class: Option<String>,
}

/// An API key of a producer.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Key")]
pub struct KeyEntry {
    /// Its public name, unique within the tenant.
    #[schemars(regex(pattern = ID_PATTERN))]
    pub id: String,
    /// The token, at least 32 characters. Left out: generated when the key is new, and shown once.
    #[serde(default)]
    pub token: Option<TextOrEnv>,
}

/// What is known of an event type.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "EventType")]
pub struct EventTypeEntry {
    /// The CloudEvents `type`.
    pub name: String,
    /// Where the ordering key stands in a JSON body, as `repository.id`, when the event has no `partitionkey`.
    #[serde(default)]
    pub ordering_key: Option<String>,
}

/// A consumer that subscribes.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "App")]
pub struct AppEntry {
    /// Its id, unique within the tenant.
    #[schemars(regex(pattern = ID_PATTERN))]
    pub id: String,
    /// A name for people.
    #[serde(default)]
    pub name: String,
    /// What it may get of events that their producer marked as sensitive with the attribute `mailrailpermission`. Left out:
    /// nothing.
    #[serde(default)]
    pub permissions: Vec<String>,
    /// Its recipients.
    #[serde(default)]
    pub endpoints: Vec<EndpointEntry>,
    /// What it wants, and where that goes.
    #[serde(default)]
    pub subscriptions: Vec<SubscriptionEntry>,
}

/// A recipient.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Endpoint")]
pub struct EndpointEntry {
    /// Its id, unique within the tenant.
    #[schemars(regex(pattern = ID_PATTERN))]
    pub id: String,
    /// Where requests go.
    pub url: String,
    /// The signing secret: `whsec_` and base64 of 24 to 64 bytes. Left out: generated when the endpoint is new, and shown once; kept
    /// when it exists. Another secret than the current one is a rotation: the current one goes on signing beside it.
    #[serde(default)]
    pub secret: Option<TextOrEnv>,
    /// Headers added to every request.
    #[serde(default)]
    pub headers: BTreeMap<String, TextOrEnv>,
    /// Class of its mailboxes. Left out: `tolerant`.
    #[serde(default)]
    pub class: Option<String>,
    /// Total time of one attempt, as `500ms`, `15s` or `1m`. Left out: the pipeline's.
    #[serde(default)]
    #[schemars(regex(pattern = r"^[0-9]+(ms|s|m)$"))]
    pub timeout: Option<String>,
    /// How long a delivery at the head of a strict mailbox may fail, counted from its first attempt, before it is
    /// dead-lettered and the mailbox goes on: `1m` to `30d`, as `30m`, `12h` or `3d`. Left out: the head holds the mailbox
    /// as long as its retries last.
    #[serde(default)]
    #[schemars(regex(pattern = r"^[0-9]+(ms|s|m|h|d)$"))]
    pub head_max_age: Option<String>,
    /// Most attempts to it at the same time, 1 to 1000. Left out: no limit of its own. Over all processes that share a
    /// Redis.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub max_in_flight: Option<u32>,
    /// Most attempts to it in a second, 1 to 10000, with a burst of one second. Left out: no limit of its own. Over
    /// all processes that share a Redis.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10_000))]
    pub rate_per_second: Option<u32>,
}

/// App + event types + filter → endpoint.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Subscription")]
pub struct SubscriptionEntry {
    /// Its id, unique within the tenant.
    #[schemars(regex(pattern = ID_PATTERN))]
    pub id: String,
    /// The endpoint of the same app that matches go to.
    pub endpoint: String,
    /// The event types it wants, exact.
    #[schemars(length(min = 1))]
    pub event_types: Vec<String>,
    /// Which of those events. Left out: all.
    #[serde(default)]
    pub filter: Option<FilterEntry>,
    /// What becomes of an event on which the filter gives no verdict, because evaluating it took too many steps. Left out:
    /// `drop-and-count`.
    #[serde(default)]
    pub on_filter_error: Option<FilterErrorEntry>,
}

/// What becomes of an event on which a filter gives no verdict. What counts is counted as a failure, and logged.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "FilterErrorPolicy")]
pub enum FilterErrorEntry {
    /// The subscription does not get it; that counts.
    DropAndCount,
    /// The subscription does not get it.
    Drop,
    /// The subscription gets it.
    Deliver,
    /// The subscription gets it; that counts.
    DeliverAndCount,
}

impl From<FilterErrorEntry> for FilterErrorPolicy {
    fn from(entry: FilterErrorEntry) -> Self {
        match entry {
            FilterErrorEntry::DropAndCount => Self::DropAndCount,
            FilterErrorEntry::Drop => Self::Drop,
            FilterErrorEntry::Deliver => Self::Deliver,
            FilterErrorEntry::DeliverAndCount => Self::DeliverAndCount,
        }
    }
}

/// Which events a subscription wants: a filter in one of the languages of docs/filters.md.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Filter")]
pub enum FilterEntry {
    /// A pattern over the body of the event: EventBridge's, and more operators.
    Pattern(Map<String, Value>),
    /// The same with nothing that EventBridge does not have.
    EventBridge(Map<String, Value>),
    /// A CloudEvents SQL expression over the attributes, and over the body by `data.` paths.
    Cesql(String),
    /// A list of filters as the CloudEvents Subscriptions API has them.
    CloudEvents(Vec<Value>),
}

const ID_PATTERN: &str = "^[a-z0-9][a-z0-9_.-]{0,63}$";

/// A text, or the name of an environment variable that holds it. The variable is read by `mailrail apply`, where the
/// file is; the API takes only texts. Never printed: it may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub enum TextOrEnv {
    /// The text.
    Text(String),
    /// The name of the variable.
    Env(String),
}

impl fmt::Debug for TextOrEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextOrEnv::Text(_) => f.write_str("Text(…)"),
            TextOrEnv::Env(name) => write!(f, "Env({name})"),
        }
    }
}

impl<'de> Deserialize<'de> for TextOrEnv {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // By hand, because a derived error would quote the value.
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(TextOrEnv::Text(text)),
            Value::Object(object) => match (object.len(), object.get("env")) {
                (1, Some(Value::String(name))) if !name.is_empty() => Ok(TextOrEnv::Env(name.clone())),
                _ => Err(D::Error::custom(TEXT_OR_ENV)),
            },
            _ => Err(D::Error::custom(TEXT_OR_ENV)),
        }
    }
}

const TEXT_OR_ENV: &str = "expected a text or {env: NAME}; put a number in quotes";

impl JsonSchema for TextOrEnv {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TextOrEnv".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A text, or {env: NAME}: the text is in this environment variable of `mailrail apply`.",
            "oneOf": [
                { "type": "string" },
                {
                    "type": "object",
                    "properties": { "env": { "type": "string", "minLength": 1 } },
                    "required": ["env"],
                    "additionalProperties": false
                }
            ]
        })
    }
}

/// The JSON Schema of a set-up document.
#[must_use]
pub fn setup_schema() -> Value {
    let mut schema = schemars::schema_for!(SetupFile);
    schema.insert("title".into(), "mailrail set-up file".into());
    schema.to_value()
}
