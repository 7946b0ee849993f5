//! What is sent to Redis for a counter, and what may come back.

use std::time::Duration;

use deadpool_redis::redis::{Cmd, Value, cmd};
use mailrail_policy::{COUNTER_TTL, COUNTERS_READ, SHARD, shard_start};
use mailrail_types::Timestamp;

use crate::{Counter, Error, HeldWidth, Stored, Write};

/// Adds and sets the expiry, both or neither: a connection that breaks in between would leave a counter for ever.
const ADD: &str = "redis.call('INCRBY',KEYS[1],ARGV[1]) return redis.call('PEXPIRE',KEYS[1],ARGV[2])";

/// Counters, then the width.
const ANSWERS: usize = COUNTERS_READ + 1;

#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    fn count(&self, counter: &Counter, shard: i64) -> String {
        format!("{}whrate:{{{}}}:{shard}", self.prefix, counter.name())
    }

    fn width(&self, counter: &Counter) -> String {
        format!("{}whrate:{{{}}}:width", self.prefix, counter.name())
    }

    pub(super) fn read(&self, counter: &Counter, shard: i64) -> Vec<Cmd> {
        let get = |key: String| {
            let mut get = cmd("GET");
            get.arg(key);
            get
        };
        let shards = (0i64..).take(COUNTERS_READ).map(|back| self.count(counter, shard.saturating_sub(back)));
        shards.chain([self.width(counter)]).map(get).collect()
    }

    pub(super) fn write(&self, write: &Write, now: Timestamp) -> Cmd {
        match write {
            Write::Count { counter, shard, count } => {
                let expiry = expires_in(*shard, now).as_millis().to_string();
                let mut add = cmd("EVAL");
                add.arg(ADD).arg(1).arg(self.count(counter, *shard)).arg(*count).arg(expiry);
                add
            }
            Write::Width { counter, held } => {
                let mut set = cmd("SET");
                set.arg(self.width(counter)).arg(width_text(*held)).arg("EX").arg(COUNTER_TTL.as_secs());
                set
            }
        }
    }
}

/// [`COUNTER_TTL`] while the shard is current; a count that comes later, after an outage, does not prolong its life.
fn expires_in(shard: i64, now: Timestamp) -> Duration {
    let end = shard_start(shard).plus(SHARD).plus(COUNTER_TTL);
    end.since(now).clamp(Duration::from_millis(1), COUNTER_TTL)
}

fn width_text(held: HeldWidth) -> String {
    format!("{}/{}", held.width, held.unit)
}

/// A width that cannot be read only costs the hysteresis, and the next one replaces it.
fn width_of(value: &Value) -> Option<HeldWidth> {
    let Value::BulkString(text) = value else { return None };
    let (width, unit) = std::str::from_utf8(text).ok()?.split_once('/')?;
    Some(HeldWidth { width: width.parse().ok()?, unit: unit.parse().ok()? })
}

fn count_of(value: &Value) -> Result<u64, Error> {
    match value {
        Value::Nil => Ok(0),
        Value::BulkString(text) => std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Error::Shape("a count that is not a number".to_owned())),
        other => Err(Error::Shape(format!("a count of type {}", type_of(other)))),
    }
}

pub(super) fn stored(answers: Vec<Result<Value, Error>>) -> Result<Stored, Error> {
    if answers.len() != ANSWERS {
        return Err(Error::Shape(format!("{} values instead of {ANSWERS}", answers.len())));
    }
    let mut answers = answers.into_iter();
    let mut shards = [0; COUNTERS_READ];
    for count in &mut shards {
        *count = count_of(&answers.next().unwrap_or(Ok(Value::Nil))?)?;
    }
    Ok(Stored { shards, width: answers.next().and_then(Result::ok).and_then(|it| width_of(&it)) })
}

pub(super) fn written(answer: &Value) -> Result<(), Error> {
    match answer {
        Value::Int(1) | Value::Okay => Ok(()),
        other => Err(Error::Shape(format!("a write was answered with {}", type_of(other)))),
    }
}

/// The type only: a value may be anything that somebody put there.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Int(_) => "integer",
        Value::BulkString(_) | Value::SimpleString(_) | Value::Okay => "text",
        Value::ServerError(_) => "error",
        _ => "another type",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Result<Value, Error> {
        Ok(Value::BulkString(text.as_bytes().to_vec()))
    }

    fn answers(of: &[&str]) -> Vec<Result<Value, Error>> {
        of.iter().map(|it| text(it)).collect()
    }

    fn sent(command: &Cmd) -> String {
        String::from_utf8(command.get_packed_command()).expect("text")
    }

    #[test]
    fn keys_of_a_counter_share_a_hash_tag() {
        let keys = Keys::new("x:");
        let read = keys.read(&Counter::new("github", &["4321", "push"]), 100);
        let sent: Vec<String> = read.iter().map(sent).collect();
        assert_eq!(sent.len(), 7);
        assert!(sent[0].contains("x:whrate:{github:4321:push}:100\r\n"), "{}", sent[0]);
        assert!(sent[5].contains("x:whrate:{github:4321:push}:95\r\n"), "{}", sent[5]);
        assert!(sent[6].contains("x:whrate:{github:4321:push}:width\r\n"), "{}", sent[6]);
        assert!(sent.iter().all(|it| it.starts_with("*2\r\n$3\r\nGET\r\n")), "one key per command");
    }

    /// S07: the clause "expiry is a real bound": whenever it is written, nothing is left 1,261 s after the shard began.
    #[test]
    fn s07_an_expiry_ends_1260_s_after_the_start_of_the_shard_at_the_latest() {
        let start = shard_start(77);
        for late_ms in [0, 1, 90_000, 179_999, 180_000, 400_000, 1_259_999, 1_260_000, 9_000_000] {
            let now = Timestamp(start.millis() + late_ms);
            let ttl = expires_in(77, now);
            assert!(ttl > Duration::ZERO && ttl <= COUNTER_TTL, "{late_ms}: {ttl:?}");
            if late_ms < 180_000 {
                assert_eq!(ttl, Duration::from_secs(1_080), "while current: {late_ms}");
            }
            if late_ms < 1_260_000 {
                assert!(now.plus(ttl).since(start) <= Duration::from_secs(1_260), "{late_ms}: {ttl:?}");
            } else {
                assert_eq!(ttl, Duration::from_millis(1));
            }
        }
        let early = Timestamp(start.millis() - 5_000);
        assert_eq!(expires_in(77, early), COUNTER_TTL, "a clock that runs behind");
    }

    #[test]
    fn an_answer_is_read() {
        let mut all = answers(&["5", "4", "3", "2", "1", "0"]);
        all.push(text("8/16"));
        all[1] = Ok(Value::Nil);
        let found = stored(all).expect("shape");
        assert_eq!(found.shards, [5, 0, 3, 2, 1, 0]);
        assert_eq!(found.width, Some(HeldWidth { width: 8, unit: 16 }));
    }

    #[test]
    fn s13_wrong_shapes_and_non_numbers_are_errors() {
        let good = || answers(&["5", "4", "3", "2", "1", "0", ""]);
        assert!(stored(good()).is_ok());
        assert!(matches!(stored(good()[..6].to_vec()), Err(Error::Shape(_))));
        assert!(matches!(stored(vec![]), Err(Error::Shape(_))));
        let refused = Error::Refused("WRONGTYPE".to_owned());
        for bad in [
            text("many"),
            text("-1"),
            text("1.5"),
            text(""),
            text("99999999999999999999"),
            Ok(Value::Int(1)),
            Ok(Value::Array(vec![])),
            Ok(Value::BulkString(vec![0xff])),
            Err(refused),
        ] {
            let mut all = good();
            all[3] = bad;
            assert!(stored(all.clone()).is_err(), "{all:?}");
        }
    }

    #[test]
    fn an_unreadable_width_is_none() {
        for bad in [text("x"), text("1"), text("1/"), text("-1/2"), Ok(Value::Nil), Err(Error::Timeout)] {
            let mut all = answers(&["5", "4", "3", "2", "1", "0"]);
            all.push(bad);
            assert_eq!(stored(all).expect("counts are there").width, None);
        }
    }
}
