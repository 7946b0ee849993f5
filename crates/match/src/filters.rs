//! Compiled filters, kept from event to event.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mailrail_filter::Filter;
use mailrail_store::TenantView;
use mailrail_types::{FilterSource, SubscriptionId, TenantId};

/// Tenants whose filters are kept. Beyond it the map starts afresh: a recompilation costs microseconds, and a bound that is
/// never met in practice needs no finer rule.
const TENANTS_MAX: usize = 100_000;

/// Filters of one tenant at one position of the change feed. `None`: the stored text does not compile.
type Compiled = Arc<HashMap<SubscriptionId, Option<Filter>>>;

/// Compiled once for each version of a tenant's set-up.
#[derive(Default)]
pub(crate) struct Filters {
    tenants: Mutex<HashMap<TenantId, (u64, Compiled)>>,
}

impl Filters {
    /// The compiled filters of this version of the tenant. Subscriptions without a filter are not in it.
    pub(crate) fn of(&self, view: &TenantView) -> Compiled {
        if let Some((seq, compiled)) = self.lock().get(&view.tenant.id)
            && *seq == view.seq
        {
            return compiled.clone();
        }
        // Outside the lock: other tenants' events must not wait for this one's filters. Two partitions may do it twice.
        let compiled: Compiled = Arc::new(
            view.subscriptions
                .values()
                .filter_map(|s| s.filter.as_ref().map(|f| (s.id.clone(), compile(&view.tenant.id, &s.id, f))))
                .collect(),
        );
        let mut tenants = self.lock();
        if tenants.len() >= TENANTS_MAX {
            tenants.clear();
        }
        tenants.insert(view.tenant.id.clone(), (view.seq, compiled.clone()));
        compiled
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TenantId, (u64, Compiled)>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Control refuses a filter that does not compile; one that is stored nevertheless (written by a newer version, say) must
/// not touch any other subscription.
fn compile(tenant: &TenantId, subscription: &SubscriptionId, source: &FilterSource) -> Option<Filter> {
    Filter::compile(source)
        .inspect_err(|error| {
            tracing::error!(%tenant, %subscription, %error, "stored filter does not compile; its subscription gets nothing");
        })
        .ok()
}
