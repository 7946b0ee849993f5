//! The change feed: what was written, numbered in the order of the commits.

use std::fmt;

use mailrail_types::TenantId;
use sqlx::Row;

use crate::Error;
use crate::database::{Connection, signed, unsigned};

/// Newest changes that are kept. A follower that is further behind sees a gap and reads everything again, so the bound
/// costs at most one reload; it keeps a table that every write grows from growing for ever.
const KEPT: i64 = 100_000;
/// What stands for the tenant of a change that belongs to none. It is a valid id, because a mailrail of the first schema
/// reads every tenant of the feed as one, and harmless, because that mailrail then reloads a tenant for nothing.
const NO_TENANT: &str = "every-tenant";

/// One write of one entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its number: larger than that of every commit before it, without gaps.
    pub seq: u64,
    /// Whose entity; `None` for what belongs to the installation: classes and the shed rules.
    pub tenant: Option<TenantId>,
    /// Which kind.
    pub kind: ChangeKind,
    /// Its id or, for an event type, its name.
    pub entity: String,
    /// What happened to it.
    pub op: ChangeOp,
}

/// Kinds of entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChangeKind {
    /// A tenant.
    Tenant,
    /// An event type.
    EventType,
    /// An app.
    App,
    /// An endpoint, its secrets included.
    Endpoint,
    /// A subscription.
    Subscription,
    /// An API key.
    Key,
    /// An integration with a third party, its secrets included.
    Integration,
    /// A class of mailboxes.
    Class,
    /// The rules that turn traffic away, all of them.
    Shed,
    /// Written by a newer mailrail during a rolling upgrade: reload the tenant.
    Other,
}

impl ChangeKind {
    /// The name in the feed and in texts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::EventType => "event type",
            Self::App => "app",
            Self::Endpoint => "endpoint",
            Self::Subscription => "subscription",
            Self::Key => "key",
            Self::Integration => "integration",
            Self::Class => "class",
            Self::Shed => "shed",
            Self::Other => "other",
        }
    }

    fn from_name(name: &str) -> Self {
        [
            Self::Tenant,
            Self::EventType,
            Self::App,
            Self::Endpoint,
            Self::Subscription,
            Self::Key,
            Self::Integration,
            Self::Class,
            Self::Shed,
        ]
        .into_iter()
        .find(|kind| kind.name() == name)
        .unwrap_or(Self::Other)
    }

    /// Whether it belongs to the installation and not to a tenant.
    #[must_use]
    pub const fn is_global(self) -> bool {
        matches!(self, Self::Class | Self::Shed)
    }
}

impl fmt::Display for ChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What happened to an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeOp {
    /// It was created or updated.
    Put,
    /// It was deleted.
    Delete,
}

impl ChangeOp {
    const fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Delete => "delete",
        }
    }
}

/// Position of the feed in the caller's snapshot; 0 when nothing was ever written.
pub(crate) async fn head(conn: &mut Connection) -> Result<u64, Error> {
    let row = sqlx::query("SELECT COALESCE(MAX(seq), 0) AS seq FROM changes").fetch_one(conn).await?;
    unsigned(&row, "seq")
}

/// Appends one change; `seq` is the number after the last one, which only the holder of the write lock knows.
pub(crate) async fn append(conn: &mut Connection, change: &Change) -> Result<(), Error> {
    sqlx::query("INSERT INTO changes (seq, tenant, kind, entity, op) VALUES ($1, $2, $3, $4, $5)")
        .bind(signed(change.seq))
        .bind(change.tenant.as_ref().map_or(NO_TENANT, TenantId::as_str))
        .bind(change.kind.name())
        .bind(change.entity.as_str())
        .bind(change.op.name())
        .execute(conn)
        .await?;
    Ok(())
}

/// Forgets what is too old, given the newest number. The newest change always stays: it is the position.
pub(crate) async fn trim(conn: &mut Connection, head: u64) -> Result<(), Error> {
    sqlx::query("DELETE FROM changes WHERE seq <= $1").bind(signed(head) - KEPT).execute(conn).await?;
    Ok(())
}

/// Changes from number `seq` on, oldest first.
pub(crate) async fn from(conn: &mut Connection, seq: u64, limit: u32) -> Result<Vec<Change>, Error> {
    let rows = sqlx::query(
        "SELECT seq, tenant, kind, entity, op FROM changes WHERE seq >= $1 ORDER BY seq LIMIT $2",
    )
    .bind(signed(seq))
    .bind(i64::from(limit))
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| {
            let seq = unsigned(row, "seq")?;
            let kind = ChangeKind::from_name(row.try_get("kind")?);
            let tenant = if kind.is_global() {
                None
            } else {
                let id = TenantId::new(row.try_get("tenant")?);
                Some(id.map_err(|e| Error::damaged(format!("change {seq}"), e))?)
            };
            let op = if row.try_get::<&str, _>("op")? == ChangeOp::Delete.name() {
                ChangeOp::Delete
            } else {
                ChangeOp::Put
            };
            Ok(Change { seq, tenant, kind, entity: row.try_get("entity")?, op })
        })
        .collect()
}
