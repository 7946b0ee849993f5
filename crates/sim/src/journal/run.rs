//! One run.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use super::failure::Failure;
use super::mutation::{Mutation, RuleBook};
use super::oracle::Duplicates;
use super::world::{Trace, World};

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Deliveries that were accepted.
    pub deliveries: u64,
    /// Takeovers.
    pub takeovers: u64,
    /// Deliveries that were received again.
    pub duplicates: Duplicates,
    /// What went wrong first.
    pub failure: Option<Failure>,
}

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// A panic inside a run is its result, not news.
fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !IS_QUIET.get() {
                before(info);
            }
        }));
    });
}

/// Runs a seed, with all rules or with one switched off. `trace` gets a line for each thing that happens.
#[must_use]
pub fn run(seed: u64, mutation: Option<&Mutation>, trace: Trace<'_>) -> Run {
    quiet_panics();
    let rules = mutation.map_or(RuleBook::ALL, Mutation::rules);
    let mut world = World::new(seed, rules, trace);
    let was = IS_QUIET.replace(world.trace.is_none());
    let panicked = catch_unwind(AssertUnwindSafe(|| world.run())).err();
    IS_QUIET.set(was);
    let panicked = panicked.map(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Failure::Panicked(text.unwrap_or_else(|| "without a message".to_owned()))
    });
    Run {
        deliveries: world.accepted,
        takeovers: world.oracle.takeovers(),
        duplicates: world.oracle.duplicates,
        failure: panicked.or_else(|| world.oracle.failure.take()),
    }
}
