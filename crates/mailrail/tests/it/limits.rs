//! Limits of an endpoint over real deliver processes that share a Redis.

use crate::fleet::{Fleet, Plan, until};
use crate::history::Budget;
use crate::services;

/// What a kill may make be sent again: what was under way.
const PER_KILL: u64 = 250;

/// A39, A24, A37: four processes with more to send than the endpoint takes at a time: never more than its limit, also when
/// one of them is killed in the middle of it, all of the limit is used, and what was held was no attempt.
#[tokio::test(flavor = "multi_thread")]
async fn a24_four_processes_keep_to_the_limit_of_an_endpoint_through_a_kill() {
    let Some(redis) = services::address("MAILRAIL_TEST_REDIS") else { return };
    let limits: &'static str = format!("[limits]\nredis = [\"{redis}\"]").leak();
    let recipients = [("slow", "delay=10,ok", "tolerant, max_in_flight: 3")];
    let plan = Plan { delivers: 4, deliver: limits, ..Plan::new(&recipients) };
    let Some(mut fleet) = Fleet::start(plan).await else { return };
    fleet.wait_owned().await;
    let mut feeder = fleet.feeder();
    feeder.feed("slow", 0..40, 25).await;
    fleet.wait_received(200).await;
    fleet.members[0].process.kill_and_restart();
    feeder.feed("slow", 0..40, 25).await;
    let mut ends = fleet.ends();
    fleet.wait_ended(&mut ends, feeder.owed.len()).await;
    until("all processes know of each other", async || {
        let mut all = true;
        for member in 0..fleet.members.len() {
            all &= fleet.metric_of(member, "mailrail_limits_processes").await == 4;
        }
        all
    })
    .await;
    assert_eq!(fleet.receiver.in_flight_max(), 3);
    let receipts = fleet.receiver.receipts();
    assert!(receipts.iter().all(|receipt| receipt.attempt == Some(1)), "what is held is no attempt");
    fleet.close(vec![feeder], &Budget::none().and("kills", 1, PER_KILL)).await;
}
