//! The window against a model: order, bounds, and commits that never pass what is not done.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits { records_max: 20, bytes_max: 1000 };

fn key(n: u8) -> MailboxKey {
    MailboxKey::from_text(&format!("m{n}"))
}

fn fresh() -> Window {
    Window::new(LIMITS, Checkpoint { offset: 0, done: DoneMap::new(0) })
}

#[test]
fn s01_one_at_a_time_and_the_head_holds() {
    let mut w = fresh();
    for offset in 0..3 {
        assert_eq!(w.offer(offset, key(1), 10), Offered::Queued);
    }
    let now = Timestamp(0);
    assert_eq!(w.start(now), Some(0));
    assert_eq!(w.start(now), None, "one in flight per mailbox");
    w.settle(0, Settlement::Retry(Timestamp(100)));
    assert_eq!(w.start(Timestamp(99)), None, "the head waits, and so does what is behind it");
    assert_eq!(w.next_due(), Some(Timestamp(100)));
    assert_eq!(w.start(Timestamp(100)), Some(0));
    w.settle(0, Settlement::Ended);
    assert_eq!(w.start(now), Some(1));
}

#[test]
fn another_mailbox_goes_on_while_one_waits() {
    let mut w = fresh();
    w.offer(0, key(1), 10);
    w.offer(1, key(2), 10);
    assert_eq!(w.start(Timestamp(0)), Some(0));
    w.settle(0, Settlement::Retry(Timestamp(1_000_000)));
    assert_eq!(w.start(Timestamp(0)), Some(1));
    w.settle(1, Settlement::Ended);
    w.recorded(1);
    let checkpoint = w.checkpoint();
    assert_eq!(checkpoint.offset, 0, "the waiting one is not done");
    assert!(checkpoint.done.contains(1), "but the one behind it is");
}

#[test]
fn s29_a_tolerant_mailbox_goes_on_without_the_failed_one() {
    let mut w = fresh();
    for offset in 0..3 {
        w.offer(offset, key(1), 10);
    }
    assert_eq!(w.start(Timestamp(0)), Some(0));
    w.settle(0, Settlement::SetAside(Timestamp(100)));
    assert_eq!(w.start(Timestamp(0)), Some(1), "the rest goes on");
    assert_eq!(w.start(Timestamp(100)), Some(0), "and the failed one comes on its own time");
    w.settle(0, Settlement::SetAside(Timestamp(200)));
    w.settle(1, Settlement::Ended);
    w.recorded(1);
    assert_eq!(w.start(Timestamp(100)), Some(2));
    w.settle(2, Settlement::Ended);
    w.recorded(2);
    assert_eq!(w.checkpoint().offset, 0, "it holds the commit");
    assert_eq!(w.start(Timestamp(200)), Some(0));
    w.settle(0, Settlement::Ended);
    w.recorded(0);
    assert_eq!((w.checkpoint().offset, w.records(), w.waiting()), (3, 0, 0));
}

#[test]
fn i1_ended_is_not_done_before_it_is_recorded() {
    let mut w = fresh();
    w.offer(0, key(1), 10);
    assert_eq!(w.start(Timestamp(0)), Some(0));
    w.settle(0, Settlement::Ended);
    assert_eq!(w.checkpoint().offset, 0);
    w.recorded(0);
    assert_eq!(w.checkpoint().offset, 1);
    assert_eq!((w.records(), w.bytes()), (0, 0));
}

#[test]
fn i2b_offsets_that_never_came_are_done() {
    let mut w = fresh();
    w.offer(0, key(1), 10);
    w.offer(5, key(2), 10);
    assert!(w.checkpoint().done.contains(3));
    assert_eq!(w.start(Timestamp(0)), Some(0));
    w.settle(0, Settlement::Ended);
    w.recorded(0);
    assert_eq!(w.checkpoint().offset, 5);
}

#[test]
fn i2_the_window_is_bounded_in_records_bytes_and_offsets() {
    let mut w = fresh();
    w.offer(0, key(1), 5000);
    assert!(!w.has_room(), "bytes");

    let mut w = fresh();
    for offset in 0..20 {
        assert!(w.has_room());
        w.offer(offset, key(1), 1);
    }
    assert!(!w.has_room(), "records");

    let mut w = fresh();
    w.offer(0, key(1), 1);
    w.offer(SPAN_MAX - 1, key(1), 1);
    assert!(!w.has_room(), "offsets");
}

#[test]
fn a_restart_skips_what_was_done() {
    let mut done = DoneMap::new(10);
    done.mark(11);
    let mut w = Window::new(LIMITS, Checkpoint { offset: 10, done });
    assert_eq!(w.offer(10, key(1), 1), Offered::Queued);
    assert_eq!(w.offer(11, key(1), 1), Offered::AlreadyDone);
    assert_eq!(w.offer(12, key(1), 1), Offered::Queued);
    assert!(w.checkpoint().done.contains(11));
}

#[test]
fn a_record_without_a_turn_holds_the_commit_and_no_mailbox() {
    let mut w = fresh();
    assert_eq!(w.offer_ended(0, 10), Offered::Queued);
    w.offer(1, key(1), 10);
    assert_eq!(w.start(Timestamp(0)), Some(1));
    assert_eq!(w.checkpoint().offset, 0);
    w.recorded(0);
    assert_eq!(w.checkpoint().offset, 1);
}

#[derive(Debug, Clone)]
enum Step {
    Offer { mailbox: u8, gap: u64 },
    Start,
    Settle { which: usize, retry: Option<i64> },
    Record { which: usize },
    Pass(i64),
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u8..4, 0u64..3).prop_map(|(mailbox, gap)| Step::Offer { mailbox, gap }),
        4 => Just(Step::Start),
        4 => (any::<usize>(), proptest::option::weighted(0.3, 1i64..50)).prop_map(|(which, retry)| Step::Settle { which, retry }),
        4 => any::<usize>().prop_map(|which| Step::Record { which }),
        2 => (1i64..40).prop_map(Step::Pass),
        1 => Just(Step::Crash),
    ]
}

/// What is true outside the window: the log, what ran, what is recorded.
#[derive(Default)]
struct World {
    log: BTreeMap<u64, u8>,
    running: Vec<u64>,
    ended: Vec<u64>,
    recorded: BTreeSet<u64>,
    first_sent: HashMap<u8, u64>,
    committed: Option<(u64, String)>,
    now: i64,
}

impl World {
    fn check_start(&mut self, offset: u64) -> Result<(), TestCaseError> {
        let mailbox = self.log[&offset];
        prop_assert!(
            !self.running.iter().any(|o| self.log[o] == mailbox),
            "two in flight in mailbox {mailbox}"
        );
        let last = self.first_sent.entry(mailbox).or_insert(offset);
        // First sendings of a mailbox come in order: a record is first sent only after all before it were.
        if offset > *last {
            let skipped = self.log.iter().any(|(o, m)| *m == mailbox && *o > *last && *o < offset);
            prop_assert!(!skipped, "{offset} overtook another in mailbox {mailbox}");
            *last = offset;
        }
        self.running.push(offset);
        Ok(())
    }

    fn check_commit(&mut self, w: &Window) -> Result<(), TestCaseError> {
        let checkpoint = w.checkpoint();
        for offset in self.log.keys() {
            let claimed = *offset < checkpoint.offset || checkpoint.done.contains(*offset);
            prop_assert!(
                !claimed || self.recorded.contains(offset),
                "{offset} is claimed done and is not (I1)"
            );
        }
        if let Some((before, _)) = &self.committed {
            prop_assert!(checkpoint.offset >= *before, "a commit went back");
        }
        self.committed = Some((checkpoint.offset, checkpoint.metadata()));
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn x09_no_loss_no_disorder_under_any_interleaving(steps in proptest::collection::vec(step(), 1..200)) {
        let mut world = World::default();
        let mut w = fresh();
        let mut next = 0;
        for step in steps {
            match step {
                Step::Offer { mailbox, gap } if w.has_room() => {
                    let offset = next + gap;
                    next = offset + 1;
                    world.log.insert(offset, mailbox);
                    w.offer(offset, key(mailbox), 10);
                }
                Step::Offer { .. } => {}
                Step::Start => if let Some(offset) = w.start(Timestamp(world.now)) { world.check_start(offset)?; },
                Step::Settle { which, retry } if !world.running.is_empty() => {
                    let offset = world.running.swap_remove(which % world.running.len());
                    match retry {
                        Some(wait) => w.settle(offset, Settlement::Retry(Timestamp(world.now + wait))),
                        None => { w.settle(offset, Settlement::Ended); world.ended.push(offset); }
                    }
                }
                Step::Record { which } if !world.ended.is_empty() => {
                    let offset = world.ended.swap_remove(which % world.ended.len());
                    world.recorded.insert(offset);
                    w.recorded(offset);
                }
                Step::Settle { .. } | Step::Record { .. } => {}
                Step::Pass(by) => world.now += by,
                Step::Crash => {
                    let (offset, text) = world.committed.clone().unwrap_or_default();
                    w = Window::new(LIMITS, Checkpoint::read(offset, &text));
                    world.running.clear();
                    world.ended.clear();
                    for (offset, mailbox) in world.log.range(offset..) {
                        w.offer(*offset, key(*mailbox), 10);
                    }
                }
            }
            world.check_commit(&w)?;
        }
        // Whatever happened, what is left can be delivered to its end.
        world.now += 1_000;
        for offset in world.running.drain(..) { w.settle(offset, Settlement::Ended); world.ended.push(offset); }
        for offset in world.ended.drain(..) { world.recorded.insert(offset); w.recorded(offset); }
        while let Some(offset) = w.start(Timestamp(world.now)) {
            w.settle(offset, Settlement::Ended);
            world.recorded.insert(offset);
            w.recorded(offset);
        }
        prop_assert_eq!(world.recorded.len(), world.log.len(), "lost");
        prop_assert_eq!(w.checkpoint().offset, w.next);
    }
}
