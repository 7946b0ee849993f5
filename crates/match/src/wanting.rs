//! Who wants the events of one type of one tenant: what readers see of an index.

use std::sync::Arc;

use mailrail_filter::index::{IndexSnapshot, Scratch};
use mailrail_filter::{Document, Filter};
use mailrail_types::{Event, Subscription};

use crate::admission::Admission;
use crate::failures::Failures;

/// The subscriptions of one event type of a tenant at one moment. Never changes; shared in an `Arc`.
#[derive(Default)]
pub(crate) struct Wanting {
    /// Those that want every event, in order of their ids.
    pub(crate) unfiltered: Vec<Arc<Subscription>>,
    /// The others, by the number that their filter has in the index.
    pub(crate) filtered: Vec<Option<Arc<Subscription>>>,
    pub(crate) index: Arc<IndexSnapshot>,
    /// Filters that the index did not take: they are evaluated one by one.
    pub(crate) alone: Vec<(u32, Arc<Filter>)>,
    /// Those whose stored filter does not compile here.
    pub(crate) broken: Vec<u32>,
}

/// What matching works in, and what it came to beside matches.
pub(crate) struct Work<'s> {
    pub(crate) scratch: &'s mut Scratch,
    pub(crate) failures: Failures,
    /// Steps that evaluating took so far.
    pub(crate) steps: u64,
    /// Recipients whose apps may not get an event.
    pub(crate) denied: u64,
}

impl<'s> Work<'s> {
    /// Nothing was done yet.
    pub(crate) fn new(scratch: &'s mut Scratch) -> Self {
        Self { scratch, failures: Failures::default(), steps: 0, denied: 0 }
    }
}

impl Wanting {
    /// The subscriptions that get `event`, each once, in order of their ids. Allocates nothing when there is none.
    ///
    /// Whom `admission` does not let have it gets nothing, whatever the filter or its error policy says; the filter's failures
    /// are not noted either. The index may have looked at the filter before, which nobody can see.
    pub(crate) fn find(
        &self,
        event: &Event,
        admission: &Admission<'_>,
        work: &mut Work<'_>,
    ) -> Vec<Arc<Subscription>> {
        let may = |s: &&Arc<Subscription>| admission.admits(&s.app);
        let mut found: Vec<_> = self.unfiltered.iter().filter(may).cloned().collect();
        if self.filtered.is_empty() {
            return found;
        }
        let unfiltered = found.len();
        let of = |number: u32| self.filtered.get(number as usize).and_then(Option::as_ref).filter(may);
        let Work { scratch, failures, steps, .. } = work;
        let matches = self.index.matches(scratch, &event.attributes, &event.body);
        found.extend(matches.ids.iter().filter_map(|id| of(id.0)).cloned());
        for (id, error) in matches.failed {
            found.extend(of(id.0).filter(|s| failures.note(&event.tenant, s, error)).cloned());
        }
        *steps += scratch.effort().steps;
        if !self.alone.is_empty() {
            let document = Document::new(&event.attributes, &event.body);
            for (number, filter) in &self.alone {
                let gets = |s: &&Arc<Subscription>| {
                    filter.matches(&document).unwrap_or_else(|error| failures.note(&event.tenant, s, error))
                };
                found.extend(of(*number).filter(gets).cloned());
            }
        }
        for number in &self.broken {
            let problem = "its stored filter does not compile";
            found.extend(of(*number).filter(|s| failures.note(&event.tenant, s, problem)).cloned());
        }
        if found.len() > unfiltered {
            // The index gives them in no order. One order, whatever the index is like: deliveries of an event to one mailbox
            // are the same when it is matched again.
            found.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        }
        found
    }
}
