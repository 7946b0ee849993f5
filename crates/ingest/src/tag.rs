//! Event → its source mailbox: which event type, which bucket.

use mailrail_limits::Counter;
use mailrail_store::TenantView;
use mailrail_surfaces::mailbox_type;
use mailrail_types::{ClassId, Event, MailboxKey};

use crate::service::FrontDoor;

/// An event that is about to be appended.
pub(crate) struct Tagged {
    pub(crate) event: Event,
    /// Key of its record, and what chooses its partition.
    pub(crate) mailbox: MailboxKey,
    /// What it counts for once it is accepted; `None`: it cannot use a split, or its class never changes width.
    pub(crate) counter: Option<Counter>,
}

/// The source mailbox of an event. A strict class has a fixed width and keeps all event types together: a key that moved
/// would reorder strict recipients further on. A tolerant one is split by the rate of each event type that the tenant
/// knows: a type that a sender made up never makes a mailbox.
pub(crate) async fn tag(door: &FrontDoor, sender: &TenantView, class: &ClassId, event: Event) -> Tagged {
    let class = door.directory.class(class);
    let in_set_up =
        |name: &str| sender.event_types.contains_key(name) || sender.by_event_type.contains_key(name);
    let source = door.sources.of(&event, mailbox_type(&class, &event, in_set_up));
    let routed = door.sizer.route(&class, &source.counter, event.ordering_key.as_deref()).await;
    door.mailboxes.routing.get_or_create(&routed.labels("source")).inc();
    let counts = class.tolerates_reordering && event.ordering_key.is_some();
    Tagged {
        mailbox: source.mailbox(routed.bucket).key(),
        counter: counts.then(|| source.counter.clone()),
        event,
    }
}
