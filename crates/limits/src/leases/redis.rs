//! Leases in Redis: one server, or a cluster.

use std::time::Duration;

use async_trait::async_trait;
use deadpool_redis::redis::{Cmd, Value, cmd};

use super::port::{Exchange, Exchanged, LeaseStore, Recipient, Token};
use crate::Error;
use crate::redis::{Link, open};

/// One round trip, all or nothing.
const EXCHANGE: &str = include_str!("exchange.lua");
const RATE: &str = include_str!("rate.lua");
const BEAT: &str = include_str!("beat.lua");

/// How long a recipient is known after its last exchange. A new one, and one that was wiped, is begun carefully.
const MARK_KEPT: Duration = Duration::from_hours(1);

/// A second, and the longest wait that is given, in microseconds: a changed rate holds for those who wait after that.
const SECOND: u64 = 1_000_000;
const WAIT_MAX: u64 = 60 * SECOND;

/// Leases in Redis, at `{prefix}lease:{<recipient>}`, with a queue of the processes that wait beside it, where the inner
/// braces are a hash tag; what was used of its rate at `{prefix}rate:{<recipient>}`; and the processes that are alive at `{prefix}lease-processes`.
///
/// What is in a key: a token of each lease with its expiry, at most as many as the limit says and what processes had in
/// use during an outage. It expires an hour after the last exchange, the queue when nobody waits any more.
pub struct RedisLeases {
    prefix: String,
    link: Link,
}

impl RedisLeases {
    /// As [`RedisWindows::new`](crate::RedisWindows::new), with a connection of its own.
    ///
    /// # Errors
    /// [`Error::Settings`] for URLs or a prefix that cannot be used.
    pub fn new(urls: &[String], prefix: &str) -> Result<Self, Error> {
        Ok(Self { prefix: prefix.to_owned(), link: Link::new(open(urls, prefix)?) })
    }

    fn processes(&self) -> String {
        format!("{}lease-processes", self.prefix)
    }

    async fn ask(&self, command: Cmd) -> Result<Value, Error> {
        let answers = match self.link.ask(vec![command.clone()]).await {
            // A connection that broke while it was idle shows it on the next question. Asked again, once, on a new one:
            // each of these commands may be done twice.
            Err(Error::NoAnswer(_)) => self.link.ask(vec![command]).await?,
            other => other?,
        };
        answers.into_iter().next().unwrap_or_else(|| Err(Error::Shape("nothing".to_owned())))
    }
}

impl std::fmt::Debug for RedisLeases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisLeases").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

fn command(prefix: &str, recipient: &Recipient, exchange: &Exchange) -> Cmd {
    let key = format!("{prefix}lease:{{{}}}", recipient.name().name());
    let queue = format!("{key}:queue");
    let mut eval = cmd("EVAL");
    eval.arg(EXCHANGE).arg(2).arg(key).arg(queue);
    eval.arg(exchange.limit).arg(exchange.share).arg(millis(exchange.term));
    eval.arg(millis(MARK_KEPT))
        .arg(millis(exchange.queue_for))
        .arg(process(exchange.process))
        .arg(exchange.held);
    let tokens = [&exchange.give, &exchange.renew, &exchange.take];
    for tokens in tokens {
        eval.arg(tokens.len());
    }
    for token in tokens.into_iter().flatten() {
        eval.arg(Token::to_string(token));
    }
    eval
}

fn process(process: u64) -> String {
    format!("{process:016x}")
}

fn millis(duration: Duration) -> String {
    duration.as_millis().max(1).to_string()
}

fn count(value: &Value) -> Result<u32, Error> {
    match value {
        Value::Int(count) => u32::try_from(*count).map_err(|_| Error::Shape("a count below zero".to_owned())),
        _ => Err(Error::Shape("a count that is none".to_owned())),
    }
}

fn exchanged(value: &Value, exchange: &Exchange) -> Result<Exchanged, Error> {
    let Value::Array(values) = value else { return Err(Error::Shape("no list".to_owned())) };
    let [granted, unknown, young] = values.as_slice() else {
        return Err(Error::Shape(format!("{} values instead of 3", values.len())));
    };
    let (granted, unknown, young) = (count(granted)?, count(unknown)?, count(young)? > 0);
    let asked = u32::try_from(exchange.take.len()).unwrap_or(u32::MAX);
    if granted > asked {
        return Err(Error::Shape("more leases than were asked for".to_owned()));
    }
    Ok(Exchanged { granted, unknown, young })
}

#[async_trait]
impl LeaseStore for RedisLeases {
    async fn exchange(&self, recipient: &Recipient, exchange: &Exchange) -> Result<Exchanged, Error> {
        let answer = self.ask(command(&self.prefix, recipient, exchange)).await?;
        exchanged(&answer, exchange)
    }

    async fn take_rate(&self, recipient: &Recipient, per_second: u32) -> Result<Duration, Error> {
        let interval = SECOND / u64::from(per_second.max(1));
        let mut take = cmd("EVAL");
        take.arg(RATE).arg(1).arg(format!("{}rate:{{{}}}", self.prefix, recipient.name().name()));
        take.arg(interval).arg(SECOND - interval).arg(WAIT_MAX);
        // Not asked twice: it may have been counted.
        let mut answers = self.link.ask(vec![take]).await?;
        let wait = count(&answers.pop().unwrap_or_else(|| Err(Error::Shape("nothing".to_owned())))?)?;
        Ok(Duration::from_millis(u64::from(wait)))
    }

    async fn beat(&self, id: u64, lasts: Duration) -> Result<u32, Error> {
        let mut beat = cmd("EVAL");
        beat.arg(BEAT).arg(1).arg(self.processes()).arg(process(id)).arg(millis(lasts));
        count(&self.ask(beat).await?)
    }

    async fn leave(&self, id: u64) -> Result<(), Error> {
        let mut leave = cmd("ZREM");
        leave.arg(self.processes()).arg(process(id));
        self.ask(leave).await.map(|_| ())
    }

    fn is_shared(&self) -> bool {
        true
    }
}
