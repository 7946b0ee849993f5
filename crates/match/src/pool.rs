//! Threads that match: work that is bound by CPU runs here and not on the threads that do I/O.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use mailrail_filter::index::Scratch;
use mailrail_wire::EventReader;
use tokio::sync::{mpsc, oneshot};

/// Pieces of work that wait for a thread, for each thread. A partition has one under way at a time, so this bounds nothing but
/// what waits here; a full queue holds its partitions back, and they read no further.
const WAITING_PER_THREAD: usize = 4;

/// What a thread matches in, kept from event to event.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) scratch: Scratch,
    pub(crate) events: EventReader,
}

/// Does one piece of work; false when it panicked.
type Job = Box<dyn FnOnce(&mut Memory) -> bool + Send>;

/// A fixed number of threads and their bounded queue. The threads end when it is dropped and the queue is empty.
pub(crate) struct Pool {
    jobs: mpsc::Sender<Job>,
}

impl Pool {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub(crate) fn start(threads: usize) -> std::io::Result<Self> {
        let (jobs, waiting) = mpsc::channel(threads * WAITING_PER_THREAD);
        let waiting = Arc::new(Mutex::new(waiting));
        for number in 0..threads {
            let waiting = waiting.clone();
            let thread = std::thread::Builder::new().name(format!("match-{number}"));
            thread.spawn(move || work(&waiting))?;
        }
        Ok(Self { jobs })
    }

    /// Runs `job` on one of the threads, with the memory that this thread matches in. When this is dropped, the job may still
    /// run; so it has no effect but its result. A panic of it goes on here.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Memory) -> T + Send + 'static,
    ) -> T {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |memory| {
            let done = catch_unwind(AssertUnwindSafe(|| job(memory)));
            let is_done = done.is_ok();
            // Who asked may have gone away.
            let _ = answer.send(done);
            is_done
        });
        if self.jobs.send(job).await.is_err() {
            // The threads end after this sender only.
            return std::future::pending().await;
        }
        match answered.await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => std::future::pending().await,
        }
    }
}

/// Takes work until there is none and nobody left to give any.
fn work(waiting: &Mutex<mpsc::Receiver<Job>>) {
    let mut memory = Memory::default();
    loop {
        // One thread waits for work, the others for their turn to wait.
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        let Some(job) = job else { return };
        if !job(&mut memory) {
            // Nobody knows what it was in the middle of.
            memory = Memory::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_goes_to_who_asked_and_the_thread_goes_on() {
        let pool = Arc::new(Pool::start(1).expect("a thread"));
        let asked = pool.clone();
        let panicked = tokio::spawn(async move { asked.run(|_| -> u32 { panic!("as asked") }).await }).await;
        assert!(panicked.expect_err("a panic").is_panic());
        let name = pool.run(|_| std::thread::current().name().map(ToOwned::to_owned)).await;
        assert_eq!(name.as_deref(), Some("match-0"));
    }

    /// The only thread is busy: who asks for more than fits waits, and is not refused.
    #[tokio::test]
    async fn work_that_does_not_fit_waits() {
        let pool = Arc::new(Pool::start(1).expect("a thread"));
        let (go, went) = std::sync::mpsc::channel::<()>();
        let busy = pool.clone();
        let first = tokio::spawn(async move { busy.run(move |_| went.recv()).await });
        let mut asked = Vec::new();
        for n in 0..WAITING_PER_THREAD * 3 {
            let pool = pool.clone();
            asked.push(tokio::spawn(async move { pool.run(move |_| n).await }));
        }
        while pool.jobs.capacity() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(asked.iter().all(|it| !it.is_finished()));
        drop(go);
        assert!(first.await.expect("no panic").is_err(), "it ended when it was let go");
        for (n, answer) in asked.into_iter().enumerate() {
            assert_eq!(answer.await.expect("no panic"), n);
        }
    }
}
