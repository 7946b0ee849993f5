//! Owning partitions, with a group that the test plays.

mod rig;

use std::sync::atomic::Ordering;
use std::time::Duration;

use rig::{REST_MAX, Rig, TERMS, Warnings, at, down, within};
use tokio::time::Instant;

use super::Found;
use crate::{Committed, LogError};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn i15_a_position_is_asked_for_until_somebody_can_say() {
    let answers = vec![Err(down()), Ok(None), Err(down()), Ok(Some(at(40)))];
    let mut rig = Rig::start_with(HOUR, answers, false);
    let [turn] = rig.assign([3]).await;
    assert_eq!(turn.claim.find_position().await, Found { at: at(40), first: false });
    assert_eq!(rig.log.asked.load(Ordering::Relaxed), 4);
    assert_eq!(turn.claim.find_position().await, Found { at: at(40), first: false }, "asked anew every time");
    assert_eq!(rig.log.asked.load(Ordering::Relaxed), 5);
}

#[tokio::test(start_paused = true)]
async fn i15_only_a_group_that_says_so_three_times_never_committed() {
    for (certain, asks) in [(false, 3), (true, 1)] {
        let mut rig = Rig::start_with(HOUR, vec![Ok(None)], certain);
        let [turn] = rig.assign([0]).await;
        let start = Committed { offset: 7, metadata: String::new() };
        assert_eq!(turn.claim.find_position().await, Found { at: start.clone(), first: true });
        assert_eq!(rig.log.asked.load(Ordering::Relaxed), asks);
        turn.claim.position.commit_soon();
        assert!(rig.is_silent_for(HOUR * 2).await, "nothing is put down for the owner");
        turn.claim.position.set(start.clone());
        assert_eq!(turn.claim.find_position().await, Found { at: start, first: false });
    }
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_starts_again_goes_on_where_it_put_its_position() {
    let mut rig = Rig::start();
    let [turn] = rig.assign([0]).await;
    assert_eq!(turn.claim.find_position().await.at, at(1));
    turn.claim.position.set(at(5));
    turn.result.send(Err(down())).expect("it runs");
    assert_eq!(rig.commit().await.refuse(), [(0, at(5))]);
    let again = rig.turn().await;
    assert_eq!(again.claim.find_position().await, Found { at: at(5), first: false });
    assert_eq!(again.claim.sequence, 1);
}

#[tokio::test(start_paused = true)]
async fn i10_positions_are_committed_again_to_keep_the_lease() {
    let mut rig = Rig::start();
    let [first, second] = rig.assign([0, 1]).await;
    let lease = first.claim.lease.clone();
    assert!(!lease.holds(Instant::now()), "nothing was accepted yet");
    first.claim.position.set(at(5));
    let commit = rig.commit().await;
    let sent = Instant::now();
    tokio::time::advance(Duration::from_secs(2)).await;
    commit.accept();
    within("the lease", lease.held()).await;
    assert_eq!(lease.until(), Some(sent + TERMS.valid_for), "from the sending");
    assert_eq!(second.claim.lease.until(), lease.until(), "it is of the member");

    for _ in 0..10 {
        let before = lease.until();
        let commit = rig.commit().await;
        assert!(
            before.is_some_and(|until| until - Instant::now() >= TERMS.valid_for - TERMS.renew_every * 2)
        );
        assert_eq!(commit.accept(), [(0, at(5))], "although nothing changed");
    }
}

#[tokio::test(start_paused = true)]
async fn i10_a_failed_commit_renews_nothing_and_is_tried_again_at_once() {
    let mut rig = Rig::start();
    let [turn] = rig.assign([0]).await;
    turn.claim.position.set(at(5));
    rig.commit().await.accept();
    within("the lease", turn.claim.lease.held()).await;
    let until = turn.claim.lease.until();
    rig.commit().await.refuse();
    let refused = Instant::now();
    let mut commit = rig.commit().await;
    assert!(refused.elapsed() <= Duration::from_millis(500), "with the next tick, not with the next renewal");
    while turn.claim.lease.holds(Instant::now()) {
        assert_eq!(commit.refuse(), [(0, at(5))]);
        commit = rig.commit().await;
    }
    assert_eq!(turn.claim.lease.until(), until);
    commit.accept();
    within("the lease", turn.claim.lease.held()).await;
}

/// Members come and go: the group refuses commits for a moment.
#[tokio::test(start_paused = true)]
async fn a_rebalance_is_no_warning_until_it_lasts() {
    let warnings = Warnings::default();
    let _listening = warnings.listen();
    let mut rig = Rig::start();
    let [turn] = rig.assign([0]).await;
    turn.claim.position.set(at(5));
    for _ in 0..3 {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(9) {
            assert_eq!(rig.commit().await.refuse_with(LogError::Rebalancing), [(0, at(5))], "tried again");
        }
        rig.commit().await.refuse_with(LogError::NotOwned { partition: 0 });
        assert_eq!(rig.commit().await.accept(), [(0, at(5))]);
        within("the lease", turn.claim.lease.held()).await;
        turn.claim.position.set(at(5));
    }
    assert_eq!(warnings.count(), 0, "one after the other, each of them over in time");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(12) {
        rig.commit().await.refuse_with(LogError::Rebalancing);
    }
    assert!(warnings.count() > 0, "this one lasts");

    rig.commit().await.accept();
    turn.claim.position.set(at(6));
    let commit = rig.commit().await;
    let before = warnings.count();
    commit.refuse();
    rig.commit().await.accept();
    assert_eq!(warnings.count(), before + 1, "another failure is a warning at once");
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_wanted_soon_does_not_wait_for_the_tick() {
    let mut rig = Rig::start_with(HOUR, vec![Ok(Some(at(1)))], false);
    let [turn] = rig.assign([0]).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let begun = Instant::now();
    turn.claim.position.set(at(2));
    turn.claim.position.commit_soon();
    let commit = rig.commit().await;
    // Asked for while one is on its way: it goes out next.
    turn.claim.position.set(at(3));
    turn.claim.position.commit_soon();
    assert_eq!(commit.accept(), [(0, at(2))]);
    assert_eq!(rig.commit().await.accept(), [(0, at(3))]);
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn i10_a_lost_group_ends_the_lease_for_what_comes_next_too() {
    let mut rig = Rig::start();
    let [turn] = rig.assign([0]).await;
    turn.claim.position.set(at(5));
    rig.commit().await.accept();
    within("the lease", turn.claim.lease.held()).await;
    turn.claim.position.set(at(6));
    let late = rig.commit().await;
    rig.lose(&[0]).await;
    within("the cut", turn.claim.cut.cancelled()).await;
    assert!(!turn.claim.lease.holds(Instant::now()));

    let [next] = rig.assign([0]).await;
    late.accept();
    next.claim.position.set(at(8));
    let commit = rig.commit().await;
    assert!(
        !next.claim.lease.holds(Instant::now()),
        "what was accepted late was sent by the member that was"
    );
    assert_eq!(commit.accept(), [(0, at(8))], "nothing of the lost assignment");
    within("the lease", next.claim.lease.held()).await;
}

#[tokio::test(start_paused = true)]
async fn i10_commits_go_on_while_another_partition_is_handed_over() {
    let mut rig = Rig::start();
    let [leaves, stays] = rig.assign([0, 1]).await;
    assert_eq!(leaves.claim.hand_over, Duration::from_secs(8));
    let mut released = rig.revoke(&[0]).await;
    within("the stop", leaves.claim.stop.cancelled()).await;
    stays.claim.position.set(at(20));
    assert_eq!(rig.commit().await.accept(), [(1, at(20))]);
    within("the lease", stays.claim.lease.held()).await;
    assert!(released.try_recv().is_err(), "still handing over");
    leaves.result.send(Ok(Some(at(9)))).expect("it runs");
    assert_eq!(within("the release", released).await, Ok(vec![(0, at(9))]));
    assert_eq!(rig.commit().await.accept(), [(1, at(20))], "only what is still owned");
}

#[tokio::test(start_paused = true)]
async fn i11_a_release_waits_for_the_commit_that_is_on_its_way() {
    let mut rig = Rig::start();
    let [turn] = rig.assign([0]).await;
    turn.claim.position.set(at(5));
    let commit = rig.commit().await;
    let mut released = rig.revoke(&[0]).await;
    turn.result.send(Ok(Some(at(6)))).expect("it runs");
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(released.try_recv().is_err(), "the last position would be overtaken by an older one");
    commit.accept();
    assert_eq!(within("the release", released).await, Ok(vec![(0, at(6))]));
    assert!(rig.is_silent_for(HOUR).await);
}

#[tokio::test(start_paused = true)]
async fn i11_a_group_is_asked_behind_a_commit_that_is_on_its_way() {
    let mut rig = Rig::start();
    let [turn] = rig.assign([0]).await;
    turn.claim.position.set(at(5));
    let commit = rig.commit().await;
    let released = rig.revoke(&[0]).await;
    turn.result.send(Ok(None)).expect("it runs");
    within("the release", released).await.expect("released although the commit never ended");

    let [next] = rig.assign([0]).await;
    let asking = tokio::spawn(async move { next.claim.find_position().await });
    tokio::time::sleep(HOUR).await;
    assert_eq!(rig.log.asked.load(Ordering::Relaxed), 0, "the answer could be older than the commit");
    commit.accept();
    assert_eq!(within("the answer", asking).await.expect("no panic").at, at(1));
}

#[tokio::test(start_paused = true)]
async fn i12_a_release_waits_for_what_the_next_owner_is_not_told_of() {
    let mut rig = Rig::start();
    let [first, second] = rig.assign([0, 1]).await;
    let runs_on = rig.rests.clone().acquire_owned().await.expect("open");
    let mut released = rig.revoke(&[0]).await;
    first.result.send(Ok(Some(at(9)))).expect("it runs");
    tokio::time::sleep(REST_MAX - Duration::from_secs(1)).await;
    assert!(released.try_recv().is_err(), "something may still be at work");
    drop(runs_on);
    assert_eq!(within("the release", released).await, Ok(vec![(0, at(9))]));

    // It does not wait for ever: the group puts out a member that does not answer.
    let _runs_on = rig.rests.clone().acquire_owned().await.expect("open");
    let begun = Instant::now();
    let released = rig.revoke(&[1]).await;
    second.result.send(Ok(Some(at(3)))).expect("it runs");
    assert_eq!(within("the release", released).await, Ok(vec![(1, at(3))]));
    assert!(begun.elapsed() <= REST_MAX + Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_that_takes_too_long_is_cut_for_all_partitions_together() {
    let mut rig = Rig::start();
    let turns = rig.assign([0, 1, 2, 3]).await;
    for turn in &turns {
        turn.claim.position.set(at(u64::from(turn.claim.partition)));
    }
    let begun = Instant::now();
    let mut released = rig.revoke(&[0, 1, 2, 3]).await;
    let released = loop {
        tokio::select! {
            released = &mut released => break released.expect("released"),
            commit = rig.commit() => drop(commit.accept()),
        }
    };
    assert_eq!(released, (0..4).map(|p| (p, at(u64::from(p)))).collect::<Vec<_>>());
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    assert!(turns.iter().all(|turn| turn.claim.cut.is_cancelled()));
}

#[tokio::test(start_paused = true)]
async fn i15_a_partition_whose_records_are_gone_stands_still_until_it_leaves() {
    let mut rig = Rig::start();
    let [turn] = rig.assign([0]).await;
    let gone = LogError::OutOfRange { topic: "t".to_owned(), partition: 0, wanted: 1, low: 7, high: 90 };
    turn.result.send(Err(gone)).expect("it runs");
    assert!(rig.is_silent_for(HOUR).await);
    let released = rig.revoke(&[0]).await;
    assert_eq!(within("the release", released).await, Ok(Vec::new()), "no position is made up");
}
