//! Sources: what all events of one tenant, integration and event type have in common, kept so that an event does not make
//! the names anew.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use mailrail_limits::Counter;
use mailrail_types::{Event, IntegrationId, SourceMailbox, TenantId};

use crate::config::Config;

/// Most sources that are kept, some 400 bytes each. Beyond it all are forgotten and made again as they come: that costs a
/// microsecond each, and a bound that is never met in practice needs no finer rule.
const SOURCES_MAX: usize = 65_536;

/// What events of one source have in common.
#[derive(Debug)]
pub(crate) struct Source {
    mailbox: SourceMailbox,
    /// What its events are counted under.
    pub(crate) counter: Counter,
}

/// The sources that events came from.
#[derive(Debug)]
pub(crate) struct Sources {
    pipeline: Arc<str>,
    region: Arc<str>,
    sources_max: usize,
    kept: RwLock<Kept>,
}

/// Of one tenant: by integration and event type, each empty where there is none, so that a look-up needs no text of its own.
type OfTenant = HashMap<Box<str>, HashMap<Box<str>, Arc<Source>>>;

#[derive(Debug, Default)]
struct Kept {
    tenants: HashMap<TenantId, OfTenant>,
    sources: usize,
}

impl Source {
    /// The mailbox of its events with this bucket.
    pub(crate) fn mailbox(&self, bucket: u32) -> SourceMailbox {
        SourceMailbox { bucket, ..self.mailbox.clone() }
    }
}

impl Sources {
    /// None yet.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            pipeline: config.pipeline.as_str().into(),
            region: config.region.as_str().into(),
            sources_max: SOURCES_MAX,
            kept: RwLock::default(),
        }
    }

    /// The source of an event. `event_type` is the one that its mailbox carries: of a known set, never a text that a sender
    /// made up.
    pub(crate) fn of(&self, event: &Event, event_type: Option<&str>) -> Arc<Source> {
        let integration = event.forwarded.as_ref().map(|forwarded| &forwarded.integration);
        let (of_integration, of_type) =
            (integration.map_or("", IntegrationId::as_str), event_type.unwrap_or_default());
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        let found = kept.tenants.get(&event.tenant).and_then(|it| it.get(of_integration)?.get(of_type));
        if let Some(source) = found {
            return Arc::clone(source);
        }
        drop(kept);
        let source = Arc::new(self.make(event, event_type));
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if kept.sources >= self.sources_max {
            *kept = Kept::default();
        }
        let of_tenant = kept.tenants.entry(event.tenant.clone()).or_default();
        let replaced =
            of_tenant.entry(of_integration.into()).or_default().insert(of_type.into(), Arc::clone(&source));
        kept.sources += usize::from(replaced.is_none());
        source
    }

    fn make(&self, event: &Event, event_type: Option<&str>) -> Source {
        let mailbox = SourceMailbox {
            pipeline: Arc::clone(&self.pipeline),
            region: Arc::clone(&self.region),
            tenant: event.tenant.clone(),
            integration: event.forwarded.as_ref().map(|forwarded| forwarded.integration.clone()),
            event_type: event_type.map(Arc::from),
            bucket: 0,
        };
        Source { counter: Counter::of_source(&mailbox), mailbox }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use mailrail_types::{Attributes, EventId, Forwarded, PartitionCount, Provider, Timestamp};

    use super::*;

    fn event(tenant: &'static str, integration: Option<&'static str>) -> Event {
        let tenant = TenantId::of(tenant);
        Event {
            id: EventId::derive(&tenant, "/s", "1"),
            tenant,
            attributes: Attributes::default(),
            ordering_key: None,
            body: Bytes::new(),
            trace: None,
            accepted_at: Timestamp::ZERO,
            setup_seq: 0,
            forwarded: integration.map(|integration| {
                Box::new(Forwarded {
                    provider: Provider::GitHub,
                    integration: IntegrationId::of(integration),
                    method: "POST".to_owned(),
                    path: String::new(),
                    headers: Vec::new(),
                })
            }),
            unknown: Bytes::new(),
        }
    }

    fn sources() -> Sources {
        let partitions = PartitionCount(std::num::NonZeroU32::MIN);
        Sources::new(&Config::new("default".to_owned(), "events".to_owned(), partitions))
    }

    #[test]
    fn each_source_is_made_once_and_none_is_taken_for_another() {
        let sources = sources();
        let cases = [
            ("a", None, None),
            ("a", None, Some("push")),
            ("a", Some("push"), None),
            ("a", Some("gh"), Some("push")),
            ("b", None, Some("push")),
        ];
        let all: Vec<_> = cases.iter().map(|(t, i, e)| sources.of(&event(t, *i), *e)).collect();
        let names: std::collections::HashSet<_> = all.iter().map(|it| it.counter.clone()).collect();
        assert_eq!(names.len(), cases.len());
        for ((tenant, integration, event_type), first) in cases.iter().zip(&all) {
            let again = sources.of(&event(tenant, *integration), *event_type);
            assert!(Arc::ptr_eq(first, &again), "{tenant} {integration:?} {event_type:?}");
            let mailbox = again.mailbox(7);
            assert_eq!((mailbox.tenant.as_str(), mailbox.bucket), (*tenant, 7));
            assert_eq!(mailbox.integration.as_ref().map(IntegrationId::as_str), *integration);
            assert_eq!(mailbox.event_type.as_deref(), *event_type);
            assert_eq!(again.counter, Counter::of_source(&mailbox));
        }
    }

    #[test]
    fn any_number_of_sources_takes_bounded_room() {
        let sources = Sources { sources_max: 3, ..sources() };
        for n in 0..10 {
            let name = n.to_string();
            let made = sources.of(&event("a", None), Some(&name));
            assert_eq!(made.mailbox(0).event_type.as_deref(), Some(&*name));
            assert!(sources.kept.read().expect("no panic").sources <= 3);
        }
    }
}
