//! kill -9 at random moments under load: every 202 ends delivered or dead-lettered, in order (acceptance A10, S01, N23).

use std::time::Duration;

use mailrail_demo::books::Statement;
use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};

use crate::rig::{Place, Rig, TENANTS};
use crate::services;

struct Chaos {
    events: u64,
    kills: u32,
    /// Between two kills, in milliseconds.
    pause: std::ops::Range<u64>,
}

/// The seed is printed: it gives the moments of the kills again, as far as a real machine can.
fn seed() -> u64 {
    let seed = std::env::var("MAILRAIL_TEST_SEED").ok().and_then(|s| s.parse().ok());
    let seed = seed.unwrap_or_else(|| rand::rng().next_u64());
    println!("MAILRAIL_TEST_SEED={seed}");
    seed
}

async fn run(place: Place, chaos: Chaos) -> Statement {
    let mut random = StdRng::seed_from_u64(seed());
    let mut rig = Rig::start(place).await;
    let producers = TENANTS.map(|tenant| rig.produce(tenant, chaos.events));
    for _ in 0..chaos.kills {
        tokio::time::sleep(Duration::from_millis(random.random_range(chaos.pause.clone()))).await;
        let victim = random.random_range(0..rig.processes.len());
        rig.processes[victim].kill_and_restart();
    }
    let mut accepted = Vec::new();
    for producer in producers {
        accepted.extend(producer.await.expect("the producer ends"));
    }
    let statement = rig.close_books(&accepted).await;
    assert_eq!(statement.faults, Vec::new(), "{statement:?} {}", rig.logs());
    println!("{statement:?}");
    rig.stop_all().await;
    statement
}

fn check(statement: &Statement, events: u64) {
    let total = events * TENANTS.len() as u64;
    assert!(statement.balanced);
    assert_eq!(statement.accepted, total);
    assert_eq!(statement.matched, total * 3);
    assert_eq!(statement.order_violations, 0);
    assert_eq!(statement.dead_lettered, total / 2, "odd ones are refused by one endpoint");
    assert_eq!(statement.delivered, total * 3 - total / 2);
    assert_eq!(statement.verified, statement.delivered);
}

/// A10, N23: one process on embedded parts.
#[tokio::test(flavor = "multi_thread")]
async fn a10_embedded_survives_kills_at_random_moments() {
    let chaos = Chaos { events: 400, kills: 15, pause: 50..900 };
    let statement = run(Place::Embedded, chaos).await;
    check(&statement, 400);
}

/// A10, A14: four processes on real Kafka and Postgres; each kill takes a random one of them.
#[tokio::test(flavor = "multi_thread")]
async fn a10_four_processes_on_kafka_survive_kills_at_random_moments() {
    let (Some(kafka), Some(postgres)) =
        (services::address("MAILRAIL_TEST_KAFKA"), services::address("MAILRAIL_TEST_POSTGRES"))
    else {
        return;
    };
    let chaos = Chaos { events: 400, kills: 16, pause: 100..2500 };
    let statement = run(Place::Services { kafka, postgres }, chaos).await;
    check(&statement, 400);
}
