//! (tenant, event type) → who wants it. Most events end here: one look-up, and nobody wants them.
//!
//! Readers take what is there and are never locked out: a change puts a new stripe in place of the old one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use mailrail_filter::index::ShardTable;
use mailrail_store::TenantView;
use mailrail_types::TenantId;
use tokio::sync::watch;
use xxhash_rust::xxh3::xxh3_64;

use crate::wanting::Wanting;

/// Parts that are replaced as a whole: a change of one tenant costs a copy of what it shares a part with. With a million event
/// types in all, that is some four thousand names.
pub(crate) const STRIPES: usize = 256;

/// One event type of a tenant.
pub(crate) struct Shard {
    /// The set-up that `wanting` is of: what a delivery says and where it goes comes from one version.
    pub(crate) view: Arc<TenantView>,
    pub(crate) wanting: Arc<Wanting>,
}

/// Everybody's subscriptions, as readers see them.
pub(crate) struct Table {
    stripes: Vec<ArcSwap<ShardTable<Shard>>>,
    /// Position of the set-up that all of `stripes` have reached.
    seq: AtomicU64,
    /// Sent after `seq` was set.
    reached: watch::Sender<u64>,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            stripes: (0..STRIPES).map(|_| ArcSwap::from_pointee(ShardTable::default())).collect(),
            seq: AtomicU64::new(0),
            reached: watch::Sender::new(0),
        }
    }
}

/// The stripe of a tenant.
pub(crate) fn stripe_of(tenant: &TenantId) -> usize {
    // Bits that the tables within do not begin with.
    (xxh3_64(tenant.as_str().as_bytes()) >> 32) as usize % STRIPES
}

impl Table {
    /// Looks at who wants a tenant's events of a type; `None`: nobody does.
    pub(crate) fn with<T>(
        &self,
        tenant: &TenantId,
        event_type: &str,
        look: impl FnOnce(&Shard) -> T,
    ) -> Option<T> {
        self.stripes[stripe_of(tenant)].load().get(tenant.as_str(), event_type).map(look)
    }

    /// Position of the set-up that it has reached. Goes back only when the database itself did.
    pub(crate) fn seq(&self) -> u64 {
        self.seq.load(Ordering::Acquire)
    }

    /// Returns when [`Self::seq`] is at least `seq`.
    pub(crate) async fn reached(&self, seq: u64) {
        if self.reached.subscribe().wait_for(|reached| *reached >= seq).await.is_err() {
            // Not while it is borrowed.
            std::future::pending::<()>().await;
        }
    }

    /// How many event types of all tenants have an entry.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.stripes.iter().map(|stripe| stripe.load().len()).sum()
    }

    /// Puts a stripe in place.
    pub(crate) fn replace(&self, stripe: usize, shards: ShardTable<Shard>) {
        self.stripes[stripe].store(Arc::new(shards));
    }

    /// Says that all stripes have reached `seq`.
    pub(crate) fn set_seq(&self, seq: u64) {
        self.seq.store(seq, Ordering::Release);
        self.reached.send_replace(seq);
    }
}
