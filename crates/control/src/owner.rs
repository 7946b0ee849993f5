//! Mailbox key → what it belongs to now, and so which classes size it.
//!
//! A record's key does not say whether a delivery came from a subscription or was forwarded from an integration, and an
//! endpoint can be the target of both; then its mailbox is sized in more than one way, and all of them are named.

use std::sync::Arc;

use mailrail_limits::Counter;
use mailrail_store::{Directory, TenantView};
use mailrail_types::{ClassId, IntegrationId, Mailbox, MailboxClass, SourceMailbox, TenantId};

use crate::mailboxes::Queue;

/// A mailbox of one of the two queues.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Named {
    Source(SourceMailbox),
    Recipient(Mailbox),
}

/// A class that sizes a mailbox, and what is counted for it.
#[derive(Debug)]
pub(crate) struct SizedBy {
    /// As in the routing metric.
    pub(crate) surface: &'static str,
    pub(crate) integration: Option<IntegrationId>,
    pub(crate) class: Arc<MailboxClass>,
    pub(crate) counter: Counter,
}

impl Named {
    pub(crate) fn from_key(queue: Queue, key: &str) -> Option<Self> {
        match queue {
            Queue::Source => SourceMailbox::from_key(key).map(Named::Source),
            Queue::Recipient => Mailbox::from_key(key).map(Named::Recipient),
        }
    }

    pub(crate) fn tenant(&self) -> &TenantId {
        match self {
            Named::Source(mailbox) => &mailbox.tenant,
            Named::Recipient(mailbox) => &mailbox.tenant,
        }
    }

    /// Its bucket 0: what all of its buckets have in common.
    pub(crate) fn unsplit(mut self) -> Self {
        match &mut self {
            Named::Source(mailbox) => mailbox.bucket = 0,
            Named::Recipient(mailbox) => mailbox.bucket = 0,
        }
        self
    }

    /// What sizes it: mostly one, none when what it belongs to is not set up any more.
    pub(crate) fn sized_by(&self, directory: &Directory) -> Vec<SizedBy> {
        let Some(view) = directory.tenant(self.tenant()) else { return Vec::new() };
        match self {
            Named::Source(mailbox) => source(directory, &view, mailbox).into_iter().collect(),
            Named::Recipient(mailbox) => recipient(directory, &view, mailbox),
        }
    }
}

fn source(directory: &Directory, view: &TenantView, mailbox: &SourceMailbox) -> Option<SizedBy> {
    let class = match &mailbox.integration {
        Some(id) => mailrail_surfaces::integration_class(view.integrations.get(id)?),
        None => view.tenant.source_class.clone(),
    };
    Some(SizedBy {
        surface: "source",
        integration: mailbox.integration.clone(),
        class: directory.class(&class),
        counter: Counter::of_source(mailbox),
    })
}

fn recipient(directory: &Directory, view: &TenantView, mailbox: &Mailbox) -> Vec<SizedBy> {
    let event_type = mailbox.event_type.as_deref();
    let own = |class: &ClassId| SizedBy {
        surface: "product_event",
        integration: None,
        class: directory.class(class),
        counter: Counter::of_recipient(mailbox),
    };
    let endpoint = view.endpoints.get(&mailbox.endpoint);
    let subscribed = match event_type {
        Some(name) => {
            view.by_event_type.get(name).is_some_and(|all| all.iter().any(|s| s.endpoint == mailbox.endpoint))
        }
        None => view.subscriptions.values().any(|s| s.endpoint == mailbox.endpoint),
    };
    let mut found: Vec<SizedBy> =
        endpoint.filter(|_| subscribed).map(|it| own(&it.class)).into_iter().collect();
    let mut forwarding: Vec<_> = view
        .integrations
        .values()
        .filter(|it| it.cells.contains(&mailbox.endpoint))
        .filter(|it| event_type.is_none_or(|name| mailrail_surfaces::is_type_of(it.provider, name)))
        .collect();
    forwarding.sort_by(|a, b| a.id.cmp(&b.id));
    found.extend(forwarding.into_iter().map(|integration| {
        let counted = SourceMailbox {
            pipeline: mailbox.pipeline.clone(),
            region: mailbox.region.clone(),
            tenant: mailbox.tenant.clone(),
            integration: Some(integration.id.clone()),
            event_type: mailbox.event_type.clone(),
            bucket: 0,
        };
        SizedBy {
            surface: "forward",
            integration: Some(integration.id.clone()),
            class: directory.class(&mailrail_surfaces::integration_class(integration)),
            counter: Counter::of_source(&counted),
        }
    }));
    if found.is_empty() {
        // What brought it is not set up any more, but its recipient is.
        found.extend(endpoint.map(|it| own(&it.class)));
    }
    found
}
