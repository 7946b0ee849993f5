//! The state that a journal describes: which entries count, and that a snapshot stands for all before it.

use mailrail_mailbox::{
    Aside, Claim, Cursor, Drained, Entry, Fold, Head, Hold, Kind, Link, Park, Place, Snapshot, State,
    Unfinished, Verdict,
};
use mailrail_types::{History, HoldReason, MailboxKey, Timestamp};
use proptest::prelude::*;

fn mailbox(n: u8) -> MailboxKey {
    MailboxKey::from_text(&format!("m{n}"))
}

fn hold() -> Hold {
    Hold { reason: HoldReason::Backoff, until: Timestamp(7) }
}

fn claim() -> Entry {
    Entry { epoch: 0, kind: Kind::Claim(Claim { member: "a".to_owned(), nonce: 1, process: 0 }) }
}

fn park(epoch: Place, source: u64, link: Link) -> Entry {
    Entry { epoch, kind: Kind::Park(Park { mailbox: mailbox(0), source, link, hold: hold() }) }
}

fn drained(epoch: Place, through: u64, next: Place) -> Entry {
    let drained = Some(Drained { through, next: Cursor { at: next, epoch }, count: 1 });
    Entry { epoch, kind: Kind::State(State { mailbox: mailbox(0), drained, head: None }) }
}

fn fold(entries: &[Entry]) -> (Fold, Vec<Verdict>) {
    let mut fold = Fold::new(0);
    let verdicts = (0..).zip(entries).map(|(place, entry)| fold.apply(place, entry)).collect();
    (fold, verdicts)
}

fn stretches(fold: &Fold) -> Vec<(u64, u64)> {
    let backlog = fold.backlog(&mailbox(0));
    backlog.map(|b| b.stretches.iter().map(|s| (s.first, s.last)).collect()).unwrap_or_default()
}

#[test]
fn i4_what_an_older_claim_wrote_is_void() {
    let entries =
        [claim(), park(0, 3, Link::First), claim(), park(0, 4, Link::After(3)), park(2, 5, Link::After(3))];
    let (fold, verdicts) = fold(&entries);
    assert_eq!(verdicts, [Verdict::Valid, Verdict::Valid, Verdict::Valid, Verdict::Void, Verdict::Valid]);
    assert_eq!(stretches(&fold), [(3, 5)]);
}

#[test]
fn i4_a_claim_that_was_trimmed_away_is_known_by_what_is_under_it() {
    let mut fold = Fold::new(10);
    assert_eq!(fold.apply(10, &park(9, 3, Link::First)), Verdict::Valid);
    assert_eq!(fold.apply(11, &park(5, 4, Link::After(3))), Verdict::Void);
    assert_eq!(fold.epoch(), 9);
}

#[test]
fn i4_a_park_that_does_not_continue_its_chain_is_void() {
    let entries = [
        claim(),
        park(0, 3, Link::First),
        park(0, 6, Link::After(5)),
        park(0, 7, Link::First),
        park(0, 2, Link::Before(9)),
        park(0, 4, Link::After(3)),
    ];
    let (fold, verdicts) = fold(&entries);
    let void = verdicts.iter().filter(|verdict| **verdict == Verdict::Void).count();
    assert_eq!((void, stretches(&fold)), (3, vec![(3, 4)]));
    assert_eq!(fold.owed(), 2);
}

#[test]
fn i6_an_older_stretch_stands_in_front_and_is_worked_off_first() {
    let entries = [
        claim(),
        park(0, 8, Link::First),
        park(0, 9, Link::After(8)),
        park(0, 3, Link::Before(8)),
        park(0, 4, Link::After(3)),
        park(0, 10, Link::After(9)),
    ];
    let (mut fold, _) = fold(&entries);
    assert_eq!(stretches(&fold), [(3, 4), (8, 10)]);
    assert_eq!(fold.pin(), Some(1), "the journal is needed from the first delivery on that has not ended");
    fold.apply(6, &drained(0, 4, 5));
    assert_eq!(stretches(&fold), [(8, 10)]);
    fold.apply(7, &drained(0, 9, 5));
    assert_eq!(fold.pin(), Some(5));
    fold.apply(8, &Entry { epoch: 0, kind: Kind::Clear { mailbox: mailbox(0) } });
    assert!(fold.is_empty() && fold.pin().is_none() && fold.owed() == 0);
}

/// Worked off and not cleared, and then an older one came in front: with that it goes too.
#[test]
fn i6_a_stretch_that_was_worked_off_goes_with_the_one_in_front() {
    let entries = [
        claim(),
        park(0, 8, Link::First),
        drained(0, 8, 2),
        park(0, 3, Link::Before(8)),
        park(0, 12, Link::After(8)),
        drained(0, 3, 4),
    ];
    let (fold, _) = fold(&entries);
    assert_eq!(stretches(&fold), [(8, 12)], "not worked off any more: 12 stands behind it");
}

/// A place that is owed never moves back: what was before it may have been trimmed away.
#[test]
fn i9_what_follows_a_stretch_that_was_worked_off_is_needed_from_there_on() {
    let (mut fold, _) = fold(&[claim(), park(0, 8, Link::First), drained(0, 8, 2)]);
    assert_eq!(fold.pin(), None);
    fold.apply(30, &park(0, 9, Link::After(8)));
    assert_eq!(fold.pin(), Some(30));
}

#[test]
fn i13_attempts_of_a_head_are_known_again_when_what_came_in_front_has_ended() {
    let tried = |source, attempts| {
        let history = Some(History { attempts, ..History::default() });
        let head = Some(Head { source, hold: hold(), history });
        Entry { epoch: 0, kind: Kind::State(State { mailbox: mailbox(0), drained: None, head }) }
    };
    let entries = [claim(), park(0, 8, Link::First), tried(8, 2), park(0, 3, Link::Before(8)), tried(3, 1)];
    let (mut fold, _) = fold(&entries);
    let known = |fold: &Fold| {
        let head = fold.backlog(&mailbox(0)).and_then(|backlog| backlog.head.clone());
        head.map(|head| (head.source, head.history.map_or(0, |history| history.attempts)))
    };
    assert_eq!(known(&fold), Some((3, 1)));
    fold.apply(5, &drained(0, 3, 4));
    assert_eq!(known(&fold), Some((8, 2)));
}

#[test]
fn i12_unfinished_attempts_are_known_to_every_later_owner() {
    let until = Timestamp(9);
    let unfinished = vec![Unfinished { mailbox: mailbox(0), source: 3, until }];
    let last_word = Entry { epoch: 0, kind: Kind::HandOff(unfinished.clone()) };
    let (fold, _) = fold(&[claim(), last_word, claim(), claim()]);
    assert_eq!(fold.unfinished(), unfinished);
    assert!(!fold.was_handed_off(), "the owner between said nothing");
}

fn links() -> impl Strategy<Value = Link> {
    prop_oneof![
        2 => Just(Link::First),
        5 => (0u64..10).prop_map(Link::After),
        2 => (0u64..10).prop_map(Link::Before),
    ]
}

fn heads() -> impl Strategy<Value = Head> {
    (0u64..10).prop_map(|source| Head { source, hold: hold(), history: None })
}

fn kinds() -> impl Strategy<Value = Kind> {
    let mailboxes = || (0u8..2).prop_map(mailbox);
    let cursor = (0u64..20).prop_map(|at| Cursor { at, epoch: 0 });
    let drained = (0u64..10, cursor).prop_map(|(through, next)| Drained { through, next, count: 1 });
    prop_oneof![
        8 => (mailboxes(), 0u64..10, links())
            .prop_map(|(mailbox, source, link)| Kind::Park(Park { mailbox, source, link, hold: hold() })),
        4 => (mailboxes(), proptest::option::of(drained), proptest::option::of(heads()))
            .prop_map(|(mailbox, drained, head)| Kind::State(State { mailbox, drained, head })),
        1 => mailboxes().prop_map(|mailbox| Kind::Clear { mailbox }),
        2 => (mailboxes(), proptest::option::of(0u64..9), heads())
            .prop_map(|(mailbox, content, head)| Kind::Aside(Aside { mailbox, content, head })),
        2 => (mailboxes(), 0u64..10).prop_map(|(mailbox, source)| Kind::AsideEnded { mailbox, source }),
    ]
}

/// Entries, and which claim each stands under: 0 the latest, 1 the one before.
fn journals() -> impl Strategy<Value = Vec<(Kind, usize)>> {
    let entry = prop_oneof![
        1 => Just((claim().kind, 0)),
        12 => (kinds(), prop_oneof![9 => Just(0usize), 1 => Just(1usize)]),
    ];
    proptest::collection::vec(entry, 1..60)
}

/// What a reader goes by.
fn says(fold: &Fold) -> impl PartialEq + std::fmt::Debug {
    let backlogs: Vec<_> =
        fold.backlogs().map(|(mailbox, backlog)| (mailbox.clone(), backlog.clone())).collect();
    (fold.epoch(), fold.owed(), fold.asides(), fold.pin(), backlogs)
}

proptest! {
    /// Whoever reads from a snapshot on knows what whoever read everything knows, zombies in between or not.
    #[test]
    fn i9_a_snapshot_stands_for_all_before_it(journal in journals(), at in 0usize..60, part_max in 1usize..3) {
        let at = at.min(journal.len());
        let (mut whole, mut claims) = (Fold::new(0), vec![0]);
        whole.apply(0, &claim());
        let mut place = 1;
        let mut from_snapshot: Option<Fold> = None;
        for (number, (kind, back)) in journal.into_iter().enumerate() {
            if number == at {
                let start = place;
                let all: Vec<_> = whole.backlogs().map(|(m, b)| (m.clone(), b.clone())).collect();
                let mut chunks: Vec<_> = all.chunks(part_max).map(<[_]>::to_vec).collect();
                if chunks.is_empty() {
                    chunks.push(Vec::new());
                }
                let mut later = Fold::new(start);
                let parts = u32::try_from(chunks.len()).expect("few");
                for (part, backlogs) in (0..).zip(chunks) {
                    let part = Snapshot { part, parts, done_below: 0, mark: None, unclean: 0, trials: mailrail_mailbox::Trials::default(), backlogs };
                    let entry = Entry { epoch: whole.epoch(), kind: Kind::Snapshot(part) };
                    whole.apply(place, &entry);
                    later.apply(place, &entry);
                    place += 1;
                }
                prop_assert_eq!(whole.snapshot(), Some(start));
                from_snapshot = Some(later);
            }
            let is_claim = matches!(kind, Kind::Claim(_));
            let epoch = claims[claims.len() - 1 - back.min(claims.len() - 1)];
            if is_claim {
                claims.push(place);
            }
            let entry = Entry { epoch: if is_claim { 0 } else { epoch }, kind };
            let verdict = whole.apply(place, &entry);
            if let Some(later) = &mut from_snapshot {
                prop_assert_eq!(later.apply(place, &entry), verdict);
                prop_assert_eq!(says(later), says(&whole));
            }
            place += 1;
        }
    }
}
