//! An integration: a third party's webhooks, taken as they are and forwarded to cells.

use crate::{ClassId, EndpointId, IntegrationId, Secret, TenantId};

/// Third parties whose webhooks are understood. What is known of each is in crate `surfaces`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Provider {
    /// GitHub and GitHub Enterprise.
    GitHub,
    /// GitLab.
    GitLab,
    /// Jira Cloud and Server.
    Jira,
    /// Azure DevOps.
    AzureDevOps,
    /// Anybody else.
    Generic,
}

impl Provider {
    /// All of them.
    pub const ALL: [Provider; 5] =
        [Provider::GitHub, Provider::GitLab, Provider::Jira, Provider::AzureDevOps, Provider::Generic];

    /// The name in URLs, files and records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Provider::GitHub => "github",
            Provider::GitLab => "gitlab",
            Provider::Jira => "jira",
            Provider::AzureDevOps => "azure_devops",
            Provider::Generic => "generic",
        }
    }

    /// The provider with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }
}

/// A third party's webhooks, forwarded byte for byte to cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Integration {
    /// Its id, unique within the tenant.
    pub id: IntegrationId,
    /// Who sends.
    pub provider: Provider,
    /// Secrets that the provider signs with, newest first; none: signatures are not checked.
    pub secrets: Vec<Secret>,
    /// Endpoints that each webhook is forwarded to, one delivery each.
    pub cells: Vec<EndpointId>,
    /// Class of its mailboxes; `None`: the provider's.
    pub class: Option<ClassId>,
}

/// Traffic of third parties that is turned away for now. Every rule names a provider, so that a rule with a mistake in it
/// cannot turn away everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ShedRule {
    /// Whose webhooks.
    pub provider: Provider,
    /// Of this tenant only.
    pub tenant: Option<TenantId>,
    /// Of integrations with this id only.
    pub integration: Option<IntegrationId>,
}

impl ShedRule {
    /// Whether webhooks that come in by `integration` are turned away.
    #[must_use]
    pub fn covers(&self, provider: Provider, tenant: &TenantId, integration: &IntegrationId) -> bool {
        self.provider == provider
            && self.tenant.as_ref().is_none_or(|named| named == tenant)
            && self.integration.as_ref().is_none_or(|named| named == integration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shed_rule_covers_what_it_names_and_nothing_else() {
        let (acme, main) = (TenantId::of("acme"), IntegrationId::of("main"));
        let rule = |tenant: Option<&TenantId>, integration: Option<&IntegrationId>| ShedRule {
            provider: Provider::GitHub,
            tenant: tenant.cloned(),
            integration: integration.cloned(),
        };
        for all in [
            rule(None, None),
            rule(Some(&acme), None),
            rule(None, Some(&main)),
            rule(Some(&acme), Some(&main)),
        ] {
            assert!(all.covers(Provider::GitHub, &acme, &main), "{all:?}");
            assert!(!all.covers(Provider::GitLab, &acme, &main), "{all:?}");
        }
        assert!(!rule(Some(&acme), None).covers(Provider::GitHub, &TenantId::of("globex"), &main));
        assert!(!rule(None, Some(&main)).covers(Provider::GitHub, &acme, &IntegrationId::of("other")));
    }

    #[test]
    fn provider_names_are_read_back() {
        for provider in Provider::ALL {
            assert_eq!(Provider::from_name(provider.name()), Some(provider));
        }
        assert_eq!(Provider::from_name("GitHub"), None);
    }
}
