//! What one owner does, rule by rule. The simulation tries them all together.

mod rig;

use std::time::Duration;

use mailrail_mailbox::{Config, Fenced, Kind, Limits, Link, Offered, Settlement, Traits};
use mailrail_types::{HoldReason, MailboxKey, Timestamp};
use rig::{Rig, claim, config, hold, retry, tolerant};

#[test]
fn i1_a_record_is_done_when_its_end_is_recorded() {
    let mut rig = Rig::new(config());
    rig.offer(0, "m");
    assert_eq!(rig.start(), Some(0));
    rig.settle(0, Settlement::Ended);
    assert_eq!(rig.owner.checkpoint().offset, 0, "it has ended, and that is not recorded yet");
    rig.recorded(0);
    assert_eq!(rig.owner.checkpoint().offset, 1);
    rig.assert_at_rest();
    assert!(rig.written().is_empty(), "a healthy delivery writes nothing");
}

#[test]
fn i2_marks_beyond_the_window_are_kept_until_they_are_read_again() {
    let mut rig = Rig::new(config());
    for source in 0..4 {
        rig.offer(source, &format!("m{source}"));
    }
    while let Some(source) = rig.start() {
        if source > 0 {
            rig.settle(source, Settlement::Ended);
            rig.recorded(source);
        }
    }
    let from = rig.owner.checkpoint();
    assert_eq!((from.offset, from.done.contains(3)), (0, true));
    let mut next = rig.take_over(from);
    assert!(
        next.owner.checkpoint().done.contains(3),
        "a second crash must not forget what the first did not"
    );
    next.offer(0, "m0");
    assert_eq!(next.offer(1, "m1"), Offered::Known);
}

#[test]
fn i2b_what_the_log_never_gave_is_done() {
    let mut rig = Rig::new(config());
    rig.offer(5, "m");
    assert_eq!(rig.owner.checkpoint().offset, 5);
    rig.deliver(5);
    assert_eq!(rig.owner.checkpoint().offset, 6);
}

#[test]
fn i5_a_parked_delivery_is_done_when_its_entry_was_read_back() {
    let mut rig = Rig::new(config());
    rig.offer(0, "m");
    rig.start();
    rig.settle(0, retry(1, 60));
    rig.append();
    assert_eq!(rig.owner.checkpoint().offset, 0, "acknowledged is not enough");
    rig.read_back();
    assert_eq!(rig.owner.checkpoint().offset, 1);
}

#[test]
fn i5_a_foreign_claim_or_a_gap_ends_the_owner() {
    let mut rig = Rig::new(config());
    let place = rig.journal.len() as u64;
    assert_eq!(rig.owner.applied(place, &claim(), 1, rig.now), Err(Fenced::Claimed));

    let mut rig = Rig::new(config());
    rig.offer(0, "m");
    rig.start();
    rig.settle(0, retry(1, 60));
    rig.offer(1, "m");
    let batch = rig.owner.take_batch(9, rig.now).expect("two parks");
    rig.owner.appended();
    let place = rig.journal.len() as u64;
    assert_eq!(rig.owner.applied(place, &batch[1], 1, rig.now), Err(Fenced::Gap), "the first one never came");
}

#[test]
fn i6_while_a_mailbox_is_blocked_what_comes_is_parked_behind() {
    let mut rig = Rig::new(config());
    for source in 0..2 {
        rig.offer(source, "m");
    }
    rig.start();
    rig.settle(0, retry(1, 60));
    rig.settle_journal();
    rig.offer(2, "m");
    rig.settle_journal();
    assert_eq!(rig.parks(), [(0, Link::First), (1, Link::After(0)), (2, Link::After(1))]);
    assert_eq!(rig.start(), None, "the head waits, and with it the rest");
    assert_eq!((rig.owner.checkpoint().offset, rig.owner.records()), (3, 0));
    rig.pass(60);
    rig.scan();
    for source in 0..3 {
        rig.deliver(source);
    }
    rig.assert_at_rest();
}

#[test]
fn i7_a_backlog_waits_until_the_deliveries_were_read_past_it() {
    let mut rig = Rig::new(config());
    rig.offer(0, "m");
    rig.offer(1, "m");
    rig.start();
    rig.settle(0, retry(1, 1));
    rig.settle_journal();
    // The commit of all that got lost: the next owner reads the deliveries again.
    let mut next = rig.take_over(mailrail_mailbox::Checkpoint::at(0));
    next.pass(5);
    next.scan();
    assert_eq!(next.start(), None, "an older one of the mailbox may still come");
    assert_eq!(next.offer(0, "m"), Offered::Known);
    assert_eq!(next.start(), Some(0));
    next.finish(0);
    assert_eq!(next.start(), None);
    assert_eq!(next.offer(1, "m"), Offered::Known);
    assert_eq!(next.start(), Some(1));
}

#[test]
fn i8_what_takes_long_leaves_the_window_and_goes_on() {
    let mut rig = Rig::new(config());
    rig.offer(0, "m");
    rig.offer(1, "n");
    rig.start();
    rig.deliver(1);
    rig.pass(2);
    rig.settle_journal();
    assert_eq!((rig.owner.checkpoint().offset, rig.owner.records()), (2, 0));
    rig.finish(0);
    rig.assert_at_rest();
}

#[test]
fn i8_what_waits_for_longer_than_it_may_is_parked_and_wakes_by_its_event() {
    let mut rig = Rig::new(config());
    rig.offer(0, "m");
    rig.offer(1, "m");
    rig.start();
    rig.settle(0, Settlement::Held(hold(HoldReason::Paused, rig.now.plus(Duration::from_hours(24)))));
    rig.settle_journal();
    assert_eq!(rig.owner.checkpoint().offset, 2);
    assert_eq!(rig.start(), None);
    let now = rig.now;
    rig.owner.wake(now, |_, reason| reason == HoldReason::Paused);
    rig.scan();
    assert_eq!(rig.start(), Some(0));

    let mut rig = Rig::new(config());
    rig.offer(0, "m");
    rig.start();
    rig.settle(0, Settlement::Held(hold(HoldReason::Concurrency, rig.now.plus(Duration::from_millis(500)))));
    rig.settle_journal();
    assert!(rig.written().is_empty(), "a moment is no reason to park");
}

/// Older than the backlog, read again after a takeover: it leaves the window however fast new ones are parked.
#[test]
fn i8_new_deliveries_of_a_blocked_mailbox_do_not_keep_an_older_one_in_the_window() {
    let mut first = Rig::new(config());
    first.offer(5, "m");
    first.start();
    first.settle(5, retry(1, 60));
    first.settle_journal();
    let mut next = first.take_over(mailrail_mailbox::Checkpoint::at(0));
    next.offer(0, "m");
    assert_eq!(next.start(), Some(0));
    next.offer(5, "m");
    next.offer(6, "m");
    next.append();
    next.settle(0, retry(1, 60));
    next.settle_journal();
    let before = (0, Link::Before(5));
    assert!(next.parks().contains(&before), "{:?}", next.parks());
    assert_eq!(next.owner.records(), 0);
}

#[test]
fn i9_a_snapshot_waits_for_what_is_on_its_way_and_nothing_overtakes_it() {
    let mut rig = Rig::new(Config { snapshot_after: Duration::from_secs(1), ..config() });
    rig.offer(0, "m");
    rig.start();
    rig.settle(0, retry(1, 60));
    rig.settle_journal();
    rig.pass(1);
    rig.settle_journal();
    let snapshots = |rig: &Rig| rig.written_with_snapshots(|kind| matches!(kind, Kind::Snapshot(_)));
    assert_eq!(snapshots(&rig), 1, "what it holds was read back");
    for source in 1..3 {
        rig.offer(source, "m");
        rig.append();
    }
    rig.read_one();
    rig.pass(1);
    rig.offer(3, "m");
    assert!(rig.owner.take_batch(9, rig.now).is_none(), "one is due, and an entry is on its way");
    rig.read_back();
    rig.append();
    let last: Vec<_> = rig.journal.iter().rev().take(2).map(|entry| &entry.kind).collect();
    assert!(matches!(last[..], [Kind::Park(_), Kind::Snapshot(_)]), "it goes before what waits: {last:?}");
    rig.settle_journal();
    let pointer = rig.owner.checkpoint().snapshot;
    assert_eq!(rig.owner.trim_before(pointer), Some(2), "the head's entry is still needed");
}

#[test]
fn i12_a_strict_mailbox_has_one_attempt_at_a_time_and_a_tolerant_one_its_threads() {
    let mut rig = Rig::new(config());
    for source in 0..3 {
        rig.offer(source, "m");
    }
    assert_eq!((rig.start(), rig.start()), (Some(0), None));
    let mut rig = Rig::new(config());
    for source in 0..3 {
        rig.offer_with(source, "m", tolerant(2));
    }
    assert_eq!((rig.start(), rig.start(), rig.start()), (Some(0), Some(1), None));
}

#[test]
fn i12_what_the_owner_before_left_running_is_waited_for_and_told_on() {
    let mut rig = Rig::new(config());
    rig.offer(0, "m");
    rig.start();
    rig.owner.stop();
    rig.owner.hand_off(rig.now);
    rig.settle_journal();
    let mut next = rig.take_over(rig.owner.checkpoint());
    next.offer(0, "m");
    assert_eq!(next.start(), None);
    next.owner.stop();
    next.owner.hand_off(next.now);
    next.settle_journal();
    let mut last = next.take_over(next.owner.checkpoint());
    assert_eq!(last.start(), None, "the owner between knew, and said so");
    last.pass(30);
    last.scan();
    assert_eq!(last.start(), Some(0));
}

#[test]
fn i13_attempts_are_in_the_journal_before_the_next_one_starts() {
    let mut rig = Rig::new(config());
    rig.offer(0, "m");
    rig.start();
    rig.settle(0, retry(1, 1));
    rig.settle_journal();
    rig.pass(1);
    assert_eq!(rig.start(), Some(0));
    rig.settle(0, retry(2, 1));
    rig.append();
    rig.pass(1);
    assert_eq!(rig.start(), None, "its second attempt is on its way to the journal");
    rig.read_back();
    let started = rig.owner.start(rig.now, true, |_| true).expect("it is due");
    assert_eq!(started.history.map(|history| history.attempts), Some(2));
}

#[test]
fn i14_the_window_is_bounded_and_one_mailbox_cannot_fill_it() {
    let window = Limits { records_max: 8, bytes_max: 1 << 20 };
    let mut rig = Rig::new(Config { queue_max: 2, window, ..config() });
    let mut source = 0;
    while rig.owner.has_room() {
        rig.offer(source, "m");
        source += 1;
    }
    assert_eq!(rig.owner.records(), 8);
    rig.settle_journal();
    assert!(rig.owner.has_room(), "what a mailbox has too much of is parked");
    assert_eq!(rig.start(), Some(0), "and it goes on");
}

#[test]
fn i14_content_that_is_not_at_hand_is_read_again_in_order() {
    let mut rig = Rig::new(Config { mailbox_content_max: 250, content_max: 400, ..config() });
    for source in 0..12 {
        rig.offer(source, if source % 3 == 0 { "m" } else { "n" });
    }
    for _ in 0..2 {
        let source = rig.start().expect("one of each mailbox");
        rig.settle(source, retry(1, 60));
    }
    rig.settle_journal();
    assert!(rig.owner.at_hand().content <= 500, "{:?}", rig.owner.at_hand());
    rig.pass(61);
    let mut order = Vec::new();
    while order.len() < 12 {
        rig.scan();
        assert!(rig.owner.at_hand().content <= 500, "{:?}", rig.owner.at_hand());
        let source = rig.start().expect("the backlog goes on");
        rig.finish(source);
        rig.settle_journal();
        order.push(source);
    }
    let of = |of_m: bool| order.iter().copied().filter(|s| (s % 3 == 0) == of_m).collect::<Vec<_>>();
    assert!(of(true).is_sorted() && of(false).is_sorted(), "{order:?}");
    rig.assert_at_rest();
}

/// S29: a tolerant mailbox goes on, and commits, while a failed delivery waits beside it.
#[test]
fn s29_a_tolerant_mailbox_goes_on_while_one_waits_beside_it() {
    let mut rig = Rig::new(config());
    for source in 0..3 {
        rig.offer_with(source, "m", tolerant(1));
    }
    rig.start();
    rig.settle(0, retry(1, 60));
    rig.deliver(1);
    rig.deliver(2);
    rig.settle_journal();
    assert_eq!((rig.owner.checkpoint().offset, rig.owner.fold().asides()), (3, 1));
    rig.pass(60);
    rig.scan();
    rig.deliver(0);
    rig.assert_at_rest();
}

/// S32: of two that are due, the more urgent one is started first.
#[test]
fn s32_the_more_urgent_mailbox_goes_first() {
    let mut rig = Rig::new(config());
    rig.offer_with(0, "low", Traits { priority: 9, ..Traits::STRICT });
    rig.offer_with(1, "high", Traits { priority: 1, ..Traits::STRICT });
    assert_eq!((rig.start(), rig.start()), (Some(1), Some(0)));
}

#[test]
fn i10_nothing_starts_without_a_lease() {
    let mut rig = Rig::new(config());
    rig.offer(0, "m");
    assert!(rig.owner.start(rig.now, false, |_| true).is_none());
    assert_eq!(rig.start(), Some(0), "it only waited");
    assert_eq!(Timestamp::ZERO.plus(Duration::from_secs(1000)), rig.now);
}

/// A24: whose recipient has what it may have lets others pass. It is ready all the time: neither held nor parked, and it goes in its
/// turn when it may.
#[test]
fn a24_who_may_not_go_lets_others_pass_and_keeps_its_turn() {
    let [one, two, other] = ["p::t:slow::0", "p::t:slow::1", "p::t:quick::0"];
    let mut rig = Rig::new(config());
    for (source, mailbox) in (0..).zip([one, two, other, one, other]) {
        rig.offer(source, mailbox);
    }
    let (now, is_other) = (rig.now, |mailbox: &MailboxKey| mailbox.recipient() == "p::t:quick");
    let start = |rig: &mut Rig| rig.owner.start(now, true, is_other).map(|started| started.source);
    assert_eq!(start(&mut rig), Some(2));
    rig.settle(2, Settlement::Ended);
    assert_eq!((start(&mut rig), start(&mut rig)), (Some(4), None));
    assert!(!rig.owner.has_ready(), "it is not asked for again before it is called");
    rig.pass(10);
    assert!(rig.journal.iter().all(|entry| !matches!(entry.kind, Kind::Park(_))), "{:?}", rig.journal);
    assert_eq!(rig.owner.held_longest(), None);
    rig.owner.call("p::t:slow");
    assert_eq!(start(&mut rig), None, "it still may not");
    rig.owner.call_all(now, |_| false);
    assert_eq!((rig.start(), rig.start()), (Some(0), Some(1)), "one that went calls the next");
    rig.settle(0, Settlement::Ended);
    assert_eq!(rig.start(), Some(3));
}
