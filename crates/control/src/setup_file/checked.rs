//! What checking takes and gives: what exists already, and a document without problems.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use mailrail_types::{
    App, AppId, ClassId, Endpoint, EndpointId, EventType, Integration, KeyId, MailboxClass, Secret,
    Subscription, SubscriptionId, Tenant, TenantId,
};

use super::problem::SetupProblem;

/// Version of the format that this release reads.
pub const VERSION: u32 = 1;
/// Longest name for people, in characters: fits a line of a console.
pub const NAME_MAX_CHARS: usize = 200;
/// Most event types of one subscription: more is a sign that it wants a filter.
pub const EVENT_TYPES_PER_SUBSCRIPTION_MAX: usize = 256;
/// Most cells of one integration: each webhook becomes that many deliveries.
pub const CELLS_MAX: usize = 64;
/// Most headers of one endpoint.
pub const HEADERS_MAX: usize = 32;

/// Says whether a URL may be an endpoint's, and gives its serialised form.
pub type UrlCheck = dyn Fn(&str) -> Result<String, UrlRefusal> + Send + Sync;

/// Why a URL may not be an endpoint's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlRefusal {
    /// Stable code.
    pub code: &'static str,
    /// What to change.
    pub detail: String,
}

/// What exists already.
#[derive(Debug, Clone, Default)]
pub struct Existing {
    /// Classes.
    pub classes: BTreeSet<ClassId>,
    /// Of the tenants that the document lists.
    pub tenants: HashMap<TenantId, Known>,
}

/// What exists already, of one tenant: a document may refer to it.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Endpoints and the app of each.
    pub endpoints: HashMap<EndpointId, AppId>,
    /// Subscriptions and the app of each.
    pub subscriptions: HashMap<SubscriptionId, AppId>,
}

/// A document without problems.
#[derive(Debug)]
pub struct CheckedSetup {
    /// The classes, in the order of the document.
    pub classes: Vec<MailboxClass>,
    /// The tenants, in the order of the document.
    pub tenants: Vec<CheckedTenant>,
    /// What is allowed and yet looks like a mistake.
    pub warnings: Vec<SetupProblem>,
}

/// A tenant and all that the document says of it. Its `Debug` leaves out tokens.
pub struct CheckedTenant {
    /// The tenant.
    pub tenant: Tenant,
    /// Its keys; a token that is `None` is kept or generated.
    pub keys: Vec<(KeyId, Option<String>)>,
    /// Its event types.
    pub event_types: Vec<EventType>,
    /// Its apps.
    pub apps: Vec<App>,
    /// Its endpoints.
    pub endpoints: Vec<CheckedEndpoint>,
    /// Its subscriptions.
    pub subscriptions: Vec<Subscription>,
    /// Its integrations. One without a secret keeps those that exist.
    pub integrations: Vec<Integration>,
}

impl fmt::Debug for CheckedTenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.keys.iter().map(|(id, _)| id).collect();
        f.debug_struct("CheckedTenant")
            .field("tenant", &self.tenant)
            .field("keys", &keys)
            .finish_non_exhaustive()
    }
}

/// An endpoint whose secrets depend on what exists.
#[derive(Debug)]
pub struct CheckedEndpoint {
    /// The endpoint, with no secrets.
    pub endpoint: Endpoint,
    /// The secret it shall sign with; `None`: kept or generated.
    pub secret: Option<Secret>,
}
