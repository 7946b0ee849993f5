//! What an endpoint of the sample receiver answers: a script of one line.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde_json::Value;

use crate::Error;

/// Longest delay that a script may ask for: longer than any attempt may take, short enough for a test to end.
const DELAY_MAX: Duration = Duration::from_secs(600);

/// How an endpoint answers. Its text form is `[delay=MS,][retry-after=SECS,]RULE`, see [`Rule`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Behaviour {
    /// Waits this long before it answers.
    pub delay: Duration,
    /// `Retry-After` in seconds on every answer that is not 2xx.
    pub retry_after: Option<u32>,
    /// Which answer it gives.
    pub rule: Rule,
}

/// Which answer an endpoint gives to a request whose signature is good.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Rule {
    /// `ok`: 200, always.
    #[default]
    Ok,
    /// `status=S`: S, always.
    Status(u16),
    /// `first=N:S`: S to the first N requests of the endpoint, then 200.
    FirstRequests {
        /// How many.
        count: u64,
        /// What they get.
        status: u16,
    },
    /// `every=N:S`: S to the first request of every Nth delivery, else 200.
    EveryDelivery {
        /// Each how-many-th.
        nth: u64,
        /// What it gets.
        status: u16,
    },
    /// `field=POINTER=VALUE:S`: S when the string at the JSON pointer of the body is VALUE, else 200.
    Field {
        /// RFC 6901 pointer.
        pointer: String,
        /// The string that is refused.
        value: String,
        /// What it gets.
        status: u16,
    },
    /// `reset`: resets the connection in place of an answer.
    Reset,
    /// `hang`: never answers.
    Hang,
}

/// What a script looks at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Occasion<'a> {
    /// Number of this request at its endpoint, from 1.
    pub(crate) request: u64,
    /// Number of the delivery at its endpoint, from 1, when this is its first request.
    pub(crate) new_delivery: Option<u64>,
    /// The request's bytes.
    pub(crate) body: &'a [u8],
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    Status(u16),
    Reset,
    Hang,
}

const OK: Reply = Reply::Status(200);

impl Rule {
    pub(crate) fn reply(&self, occasion: Occasion<'_>) -> Reply {
        match self {
            Rule::Ok => OK,
            Rule::Status(status) => Reply::Status(*status),
            Rule::FirstRequests { count, status } if occasion.request <= *count => Reply::Status(*status),
            Rule::EveryDelivery { nth, status } if occasion.new_delivery.is_some_and(|n| n % nth == 0) => {
                Reply::Status(*status)
            }
            Rule::Field { pointer, value, status } if holds(occasion.body, pointer, value) => {
                Reply::Status(*status)
            }
            Rule::FirstRequests { .. } | Rule::EveryDelivery { .. } | Rule::Field { .. } => OK,
            Rule::Reset => Reply::Reset,
            Rule::Hang => Reply::Hang,
        }
    }
}

fn holds(body: &[u8], pointer: &str, value: &str) -> bool {
    serde_json::from_slice::<Value>(body)
        .is_ok_and(|json| json.pointer(pointer).and_then(Value::as_str) == Some(value))
}

impl FromStr for Behaviour {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |problem| Error::Behaviour { text: text.to_owned(), problem };
        let mut behaviour = Behaviour::default();
        let mut rest = text;
        while let Some((option, after)) = rest.split_once(',') {
            if let Some(ms) = option.strip_prefix("delay=") {
                behaviour.delay =
                    Duration::from_millis(ms.parse().map_err(|_| bad("delay is not a number"))?);
                if behaviour.delay > DELAY_MAX {
                    return Err(bad("delay is over 600000 ms"));
                }
            } else if let Some(secs) = option.strip_prefix("retry-after=") {
                behaviour.retry_after = Some(secs.parse().map_err(|_| bad("retry-after is not a number"))?);
            } else {
                break; // a comma inside the rule
            }
            rest = after;
        }
        behaviour.rule = rule(rest).map_err(bad)?;
        Ok(behaviour)
    }
}

fn rule(text: &str) -> Result<Rule, &'static str> {
    let (name, argument) = text.split_once('=').unwrap_or((text, ""));
    let status = |text: &str| match text.parse() {
        Ok(status @ 200..=599) => Ok(status),
        _ => Err("a status is a number from 200 to 599"),
    };
    let and_status = || {
        let (left, right) = argument.rsplit_once(':').ok_or("write the status after a ':'")?;
        Ok::<_, &'static str>((left, status(right)?))
    };
    let counted = || {
        let (count, status) = and_status()?;
        match count.parse::<u64>() {
            Ok(count) if count > 0 => Ok((count, status)),
            _ => Err("a count is a number from 1"),
        }
    };
    match name {
        "ok" | "reset" | "hang" if text != name => Err("this rule takes no argument"),
        "ok" => Ok(Rule::Ok),
        "reset" => Ok(Rule::Reset),
        "hang" => Ok(Rule::Hang),
        "status" => Ok(Rule::Status(status(argument)?)),
        "first" => counted().map(|(count, status)| Rule::FirstRequests { count, status }),
        "every" => counted().map(|(nth, status)| Rule::EveryDelivery { nth, status }),
        "field" => {
            let (field, status) = and_status()?;
            let (pointer, value) = field.split_once('=').ok_or("write field=POINTER=VALUE:STATUS")?;
            if !pointer.starts_with('/') {
                return Err("a JSON pointer starts with '/'");
            }
            Ok(Rule::Field { pointer: pointer.to_owned(), value: value.to_owned(), status })
        }
        _ => Err("known rules are ok, status, first, every, field, reset and hang"),
    }
}

impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.delay.is_zero() {
            write!(f, "delay={},", self.delay.as_millis())?;
        }
        if let Some(secs) = self.retry_after {
            write!(f, "retry-after={secs},")?;
        }
        match &self.rule {
            Rule::Ok => f.write_str("ok"),
            Rule::Status(status) => write!(f, "status={status}"),
            Rule::FirstRequests { count, status } => write!(f, "first={count}:{status}"),
            Rule::EveryDelivery { nth, status } => write!(f, "every={nth}:{status}"),
            Rule::Field { pointer, value, status } => write!(f, "field={pointer}={value}:{status}"),
            Rule::Reset => f.write_str("reset"),
            Rule::Hang => f.write_str("hang"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Behaviour {
        text.parse().expect(text)
    }

    #[test]
    fn scripts_are_read_and_written_back() {
        for text in [
            "ok",
            "status=500",
            "first=3:503",
            "every=7:503",
            "field=/action=deleted:400",
            "field=/a,b=c:d,e:400",
            "reset",
            "hang",
            "delay=250,ok",
            "delay=5,retry-after=2,first=1:429",
        ] {
            assert_eq!(parse(text).to_string(), text);
        }
    }

    #[test]
    fn malformed_scripts_are_refused() {
        for text in [
            "",
            "no",
            "ok=1",
            "status",
            "status=",
            "status=99",
            "status=600",
            "first=0:503",
            "first=3",
            "every=x:503",
            "field=/a:400",
            "field=a=b:400",
            "delay=x,ok",
            "delay=600001,ok",
            "delay=5",
            "retry-after=,ok",
            "hang,ok",
        ] {
            assert!(text.parse::<Behaviour>().is_err(), "{text:?} must be refused");
        }
    }

    #[test]
    fn rules_answer_by_their_occasion() {
        let reply = |rule: &str, request, new_delivery, body: &str| {
            parse(rule).rule.reply(Occasion { request, new_delivery, body: body.as_bytes() })
        };
        assert_eq!(reply("first=2:503", 2, Some(1), ""), Reply::Status(503));
        assert_eq!(reply("first=2:503", 3, Some(2), ""), OK);
        assert_eq!(reply("every=3:500", 9, Some(6), ""), Reply::Status(500));
        assert_eq!(reply("every=3:500", 9, Some(7), ""), OK);
        assert_eq!(reply("every=3:500", 9, None, ""), OK, "the retry of a delivery goes through");
        assert_eq!(reply("field=/a/b=x:400", 1, Some(1), r#"{"a":{"b":"x"}}"#), Reply::Status(400));
        assert_eq!(reply("field=/a/b=x:400", 1, Some(1), r#"{"a":{"b":"y"}}"#), OK);
        assert_eq!(reply("field=/a/b=x:400", 1, Some(1), "not json"), OK);
        assert_eq!(reply("status=500", 1, None, ""), Reply::Status(500));
        assert_eq!(reply("reset", 1, None, ""), Reply::Reset);
        assert_eq!(reply("hang", 1, None, ""), Reply::Hang);
    }
}
