//! The address of the database: what it says, and the file that it names.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::str::FromStr as _;

use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use crate::Error;
use crate::database::Dialect;

/// Mode of a new database file: endpoints, keys and secrets are its owner's business. What SQLite keeps beside it has the same.
const FILE_MODE: u32 = 0o600;

/// Whether [`Store::open`](crate::Store::open) understands this address. Nothing is connected and nothing is made.
///
/// # Errors
/// [`Error::Url`], which says what to change and does not show the address: it may hold a password.
pub fn check_url(url: &str) -> Result<(), Error> {
    match of(url)? {
        (Dialect::Postgres, url) => PgConnectOptions::from_str(&url).map(drop)?,
        (Dialect::Sqlite, url) => SqliteConnectOptions::from_str(&url).map(drop)?,
    }
    Ok(())
}

/// Which database it is, and its address as sqlx reads it.
pub(crate) fn of(url: &str) -> Result<(Dialect, String), Error> {
    match url.split_once(':') {
        Some(("postgres" | "postgresql", _)) => Ok((Dialect::Postgres, url.to_owned())),
        Some(("sqlite", path)) => Ok((Dialect::Sqlite, sqlite_url(path)?)),
        _ => Err(Error::Url("the store's address must start with 'postgres://' or 'sqlite:'".to_owned())),
    }
}

/// Makes the file of a SQLite database readable by its owner alone, when it is not there yet: SQLite itself would let everybody read it.
/// One that is there stays as it is. Whatever goes wrong is said by SQLite, which opens it next.
pub(crate) fn make_private(url: &str) {
    if let Some(("sqlite", path)) = url.split_once(':') {
        let _ = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(plain(path));
    }
}

fn plain(path: &str) -> &str {
    path.strip_prefix("//").unwrap_or(path)
}

/// Percent-encodes what a URL would take for its own; sqlx decodes it again.
fn sqlite_url(path: &str) -> Result<String, Error> {
    let path = plain(path);
    if path.is_empty() || path == ":memory:" {
        // Each connection of a pool would get its own empty database.
        return Err(Error::Url("the store's address names no file: write 'sqlite:PATH'".to_owned()));
    }
    if path.contains('?') {
        return Err(Error::Url(
            "the store's address takes no parameters: write 'sqlite:PATH' without '?'".to_owned(),
        ));
    }
    let path = path.replace('%', "%25").replace('#', "%23").replace(' ', "%20");
    Ok(format!("sqlite:{path}?mode=rwc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlite_addresses_are_read_and_refused() {
        assert_eq!(sqlite_url("a b#%.db").as_deref(), Ok("sqlite:a%20b%23%25.db?mode=rwc"));
        assert_eq!(sqlite_url("///var/x.db").as_deref(), Ok("sqlite:/var/x.db?mode=rwc"));
        for bad in ["", "//", ":memory:", "x.db?mode=ro"] {
            assert!(matches!(sqlite_url(bad), Err(Error::Url(_))), "{bad:?}");
        }
    }

    #[test]
    fn an_address_is_checked_without_a_connection_and_never_shown() {
        for good in
            ["postgres://rail:canary@db:5432/rail?sslmode=require", "postgresql://db/rail", "sqlite:x y.db"]
        {
            assert_eq!(check_url(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "mysql://rail:canary@db/rail",
            "postgres://rail:canary@db:port/rail",
            "postgres://rail:canary@[::1/rail",
            "postgres://db/rail?sslmode=canary",
            "sqlite:",
        ] {
            let error = check_url(bad).expect_err(bad);
            assert!(matches!(error, Error::Url(_)), "{error:?}");
            assert!(!error.to_string().contains("canary"), "{error}");
        }
    }

    #[tokio::test]
    async fn an_address_that_is_none_makes_no_file() {
        for bad in ["sqlite::memory:", "sqlite:x.db?mode=ro"] {
            let opened = crate::Store::open(bad, crate::EncryptionKey::generate()).await;
            assert!(matches!(opened, Err(Error::Url(_))), "{bad}");
            let (_, file) = bad.split_once(':').expect("a scheme");
            assert!(!std::path::Path::new(file).exists(), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_new_database_file_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}", folder.path().join("a store.db").display());
        let store = crate::Store::open(&url, crate::EncryptionKey::generate()).await.expect("opens");
        let files: Vec<_> =
            std::fs::read_dir(folder.path()).expect("read").map(|it| it.expect("a file")).collect();
        assert!(!files.is_empty());
        for file in files {
            let mode = file.metadata().expect("there").permissions().mode();
            assert_eq!(mode & 0o777, FILE_MODE, "{:?}", file.file_name());
        }
        store.close().await;
    }
}
