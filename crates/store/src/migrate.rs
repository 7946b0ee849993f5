//! Brings the database to the schema of this binary, under a lock, and checks that the key is the right one.

use sqlx::{AssertSqlSafe, Row};

use crate::Error;
use crate::database::{Connection, Database, Dialect};
use crate::seal::{SealError, Sealer};

/// In order, never edited once released; the version is the place in the list, from 1.
const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/0001_setup.sql"),
    include_str!("../migrations/0002_classes.sql"),
    include_str!("../migrations/0003_holding.sql"),
    include_str!("../migrations/0004_endpoint_limits.sql"),
    include_str!("../migrations/0005_matching.sql"),
];

const CHECK_PLACE: &[&str] = &["key-check"];
const CHECK_TEXT: &[u8] = b"mailrail";

/// Migrates in one transaction: several processes that start together migrate once, and a failure leaves nothing.
pub(crate) async fn migrate(database: &Database, sealer: &Sealer) -> Result<(), Error> {
    let mut tx = database.migration().await?;
    let found = version(&mut tx, database.dialect()).await?;
    let known = MIGRATIONS.len();
    let done = usize::try_from(found).ok().filter(|done| *done <= known);
    let Some(done) = done else {
        return Err(Error::NewerSchema { found, known: i64::try_from(known).unwrap_or(i64::MAX) });
    };
    for (number, text) in (1_i64..).zip(MIGRATIONS).skip(done) {
        sqlx::raw_sql(AssertSqlSafe(in_dialect(text, database.dialect()))).execute(&mut *tx).await?;
        sqlx::query("INSERT INTO schema_versions (version) VALUES ($1)")
            .bind(number)
            .execute(&mut *tx)
            .await?;
        tracing::info!(version = number, "migrated the store");
    }
    check_key(&mut tx, sealer).await?;
    tx.commit().await?;
    Ok(())
}

fn in_dialect(text: &str, dialect: Dialect) -> String {
    text.replace("BYTES ", if dialect == Dialect::Postgres { "BYTEA " } else { "BLOB " })
}

/// Version of the database; 0, with the table made, when it is new.
async fn version(tx: &mut Connection, dialect: Dialect) -> Result<i64, Error> {
    let exists = match dialect {
        Dialect::Postgres => "SELECT COUNT(to_regclass('schema_versions')) AS n",
        Dialect::Sqlite => {
            "SELECT COUNT(*) AS n FROM sqlite_master WHERE type = 'table' AND name = 'schema_versions'"
        }
    };
    if sqlx::query(exists).fetch_one(&mut *tx).await?.try_get::<i64, _>("n")? == 0 {
        sqlx::raw_sql("CREATE TABLE schema_versions (version BIGINT NOT NULL PRIMARY KEY)")
            .execute(&mut *tx)
            .await?;
    }
    let row = sqlx::query("SELECT COALESCE(MAX(version), 0) AS n FROM schema_versions").fetch_one(tx).await?;
    Ok(row.try_get("n")?)
}

/// The first key that opens a database stays its key: a mistaken key is found at the start, not at the first delivery.
async fn check_key(tx: &mut Connection, sealer: &Sealer) -> Result<(), Error> {
    let stored = sqlx::query("SELECT sealed FROM key_check").fetch_optional(&mut *tx).await?;
    let Some(stored) = stored else {
        sqlx::query("INSERT INTO key_check (id, sealed) VALUES (1, $1)")
            .bind(sealer.seal(CHECK_PLACE, CHECK_TEXT))
            .execute(tx)
            .await?;
        return Ok(());
    };
    match sealer.open(CHECK_PLACE, stored.try_get("sealed")?) {
        Ok(_) => Ok(()),
        Err(SealError::OtherKey) => Err(Error::WrongKey),
        Err(problem) => Err(Error::damaged("the key check", problem)),
    }
}
