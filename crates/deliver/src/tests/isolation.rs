//! A delivery that kills the process which attempts it (I16).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mailrail_log::{Log, NewRecord};
use mailrail_mailbox::{
    CONDEMNED_MAX, Claim, Entry, Kind, Snapshot, TRIALS_MAX, TrialEnd, Trials, UNCLEAN_MAX,
};

use super::rig::{Rig, quick};

/// A body whose attempt kills the process.
const KILLER: &[u8] = b"killer";

/// How often it did. One test of this process counts here.
static KILLS: AtomicU64 = AtomicU64::new(0);

/// Stands for what takes a whole process down: the attempt never ends, and whoever looks after the process cuts it.
pub(crate) async fn die_of_killer(body: &[u8]) {
    if body == KILLER {
        KILLS.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<()>().await;
    }
}

impl Rig {
    /// The journal of an owner before, of partition 0, that died and knew this.
    async fn append_journal(&self, trials: Trials) {
        let claim = Kind::Claim(Claim { member: "before".to_owned(), nonce: 1, process: 1 });
        let snapshot = Snapshot {
            part: 0,
            parts: 1,
            done_below: 0,
            mark: None,
            unclean: 0,
            trials,
            backlogs: Vec::new(),
        };
        let records = [claim, Kind::Snapshot(snapshot)].map(|kind| {
            let value = mailrail_wire::encode_entry(&Entry { epoch: 0, kind }, None);
            NewRecord { value, ..NewRecord::default() }
        });
        self.log.append("journal", 0, records.into()).await.expect("appended");
    }
}

/// Waits until the killer was attempted once more.
async fn killed(before: u64) {
    while KILLS.load(Ordering::SeqCst) == before {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Everything else is delivered, in order; what kills ends in quarantine, and its mailbox goes on.
#[tokio::test(flavor = "multi_thread")]
async fn i16_what_kills_its_process_is_found_and_set_aside() {
    let rig = Rig::start("ok").await;
    rig.append_numbered(0..2).await;
    rig.append(rig.delivery_with_body("killer", KILLER)).await;
    rig.append_numbered(2..5).await;
    for n in 0..5 {
        rig.append(rig.other(n)).await;
    }
    // Once without an owner before, then until it is isolated, then one trial after the other.
    let kills_max = u64::from(UNCLEAN_MAX + TRIALS_MAX) + 1;
    loop {
        let before = KILLS.load(Ordering::SeqCst);
        let run = rig.run();
        tokio::select! {
            () = killed(before) => run.cut().await,
            () = rig.wait_done(11) => {
                run.stop().await;
                break;
            }
        }
        assert!(KILLS.load(Ordering::SeqCst) <= kills_max, "it is never found");
    }
    assert!(KILLS.load(Ordering::SeqCst) >= u64::from(TRIALS_MAX));
    let quarantined = rig.read("quarantine").await;
    assert_eq!(quarantined.len(), 1);
    let delivery = mailrail_wire::decode_delivery(&quarantined[0].value).expect("whole");
    assert_eq!(&delivery.event.body[..], KILLER);
    let says = quarantined[0].headers.iter().any(|(_, value)| value.starts_with(b"crashes_the_process"));
    assert!(says, "{:?}", quarantined[0].headers);
    let report = rig.receiver.snapshot();
    assert_eq!(report.total.order_violations, 0);
    assert_eq!(report.total.received - report.total.duplicates, 10, "everything else arrived");
    let journal = rig.journal().await;
    let condemned = |kind: &&Kind| matches!(kind, Kind::TrialEnded { how: TrialEnd::Condemned, source: 2 });
    assert_eq!(journal.iter().filter(condemned).count(), 1);
    let trials = journal.iter().filter(|kind| **kind == Kind::Trial { source: 2 }).count();
    assert_eq!(trials, TRIALS_MAX as usize, "in the journal before each of its last attempts");
}

/// An owner that is killed again and again while nothing is wrong with any delivery sets none aside.
#[tokio::test(flavor = "multi_thread")]
async fn i16_a_process_that_is_killed_takes_no_innocent_delivery_with_it() {
    // So slow that nothing ends before its owner is killed.
    let rig = Rig::start("delay=1500,ok").await;
    rig.append_numbered(0..3).await;
    for _ in 0..UNCLEAN_MAX {
        let run = rig.run();
        rig.wait_owned().await;
        run.cut().await;
        rig.wait_nobody().await;
    }
    let run = rig.run();
    rig.wait_done(3).await;
    run.stop().await;
    assert_eq!(rig.read("quarantine").await.len(), 0);
    let report = rig.receiver.snapshot();
    assert_eq!((report.total.received - report.total.duplicates, report.total.order_violations), (3, 0));
    let journal = rig.journal().await;
    let trials = |how| {
        let of_end = |kind: &&Kind| matches!(kind, Kind::TrialEnded { how: end, .. } if *end == how);
        journal.iter().filter(of_end).count()
    };
    assert!(trials(TrialEnd::Survived) >= 3, "it was isolated: {journal:?}");
    assert_eq!(trials(TrialEnd::Condemned), 0);
    assert!(journal.contains(&Kind::IsolationEnded), "and went on as before");
}

/// M5: of a suspect whose endpoint is down nobody is told, and nobody waits: it is not tried before it may go.
#[tokio::test(flavor = "multi_thread")]
async fn i16_a_suspect_behind_an_endpoint_that_is_down_stops_nobody() {
    let rig = Rig::start("status=503").await.with_circuit(Duration::from_hours(1));
    rig.append_journal(Trials { deaths: BTreeMap::from([(0, 1)]), ..Trials::default() }).await;
    rig.append_at(1, mailrail_wire::encode_delivery(&rig.numbered(100))).await;
    let run = rig.run();
    rig.receiver.reached(|r| r.total.received == 1).await;
    rig.wait_held(1).await;
    rig.append_numbered(0..1).await;
    for n in 0..5 {
        rig.append(rig.other(n)).await;
    }
    rig.receiver.reached(|r| r.endpoints.get("other").is_some_and(|other| other.received == 5)).await;
    rig.wait_held(2).await;
    run.stop().await;
    let journal = rig.journal().await;
    assert!(!journal.contains(&Kind::Trial { source: 0 }), "{journal:?}");
    assert!(journal.contains(&Kind::Trial { source: 1 }), "the partition was isolated: {journal:?}");
    assert_eq!(rig.receiver.snapshot().endpoints["main"].received, 1);
}

/// As many as may be went to quarantine, and one more is to blame: nothing starts until the partition is handed over.
#[tokio::test(flavor = "multi_thread")]
async fn i16_when_too_many_are_to_blame_the_partition_stands_still() {
    let rig = Rig::start("ok").await;
    rig.append_numbered(0..3).await;
    let condemned: BTreeSet<u64> = (100..).take(CONDEMNED_MAX).collect();
    let trials = Trials { condemned, deaths: BTreeMap::from([(0, TRIALS_MAX)]), ..Trials::default() };
    rig.append_journal(trials).await;

    let run = rig.run();
    let arrived = tokio::time::timeout(quick(), rig.receiver.reached(|r| r.total.received > 0)).await;
    assert!(arrived.is_err(), "nothing is sent");
    assert_eq!(rig.read("quarantine").await.len(), 0, "nor set aside");
    run.stop().await;

    let run = rig.run();
    rig.wait_done(3).await;
    run.stop().await;
    assert_eq!(rig.read("quarantine").await.len(), 1, "a restart lets it go on");
    assert_eq!(rig.receiver.snapshot().total.received, 2);
}
