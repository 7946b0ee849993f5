//! Who takes part: each takes a body and says how many filters match.

use std::collections::HashMap;
use std::sync::Arc;

use a_tree::{ATree, AttributeDefinition};
use anyhow::{Result, anyhow, ensure};
use mailrail_filter::Filter;
use mailrail_filter::index::{FilterId, Index, IndexOptions, IndexSnapshot, Scratch};
use mailrail_types::{Attributes, FilterLanguage, FilterSource};
use quamina::{Quamina, QuaminaBuilder};
use sonic_rs::{JsonValueTrait, PointerTree};

/// Takes a body, gives the number of filters that match.
pub(super) type Engine = Box<dyn FnMut(&[u8]) -> usize>;

/// Memory that crate `quamina` may use: its default ends far below 100,000 filters.
const QUAMINA_BYTES: usize = 2 << 30;

pub(super) fn compile(text: String) -> Result<Filter> {
    Ok(Filter::compile(&FilterSource { language: FilterLanguage::Pattern, text })?)
}

/// An index of the first `n` filters, in one segment.
pub(super) fn index(n: usize, prefilter: bool, text: impl Fn(usize) -> String) -> Result<Index> {
    // Compiled one by one: all of them at once would be most of the memory of the process.
    let mut failed = None;
    let filters = (0..n).map_while(|i| match (u32::try_from(i), compile(text(i))) {
        (Ok(id), Ok(filter)) => Some((FilterId(id), filter)),
        (_, Err(error)) => {
            failed = Some(error);
            None
        }
        (Err(_), _) => None,
    });
    let (index, refused) = Index::load(IndexOptions { prefilter }, filters);
    ensure!(refused.is_empty() && index.stats().filters == n, "not every filter was taken: {failed:?}");
    Ok(index)
}

/// Ours.
pub(super) fn ours(snapshot: Arc<IndexSnapshot>, attributes: Attributes) -> Engine {
    let mut scratch = Scratch::new();
    Box::new(move |body| snapshot.matches(&mut scratch, &attributes, body).ids.len())
}

/// Crate `quamina`.
pub(super) fn quamina(n: usize, text: impl Fn(usize) -> String) -> Result<Engine> {
    let mut engine: Quamina<usize> =
        QuaminaBuilder::new().with_arena_byte_budget(QUAMINA_BYTES).build().map_err(|e| anyhow!("{e}"))?;
    for i in 0..n {
        engine.add_pattern(i, &text(i)).map_err(|e| anyhow!("{e}"))?;
    }
    Ok(Box::new(move |body| engine.matches_for_event(body).map_or(usize::MAX, |found| found.len())))
}

/// The two values that the filters ask for, found by `sonic-rs`.
struct Fields(PointerTree);

impl Fields {
    fn new() -> Self {
        let mut tree = PointerTree::new();
        tree.add_path(["issue", "fields", "project", "key"]);
        tree.add_path(["issue", "fields", "priority", "name"]);
        Self(tree)
    }

    fn with<T>(&self, body: &[u8], take: impl FnOnce(&str, &str) -> T) -> Option<T> {
        let found = sonic_rs::get_many(body, &self.0).ok()?;
        let [Some(key), Some(priority)] = found.as_slice() else { return None };
        Some(take(key.as_str()?, priority.as_str()?))
    }
}

/// The floor: `sonic-rs` finds the two values, a hash table has the rest.
pub(super) fn sonic(n: usize) -> Engine {
    let fields = Fields::new();
    let table: HashMap<String, usize> = (0..n).map(|i| (format!("P{i}"), i)).collect();
    Box::new(move |body| {
        fields
            .with(body, |key, priority| usize::from(priority == "Critical" && table.contains_key(key)))
            .unwrap_or(usize::MAX)
    })
}

/// Crate `a-tree`, given the two values that `sonic-rs` finds: it does not read JSON.
pub(super) fn a_tree(n: usize) -> Result<Engine> {
    let fields = Fields::new();
    let mut tree = ATree::new(&[AttributeDefinition::string("key"), AttributeDefinition::string("priority")])
        .map_err(|e| anyhow!("{e:?}"))?;
    for i in 0..n {
        tree.insert(&i, &format!(r#"key = "P{i}" and priority = "Critical""#))
            .map_err(|e| anyhow!("{e:?}"))?;
    }
    Ok(Box::new(move |body| {
        fields
            .with(body, |key, priority| {
                let mut event = tree.make_event();
                event.with_string("key", key).ok()?;
                event.with_string("priority", priority).ok()?;
                let event = event.build().ok()?;
                tree.search(&event).ok().map(|report| report.matches().len())
            })
            .flatten()
            .unwrap_or(usize::MAX)
    }))
}

/// Crate `cel`, one filter after another, given the same two values.
pub(super) fn cel(n: usize) -> Result<Engine> {
    let fields = Fields::new();
    let env = Arc::new(cel::Env::stdlib());
    let programs = (0..n)
        .map(|i| {
            env.compile(&format!(r#"key == "P{i}" && priority == "Critical""#)).map_err(|e| anyhow!("{e}"))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Box::new(move |body| {
        fields
            .with(body, |key, priority| {
                let mut context = cel::Context::with_env(env.clone());
                context.add_variable_from_value("key", key.to_owned());
                context.add_variable_from_value("priority", priority.to_owned());
                programs
                    .iter()
                    .filter(|program| program.execute(&context).is_ok_and(|value| value == true.into()))
                    .count()
            })
            .unwrap_or(usize::MAX)
    }))
}
