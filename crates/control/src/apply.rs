//! `POST /v1/apply`: makes what a set-up document says, all of it or nothing.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use mailrail_store::{Applied, Counts, KeySetup, TenantSetup, TenantView, generate_token};
use mailrail_types::{KeyId, Secret, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::access::Actor;
use crate::problem::Problem;
use crate::respond::{json, read_body, visible};
use crate::service::Shared;
use crate::setup_file::{
    CheckedEndpoint, CheckedTenant, Existing, Known, SetupProblem, check_setup, parse_json,
};

/// The body of `POST /v1/apply`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplyRequest {
    /// The set-up document; its format is [`crate::setup_file::SetupFile`].
    pub setup: Value,
    /// Also delete what the listed tenants have and the document does not list. Tenants that are not listed stay.
    #[serde(default)]
    pub prune: bool,
    /// Check and count only: nothing is changed and nothing is generated.
    #[serde(default)]
    pub dry_run: bool,
}

/// The answer of `POST /v1/apply`.
#[derive(Serialize)]
pub struct ApplyAnswer {
    /// What was created, updated, left alone and deleted; with `dry_run`, what would be.
    pub counts: Counts,
    /// Signing secrets that were generated. They are not shown again.
    pub secrets: Vec<NewSecret>,
    /// API keys that were generated. They are not shown again.
    pub keys: Vec<NewKey>,
    /// What is allowed and yet looks like a mistake.
    pub warnings: Vec<SetupProblem>,
    /// Whether it was a dry run.
    pub dry_run: bool,
    /// Whether the roles of this process know the change already; other processes follow within a second.
    pub visible: bool,
}

/// A signing secret that is shown this once.
#[derive(Serialize)]
pub struct NewSecret {
    /// Whose.
    pub tenant: String,
    /// Of which endpoint.
    pub endpoint: String,
    /// `whsec_…`.
    pub secret: String,
}

/// An API key that is shown this once.
#[derive(Serialize)]
pub struct NewKey {
    /// Whose.
    pub tenant: String,
    /// Its public name.
    pub key: String,
    /// `mrk_…`.
    pub token: String,
}

/// `POST /v1/apply`.
pub(crate) async fn apply(
    State(shared): State<Arc<Shared>>,
    Extension(actor): Extension<Actor>,
    body: Body,
) -> Result<Response, Problem> {
    // The semaphore is never closed.
    let _permit = shared.setups.acquire().await.map_err(|_| Problem::timeout())?;
    let request = read_request(&read_body(&shared, body).await?)?;
    let _changing = shared.changing.lock().await;
    let stored = stored(&shared, &request.setup).await?;
    let classes = shared.store.classes().await?.into_iter().map(|class| class.id).collect();
    let existing =
        Existing { classes, tenants: stored.iter().map(|(id, of)| (id.clone(), of.known())).collect() };
    let checked =
        check_setup(request.setup, &existing, shared.url.as_ref()).map_err(Problem::invalid_setup)?;
    let classes = checked.classes;

    let mut keys = Vec::new();
    let setups: Vec<_> = checked.tenants.into_iter().map(|t| merge(t, &stored, &mut keys)).collect();
    let mut applied = if request.dry_run {
        shared.store.preview(&classes, &setups, request.prune).await?
    } else {
        shared.store.apply_all(&classes, &setups, request.prune).await?
    };
    if request.dry_run {
        applied.secrets.clear();
        keys.clear();
    }
    audit(&actor, &setups, request.prune, request.dry_run, &applied);
    let visible = !request.dry_run && visible(&shared, applied.seq).await;
    let shown = |s: mailrail_store::GeneratedSecret| NewSecret {
        tenant: s.tenant.to_string(),
        endpoint: s.endpoint.to_string(),
        secret: s.secret.expose().to_owned(),
    };
    let secrets = applied.secrets.into_iter().map(shown).collect();
    let (warnings, dry_run) = (checked.warnings, request.dry_run);
    Ok(json(&ApplyAnswer { counts: applied.counts, secrets, keys, warnings, dry_run, visible }))
}

fn read_request(body: &[u8]) -> Result<ApplyRequest, Problem> {
    let tree = parse_json(body).map_err(|problem| {
        Problem::invalid_request(format!("the body is not usable JSON: {}", problem.detail))
    })?;
    let Value::Object(mut object) = tree else {
        return Err(Problem::invalid_request(
            "send an object {\"setup\": …, \"prune\": false, \"dry_run\": false}",
        ));
    };
    // By hand: an error of serde would quote the value.
    let mut flag = |name: &str| match object.remove(name) {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(flag),
        Some(_) => Err(Problem::invalid_request(format!("'{name}' must be true or false"))),
    };
    let (prune, dry_run) = (flag("prune")?, flag("dry_run")?);
    let setup = object
        .remove("setup")
        .ok_or_else(|| Problem::invalid_request("'setup' is missing; put the document there"))?;
    match object.keys().next() {
        Some(field) => Err(Problem::invalid_request(format!(
            "unknown field '{field}'; known here: setup, prune, dry_run"
        ))),
        None => Ok(ApplyRequest { setup, prune, dry_run }),
    }
}

/// What a tenant has already.
struct Stored {
    view: TenantView,
    keys: Vec<KeyId>,
}

impl Stored {
    fn known(&self) -> Known {
        let endpoints = self.view.endpoints.values().map(|e| (e.id.clone(), e.app.clone())).collect();
        let subscriptions = self.view.subscriptions.values().map(|s| (s.id.clone(), s.app.clone())).collect();
        Known { endpoints, subscriptions }
    }
}

/// What the listed tenants have. Read before the document is checked, so ids that are no ids are passed over here.
async fn stored(shared: &Shared, document: &Value) -> Result<HashMap<TenantId, Stored>, Problem> {
    let tenants = document.get("tenants").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut stored = HashMap::new();
    for tenant in tenants {
        let Some(id) = tenant.get("id").and_then(Value::as_str).and_then(|id| TenantId::new(id).ok()) else {
            continue;
        };
        if stored.contains_key(&id) {
            continue;
        }
        let (view, keys) = (shared.store.tenant_view(&id).await?, shared.store.keys(&id).await?);
        if let (Some(view), Some(keys)) = (view, keys) {
            stored.insert(id, Stored { view, keys });
        }
    }
    Ok(stored)
}

/// The document over what is stored: keys without a token are kept or generated, secrets likewise.
fn merge(
    checked: CheckedTenant,
    stored: &HashMap<TenantId, Stored>,
    new_keys: &mut Vec<NewKey>,
) -> TenantSetup {
    let stored = stored.get(&checked.tenant.id);
    let mut setup = TenantSetup::new(checked.tenant);
    setup.event_types = checked.event_types;
    setup.apps = checked.apps;
    setup.subscriptions = checked.subscriptions;
    for (id, token) in checked.keys {
        match token {
            Some(token) => setup.keys.push(KeySetup { id, token }),
            None if stored.is_some_and(|s| s.keys.contains(&id)) => setup.kept_keys.push(id),
            None => {
                let token = generate_token();
                let tenant = setup.tenant.id.to_string();
                new_keys.push(NewKey { tenant, key: id.to_string(), token: token.clone() });
                setup.keys.push(KeySetup { id, token });
            }
        }
    }
    for CheckedEndpoint { mut endpoint, secret } in checked.endpoints {
        if let Some(secret) = secret {
            let current =
                stored.and_then(|s| s.view.endpoints.get(&endpoint.id)).map_or(&[][..], |e| &e.secrets);
            endpoint.secrets = with_overlap(secret, current);
        }
        setup.endpoints.push(endpoint.into());
    }
    for mut integration in checked.integrations {
        if let Some(secret) = integration.secrets.pop() {
            let current =
                stored.and_then(|s| s.view.integrations.get(&integration.id)).map_or(&[][..], |i| &i.secrets);
            integration.secrets = with_overlap(secret, current);
        }
        setup.integrations.push(integration);
    }
    setup
}

/// The secrets of an endpoint or integration whose file names one. Another one than the current is a rotation: the
/// current one goes on signing, or being accepted, beside it, so that the other side can change over at any moment; older
/// ones end.
fn with_overlap(wanted: Secret, current: &[Secret]) -> Vec<Secret> {
    match current.first() {
        Some(first) if *first == wanted => current.to_vec(),
        Some(first) => vec![wanted, first.clone()],
        None => vec![wanted],
    }
}

/// Who changed what, in numbers; never a secret.
fn audit(actor: &Actor, setups: &[TenantSetup], prune: bool, dry_run: bool, applied: &Applied) {
    let tenants = setups.iter().take(20).map(|s| s.tenant.id.as_str()).collect::<Vec<_>>().join(",");
    let total = applied.counts.total();
    tracing::info!(
        target: "audit",
        actor = &*actor.0,
        action = "apply",
        tenants,
        tenant_count = setups.len(),
        prune,
        dry_run,
        created = total.created,
        updated = total.updated,
        unchanged = total.unchanged,
        deleted = total.deleted,
        seq = applied.seq,
        "set-up applied"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n16_a_new_secret_overlaps_with_the_current_one() {
        let secret = |text: &str| Secret::new(text.to_owned());
        let after = |wanted: &str, current: &[&str]| {
            let current: Vec<_> = current.iter().map(|text| secret(text)).collect();
            let secrets = with_overlap(secret(wanted), &current);
            secrets.iter().map(|s| s.expose().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(after("a", &[]), ["a"]);
        assert_eq!(after("a", &["a", "b"]), ["a", "b"], "nothing to change");
        assert_eq!(after("c", &["a", "b"]), ["c", "a"]);
        assert_eq!(after("b", &["a", "b"]), ["b", "a"], "going back is a rotation too");
    }
}
