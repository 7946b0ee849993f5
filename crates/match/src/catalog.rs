//! The writer of the table: follows what the directory knows, tenant by tenant.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use mailrail_filter::index::{MergeJob, Merged, ShardTable};
use mailrail_store::{Directory, TenantView};
use mailrail_types::TenantId;

use crate::table::{STRIPES, Shard, Table, stripe_of};
use crate::type_index::TypeIndex;

/// What is known of every tenant.
pub(crate) struct Catalog {
    directory: Arc<Directory>,
    table: Arc<Table>,
    /// As in the table.
    stripes: Vec<HashMap<TenantId, Known>>,
    /// Event types whose index changed since it was last asked for a merge. Each at most once.
    changed: VecDeque<Place>,
    is_in_changed: HashSet<Place>,
}

/// Names an event type of a tenant.
pub(crate) type Place = (TenantId, String);

struct Known {
    view: Arc<TenantView>,
    types: HashMap<String, TypeIndex>,
}

impl Catalog {
    /// One that knows of nobody yet.
    pub(crate) fn new(directory: Arc<Directory>, table: Arc<Table>) -> Self {
        Self {
            directory,
            table,
            stripes: (0..STRIPES).map(|_| HashMap::new()).collect(),
            changed: VecDeque::new(),
            is_in_changed: HashSet::new(),
        }
    }

    /// Brings the table to where the directory is. Bound by CPU: a second or so for a million filters that are new, little for
    /// a few, and next to nothing for tenants that did not change.
    pub(crate) fn catch_up(&mut self) {
        // Before the views: they are at least as new.
        let seq = self.directory.seq();
        let views = self.directory.tenants();
        let mut touched = self.forget_all_but(&views);
        for view in views {
            let stripe = stripe_of(&view.tenant.id);
            let former = self.stripes[stripe].get(&view.tenant.id).map(|known| &known.view);
            if former.is_none_or(|former| !Arc::ptr_eq(former, &view)) {
                self.take(stripe, &view);
                touched.insert(stripe);
            }
        }
        touched.into_iter().for_each(|stripe| self.publish(stripe));
        self.table.set_seq(seq);
    }

    /// A merge that is worth it, if any. Run it where nobody waits, and [install](Self::install) what it gives.
    pub(crate) fn plan_merge(&mut self) -> Option<(Place, MergeJob)> {
        while let Some(place) = self.changed.pop_front() {
            self.is_in_changed.remove(&place);
            if let Some(job) = self.index(&place).and_then(TypeIndex::plan_merge) {
                return Some((place, job));
            }
        }
        None
    }

    /// Puts the result of a merge in place, unless its index is gone or went on without it.
    pub(crate) fn install(&mut self, place: Place, merged: Merged) {
        if self.index(&place).is_some_and(|index| index.install(merged)) {
            self.publish(stripe_of(&place.0));
        }
        // Another one may be worth it now.
        self.note_change(place);
    }

    fn index(&mut self, (tenant, event_type): &Place) -> Option<&mut TypeIndex> {
        self.stripes[stripe_of(tenant)].get_mut(tenant)?.types.get_mut(event_type)
    }

    fn note_change(&mut self, place: Place) {
        if self.is_in_changed.insert(place.clone()) {
            self.changed.push_back(place);
        }
    }

    fn take(&mut self, stripe: usize, view: &Arc<TenantView>) {
        let tenant = view.tenant.id.clone();
        let known = self.stripes[stripe]
            .entry(tenant.clone())
            .or_insert_with(|| Known { view: view.clone(), types: HashMap::new() });
        let former = std::mem::replace(&mut known.view, view.clone());
        known.types.retain(|name, _| view.by_event_type.contains_key(name));
        let mut changed = Vec::new();
        for (name, now) in &view.by_event_type {
            let is_new = !known.types.contains_key(name);
            let before = former.by_event_type.get(name).filter(|_| !is_new);
            let is_same = before.is_some_and(|before| {
                before.len() == now.len() && before.iter().zip(now).all(|(a, b)| Arc::ptr_eq(a, b))
            });
            if !is_same {
                known.types.entry(name.clone()).or_default().update(&tenant, now);
                changed.push((tenant.clone(), name.clone()));
            }
        }
        changed.into_iter().for_each(|place| self.note_change(place));
    }

    /// Forgets tenants that are gone; gives the stripes that changed.
    fn forget_all_but(&mut self, views: &[Arc<TenantView>]) -> HashSet<usize> {
        let known: usize = self.stripes.iter().map(HashMap::len).sum();
        let ids: HashSet<_> = views.iter().map(|view| &view.tenant.id).collect();
        if known == 0 {
            return HashSet::new();
        }
        let mut touched = HashSet::new();
        for (number, stripe) in self.stripes.iter_mut().enumerate() {
            let before = stripe.len();
            stripe.retain(|id, _| ids.contains(id));
            if stripe.len() < before {
                touched.insert(number);
            }
        }
        touched
    }

    fn publish(&self, stripe: usize) {
        let mut shards = ShardTable::default();
        for (tenant, known) in &self.stripes[stripe] {
            for (event_type, index) in &known.types {
                let shard = Shard { view: known.view.clone(), wanting: index.wanting() };
                shards.insert(tenant.as_str(), event_type, shard);
            }
        }
        self.table.replace(stripe, shards);
    }
}
