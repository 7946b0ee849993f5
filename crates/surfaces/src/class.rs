//! Which class the mailboxes of a recipient have.

use mailrail_types::{ClassId, Endpoint, Event, Integration, MailboxClass};

use crate::preset::preset;

/// The class of an integration's mailboxes: its own choice, else the provider's preset.
#[must_use]
pub fn integration_class(integration: &Integration) -> ClassId {
    integration.class.clone().unwrap_or_else(|| {
        let tolerates = preset(integration.provider).tolerates_reordering;
        ClassId::of(if tolerates { MailboxClass::TOLERANT } else { MailboxClass::STRICT })
    })
}

/// The class of the mailbox that `event` is in on its way to `endpoint`: that of the integration that brought it, else the
/// endpoint's. `None` when the one that decides is not set up any more.
#[must_use]
pub fn mailbox_class(
    event: &Event,
    endpoint: Option<&Endpoint>,
    integration: Option<&Integration>,
) -> Option<ClassId> {
    match event.forwarded {
        Some(_) => integration.map(integration_class),
        None => endpoint.map(|endpoint| endpoint.class.clone()),
    }
}

#[cfg(test)]
mod tests {
    use mailrail_types::{IntegrationId, Provider};

    use super::*;
    use crate::preset::Preset;

    /// S26: no provider has a width of its own. Each has one of two classes, by whether it tolerates reordering, unless its integration
    /// names another; a width follows from the options of the class.
    #[test]
    fn s26_a_width_is_of_a_class_and_never_of_a_provider() {
        for provider in Provider::ALL {
            let of = |class| {
                let id = IntegrationId::of("i");
                integration_class(&Integration { id, provider, secrets: vec![], cells: vec![], class })
            };
            let tolerates = preset(provider).tolerates_reordering;
            let shared = if tolerates { MailboxClass::TOLERANT } else { MailboxClass::STRICT };
            assert_eq!(of(None), ClassId::of(shared), "{provider:?}");
            assert_eq!(of(Some(ClassId::of("mine"))), ClassId::of("mine"), "{provider:?}");
            // All that a preset says of mailboxes is this one attribute. A new field has to be named here.
            let Preset {
                tolerates_reordering: _,
                key: _,
                event_type: _,
                event_types: _,
                delivery_id: _,
                kept_headers: _,
            } = preset(provider);
        }
    }

    #[test]
    fn the_integrations_own_class_goes_before_the_providers() {
        let of = |provider, class: Option<&'static str>| {
            let class = class.map(ClassId::of);
            let id = IntegrationId::of("i");
            integration_class(&Integration { id, provider, secrets: vec![], cells: vec![], class })
        };
        for (provider, class) in [
            (Provider::GitHub, "tolerant"),
            (Provider::GitLab, "tolerant"),
            (Provider::Jira, "strict"),
            (Provider::AzureDevOps, "strict"),
            (Provider::Generic, "strict"),
        ] {
            assert_eq!(of(provider, None).as_str(), class, "{provider:?}");
            assert_eq!(of(provider, Some("mine")).as_str(), "mine");
        }
    }
}
