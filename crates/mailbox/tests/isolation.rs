//! One delivery at a time after crashes, and what kills its process is found (I16).

mod rig;

use std::time::Duration;

use mailrail_mailbox::{
    CONDEMNED_MAX, Entry, Fold, ISOLATED_ATTEMPTS, Kind, SUSPECT_PAUSE, Settlement, Source, TRIALS_MAX,
    Traits, TrialEnd, UNCLEAN_MAX,
};
use mailrail_types::{HoldReason, MailboxKey, Timestamp};
use rig::{Rig, claim, config, hold, retry, tolerant};

/// An owner after so many that died without progress. Offers `count` deliveries of as many mailboxes.
fn after_deaths(deaths: u32, count: u64) -> Rig {
    let mut rig = Rig::new(config());
    for _ in 0..deaths {
        rig = rig.take_over(rig.owner.checkpoint());
    }
    offer(&mut rig, 0..count);
    rig
}

fn offer(rig: &mut Rig, sources: std::ops::Range<u64>) {
    for source in sources {
        rig.offer(source, &format!("m{source}"));
    }
}

/// Starts what is to start, over its trial.
fn try_next(rig: &mut Rig) -> Option<Source> {
    if let Some(at_once) = rig.start() {
        return Some(at_once);
    }
    rig.owner.is_alone();
    rig.settle_journal();
    rig.start()
}

#[test]
fn i16_after_crashes_without_progress_one_is_tried_at_a_time() {
    let mut rig = after_deaths(UNCLEAN_MAX - 1, 3);
    assert!(!rig.owner.is_isolated());
    assert_eq!((rig.start(), rig.start()), (Some(0), Some(1)));

    let mut rig = after_deaths(UNCLEAN_MAX, 3);
    assert!(rig.owner.is_isolated());
    rig.settle_journal();
    assert_eq!(rig.start(), None, "first its trial is read back");
    assert!(rig.owner.is_trying() && !rig.owner.has_ready());
    rig.append();
    assert_eq!(rig.start(), None, "acknowledged says nothing");
    rig.read_back();
    assert_eq!(rig.journal.last().map(|entry| entry.kind.clone()), Some(Kind::Trial { source: 0 }));
    assert_eq!((rig.start(), rig.start()), (Some(0), None), "one at a time");
    rig.finish(0);
    assert_eq!(try_next(&mut rig), Some(1));
    rig.finish(1);
    assert_eq!(try_next(&mut rig), Some(2));
    rig.finish(2);
    rig.settle_journal();
    assert!(!rig.owner.is_isolated(), "nothing is left that could be to blame");
    assert_eq!(rig.journal.last().map(|entry| entry.kind.clone()), Some(Kind::IsolationEnded));
    rig.assert_at_rest();
}

#[test]
fn i16_isolation_ends_after_attempts_that_were_survived() {
    let mut rig = after_deaths(UNCLEAN_MAX, 80);
    for _ in 0..ISOLATED_ATTEMPTS {
        assert!(rig.owner.is_isolated());
        let source = try_next(&mut rig).expect("one after the other");
        rig.settle(source, retry(1, 60));
    }
    rig.settle_journal();
    assert!(!rig.owner.is_isolated());
    assert!(rig.start().is_some() && rig.start().is_some(), "as before");
    let longer = after_deaths(UNCLEAN_MAX + 2, 0);
    assert_eq!(longer.owner.unclean(), UNCLEAN_MAX + 2);
}

#[test]
fn i16_what_is_under_trial_when_the_process_dies_three_times_is_set_aside() {
    let mut rig = after_deaths(UNCLEAN_MAX, 2);
    for death in 1..=TRIALS_MAX {
        assert_eq!(try_next(&mut rig), Some(0));
        rig = rig.take_over(rig.owner.checkpoint());
        assert_eq!(rig.owner.fold().trials().deaths.get(&0), Some(&death));
        offer(&mut rig, 0..2);
    }
    let started = rig.owner.start(rig.now, true, |_| true).expect("no trial is needed any more");
    assert!(started.condemned && started.source == 0);
    rig.finish(0);
    rig.settle_journal();
    let condemned = Kind::TrialEnded { source: 0, how: TrialEnd::Condemned };
    assert!(rig.written().contains(&&condemned));
    assert_eq!(try_next(&mut rig), Some(1), "the rest goes on");
    rig.finish(1);
    rig.assert_at_rest();

    // An owner that does not know that it is done does not try it either.
    let mut next = rig.take_over(mailrail_mailbox::Checkpoint::at(0));
    offer(&mut next, 0..1);
    assert!(next.owner.start(next.now, true, |_| true).is_some_and(|started| started.condemned));
}

#[test]
fn i16_a_suspect_is_tried_alone_and_is_none_when_it_survives() {
    let mut rig = after_deaths(UNCLEAN_MAX, 2);
    assert_eq!(try_next(&mut rig), Some(0));
    let mut rig = rig.take_over(rig.owner.checkpoint());
    offer(&mut rig, 0..2);
    assert_eq!(rig.start(), None);
    rig.settle_journal();
    assert!(rig.owner.wants_to_be_alone() == Some(0) && rig.owner.is_trying());
    let trials = |rig: &Rig| rig.written().iter().filter(|kind| matches!(kind, Kind::Trial { .. })).count();
    assert_eq!(trials(&rig), 1, "it is not announced before nothing else runs");
    rig.owner.is_alone();
    rig.settle_journal();
    assert_eq!((rig.start(), trials(&rig)), (Some(0), 2));
    rig.settle(0, retry(1, 60));
    rig.settle_journal();
    assert!(rig.owner.fold().trials().deaths.is_empty());
}

/// M5: what keeps a suspect from going keeps nobody else from going, but for once in a growing while.
#[test]
fn i16_others_are_not_stopped_again_and_again_for_a_suspect_that_may_not_go() {
    let mut rig = after_deaths(UNCLEAN_MAX, 1);
    assert_eq!(try_next(&mut rig), Some(0));
    let mut rig = rig.take_over(rig.owner.checkpoint());
    offer(&mut rig, 0..10);
    let down = |rig: &Rig| hold(HoldReason::Circuit, rig.now.plus(Duration::from_secs(1)));
    let (mut stopped, mut others) = (Vec::new(), 0);
    for second in 0..200 {
        rig.pass(1);
        rig.settle_journal();
        if !rig.owner.has_ready() {
            rig.scan();
        }
        let started = rig.start();
        if rig.owner.wants_to_be_alone().is_some() {
            stopped.push(second);
            rig.owner.is_alone();
            rig.settle_journal();
            assert_eq!(rig.start(), Some(0));
            rig.settle(0, Settlement::Held(down(&rig)));
        } else if let Some(other) = started {
            rig.finish(other);
            others += 1;
        }
    }
    let apart: Vec<_> = stopped.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let pause = i32::try_from(SUSPECT_PAUSE.as_secs()).expect("small");
    assert!(apart.len() == 2 && apart[0] >= pause && apart[1] >= 2 * pause, "{stopped:?}");
    assert_eq!(others, 9, "the others go on");

    // It was attempted: that ends the pauses, and it is no suspect any more.
    rig.pass(SUSPECT_PAUSE.as_secs() * 8);
    rig.scan();
    assert_eq!(try_next(&mut rig), Some(0));
    rig.settle(0, retry(1, 60));
    rig.settle_journal();
    assert!(rig.owner.fold().trials().deaths.is_empty());
}

/// A suspect of `m0`, which was alone and could not go for so many seconds, in front of more of the same mailbox.
fn put_off_in_front(traits: Traits, seconds: u64, deadline: Option<Timestamp>) -> Rig {
    let mut rig = after_deaths(UNCLEAN_MAX, 0);
    rig.offer_with(0, "m0", traits);
    assert_eq!(try_next(&mut rig), Some(0));
    let mut rig = rig.take_over(rig.owner.checkpoint());
    for source in 0..3 {
        rig.offer_with(source, "m0", traits);
    }
    assert_eq!(rig.start(), None);
    if let Some(deadline) = deadline {
        rig.owner.suspect_ends(deadline);
    }
    rig.owner.is_alone();
    rig.settle_journal();
    assert_eq!(rig.start(), Some(0));
    rig.settle(
        0,
        Settlement::Held(hold(HoldReason::Concurrency, rig.now.plus(Duration::from_secs(seconds)))),
    );
    rig.settle_journal();
    rig.pass(1);
    rig.scan();
    rig
}

#[test]
fn i16_a_suspect_that_is_put_off_holds_its_mailbox_where_that_is_strict_and_only_itself_where_tolerant() {
    let mut rig = put_off_in_front(Traits::STRICT, 1, None);
    assert_eq!(try_next(&mut rig), None, "the others wait behind it");

    goes_on_beside(put_off_in_front(tolerant(2), 1, None));

    let mut rig = put_off_in_front(tolerant(2), 3600, None);
    assert_eq!(rig.parks().len(), 3, "what waits for long is in the backlog");
    assert!(rig.owner.wake_mailbox(&MailboxKey::from_text("m0"), rig.now));
    rig.scan();
    goes_on_beside(rig);
}

fn goes_on_beside(mut rig: Rig) {
    for source in [1, 2] {
        assert_eq!(try_next(&mut rig), Some(source), "the rest goes on");
        rig.finish(source);
        rig.settle_journal();
    }
    assert_eq!((try_next(&mut rig), rig.owner.wants_to_be_alone()), (None, None));
    rig.pass(SUSPECT_PAUSE.as_secs());
    rig.scan();
    assert_eq!(try_next(&mut rig), Some(0), "after its pause");
    rig.finish(0);
    rig.assert_at_rest();
}

#[test]
fn i16_a_suspect_is_not_put_off_beyond_its_deadline() {
    let deadline = Timestamp::from_secs(1010);
    let mut rig = put_off_in_front(Traits::STRICT, 1, Some(deadline));
    assert_eq!(try_next(&mut rig), None);
    rig.pass(deadline.since(rig.now).as_secs());
    rig.scan();
    assert_eq!(try_next(&mut rig), Some(0), "to its end");
}

#[test]
fn i16_a_suspect_that_is_known_not_to_go_stops_nobody() {
    let mut rig = after_deaths(UNCLEAN_MAX, 1);
    assert_eq!(try_next(&mut rig), Some(0));
    let mut rig = rig.take_over(rig.owner.checkpoint());
    offer(&mut rig, 0..2);
    assert_eq!((rig.start(), rig.owner.wants_to_be_alone()), (None, Some(0)));
    let until = rig.now.plus(Duration::from_secs(1));
    rig.owner.put_off(hold(HoldReason::Circuit, until), rig.now);
    assert!(!rig.owner.is_trying());
    rig.settle_journal();
    let trials = |rig: &Rig| rig.written().iter().filter(|kind| matches!(kind, Kind::Trial { .. })).count();
    assert_eq!(trials(&rig), 1, "nobody was told of one");
    assert_eq!(try_next(&mut rig), Some(1));
    rig.finish(1);
    rig.settle_journal();
    rig.pass(1);
    rig.scan();
    assert_eq!(try_next(&mut rig), Some(0), "when its time has come, and not later");
}

#[test]
fn i16_a_trial_that_does_not_start_says_so() {
    let mut rig = after_deaths(UNCLEAN_MAX, 1);
    assert_eq!(rig.start(), None);
    rig.settle_journal();
    rig.owner.stop();
    assert!(!rig.owner.is_trying());
    rig.owner.hand_off(rig.now);
    rig.settle_journal();
    assert!(rig.written().contains(&&Kind::TrialEnded { source: 0, how: TrialEnd::NotTried }));
    let next = rig.take_over(rig.owner.checkpoint());
    assert!(next.owner.fold().trials().deaths.is_empty() && !next.owner.is_isolated(), "a clean hand-over");
}

#[test]
fn i16_progress_ends_the_count() {
    let mut rig = after_deaths(UNCLEAN_MAX - 1, 1);
    rig.deliver(0);
    let next = rig.take_over(rig.owner.checkpoint());
    assert_eq!((next.owner.unclean(), next.owner.is_isolated()), (0, false));
}

#[test]
fn i16_more_than_may_go_to_quarantine_stop_the_partition_until_it_is_handed_over() {
    let mut rig = after_deaths(UNCLEAN_MAX, 0);
    let epoch = rig.owner.epoch();
    let mut source = 0;
    while !rig.owner.has_too_many_culprits() {
        assert!(rig.owner.fold().trials().condemned.len() <= CONDEMNED_MAX);
        offer(&mut rig, 0..source + 1);
        for _ in 0..source {
            let started = rig.owner.start(rig.now, true, |_| true).expect("known to be to blame");
            assert!(started.condemned);
            rig.finish(started.source);
        }
        for _ in 0..TRIALS_MAX {
            rig.settle_journal();
            let epoch = rig.owner.epoch();
            rig.journal.push(Entry { epoch, kind: Kind::Trial { source } });
            rig = rig.take_over(mailrail_mailbox::Checkpoint::at(0));
        }
        source += 1;
    }
    assert_eq!((source, rig.owner.fold().trials().condemned.len()), (9, CONDEMNED_MAX));
    rig.owner.stop();
    rig.owner.hand_off(rig.now);
    rig.settle_journal();
    let next = rig.take_over(mailrail_mailbox::Checkpoint::at(0));
    assert!(!next.owner.has_too_many_culprits() && next.owner.epoch() > epoch);
}

#[test]
fn i16_a_snapshot_carries_what_trials_have_shown() {
    let mut rig = after_deaths(UNCLEAN_MAX, 2);
    assert_eq!(try_next(&mut rig), Some(0));
    let mut rig = rig.take_over(rig.owner.checkpoint());
    offer(&mut rig, 0..2);
    assert_eq!(try_next(&mut rig), Some(0));
    rig.settle_journal();
    let at = rig.journal.iter().rposition(|entry| matches!(entry.kind, Kind::Snapshot(_))).expect("one");
    let read = |from: usize| {
        let mut fold = Fold::new(from as u64);
        let rest = rig.journal.iter().cloned().chain([claim()]);
        for (place, entry) in (0..).zip(rest).skip(from) {
            fold.apply(place, &entry);
        }
        (fold.trials().clone(), fold.unclean(), fold.has_died())
    };
    assert_eq!(read(at), read(0));
    assert_eq!(read(at).0.deaths.get(&0), Some(&2));
}
