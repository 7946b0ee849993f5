//! One pool for both databases, and the few places where they differ.
//!
//! sqlx's `Any` driver serves: the columns are TEXT, BIGINT and bytes only, and SQLite takes Postgres's `$1`. An enum of
//! two typed pools would double every query for nothing that this crate needs.

use std::time::Duration;

use sqlx::any::{AnyPoolOptions, AnyRow, install_default_drivers};
use sqlx::{Any, AnyPool, AssertSqlSafe, Row, Transaction};

use crate::{Error, address};

/// Connections of one process. Roles read from memory, so few queries run at once; Postgres gives about 100 in all.
const POOL_SIZE: u32 = 8;
/// How long to wait for a connection. Longer than a fail-over's first refusals, shorter than a person's patience.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the server works on one statement, lock waits included (SQLite: how long it waits for the write lock).
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long Postgres lets a transaction stand idle: a writer that lost its network must not hold the write lock.
const IDLE_TRANSACTION_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a short call may take in all. The limits above are the server's; this one holds when packets vanish.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// The same for a write or a whole load, which are many statements.
pub(crate) const LONG_CALL_TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) type Connection = sqlx::AnyConnection;

/// Which database it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Postgres,
    Sqlite,
}

/// A pool of connections that are set up as this crate needs them.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    pool: AnyPool,
    dialect: Dialect,
}

impl Database {
    /// Connects. `url` is `postgres://…` (or `postgresql://…`), or `sqlite:PATH` (created when missing, for its owner alone).
    pub(crate) async fn connect(url: &str) -> Result<Self, Error> {
        install_default_drivers();
        // First: an address that is none makes no file.
        let (dialect, address) = address::of(url)?;
        address::make_private(url);
        let set_up = session(dialect);
        let pool = AnyPoolOptions::new()
            .max_connections(POOL_SIZE)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .after_connect(move |conn, _| {
                let set_up = set_up.clone();
                Box::pin(async move { sqlx::raw_sql(AssertSqlSafe(set_up)).execute(conn).await.map(|_| ()) })
            })
            .connect(&address)
            .await?;
        Ok(Self { pool, dialect })
    }

    pub(crate) const fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub(crate) const fn pool(&self) -> &AnyPool {
        &self.pool
    }

    /// A transaction that sees one snapshot in all its statements.
    pub(crate) async fn snapshot(&self) -> Result<Transaction<'static, Any>, Error> {
        let mut tx = match self.dialect {
            Dialect::Postgres => {
                self.pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").await?
            }
            // In WAL mode a transaction keeps the snapshot of its first read.
            Dialect::Sqlite => self.pool.begin_with("BEGIN").await?,
        };
        if self.dialect == Dialect::Postgres {
            // A load reads whole tables; the time of a statement includes sending its rows.
            let limit = format!("SET LOCAL statement_timeout = {}", LONG_CALL_TIMEOUT.as_millis());
            sqlx::raw_sql(AssertSqlSafe(limit)).execute(&mut *tx).await?;
        }
        Ok(tx)
    }

    /// A transaction that is alone among writers until it ends, in every process. Writes are rare and small, and being
    /// alone makes read-compare-write safe and the order of the feed's numbers the order of the commits.
    pub(crate) async fn write(&self) -> Result<Transaction<'static, Any>, Error> {
        match self.dialect {
            Dialect::Postgres => {
                let mut tx = self.pool.begin().await?;
                self.lock(&mut tx).await?;
                Ok(tx)
            }
            Dialect::Sqlite => Ok(self.pool.begin_with("BEGIN IMMEDIATE").await?),
        }
    }

    /// Like [`Database::write`] for migrations, which may run long and wait long for others'.
    pub(crate) async fn migration(&self) -> Result<Transaction<'static, Any>, Error> {
        match self.dialect {
            Dialect::Postgres => {
                let mut tx = self.pool.begin().await?;
                let limit = format!("SET LOCAL statement_timeout = {}", LONG_CALL_TIMEOUT.as_millis());
                sqlx::raw_sql(AssertSqlSafe(limit)).execute(&mut *tx).await?;
                self.lock(&mut tx).await?;
                Ok(tx)
            }
            Dialect::Sqlite => Ok(self.pool.begin_with("BEGIN EXCLUSIVE").await?),
        }
    }

    /// The lock belongs to the transaction, so it ends with it whatever happens, poolers between us and Postgres
    /// included. It is per schema: two mailrails in two schemas of a database do not wait for each other.
    async fn lock(&self, tx: &mut Connection) -> Result<(), Error> {
        sqlx::query(
            "SELECT pg_advisory_xact_lock(hashtextextended('mailrail.store.' || COALESCE(current_schema(), ''), 0))",
        )
        .execute(tx)
        .await?;
        Ok(())
    }
}

/// What every new connection runs first.
fn session(dialect: Dialect) -> String {
    let (statement, idle) = (STATEMENT_TIMEOUT.as_millis(), IDLE_TRANSACTION_TIMEOUT.as_millis());
    match dialect {
        Dialect::Postgres => {
            format!("SET statement_timeout = {statement}; SET idle_in_transaction_session_timeout = {idle}")
        }
        // The busy timeout goes first, so that the others wait for their locks.
        Dialect::Sqlite => format!(
            "PRAGMA busy_timeout = {statement}; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON"
        ),
    }
}

/// Ends a call that takes longer than `limit`.
pub(crate) async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::time::timeout(limit, call)
        .await
        .unwrap_or_else(|_| Err(Error::Unavailable(format!("no answer within {} s", limit.as_secs()))))
}

/// SQL has no unsigned numbers; ours stay far below the limit.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn unsigned(row: &AnyRow, column: &str) -> Result<u64, Error> {
    let number: i64 = row.try_get(column)?;
    u64::try_from(number).map_err(|e| Error::damaged(format!("column {column}"), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_sqlite_connection_is_durable_and_checks_references() {
        let dir = tempfile::tempdir().expect("a folder");
        let database =
            Database::connect(&format!("sqlite:{}", dir.path().join("x.db").display())).await.expect("opens");
        let mut connections = Vec::new();
        for _ in 0..POOL_SIZE {
            connections.push(database.pool().acquire().await.expect("a connection"));
        }
        for conn in &mut connections {
            for (pragma, wanted) in
                [("PRAGMA synchronous", "2"), ("PRAGMA foreign_keys", "1"), ("PRAGMA busy_timeout", "5000")]
            {
                let found: i64 = sqlx::query_scalar(pragma).fetch_one(&mut **conn).await.expect(pragma);
                assert_eq!(found.to_string(), wanted, "{pragma}");
            }
            let mode: String =
                sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut **conn).await.expect("a mode");
            assert_eq!(mode, "wal");
        }
    }
}
