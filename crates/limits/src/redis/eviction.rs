//! Whether a Redis server throws keys away when it is full.
//!
//! All keys of mailrail have an expiry, so every policy but `noeviction` may take them: leases are forgotten and a limit holds no
//! more, counts are forgotten and mailboxes become narrower. `INFO` is asked, not `CONFIG`, which managed servers refuse.

use std::time::Duration;

use deadpool_redis::redis::{Value, cmd};

use super::link::Link;
use super::open;
use crate::Error;

/// Longest time for the answer, connecting included.
const ASK_WITHIN: Duration = Duration::from_secs(5);
/// The one policy that takes no key.
const KEEPS: &str = "noeviction";

/// What a Redis server does when it is full.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenFull {
    /// It refuses writes, or has no limit of memory: no key is lost.
    Refuses,
    /// It throws keys away, by this `maxmemory-policy`.
    Evicts(String),
    /// It does not say.
    Unknown,
}

/// Asks the servers that `urls` lead to, as [`RedisWindows::new`](crate::RedisWindows::new) takes them; at a cluster, each node that
/// answers. 5 s at most.
///
/// # Errors
/// [`Error::Settings`] for URLs that cannot be used; any other when there is no answer.
pub async fn when_full(urls: &[String]) -> Result<WhenFull, Error> {
    let link = Link::new(open(urls, "")?);
    let mut info = cmd("INFO");
    info.arg("memory");
    let asked = tokio::time::timeout(ASK_WITHIN, link.ask(vec![info]));
    let answers = asked.await.map_err(|_| Error::Timeout)??;
    answers.into_iter().next().unwrap_or(Ok(Value::Nil)).map(|answer| of(&answer))
}

/// One text of a server, or a map from nodes to texts. The worst of them counts.
fn of(answer: &Value) -> WhenFull {
    match answer {
        Value::BulkString(text) => said(&String::from_utf8_lossy(text)),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => said(text),
        Value::Map(nodes) => {
            let all: Vec<WhenFull> = nodes.iter().map(|(_, text)| of(text)).collect();
            let evicts = all.iter().find(|it| matches!(it, WhenFull::Evicts(_)));
            let refuses = !all.is_empty() && all.iter().all(|it| *it == WhenFull::Refuses);
            evicts.cloned().unwrap_or(if refuses { WhenFull::Refuses } else { WhenFull::Unknown })
        }
        _ => WhenFull::Unknown,
    }
}

fn said(info: &str) -> WhenFull {
    let field =
        |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    match (field("maxmemory_policy"), field("maxmemory")) {
        (Some(KEEPS), _) | (Some(_), Some("0")) => WhenFull::Refuses,
        (Some(policy), _) if !policy.is_empty() => WhenFull::Evicts(policy.to_owned()),
        _ => WhenFull::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn what_a_server_says_is_understood() {
        let evicts = WhenFull::Evicts("volatile-lru".to_owned());
        let lru = "# Memory\r\nmaxmemory:1000\r\nmaxmemory_human:1K\r\nmaxmemory_policy:volatile-lru\r\n";
        assert_eq!(of(&text(lru)), evicts);
        assert_eq!(of(&text(&lru.replace("volatile-lru", "noeviction"))), WhenFull::Refuses);
        assert_eq!(of(&text(&lru.replace(":1000", ":0"))), WhenFull::Refuses, "it is never full");
        assert_eq!(of(&text("# Memory\r\nused_memory:1\r\n")), WhenFull::Unknown);
        assert_eq!(of(&Value::Nil), WhenFull::Unknown);
    }

    #[test]
    fn one_node_of_a_cluster_that_evicts_is_enough() {
        let (keeps, evicts) =
            ("maxmemory:9\r\nmaxmemory_policy:noeviction", "maxmemory:9\r\nmaxmemory_policy:allkeys-lru");
        let node = |info: &str| (text("127.0.0.1:1"), text(info));
        let map = |infos: &[&str]| of(&Value::Map(infos.iter().map(|it| node(it)).collect()));
        assert_eq!(map(&[keeps, evicts, keeps]), WhenFull::Evicts("allkeys-lru".to_owned()));
        assert_eq!(map(&[keeps, keeps]), WhenFull::Refuses);
        assert_eq!(map(&[keeps, ""]), WhenFull::Unknown);
        assert_eq!(map(&[]), WhenFull::Unknown);
    }
}
