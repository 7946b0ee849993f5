//! What waits: a dead recipient holds its own mail and nothing else, and what is well leaves no trace in the journal.

use std::collections::BTreeMap;
use std::time::Duration;

use mailrail_mailbox::Kind;

use crate::fleet::{Fleet, Plan, sized, until};
use crate::history::Budget;

/// Of each body: what is held is many times what memory may grow by.
const PADDING: usize = 2048;
/// By how much a process may grow from a fifth of what is held to all of it.
const GROWTH_MAX_KIB: u64 = 40 << 10;

/// Resident memory of a process.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number")
}

impl Fleet {
    /// Waits until everything in the deliveries topic is committed.
    async fn wait_committed(&self) {
        until("the committed offsets are at the end", async || {
            self.progress().await.iter().all(|(committed, high)| committed == high)
        })
        .await;
    }

    /// First and next place of every journal.
    async fn journals(&self) -> Vec<(u64, u64)> {
        let topic = self.topic("journal");
        let mut all = Vec::new();
        for partition in 0..self.plan.partitions {
            let bounds = self.log.bounds(&topic, partition).await.expect("bounds");
            all.push((bounds.low, bounds.high));
        }
        all
    }

    /// How many entries of each kind the journals hold.
    async fn entries(&self) -> BTreeMap<&'static str, u64> {
        let mut kinds = BTreeMap::new();
        self.tail("journal")
            .catch_up(|_, record| {
                let (entry, _) = mailrail_wire::decode_entry(&record.value).expect("an entry");
                *kinds.entry(name(&entry.kind)).or_insert(0) += 1;
            })
            .await;
        kinds
    }
}

fn name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Claim(_) => "claim",
        Kind::Park(_) => "park",
        Kind::State(_) => "state",
        Kind::Clear { .. } => "clear",
        Kind::Aside(_) => "aside",
        Kind::AsideEnded { .. } => "aside ended",
        Kind::HandOff(_) => "hand-off",
        Kind::Snapshot(_) => "snapshot",
        Kind::Trial { .. } => "trial",
        Kind::TrialEnded { .. } => "trial ended",
        Kind::IsolationEnded => "isolation ended",
    }
}

/// N06, I6, I9: a tenth of the traffic is for a recipient that is dead.
#[tokio::test(flavor = "multi_thread")]
async fn n06_a_dead_recipient_holds_its_own_mail_in_the_journal_and_nothing_else() {
    let recipients =
        [("well", "ok", "strict"), ("loose", "ok", "tolerant"), ("dead", "status=503", "strict")];
    let retry_delays = r#"["500ms", "1s", "2s", "2s", "2s", "2s", "2s", "2s", "2s", "2s", "2s", "2s", "2s", "2s", "2s",
        "2s", "2s", "2s", "2s", "2s", "5s", "5s", "5s", "5s", "5s", "5s", "5s", "5s", "5s", "5s", "1h"]"#;
    let plan = Plan { retry_delays, ..Plan::new(&recipients) };
    let Some(fleet) = Fleet::start(plan).await else { return };
    let held = sized(50_000, 1_000_000);
    let mut feeder = fleet.feeder();
    feeder.padding = PADDING;

    // A tenth of it is for the dead one; all of the rest comes, and the commits go to the end.
    for _ in 0..20 {
        feeder.feed("dead", 0..10, 2).await;
        feeder.feed("well", 0..10, 9).await;
        feeder.feed("loose", 0..10, 9).await;
    }
    until("the healthy ones have everything", async || {
        let report = fleet.receiver.snapshot();
        ["well", "loose"].iter().all(|name| report.endpoints[*name].delivered == 1_800)
    })
    .await;
    fleet.wait_committed().await;

    // Far more for the dead one alone: memory does not follow.
    let mut fed = 400;
    let mut base = 0;
    for fifth in 1..=5 {
        let more = (held * fifth / 5 - fed) / 10;
        feeder.feed("dead", 0..10, more).await;
        fed += more * 10;
        fleet.wait_committed().await;
        let resident = resident_kib(fleet.members[0].process.pid());
        println!("{fed} held: {resident} KiB resident");
        base = if fifth == 1 { resident } else { base };
        assert!(resident <= base + GROWTH_MAX_KIB, "{base} KiB grew to {resident} with {fed} held");
    }
    assert_eq!(fleet.receiver.snapshot().endpoints["dead"].delivered, 0);
    let full = fleet.journals().await;

    // It comes back: everything in order, and the journal shrinks to next to nothing.
    fleet.receiver.set_behaviour("dead", "ok".parse().expect("a script")).expect("an endpoint");
    let mut ends = fleet.ends();
    fleet.wait_ended(&mut ends, feeder.owed.len()).await;
    until("the journals are trimmed", async || {
        let now = fleet.journals().await;
        let trimmed = now.iter().zip(&full).all(|((low, _), (_, full))| low >= full);
        if !trimmed {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        trimmed
    })
    .await;
    println!("journals were {full:?} and are {:?}", fleet.journals().await);
    fleet.close(vec![feeder], &Budget::none()).await;
}

/// I6: what is delivered at once is written nowhere but in the attempts.
#[tokio::test(flavor = "multi_thread")]
async fn i06_a_healthy_run_leaves_claims_snapshots_and_hand_offs_in_the_journal_and_nothing_else() {
    let recipients = [("well", "ok", "strict"), ("loose", "ok", "tolerant")];
    let plan = Plan { delivers: 2, ..Plan::new(&recipients) };
    let Some(mut fleet) = Fleet::start(plan).await else { return };
    fleet.wait_owned().await;
    let mut feeder = fleet.feeder();
    let mut fed = 0;
    for round in 0..100 {
        feeder.feed("well", 0..10, 1).await;
        feeder.feed("loose", 0..10, 1).await;
        fed += 20;
        fleet.wait_received(fed).await;
        if round == 50 {
            fleet.stop(1).await;
            fleet.wait_owned().await;
        }
    }
    fleet.wait_committed().await;
    fleet.stop(1).await;
    let entries = fleet.entries().await;
    println!("{entries:?}");
    let beside = entries.keys().filter(|kind| !["claim", "snapshot", "hand-off"].contains(*kind));
    assert_eq!(beside.collect::<Vec<_>>(), Vec::<&&str>::new(), "{entries:?}");
    assert!(entries["claim"] >= 4 && entries["hand-off"] >= 4, "{entries:?}");
    fleet.close(vec![feeder], &Budget::none()).await;
}
