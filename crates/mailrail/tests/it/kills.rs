//! Several deliver processes, killed, stopped and scaled under load: nothing is lost, order holds at every depth, and what
//! is sent again is what was under way.

use std::time::Duration;

use mailrail_demo::receiver::{Receipt, Sequence};
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use tokio::time::Instant;

use crate::fleet::{Fleet, PATIENCE, Plan, sized, until};
use crate::history::Budget;

/// Requests that must arrive between two kills: a kill of an idle process proves nothing.
const FLOW: u64 = 30;
/// Beyond that, how long until the next kill, in milliseconds.
const MOMENT: std::ops::Range<u64> = 0..700;
/// Kills of processes with names, in turn.
const KILLS_OF_NAMED: usize = 4;
/// How long processes come and go.
const SCALING: Duration = Duration::from_secs(120);
/// What a kill may make be sent again.
const PER_KILL: u64 = 250;

/// The seed is printed: it gives the moments of the kills again, as far as a real machine can.
fn random() -> StdRng {
    let seed = std::env::var("MAILRAIL_TEST_SEED").ok().and_then(|s| s.parse().ok());
    let seed = seed.unwrap_or_else(|| rand::rng().next_u64());
    println!("MAILRAIL_TEST_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

/// The claim under which it was sent: partition and place.
fn epoch(receipt: &Receipt) -> (u32, u64) {
    let sequence = receipt.sequence.as_deref().and_then(Sequence::parse).expect("a sequence");
    (sequence.epoch.partition, sequence.epoch.claim)
}

/// X09, S28: four processes, killed at random; mailboxes thousands of deliveries deep, others that keep filling up, some
/// that fail now and then, and one that tolerates reordering.
#[tokio::test(flavor = "multi_thread")]
async fn x09_s28_four_processes_killed_at_random_keep_the_order_at_every_depth() {
    let recipients = [
        ("deep", "ok", "strict"),
        ("steady", "delay=5,ok", "strict"),
        ("flaky", "every=7:503", "strict"),
        ("loose", "every=9:503", "tolerant"),
    ];
    let plan = Plan { partitions: 8, delivers: 4, ..Plan::new(&recipients) };
    let Some(mut fleet) = Fleet::start(plan).await else { return };
    let mut random = random();
    let kills = sized(30, 100);
    let mut feeder = fleet.feeder();
    feeder.feed("deep", 0..sized(2, 4), 10_000).await;
    let mut killed = 0;
    while killed < kills {
        let before = fleet.receiver.snapshot().total.received;
        for endpoint in ["steady", "flaky", "loose"] {
            feeder.feed(endpoint, 0..10, 5).await;
        }
        let flows = fleet.receiver.reached(|r| r.total.received >= before + FLOW);
        if tokio::time::timeout(PATIENCE, flows).await.is_err() {
            panic!("nothing flows any more: {}", fleet.logs());
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(MOMENT))).await;
        // Now and then several at once: their partitions go to who is left.
        let mut victims: Vec<usize> = (0..fleet.members.len()).collect();
        victims.shuffle(&mut random);
        victims.truncate(random.random_range(1..=3));
        for victim in victims {
            killed += 1;
            println!(
                "kill -9 {killed}: process {victim}, {} received",
                fleet.receiver.snapshot().total.received
            );
            fleet.members[victim].process.kill_and_restart();
        }
    }
    fleet.close(vec![feeder], &Budget::none().and("a kill", killed, PER_KILL)).await;
}

/// S28, I10: a process is stopped past its session, another one takes its partitions over, and it goes on: what it sends
/// from then on it sends as their new owner or not at all.
#[tokio::test(flavor = "multi_thread")]
async fn s28_i10_a_stopped_process_that_goes_on_sends_nothing_under_its_old_claims() {
    let recipients = [("deep", "delay=2,ok", "strict"), ("loose", "delay=2,ok", "tolerant")];
    let plan = Plan { delivers: 2, ..Plan::new(&recipients) };
    let Some(fleet) = Fleet::start(plan).await else { return };
    fleet.wait_owned().await;
    let mut feeder = fleet.feeder();
    let rounds = sized(2, 6);
    for round in 0..rounds {
        let flow = fleet.receiver.snapshot().total.received + FLOW;
        feeder.feed("deep", 0..10, 300).await;
        feeder.feed("loose", 0..10, 300).await;
        fleet.wait_received(flow).await;
        let victim = round % fleet.members.len();
        let (zombie, heir) = (fleet.members[victim].process.pid(), 1 - victim);
        fleet.members[victim].process.signal("STOP");
        let all = i64::from(fleet.plan.partitions);
        until("the other one owns everything", async || {
            fleet.metric_of(heir, "mailrail_deliver_partitions").await == all
        })
        .await;
        let claims = fleet.claims().await;
        let old = claims.of(zombie);
        let before = fleet.receiver.receipts().len();
        feeder.feed("deep", 0..10, 50).await;
        fleet.members[victim].process.signal("CONT");
        // It finds out that it lost them, joins again, and owns some: under claims of its own.
        until("it owns partitions again", async || {
            fleet.claims().await.of(zombie).difference(&old).next().is_some()
        })
        .await;
        let after = fleet.receiver.receipts();
        let late: Vec<_> = after[before..].iter().filter(|receipt| old.contains(&epoch(receipt))).collect();
        assert_eq!(late, Vec::<&Receipt>::new(), "sent under a claim that was over {}", fleet.logs());
    }
    // Sent and not recorded when the process was stopped: one of each mailbox, and what was not committed yet.
    fleet.close(vec![feeder], &Budget::none().and("a stop", rounds as u64, PER_KILL)).await;
}

/// S28: processes come and go every few seconds; each gives its partitions up in good order, so nothing is sent twice.
#[tokio::test(flavor = "multi_thread")]
async fn s28_scaling_up_and_down_under_load_repeats_nothing() {
    let recipients =
        [("steady", "ok", "strict"), ("flaky", "every=7:503", "strict"), ("loose", "ok", "tolerant")];
    let plan = Plan { partitions: 8, ..Plan::new(&recipients) };
    let Some(mut fleet) = Fleet::start(plan).await else { return };
    let mut feeder = fleet.feeder();
    let end = Instant::now() + SCALING;
    let mut turns = 0;
    while Instant::now() < end {
        if fleet.members.len() == 1 {
            (0..3).for_each(|_| fleet.add());
        } else {
            fleet.stop(3).await;
        }
        turns += 1;
        for _ in 0..3 {
            let flow = fleet.receiver.snapshot().total.received + FLOW;
            for endpoint in ["steady", "flaky", "loose"] {
                feeder.feed(endpoint, 0..10, 3).await;
            }
            fleet.wait_received(flow).await;
        }
    }
    println!("{turns} times up or down");
    assert!(turns >= 8, "it scaled only {turns} times");
    fleet.close(vec![feeder], &Budget::none()).await;
}

/// S28, N22: a process that dies and is back at once, under the name that it had, goes on where it was, while its session and that of
/// nobody else is waited for; the others keep what they own.
#[tokio::test(flavor = "multi_thread")]
async fn s28_n22_a_process_that_is_back_under_its_name_goes_on_before_its_session_is_over() {
    let recipients = [("steady", "ok", "strict"), ("loose", "ok", "tolerant")];
    // As long as with the default settings: whoever had to wait for its end would be seen.
    let plan = Plan {
        partitions: 8,
        delivers: 2,
        attempt_seconds: 30,
        session_beyond_attempt: 30,
        named: true,
        ..Plan::new(&recipients)
    };
    let session = Duration::from_secs(60);
    let Some(mut fleet) = Fleet::start(plan).await else { return };
    fleet.wait_owned().await;
    let mut feeder = fleet.feeder();
    feeder.feed("steady", 0..40, 5).await;
    feeder.feed("loose", 0..40, 5).await;
    fleet.wait_received(400).await;
    for turn in 0..KILLS_OF_NAMED {
        let (victim, other) = (turn % 2, fleet.members[1 - turn % 2].process.pid());
        let kept = fleet.claims().await.of(other);
        let died = Instant::now();
        fleet.members[victim].process.kill_and_restart();
        feeder.feed("steady", 0..40, 5).await;
        feeder.feed("loose", 0..40, 5).await;
        fleet.wait_received(400 * (turn as u64 + 2)).await;
        assert!(
            died.elapsed() < session / 2,
            "everything goes on after {:?}: {}",
            died.elapsed(),
            fleet.logs()
        );
        assert_eq!(fleet.claims().await.of(other), kept, "the other one was not disturbed");
        fleet.wait_all_ready().await;
    }
    fleet.close(vec![feeder], &Budget::none().and("a kill", KILLS_OF_NAMED as u64, PER_KILL)).await;
}
