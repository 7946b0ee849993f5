//! Keeps the table where the directory is, off the threads that match and off those that do I/O.

use std::panic::resume_unwind;
use std::sync::Arc;

use mailrail_filter::index::Merged;
use mailrail_store::Directory;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

use crate::catalog::{Catalog, Place};

/// Follows the directory. Merges run beside: a change does not wait for one.
pub(crate) struct Follower {
    catalog: Catalog,
    changes: watch::Receiver<u64>,
    merging: Option<JoinHandle<(Place, Merged)>>,
}

impl Follower {
    /// Builds the table from what the directory knows now.
    pub(crate) async fn start(directory: &Arc<Directory>, catalog: Catalog) -> Self {
        // Before the state is read, so that no change is missed.
        let changes = directory.changes();
        let catalog = on_thread_of_its_own(catalog, Catalog::catch_up).await;
        Self { catalog, changes, merging: None }
    }

    /// Follows for ever; dropping it ends it.
    pub(crate) async fn run(mut self) {
        loop {
            if self.merging.is_none() {
                let planned = self.catalog.plan_merge();
                self.merging = planned.map(|(place, job)| spawn_blocking(move || (place, job.run())));
            }
            tokio::select! {
                changed = self.changes.changed() => {
                    if changed.is_err() {
                        // The directory is gone, and with it whoever changes it.
                        return std::future::pending().await;
                    }
                    self.catalog = on_thread_of_its_own(self.catalog, Catalog::catch_up).await;
                }
                merged = finished(&mut self.merging) => {
                    self.merging = None;
                    let (place, merged) = merged.unwrap_or_else(panicked);
                    let install = |catalog: &mut Catalog| catalog.install(place, merged);
                    self.catalog = on_thread_of_its_own(self.catalog, install).await;
                }
            }
        }
    }
}

async fn finished(merging: &mut Option<JoinHandle<(Place, Merged)>>) -> Result<(Place, Merged), JoinError> {
    match merging {
        Some(merging) => merging.await,
        None => std::future::pending().await,
    }
}

async fn on_thread_of_its_own(
    mut catalog: Catalog,
    work: impl FnOnce(&mut Catalog) + Send + 'static,
) -> Catalog {
    let done = spawn_blocking(move || {
        work(&mut catalog);
        catalog
    });
    done.await.unwrap_or_else(panicked)
}

/// A panic of the writer ends the stage: without it, events would wait for set-ups for ever.
fn panicked<T>(error: JoinError) -> T {
    match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        // Nobody aborts them: the runtime is ending, and this is not polled again.
        Err(cancelled) => panic!("{cancelled}"),
    }
}
