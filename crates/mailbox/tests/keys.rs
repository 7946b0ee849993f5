//! Several attempts of a tolerant mailbox at a time, and what may not run beside each other (I12b).

mod rig;

use mailrail_mailbox::{Config, Kind, Traits};
use rig::{Rig, config, retry, tolerant};

#[test]
fn i12b_deliveries_of_one_key_go_one_at_a_time_and_others_pass() {
    let mut rig = Rig::new(config());
    for (source, key) in [(0, Some(1)), (1, Some(1)), (2, Some(2)), (3, None), (4, Some(1)), (5, None)] {
        rig.offer_about(source, "m", key, tolerant(4));
    }
    let started: Vec<_> = std::iter::from_fn(|| rig.start()).collect();
    assert_eq!(started, [0, 2, 3, 5], "what has no key is in nobody's way");
    for source in [2, 3, 5] {
        rig.finish(source);
    }
    assert_eq!(rig.start(), None, "both wait for the first of their key");
    rig.finish(0);
    assert_eq!((rig.start(), rig.start()), (Some(1), None));
    rig.finish(1);
    rig.deliver(4);
    rig.assert_at_rest();
}

#[test]
fn i12b_one_that_was_set_aside_waits_for_its_key_too() {
    let mut rig = Rig::new(config());
    rig.offer_about(0, "m", Some(1), tolerant(4));
    rig.start();
    rig.settle(0, retry(1, 1));
    rig.settle_journal();
    rig.offer_about(1, "m", Some(1), tolerant(4));
    assert_eq!(rig.start(), Some(1), "those behind a failed one pass it");
    rig.pass(1);
    assert_eq!(rig.start(), None, "its time has come, and its key is taken");
    rig.finish(1);
    rig.offer_about(2, "m", Some(1), tolerant(4));
    assert_eq!((rig.start(), rig.start()), (Some(0), None));
    rig.finish(0);
    rig.settle_journal();
    rig.deliver(2);
    rig.assert_at_rest();
}

#[test]
fn s29_those_aside_count_among_the_threads_and_take_turns_with_the_rest() {
    let mut rig = Rig::new(config());
    for source in 0..8 {
        rig.offer_with(source, "m", tolerant(2));
    }
    for _ in 0..2 {
        let source = rig.start().expect("one of two");
        rig.settle(source, retry(1, 1));
    }
    rig.settle_journal();
    assert_eq!((rig.start(), rig.start(), rig.start()), (Some(2), Some(3), None));
    rig.pass(1);
    assert_eq!(rig.start(), None, "as many run as may");
    let mut order: Vec<u64> = Vec::new();
    let mut running = vec![2, 3];
    while let Some(source) = running.pop() {
        rig.finish(source);
        rig.settle_journal();
        let next: Vec<_> = std::iter::from_fn(|| rig.start()).collect();
        assert!(running.len() + next.len() <= 2, "{running:?} {next:?}");
        order.extend(&next);
        running.extend(next);
    }
    assert_eq!(order, [0, 4, 1, 5, 6, 7], "one that waits aside, one of the rest");
    rig.assert_at_rest();
}

#[test]
fn i8_what_waits_behind_a_slow_one_of_its_key_does_not_hold_the_commit() {
    let mut rig = Rig::new(config());
    for (source, key) in [(0, Some(1)), (1, Some(2)), (2, Some(1))] {
        rig.offer_about(source, "m", key, tolerant(4));
    }
    assert_eq!((rig.start(), rig.start(), rig.start()), (Some(0), Some(1), None));
    rig.finish(1);
    rig.pass(3);
    rig.settle_journal();
    assert_eq!(rig.owner.checkpoint().offset, 3, "the slow one is aside, and what waits for it is parked");
    let parked = |kind: &&&Kind| matches!(kind, Kind::Park(_));
    assert_eq!(rig.written().iter().filter(parked).count(), 1);
    assert_eq!(rig.start(), None);
    rig.finish(0);
    rig.settle_journal();
    rig.deliver(2);
    rig.assert_at_rest();
}

#[test]
fn i14_a_backlog_is_not_read_on_for_what_has_no_place() {
    let mut rig = Rig::new(Config { mailbox_content_max: 250, ..config() });
    for source in 0..6 {
        rig.offer_with(source, "m", Traits::STRICT);
    }
    rig.start();
    rig.settle(0, retry(1, 60));
    rig.settle_journal();
    rig.be_tolerant(4);
    rig.pass(61);
    rig.scan();
    assert_eq!(rig.start(), Some(0));
    rig.scan();
    let mut running = vec![0];
    running.extend(std::iter::from_fn(|| rig.start()));
    assert!(running.len() > 1 && rig.owner.at_hand().content <= 300, "{running:?}");
    assert!(rig.owner.start_scan().is_none(), "nothing more fits: no pass is made for it");
    let mut done = 0;
    while let Some(source) = running.pop() {
        rig.finish(source);
        done += 1;
        rig.settle_journal();
        rig.scan();
        running.extend(std::iter::from_fn(|| rig.start()));
    }
    assert_eq!(done, 6);
    rig.assert_at_rest();
}
