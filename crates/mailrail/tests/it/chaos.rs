//! kill -9 at random moments under load: every 202 ends delivered or dead-lettered, in order (acceptance A10, S01, N23).

use std::time::Duration;

use mailrail_demo::books::{Accepted, Statement};
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use tokio_util::sync::CancellationToken;

use crate::rig::{PATIENCE, Place, Rig, TENANTS};
use crate::services;

/// Requests that must arrive between two kills: a kill of an idle installation proves nothing.
const FLOW: u64 = 30;
/// Beyond that, how long until the next kill, in milliseconds.
const MOMENT: std::ops::Range<u64> = 0..700;

/// The seed is printed: it gives the moments of the kills again, as far as a real machine can.
fn seed() -> u64 {
    let seed = std::env::var("MAILRAIL_TEST_SEED").ok().and_then(|s| s.parse().ok());
    let seed = seed.unwrap_or_else(|| rand::rng().next_u64());
    println!("MAILRAIL_TEST_SEED={seed}");
    seed
}

/// Kills every process `rounds` times, in random order and at random moments.
async fn run(place: Place, rounds: usize) {
    let mut random = StdRng::seed_from_u64(seed());
    let mut rig = Rig::start(place).await;
    let stop = CancellationToken::new();
    let producers = TENANTS.map(|tenant| rig.produce(tenant, stop.clone()));
    let mut victims: Vec<usize> =
        (0..rig.processes.len()).cycle().take(rounds * rig.processes.len()).collect();
    victims.shuffle(&mut random);
    for victim in victims {
        let before = rig.receiver.snapshot().total.received;
        let flows = rig.receiver.reached(|r| r.total.received >= before + FLOW);
        if tokio::time::timeout(PATIENCE, flows).await.is_err() {
            panic!("nothing flows any more: {}", rig.logs());
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(MOMENT))).await;
        println!("kill -9 {}", rig.processes[victim].name());
        rig.processes[victim].kill_and_restart();
    }
    stop.cancel();
    let mut accepted = Vec::new();
    for producer in producers {
        accepted.extend(producer.await.expect("the producer ends"));
    }
    let statement = rig.close_books(&accepted).await;
    assert_eq!(statement.faults, Vec::new(), "{statement:?} {}", rig.logs());
    println!("{statement:?}");
    rig.stop_all().await;
    check(&statement, &accepted);
}

fn check(statement: &Statement, accepted: &[Accepted]) {
    let total = accepted.len() as u64;
    let odd = accepted.iter().filter(|a| a.sequence % 2 == 1).count() as u64;
    assert!(statement.balanced);
    assert_eq!(statement.accepted, total);
    assert_eq!(statement.matched, total * 4);
    assert_eq!(statement.order_violations, 0);
    assert_eq!(statement.dead_lettered, odd, "one endpoint refuses odd ones");
    assert_eq!(statement.delivered, total * 4 - odd);
    assert_eq!(statement.verified, statement.delivered);
}

/// A10, N23: one process on embedded parts.
#[tokio::test(flavor = "multi_thread")]
async fn a10_embedded_survives_kills_at_random_moments() {
    run(Place::Embedded, 15).await;
}

/// A10, A14: a process for each role, and a second deliver, on real Kafka and Postgres; each kill takes a random one.
#[tokio::test(flavor = "multi_thread")]
async fn a10_processes_on_kafka_survive_kills_at_random_moments() {
    let (Some(kafka), Some(postgres)) =
        (services::address("MAILRAIL_TEST_KAFKA"), services::address("MAILRAIL_TEST_POSTGRES"))
    else {
        return;
    };
    run(Place::Services { kafka, postgres }, 2).await;
}
