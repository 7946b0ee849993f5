//! Payloads to play: real GitHub webhook examples when they can be had, else a small set written for the demo.

mod octokit;

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Error;

/// Written for the demo, in the shape of GitHub's payloads, in the file format of the package.
const OWN: &str = include_str!("../../payloads/own.json");

/// One payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// GitHub's event name, as `pull_request`.
    pub event: String,
    /// The body, byte for byte as the file holds it.
    pub body: Bytes,
    /// `repository.full_name`, when there is one.
    pub repository: Option<String>,
    /// `repository.id`, when there is one: the ordering key.
    pub repository_id: Option<String>,
}

impl Payload {
    /// The CloudEvents `type`.
    #[must_use]
    pub fn event_type(&self) -> String {
        format!("com.github.{}", self.event)
    }

    /// The CloudEvents `source`. A name that a URI reference could not hold as it is gives the general one.
    #[must_use]
    pub fn source(&self) -> String {
        let plain = |name: &&String| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./".contains(&b));
        self.repository
            .as_ref()
            .filter(plain)
            .map_or_else(|| "/github".to_owned(), |name| format!("https://github.com/{name}"))
    }
}

/// Where payloads came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The npm package, of this version.
    Octokit {
        /// Its version.
        version: &'static str,
    },
    /// The demo's own set, and why.
    Own {
        /// Why it was not the package.
        because: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Octokit { version } => {
                write!(f, "real GitHub webhook payloads: npm package {} {version} (MIT)", octokit::PACKAGE)
            }
            Origin::Own { because } => {
                write!(f, "a small set of payloads written for the demo, because {because}")
            }
        }
    }
}

/// Payloads, in the order they are played, and where they came from. Never empty.
#[derive(Debug, Clone)]
pub struct Payloads {
    /// The payloads.
    pub list: Vec<Payload>,
    /// Where they came from.
    pub origin: Origin,
}

impl Payloads {
    /// Real payloads when npm can bring them within a minute, or brought them before; else the demo's own. Never fails:
    /// a demo must run without a network.
    pub async fn load() -> Self {
        match octokit::fetch().await.and_then(|text| parse(&text).map_err(|error| error.to_string())) {
            Ok(list) if !list.is_empty() => {
                Self { list, origin: Origin::Octokit { version: octokit::VERSION } }
            }
            Ok(_) => Self::own("the package holds no payloads".to_owned()),
            Err(because) => Self::own(because),
        }
    }

    /// The demo's own set.
    #[must_use]
    pub fn own(because: String) -> Self {
        // The file is part of the program and a test reads it.
        Self { list: parse(OWN).unwrap_or_default(), origin: Origin::Own { because } }
    }

    /// How many of each event there are.
    #[must_use]
    pub fn by_event(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for payload in &self.list {
            *counts.entry(payload.event.as_str()).or_default() += 1;
        }
        counts
    }
}

#[derive(Deserialize)]
struct Definition<'a> {
    name: String,
    #[serde(borrow)]
    examples: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Shape {
    repository: Option<Repository>,
}

#[derive(Deserialize)]
struct Repository {
    id: Option<serde_json::Number>,
    full_name: Option<String>,
}

/// Reads the package's file: event definitions with their examples. The first example of every event comes before the
/// second of any, so that a short run shows many kinds.
fn parse(text: &str) -> Result<Vec<Payload>, Error> {
    let definitions: Vec<Definition<'_>> = serde_json::from_str(text).map_err(Error::Payloads)?;
    let rounds = definitions.iter().map(|d| d.examples.len()).max().unwrap_or(0);
    let mut payloads = Vec::new();
    for round in 0..rounds {
        for definition in &definitions {
            let Some(example) = definition.examples.get(round) else { continue };
            let shape: Shape = serde_json::from_str(example.get()).map_err(Error::Payloads)?;
            let (id, repository) = shape.repository.map_or((None, None), |r| (r.id, r.full_name));
            payloads.push(Payload {
                event: definition.name.clone(),
                body: Bytes::copy_from_slice(example.get().as_bytes()),
                repository,
                repository_id: id.map(|id| id.to_string()),
            });
        }
    }
    Ok(payloads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_set_can_be_read_and_has_what_the_set_up_wants() {
        let own = Payloads::own("of the test".into());
        assert!(own.list.len() >= 12);
        let events = own.by_event();
        for event in ["push", "pull_request", "issues", "issue_comment", "release", "star", "label"] {
            assert!(events.contains_key(event), "{event}");
        }
        assert!(own.list.iter().any(|p| p.repository_id.is_none()), "one without an ordering key");
        assert!(own.list.iter().any(|p| !p.body.is_ascii()), "one with more than ASCII");
        assert!(own.origin.to_string().contains("written for the demo, because of the test"));
    }

    #[test]
    fn n05_bodies_are_the_bytes_of_the_file() {
        let text = r#"[{"name":"b","examples":[{ "x": 1.0,"x":123456789012345678901234567890,
            "repository":{"id":7,"full_name":"o/r"}}, {"second":true}],"more":1},
            {"name":"a","examples":[{"repository":{"id":8,"full_name":"o/r\u00e9"}}]},{"name":"c","examples":[]}]"#;
        let list = parse(text).expect("payloads");
        let events: Vec<_> = list.iter().map(|p| p.event.as_str()).collect();
        assert_eq!(events, ["b", "a", "b"], "first examples first");
        assert!(list[0].body.starts_with(b"{ \"x\": 1.0,\"x\":123456789012345678901234567890,\n"));
        assert_eq!(
            (list[0].event_type(), list[0].source()),
            ("com.github.b".into(), "https://github.com/o/r".into())
        );
        assert_eq!((list[0].repository_id.as_deref(), list[2].repository_id.as_deref()), (Some("7"), None));
        assert_eq!(list[1].source(), "/github", "a name that is not ASCII stays out of a header");
        assert_eq!(list[2].source(), "/github");
    }

    #[test]
    fn another_file_is_refused() {
        for text in ["", "{}", "[1]", r#"[{"name":"a"}]"#, r#"[{"name":"a","examples":[7]}]"#] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
