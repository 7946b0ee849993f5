//! What the group has committed, looked at all the time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mailrail_log::Log;

/// Between two looks at the commits.
const COMMITS_EVERY: Duration = Duration::from_millis(250);

/// Offsets that the group had committed, by partition, as they are looked at.
pub(super) type Commits = Arc<Mutex<BTreeMap<u32, Vec<u64>>>>;

/// Notes what the group has committed, as long as anybody wants to know.
pub(super) fn watch_commits(log: Arc<dyn Log>, prefix: &str, partitions: u32) -> Commits {
    let commits = Commits::default();
    let noted = Arc::downgrade(&commits);
    let (group, topic) = (format!("{prefix}deliver.default"), format!("{prefix}deliveries.default"));
    tokio::spawn(async move {
        while noted.strong_count() > 0 {
            for partition in 0..partitions {
                let Ok(Some(committed)) = log.committed(&group, &topic, partition).await else { continue };
                let Some(commits) = noted.upgrade() else { return };
                let mut commits = commits.lock().expect("not poisoned");
                let seen = commits.entry(partition).or_default();
                if seen.last() != Some(&committed.offset) {
                    seen.push(committed.offset);
                }
            }
            tokio::time::sleep(COMMITS_EVERY).await;
        }
    });
    commits
}
