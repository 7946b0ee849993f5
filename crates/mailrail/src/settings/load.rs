//! Reading: defaults, then the file, then the environment; each value remembers where it came from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::schema::{ENV_PREFIX, Field, Kind, env_name, nearest, sections};
use super::{Origins, Place, Problem, SecretText, Settings, SettingsError};

/// Holds the key that secrets are encrypted with.
pub(super) const ENCRYPTION_KEY_ENV: &str = "MAILRAIL_ENCRYPTION_KEY";
/// Holds the administrator's token.
pub(super) const ADMIN_TOKEN_ENV: &str = "MAILRAIL_ADMIN_TOKEN";
/// A secret file larger than this is not one.
const SECRET_FILE_MAX_BYTES: u64 = 64 * 1024;

/// The process's environment, as [`Settings::load`] takes it. A value that is not UTF-8 is kept with replacement
/// characters, so that the key's own check refuses it.
pub(crate) fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        .collect()
}

impl Settings {
    /// Reads `path`, when given, and the environment over the defaults.
    ///
    /// # Errors
    /// Every problem found: unreadable file, unknown key or variable, value of the wrong type, unreadable secret file.
    pub(crate) fn load(
        path: Option<&Path>,
        env: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, SettingsError> {
        Self::default().overlaid(path, env)
    }

    /// Reads `path` and the environment over `self`, which stands for the defaults.
    ///
    /// # Errors
    /// As [`Settings::load`].
    pub(crate) fn overlaid(
        self,
        path: Option<&Path>,
        env: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, SettingsError> {
        let mut loading = Loading::over(&self);
        if let Some(path) = path {
            loading.file(path);
        }
        let env: BTreeMap<String, String> = env.into_iter().collect();
        for (name, value) in env.iter().filter(|(name, _)| name.starts_with(ENV_PREFIX)) {
            loading.variable(name, value);
        }
        let mut settings = match Settings::deserialize(loading.table.clone()) {
            Ok(settings) => settings,
            Err(error) => {
                // Every value was checked by itself before it went in: only a bug gets here without a problem.
                loading.report(Place::Default, error.message().to_owned());
                Settings::default()
            }
        };
        settings.store.encryption_key = loading.secret(
            &env,
            ENCRYPTION_KEY_ENV,
            "store.encryption_key_file",
            settings.store.encryption_key_file.as_ref(),
        );
        settings.control.token =
            loading.secret(&env, ADMIN_TOKEN_ENV, "control.token_file", settings.control.token_file.as_ref());
        settings.origins = loading.origins;
        loading.problems.sort();
        SettingsError::from_problems(loading.problems)?;
        Ok(settings)
    }
}

struct Loading {
    fields: BTreeMap<String, Field>,
    table: Table,
    origins: Origins,
    problems: Vec<Problem>,
}

/// A parsed file: values, and where each key stands.
struct File<'a> {
    path: &'a Path,
    text: &'a str,
}

impl File<'_> {
    fn place(&self, byte: usize) -> Place {
        let before = &self.text.as_bytes()[..byte.min(self.text.len())];
        Place::Line(self.path.to_owned(), before.iter().filter(|b| **b == b'\n').count() + 1)
    }
}

impl Loading {
    fn over(base: &Settings) -> Self {
        let fields = sections().into_iter().flat_map(|s| s.fields).map(|f| (f.key.clone(), f)).collect();
        // Settings are made of tables, texts and numbers: there is nothing that TOML cannot hold.
        let table = Table::try_from(base).unwrap_or_default();
        Self { fields, table, origins: Origins::new(), problems: Vec::new() }
    }

    fn report(&mut self, place: Place, message: String) {
        self.problems.push(Problem { place, message });
    }

    fn file(&mut self, path: &Path) {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                return self.report(Place::File(path.to_owned()), format!("cannot read the file: {error}"));
            }
        };
        let file = File { path, text: &text };
        match (DeTable::parse(&text), text.parse::<Table>()) {
            (Ok(spans), Ok(values)) => self.walk(&file, "", spans.get_ref(), &values),
            (Err(error), _) | (_, Err(error)) => {
                let place =
                    error.span().map_or_else(|| Place::File(path.to_owned()), |span| file.place(span.start));
                self.report(place, error.message().to_owned());
            }
        }
    }

    fn walk(&mut self, file: &File<'_>, at: &str, spans: &DeTable<'_>, values: &Table) {
        for (name, span) in spans {
            let Some(value) = values.get(name.get_ref().as_ref()) else { continue };
            let key =
                if at.is_empty() { name.get_ref().to_string() } else { format!("{at}.{}", name.get_ref()) };
            let place = file.place(name.span().start);
            if let Some(field) = self.fields.get(&key).cloned() {
                if let (Kind::Map, DeValue::Table(entries)) = (&field.kind, span.get_ref()) {
                    self.note_entries(file, &key, entries);
                }
                self.set(&field, value.clone(), place);
            } else if !self.is_section(&key) {
                self.unknown_key(&key, place);
            } else if let (DeValue::Table(inner), Value::Table(values)) = (span.get_ref(), value) {
                self.walk(file, &key, inner, values);
            } else {
                self.report(place, format!("'{key}' is a section: write [{key}] and its keys below it"));
            }
        }
    }

    fn note_entries(&mut self, file: &File<'_>, key: &str, entries: &DeTable<'_>) {
        for name in entries.keys() {
            let entry: &Spanned<_> = name;
            self.origins.insert(format!("{key}.{}", entry.get_ref()), file.place(entry.span().start));
        }
    }

    fn is_section(&self, key: &str) -> bool {
        let inside = format!("{key}.");
        self.fields.keys().any(|k| k.starts_with(&inside))
    }

    fn unknown_key(&mut self, key: &str, place: Place) {
        let hint = self.closest(key).map_or_else(
            || "see docs/reference/settings.md for the keys there are".to_owned(),
            |known| format!("did you mean '{known}'?"),
        );
        self.report(place, format!("unknown key '{key}': {hint}"));
    }

    /// The nearest known name among keys and sections; else a key with the same last part, which is in another section.
    fn closest(&self, key: &str) -> Option<String> {
        let mut known: Vec<&str> = self.fields.keys().map(String::as_str).collect();
        let sections: Vec<&str> =
            known.iter().filter_map(|k| k.rsplit_once('.').map(|(section, _)| section)).collect();
        known.extend(sections);
        let word = key.rsplit('.').next();
        let moved = || known.iter().copied().find(|k| k.rsplit('.').next() == word);
        nearest(key, known.iter().copied()).or_else(moved).map(str::to_owned)
    }

    /// Puts a value in after checking it by itself, so that every wrong value is reported and not only the first.
    fn set(&mut self, field: &Field, value: Value, place: Place) {
        if let (Kind::Map, Value::Table(entries)) = (&field.kind, &value) {
            // Said without the value: it may be a password.
            if let Some((name, _)) = entries.iter().find(|(_, v)| !v.is_str()) {
                let place = self.origins.get(&format!("{}.{name}", field.key)).cloned().unwrap_or(place);
                return self.report(place, format!("{}.{name} must be a text: put it in quotes", field.key));
            }
        }
        let mut alone = Table::new();
        insert(&mut alone, &field.key, value.clone());
        if let Err(error) = Settings::deserialize(alone) {
            let message = without_text(error.message());
            return self.report(place, format!("{}: {message}{}", field.key, field.how_to_write()));
        }
        insert(&mut self.table, &field.key, value);
        self.origins.insert(field.key.clone(), place);
    }

    fn variable(&mut self, name: &str, text: &str) {
        let place = Place::Env(name.to_owned());
        let key = name[ENV_PREFIX.len()..].replace("__", ".").to_ascii_lowercase();
        if let Some(field) = self.fields.get(&key).cloned() {
            match from_text(&field.kind, text) {
                Ok(value) => self.set(&field, value, place),
                Err(expected) => self.report(place, format!("'{text}' is not {expected}")),
            }
            return;
        }
        if let Some((map, entry)) = key.rsplit_once('.')
            && self.fields.get(map).is_some_and(|f| f.kind == Kind::Map)
        {
            let entry = entry.replace('_', ".");
            self.origins.insert(format!("{map}.{entry}"), place);
            return insert_entry(&mut self.table, map, entry, Value::String(text.to_owned()));
        }
        let hint = nearest(&key, self.fields.keys().map(String::as_str)).map_or_else(
            || "see docs/reference/settings.md for the names there are".to_owned(),
            |known| format!("did you mean {}?", env_name(known)),
        );
        self.report(place, format!("unknown setting: {hint}"));
    }

    /// A secret from its variable, else from the file that `key` names.
    fn secret(
        &mut self,
        env: &BTreeMap<String, String>,
        variable: &str,
        key: &str,
        file: Option<&PathBuf>,
    ) -> Option<SecretText> {
        if let Some(value) = env.get(variable) {
            self.origins.insert(key.to_owned(), Place::Env(variable.to_owned()));
            return Some(SecretText::new(value.trim().to_owned()));
        }
        let path = file?;
        match read_secret(path) {
            Ok(secret) => Some(secret),
            Err(error) => {
                let place = self.origins.get(key).cloned().unwrap_or(Place::Default);
                self.report(place, format!("{key}: cannot read {}: {error}", path.display()));
                None
            }
        }
    }
}

/// What serde says of a value of the wrong type, without the value where it is a text: a URL may hold a password.
fn without_text(message: &str) -> String {
    let expected =
        message.strip_prefix("invalid type: string ").and_then(|rest| rest.rsplit_once(", expected "));
    match expected {
        Some((_, expected)) => format!("invalid type: a text, expected {expected}"),
        None => message.to_owned(),
    }
}

fn read_secret(path: &Path) -> std::io::Result<SecretText> {
    if std::fs::metadata(path)?.len() > SECRET_FILE_MAX_BYTES {
        return Err(std::io::Error::other("it is too large to be a secret"));
    }
    std::fs::read_to_string(path).map(|text| SecretText::new(text.trim().to_owned()))
}

/// The value that a variable's text means for its key.
fn from_text(kind: &Kind, text: &str) -> Result<Value, &'static str> {
    let word = || Value::String(text.to_owned());
    Ok(match kind {
        Kind::Text | Kind::Duration | Kind::Choice(_) => word(),
        Kind::Size => text.parse().map_or_else(|_| word(), Value::Integer),
        Kind::Integer => Value::Integer(text.parse().map_err(|_| "a whole number")?),
        Kind::Number => Value::Float(text.parse().map_err(|_| "a number")?),
        Kind::Boolean => Value::Boolean(text.parse().map_err(|_| "'true' or 'false'")?),
        Kind::List => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Value::Array(items.map(|item| Value::String(item.to_owned())).collect())
        }
        Kind::Map => return Err("possible here: set one entry with a variable of its own, NAME__ENTRY"),
    })
}

/// Sets a dotted key, making the tables on the way.
fn insert(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
        }
        Some((section, rest)) => {
            let inner = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

/// Adds one entry to the table at a dotted key. The entry's own dots are part of its name.
fn insert_entry(table: &mut Table, key: &str, entry: String, value: Value) {
    let mut at = table;
    for part in key.split('.') {
        let inner = at.entry(part).or_insert_with(|| Value::Table(Table::new()));
        let Value::Table(inner) = inner else { return };
        at = inner;
    }
    at.insert(entry, value);
}
