//! `{env: NAME}` → the value of the variable, where the file is.

use serde_json::Value;

use super::path::Path;
use super::problem::{SetupProblem, code};

/// Puts the values of variables into the places that take a text or `{env: NAME}`: tokens, secrets and header values.
/// Returns a problem for each variable that `lookup` does not know; its place stays as it is.
pub fn resolve_env(document: &mut Value, lookup: &dyn Fn(&str) -> Option<String>) -> Vec<SetupProblem> {
    let mut problems = Vec::new();
    for path in places(document) {
        let Some(value) = path.get_mut(document) else { continue };
        let Some(name) = value.get("env").and_then(Value::as_str) else { continue };
        match lookup(name) {
            Some(text) => *value = Value::String(text),
            None => {
                let detail =
                    format!("environment variable '{name}' is not set; set it, or write another name");
                problems.push(SetupProblem::new(code::ENV, &path, detail));
            }
        }
    }
    problems
}

/// Where a document may hold `{env: NAME}`, whatever else is wrong with it.
fn places(document: &Value) -> Vec<Path> {
    let mut places = Vec::new();
    for (tenant, path) in list(document, "tenants", &Path::root()) {
        places.extend(list(tenant, "keys", &path).map(|(_, path)| path.key("token")));
        places.extend(list(tenant, "integrations", &path).map(|(_, path)| path.key("secret")));
        for (app, path) in list(tenant, "apps", &path) {
            for (endpoint, path) in list(app, "endpoints", &path) {
                places.push(path.key("secret"));
                let headers = endpoint.get("headers").and_then(Value::as_object);
                let names = headers.into_iter().flat_map(|headers| headers.keys());
                places.extend(names.map(|name| path.key("headers").key(name)));
            }
        }
    }
    places
}

fn list<'v>(value: &'v Value, key: &str, path: &Path) -> impl Iterator<Item = (&'v Value, Path)> {
    let path = path.key(key);
    let items = value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    items.iter().enumerate().map(move |(at, item)| (item, path.index(at)))
}
