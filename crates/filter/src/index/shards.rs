//! (tenant, event type) → what matches there. Most events end here: nobody subscribed to their type.

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

#[derive(Debug)]
struct Shard<V> {
    /// The tenant, then the type.
    name: Box<str>,
    tenant_length: usize,
    value: V,
}

/// A table of shards. A look-up reads one cache line when there is no such shard.
#[derive(Debug)]
pub struct ShardTable<V> {
    table: HashTable<Shard<V>>,
}

impl<V> Default for ShardTable<V> {
    fn default() -> Self {
        Self { table: HashTable::new() }
    }
}

fn hash(tenant: &str, event_type: &str) -> u64 {
    xxh3_64(tenant.as_bytes()).rotate_left(23) ^ xxh3_64(event_type.as_bytes())
}

impl<V> Shard<V> {
    fn is(&self, tenant: &str, event_type: &str) -> bool {
        let (mine, rest) = self.name.as_bytes().split_at(self.tenant_length);
        mine == tenant.as_bytes() && rest == event_type.as_bytes()
    }

    fn hash(&self) -> u64 {
        let (tenant, event_type) = self.name.split_at(self.tenant_length);
        hash(tenant, event_type)
    }
}

impl<V> ShardTable<V> {
    /// What is there for a tenant's events of a type.
    #[must_use]
    pub fn get(&self, tenant: &str, event_type: &str) -> Option<&V> {
        self.table
            .find(hash(tenant, event_type), |shard| shard.is(tenant, event_type))
            .map(|shard| &shard.value)
    }

    /// Puts a shard in; returns the one that was there.
    pub fn insert(&mut self, tenant: &str, event_type: &str, value: V) -> Option<V> {
        let hash = hash(tenant, event_type);
        if let Some(shard) = self.table.find_mut(hash, |shard| shard.is(tenant, event_type)) {
            return Some(std::mem::replace(&mut shard.value, value));
        }
        let shard = Shard { name: [tenant, event_type].concat().into(), tenant_length: tenant.len(), value };
        self.table.insert_unique(hash, shard, Shard::hash);
        None
    }

    /// Takes a shard out.
    pub fn remove(&mut self, tenant: &str, event_type: &str) -> Option<V> {
        let found =
            self.table.find_entry(hash(tenant, event_type), |shard| shard.is(tenant, event_type)).ok()?;
        Some(found.remove().0.value)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// There are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_joined() {
        let mut shards = ShardTable::default();
        assert_eq!(
            (shards.insert("ab", "c", 1), shards.insert("a", "bc", 2), shards.insert("ab", "c", 3)),
            (None, None, Some(1))
        );
        assert_eq!(
            (shards.get("ab", "c"), shards.get("a", "bc"), shards.get("abc", "")),
            (Some(&3), Some(&2), None)
        );
        assert_eq!((shards.remove("a", "bc"), shards.remove("a", "bc"), shards.len()), (Some(2), None, 1));
        assert!(!shards.is_empty());
    }
}
