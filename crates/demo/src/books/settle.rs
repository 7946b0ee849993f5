//! Waits until nothing is in progress any more.

use std::collections::HashSet;
use std::time::Duration;

use indicatif::ProgressBar;
use mailrail_types::DeliveryId;
use tokio::time::{Instant, sleep};

use super::ledger::Books;
use crate::Error;

/// How often the log is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Reads on until every event is matched, every expected delivery is there and every delivery has an end, or until
/// `wait` is over. Says whether that is so; what is missing is in the statement. The bar shows ended deliveries.
///
/// # Errors
/// As [`Books::catch_up`].
pub async fn settle(
    books: &mut Books,
    expected: Option<&HashSet<DeliveryId>>,
    wait: Duration,
    bar: &ProgressBar,
) -> Result<bool, Error> {
    let end = Instant::now() + wait;
    loop {
        books.catch_up().await?;
        let missing =
            expected.map_or(0, |ids| ids.iter().filter(|id| !books.deliveries.contains_key(id)).count());
        let unsettled = books.unsettled();
        bar.set_length(unsettled.deliveries + missing as u64);
        bar.set_position(unsettled.deliveries - unsettled.in_progress);
        if unsettled.unmatched == 0 && unsettled.in_progress == 0 && missing == 0 {
            return Ok(true);
        }
        if Instant::now() >= end {
            return Ok(false);
        }
        sleep(LOOK_EVERY).await;
    }
}
