//! What the ledger says after entries in any order that a crash or a second process leaves.

use mailrail_types::{LetterFilter, LetterRange, Redriven};

use super::*;

const A: &str = "a";
const B: &str = "b";

fn replay(n: u8) -> ReplayId {
    ReplayId::from_bytes([n; 16])
}

fn id(n: u8) -> DeliveryId {
    DeliveryId::from_bytes([n; 16])
}

fn ordered(n: u8, again: bool) -> RedriveEntry {
    RedriveEntry::Ordered(ReplayOrder {
        replay: replay(n),
        by: "alice".to_owned(),
        at: Timestamp(1),
        filter: LetterFilter::default(),
        again,
        rate: 1,
        ranges: vec![
            LetterRange { partition: 0, from: 2, to: 6 },
            LetterRange { partition: 1, from: 0, to: 1 },
        ],
    })
}

fn claimed(n: u8, runner: &str, after: &str) -> RedriveEntry {
    RedriveEntry::Claimed { replay: replay(n), runner: runner.to_owned(), after: after.to_owned() }
}

fn sending(n: u8, runner: &str, next: u64, letters: &[(u8, u32)]) -> RedriveEntry {
    let letter = |(offset, (n, redrives)): (usize, &(u8, u32))| Redriven {
        delivery: id(*n),
        redrives: *redrives,
        offset: offset as u64,
    };
    let letters = letters.iter().enumerate().map(letter).collect();
    RedriveEntry::Sending {
        replay: replay(n),
        runner: runner.to_owned(),
        step: ReplayStep { next, skipped: 1, ..ReplayStep::default() },
        batch: RedriveBatch { partition: 0, deliveries_from: next, letters },
    }
}

fn ledger(entries: Vec<RedriveEntry>) -> Ledger {
    let mut ledger = Ledger::default();
    entries.into_iter().for_each(|entry| ledger.apply(entry));
    ledger
}

#[test]
fn of_two_who_take_it_over_one_does_and_the_other_ones_word_is_void() {
    let mut it = ledger(vec![ordered(1, false), claimed(1, A, ""), claimed(1, B, "")]);
    assert_eq!(it.get(&replay(1)).map(|it| it.runner.as_str()), Some(A));
    it.apply(sending(1, B, 3, &[(1, 1)]));
    assert!(!it.was_put_back(id(1), 0), "b never was the runner");
    it.apply(sending(1, A, 3, &[(1, 1)]));
    assert!(it.was_put_back(id(1), 0) && !it.was_put_back(id(1), 1));
    // What was begun stays open for whoever takes it over, and what the one before says then is void.
    it.apply(claimed(1, B, A));
    let open = it.get(&replay(1)).and_then(|it| it.open.clone()).expect("a batch");
    assert_eq!(open.letters.len(), 1);
    it.apply(claimed(1, A, A));
    it.apply(sending(1, A, 4, &[(2, 1)]));
    it.apply(RedriveEntry::Ended { replay: replay(1), runner: A.to_owned(), at: Timestamp(2) });
    let now = it.get(&replay(1)).expect("a replay");
    assert_eq!((now.runner.as_str(), &now.open, now.ended_at, now.sent), (B, &Some(open), None, 1));
}

#[test]
fn an_entry_that_is_there_twice_counts_once() {
    let twice = |entry: RedriveEntry| [entry.clone(), entry];
    let mut entries = Vec::from(twice(ordered(1, false)));
    entries.extend(twice(claimed(1, A, "")));
    entries.extend(twice(sending(1, A, 4, &[(1, 1), (2, 1)])));
    let it = ledger(entries);
    let now = it.get(&replay(1)).expect("a replay");
    assert_eq!((now.sent, now.skipped, now.progress(), now.place()), (2, 1, (2, 5), Some((0, 4, 6))));
    assert_eq!(it.newest_first().count(), 1);
}

#[test]
fn a_letter_is_due_once_and_again_when_it_is_said() {
    let it = ledger(vec![
        ordered(1, false),
        claimed(1, A, ""),
        sending(1, A, 3, &[(1, 1)]),
        RedriveEntry::Ended { replay: replay(1), runner: A.to_owned(), at: Timestamp(2) },
        ordered(2, false),
        ordered(3, true),
    ]);
    let [second, third] = [2, 3].map(|n| it.get(&replay(n)).expect("a replay"));
    assert!(!it.is_due(second, id(1), 0), "put back already");
    assert!(it.is_due(second, id(1), 1), "its next letter is another one");
    assert!(it.is_due(second, id(2), 0));
    assert!(it.is_due(third, id(1), 0), "again");
    assert_eq!(
        (it.next_redrives(id(1), 0), it.next_redrives(id(1), 4), it.next_redrives(id(2), 0)),
        (2, 5, 1)
    );
    // In a replay that does it again a delivery goes once as well.
    let mut it = it;
    it.apply(claimed(3, A, ""));
    it.apply(sending(3, A, 3, &[(1, 2)]));
    let third = it.get(&replay(3)).expect("a replay");
    assert!(!it.is_due(third, id(1), 0) && !it.is_due(third, id(1), 1));
}

#[test]
fn a_cancelled_replay_starts_nothing_more_and_ends_when_it_is_settled() {
    let mut it =
        ledger(vec![ordered(1, false), ordered(2, false), claimed(1, A, ""), sending(1, A, 3, &[(1, 1)])]);
    it.apply(RedriveEntry::Cancelled { replay: replay(1), by: "bob".to_owned(), at: Timestamp(2) });
    it.apply(sending(1, A, 4, &[(2, 1)]));
    let first = it.first_unfinished().expect("the first");
    assert_eq!((first.order.replay, first.state(), first.sent), (replay(1), "cancelling", 1));
    assert!(first.open.is_some(), "what was begun must be settled");
    it.apply(RedriveEntry::Ended { replay: replay(1), runner: A.to_owned(), at: Timestamp(3) });
    assert_eq!(it.get(&replay(1)).map(Replay::state), Some("cancelled"));
    assert_eq!(it.first_unfinished().map(|it| (it.order.replay, it.state())), Some((replay(2), "waiting")));
}

#[test]
fn what_is_about_letters_that_are_gone_is_forgotten() {
    let mut it =
        ledger(vec![ordered(1, false), claimed(1, A, ""), sending(1, A, 6, &[(1, 1), (2, 1), (3, 1)])]);
    it.forget_below(&[(0, 2)].into());
    assert_eq!(it.known(), 1);
    assert!(it.was_put_back(id(3), 0));
    it.apply(claimed(9, A, ""));
    assert!(it.get(&replay(9)).is_none(), "the order was trimmed");
}

fn settled(n: u8, runner: &str, unsent: &[(u8, UnsentReason)]) -> RedriveEntry {
    let unsent = unsent.iter().map(|(n, reason)| Unsent { delivery: id(*n), reason: *reason }).collect();
    RedriveEntry::Settled { replay: replay(n), runner: runner.to_owned(), unsent }
}

#[test]
fn what_was_not_put_back_is_what_it_was_before_and_what_is_undecided_is_not_due() {
    use UnsentReason::{Gone, TooLarge, Undecided};
    let mut it = ledger(vec![ordered(1, false), claimed(1, A, ""), sending(1, A, 3, &[(1, 1)])]);
    it.apply(RedriveEntry::Ended { replay: replay(1), runner: A.to_owned(), at: Timestamp(2) });
    it.apply(ordered(2, true));
    it.apply(claimed(2, A, ""));
    it.apply(sending(2, A, 5, &[(1, 2), (2, 1), (3, 1), (4, 1)]));
    it.apply(settled(2, B, &[(4, TooLarge)]));
    assert!(it.was_put_back(id(4), 0), "of another runner: void");
    let end = settled(2, A, &[(1, TooLarge), (2, Gone), (3, Undecided), (9, Gone)]);
    it.apply(end.clone());
    it.apply(end);
    let of = |n: u8, redrives| it.standing(id(n), redrives);
    assert_eq!([of(1, 0), of(1, 1)], [Standing::PutBack, Standing::Dead], "as the replay before left it");
    assert_eq!([of(2, 0), of(3, 0), of(4, 0)], [Standing::Dead, Standing::Undecided, Standing::PutBack]);
    let now = it.get(&replay(2)).expect("a replay");
    assert_eq!((now.sent, &now.open), (1, &None), "once, though it is there twice");
    assert_eq!(now.unsent, [(TooLarge, 1), (Gone, 1), (Undecided, 1)].into());
    let named: Vec<_> = now.unsent_letters.iter().map(|(at, offset, it)| (*at, *offset, it.reason)).collect();
    assert_eq!(named, [(0, 0, TooLarge), (0, 1, Gone), (0, 2, Undecided)]);
    it.apply(ordered(3, false));
    it.apply(ordered(4, true));
    let due = |n: u8, delivery: u8| it.get(&replay(n)).is_some_and(|of| it.is_due(of, id(delivery), 0));
    assert_eq!([due(3, 2), due(3, 3), due(4, 3)], [true, false, true], "undecided: only when it is said");
    // The next entry says that a batch was put back: nothing of it is taken back later.
    it.apply(sending(2, A, 6, &[(5, 1)]));
    it.apply(RedriveEntry::Passed { replay: replay(2), runner: A.to_owned(), step: ReplayStep::default() });
    it.apply(settled(2, A, &[(5, TooLarge)]));
    assert!(it.was_put_back(id(5), 0));
}
