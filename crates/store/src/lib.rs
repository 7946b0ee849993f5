//! Tenants, apps, endpoints, subscriptions, integrations, keys, secrets and classes in Postgres or SQLite.
//!
//! [`Store`] is the database: declarative, atomic writes ([`Store::apply`]) and consistent reads. [`Directory`] is the
//! view in memory that roles use: it follows the store's change feed and keeps answering while the store is away.
//!
//! **Always holds**: every write appends to the change feed in its own transaction, and the feed's numbers are in the
//! order of the commits and without gaps, so a follower that asks for "after `seq`" misses nothing; a
//! [`TenantView`] is one snapshot and its `seq` is the position of that snapshot; a secret is in the database only
//! encrypted and bound to its tenant and endpoint or integration; a class that something names exists; an API key is in the database only as its SHA-256.
//!
//! **Deliberately absent**: checks of what a URL, a filter or a header means (crate `control` does them before it
//! applies), deliveries and their state (they live in the log), HTTP.
//!
//! **Boundary**: the only crate that imports `sqlx`. One text of each query serves both databases; what differs is in
//! `database`.

mod address;
mod change;
mod check;
mod database;
mod directory;
mod error;
mod installation;
mod key;
mod migrate;
mod pause;
mod plan;
mod read;
mod seal;
mod setup;
mod store;
mod token;
mod view;
mod write;

pub use address::check_url;
pub use change::{Change, ChangeKind, ChangeOp};
pub use directory::Directory;
pub use error::{Error, SetupError};
pub use key::{EncryptionKey, KeyError};
pub use pause::PAUSED_BY_MAX_CHARS;
pub use setup::{
    Applied, Counts, EVENT_TYPE_NAME_MAX, EndpointSetup, GeneratedSecret, KeySetup, SECRETS_MAX,
    SHED_RULES_MAX, TOKEN_MIN_CHARS, Tally, TenantSetup,
};
pub use store::Store;
pub use token::generate_token;
pub use view::{Pause, TenantView};
