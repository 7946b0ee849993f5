//! A replay that dies at any moment, appends that are cut, and two processes at once: every letter once, in order.

use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use mailrail_log::{LogError, Offset};
use mailrail_testkit::{Between, Interposed};
use tokio::sync::Notify;

use super::*;

/// What goes wrong at an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The process ends before it, or after it was written and before anybody knew.
    DiesBefore,
    DiesAfter,
    /// Only so many of its records are written, and the answer is an error.
    Cut(usize),
    /// The answer is an error, and the records come into the log just before the next append, or just after it.
    LateBefore,
    LateAfter,
}

/// A fault at one of the appends.
struct Faulty {
    appends: AtomicU64,
    at: u64,
    fault: StdMutex<Option<Fault>>,
    late: StdMutex<Option<(Fault, Vec<NewRecord>)>>,
    died: Notify,
    has_died: AtomicBool,
}

impl Faulty {
    fn before(log: Arc<dyn Log>, at: u64, fault: Fault) -> Arc<Interposed<Self>> {
        let faulty = Self {
            appends: AtomicU64::new(0),
            at,
            fault: StdMutex::new(Some(fault)),
            late: StdMutex::new(None),
            died: Notify::new(),
            has_died: AtomicBool::new(false),
        };
        Arc::new(Interposed::new(log, faulty))
    }

    /// The process does nothing more.
    async fn die<T>(&self) -> T {
        self.has_died.store(true, Ordering::SeqCst);
        self.died.notify_one();
        std::future::pending().await
    }
}

#[async_trait]
impl Between for Faulty {
    async fn append(
        &self,
        log: &dyn Log,
        topic: &str,
        partition: u32,
        mut records: Vec<NewRecord>,
    ) -> Result<Vec<Offset>, LogError> {
        if self.appends.fetch_add(1, Ordering::SeqCst) != self.at {
            let late = self.late.lock().expect("not poisoned").take();
            if let Some((Fault::LateBefore, late)) = &late {
                log.append(topic, partition, late.clone()).await?;
            }
            let appended = log.append(topic, partition, records).await;
            if let Some((Fault::LateAfter, late)) = late {
                log.append(topic, partition, late).await?;
            }
            return appended;
        }
        let fault = self.fault.lock().expect("not poisoned").take();
        match fault {
            None => log.append(topic, partition, records).await,
            Some(Fault::DiesBefore) => self.die().await,
            Some(Fault::DiesAfter) => {
                log.append(topic, partition, records).await?;
                self.die().await
            }
            Some(fault @ (Fault::LateBefore | Fault::LateAfter)) => {
                *self.late.lock().expect("not poisoned") = Some((fault, records));
                Err(LogError::Unavailable("late".to_owned()))
            }
            Some(Fault::Cut(left)) => {
                records.truncate(left);
                log.append(topic, partition, records).await?;
                Err(LogError::Unavailable("cut".to_owned()))
            }
        }
    }
}

/// Small batches: many moments to die at.
fn in_small_batches() -> ReplayRequest {
    ReplayRequest { rate: Some(12), ..all() }
}

/// Runs until it dies; `false` when it was over before.
async fn run_until_it_dies(faulty: &Arc<Interposed<Faulty>>, id: &str) -> bool {
    let letters = Place::letters_of(faulty.clone());
    let running = tokio::spawn({
        let letters = letters.clone();
        async move { letters.run(CancellationToken::new()).await }
    });
    let watcher = Place::letters_of(Arc::clone(faulty.behind()));
    let over = async {
        while !watcher.replay(id).await.expect("a status").is_over() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let dies = async { faulty.died.notified().await };
    let died = tokio::select! {
        () = dies => true,
        () = over => faulty.has_died.load(Ordering::SeqCst),
    };
    running.abort();
    let _ = running.await;
    died
}

/// A47: died at each append, before it and after it: whoever carries it on puts every letter back once, in order.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_that_dies_at_any_moment_is_carried_on_and_puts_every_letter_back_once() {
    for fault in [Fault::DiesBefore, Fault::DiesAfter] {
        let mut at = 0;
        loop {
            let place = Place::new().await;
            place.bury_some(2).await;
            let ordered = place.letters().order(&in_small_batches(), "alice", false).await.expect("ordered");
            let faulty = Faulty::before(Arc::clone(&place.log), at, fault);
            let died = run_until_it_dies(&faulty, &ordered.id).await;
            let status = run_until_over(&place.letters(), &ordered.id).await;
            assert_eq!(place.put_back().await, Place::expected(2, 1), "{fault:?} at append {at}");
            assert_eq!((status.redriven, status.unsent.len()), (6, 0), "{fault:?} at append {at}");
            if !died {
                break;
            }
            at += 1;
        }
        // The claim, an entry and an append for each batch, the end.
        assert!(at > 6, "{fault:?}: {at} moments");
    }
}

/// An append that was cut: what of it is there is found, the rest follows.
#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_was_cut_is_completed() {
    for left in 0..=4 {
        let place = Place::new().await;
        place.bury_some(4).await;
        let ordered = place.letters().order(&all(), "alice", false).await.expect("ordered");
        // The claim, the entry, and the append of the first batch.
        let faulty = Faulty::before(Arc::clone(&place.log), 2, Fault::Cut(left));
        let status = run_until_over(&Place::letters_of(faulty), &ordered.id).await;
        assert_eq!(place.put_back().await, Place::expected(4, 1), "{left} were written");
        assert_eq!(status.redriven, 12);
    }
}

/// A batch that is written down late, when the next claim is made already: it is finished if it counts, and void if not.
#[tokio::test(flavor = "multi_thread")]
async fn no_letter_of_a_batch_that_was_written_down_late_is_lost() {
    let late = |fault| async move {
        let place = Place::new().await;
        place.bury_some(4).await;
        let ordered = place.letters().order(&all(), "alice", false).await.expect("ordered");
        // The claim, and the entry of the first batch; the next append is the next claim.
        let faulty = Faulty::before(Arc::clone(&place.log), 1, fault);
        let status = run_until_over(&Place::letters_of(faulty), &ordered.id).await;
        assert_eq!(place.put_back().await, Place::expected(4, 1), "{fault:?}");
        assert_eq!((status.redriven, status.skipped), (12, 0), "{fault:?}");
    };
    tokio::join!(late(Fault::LateBefore), late(Fault::LateAfter));
}

/// An entry that is not understood is not passed over at the next look.
#[tokio::test]
async fn nothing_is_put_back_while_an_entry_of_the_ledger_is_not_understood() {
    let place = Place::new().await;
    place.bury_some(1).await;
    place.append(&pipeline().redrives.name, 0, Bytes::from_static(b"\xff\xfe")).await;
    let letters = place.letters();
    place.letters().order(&all(), "alice", false).await.expect_err("not understood");
    for _ in 0..3 {
        let refused = letters.order(&all(), "alice", false).await.expect_err("not understood");
        assert_eq!(refused.code(), "ledger_unreadable");
        place.append(&pipeline().redrives.name, 0, Bytes::from_static(b"\xff\xfe")).await;
    }
}

/// Letters that are deleted make room at once, however young the entries about them are.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_put_back_is_forgotten_when_its_letters_are_gone() {
    let place = Place::new().await;
    place.bury_some(2).await;
    let letters = place.letters();
    replayed(&letters, &all()).await;
    assert_eq!(letters.ledger().await.expect("a ledger").ledger.known(), 6);
    place.log.trim(&pipeline().dead_letters.name, 0, 2).await.expect("trimmed");
    letters.tidy_up().await;
    assert_eq!(letters.ledger().await.expect("a ledger").ledger.known(), 4);
}

/// A process that was stopped, and goes on after another one took over: its next word is void, and it puts nothing back.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_goes_on_after_it_was_taken_for_dead_puts_nothing_back() {
    let place = Place::new().await;
    place.bury_some(3).await;
    let first = place.letters();
    let ordered = first.order(&all(), "alice", true).await.expect("ordered");
    // It gathered a batch, and was stopped before it wrote it down.
    let second = run_until_over(&place.letters(), &ordered.id).await;
    assert_eq!(second.redriven, 9);
    let third = first.order(&in_small_batches(), "alice", true).await.expect("ordered");
    let other = place.letters();
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (letters, stop) = (first.clone(), stop.clone());
        async move { letters.run(stop).await }
    });
    let status = run_until_over(&other, &third.id).await;
    stop.cancel();
    running.await.expect("it ends");
    assert_eq!((status.redriven, status.skipped), (0, 9));
    assert_eq!(place.put_back().await, Place::expected(3, 1));
}

/// On a log that others can have, nobody takes over before the silence was long enough.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_takes_over_from_one_who_spoke_lately() {
    let place = Place::new().await;
    place.bury_some(2).await;
    let ordered = place.letters().order(&all(), "alice", true).await.expect("ordered");
    let options = DeadLetterOptions::new(Duration::from_hours(1));
    let other = DeadLetters::new(Arc::clone(&place.log), pipeline(), options);
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (letters, stop) = (other.clone(), stop.clone());
        async move { letters.run(stop).await }
    });
    let own = other.order(&all(), "bob", false).await.expect("ordered");
    assert_eq!(other.unfinished().await.expect("a status").map(|it| it.id), Some(ordered.id));
    assert_eq!(other.replay(&own.id).await.expect("a status").state, "waiting");
    assert_eq!(place.put_back().await, []);
    stop.cancel();
    running.await.expect("it ends");
}

/// Whoever follows a replay that another process carries on sees it go on and end, and leaves it to that process.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_of_another_process_is_followed_to_its_end() {
    let place = Place::new().await;
    place.bury_some(4).await;
    let options = DeadLetterOptions::new(Duration::from_hours(1));
    let of = || DeadLetters::new(Arc::clone(&place.log), pipeline(), options);
    let (first, follower) = (of(), of());
    let slow = ReplayRequest { rate: Some(8), ..all() };
    let ordered = first.order(&slow, "alice", true).await.expect("ordered");
    let stop = CancellationToken::new();
    let run = |letters: &DeadLetters| {
        let (letters, stop) = (letters.clone(), stop.clone());
        tokio::spawn(async move { letters.run(stop).await })
    };
    let before = follower.replay(&ordered.id).await.expect("a status").redriven;
    assert_eq!(before, 0);
    let running = [run(&first), run(&follower)];
    let mut seen = std::collections::BTreeSet::new();
    let over = async {
        loop {
            let status = follower.replay(&ordered.id).await.expect("a status");
            seen.insert(status.redriven);
            if status.is_over() {
                return status;
            }
            assert!(!first.is_carried_on_elsewhere(&ordered.id).await.expect("known"));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let status = tokio::time::timeout(PATIENCE, over).await.expect("it is over some time");
    stop.cancel();
    for run in running {
        run.await.expect("it ends");
    }
    assert_eq!((status.redriven, place.put_back().await), (12, Place::expected(4, 1)));
    assert!(seen.range(1..12).next().is_some(), "it was seen to go on: {seen:?}");
    let second = first.order(&slow, "alice", true).await.expect("ordered");
    assert!(follower.is_carried_on_elsewhere(&second.id).await.expect("known"), "by the first one");
    assert!(!follower.is_carried_on_elsewhere(&ordered.id).await.expect("known"), "it is over");
}

#[tokio::test]
async fn a_stop_lets_the_next_one_go_on_at_once() {
    let place = Place::new().await;
    place.bury_some(4).await;
    let options = DeadLetterOptions::new(Duration::from_hours(1));
    let of = || DeadLetters::new(Arc::clone(&place.log), pipeline(), options);
    let first = of();
    let slow = ReplayRequest { rate: Some(4), ..all() };
    let ordered = first.order(&slow, "alice", true).await.expect("ordered");
    run_until(&first, &ordered.id, |status| status.redriven > 0).await;
    assert_eq!(first.replay(&ordered.id).await.expect("a status").state, "waiting");
    let status = run_until_over(&of(), &ordered.id).await;
    assert_eq!((status.redriven, place.put_back().await), (12, Place::expected(4, 1)));
}
