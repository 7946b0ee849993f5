//! Single values of a set-up document: what is right, or what to change. No text here quotes a secret.

use std::time::Duration;

use mailrail_filter::{Filter, FilterError};
use mailrail_sign::SigningKey;
use mailrail_store::{EVENT_TYPE_NAME_MAX, TOKEN_MIN_CHARS as STORE_TOKEN_MIN};
use mailrail_types::{FilterLanguage, FilterSource, Secret};
use serde_json::Value;

use super::entries::FilterEntry;

/// Fewest characters of a token: less could be guessed.
pub const TOKEN_MIN_CHARS: usize = STORE_TOKEN_MIN;
/// Most characters of a token: an `Authorization` header stays far below every proxy's limit.
pub const TOKEN_MAX_CHARS: usize = 512;
/// Fewest characters of a third party's secret: less is a mistake. It is theirs, so it cannot be asked to be long.
pub const INBOUND_SECRET_MIN_CHARS: usize = 8;
/// Most characters of a third party's secret: more is another text.
pub const INBOUND_SECRET_MAX_CHARS: usize = 512;
/// Shortest timeout of an endpoint: less fails on the network alone.
pub const TIMEOUT_MIN: Duration = Duration::from_millis(100);
/// Longest timeout of an endpoint: an attempt holds a permit all that time.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(120);
/// Shortest `head_max_age`: less would give up before a first retry.
pub const HEAD_MAX_AGE_MIN: Duration = Duration::from_mins(1);
/// Longest `head_max_age`: longer than any retry schedule lasts.
pub const HEAD_MAX_AGE_MAX: Duration = Duration::from_hours(30 * 24);

pub(super) fn event_type(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > EVENT_TYPE_NAME_MAX || name.chars().any(char::is_control) {
        return Err(format!("an event type has 1 to {EVENT_TYPE_NAME_MAX} bytes and no control characters"));
    }
    Ok(())
}

pub(super) fn token(text: &str) -> Result<(), String> {
    let visible = text.bytes().all(|b| b.is_ascii_graphic());
    if !visible || !(TOKEN_MIN_CHARS..=TOKEN_MAX_CHARS).contains(&text.len()) {
        return Err(format!(
            "a token has {TOKEN_MIN_CHARS} to {TOKEN_MAX_CHARS} visible ASCII characters; leave it out to have one generated"
        ));
    }
    Ok(())
}

pub(super) fn secret(text: String) -> Result<Secret, String> {
    let secret = Secret::new(text);
    match SigningKey::parse(&secret) {
        Ok(_) => Ok(secret),
        Err(error) => Err(format!("{error}; leave it out to have one generated")),
    }
}

/// A secret that a third party signs with: any text of theirs.
pub(super) fn inbound_secret(text: String) -> Result<Secret, String> {
    let long = (INBOUND_SECRET_MIN_CHARS..=INBOUND_SECRET_MAX_CHARS).contains(&text.chars().count());
    if !long || text.chars().any(char::is_control) {
        return Err(format!(
            "a third party's secret has {INBOUND_SECRET_MIN_CHARS} to {INBOUND_SECRET_MAX_CHARS} characters and no control characters"
        ));
    }
    Ok(Secret::new(text))
}

/// `500ms`, `15s`, `1m`.
pub(super) fn timeout(text: &str) -> Result<Duration, String> {
    let usual = "100ms to 120s, as '500ms', '15s' or '1m'";
    duration(text)
        .filter(|timeout| (TIMEOUT_MIN..=TIMEOUT_MAX).contains(timeout))
        .ok_or_else(|| format!("'{}' is not a timeout; write {usual}", shortened(text)))
}

/// `30m`, `12h`, `3d`.
pub(super) fn head_max_age(text: &str) -> Result<Duration, String> {
    let usual = "1m to 30d, as '30m', '12h' or '3d'";
    duration(text)
        .filter(|age| (HEAD_MAX_AGE_MIN..=HEAD_MAX_AGE_MAX).contains(age))
        .ok_or_else(|| format!("'{}' is not a head_max_age; write {usual}", shortened(text)))
}

/// A limit of an endpoint. To send nothing is a pause, so that 0 is none.
pub(super) fn limit(name: &str, value: u32, max: u32) -> Result<u32, String> {
    if (1..=max).contains(&value) {
        return Ok(value);
    }
    Err(format!(
        "{name} is {value}: use 1 to {max}, or leave it out for no limit; to send nothing, pause the endpoint"
    ))
}

/// A whole number of one unit.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let millis_each = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(millis_each).map(Duration::from_millis)
}

fn shortened(text: &str) -> String {
    text.chars().take(32).collect()
}

/// The filter in its stored form.
pub(crate) fn filter(entry: &FilterEntry) -> Result<FilterSource, FilterError> {
    // Keys are sorted by `Map`, so that the same filter in another order is the same text and counts as unchanged.
    let text = match entry {
        FilterEntry::Pattern(pattern) | FilterEntry::EventBridge(pattern) => {
            Value::Object(pattern.clone()).to_string()
        }
        FilterEntry::Cesql(expression) => expression.clone(),
        FilterEntry::CloudEvents(filters) => Value::Array(filters.clone()).to_string(),
    };
    let source = FilterSource { language: filter_language(entry), text };
    Filter::compile(&source).map(|_| source)
}

/// The language of a filter; its name is the key under which the filter stands.
pub(crate) const fn filter_language(entry: &FilterEntry) -> FilterLanguage {
    match entry {
        FilterEntry::Pattern(_) => FilterLanguage::Pattern,
        FilterEntry::EventBridge(_) => FilterLanguage::EventBridge,
        FilterEntry::Cesql(_) => FilterLanguage::Cesql,
        FilterEntry::CloudEvents(_) => FilterLanguage::CloudEvents,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_and_bounded() {
        assert_eq!(timeout("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(timeout("15s"), Ok(Duration::from_secs(15)));
        assert_eq!(timeout("2m"), Ok(Duration::from_secs(120)));
        for bad in [
            "",
            "s",
            "15",
            "15 s",
            "-1s",
            "1.5s",
            "99ms",
            "121s",
            "3m",
            "1h",
            "99999999999999999999s",
            "18446744073709551615m",
        ] {
            assert!(timeout(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ages_of_heads_are_read_and_bounded() {
        assert_eq!(head_max_age("1m"), Ok(HEAD_MAX_AGE_MIN));
        assert_eq!(head_max_age("60000ms"), Ok(HEAD_MAX_AGE_MIN));
        assert_eq!(head_max_age("12h"), Ok(Duration::from_secs(43_200)));
        assert_eq!(head_max_age("30d"), Ok(HEAD_MAX_AGE_MAX));
        assert_eq!(head_max_age("720h"), Ok(HEAD_MAX_AGE_MAX));
        for bad in
            ["", "d", "0d", "59s", "59999ms", "31d", "721h", "1w", "1h30m", "-1h", "18446744073709551615d"]
        {
            let refused = head_max_age(bad).expect_err(bad);
            assert!(refused.contains(&format!("'{bad}'")) && refused.contains("1m to 30d"), "{refused}");
        }
    }

    #[test]
    fn tokens_are_bounded() {
        assert!(token(&"x".repeat(31)).is_err());
        assert!(token(&"x".repeat(32)).is_ok());
        assert!(token(&"x".repeat(513)).is_err());
        assert!(token(&format!("{} ", "x".repeat(32))).is_err());
        assert!(token(&"é".repeat(32)).is_err());
    }

    #[test]
    fn the_same_filter_in_another_order_is_the_same_text() {
        let of = |text: &str| filter(&serde_json::from_str(text).expect("JSON")).expect("a filter").text;
        for language in ["pattern", "eventbridge"] {
            let of = |text: &str| of(&format!(r#"{{"{language}":{text}}}"#));
            assert_eq!(of(r#"{"b":[1],"a":[{"prefix":"x"}]}"#), of(r#"{"a": [{"prefix": "x"}], "b": [1]}"#));
        }
    }

    #[test]
    fn a_filter_is_stored_in_the_language_that_it_stands_under() {
        let stored = |text: &str| {
            let source = filter(&serde_json::from_str(text).expect("JSON"))?;
            Ok::<_, FilterError>((source.language.name(), source.text))
        };
        let all = [
            (r#"{"pattern":{"a":[1]}}"#, "pattern", r#"{"a":[1]}"#),
            (r#"{"eventbridge":{"a":[1]}}"#, "eventbridge", r#"{"a":[1]}"#),
            (r#"{"cesql":"data.a = 1"}"#, "cesql", "data.a = 1"),
            (
                r#"{"cloudevents":[{"exact":{"subject":"x"}}]}"#,
                "cloudevents",
                r#"[{"exact":{"subject":"x"}}]"#,
            ),
        ];
        for (entry, language, text) in all {
            assert_eq!(stored(entry).expect(entry), (language, text.to_owned()));
        }
        assert_eq!(stored(r#"{"cesql":"data.a ="}"#).map_err(|error| error.code), Err("filter_syntax"));
    }
}
