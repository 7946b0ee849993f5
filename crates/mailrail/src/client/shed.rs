//! `mailrail shed`: whose webhooks are turned away for now.

use std::fmt::Write as _;
use std::str::FromStr;

use anyhow::{Context as _, Result, bail};
use mailrail_egress::operator::ApiClient;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Output;
use super::access::ControlArgs;

const PATH: &str = "/v1/shed";

/// Arguments of `mailrail shed`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShedArgs {
    #[command(subcommand)]
    pub(crate) command: ShedCommand,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Output::Text, global = true)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}

/// What to do with the shed rules.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ShedCommand {
    /// List the rules
    List,
    /// Turn away exactly this traffic from now on: its senders get 429 and try again
    Set {
        /// PROVIDER, PROVIDER/TENANT or PROVIDER/TENANT/INTEGRATION, where TENANT may be '*'
        #[arg(required = true, value_name = "RULE")]
        rules: Vec<Rule>,
    },
    /// Turn nothing away any more
    Clear,
}

/// A rule as it is written on the command line. Whether what it names exists is the API's to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    provider: String,
    tenant: Option<String>,
    integration: Option<String>,
}

impl FromStr for Rule {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<_> = text.split('/').collect();
        let named = |part: &&str| (*part != "*").then(|| (*part).to_owned());
        match parts.as_slice() {
            [provider, rest @ ..]
                if *provider != "*" && rest.len() <= 2 && parts.iter().all(|part| !part.is_empty()) =>
            {
                Ok(Self {
                    provider: (*provider).to_owned(),
                    tenant: rest.first().and_then(named),
                    integration: rest.get(1).and_then(named),
                })
            }
            _ => bail!(
                "write PROVIDER, PROVIDER/TENANT or PROVIDER/TENANT/INTEGRATION, as 'github/acme/main' or 'github/*/main'"
            ),
        }
    }
}

/// Lists or sets the rules and prints what they are now.
///
/// # Errors
/// When the control API does not answer or refuses.
pub(crate) async fn run(args: ShedArgs) -> Result<()> {
    let answer = answer(&args.control.client()?, &args.command).await?;
    args.output.print(&answer, shown)
}

/// Carries the command out and gives the API's answer: the rules as they are afterwards.
pub(super) async fn answer(api: &ApiClient, command: &ShedCommand) -> Result<Value> {
    let rules: Vec<Value> = match command {
        ShedCommand::List => return Ok(api.get(PATH).await?),
        ShedCommand::Clear => Vec::new(),
        ShedCommand::Set { rules } => rules
            .iter()
            .map(|r| json!({ "provider": r.provider, "tenant": r.tenant, "integration": r.integration }))
            .collect(),
    };
    Ok(api.put(PATH, &json!({ "rules": rules })).await?)
}

#[derive(Deserialize)]
struct Answer {
    rules: Vec<Shown>,
}

#[derive(Deserialize)]
struct Shown {
    provider: String,
    tenant: Option<String>,
    integration: Option<String>,
}

fn shown(answer: &Value) -> Result<String> {
    let answer = Answer::deserialize(answer).context("the answer of the control API")?;
    let mut out = String::new();
    if answer.rules.is_empty() {
        out.push_str("nothing is turned away\n");
    }
    for Shown { provider, tenant, integration } in &answer.rules {
        let tenant = tenant.as_ref().map_or_else(|| "every tenant".to_owned(), |id| format!("tenant {id}"));
        let integration = integration
            .as_ref()
            .map_or_else(|| "every integration".to_owned(), |id| format!("integration {id}"));
        writeln!(out, "turned away: {provider}, {tenant}, {integration}")?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s36_a_rule_always_names_a_provider() {
        let rule = |text: &str| {
            text.parse::<Rule>().ok().map(|r| {
                let part = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
                format!("{} {} {}", r.provider, part(r.tenant), part(r.integration))
            })
        };
        assert_eq!(rule("github").as_deref(), Some("github - -"));
        assert_eq!(rule("github/acme").as_deref(), Some("github acme -"));
        assert_eq!(rule("github/acme/main").as_deref(), Some("github acme main"));
        assert_eq!(rule("github/*/main").as_deref(), Some("github - main"));
        for bad in ["", "*", "*/acme", "/acme", "github/", "github//main", "github/a/b/c"] {
            assert_eq!(rule(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn rules_are_shown_as_what_they_cover() {
        let rules = json!({ "rules": [
            { "provider": "jira", "tenant": null, "integration": null },
            { "provider": "github", "tenant": "acme", "integration": "main" },
        ]});
        assert_eq!(
            shown(&rules).expect("text"),
            "turned away: jira, every tenant, every integration\nturned away: github, tenant acme, integration main\n"
        );
        assert_eq!(shown(&json!({ "rules": [] })).expect("text"), "nothing is turned away\n");
        assert!(shown(&json!({})).is_err());
    }
}
