//! How long runs are, and how they wait.

use std::time::Duration;

/// Longest wait for anything that must come. A test that waits longer hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Whether runs are as long as a nightly one may be.
pub(crate) fn is_long() -> bool {
    std::env::var("MAILRAIL_TEST_LONG").as_deref() == Ok("1")
}

/// The first in CI, the second in the long run.
pub(crate) fn sized<T>(short: T, long: T) -> T {
    if is_long() { long } else { short }
}

/// Waits until `holds`; panics with `what` when that takes too long.
pub(crate) async fn until(what: &str, holds: impl AsyncFnMut() -> bool) {
    until_within(PATIENCE, what, holds).await;
}

/// As [`until`], for at most `cap`.
pub(crate) async fn until_within(cap: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let reached = async {
        while !holds().await {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    assert!(tokio::time::timeout(cap, reached).await.is_ok(), "it never came to this: {what}");
}
