//! What waits in mailboxes, as metrics: a look once a minute while the service runs.
//!
//! Each control process looks by itself, so several show the same numbers: take the maximum over them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use mailrail_store::Directory;
use mailrail_telemetry::{DepthLabels, MailboxMetrics, QueueLabels};
use mailrail_types::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::mailboxes::{Queue, look_at, now};
use crate::owner::Named;
use crate::service::Shared;
use crate::waiting::Found;

/// Until the first look: whoever starts is not disturbed, and the first scrapes have something.
const FIRST_AFTER: Duration = Duration::from_secs(10);
/// Between two looks.
const EVERY: Duration = Duration::from_mins(1);
/// Mailboxes whose classes are looked up before others may run: each may be compared with all of a tenant's subscriptions.
const MAILBOXES_AT_A_TIME: usize = 256;

/// Quantiles that are shown, in thousandths of the mailboxes with something waiting.
const QUANTILES: [(&str, u64); 4] = [("0.5", 500), ("0.9", 900), ("0.99", 990), ("1", 1000)];
/// Class of a mailbox that belongs to nothing that is set up.
const UNKNOWN: &str = "unknown";

/// Looks until `stop`.
pub(crate) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let mut gauges = Gauges::new(shared.metrics.clone());
    let mut pause = FIRST_AFTER;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        for queue in Queue::ALL {
            let found = tokio::select! {
                () = stop.cancelled() => return,
                found = look_at(&shared, queue) => found,
            };
            if let Some(error) = &found.error {
                tracing::warn!(
                    queue = queue.name(),
                    error,
                    "what waits in mailboxes is not known everywhere"
                );
            }
            gauges.show(queue, &found, &shared.directory, now()).await;
        }
        pause = EVERY;
    }
}

pub(crate) struct Gauges {
    metrics: MailboxMetrics,
    /// Depths that were shown so far: a class of which nothing waits any more goes to zero.
    depths: HashSet<DepthLabels>,
}

impl Gauges {
    pub(crate) fn new(metrics: MailboxMetrics) -> Self {
        Self { metrics, depths: HashSet::new() }
    }

    /// Shows what was found. When no partition answered nothing is known, and nothing is shown: never zero.
    pub(crate) async fn show(&mut self, queue: Queue, found: &Found, directory: &Directory, now: Timestamp) {
        let of_queue = QueueLabels { queue: queue.name() };
        let metrics = &self.metrics;
        metrics.scan_complete.get_or_create(&of_queue).set(i64::from(!found.truncated));
        if !found.answered {
            metrics.waiting.remove(&of_queue);
            metrics.oldest_age_seconds.remove(&of_queue);
            for labels in self.depths.extract_if(|labels| labels.queue == of_queue.queue) {
                metrics.depth.remove(&labels);
            }
            return;
        }
        let oldest = found.mailboxes.values().map(|waiting| waiting.oldest).min();
        let age = oldest.map_or(0, |oldest| number(now.since(oldest).as_secs()));
        metrics.oldest_age_seconds.get_or_create(&of_queue).set(age);
        metrics.waiting.get_or_create(&of_queue).set(number(found.mailboxes.len() as u64));
        let mut shown = HashSet::new();
        for (class, mut depths) in by_class(queue, found, directory).await {
            depths.sort_unstable();
            for (quantile, thousandths) in QUANTILES {
                let labels = DepthLabels { queue: queue.name(), class: class.clone(), quantile };
                metrics.depth.get_or_create(&labels).set(number(nearest_rank(&depths, thousandths)));
                shown.insert(labels);
            }
        }
        let before = self.depths.iter().filter(|it| it.queue == of_queue.queue && !shown.contains(*it));
        before.for_each(|labels| {
            metrics.depth.get_or_create(labels).set(0);
        });
        self.depths.extend(shown);
    }
}

/// Depths of the mailboxes of each class. Where several classes size a mailbox it is the first one's.
async fn by_class(queue: Queue, found: &Found, directory: &Directory) -> BTreeMap<String, Vec<u64>> {
    let mut depths: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    // The buckets of a mailbox are looked up once.
    let mut classes: HashMap<Named, String> = HashMap::new();
    let unknown = || UNKNOWN.to_owned();
    for (at, (key, waiting)) in found.mailboxes.iter().enumerate() {
        let named = std::str::from_utf8(key).ok().and_then(|key| Named::from_key(queue, key));
        let class_of = |named: &Named| {
            named.sized_by(directory).first().map_or_else(unknown, |by| by.class.id.to_string())
        };
        let class = match named.map(Named::unsplit) {
            Some(named) => match classes.get(&named) {
                Some(class) => class.clone(),
                None => classes.entry(named).or_insert_with_key(class_of).clone(),
            },
            None => unknown(),
        };
        depths.entry(class).or_default().push(waiting.depth);
        if at % MAILBOXES_AT_A_TIME == 0 {
            tokio::task::yield_now().await;
        }
    }
    depths
}

/// The smallest depth that at least so many thousandths of the mailboxes do not exceed. `depths` is in order.
fn nearest_rank(depths: &[u64], thousandths: u64) -> u64 {
    let rank = (depths.len() as u64 * thousandths).div_ceil(1000).max(1);
    let at = usize::try_from(rank - 1).unwrap_or(usize::MAX);
    depths.get(at).copied().unwrap_or(0)
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s35_quantiles_are_depths_of_real_mailboxes() {
        let depths: Vec<u64> = (1..=200).collect();
        let all = QUANTILES.map(|(_, thousandths)| nearest_rank(&depths, thousandths));
        assert_eq!(all, [100, 180, 198, 200]);
        assert_eq!(QUANTILES.map(|(_, thousandths)| nearest_rank(&[7], thousandths)), [7; 4]);
        assert_eq!(nearest_rank(&[1, 9], 500), 1);
        assert_eq!(nearest_rank(&[], 500), 0);
    }
}
