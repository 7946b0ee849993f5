//! The view in memory that roles use. It follows the change feed and survives the store's absence.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use mailrail_types::{
    ApiKey, ClassId, Integration, IntegrationId, MailboxClass, Provider, ShedRule, TenantId,
};
use subtle::ConstantTimeEq;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::installation::Installation;
use crate::read::StoredTenant;
use crate::store::Snapshot;
use crate::token::{self, TokenHash};
use crate::{Error, Store, TenantView};

/// Between two warnings about a position that is waited for.
const REACHED_ALARM: Duration = Duration::from_secs(30);
/// How often the feed is read. A quarter of a second is soon enough for a person who saves a change, and four reads of
/// an index a second per process are nothing for a database. Writes of this process do not wait for it.
const POLL: Duration = Duration::from_millis(250);
/// Longest pause after failures: a store that comes back is noticed within it.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Changes read at once: bounds how many tenants one step reloads.
const BATCH: u32 = 1_000;
/// Missing classes that are remembered as warned of. Classes that exist cannot be deleted while they are named, so there
/// is hardly ever one.
const WARNED_MAX: usize = 64;

/// Tenants and API keys in memory. All reads are lock-free and never wait for the store.
#[derive(Debug)]
pub struct Directory {
    store: Store,
    state: ArcSwap<State>,
    /// Position of `state`, sent after it was swapped in.
    seq: watch::Sender<u64>,
    current: AtomicBool,
    /// Missing classes that the log knows of: they are asked for with every record.
    warned: Mutex<HashSet<ClassId>>,
}

#[derive(Debug, Clone, Default)]
struct State {
    seq: u64,
    tenants: HashMap<TenantId, Arc<TenantView>>,
    keys: HashMap<TokenHash, ApiKey>,
    /// Tenants that have an integration of this provider and id: the third party's request names no tenant.
    integrations: HashMap<(Provider, IntegrationId), Vec<TenantId>>,
    classes: Arc<HashMap<ClassId, Arc<MailboxClass>>>,
    shed: Arc<Vec<ShedRule>>,
}

impl State {
    /// Puts what was read of some tenants in place of what was known; `None`: it is gone.
    fn replace(&mut self, found: Vec<(TenantId, Option<StoredTenant>)>, seq: u64) {
        let ids: HashSet<_> = found.iter().map(|(id, _)| id).collect();
        self.keys.retain(|_, key| !ids.contains(&key.tenant));
        let former: HashMap<_, _> = self.tenants.extract_if(|id, _| ids.contains(id)).collect();
        self.integrations.retain(|_, tenants| {
            tenants.retain(|tenant| !ids.contains(tenant));
            !tenants.is_empty()
        });
        for stored in found.into_iter().filter_map(|(_, stored)| stored) {
            let former = former.get(&stored.tenant.id).map(|view| &**view);
            self.insert(stored, seq, former);
        }
    }

    /// Takes what is read anew each time; what is equal keeps its place in memory.
    fn take(&mut self, installation: Installation) {
        let known = |(id, class): (ClassId, MailboxClass)| {
            let same = self.classes.get(&id).filter(|same| ***same == class).map(Arc::clone);
            (id, same.unwrap_or_else(|| Arc::new(class)))
        };
        self.classes = Arc::new(installation.classes.into_iter().map(known).collect());
        if *self.shed != installation.shed {
            self.shed = Arc::new(installation.shed);
        }
    }

    fn insert(&mut self, stored: StoredTenant, seq: u64, former: Option<&TenantView>) {
        let tenant = stored.tenant.id.clone();
        for (id, hash) in &stored.keys {
            self.keys.insert(*hash, ApiKey { id: id.clone(), tenant: tenant.clone() });
        }
        let view = stored.into_view(seq, former);
        for integration in view.integrations.values() {
            let named = (integration.provider, integration.id.clone());
            self.integrations.entry(named).or_default().push(tenant.clone());
        }
        self.tenants.insert(tenant, Arc::new(view));
    }
}

impl Directory {
    /// Reads everything. It fails on a damaged row too: to go on without a tenant would lose its mail.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Damaged`].
    pub async fn load(store: Store) -> Result<Arc<Directory>, Error> {
        let state = read_everything(&store).await?;
        let seq = watch::Sender::new(state.seq);
        Ok(Arc::new(Directory {
            store,
            state: ArcSwap::from_pointee(state),
            seq,
            current: AtomicBool::new(true),
            warned: Mutex::default(),
        }))
    }

    /// Follows the change feed until `stop`. While the store fails, the last known state stays, [`Self::is_current`] is
    /// false, and it tries again with growing pauses, at most 5 s.
    pub async fn follow(self: Arc<Self>, stop: CancellationToken) {
        let mut written = self.store.written();
        let mut pause = POLL;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                // The sender lives in our own store: it is never closed before us.
                _ = written.changed() => {}
            }
            let step = tokio::select! {
                () = stop.cancelled() => return,
                step = self.catch_up() => step,
            };
            let current = step.is_ok();
            let was_current = self.current.swap(current, Ordering::AcqRel);
            match step {
                Ok(()) if !was_current => tracing::info!(seq = self.seq(), "the directory is current again"),
                Ok(()) => {}
                Err(error) => {
                    tracing::warn!(%error, seq = self.seq(), "the directory keeps its last known state");
                }
            }
            pause = if current { POLL } else { (pause * 2).min(PAUSE_MAX) };
        }
    }

    /// Position of the change feed that this view has reached. It goes back only when the database itself did.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.state.load().seq
    }

    /// Returns when [`Self::seq`] is at least `seq`. Waits as long as the store is away, and says so now and then; a store
    /// that was restored from a backup must first pass `seq` again.
    pub async fn reached(&self, seq: u64) {
        let mut changes = self.seq.subscribe();
        while tokio::time::timeout(REACHED_ALARM, changes.wait_for(|reached| *reached >= seq)).await.is_err()
        {
            tracing::warn!(
                wanted = seq,
                seen = self.seq(),
                "records wait for a set-up that this process has not seen"
            );
        }
    }

    /// Returns when [`Self::seq`] is beyond `seq`: something changed since. Waits for ever when nothing does. Cancel safe.
    pub async fn changed_since(&self, seq: u64) {
        let mut changes = self.seq.subscribe();
        if changes.wait_for(|reached| *reached > seq).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Tells of every new state by its position, also when the database went back. Look at what it holds before the state is
    /// read: then no change is missed.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.seq.subscribe()
    }

    /// A tenant.
    #[must_use]
    pub fn tenant(&self, id: &TenantId) -> Option<Arc<TenantView>> {
        self.state.load().tenants.get(id).map(Arc::clone)
    }

    /// Every tenant, in no order.
    #[must_use]
    pub fn tenants(&self) -> Vec<Arc<TenantView>> {
        self.state.load().tenants.values().map(Arc::clone).collect()
    }

    /// The integration of `provider` with this id, whosever it is; `None` as well when two tenants have one.
    #[must_use]
    pub fn integration(
        &self,
        provider: Provider,
        id: &IntegrationId,
    ) -> Option<(Arc<TenantView>, Arc<Integration>)> {
        let state = self.state.load();
        let [tenant] = state.integrations.get(&(provider, id.clone()))?.as_slice() else { return None };
        let view = state.tenants.get(tenant)?;
        Some((Arc::clone(view), Arc::clone(view.integrations.get(id)?)))
    }

    /// A class of mailboxes. One that is missing, which only a damaged database can bring about, is strict with default
    /// options: that gives up speed and never order.
    #[must_use]
    pub fn class(&self, id: &ClassId) -> Arc<MailboxClass> {
        if let Some(class) = self.state.load().classes.get(id) {
            return Arc::clone(class);
        }
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.len() < WARNED_MAX && warned.insert(id.clone()) {
            tracing::warn!(class = %id, "the class does not exist: its mailboxes are strict");
        }
        Arc::new(MailboxClass::with_defaults(id.clone(), false))
    }

    /// The traffic of third parties that is turned away now.
    #[must_use]
    pub fn shed(&self) -> Arc<Vec<ShedRule>> {
        Arc::clone(&self.state.load().shed)
    }

    /// The API key with this token. What the time of the lookup tells is about the token's hash, which does not help to
    /// find a token; the comparison itself takes the same time for any hash.
    #[must_use]
    pub fn authenticate(&self, token: &str) -> Option<ApiKey> {
        let hash = token::hash(token);
        let state = self.state.load();
        let (known, key) = state.keys.get_key_value(&hash)?;
        bool::from(known.ct_eq(&hash)).then(|| key.clone())
    }

    /// Whether the last read of the feed succeeded.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.current.load(Ordering::Acquire)
    }

    /// Brings the view to the end of the feed.
    async fn catch_up(&self) -> Result<(), Error> {
        loop {
            let last = self.seq();
            // The change at `last` is asked for again: when it is missing, the feed was trimmed past us or the database
            // was set back, and single changes do not lead from here to there.
            let changes = self.store.changes_from(last, BATCH).await?;
            let anchored = match changes.first() {
                Some(first) => first.seq == last || (last == 0 && first.seq == 1),
                None => last == 0,
            };
            if !anchored {
                tracing::warn!(seq = last, "the change feed has a gap: reading everything again");
                self.publish(read_everything(&self.store).await?);
                continue;
            }
            let Some(newest) = changes.last().map(|change| change.seq).filter(|newest| *newest > last) else {
                return Ok(());
            };
            let changed: HashSet<_> = changes
                .iter()
                .filter(|change| change.seq > last)
                .filter_map(|change| change.tenant.as_ref())
                .collect();
            let Snapshot { seq, installation, tenants } = self.store.read_some(changed).await?;
            let mut state = State::clone(&self.state.load());
            state.take(installation);
            state.replace(tenants, seq);
            // Not that of the snapshot: it may have changes of tenants that were not in this batch.
            state.seq = newest;
            self.publish(state);
        }
    }

    fn publish(&self, state: State) {
        let seq = state.seq;
        self.state.store(Arc::new(state));
        self.seq.send_replace(seq);
    }
}

async fn read_everything(store: &Store) -> Result<State, Error> {
    let Snapshot { seq, installation, tenants } = store.read_all().await?;
    let mut state = State { seq, ..State::default() };
    state.take(installation);
    state.replace(tenants, seq);
    Ok(state)
}
