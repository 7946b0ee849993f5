//! Counters in Redis: one server, or a cluster.

mod commands;
mod eviction;
mod link;
mod server;

use std::time::Duration;

use async_trait::async_trait;
use mailrail_types::Timestamp;

use self::commands::Keys;
pub use self::eviction::{WhenFull, when_full};
pub(crate) use self::link::Link;
use self::server::Server;
use crate::{Counter, Error, Stored, Windows, Write};

/// How long to try to connect. Nobody waits that long: callers give up after their own budget, and the attempt goes on.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// Longest prefix of keys.
const PREFIX_MAX: usize = 64;

/// Counters in Redis, at `{prefix}whrate:{<counter>}:<shard>`, and widths at `{prefix}whrate:{<counter>}:width`, where the
/// inner braces are a hash tag: all keys of a counter live in one slot.
///
/// A read is one round trip of a GET per key, never one command over several keys, which a cluster refuses while a slot
/// moves. An addition is one script call, so that no counter is left without an expiry. Reads and writes have a
/// connection each: a large flush does not delay a read. Connections are made on first use and again after failures.
pub struct RedisWindows {
    keys: Keys,
    reads: Link,
    writes: Link,
}

impl RedisWindows {
    /// `urls`: one `redis://` or `rediss://` (TLS) for a single server; several, or one with `redis-cluster://` or
    /// `rediss-cluster://`, for a cluster. `prefix` begins every key: at most 64 of `A-Z a-z 0-9 . _ : -`. Does not connect.
    ///
    /// # Errors
    /// [`Error::Settings`] for URLs or a prefix that cannot be used.
    pub fn new(urls: &[String], prefix: &str) -> Result<Self, Error> {
        let server = open(urls, prefix)?;
        Ok(Self { keys: Keys::new(prefix), reads: Link::new(server.clone()), writes: Link::new(server) })
    }
}

impl std::fmt::Debug for RedisWindows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisWindows").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// Where `urls` lead, once they and the prefix of keys are found good. Does not connect.
pub(crate) fn open(urls: &[String], prefix: &str) -> Result<Server, Error> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '-');
    if prefix.len() > PREFIX_MAX || !prefix.chars().all(plain) {
        return Err(Error::Settings(format!(
            "the prefix of keys must be at most {PREFIX_MAX} of A-Z a-z 0-9 . _ : -"
        )));
    }
    Server::new(urls, CONNECT_WITHIN)
}

#[async_trait]
impl Windows for RedisWindows {
    async fn write(&self, writes: &[Write], now: Timestamp) -> Vec<Result<(), Error>> {
        let commands = writes.iter().map(|write| self.keys.write(write, now)).collect();
        match self.writes.ask(commands).await {
            Ok(answers) => answers.into_iter().map(|it| it.and_then(|it| commands::written(&it))).collect(),
            Err(error) => writes.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn read(&self, counter: &Counter, shard: i64) -> Result<Stored, Error> {
        let answers = match self.reads.ask(self.keys.read(counter, shard)).await {
            // A connection that broke while it was idle shows it on the next question. Asked again, once, on a new one.
            Err(Error::NoAnswer(_)) => self.reads.ask(self.keys.read(counter, shard)).await,
            other => other,
        };
        commands::stored(answers?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(urls: &[&str], prefix: &str) -> Result<RedisWindows, Error> {
        RedisWindows::new(&urls.iter().map(ToString::to_string).collect::<Vec<_>>(), prefix)
    }

    #[tokio::test]
    async fn settings_are_checked_and_not_echoed() {
        for urls in [
            &["redis://127.0.0.1:1/"][..],
            &["rediss://:pass@127.0.0.1:1/"],
            &["redis-cluster://127.0.0.1:1"],
            &["redis://127.0.0.1:1/", "redis://127.0.0.1:2/"],
        ] {
            new(urls, "mailrail:").expect("usable");
        }
        for urls in [
            &[][..],
            &["http://:s3cret@127.0.0.1/"],
            &["s3cret"],
            &["redis://:s3cret@127.0.0.1:1/", "redis://:other@127.0.0.1:1/"],
            &["redis://:s3cret@127.0.0.1:1/", "s3cret"],
        ] {
            let error = new(urls, "").expect_err("not usable");
            assert!(matches!(error, Error::Settings(_)), "{error:?}");
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
        for prefix in ["{", "}", "a b", "é", &"x".repeat(65)] {
            new(&["redis://127.0.0.1:1/"], prefix).expect_err("prefix");
        }
    }

    #[tokio::test]
    async fn s13_nobody_listens() {
        let windows = new(&["redis://127.0.0.1:1/"], "").expect("settings");
        let error = windows.read(&Counter::new("a", &[]), 0).await.expect_err("no server");
        assert!(matches!(error, Error::NotConnected(_)), "{error:?}");
        assert!(!error.may_have_applied() && error.is_outage());
    }
}
