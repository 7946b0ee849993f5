//! Endpoints of a document: where requests go, with which secret, headers and limits.

use std::collections::{BTreeMap, BTreeSet};

use mailrail_types::{
    AppId, ClassId, Endpoint, EndpointId, HeaderError, IN_FLIGHT_MAX, MailboxClass, RATE_PER_SECOND_MAX,
    check_header,
};

use super::check::Scope;
use super::checked::{CheckedEndpoint, HEADERS_MAX};
use super::entries::{EndpointEntry, TextOrEnv};
use super::path::Path;
use super::problem::code;
use super::values;

impl Scope<'_> {
    pub(super) fn endpoint(
        &mut self,
        app: &AppId,
        entry: &EndpointEntry,
        path: &Path,
    ) -> Option<CheckedEndpoint> {
        let id: Option<EndpointId> = self.apps.endpoints.take(&entry.id, path, self.problems);
        if let Some(owner) =
            id.as_ref().and_then(|id| self.known.endpoints.get(id)).filter(|owner| *owner != app)
        {
            self.other_app("endpoint", owner, path);
        }
        let url = (self.url)(&entry.url).unwrap_or_else(|refusal| {
            self.problems.add(refusal.code, &path.key("url"), refusal.detail);
            String::new()
        });
        let secret = entry.secret.as_ref().and_then(|value| {
            let path = path.key("secret");
            let text = self.text(value, &path)?;
            values::secret(text).map_err(|detail| self.problems.add(code::INVALID_SECRET, &path, detail)).ok()
        });
        let timeout = entry.timeout.as_deref().and_then(|text| {
            let refused = |detail| self.problems.add(code::INVALID_TIMEOUT, &path.key("timeout"), detail);
            values::timeout(text).map_err(refused).ok()
        });
        let head_max_age = entry.head_max_age.as_deref().and_then(|text| {
            let path = path.key("head_max_age");
            let refused = |detail| self.problems.add(code::INVALID_HEAD_MAX_AGE, &path, detail);
            values::head_max_age(text).map_err(refused).ok()
        });
        let (max_in_flight, rate_per_second) = self.limits(entry, path);
        let headers = self.headers(&entry.headers, path);
        let class = self.class(entry.class.as_deref(), &path.key("class"));
        let endpoint = Endpoint {
            id: id?,
            app: app.clone(),
            url,
            secrets: Vec::new(),
            headers,
            class: class.unwrap_or_else(|| ClassId::of(MailboxClass::TOLERANT)),
            timeout,
            head_max_age,
            max_in_flight,
            rate_per_second,
            paused: false,
        };
        Some(CheckedEndpoint { endpoint, secret })
    }

    /// How many attempts it takes at the same time, and how many per second.
    fn limits(&mut self, entry: &EndpointEntry, path: &Path) -> (Option<u32>, Option<u32>) {
        let mut limit = |name: &str, value: Option<u32>, max, code| {
            let refused = |detail| self.problems.add(code, &path.key(name), detail);
            value.and_then(|value| values::limit(name, value, max).map_err(refused).ok())
        };
        let in_flight =
            limit("max_in_flight", entry.max_in_flight, IN_FLIGHT_MAX, code::INVALID_MAX_IN_FLIGHT);
        let code = code::INVALID_RATE_PER_SECOND;
        (in_flight, limit("rate_per_second", entry.rate_per_second, RATE_PER_SECOND_MAX, code))
    }

    fn headers(&mut self, entries: &BTreeMap<String, TextOrEnv>, path: &Path) -> Vec<(String, String)> {
        let path = path.key("headers");
        if entries.len() > HEADERS_MAX {
            self.problems.add(code::TOO_MANY, &path, format!("use at most {HEADERS_MAX} headers"));
        }
        let mut headers = Vec::new();
        let mut seen = BTreeSet::new();
        for (name, value) in entries {
            let path = path.key(name);
            let Some(value) = self.text(value, &path) else { continue };
            if let Err(error) = check_header(name, &value) {
                let code = match error {
                    HeaderError::Reserved(_) => code::HEADER_NOT_ALLOWED,
                    _ => code::INVALID_HEADER,
                };
                self.problems.add(code, &path, error.to_string());
            } else if !seen.insert(name.to_ascii_lowercase()) {
                let detail = format!("header '{name}' stands here twice in other capitals; remove one");
                self.problems.add(code::INVALID_HEADER, &path, detail);
            }
            headers.push((name.clone(), value));
        }
        headers
    }
}
