//! What is shown of partitions, looked at by hand-made states.

use mailrail_mailbox::{
    Aside, Checkpoint, Claim, Config, Cursor, DoneMap, Drained, Entry, Head, Hold, Kind, Link, Park, State,
    Unfinished,
};
use mailrail_telemetry::Metrics;
use mailrail_types::{History, MailboxKey};

use super::*;

const LIMITS: Limits = Limits { records_max: 10, bytes_max: 1000 };

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

fn hold(reason: HoldReason, until: i64) -> Hold {
    Hold { reason, until: at(until) }
}

fn park(mailbox: &str, source: u64, after: Option<u64>, hold: Hold) -> Kind {
    let link = after.map_or(Link::First, Link::After);
    Kind::Park(Park { mailbox: MailboxKey::from_text(mailbox), source, link, hold })
}

fn aside(mailbox: &str, source: u64, until: i64) -> Kind {
    let head = Head { source, hold: hold(HoldReason::Backoff, until), history: None };
    Kind::Aside(Aside { mailbox: MailboxKey::from_text(mailbox), content: None, head })
}

fn claim() -> Kind {
    Kind::Claim(Claim { member: "test".to_owned(), nonce: 1, process: 0 })
}

/// Applies entries from the end on, under the latest claim.
fn write(fold: &mut Fold, kinds: impl IntoIterator<Item = Kind>) {
    for kind in kinds {
        let epoch = fold.epoch();
        fold.apply(fold.next(), &Entry { epoch, kind });
    }
}

/// The journal of these entries and a claim.
fn fold(kinds: impl IntoIterator<Item = Kind>) -> Fold {
    let mut fold = Fold::new(0);
    write(&mut fold, kinds);
    write(&mut fold, [claim()]);
    fold
}

/// An owner that takes over after these entries.
fn owner(kinds: impl IntoIterator<Item = Kind>, from: Checkpoint, now: i64) -> Protocol {
    let fold = fold(kinds);
    let epoch = fold.epoch();
    Protocol::new(Config::new(LIMITS, Duration::from_secs(5)), fold, epoch, from, at(now))
}

fn shows(metrics: &Metrics, lines: &[&str]) {
    let text = metrics.render();
    for line in lines {
        let line = format!("mailrail_deliver_{line}\n");
        assert!(text.contains(&line), "{line} is missing in\n{text}");
    }
}

/// What is parked is counted by what it waits for, adds up to what is owed, and is given back.
#[test]
fn s30_what_is_held_is_shown_with_its_reason_and_given_back() {
    let (metrics, now) = (Metrics::new(), at(1000));
    let history = History { attempts: 2, first_attempt_at: Some(at(400)), ..History::default() };
    let tried = Head { source: 2, hold: hold(HoldReason::Backoff, 1100), history: Some(history) };
    let state = State { mailbox: MailboxKey::from_text("a"), drained: None, head: Some(tried) };
    let entries = [
        claim(),
        park("a", 2, None, hold(HoldReason::Backoff, 1000)),
        park("a", 5, Some(2), hold(HoldReason::BehindHead, 0)),
        park("a", 6, Some(5), hold(HoldReason::BehindHead, 0)),
        Kind::State(state),
        park("b", 3, None, hold(HoldReason::Paused, 9000)),
        aside("c", 4, 1200),
        aside("c", 7, 1300),
    ];
    let owner = owner(entries, Checkpoint::at(8), 1000);
    let mut observed = Observed::new(&metrics.deliver, owner.fold(), Volume { entries: 4, bytes: 1000 }, now);
    observed.note_entry(1000);
    observed.look(&owner, LIMITS, &Lease::endless(), at(1060));
    shows(
        &metrics,
        &[
            "held_by_reason{reason=\"backoff\"} 3",
            "held_by_reason{reason=\"behind_head\"} 2",
            "held_by_reason{reason=\"paused\"} 1",
            "held_mailboxes{reason=\"backoff\"} 2",
            "held_mailboxes{reason=\"paused\"} 1",
            "journal_pinned_entries 8",
            "journal_pinned_bytes 3200",
            "oldest_held_seconds 660.0",
            "lane_blocked_seconds 660.0",
            "window_fill 0.0",
        ],
    );
    assert_eq!(owner.fold().owed(), 6);
    assert!(!metrics.render().contains("lease_margin_seconds "), "nothing to say is not zero");
    drop(observed);
    shows(
        &metrics,
        &[
            "held_by_reason{reason=\"backoff\"} 0",
            "held_by_reason{reason=\"behind_head\"} 0",
            "held_mailboxes{reason=\"paused\"} 0",
            "journal_pinned_entries 0",
            "journal_pinned_bytes 0",
            "oldest_held_seconds 0.0",
            "lane_blocked_seconds 0.0",
        ],
    );
}

/// A head that has its turn waits for nothing else; one that ended is not counted.
#[test]
fn a_head_that_has_its_turn_is_behind_nothing_but_its_turn() {
    let metrics = Metrics::new();
    let next = Cursor { at: 2, epoch: 0 };
    let drained = Some(Drained { through: 2, next, count: 1 });
    let state = State { mailbox: MailboxKey::from_text("a"), drained, head: None };
    let entries = [
        claim(),
        park("a", 2, None, hold(HoldReason::Backoff, 1000)),
        park("a", 5, Some(2), hold(HoldReason::BehindHead, 0)),
        Kind::State(state),
    ];
    let owner = owner(entries, Checkpoint::at(8), 1000);
    let mut observed = Observed::new(&metrics.deliver, owner.fold(), Volume::default(), at(1000));
    observed.look(&owner, LIMITS, &Lease::endless(), at(1001));
    shows(
        &metrics,
        &["held_by_reason{reason=\"behind_head\"} 1", "held_mailboxes{reason=\"behind_head\"} 1"],
    );
    shows(&metrics, &["lane_blocked_seconds 0.0"]);
    assert!(!metrics.render().contains("held_by_reason{reason=\"backoff\"}"));
}

/// Two partitions of a process add up; of what is no sum the worst is shown.
#[test]
fn partitions_add_up() {
    let metrics = Metrics::new();
    let parked = |until| [claim(), park("a", 2, None, hold(HoldReason::Rate, until))];
    let (one, mut two) =
        (owner(parked(2000), Checkpoint::at(3), 1000), owner(parked(3000), Checkpoint::at(3), 1000));
    for source in 3..6 {
        let traits = mailrail_mailbox::Traits::STRICT;
        let shape = mailrail_mailbox::Shape { bytes: 10, key: None, traits };
        two.offer(source, &MailboxKey::from_text("b"), shape, at(1000));
    }
    let mut observed =
        [(); 2].map(|()| Observed::new(&metrics.deliver, one.fold(), Volume::default(), at(1000)));
    observed[0].look(&one, LIMITS, &Lease::endless(), at(1000));
    observed[1].look(&two, LIMITS, &Lease::endless(), at(1000));
    shows(&metrics, &["held_mailboxes{reason=\"rate\"} 2", "journal_pinned_entries 4", "window_fill 0.3"]);
    let [first, second] = observed;
    drop(second);
    shows(&metrics, &["held_mailboxes{reason=\"rate\"} 1", "journal_pinned_entries 2", "window_fill 0.0"]);
    drop(first);
}

#[test]
fn many_mailboxes_are_walked_over_every_ten_seconds() {
    let metrics = Metrics::new();
    let many = WALK_ALWAYS_MAX as u64 + 1;
    let parked = |n: u64| park(&format!("m{n}"), n, None, hold(HoldReason::Backoff, 9000));
    let before = owner((0..many).map(parked), Checkpoint::at(many), 1000);
    let after = owner((0..many + 9).map(parked), Checkpoint::at(many + 9), 1000);
    let (start, mut observed) =
        (Instant::now(), Observed::new(&metrics.deliver, before.fold(), Volume::default(), at(1000)));
    let mut look = |owner: &Protocol, later: Duration| {
        observed.look_at(owner, LIMITS, &Lease::endless(), at(1000), start + later);
        metrics.deliver.held_mailboxes.get_or_create(&ReasonLabels { reason: "backoff" }).get()
    };
    let first = Duration::from_secs(1);
    assert_eq!(look(&before, first), 257);
    assert_eq!(look(&after, first + WALK_INTERVAL / 2), 257, "not walked over yet");
    assert_eq!(look(&after, first + WALK_INTERVAL), 266);
}

#[test]
fn times_of_places_are_bounded_and_not_later_than_the_entry() {
    let mut times = Times(vec![(100, at(0))]);
    assert_eq!(times.of(5), at(0), "from before the takeover: not known better");
    for n in 1..=1000 {
        times.note(100 + n, at(n64(n)));
        times.note(100 + n, at(n64(n)));
        assert!(times.0.len() <= TIMES_MAX);
    }
    for place in [100, 101, 500, 999, 1099] {
        let (of, wrote) = (times.of(place), at(n64(place - 100)));
        assert!(of <= wrote && wrote.since(of) <= Duration::from_secs(8), "{place}: {of:?}");
    }
}

fn n64(n: u64) -> i64 {
    i64::try_from(n).expect("small")
}

#[test]
fn i10_the_margin_of_a_lease_that_is_over_is_negative() {
    let now = Instant::now();
    assert!((margin(now, now + Duration::from_secs(7)) - 7.0).abs() < 1e-9);
    assert!((margin(now + Duration::from_secs(7), now) + 7.0).abs() < 1e-9);
}

/// S28: what a takeover may send twice: nothing at the first start, what ran on after a hand-over, what is not known to be
/// done after a crash.
#[test]
fn s28_what_a_takeover_may_repeat_is_counted() {
    let count = |kinds: Vec<Kind>, from: Checkpoint, end: u64| {
        let metrics = Metrics::new();
        taken_over(&metrics.deliver, &fold(kinds), &from, end, at(1000));
        (metrics.deliver.unclean_takeovers.get(), metrics.deliver.duplicates_suspected.get())
    };
    assert_eq!(count(vec![], Checkpoint::at(0), 50), (0, 0), "nobody was there before");

    let mailbox = MailboxKey::from_text("a");
    let unfinished = vec![Unfinished { mailbox, source: 4, until: at(1005) }];
    assert_eq!(count(vec![claim(), Kind::HandOff(unfinished)], Checkpoint::at(4), 50), (0, 1));
    assert_eq!(count(vec![claim(), Kind::HandOff(vec![])], Checkpoint::at(4), 50), (0, 0));

    let mut done = DoneMap::new(4);
    done.mark(5);
    done.mark(6);
    let from = Checkpoint { done, ..Checkpoint::at(4) };
    assert_eq!(count(vec![claim()], from.clone(), 8), (1, 2), "4 and 7");
    assert_eq!(count(vec![claim()], from, u64::MAX).1, SPAN_MAX - 2, "no window reaches further");

    let parked = vec![
        claim(),
        park("due", 1, None, hold(HoldReason::Backoff, 999)),
        park("due", 2, Some(1), hold(HoldReason::BehindHead, 0)),
        park("later", 0, None, hold(HoldReason::Backoff, 1001)),
        aside("due", 3, 1000),
        aside("later", 4, 1001),
    ];
    assert_eq!(count(parked, Checkpoint::at(8), 8), (1, 2));
}
