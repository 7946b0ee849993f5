//! The list of keys, read off the JSON Schema of [`Settings`]: the reference, the names of environment variables and
//! the spelling help all come from it.

use serde_json::Value;

use super::Settings;

/// Start of every environment variable that overrides a key.
pub(super) const ENV_PREFIX: &str = "MAILRAIL__";

/// What a value looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Integer,
    Number,
    Boolean,
    Duration,
    Size,
    /// One of these words.
    Choice(Vec<String>),
    /// Texts or durations.
    List,
    /// Names of the user's choice to texts.
    Map,
}

impl Kind {
    /// The word of the reference.
    pub(super) fn name(&self) -> String {
        match self {
            Kind::Text => "text".to_owned(),
            Kind::Integer => "integer".to_owned(),
            Kind::Number => "number".to_owned(),
            Kind::Boolean => "boolean".to_owned(),
            Kind::Duration => "duration".to_owned(),
            Kind::Size => "size".to_owned(),
            Kind::Choice(words) => words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(" or "),
            Kind::List => "list".to_owned(),
            Kind::Map => "table of texts".to_owned(),
        }
    }
}

/// One key that can be set.
#[derive(Debug, Clone)]
pub(super) struct Field {
    /// Dotted: `log.kafka.brokers`.
    pub(super) key: String,
    pub(super) kind: Kind,
    /// As JSON; `None`: unset.
    pub(super) default: Option<Value>,
    pub(super) doc: String,
    pub(super) example: Option<String>,
}

impl Field {
    /// Name of the environment variable that overrides the key.
    pub(super) fn env(&self) -> String {
        env_name(&self.key)
    }

    /// How to write a value, for an error; starts with `; `, or is empty when the error says it already.
    pub(super) fn how_to_write(&self) -> String {
        match (&self.example, &self.kind) {
            (Some(example), _) => format!("; write it as in \"{example}\""),
            (None, Kind::Integer) => "; write a whole number that is not negative".to_owned(),
            (None, Kind::Number) => "; write a number, as in 0.01".to_owned(),
            (None, Kind::Boolean) => "; write true or false".to_owned(),
            (None, Kind::Text) => "; write a text in quotes".to_owned(),
            (None, _) => String::new(),
        }
    }
}

/// A table of keys.
#[derive(Debug, Clone)]
pub(super) struct Section {
    /// Dotted; empty for the top of the file.
    pub(super) key: String,
    pub(super) doc: String,
    pub(super) fields: Vec<Field>,
}

/// Name of the environment variable that overrides `key`.
pub(super) fn env_name(key: &str) -> String {
    format!("{ENV_PREFIX}{}", key.replace('.', "__").to_ascii_uppercase())
}

/// Every section, the top of the file first, then by name.
pub(super) fn sections() -> Vec<Section> {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<Settings>();
    let mut found = Vec::new();
    collect("", schema.as_value(), &mut found);
    found
}

/// The dotted key that `key` was most probably meant to be, if one is close: section and last part must each resemble
/// it, so that a shared section alone is no reason to suggest a key.
pub(super) fn nearest<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const SIMILAR_ENOUGH: f64 = 0.6;
    let split = |key: &'a str| key.rsplit_once('.').unwrap_or(("", key));
    let (section, word) = key.rsplit_once('.').unwrap_or(("", key));
    let alike = |a: &str, b: &str| strsim::normalized_damerau_levenshtein(a, b);
    known
        .map(|k| (alike(section, split(k).0).min(alike(word, split(k).1)), k))
        .filter(|(similarity, _)| *similarity >= SIMILAR_ENOUGH)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k)
}

fn collect(key: &str, node: &Value, found: &mut Vec<Section>) {
    let at = found.len();
    found.push(Section { key: key.to_owned(), doc: doc(node), fields: Vec::new() });
    let Some(properties) = node.get("properties").and_then(Value::as_object) else { return };
    for (name, child) in properties {
        let path = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
        if child.get("properties").is_some() {
            collect(&path, child, found);
        } else {
            found[at].fields.push(field(path, child));
        }
    }
}

fn field(key: String, node: &Value) -> Field {
    let example = node.get("examples").and_then(|e| e.get(0)).and_then(Value::as_str).map(str::to_owned);
    let default = node.get("default").filter(|d| !d.is_null()).cloned();
    Field { key, kind: kind(node), default, doc: doc(node), example }
}

fn doc(node: &Value) -> String {
    node.get("description")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

fn kind(node: &Value) -> Kind {
    match node.get("format").and_then(Value::as_str) {
        Some(super::units::DURATION_FORMAT) => return Kind::Duration,
        Some(super::units::SIZE_FORMAT) => return Kind::Size,
        _ => {}
    }
    if let Some(words) = words(node) {
        return Kind::Choice(words);
    }
    let named = |name: &str| match node.get("type") {
        Some(Value::String(t)) => t == name,
        Some(Value::Array(types)) => types.iter().any(|t| t == name),
        _ => false,
    };
    if named("integer") {
        Kind::Integer
    } else if named("number") {
        Kind::Number
    } else if named("boolean") {
        Kind::Boolean
    } else if named("array") {
        Kind::List
    } else if named("object") {
        Kind::Map
    } else {
        Kind::Text
    }
}

/// The words of an enumeration: schemars writes `enum`, or `oneOf` with a `const` each when the variants have docs.
fn words(node: &Value) -> Option<Vec<String>> {
    let text = |v: &Value| v.as_str().map(str::to_owned);
    if let Some(list) = node.get("enum").and_then(Value::as_array) {
        return list.iter().map(text).collect();
    }
    let list = node.get("oneOf").and_then(Value::as_array)?;
    list.iter().map(|v| v.get("const").and_then(text)).collect()
}
