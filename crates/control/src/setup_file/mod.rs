//! The set-up file: one document that says which classes, tenants and what belongs to them shall be.
//!
//! Text → tree ([`parse_yaml`]) → format ([`SetupFile`], with its JSON Schema) → checked nouns ([`CheckedSetup`]). All
//! problems of a document are reported together, each with a path and a stable code; a document with one is refused whole.

mod check;
mod checked;
mod classes;
mod endpoints;
mod entries;
mod env;
mod integrations;
mod path;
mod problem;
mod read;
mod values;
mod yaml;

use serde_json::Value;

pub use checked::{
    CELLS_MAX, CheckedEndpoint, CheckedSetup, CheckedTenant, EVENT_TYPES_PER_SUBSCRIPTION_MAX, Existing,
    HEADERS_MAX, Known, NAME_MAX_CHARS, UrlCheck, UrlRefusal, VERSION,
};
pub use entries::{
    AppEntry, ClassEntry, EndpointEntry, EventTypeEntry, FilterEntry, FilterErrorEntry, IntegrationEntry,
    KeyEntry, SetupFile, SubscriptionEntry, TenantEntry, TextOrEnv, setup_schema,
};
pub use env::resolve_env;
pub(crate) use integrations::unknown_provider;
pub use path::{Path, Step};
pub use problem::{PROBLEMS_MAX, SetupProblem, code};
pub use values::{
    HEAD_MAX_AGE_MAX, HEAD_MAX_AGE_MIN, INBOUND_SECRET_MAX_CHARS, INBOUND_SECRET_MIN_CHARS, TIMEOUT_MAX,
    TIMEOUT_MIN, TOKEN_MAX_CHARS, TOKEN_MIN_CHARS,
};
pub(crate) use values::{filter as filter_source, filter_language};
pub use yaml::{line_of, parse_json, parse_yaml};

/// Reads and checks a document. `existing` may be referred to.
///
/// # Errors
/// Every problem of the document, at most [`PROBLEMS_MAX`], in the order of reading.
pub fn check_setup(
    document: Value,
    existing: &Existing,
    url: &UrlCheck,
) -> Result<CheckedSetup, Vec<SetupProblem>> {
    let mut problems = read::Problems::default();
    let checked =
        read::read(document, &mut problems).map(|file| check::check(&file, existing, url, &mut problems));
    let problems = problems.into_list();
    match checked {
        Some(checked) if problems.is_empty() => Ok(checked),
        _ => Err(problems),
    }
}

/// Problems that can be seen without knowing what exists and which URLs are allowed: for a reader that cannot ask.
/// References to endpoints and classes that the document does not hold are not judged.
#[must_use]
pub fn check_format(document: Value) -> Vec<SetupProblem> {
    let any_url = |url: &str| Ok(url.to_owned());
    let problems = check_setup(document, &Existing::default(), &any_url).err().unwrap_or_default();
    let known_elsewhere = [code::UNKNOWN_ENDPOINT, code::UNKNOWN_CLASS];
    problems.into_iter().filter(|problem| !known_elsewhere.contains(&problem.code.as_str())).collect()
}

#[cfg(test)]
mod tests;
