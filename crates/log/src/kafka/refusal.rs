//! Settings that no client can be made of, said without the value of any property: each of them may be a secret, also one that was
//! put into the wrong place.

use std::collections::BTreeMap;

use rdkafka::error::KafkaError;

use super::config::KafkaConfig;
use crate::LogError;

/// What is known to librdkafka as this property; it has two names.
const MECHANISM: [&str; 2] = ["sasl.mechanism", "sasl.mechanisms"];
/// What it may be in this build, which has no Kerberos. Librdkafka compares it letter by letter.
const MECHANISMS: [&str; 4] = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"];
/// A property whose values librdkafka checks against a list of its own, before any client is made.
const PROTOCOL: &str = "security.protocol";
/// As many bytes of a value in a row are a part of it that tells something; a shorter value is looked for as a whole.
const PART_BYTES: usize = 6;

/// What is wrong with the SASL mechanism among these librdkafka properties: the name of one of them, and what to change. Never
/// holds a value.
#[must_use]
pub fn sasl_problem(properties: &BTreeMap<String, String>) -> Option<(&'static str, String)> {
    let known = MECHANISMS.join(", ");
    let is_known =
        |name: &&str| properties.get(*name).is_none_or(|value| MECHANISMS.contains(&value.trim_start()));
    if let Some(name) = MECHANISM.into_iter().find(|name| !is_known(name)) {
        return Some((name, format!("is no mechanism, or not in capital letters: set it to one of {known}")));
    }
    let protocol = properties.get(PROTOCOL).map(|value| value.trim().to_ascii_lowercase());
    let with_sasl = protocol.is_some_and(|protocol| protocol.starts_with("sasl"));
    let is_missing = !MECHANISM.iter().any(|name| properties.contains_key(*name));
    (with_sasl && is_missing)
        .then(|| (PROTOCOL, format!("asks for SASL: set sasl.mechanism beside it, to one of {known}")))
}

impl KafkaConfig {
    /// Librdkafka looks at the mechanism only when it makes a client, and then repeats it in its error.
    pub(super) fn check_mechanism(&self) -> Result<(), LogError> {
        match sasl_problem(&self.properties) {
            Some((name, problem)) => Err(LogError::Config(format!("kafka property {name} {problem}"))),
            None => Ok(()),
        }
    }

    /// A client could not be made.
    pub(super) fn refused(&self, error: KafkaError) -> LogError {
        match error {
            KafkaError::ClientConfig(_, _, name, _) => LogError::Config(format!(
                "kafka property {name} is refused: its name is unknown or its value not allowed"
            )),
            other => LogError::Config(format!(
                "no kafka client can be made with these settings: {}",
                self.without_values(&other.to_string())
            )),
        }
    }

    /// The text with `…` for the values of properties; another text when it repeats parts of them.
    fn without_values(&self, text: &str) -> String {
        let harmless = |name: &str, value: &str| {
            value.is_empty() || name == PROTOCOL || MECHANISM.contains(&name) && MECHANISMS.contains(&value)
        };
        let values = || self.properties.iter().filter(|(name, value)| !harmless(name, value));
        let mut shown = text.to_owned();
        for (_, value) in values().filter(|(_, value)| value.len() >= PART_BYTES) {
            shown = shown.replace(value.as_str(), "…");
        }
        let repeated: Vec<&str> =
            values().filter(|(_, value)| repeats(&shown, value)).map(|(name, _)| name.as_str()).collect();
        if repeated.is_empty() {
            return shown;
        }
        format!(
            "what librdkafka says repeats parts of {} and is not shown; look at these first",
            repeated.join(", ")
        )
    }
}

/// Librdkafka cuts its texts, so that a part of a value may be all that is there.
fn repeats(text: &str, value: &str) -> bool {
    let part = value.len().min(PART_BYTES);
    value.as_bytes().windows(part).any(|it| text.as_bytes().windows(part).any(|there| there == it))
}

#[cfg(test)]
mod tests {
    use rdkafka::ClientConfig;
    use rdkafka::consumer::BaseConsumer;

    use super::*;

    fn config(properties: &[(&str, &str)]) -> KafkaConfig {
        let mut config = KafkaConfig::new("127.0.0.1:1");
        config.properties =
            properties.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        config
    }

    /// What making a client of them says.
    fn said(properties: &[(&str, &str)]) -> (String, String) {
        let config = config(properties);
        let client: ClientConfig = config.reader();
        let error = client.create::<BaseConsumer>().err().expect("no client can be made");
        (error.to_string(), config.refused(error).to_string())
    }

    #[test]
    fn a54_a_secret_in_place_of_the_mechanism_is_refused_and_not_repeated() {
        for name in MECHANISM {
            for protocol in ["plaintext", "sasl_plaintext", "SASL_SSL"] {
                let refused = config(&[(PROTOCOL, protocol), (name, "hunter2-hunter2")]).check();
                let text = refused.expect_err("refused").to_string();
                assert!(text.contains(name) && text.contains("PLAIN, SCRAM-SHA-256"), "{text}");
                assert!(!text.contains("hunter"), "{text}");
            }
        }
        // Librdkafka itself would.
        let (raw, shown) = said(&[
            (PROTOCOL, "sasl_plaintext"),
            ("sasl.mechanism", "SCRAM-SHA-hunter2"),
            ("sasl.username", "somebody"),
            ("sasl.password", "something"),
        ]);
        assert!(raw.contains("hunter2"), "{raw}");
        assert!(!shown.contains("hunter"), "{shown}");
    }

    #[test]
    fn mechanisms_of_this_build_are_taken_and_a_missing_one_is_asked_for() {
        for mechanism in MECHANISMS {
            config(&[(PROTOCOL, "sasl_ssl"), ("sasl.mechanism", mechanism)]).check().expect("allowed");
        }
        config(&[]).check().expect("no SASL");
        let text = config(&[(PROTOCOL, "Sasl_Plaintext")]).check().expect_err("refused").to_string();
        assert!(text.contains("set sasl.mechanism beside it"), "{text}");
        let text = config(&[("sasl.mechanism", "GSSAPI")]).check().expect_err("refused").to_string();
        assert!(text.contains("set it to one of PLAIN"), "{text}");
    }

    /// Librdkafka puts what it was given into its reasons.
    #[test]
    fn a54_no_value_of_a_property_is_repeated_when_no_client_can_be_made() {
        let (raw, shown) = said(&[
            (PROTOCOL, "ssl"),
            ("ssl.keystore.password", "something"),
            ("ssl.keystore.location", "/hunter2/hunter3"),
        ]);
        assert!(raw.contains("hunter2"), "{raw}");
        assert!(!shown.contains("hunter"), "{shown}");
        assert!(shown.contains("ssl.keystore.location: …"), "the reason stays: {shown}");
        // So much of it that the text is cut within.
        let long = format!("/{}", "hunter2/".repeat(200));
        let (raw, shown) = said(&[
            (PROTOCOL, "ssl"),
            ("ssl.keystore.password", "something"),
            ("ssl.keystore.location", &long),
        ]);
        assert!(raw.contains("hunter2"), "{raw}");
        assert!(!shown.contains("hunter") && shown.contains("parts of ssl.keystore.location"), "{shown}");
        for name in ["ssl.key.location", "ssl.certificate.location", "ssl.ca.location"] {
            let (_, shown) = said(&[(PROTOCOL, "ssl"), (name, "-----BEGIN hunter2-----")]);
            assert!(!shown.contains("hunter"), "{name}: {shown}");
        }
        for name in ["ssl.key.pem", "ssl.certificate.pem", "ssl.ca.pem"] {
            let (_, shown) = said(&[(PROTOCOL, "ssl"), (name, "-----BEGIN hunter2-----")]);
            assert!(!shown.contains("hunter"), "{name}: {shown}");
        }
    }

    #[test]
    fn what_repeats_a_part_of_a_value_is_left_out() {
        let config = config(&[("sasl.password", "hunter2-hunter3"), ("sasl.username", "bob")]);
        assert_eq!(config.without_values("it broke"), "it broke");
        assert_eq!(config.without_values("'hunter2-hunter3' broke"), "'…' broke");
        let cut = config.without_values("this is wrong: hunter2-hu");
        assert!(cut.contains("repeats parts of sasl.password") && !cut.contains("hunter"), "{cut}");
        assert!(!config.without_values("user bob is unknown").contains("bob"));
    }
}
