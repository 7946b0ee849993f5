//! The demo's set-up: its file, what the receiver must know of it, and what it wants, told without the filter engine.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mailrail_types::{IdError, SubscriptionId, TenantId};
use rand::Rng;
use serde_json::Value;

use crate::receiver::{Behaviour, ReceiverEndpoint, Rule};

/// The file, with places to fill in. It shows the format too.
const TEMPLATE: &str = include_str!("../setup.yaml");

/// The demo's tenants.
pub const TENANTS: [&str; 2] = ["acme", "globex"];

/// Receiver endpoint, and the place of its secret in the file.
const ENDPOINTS: [(&str, &str); 5] = [
    ("acme-shop", "ACME_SHOP_SECRET"),
    ("acme-audit", "ACME_AUDIT_SECRET"),
    ("globex-ci", "GLOBEX_CI_SECRET"),
    ("globex-news", "GLOBEX_NEWS_SECRET"),
    ("globex-crm", "GLOBEX_CRM_SECRET"),
];

/// A tenant and the token that speaks for it.
#[derive(Clone)]
pub struct Access {
    /// The tenant.
    pub tenant: TenantId,
    /// Its API key.
    pub token: String,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

/// The set-up of one run, with secrets of its own.
#[derive(Clone)]
pub struct Setup {
    tokens: [String; TENANTS.len()],
    secrets: [String; ENDPOINTS.len()],
}

impl Setup {
    /// With secrets drawn from `random`.
    pub fn new(random: &mut impl Rng) -> Self {
        let mut bytes = || {
            let mut bytes = [0_u8; 32];
            random.fill_bytes(&mut bytes);
            bytes
        };
        let base32 = data_encoding::BASE32_NOPAD;
        Self {
            tokens: std::array::from_fn(|_| format!("mrk_{}", base32.encode(&bytes()).to_ascii_lowercase())),
            secrets: std::array::from_fn(|_| format!("whsec_{}", STANDARD.encode(bytes()))),
        }
    }

    /// The set-up file, for a receiver at `receiver` (`http://ADDRESS`). Holds secrets.
    #[must_use]
    pub fn text(&self, receiver: &str) -> String {
        let mut text = TEMPLATE.replace("${RECEIVER}", receiver.trim_end_matches('/'));
        for (tenant, token) in TENANTS.iter().zip(&self.tokens) {
            text = text.replace(&format!("${{{}_TOKEN}}", tenant.to_ascii_uppercase()), token);
        }
        for ((_, place), secret) in ENDPOINTS.iter().zip(&self.secrets) {
            text = text.replace(&format!("${{{place}}}"), secret);
        }
        text
    }

    /// The receiver's side of it.
    #[must_use]
    pub fn receiver_endpoints(&self) -> Vec<ReceiverEndpoint> {
        ENDPOINTS
            .iter()
            .zip(&self.secrets)
            .map(|((name, _), secret)| {
                let rule = match *name {
                    "acme-audit" => Rule::EveryDelivery { nth: 7, status: 503 },
                    "globex-crm" => Rule::Field {
                        pointer: "/action".to_owned(),
                        value: "deleted".to_owned(),
                        status: 400,
                    },
                    _ => Rule::Ok,
                };
                let behaviour = Behaviour { rule, ..Behaviour::default() };
                ReceiverEndpoint { name: (*name).to_owned(), secret: secret.clone(), behaviour }
            })
            .collect()
    }

    /// Who may post events.
    ///
    /// # Errors
    /// Never, for the names above.
    pub fn accesses(&self) -> Result<Vec<Access>, IdError> {
        TENANTS
            .iter()
            .zip(&self.tokens)
            .map(|(tenant, token)| Ok(Access { tenant: TenantId::new(tenant)?, token: token.clone() }))
            .collect()
    }
}

/// The subscriptions of the file that want an event: its filters written again as plain code, so that the books do not
/// believe match about itself.
#[must_use]
pub fn wanted_by(tenant: &TenantId, event_type: &str, body: &[u8]) -> Vec<SubscriptionId> {
    let body: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let action = body["action"].as_str().unwrap_or_default();
    let event = event_type.strip_prefix("com.github.").unwrap_or_default();
    let subscription = match (tenant.as_str(), event) {
        ("acme", "push") if matches!(body["ref"].as_str(), Some("refs/heads/main" | "refs/heads/master")) => {
            "pushes-to-main"
        }
        ("acme", "issues" | "issue_comment") => "all-issues",
        ("globex", "pull_request") if ["opened", "reopened", "synchronize"].contains(&action) => {
            "fresh-pull-requests"
        }
        ("globex", "check_run")
            if matches!(body["check_run"]["conclusion"].as_str(), Some("success" | "failure")) =>
        {
            "finished-checks"
        }
        ("globex", "release") if action == "published" && body["release"]["prerelease"] == false => {
            "releases"
        }
        ("globex", "star" | "label") => "community",
        _ => return Vec::new(),
    };
    SubscriptionId::new(subscription).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use mailrail_filter::{Document, Filter};
    use mailrail_types::{Attributes, FilterLanguage, FilterSource};
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;
    use crate::payloads::{Payload, Payloads};

    fn setup(seed: u64) -> Setup {
        Setup::new(&mut StdRng::seed_from_u64(seed))
    }

    #[test]
    fn every_place_of_the_file_is_filled_in() {
        let setup = setup(1);
        let text = setup.text("http://127.0.0.1:9999/");
        let filled = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
        assert!(!filled.contains("${"), "{filled}");
        assert_eq!(text, setup.text("http://127.0.0.1:9999"), "same secrets, same text");
        for endpoint in setup.receiver_endpoints() {
            assert!(
                text.contains(&format!("\"http://127.0.0.1:9999/{}\"", endpoint.name)),
                "{}",
                endpoint.name
            );
            assert!(text.contains(&endpoint.secret));
        }
        for access in setup.accesses().expect("names") {
            assert!(text.contains(&access.token) && access.token.len() >= 32);
            assert!(!format!("{access:?}").contains(&access.token));
        }
    }

    #[test]
    fn runs_have_secrets_of_their_own() {
        let secrets: BTreeSet<String> = [1, 2]
            .into_iter()
            .map(setup)
            .flat_map(|s| s.tokens.into_iter().chain(s.secrets).collect::<Vec<_>>())
            .collect();
        assert_eq!(secrets.len(), 2 * (TENANTS.len() + ENDPOINTS.len()));
    }

    #[test]
    fn every_subscription_of_the_file_wants_something_of_the_own_payloads_and_not_all() {
        let in_file: BTreeSet<&str> = [
            "pushes-to-main",
            "all-issues",
            "fresh-pull-requests",
            "finished-checks",
            "releases",
            "community",
        ]
        .into();
        let written = TEMPLATE.matches("endpoint: ").count();
        assert_eq!(written, in_file.len(), "the file and the plain code tell the same subscriptions");
        for id in &in_file {
            assert!(TEMPLATE.contains(&format!("- id: {id}\n")), "{id}");
        }

        let mut wanted = BTreeSet::new();
        let mut unwanted = 0;
        for payload in Payloads::own("of the test".into()).list {
            for tenant in TENANTS {
                let tenant = TenantId::new(tenant).expect("name");
                let ids = wanted_by(&tenant, &payload.event_type(), &payload.body);
                unwanted += usize::from(ids.is_empty());
                wanted.extend(ids.iter().map(|id| id.as_str().to_owned()));
            }
        }
        assert_eq!(wanted.iter().map(String::as_str).collect::<BTreeSet<_>>(), in_file);
        assert!(unwanted > 0);
    }

    /// The subscriptions of `tenant` in the file that want an event, asked of the filter engine.
    fn wanted_in_file(tenant: &Value, payload: &Payload) -> Vec<String> {
        let list = |value: &Value, key: &str| value[key].as_array().expect(key).clone();
        let mut wanted = Vec::new();
        for subscription in list(tenant, "apps").iter().flat_map(|app| list(app, "subscriptions")) {
            if !list(&subscription, "event_types").contains(&payload.event_type().into()) {
                continue;
            }
            let matches = subscription.get("filter").is_none_or(|filter| {
                let text = filter["pattern"].to_string();
                let filter = Filter::compile(&FilterSource { language: FilterLanguage::Pattern, text });
                let attributes = Attributes::default();
                let document = Document::new(&attributes, &payload.body);
                filter.expect("a filter").matches(&document).expect("an answer")
            });
            if matches {
                wanted.push(subscription["id"].as_str().expect("id").to_owned());
            }
        }
        wanted
    }

    #[test]
    fn the_plain_code_and_the_file_want_the_same() {
        let file: Value = serde_yaml_ng::from_str(&setup(1).text("http://127.0.0.1:1")).expect("YAML");
        for tenant in file["tenants"].as_array().expect("tenants") {
            let id = TenantId::new(tenant["id"].as_str().expect("id")).expect("name");
            for payload in Payloads::own("of the test".into()).list {
                let plain = wanted_by(&id, &payload.event_type(), &payload.body);
                let plain: Vec<String> = plain.iter().map(|id| id.as_str().to_owned()).collect();
                assert_eq!(plain, wanted_in_file(tenant, &payload), "{id}: {}", payload.event);
            }
        }
    }
}
