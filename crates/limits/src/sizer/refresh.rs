//! Reading a window: one reader for each counter, within the budget, whatever the client does.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use mailrail_policy::shard_number;
use mailrail_types::Timestamp;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::{Inner, READ_BUDGET, Sizer};
use crate::{Counter, Error, Stored};

/// A read that is under way. It goes on when the caller that began it goes away, so that those who joined get its answer.
pub(super) type Refresh = Shared<BoxFuture<'static, ()>>;

impl Sizer {
    /// Waits until the counter was read or could not be, at most [`READ_BUDGET`].
    pub(super) async fn refresh(&self, counter: &Counter) {
        let inner = &self.inner;
        let now = (inner.clock)();
        let join = inner.table.change(counter, |it| it.refresh.clone().filter(|it| it.peek().is_none()));
        let refresh = match join {
            Some(Some(under_way)) => under_way,
            Some(None) if inner.breaker.admits(now) => self.start(counter),
            Some(None) | None => return,
        };
        if timeout(READ_BUDGET, refresh).await.is_err() {
            inner.breaker.open((inner.clock)());
        }
    }

    fn start(&self, counter: &Counter) -> Refresh {
        let (inner, owned) = (Arc::clone(&self.inner), counter.clone());
        let Ok(runtime) = Handle::try_current() else {
            return futures::future::ready(()).boxed().shared();
        };
        let begin = || runtime.spawn(async move { inner.read(&owned).await }).map(|_| ()).boxed().shared();
        // Two callers that both found none under way: the second joins the first.
        let started = self.inner.table.change(counter, |tracked| {
            match tracked.refresh.clone().filter(|it| it.peek().is_none()) {
                Some(under_way) => under_way,
                None => tracked.refresh.insert(begin()).clone(),
            }
        });
        started.unwrap_or_else(|| futures::future::ready(()).boxed().shared())
    }
}

impl Inner {
    async fn read(&self, counter: &Counter) {
        let asked_at = (self.clock)();
        let shard = shard_number(asked_at);
        match self.ask(counter, shard).await {
            Ok(stored) => {
                self.breaker.close();
                let merge = |it: &mut super::tracked::Tracked| it.merge(&stored, shard, asked_at);
                let dropped = self.table.change(counter, merge);
                self.counting.counts_dropped(dropped.unwrap_or(0));
            }
            Err(error) => self.read_failed(counter, &error, (self.clock)()),
        }
        self.table.change(counter, |it| it.refresh = None);
    }

    /// One read, within the budget, with panics as errors.
    pub(super) async fn ask(&self, counter: &Counter, shard: i64) -> Result<Stored, Error> {
        let read = AssertUnwindSafe(async { self.windows.read(counter, shard).await }).catch_unwind();
        match timeout(READ_BUDGET, read).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Error::Panicked),
            Err(_) => Err(Error::Timeout),
        }
    }

    fn read_failed(&self, counter: &Counter, error: &Error, now: Timestamp) {
        self.counting.read_failed();
        if error.is_outage() {
            self.breaker.open(now);
        }
        self.table.change(counter, |it| it.failed(now));
        if self.counting.is_log_due(now) {
            tracing::warn!(%error, "rate windows cannot be read; mailboxes are as many as they may be");
        }
    }
}
