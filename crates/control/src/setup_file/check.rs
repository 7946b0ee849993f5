//! [`SetupFile`] → the nouns of `types`, with everything that is wrong with its values and references.

use std::collections::BTreeSet;
use std::str::FromStr;

use mailrail_filter::FilterError;
use mailrail_types::{
    App, AppId, ClassId, EndpointId, EventType, IdError, MailboxClass, PERMISSION_MAX_CHARS, PERMISSIONS_MAX,
    Subscription, SubscriptionId, Tenant, TenantId,
};

use super::checked::{
    CheckedSetup, CheckedTenant, EVENT_TYPES_PER_SUBSCRIPTION_MAX, Existing, Known, NAME_MAX_CHARS, UrlCheck,
    VERSION,
};
use super::classes;
use super::entries::{AppEntry, KeyEntry, SetupFile, SubscriptionEntry, TenantEntry, TextOrEnv};
use super::env::shown_name;
use super::path::Path;
use super::problem::{SetupProblem, code};
use super::read::Problems;
use super::values;

/// Checks what was read.
pub(super) fn check(
    file: &SetupFile,
    existing: &Existing,
    url: &UrlCheck,
    problems: &mut Problems,
) -> CheckedSetup {
    if file.version != VERSION {
        let detail = format!("version {} is not known; this release reads version {VERSION}", file.version);
        problems.add(code::UNSUPPORTED_VERSION, &Path::root().key("version"), detail);
    }
    let classes = classes::check(&file.classes, problems);
    let class_ids = existing.classes.iter().chain(classes.iter().map(|class| &class.id)).cloned().collect();
    let mut warnings = Vec::new();
    let mut tenants = Vec::new();
    let mut ids = Ids::new("tenant");
    let nothing = Known::default();
    for (at, entry) in file.tenants.iter().enumerate() {
        let path = Path::root().key("tenants").index(at);
        let Some(id) = ids.take::<TenantId>(&entry.id, &path, problems) else { continue };
        let known = existing.tenants.get(&id).unwrap_or(&nothing);
        let mut scope = Scope { known, classes: &class_ids, url, problems, apps: AppIds::default() };
        let checked = scope.tenant(id, entry, &path);
        warn(&checked, entry, &path, &mut warnings);
        tenants.push(checked);
    }
    one_owner_per_token(file, problems);
    CheckedSetup { classes, tenants, warnings }
}

/// Ids of one kind that were seen already.
pub(super) struct Ids {
    kind: &'static str,
    seen: BTreeSet<String>,
}

impl Ids {
    pub(super) fn new(kind: &'static str) -> Self {
        Ids { kind, seen: BTreeSet::new() }
    }

    pub(super) fn take<T: FromStr<Err = IdError>>(
        &mut self,
        text: &str,
        path: &Path,
        problems: &mut Problems,
    ) -> Option<T> {
        let path = path.key("id");
        if problems.covers(&path) {
            return None;
        }
        match text.parse::<T>() {
            Err(error) => {
                problems.add(code::INVALID_ID, &path, error.to_string());
                None
            }
            Ok(_) if !self.seen.insert(text.to_owned()) => {
                let detail = format!("{} '{text}' stands here twice; give each its own id", self.kind);
                problems.add(code::DUPLICATE_ID, &path, detail);
                None
            }
            Ok(id) => Some(id),
        }
    }
}

/// Ids that are unique within a tenant although they are written under an app.
pub(super) struct AppIds {
    pub(super) endpoints: Ids,
    subscriptions: Ids,
}

impl Default for AppIds {
    fn default() -> Self {
        AppIds { endpoints: Ids::new("endpoint"), subscriptions: Ids::new("subscription") }
    }
}

/// One tenant being checked.
pub(super) struct Scope<'a> {
    pub(super) known: &'a Known,
    pub(super) classes: &'a BTreeSet<ClassId>,
    pub(super) url: &'a UrlCheck,
    pub(super) problems: &'a mut Problems,
    pub(super) apps: AppIds,
}

impl Scope<'_> {
    fn tenant(&mut self, id: TenantId, entry: &TenantEntry, path: &Path) -> CheckedTenant {
        self.name(&entry.name, path);
        let source_class = self.class(entry.source_class.as_deref(), &path.key("source_class"));
        let source_class = source_class.unwrap_or_else(|| ClassId::of(MailboxClass::STRICT));
        let mut checked = CheckedTenant {
            tenant: Tenant { id, name: entry.name.clone(), source_class },
            keys: Vec::new(),
            event_types: self.event_types(entry, path),
            apps: Vec::new(),
            endpoints: Vec::new(),
            subscriptions: Vec::new(),
            integrations: Vec::new(),
        };
        let mut ids = Ids::new("key");
        for (at, key) in entry.keys.iter().enumerate() {
            let path = path.key("keys").index(at);
            let token = self.token(key, &path);
            if let Some(id) = ids.take(&key.id, &path, self.problems) {
                checked.keys.push((id, token));
            }
        }
        let mut ids = Ids::new("app");
        for (at, app) in entry.apps.iter().enumerate() {
            let path = path.key("apps").index(at);
            let Some(id) = ids.take::<AppId>(&app.id, &path, self.problems) else { continue };
            self.name(&app.name, &path);
            self.app(&id, app, &path, &mut checked);
            let permissions = self.permissions(&app.permissions, &path);
            checked.apps.push(App { id, name: app.name.clone(), permissions });
        }
        checked.integrations = self.integrations(entry, path);
        checked
    }

    fn permissions(&mut self, permissions: &[String], path: &Path) -> BTreeSet<String> {
        let path = path.key("permissions");
        if permissions.len() > PERMISSIONS_MAX {
            self.problems.add(code::TOO_MANY, &path, format!("name at most {PERMISSIONS_MAX} permissions"));
        }
        for (at, permission) in permissions.iter().enumerate() {
            let is_visible = permission.bytes().all(|b| b.is_ascii_graphic());
            if !is_visible || !(1..=PERMISSION_MAX_CHARS).contains(&permission.len()) {
                let detail = format!("a permission has 1 to {PERMISSION_MAX_CHARS} visible ASCII characters");
                self.problems.add(code::INVALID_NAME, &path.index(at), detail);
            }
        }
        permissions.iter().cloned().collect()
    }

    fn name(&mut self, name: &str, path: &Path) {
        if name.chars().count() > NAME_MAX_CHARS || name.chars().any(char::is_control) {
            let detail = format!("use at most {NAME_MAX_CHARS} characters and no control characters");
            self.problems.add(code::INVALID_NAME, &path.key("name"), detail);
        }
    }

    fn event_types(&mut self, entry: &TenantEntry, path: &Path) -> Vec<EventType> {
        let mut types = Vec::new();
        let mut seen = BTreeSet::new();
        for (at, event_type) in entry.event_types.iter().enumerate() {
            let path = path.key("event_types").index(at);
            let place = path.key("name");
            if let Err(detail) = values::event_type(&event_type.name) {
                self.problems.add(code::INVALID_EVENT_TYPE, &place, detail);
            } else if !seen.insert(&event_type.name) {
                let detail = format!("event type '{}' stands here twice; remove one", event_type.name);
                self.problems.add(code::DUPLICATE_ID, &place, detail);
            }
            let ordering_key = event_type.ordering_key.as_deref().and_then(|text| match text.parse() {
                Ok(path) => Some(path),
                Err(error) => {
                    let error: mailrail_types::JsonPathError = error;
                    self.problems.add(
                        code::INVALID_ORDERING_KEY,
                        &path.key("ordering_key"),
                        error.to_string(),
                    );
                    None
                }
            });
            types.push(EventType { name: event_type.name.clone(), ordering_key });
        }
        types
    }

    fn token(&mut self, key: &KeyEntry, path: &Path) -> Option<String> {
        let path = path.key("token");
        let text = self.text(key.token.as_ref()?, &path)?;
        if let Err(detail) = values::token(&text) {
            self.problems.add(code::INVALID_TOKEN, &path, detail);
        }
        Some(text)
    }

    /// The text itself; a variable's name is a problem, because here is nobody to look it up.
    pub(super) fn text(&mut self, value: &TextOrEnv, path: &Path) -> Option<String> {
        match value {
            TextOrEnv::Text(text) => Some(text.clone()),
            TextOrEnv::Env(name) => {
                let name = shown_name(name);
                let detail =
                    format!("{name} is a variable of the caller; send its value, or use `mailrail apply`");
                self.problems.add(code::ENV, path, detail);
                None
            }
        }
    }

    fn app(&mut self, app: &AppId, entry: &AppEntry, path: &Path, checked: &mut CheckedTenant) {
        let mut own = BTreeSet::new();
        for (at, endpoint) in entry.endpoints.iter().enumerate() {
            let path = path.key("endpoints").index(at);
            // Its id counts as known even if the rest is wrong: one mistake, one problem.
            own.insert(endpoint.id.as_str());
            checked.endpoints.extend(self.endpoint(app, endpoint, &path));
        }
        for (at, subscription) in entry.subscriptions.iter().enumerate() {
            let path = path.key("subscriptions").index(at);
            checked.subscriptions.extend(self.subscription(app, subscription, &own, &path));
        }
    }

    fn subscription(
        &mut self,
        app: &AppId,
        entry: &SubscriptionEntry,
        own: &BTreeSet<&str>,
        path: &Path,
    ) -> Option<Subscription> {
        let id: Option<SubscriptionId> = self.apps.subscriptions.take(&entry.id, path, self.problems);
        if let Some(owner) =
            id.as_ref().and_then(|id| self.known.subscriptions.get(id)).filter(|owner| *owner != app)
        {
            self.other_app("subscription", owner, path);
        }
        let endpoint = self.reference(app, &entry.endpoint, own, path);
        self.wanted_types(&entry.event_types, path);
        let filter = entry.filter.as_ref().and_then(|filter| {
            let refused = |error: FilterError| {
                let detail =
                    format!("filter of subscription '{}' at {}: {}", entry.id, error.path, error.message);
                let language = values::filter_language(filter).name();
                self.problems.add(error.code, &path.key("filter").key(language), detail);
            };
            values::filter(filter).map_err(refused).ok()
        });
        Some(Subscription {
            id: id?,
            app: app.clone(),
            endpoint: endpoint?,
            event_types: entry.event_types.clone(),
            filter,
            on_filter_error: entry.on_filter_error.map(Into::into).unwrap_or_default(),
        })
    }

    fn wanted_types(&mut self, wanted: &[String], path: &Path) {
        let path = path.key("event_types");
        if wanted.is_empty() {
            self.problems.add(code::INVALID_EVENT_TYPE, &path, "name at least one event type");
        }
        if wanted.len() > EVENT_TYPES_PER_SUBSCRIPTION_MAX {
            let detail = format!("name at most {EVENT_TYPES_PER_SUBSCRIPTION_MAX} event types");
            self.problems.add(code::TOO_MANY, &path, detail);
        }
        let mut seen = BTreeSet::new();
        for (at, name) in wanted.iter().enumerate() {
            if let Err(detail) = values::event_type(name) {
                self.problems.add(code::INVALID_EVENT_TYPE, &path.index(at), detail);
            } else if !seen.insert(name) {
                let detail = format!("event type '{name}' stands here twice; remove one");
                self.problems.add(code::DUPLICATE_ID, &path.index(at), detail);
            }
        }
    }

    fn reference(
        &mut self,
        app: &AppId,
        name: &str,
        own: &BTreeSet<&str>,
        path: &Path,
    ) -> Option<EndpointId> {
        let path = path.key("endpoint");
        let id = EndpointId::new(name).ok();
        let exists =
            own.contains(name) || id.as_ref().is_some_and(|id| self.known.endpoints.get(id) == Some(app));
        if !exists {
            let detail = format!("app '{app}' has no endpoint '{name}'; add it, or name one of its own");
            self.problems.add(code::UNKNOWN_ENDPOINT, &path, detail);
        }
        id
    }

    pub(super) fn other_app(&mut self, kind: &str, owner: &AppId, path: &Path) {
        let detail =
            format!("this {kind} belongs to app '{owner}'; choose another id, or delete it there first");
        self.problems.add(code::OTHER_APP, &path.key("id"), detail);
    }
}

/// The credential names the tenant, so a token that names two would be a hole between them.
fn one_owner_per_token(file: &SetupFile, problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for (t, tenant) in file.tenants.iter().enumerate() {
        for (k, key) in tenant.keys.iter().enumerate() {
            if let Some(TextOrEnv::Text(token)) = &key.token
                && !seen.insert(token)
            {
                let path = Path::root().key("tenants").index(t).key("keys").index(k).key("token");
                problems.add(
                    code::DUPLICATE_TOKEN,
                    &path,
                    "another key has the same token; give each its own",
                );
            }
        }
    }
}

fn warn(checked: &CheckedTenant, entry: &TenantEntry, path: &Path, warnings: &mut Vec<SetupProblem>) {
    if checked.event_types.is_empty() {
        return;
    }
    for (a, app) in entry.apps.iter().enumerate() {
        for (s, subscription) in app.subscriptions.iter().enumerate() {
            for (e, name) in subscription.event_types.iter().enumerate() {
                if !checked.event_types.iter().any(|t| t.name == *name) {
                    let path =
                        path.key("apps").index(a).key("subscriptions").index(s).key("event_types").index(e);
                    let detail = format!(
                        "event type '{name}' is not among the tenant's event_types; check its spelling"
                    );
                    warnings.push(SetupProblem::new(code::UNDECLARED_EVENT_TYPE, &path, detail));
                }
            }
        }
    }
}
