//! `mailrail endpoints`: a tenant's endpoints, listed, paused and resumed.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use mailrail_egress::operator::ApiClient;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Output;
use super::access::ControlArgs;
use super::segment::segment;

/// Items of a page: the most that the API gives.
const PAGE: usize = 1000;
/// Most pages of a list: a million endpoints. A list that does not end is a fault of what answers.
const PAGES_MAX: usize = 1000;

/// Arguments of `mailrail endpoints`.
#[derive(Debug, clap::Args)]
pub(crate) struct EndpointsArgs {
    #[command(subcommand)]
    pub(crate) command: EndpointsCommand,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Output::Text, global = true)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// What to do with endpoints.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum EndpointsCommand {
    /// List a tenant's endpoints
    List {
        /// The tenant
        tenant: String,
    },
    /// Hold an endpoint's mail for now: nothing is sent, nothing is lost while it is retained
    Pause(Named),
    /// Let a paused endpoint's mail go on, in order
    Resume(Named),
}

/// An endpoint.
#[derive(Debug, clap::Args)]
pub(crate) struct Named {
    /// Its tenant
    pub(crate) tenant: String,
    /// Its id
    pub(crate) endpoint: String,
}

/// Lists, pauses or resumes and prints what the endpoints are now.
///
/// # Errors
/// When the control API does not answer or refuses.
pub(crate) async fn run(args: EndpointsArgs) -> Result<()> {
    let answer = answer(&args.control.client()?, &args.command).await?;
    args.output.print(&answer, shown)
}

/// Carries the command out and gives the API's answer: a list, or the endpoint as it is now.
pub(super) async fn answer(api: &ApiClient, command: &EndpointsCommand) -> Result<Value> {
    match command {
        EndpointsCommand::List { tenant } => list(api, tenant, PAGE).await,
        EndpointsCommand::Pause(endpoint) => act(api, endpoint, "pause").await,
        EndpointsCommand::Resume(endpoint) => act(api, endpoint, "resume").await,
    }
}

async fn act(api: &ApiClient, Named { tenant, endpoint }: &Named, action: &str) -> Result<Value> {
    let path = format!("{}/{}/{action}", endpoints_of(tenant), segment(endpoint));
    Ok(api.post(&path, &json!({})).await?)
}

fn endpoints_of(tenant: &str) -> String {
    format!("/v1/tenants/{}/endpoints", segment(tenant))
}

/// Every page, `size` items each, as one.
pub(super) async fn list(api: &ApiClient, tenant: &str, size: usize) -> Result<Value> {
    let (mut items, mut after) = (Vec::new(), String::new());
    for _ in 0..PAGES_MAX {
        let mut page = api.get(&format!("{}?limit={size}{after}", endpoints_of(tenant))).await?;
        if let Some(more) = page["items"].as_array_mut() {
            items.append(more);
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={}", segment(next)),
            None => return Ok(json!({ "items": items, "next": null })),
        }
    }
    bail!("the list of endpoints does not end: is this a mailrail control API?")
}

#[derive(Deserialize)]
struct Endpoint {
    id: String,
    app: String,
    class: String,
    url: String,
    max_in_flight: Option<u32>,
    rate_per_second: Option<u32>,
    paused: bool,
    paused_by: Option<String>,
    paused_at_ms: Option<u64>,
}

/// A list or one endpoint, for people.
fn shown(answer: &Value) -> Result<String> {
    let items = match answer.get("items") {
        Some(items) => items.as_array().map_or(&[][..], Vec::as_slice),
        None => std::slice::from_ref(answer),
    };
    let mut out = String::new();
    writeln!(
        out,
        "{:<24}{:<20}{:<20}{:<40}{:<15}{:<17}state",
        "endpoint", "app", "class", "url", "max_in_flight", "rate_per_second"
    )?;
    for item in items {
        let endpoint = Endpoint::deserialize(item).context("the answer of the control API")?;
        let Endpoint { id, app, class, url, .. } = &endpoint;
        let (in_flight, rate) = (limit(endpoint.max_in_flight), limit(endpoint.rate_per_second));
        let state = state(&endpoint);
        writeln!(out, "{id:<23} {app:<19} {class:<19} {url:<39} {in_flight:<14} {rate:<16} {state}")?;
    }
    Ok(out)
}

fn limit(limit: Option<u32>) -> String {
    limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string())
}

fn state(endpoint: &Endpoint) -> String {
    if !endpoint.paused {
        return "sending".to_owned();
    }
    let mut state = "paused".to_owned();
    if let Some(by) = endpoint.paused_by.as_deref().filter(|by| !by.is_empty()) {
        state.push_str(" by ");
        state.push_str(by);
    }
    let since = endpoint.paused_at_ms.and_then(|at| UNIX_EPOCH.checked_add(Duration::from_millis(at)));
    if let Some(since) = since {
        // Not `to_string`, which panics beyond the year 9999. Writing to a String cannot fail otherwise.
        let mut text = String::new();
        if write!(text, " since {}", humantime::format_rfc3339_seconds(since)).is_ok() {
            state.push_str(&text);
        }
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(id: &str, paused: bool) -> Value {
        json!({
            "id": id, "app": "shop", "url": "https://shop.example/hook", "header_names": [], "secrets": 1,
            "class": "strict", "timeout_ms": null, "head_max_age_ms": null, "max_in_flight": paused.then_some(4),
            "rate_per_second": null, "paused": paused,
            "paused_by": paused.then_some("alice"), "paused_at_ms": paused.then_some(1_700_000_000_123_u64),
        })
    }

    #[test]
    fn endpoints_are_shown_with_their_limits_and_who_paused_them_and_when() {
        let list = json!({ "items": [endpoint("main", true), endpoint("other", false)], "next": null });
        let text = shown(&list).expect("text");
        let lines: Vec<_> =
            text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "endpoint app class url max_in_flight rate_per_second state",
                "main shop strict https://shop.example/hook 4 - paused by alice since 2023-11-14T22:13:20Z",
                "other shop strict https://shop.example/hook - - sending",
            ]
        );
        assert_eq!(shown(&endpoint("main", true)).expect("text").lines().count(), 2);
        assert_eq!(shown(&json!({ "items": [], "next": null })).expect("text").lines().count(), 1);
        assert!(shown(&json!({})).is_err());
    }

    #[test]
    fn what_is_not_known_of_a_pause_is_left_out() {
        let mut odd = endpoint("main", true);
        (odd["paused_by"], odd["paused_at_ms"]) = (json!(""), json!(u64::MAX));
        assert!(shown(&odd).expect("text").ends_with(" paused\n"));
        (odd["paused_by"], odd["paused_at_ms"]) = (json!(null), json!(null));
        assert!(shown(&odd).expect("text").ends_with(" paused\n"));
    }
}
