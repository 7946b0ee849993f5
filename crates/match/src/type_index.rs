//! The writer's side of one event type of a tenant: takes in what changed, gives readers the next [`Wanting`].

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use mailrail_filter::Filter;
use mailrail_filter::index::{Change, FilterId, Index, IndexOptions, MergeJob, Merged};
use mailrail_types::{Subscription, TenantId};

use crate::wanting::Wanting;

/// Filters that are compiled before the index takes them in: compiled, they are much larger than what the index keeps.
const COMPILED_MAX: usize = 1_024;

/// Subscriptions of one event type of a tenant, as their writer has them.
///
/// They are told apart by where they stand in memory: the directory leaves those that did not change where they are, and
/// `filtered` keeps each there for as long as `numbers` has its address.
#[derive(Default)]
pub(crate) struct TypeIndex {
    index: Index,
    numbers: HashMap<usize, u32>,
    /// By number.
    filtered: Vec<Option<Arc<Subscription>>>,
    /// Numbers that nobody has.
    free: Vec<u32>,
    /// Filters that the index did not take.
    alone: BTreeMap<u32, Arc<Filter>>,
    /// Those whose stored filter does not compile.
    broken: BTreeSet<u32>,
    /// Filters were taken out since everything was built: the index may hold paths that no filter uses any more.
    has_lost: bool,
    wanting: Arc<Wanting>,
}

impl TypeIndex {
    /// What readers get.
    pub(crate) fn wanting(&self) -> Arc<Wanting> {
        self.wanting.clone()
    }

    /// Takes the subscriptions of the type as they are now, in order of their ids. Few changes are added to what is there;
    /// if most of it changed, everything is built in one piece.
    pub(crate) fn update(&mut self, tenant: &TenantId, now: &[Arc<Subscription>]) {
        let filtered: Vec<_> = now.iter().filter(|s| s.filter.is_some()).collect();
        let added: Vec<_> =
            filtered.iter().filter(|s| !self.numbers.contains_key(&address(s))).copied().collect();
        if added.len() * 2 > filtered.len() {
            self.build(tenant, &filtered);
        } else {
            let kept: HashSet<_> = filtered.iter().map(|s| address(s)).collect();
            self.take_out(&kept);
            if !self.take_in(tenant, &added) {
                self.build(tenant, &filtered);
            }
        }
        let unfiltered = now.iter().filter(|s| s.filter.is_none()).cloned().collect();
        self.show(unfiltered);
    }

    /// A merge that is worth it, if any: see [`Index::plan_merge`].
    pub(crate) fn plan_merge(&mut self) -> Option<MergeJob> {
        self.index.plan_merge()
    }

    /// Puts the result of the planned merge in place. False, and nothing happens, when the index went on without it.
    pub(crate) fn install(&mut self, merged: Merged) -> bool {
        let installed = self.index.install(merged);
        if installed {
            self.show(self.wanting.unfiltered.clone());
        }
        installed
    }

    fn show(&mut self, unfiltered: Vec<Arc<Subscription>>) {
        self.wanting = Arc::new(Wanting {
            unfiltered,
            filtered: if self.numbers.is_empty() { Vec::new() } else { self.filtered.clone() },
            index: self.index.snapshot(),
            alone: self.alone.iter().map(|(number, filter)| (*number, filter.clone())).collect(),
            broken: self.broken.iter().copied().collect(),
        });
    }

    /// Everything anew.
    fn build(&mut self, tenant: &TenantId, filtered: &[&Arc<Subscription>]) {
        let numbered = || (0_u32..).zip(filtered.iter().copied());
        *self = Self {
            numbers: numbered().map(|(number, s)| (address(s), number)).collect(),
            filtered: filtered.iter().map(|s| Some(Arc::clone(s))).collect(),
            wanting: self.wanting.clone(),
            ..Self::default()
        };
        let broken = &mut self.broken;
        let compiled = numbered().filter_map(|(number, s)| {
            let filter = compile(tenant, s);
            if filter.is_none() {
                broken.insert(number);
            }
            Some((FilterId(number), filter?))
        });
        let (index, refused) = Index::load(IndexOptions::default(), compiled);
        self.index = index;
        for (FilterId(number), error) in refused {
            tracing::warn!(%tenant, code = error.code(), %error, "a filter is evaluated alone");
            let subscription = self.filtered.get(number as usize).and_then(Option::as_ref);
            if let Some(filter) = subscription.and_then(|s| compile(tenant, s)) {
                self.alone.insert(number, Arc::new(filter));
            }
        }
    }

    /// Takes out all but those.
    fn take_out(&mut self, kept: &HashSet<usize>) {
        let mut changes = Vec::new();
        for (address, number) in self.numbers.extract_if(|address, _| !kept.contains(address)) {
            debug_assert!(!kept.contains(&address), "only what is not kept goes");
            changes.push(Change::Remove(FilterId(number)));
            self.filtered[number as usize] = None;
            self.alone.remove(&number);
            self.broken.remove(&number);
            self.free.push(number);
        }
        if !changes.is_empty() {
            self.has_lost = true;
            self.index.apply(&changes);
        }
    }

    /// Adds those. False, with nothing promised of what is there, when the index is too full of what is not used any more.
    fn take_in(&mut self, tenant: &TenantId, added: &[&Arc<Subscription>]) -> bool {
        for added in added.chunks(COMPILED_MAX) {
            let mut compiled = Vec::with_capacity(added.len());
            for subscription in added {
                let number = self.number(subscription);
                match compile(tenant, subscription) {
                    Some(filter) => compiled.push((FilterId(number), filter)),
                    None => _ = self.broken.insert(number),
                }
            }
            let changes: Vec<_> = compiled.iter().map(|(id, filter)| Change::Put(*id, filter)).collect();
            let refused: HashMap<_, _> = self.index.apply(&changes).into_iter().collect();
            if refused.is_empty() {
                continue;
            }
            if self.has_lost {
                return false;
            }
            for (id, filter) in compiled {
                if let Some(error) = refused.get(&id) {
                    tracing::warn!(%tenant, code = error.code(), %error, "a filter is evaluated alone");
                    self.alone.insert(id.0, Arc::new(filter));
                }
            }
        }
        true
    }

    /// A number for one that has none.
    fn number(&mut self, subscription: &Arc<Subscription>) -> u32 {
        let place = Some(Arc::clone(subscription));
        let number = match self.free.pop() {
            Some(number) => {
                self.filtered[number as usize] = place;
                number
            }
            None => {
                self.filtered.push(place);
                // As many as subscriptions of one tenant that are in memory.
                u32::try_from(self.filtered.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.numbers.insert(address(subscription), number);
        number
    }
}

fn address(subscription: &Arc<Subscription>) -> usize {
    Arc::as_ptr(subscription).addr()
}

#[cfg(test)]
std::thread_local! {
    /// How many filters this thread compiled.
    pub(crate) static COMPILED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Control refuses a filter that does not compile; one that is stored nevertheless (written by a newer version, say) must
/// not touch any other subscription.
fn compile(tenant: &TenantId, subscription: &Subscription) -> Option<Filter> {
    #[cfg(test)]
    COMPILED.set(COMPILED.get() + 1);
    let compiled = subscription.filter.as_ref().map(Filter::compile)?;
    compiled
        .inspect_err(|error| {
            let (id, policy) = (&subscription.id, subscription.on_filter_error.name());
            tracing::error!(%tenant, subscription = %id, policy, %error, "stored filter does not compile");
        })
        .ok()
}
