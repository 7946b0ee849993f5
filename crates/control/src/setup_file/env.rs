//! `{env: NAME}` → the value of the variable, where the file is.

use serde_json::Value;

use super::path::Path;
use super::problem::{SetupProblem, code};

/// Longest name of a variable that a message repeats.
const NAME_SHOWN_MAX: usize = 64;

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
                let name = shown_name(name);
                let detail = format!("environment variable {name} is not set; set it, or write another name");
                problems.push(SetupProblem::new(code::ENV, &path, detail));
            }
        }
    }
    problems
}

/// The name of a variable for a message. What does not look like one may be the secret itself, put where its name belongs.
pub(super) fn shown_name(name: &str) -> String {
    let is_usual = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    if name.len() <= NAME_SHOWN_MAX && name.chars().all(is_usual) {
        return format!("'{name}'");
    }
    "(not shown: it may be a secret)".to_owned()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a54_what_is_no_usual_name_of_a_variable_is_not_repeated() {
        let mut document = json!({ "tenants": [
            { "keys": [{ "token": { "env": "ACME_TOKEN" } }, { "token": { "env": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" } }] }
        ] });
        let problems = resolve_env(&mut document, &|_| None);
        let details: Vec<&str> = problems.iter().map(|problem| problem.detail.as_str()).collect();
        assert!(details[0].contains("'ACME_TOKEN'"), "{details:?}");
        assert!(!details[1].contains("MfKQ9r8G") && details[1].contains("not shown"), "{details:?}");
    }
}
