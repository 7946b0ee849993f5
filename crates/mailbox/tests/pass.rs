//! What lets others pass because its recipient has what it may have (I17), and what becomes of it when the recipient is slow (I8).

mod rig;

use mailrail_mailbox::{Config, Link, Settlement, Source, Traits};
use mailrail_types::HoldReason;
use rig::{Rig, config, hold, retry, tolerant};

const SLOW: &str = "p::t:slow";
const BUSY: &str = "p::t:busy";
const SLOW_ONE: &str = "p::t:slow::0";
const QUICK_ONE: &str = "p::t:quick::0";

fn is_slow(recipient: &str) -> bool {
    recipient == SLOW
}

/// `count` deliveries from `first` on, each of a mailbox of its own.
fn offer_one_each(rig: &mut Rig, recipient: &str, first: Source, count: u64) {
    for source in first..first + count {
        rig.offer(source, &format!("{recipient}::{source}"));
    }
}

/// I8: nothing of the slow recipient runs here, since other partitions have all its share: its mail makes room all the same. That of one
/// which merely has much to do is lag.
#[test]
fn i8_what_waits_for_a_slow_recipient_makes_room_in_a_pressed_window() {
    let mut rig = Rig::new(config());
    rig.full = &[SLOW, BUSY];
    offer_one_each(&mut rig, SLOW, 0, 20);
    offer_one_each(&mut rig, BUSY, 20, 20);
    assert_eq!((rig.start(), rig.owner.passed_over()), (None, 40));
    rig.owner.call_all(rig.now, is_slow);
    assert_eq!(rig.start(), None);
    rig.settle_journal();
    assert!(rig.written().is_empty(), "there is room for others");
    offer_one_each(&mut rig, BUSY, 40, 20);
    rig.owner.call_all(rig.now, |_| false);
    assert_eq!(rig.start(), None);
    rig.settle_journal();
    assert!(rig.written().is_empty(), "behind quick ones it is lag");
    rig.owner.call_all(rig.now, is_slow);
    assert_eq!(rig.start(), None);
    rig.settle_journal();
    assert_eq!(
        rig.parks().iter().map(|(source, _)| *source).collect::<Vec<_>>(),
        (0..20).collect::<Vec<_>>()
    );
    assert_eq!(rig.owner.records(), 40);
    deliver_all(&mut rig, 60);
}

/// What is parked now would stand behind the last word.
#[test]
fn i8_nothing_is_parked_while_the_owner_stops() {
    let mut rig = Rig::new(config());
    rig.full = &[SLOW];
    offer_one_each(&mut rig, SLOW, 0, 60);
    assert_eq!(rig.start(), None);
    rig.owner.stop();
    rig.owner.call_all(rig.now, is_slow);
    rig.settle_journal();
    assert!(rig.written().is_empty(), "{:?}", rig.written());
}

/// I8, I14: content that waits for a slow recipient takes all the room, so that no other backlog could be read. It makes room, and is
/// read again when it may go.
fn content_makes_room(mut rig: Rig) {
    fail_all(&mut rig);
    rig.offer(4, QUICK_ONE);
    fail_all(&mut rig);
    rig.settle_journal();
    rig.pass(60);
    rig.scan();
    assert_eq!(rig.owner.at_hand().content, 400, "all of it is of the slow one");
    rig.full = &[SLOW];
    rig.owner.call_all(rig.now, |_| false);
    rig.scan();
    assert_eq!((rig.start(), rig.owner.passed_over()), (None, 4), "the quick one has its content to be read");
    rig.owner.call_all(rig.now, is_slow);
    assert_eq!(rig.owner.at_hand().content, 200);
    rig.scan();
    rig.deliver(4);
    assert_eq!(rig.start(), None);
    rig.owner.call_all(rig.now, is_slow);
    rig.scan();
    assert_eq!(rig.owner.at_hand().content, 200, "what may not go is not read");
    deliver_all(&mut rig, 4);
}

/// All that may go is to be tried again in a minute.
fn fail_all(rig: &mut Rig) {
    while let Some(source) = rig.start() {
        rig.settle(source, retry(1, 60));
    }
}

/// From here on all may go; so many are owed.
fn deliver_all(rig: &mut Rig, count: usize) {
    rig.full = &[];
    rig.owner.call_all(rig.now, is_slow);
    for _ in 0..count {
        rig.scan();
        rig.pass(0);
        let source = rig.start().expect("it goes on");
        rig.finish(source);
        rig.settle_journal();
    }
    rig.assert_at_rest();
}

#[test]
fn i8_content_of_a_slow_recipients_backlogs_leaves_room_for_others() {
    let mut rig = Rig::new(Config { content_max: 400, ..config() });
    offer_one_each(&mut rig, SLOW, 0, 4);
    content_makes_room(rig);
}

#[test]
fn i8_content_aside_of_a_slow_recipient_leaves_room_for_others() {
    let mut rig = Rig::new(Config { content_max: 400, ..config() });
    for source in 0..4 {
        rig.offer_with(source, SLOW_ONE, tolerant(4));
    }
    content_makes_room(rig);
}

/// What runs and is on its way into the backlog finds its place behind what is at hand there.
#[test]
fn i8_content_stays_where_one_that_runs_is_on_its_way_behind_it() {
    let mut rig = Rig::new(Config { content_max: 150, ..config() });
    for source in 0..2 {
        rig.offer_with(source, SLOW_ONE, tolerant(2));
    }
    assert_eq!((rig.start(), rig.start()), (Some(0), Some(1)));
    rig.settle(0, Settlement::NotStarted);
    rig.full = &[SLOW, BUSY];
    offer_one_each(&mut rig, BUSY, 2, 60);
    assert_eq!(rig.start(), None);
    rig.owner.call_all(rig.now, is_slow);
    rig.append();
    rig.read_one();
    assert_eq!(rig.parks(), [(0, Link::First), (1, Link::After(0))]);
    assert_eq!((rig.start(), rig.owner.at_hand().content), (None, 100));
    rig.owner.call_all(rig.now, is_slow);
    rig.settle_journal();
    rig.finish(1);
    deliver_all(&mut rig, 61);
}

/// Who has nothing to start asks for nothing; who would have to be read first asks before.
#[test]
fn a24_it_is_asked_when_something_would_go() {
    let mut rig = Rig::new(config());
    rig.offer(0, SLOW_ONE);
    assert_eq!((rig.start(), rig.asked), (Some(0), 1));
    rig.settle(0, Settlement::Held(hold(HoldReason::Rate, rig.now.plus(std::time::Duration::from_secs(1)))));
    rig.offer(1, SLOW_ONE);
    assert_eq!((rig.start(), rig.asked), (None, 1), "its mailbox waits");
    rig.pass(1);
    assert_eq!((rig.start(), rig.asked), (Some(0), 2));
    rig.settle(0, retry(1, 60));
    rig.settle_journal();
    rig.pass(60);
    rig.full = &[SLOW];
    rig.scan();
    assert_eq!((rig.asked, rig.owner.at_hand().content), (3, 0), "what may not go is not read");
    deliver_all(&mut rig, 2);
}

/// I17: one that is called and has nothing to start any more gives its turn to the next.
#[test]
fn i17_who_is_called_in_vain_calls_the_next() {
    let mut rig = Rig::new(config());
    for source in 0..2 {
        rig.offer_with(source, SLOW_ONE, tolerant(2));
    }
    assert_eq!(rig.start(), Some(0));
    rig.full = &[SLOW];
    rig.offer_with(2, "p::t:slow::1", Traits::STRICT);
    assert_eq!((rig.start(), rig.owner.passed_over()), (None, 2));
    rig.settle(0, Settlement::Held(hold(HoldReason::Rate, rig.now.plus(std::time::Duration::from_secs(1)))));
    rig.full = &[];
    rig.owner.call(SLOW);
    assert_eq!(rig.start(), Some(2));
}

/// I17: content is read ahead for a few of a recipient, not for all that wait, and who was read for has its turn then.
#[test]
fn i17_a_few_are_read_for_and_keep_their_turn() {
    const WAITING: u64 = 40;
    let mut rig = Rig::new(Config { content_max: 100_000, ..config() });
    offer_one_each(&mut rig, SLOW, 0, WAITING);
    fail_all(&mut rig);
    rig.settle_journal();
    rig.pass(60);
    rig.full = &[SLOW];
    rig.scan();
    assert_eq!((rig.start(), rig.owner.passed_over()), (None, WAITING as usize));
    rig.full = &[];
    rig.owner.call(SLOW);
    assert_eq!(rig.start(), None, "they are read for first");
    let waiting = rig.owner.passed_over();
    assert!(waiting > WAITING as usize / 2, "{waiting} wait as before");
    rig.scan();
    assert_eq!(rig.owner.at_hand().content, (WAITING as usize - waiting) * 100);
    assert_eq!(rig.start(), Some(0), "nobody has to call it again");
    rig.finish(0);
    let mut delivered = 1;
    // Each place reads for at least one more, or starts one.
    for _ in 0..2 * WAITING {
        rig.settle_journal();
        rig.scan();
        if let Some(source) = rig.start() {
            rig.finish(source);
            delivered += 1;
        }
    }
    assert_eq!(delivered, WAITING);
    rig.settle_journal();
    rig.assert_at_rest();
}
