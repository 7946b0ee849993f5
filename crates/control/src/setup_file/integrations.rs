//! Integrations of a document: whose webhooks, with which secret, forwarded to which endpoints.

use std::collections::BTreeSet;

use mailrail_types::{EndpointId, Integration, IntegrationId, Provider};

use super::check::{Ids, Scope};
use super::checked::CELLS_MAX;
use super::entries::{IntegrationEntry, TenantEntry};
use super::path::Path;
use super::problem::code;
use super::values;

impl Scope<'_> {
    pub(super) fn integrations(&mut self, entry: &TenantEntry, path: &Path) -> Vec<Integration> {
        // Their ids count as known even if the rest is wrong: one mistake, one problem.
        let listed: BTreeSet<_> =
            entry.apps.iter().flat_map(|app| &app.endpoints).map(|endpoint| endpoint.id.as_str()).collect();
        let mut ids = Ids::new("integration");
        let mut integrations = Vec::new();
        for (at, entry) in entry.integrations.iter().enumerate() {
            let path = path.key("integrations").index(at);
            let id = ids.take::<IntegrationId>(&entry.id, &path, self.problems);
            integrations.extend(self.integration(id, entry, &listed, &path));
        }
        integrations
    }

    fn integration(
        &mut self,
        id: Option<IntegrationId>,
        entry: &IntegrationEntry,
        listed: &BTreeSet<&str>,
        path: &Path,
    ) -> Option<Integration> {
        let provider = Provider::from_name(&entry.provider);
        if provider.is_none() {
            let detail = unknown_provider(&entry.provider);
            self.problems.add(code::UNKNOWN_PROVIDER, &path.key("provider"), detail);
        }
        let secret = entry.secret.as_ref().and_then(|value| {
            let path = path.key("secret");
            let text = self.text(value, &path)?;
            let refused = |detail| self.problems.add(code::INVALID_SECRET, &path, detail);
            values::inbound_secret(text).map_err(refused).ok()
        });
        let class = self.class(entry.class.as_deref(), &path.key("class"));
        let cells = self.cells(&entry.cells, listed, &path.key("cells"));
        Some(Integration {
            id: id?,
            provider: provider?,
            secrets: secret.into_iter().collect(),
            cells,
            class,
        })
    }

    fn cells(&mut self, names: &[String], listed: &BTreeSet<&str>, path: &Path) -> Vec<EndpointId> {
        if names.is_empty() {
            self.problems.add(code::INVALID_CELLS, path, "name at least one endpoint");
        }
        if names.len() > CELLS_MAX {
            self.problems.add(code::TOO_MANY, path, format!("name at most {CELLS_MAX} endpoints"));
        }
        let mut seen = BTreeSet::new();
        let mut cells = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let path = path.index(at);
            let id = EndpointId::new(name).ok();
            let exists = listed.contains(name.as_str())
                || id.as_ref().is_some_and(|id| self.known.endpoints.contains_key(id));
            if !exists {
                let name: String = name.chars().take(64).collect();
                let detail =
                    format!("the tenant has no endpoint '{name}'; add it to an app, or name another");
                self.problems.add(code::UNKNOWN_ENDPOINT, &path, detail);
            } else if !seen.insert(name) {
                let detail = format!("endpoint '{name}' stands here twice; remove one");
                self.problems.add(code::INVALID_CELLS, &path, detail);
            }
            cells.extend(id);
        }
        cells
    }
}

/// What to write instead.
pub(crate) fn unknown_provider(name: &str) -> String {
    let known = Provider::ALL.map(Provider::name).join(", ");
    let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
    format!("provider '{name}' is not known; use one of: {known}")
}
