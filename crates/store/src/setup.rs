//! What callers hand in to be stored, and what they get back.

use std::fmt;

use mailrail_types::{
    App, Endpoint, EndpointId, EventType, Integration, KeyId, Secret, Subscription, Tenant, TenantId,
};
use serde::Serialize;

/// Most secrets of an endpoint or integration: every attempt is signed with each, and header size and CPU grow with them.
pub const SECRETS_MAX: usize = 4;
/// Shortest token, in characters: below it a token given by hand could be guessed.
pub const TOKEN_MIN_CHARS: usize = 32;
/// Longest event type name in bytes: it is an index key, and Postgres refuses keys above 2,704 bytes.
pub const EVENT_TYPE_NAME_MAX: usize = 1024;
/// Most shed rules: each webhook is held against all of them. More is a case for the third party's own settings.
pub const SHED_RULES_MAX: usize = 256;

/// Everything a tenant should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantSetup {
    /// The tenant.
    pub tenant: Tenant,
    /// Its event types.
    pub event_types: Vec<EventType>,
    /// Its apps.
    pub apps: Vec<App>,
    /// Its endpoints.
    pub endpoints: Vec<EndpointSetup>,
    /// Its subscriptions.
    pub subscriptions: Vec<Subscription>,
    /// Its integrations. With secrets: exactly these, newest first. Without: the stored ones stay; none is ever generated,
    /// because the third party has to know it.
    pub integrations: Vec<Integration>,
    /// Its API keys.
    pub keys: Vec<KeySetup>,
    /// Keys that stay as they are stored: listed, so that pruning leaves them, with a token that nobody has any more.
    pub kept_keys: Vec<KeyId>,
}

impl TenantSetup {
    /// A tenant with nothing in it.
    #[must_use]
    pub const fn new(tenant: Tenant) -> Self {
        Self {
            tenant,
            event_types: Vec::new(),
            apps: Vec::new(),
            endpoints: Vec::new(),
            subscriptions: Vec::new(),
            integrations: Vec::new(),
            keys: Vec::new(),
            kept_keys: Vec::new(),
        }
    }
}

/// An endpoint to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointSetup {
    /// The endpoint. With secrets: exactly these, newest first. Without: the stored ones stay, and one is generated
    /// when there is none yet ([`Applied::secrets`]). Whether it is paused is not read: what is paused stays so, what is
    /// new is not.
    pub endpoint: Endpoint,
}

impl From<Endpoint> for EndpointSetup {
    fn from(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }
}

/// An API key to be stored.
#[derive(Clone, PartialEq, Eq)]
pub struct KeySetup {
    /// Its public name.
    pub id: KeyId,
    /// The token that producers send; at least [`TOKEN_MIN_CHARS`] characters. Stored as its SHA-256.
    pub token: String,
}

impl fmt::Debug for KeySetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySetup").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What [`crate::Store::apply`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Position of the change feed after it: [`crate::Directory::reached`] tells when a view has it.
    pub seq: u64,
    /// What was created, updated, left alone and deleted.
    pub counts: Counts,
    /// Secrets that were generated. They are not shown again.
    pub secrets: Vec<GeneratedSecret>,
}

/// A secret that the store made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedSecret {
    /// Whose.
    pub tenant: TenantId,
    /// For which endpoint.
    pub endpoint: EndpointId,
    /// `whsec_` and the base64 of 32 random bytes.
    pub secret: Secret,
}

/// Numbers of entities, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// Classes of mailboxes.
    pub classes: Tally,
    /// Tenants.
    pub tenants: Tally,
    /// Event types.
    pub event_types: Tally,
    /// Apps.
    pub apps: Tally,
    /// Endpoints.
    pub endpoints: Tally,
    /// Subscriptions.
    pub subscriptions: Tally,
    /// Integrations.
    pub integrations: Tally,
    /// API keys.
    pub keys: Tally,
}

impl Counts {
    /// All kinds together.
    #[must_use]
    pub fn total(&self) -> Tally {
        let Self { classes, tenants, event_types, apps, endpoints, subscriptions, integrations, keys } =
            *self;
        let mut sum = Tally::default();
        for kind in [classes, tenants, event_types, apps, endpoints, subscriptions, integrations, keys] {
            sum.add(kind);
        }
        sum
    }

    pub(crate) const fn add(&mut self, other: &Counts) {
        self.classes.add(other.classes);
        self.tenants.add(other.tenants);
        self.event_types.add(other.event_types);
        self.apps.add(other.apps);
        self.endpoints.add(other.endpoints);
        self.subscriptions.add(other.subscriptions);
        self.integrations.add(other.integrations);
        self.keys.add(other.keys);
    }
}

/// Numbers of entities of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
    /// Were not there before.
    pub created: u32,
    /// Were there and differed.
    pub updated: u32,
    /// Were there and equal: nothing was written.
    pub unchanged: u32,
    /// Are gone.
    pub deleted: u32,
}

impl Tally {
    const fn add(&mut self, other: Tally) {
        self.created += other.created;
        self.updated += other.updated;
        self.unchanged += other.unchanged;
        self.deleted += other.deleted;
    }
}
