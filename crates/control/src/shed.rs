//! `/v1/shed`: whose webhooks are turned away for now.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use mailrail_store::SHED_RULES_MAX;
use mailrail_types::{IdError, IntegrationId, Provider, ShedRule, TenantId};
use serde_json::{Map, Value, json as value};

use crate::access::Actor;
use crate::problem::Problem;
use crate::respond::{json, read_body, visible};
use crate::service::Shared;
use crate::setup_file::{code, parse_json, unknown_provider};

/// `GET /v1/shed`.
pub(crate) async fn get(State(shared): State<Arc<Shared>>) -> Result<Response, Problem> {
    Ok(json(&shown(&shared.store.shed().await?)))
}

/// `PUT /v1/shed`: exactly these rules from now on; `{"rules": []}` turns nothing away. One bad rule refuses all of them,
/// and what was set before stays.
pub(crate) async fn put(
    State(shared): State<Arc<Shared>>,
    Extension(actor): Extension<Actor>,
    body: Body,
) -> Result<Response, Problem> {
    let rules = read_rules(&read_body(&shared, body).await?)?;
    let answer = shown(&rules);
    let _changing = shared.changing.lock().await;
    let count = rules.len();
    let seq = shared.store.set_shed(rules).await?;
    tracing::info!(
        target: "audit", actor = &*actor.0, action = "set_shed", count, rules = %answer["rules"], seq, "shed rules set"
    );
    visible(&shared, seq).await;
    Ok(json(&answer))
}

fn read_rules(body: &[u8]) -> Result<Vec<ShedRule>, Problem> {
    let tree = parse_json(body).map_err(|problem| {
        Problem::invalid_request(format!("the body is not usable JSON: {}", problem.detail))
    })?;
    let shape = || Problem::invalid_request("send an object {\"rules\": [{\"provider\": \"github\"}]}");
    let Value::Object(mut object) = tree else { return Err(shape()) };
    let Some(Value::Array(rules)) = object.remove("rules") else { return Err(shape()) };
    if !object.is_empty() {
        return Err(shape());
    }
    if rules.len() > SHED_RULES_MAX {
        let detail = format!("use at most {SHED_RULES_MAX} rules");
        return Err(Problem::invalid_value(code::TOO_MANY, "rules", detail));
    }
    rules.into_iter().enumerate().map(|(at, rule)| read_rule(rule, &format!("rules[{at}]"))).collect()
}

fn read_rule(rule: Value, place: &str) -> Result<ShedRule, Problem> {
    let Value::Object(mut rule) = rule else {
        let detail = "a rule is an object {\"provider\": …, \"tenant\": …, \"integration\": …}";
        return Err(Problem::invalid_value(code::WRONG_TYPE, place, detail));
    };
    let provider = text(&mut rule, place, "provider")?.filter(|name| !name.is_empty()).ok_or_else(|| {
        let detail = "a rule must name a provider: one without would turn everything away";
        Problem::invalid_value(code::MISSING_PROVIDER, format!("{place}.provider"), detail)
    })?;
    let provider = Provider::from_name(&provider).ok_or_else(|| {
        let detail = unknown_provider(&provider);
        Problem::invalid_value(code::UNKNOWN_PROVIDER, format!("{place}.provider"), detail)
    })?;
    let invalid = |field: &str, error: &IdError| {
        Problem::invalid_value(code::INVALID_ID, format!("{place}.{field}"), error.to_string())
    };
    let tenant = text(&mut rule, place, "tenant")?.map(|id| TenantId::new(&id)).transpose();
    let integration = text(&mut rule, place, "integration")?.map(|id| IntegrationId::new(&id)).transpose();
    let rule_of = ShedRule {
        provider,
        tenant: tenant.map_err(|e| invalid("tenant", &e))?,
        integration: integration.map_err(|e| invalid("integration", &e))?,
    };
    // A misspelt field would make the rule wider than it was meant to be.
    match rule.keys().next() {
        None => Ok(rule_of),
        Some(field) => {
            let detail = "known here: provider, tenant, integration";
            Err(Problem::invalid_value(code::UNKNOWN_FIELD, format!("{place}.{field}"), detail))
        }
    }
}

fn text(rule: &mut Map<String, Value>, place: &str, field: &str) -> Result<Option<String>, Problem> {
    match rule.remove(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => {
            let detail = format!("'{field}' must be a text");
            Err(Problem::invalid_value(code::WRONG_TYPE, format!("{place}.{field}"), detail))
        }
    }
}

fn shown(rules: &[ShedRule]) -> Value {
    let shown = |rule: &ShedRule| {
        value!({
            "provider": rule.provider.name(),
            "tenant": rule.tenant.as_ref().map(TenantId::as_str),
            "integration": rule.integration.as_ref().map(IntegrationId::as_str),
        })
    };
    value!({ "rules": rules.iter().map(shown).collect::<Vec<_>>() })
}
