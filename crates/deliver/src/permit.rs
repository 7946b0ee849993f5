//! Permits: an owned right to run one attempt.

use std::sync::Arc;

use mailrail_telemetry::DeliverMetrics;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What lets an attempt of a partition start.
pub(crate) struct Pass {
    pub(crate) permit: Permit,
    /// Of an isolated partition: until its trial is over.
    pub(crate) trial: Option<TrialTurn>,
}

/// The turn of an isolated partition: of those of a process one tries a delivery at a time. Should the process die, it is
/// known which delivery was tried. Dropped, the next one has its turn.
pub(crate) struct TrialTurn {
    _turn: Option<OwnedSemaphorePermit>,
}

/// The permits of a process. First come, first served, so that a busy partition cannot starve another.
pub(crate) struct Permits {
    free: Arc<Semaphore>,
    count: u32,
    trials: Arc<Semaphore>,
    metrics: Arc<DeliverMetrics>,
}

/// One attempt may run as long as this lives. Dropped, it is returned: on success, error, panic and cancellation alike.
pub(crate) struct Permit {
    permit: Option<OwnedSemaphorePermit>,
    metrics: Arc<DeliverMetrics>,
}

impl Permits {
    pub(crate) fn new(count: usize, metrics: DeliverMetrics) -> Self {
        let most = u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            free: Arc::new(Semaphore::new(count)),
            count: most,
            trials: Arc::new(Semaphore::new(1)),
            metrics: Arc::new(metrics),
        }
    }

    /// Waits for a permit.
    pub(crate) async fn acquire(&self) -> Permit {
        // The semaphore is never closed, so there always is one in the end.
        let permit = self.free.clone().acquire_owned().await.ok();
        self.metrics.in_flight.inc();
        Permit { permit, metrics: self.metrics.clone() }
    }

    /// Waits until no attempt of the process runs. None starts before this is dropped.
    pub(crate) async fn acquire_all(&self) -> Permit {
        let permit = self.free.clone().acquire_many_owned(self.count).await.ok();
        self.metrics.in_flight.inc();
        Permit { permit, metrics: self.metrics.clone() }
    }

    /// Waits for the turn of an isolated partition.
    pub(crate) async fn trial_turn(&self) -> TrialTurn {
        TrialTurn { _turn: self.trials.clone().acquire_owned().await.ok() }
    }

    /// Whether this is what [`Permits::acquire_all`] gave.
    pub(crate) fn are_all(&self, permit: &Permit) -> bool {
        let held = permit.permit.as_ref().map(OwnedSemaphorePermit::num_permits);
        held == usize::try_from(self.count).ok()
    }

    /// A permit, if one is free and nobody waits for it.
    pub(crate) fn try_acquire(&self) -> Option<Permit> {
        let permit = self.free.clone().try_acquire_owned().ok()?;
        self.metrics.in_flight.inc();
        Some(Permit { permit: Some(permit), metrics: self.metrics.clone() })
    }

    #[cfg(test)]
    pub(crate) fn available(&self) -> usize {
        self.free.available_permits()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.metrics.in_flight.dec();
    }
}

#[cfg(test)]
mod tests {
    use mailrail_telemetry::Metrics;

    use super::*;

    /// A24: a permit comes back on every path.
    #[tokio::test]
    async fn a24_permits_come_back_on_success_panic_and_cancellation() {
        let permits = Arc::new(Permits::new(2, Metrics::new().deliver));
        drop(permits.acquire().await);
        assert_eq!(permits.available(), 2);

        let shared = permits.clone();
        let panicked = tokio::spawn(async move {
            let _permit = shared.acquire().await;
            panic!("in the middle of an attempt");
        });
        assert!(panicked.await.is_err());
        assert_eq!(permits.available(), 2);

        let shared = permits.clone();
        let (held, is_held) = tokio::sync::oneshot::channel();
        let cancelled = tokio::spawn(async move {
            let _permit = shared.acquire().await;
            let _ = held.send(());
            std::future::pending::<()>().await;
        });
        is_held.await.expect("the permit is held");
        assert_eq!(permits.available(), 1);
        cancelled.abort();
        assert!(cancelled.await.is_err());
        assert_eq!(permits.available(), 2);
    }
}
