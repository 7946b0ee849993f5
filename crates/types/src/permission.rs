//! Producer criteria: which apps may get an event that its producer marked as sensitive.

use crate::{App, Event};

/// The extension attribute that marks an event as sensitive. Its text names the permission that an app needs to get the event,
/// or several with a space between, of which it needs all.
pub const PERMISSION_ATTRIBUTE: &str = "mailrailpermission";
/// Most permissions of an app.
pub const PERMISSIONS_MAX: usize = 64;
/// Longest permission, in characters.
pub const PERMISSION_MAX_CHARS: usize = 64;

impl Event {
    /// Whether its producer asks for a permission.
    #[must_use]
    pub fn is_sensitive(&self) -> bool {
        self.attributes.extension(PERMISSION_ATTRIBUTE).is_some()
    }
}

impl App {
    /// Whether the app may get an event, as far as its producer has a say: it has every permission that the event asks for.
    /// What a subscription or its filter says has no part in it. A mark that names nothing lets nobody have the event.
    #[must_use]
    pub fn may_get(&self, event: &Event) -> bool {
        event.attributes.extension(PERMISSION_ATTRIBUTE).is_none_or(|needed| {
            needed.to_text().split(' ').all(|permission| self.permissions.contains(permission))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AppId, Attribute, AttributeValue, Attributes, EventId, TenantId, Timestamp};

    #[test]
    fn a17_an_app_needs_every_permission_that_the_event_names() {
        let permissions = ["payroll", "eu"].map(str::to_owned).into();
        let app = App { id: AppId::of("app"), name: String::new(), permissions };
        let event = |mark: Option<AttributeValue>| {
            let tenant = TenantId::of("acme");
            let extensions = mark.map(|value| Attribute { name: PERMISSION_ATTRIBUTE.to_owned(), value });
            Event {
                id: EventId::derive(&tenant, "/s", "1"),
                tenant,
                attributes: Attributes {
                    extensions: extensions.into_iter().collect(),
                    ..Attributes::default()
                },
                ordering_key: None,
                body: bytes::Bytes::new(),
                trace: None,
                accepted_at: Timestamp(0),
                setup_seq: 0,
                forwarded: None,
                unknown: bytes::Bytes::new(),
            }
        };
        let may = |text: &str| app.may_get(&event(Some(AttributeValue::String(text.to_owned()))));
        assert!(app.may_get(&event(None)) && !event(None).is_sensitive());
        assert!(may("payroll") && may("eu payroll"));
        for text in ["", " ", "pay", "Payroll", "payroll us", "payroll  eu", "*"] {
            assert!(!may(text), "{text:?}");
        }
        let mark = event(Some(AttributeValue::Boolean(true)));
        assert!(mark.is_sensitive() && !app.may_get(&mark));
    }
}
