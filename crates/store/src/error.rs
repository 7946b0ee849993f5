//! What can go wrong at the store, by who has to act.

use mailrail_types::{
    AppId, ClassError, ClassId, EndpointId, IntegrationId, KeyId, SubscriptionId, TenantId,
};
use thiserror::Error;

use crate::setup::{EVENT_TYPE_NAME_MAX, SECRETS_MAX, SHED_RULES_MAX, TOKEN_MIN_CHARS};
use crate::{ChangeKind, KeyError};

/// Errors of the store. None of them holds a secret or the password of the database.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// The store's address cannot be used.
    #[error("{0}")]
    Url(String),
    /// The encryption key's text cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The database was written with another encryption key.
    #[error(
        "the database was created with another encryption key: set the key that was used when it was created"
    )]
    WrongKey,
    /// The database was migrated by a newer mailrail.
    #[error(
        "the database has schema version {found}, this mailrail knows up to {known}: run a newer mailrail"
    )]
    NewerSchema {
        /// Version in the database.
        found: i64,
        /// Newest version in this binary.
        known: i64,
    },
    /// The set-up contradicts itself or what is stored; nothing was changed.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// What should be changed does not exist.
    #[error("{kind} '{id}' of tenant '{tenant}' does not exist")]
    NotFound {
        /// What was looked for.
        kind: ChangeKind,
        /// Where.
        tenant: TenantId,
        /// Its id.
        id: String,
    },
    /// A class that should be deleted does not exist.
    #[error("class '{0}' does not exist")]
    ClassNotFound(ClassId),
    /// A row cannot be read: somebody else wrote or moved it.
    #[error("{what} in the database is damaged: {problem}")]
    Damaged {
        /// Which row.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The database did not answer, or refused, for now. A write that failed so may or may not have happened; all
    /// writes may be repeated.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
}

impl Error {
    #[expect(clippy::needless_pass_by_value, reason = "callers hand over the error they just got")]
    pub(crate) fn damaged(what: impl Into<String>, problem: impl ToString) -> Self {
        Self::Damaged { what: what.into(), problem: problem.to_string() }
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        match error {
            // A pool that ran out of time says nothing about why: say where to look.
            sqlx::Error::PoolTimedOut => {
                Self::Unavailable("no connection to the database in time: is it up and reachable".to_owned())
            }
            // The text of a configuration error may quote the address, and the address may hold a password.
            sqlx::Error::Configuration(_) => {
                Self::Url("the store's address is not valid: check its parts".to_owned())
            }
            sqlx::Error::ColumnDecode { index, source } => Self::damaged(format!("column {index}"), source),
            other => Self::Unavailable(other.to_string()),
        }
    }
}

/// Why a set-up was refused. Each text names the entity and says what to change.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SetupError {
    /// Two entries for one tenant.
    #[error("tenant '{0}' is listed twice: merge the two entries")]
    TenantTwice(TenantId),
    /// Two entries with one id.
    #[error("tenant '{tenant}' lists {kind} '{id}' twice: remove one of them")]
    Twice {
        /// The tenant.
        tenant: TenantId,
        /// What is listed twice.
        kind: ChangeKind,
        /// Its id.
        id: String,
    },
    /// An endpoint of an app that does not exist.
    #[error(
        "endpoint '{endpoint}' of tenant '{tenant}' names app '{app}', which does not exist: add the app or name another"
    )]
    EndpointApp {
        /// The tenant.
        tenant: TenantId,
        /// The endpoint.
        endpoint: EndpointId,
        /// The app it names.
        app: AppId,
    },
    /// A subscription of an app that does not exist.
    #[error(
        "subscription '{subscription}' of tenant '{tenant}' names app '{app}', which does not exist: add the app or name another"
    )]
    SubscriptionApp {
        /// The tenant.
        tenant: TenantId,
        /// The subscription.
        subscription: SubscriptionId,
        /// The app it names.
        app: AppId,
    },
    /// A subscription to an endpoint that does not exist.
    #[error(
        "subscription '{subscription}' of tenant '{tenant}' names endpoint '{endpoint}', which does not exist: add the endpoint or name another"
    )]
    SubscriptionEndpoint {
        /// The tenant.
        tenant: TenantId,
        /// The subscription.
        subscription: SubscriptionId,
        /// The endpoint it names.
        endpoint: EndpointId,
    },
    /// A subscription to another app's endpoint.
    #[error(
        "subscription '{subscription}' of tenant '{tenant}' is of app '{app}' but endpoint '{endpoint}' belongs to app '{owner}': name an endpoint of app '{app}'"
    )]
    ForeignEndpoint {
        /// The tenant.
        tenant: TenantId,
        /// The subscription.
        subscription: SubscriptionId,
        /// The app it names.
        app: AppId,
        /// The endpoint it names.
        endpoint: EndpointId,
        /// The app that owns the endpoint.
        owner: AppId,
    },
    /// A token that another key has. The other key is not named: it may be another tenant's.
    #[error("the token of key '{key}' of tenant '{tenant}' is used by another key: generate a new token")]
    TokenTaken {
        /// The tenant.
        tenant: TenantId,
        /// The key.
        key: KeyId,
    },
    /// A token that could be guessed.
    #[error(
        "the token of key '{key}' of tenant '{tenant}' is too short: use at least {TOKEN_MIN_CHARS} characters"
    )]
    TokenShort {
        /// The tenant.
        tenant: TenantId,
        /// The key.
        key: KeyId,
    },
    /// A key that shall stay and does not exist.
    #[error("key '{key}' of tenant '{tenant}' shall stay as it is but does not exist: give it a token")]
    KeptKey {
        /// The tenant.
        tenant: TenantId,
        /// The key.
        key: KeyId,
    },
    /// More secrets than an attempt is signed with.
    #[error(
        "{kind} '{id}' of tenant '{tenant}' lists {count} secrets: list at most {SECRETS_MAX}, newest first"
    )]
    Secrets {
        /// The tenant.
        tenant: TenantId,
        /// Endpoint or integration.
        kind: ChangeKind,
        /// Its id.
        id: String,
        /// How many it lists.
        count: usize,
    },
    /// A class that does not exist.
    #[error(
        "{kind} '{id}' of tenant '{tenant}' names class '{class}', which does not exist: add the class or name another"
    )]
    Class {
        /// The tenant.
        tenant: TenantId,
        /// What names it.
        kind: ChangeKind,
        /// Its id.
        id: String,
        /// The class it names.
        class: ClassId,
    },
    /// A class listed twice.
    #[error("class '{0}' is listed twice: remove one of them")]
    ClassTwice(ClassId),
    /// An option of a class that is out of range.
    #[error(transparent)]
    ClassOption(#[from] ClassError),
    /// A class that shall go and is named.
    #[error("class '{class}' is used by {used_by}: give what uses it another class first")]
    ClassInUse {
        /// The class.
        class: ClassId,
        /// One of those that name it.
        used_by: String,
    },
    /// A class that always exists shall go.
    #[error("class '{0}' is built in: it can be changed, not deleted")]
    ClassBuiltIn(ClassId),
    /// A change that would break the order of what is queued.
    #[error(
        "class '{class}' is used by {used_by}, so its {field} cannot change: keys would change their mailbox while \
         records wait in the old one; make another class and move what may move"
    )]
    ClassFixed {
        /// The class.
        class: ClassId,
        /// The option.
        field: &'static str,
        /// One of those that name it.
        used_by: String,
    },
    /// A cell of an integration that is not an endpoint of the tenant.
    #[error(
        "integration '{integration}' of tenant '{tenant}' names endpoint '{endpoint}', which does not exist: add the endpoint or name another"
    )]
    Cell {
        /// The tenant.
        tenant: TenantId,
        /// The integration.
        integration: IntegrationId,
        /// The endpoint it names.
        endpoint: EndpointId,
    },
    /// A cell that an integration lists twice.
    #[error(
        "integration '{integration}' of tenant '{tenant}' names endpoint '{endpoint}' twice: remove one of them"
    )]
    CellTwice {
        /// The tenant.
        tenant: TenantId,
        /// The integration.
        integration: IntegrationId,
        /// The endpoint.
        endpoint: EndpointId,
    },
    /// More shed rules than are looked through for each webhook.
    #[error("there are {0} shed rules: use at most {SHED_RULES_MAX}")]
    ShedRules(usize),
    /// An event type's name is empty or too long.
    #[error("an event type of tenant '{tenant}' has a name of {bytes} bytes: use 1 to {EVENT_TYPE_NAME_MAX}")]
    EventTypeName {
        /// The tenant.
        tenant: TenantId,
        /// Length of the name.
        bytes: usize,
    },
    /// A text with a NUL character, which Postgres cannot store.
    #[error("{kind} '{id}' of tenant '{tenant}' has a text with a NUL character: remove it")]
    Nul {
        /// The tenant.
        tenant: TenantId,
        /// What has it.
        kind: ChangeKind,
        /// Its id.
        id: String,
    },
}
