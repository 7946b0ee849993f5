//! The set-up file: one document that says which tenants, keys, event types, apps, endpoints and subscriptions shall be.
//!
//! Text → tree ([`parse_yaml`]) → format ([`SetupFile`], with its JSON Schema) → checked nouns ([`CheckedSetup`]). All
//! problems of a document are reported together, each with a path and a stable code; a document with one is refused whole.

mod check;
mod checked;
mod entries;
mod env;
mod path;
mod problem;
mod read;
mod values;
mod yaml;

use std::collections::HashMap;

use mailrail_types::TenantId;
use serde_json::Value;

pub use checked::{
    CheckedEndpoint, CheckedSetup, CheckedTenant, EVENT_TYPES_PER_SUBSCRIPTION_MAX, HEADERS_MAX, Known,
    NAME_MAX_CHARS, UrlCheck, UrlRefusal, VERSION,
};
pub use entries::{
    AppEntry, EndpointEntry, EventTypeEntry, FilterEntry, KeyEntry, SetupFile, SubscriptionEntry,
    TenantEntry, TextOrEnv, setup_schema,
};
pub use env::resolve_env;
pub use path::{Path, Step};
pub use problem::{PROBLEMS_MAX, SetupProblem, code};
pub use values::{TIMEOUT_MAX, TIMEOUT_MIN, TOKEN_MAX_CHARS, TOKEN_MIN_CHARS};
pub use yaml::{line_of, parse_json, parse_yaml};

/// Reads and checks a document. `known` is what exists already and may be referred to.
///
/// # Errors
/// Every problem of the document, at most [`PROBLEMS_MAX`], in the order of reading.
pub fn check_setup(
    document: Value,
    known: &HashMap<TenantId, Known>,
    url: &UrlCheck,
) -> Result<CheckedSetup, Vec<SetupProblem>> {
    let mut problems = read::Problems::default();
    let checked =
        read::read(document, &mut problems).map(|file| check::check(&file, known, url, &mut problems));
    let problems = problems.into_list();
    match checked {
        Some(checked) if problems.is_empty() => Ok(checked),
        _ => Err(problems),
    }
}

/// Problems that can be seen without knowing what exists and which URLs are allowed: for a reader that cannot ask.
/// References to endpoints that the document does not hold are not judged.
#[must_use]
pub fn check_format(document: Value) -> Vec<SetupProblem> {
    let any_url = |url: &str| Ok(url.to_owned());
    let problems = check_setup(document, &HashMap::new(), &any_url).err().unwrap_or_default();
    problems.into_iter().filter(|problem| problem.code != code::UNKNOWN_ENDPOINT).collect()
}

#[cfg(test)]
mod tests;
