//! The demo's set-up: its file, what the receiver must know of it, and what it wants, told without the filter engine.

#[cfg(test)]
mod tests;
mod wanted;

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mailrail_types::{EndpointId, IdError, IntegrationId, SubscriptionId, TenantId};
use rand::Rng;

pub use wanted::wanted_by;

use crate::books::Recipient;
use crate::receiver::{Behaviour, ReceiverEndpoint, Rule};

/// The file, with places to fill in. It shows the format too.
const TEMPLATE: &str = include_str!("../../setup.yaml");

/// The demo's tenants.
pub const TENANTS: [&str; 2] = ["acme", "globex"];

/// Receiver endpoint: its tenant, and its id there. Its place in the file is `TENANT_ID_SECRET`.
const ENDPOINTS: [(&str, &str); 9] = [
    ("acme", "shop"),
    ("acme", "audit"),
    ("acme", "activity"),
    ("acme", PROMPT_CELL),
    ("acme", SLOW_CELL),
    ("globex", "ci"),
    ("globex", "news"),
    ("globex", "crm"),
    ("globex", "operations"),
];

/// The endpoints that the file makes strict.
const STRICT: [(&str, &str); 4] = [("acme", "shop"), ("acme", "audit"), ("globex", "ci"), ("globex", "news")];

/// The cell that answers at once.
const PROMPT_CELL: &str = "cell-eu";

/// The cell that does not.
const SLOW_CELL: &str = "cell-us";

/// How long the slow cell takes: one mailbox of it gets through 10 webhooks a second, and more come in.
const SLOW_ANSWER: Duration = Duration::from_millis(100);

/// The tenant and the integration whose webhooks are forwarded.
const INTEGRATION: (&str, &str) = ("acme", "code");

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

/// An integration, as the third party knows it, and where its webhooks go.
#[derive(Clone)]
pub struct Hook {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its id.
    pub integration: IntegrationId,
    /// What the third party signs with.
    pub secret: String,
    /// The endpoints that get a copy each, as that which a delivery follows from.
    pub cells: Vec<SubscriptionId>,
}

impl Hook {
    /// Where the third party posts.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/v1/inbound/github/{}:{}", self.tenant, self.integration)
    }

    /// `source` of its events.
    #[must_use]
    pub fn source(&self) -> String {
        format!("/inbound/github/{}", self.integration)
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// The set-up of one run, with secrets of its own.
#[derive(Clone)]
pub struct Setup {
    tokens: [String; TENANTS.len()],
    secrets: [String; ENDPOINTS.len()],
    hook_secret: String,
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
            hook_secret: base32.encode(&bytes()).to_ascii_lowercase(),
        }
    }

    /// The set-up file, for a receiver at `receiver` (`http://ADDRESS`). Holds secrets.
    #[must_use]
    pub fn text(&self, receiver: &str) -> String {
        let mut text = TEMPLATE.replace("${RECEIVER}", receiver.trim_end_matches('/'));
        let mut fill = |place: String, value: &str| text = text.replace(&format!("${{{place}}}"), value);
        for (tenant, token) in TENANTS.iter().zip(&self.tokens) {
            fill(place(&[tenant, "token"]), token);
        }
        for ((tenant, id), secret) in ENDPOINTS.iter().zip(&self.secrets) {
            fill(place(&[tenant, id, "secret"]), secret);
        }
        fill(place(&[INTEGRATION.0, INTEGRATION.1, "secret"]), &self.hook_secret);
        text
    }

    /// The receiver's side of it.
    #[must_use]
    pub fn receiver_endpoints(&self) -> Vec<ReceiverEndpoint> {
        ENDPOINTS
            .iter()
            .zip(&self.secrets)
            .map(|((tenant, id), secret)| {
                let (delay, rule) = match (*tenant, *id) {
                    ("acme", SLOW_CELL) => (SLOW_ANSWER, Rule::Ok),
                    ("acme", "audit" | "activity") => {
                        (Duration::ZERO, Rule::EveryDelivery { nth: 7, status: 503 })
                    }
                    ("globex", "crm") => {
                        let (pointer, value) = ("/action".to_owned(), "deleted".to_owned());
                        (Duration::ZERO, Rule::Field { pointer, value, status: 400 })
                    }
                    _ => (Duration::ZERO, Rule::Ok),
                };
                let behaviour = Behaviour { delay, rule, ..Behaviour::default() };
                ReceiverEndpoint { name: format!("{tenant}-{id}"), secret: secret.clone(), behaviour }
            })
            .collect()
    }

    /// The endpoints whose order is kept.
    ///
    /// # Errors
    /// Never, for the names above.
    pub fn strict(&self) -> Result<HashSet<Recipient>, IdError> {
        STRICT.iter().map(|(tenant, id)| Ok((TenantId::new(tenant)?, EndpointId::new(id)?))).collect()
    }

    /// The integration.
    ///
    /// # Errors
    /// Never, for the names above.
    pub fn hook(&self) -> Result<Hook, IdError> {
        Ok(Hook {
            tenant: TenantId::new(INTEGRATION.0)?,
            integration: IntegrationId::new(INTEGRATION.1)?,
            secret: self.hook_secret.clone(),
            cells: vec![SubscriptionId::new(PROMPT_CELL)?, SubscriptionId::new(SLOW_CELL)?],
        })
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

/// `${ACME_CELL_EU_SECRET}`, without what is around the name.
fn place(parts: &[&str]) -> String {
    parts.join("_").to_ascii_uppercase().replace('-', "_")
}

/// The receiver's names of the two cells: the prompt one, and the slow one.
pub(crate) fn cells() -> [String; 2] {
    [PROMPT_CELL, SLOW_CELL].map(|id| format!("{}-{id}", INTEGRATION.0))
}
