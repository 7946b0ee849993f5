//! Durations and sizes as people write them: `30s`, `8MiB`.
//!
//! Fields stay plain `Duration` and `u64`; these modules are named in `#[serde(with = "…")]`, and the marker types in
//! `#[schemars(with = "…")]` so that the schema knows what a text means.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serializer};

/// `format` of a duration in the schema.
pub(crate) const DURATION_FORMAT: &str = "duration";
/// `format` of a size in the schema.
pub(crate) const SIZE_FORMAT: &str = "size";

/// Marks a duration in the schema.
pub(crate) struct DurationText;

impl JsonSchema for DurationText {
    fn schema_name() -> Cow<'static, str> {
        "DurationText".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": DURATION_FORMAT})
    }
}

/// Marks a size in the schema.
pub(crate) struct SizeText;

impl JsonSchema for SizeText {
    fn schema_name() -> Cow<'static, str> {
        "SizeText".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["string", "integer"], "format": SIZE_FORMAT, "minimum": 0})
    }
}

fn parse_duration<E: de::Error>(text: &str) -> Result<std::time::Duration, E> {
    humantime::parse_duration(text).map_err(|_| {
        E::custom(format_args!(
            "'{text}' is not a duration: write numbers with units, as in \"30s\", \"5m\" or \"2h\""
        ))
    })
}

/// A duration with its units: `"30s"`, `"1h 30m"`.
pub(crate) mod duration {
    use std::time::Duration;

    use super::{Deserializer, DurationVisitor, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &Duration, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(&humantime::format_duration(*value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Duration, D::Error> {
        input.deserialize_any(DurationVisitor)
    }
}

/// A list of durations.
pub(crate) mod durations {
    use std::time::Duration;

    use serde::ser::SerializeSeq;

    use super::{Deserialize, Deserializer, DurationVisitor, Serializer, de};

    struct One(Duration);

    impl<'de> Deserialize<'de> for One {
        fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
            input.deserialize_any(DurationVisitor).map(One)
        }
    }

    pub(crate) fn serialize<S: Serializer>(values: &[Duration], out: S) -> Result<S::Ok, S::Error> {
        let mut list = out.serialize_seq(Some(values.len()))?;
        for value in values {
            list.serialize_element(&humantime::format_duration(*value).to_string())?;
        }
        list.end()
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<Duration>, D::Error> {
        let list: Vec<One> = de::Deserialize::deserialize(input)?;
        Ok(list.into_iter().map(|one| one.0).collect())
    }
}

/// A size: `"8MiB"`, or a plain number of bytes.
pub(crate) mod size {
    use super::{Deserializer, Serializer, SizeVisitor};

    pub(crate) fn serialize<S: Serializer>(value: &u64, out: S) -> Result<S::Ok, S::Error> {
        // Only whole units are written with one, so that reading it back gives the same number.
        const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match UNITS.iter().find(|(unit, _)| *value >= *unit && value.is_multiple_of(*unit)) {
            Some((unit, name)) => out.collect_str(&format_args!("{}{name}", value / unit)),
            None => out.serialize_u64(*value),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<u64, D::Error> {
        input.deserialize_any(SizeVisitor)
    }
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = std::time::Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration with its unit, as in \"30s\", \"5m\" or \"2h\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        parse_duration(text)
    }
}

struct SizeVisitor;

impl Visitor<'_> for SizeVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size, as in \"8MiB\" or a number of bytes")
    }

    fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<u64, E> {
        Ok(bytes)
    }

    fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<u64, E> {
        u64::try_from(bytes).map_err(|_| E::custom(format_args!("{bytes} is not a size: it is negative")))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
        text.parse::<bytesize::ByteSize>().map(|size| size.as_u64()).map_err(|_| {
            E::custom(format_args!("'{text}' is not a size: write \"8MiB\", \"512KiB\" or a number of bytes"))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sample {
        #[serde(with = "super::duration")]
        wait: Duration,
        #[serde(with = "super::size")]
        room: u64,
        #[serde(with = "super::durations")]
        steps: Vec<Duration>,
    }

    fn read(text: &str) -> Result<Sample, String> {
        toml::from_str(text).map_err(|e: toml::de::Error| e.message().to_owned())
    }

    #[test]
    fn written_values_are_read_back() {
        for (wait, room) in [("1h 30m", "8MiB"), ("250ms", "1000"), ("4days", "3GiB"), ("0s", "0")] {
            let text = format!("wait = \"{wait}\"\nroom = \"{room}\"\nsteps = [\"5s\", \"5m\"]");
            let sample = read(&text).expect("valid");
            let again = toml::to_string(&sample).expect("can be written");
            assert_eq!(read(&again).as_ref(), Ok(&sample), "{again}");
        }
        let sample = read("wait = \"1h 30m\"\nroom = 4096\nsteps = []").expect("valid");
        assert_eq!(sample, Sample { wait: Duration::from_secs(5400), room: 4096, steps: vec![] });
    }

    #[test]
    fn a_bad_value_says_how_to_write_it() {
        let message = |text: &str| read(text).expect_err("must be refused");
        assert!(message("wait = \"30\"\nroom = 1\nsteps = []").contains("'30' is not a duration"));
        assert!(message("wait = 30\nroom = 1\nsteps = []").contains("as in \"30s\""));
        assert!(message("wait = \"1s\"\nroom = -1\nsteps = []").contains("negative"));
        assert!(message("wait = \"1s\"\nroom = \"8 elephants\"\nsteps = []").contains("\"8MiB\""));
        assert!(message("wait = \"1s\"\nroom = 1\nsteps = [\"x\"]").contains("'x' is not a duration"));
    }
}
