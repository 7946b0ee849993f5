//! What an event's producer has to say: who may get it at all.

use std::cell::Cell;

use mailrail_store::TenantView;
use mailrail_types::{AppId, Event};

/// Asks for each recipient, before anything else is asked of it, whether its app may get the event.
pub(crate) struct Admission<'a> {
    event: &'a Event,
    view: &'a TenantView,
    /// Most events are not: then nothing is looked up.
    is_sensitive: bool,
    denied: Cell<u64>,
}

impl<'a> Admission<'a> {
    /// To this event, by the permissions that the apps of `view` have.
    pub(crate) fn new(event: &'a Event, view: &'a TenantView) -> Self {
        Self { event, view, is_sensitive: event.is_sensitive(), denied: Cell::new(0) }
    }

    /// Whether recipients of this app may get the event. One that may not is counted.
    pub(crate) fn admits(&self, app: &AppId) -> bool {
        let admits = !self.is_sensitive || self.view.apps.get(app).is_some_and(|app| app.may_get(self.event));
        self.denied.update(|denied| denied + u64::from(!admits));
        admits
    }

    /// How many were not admitted.
    pub(crate) fn denied(&self) -> u64 {
        self.denied.get()
    }
}
