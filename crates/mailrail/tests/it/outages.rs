//! The log goes away and comes back: nothing is lost, order holds, and nobody has to restart anything.

use std::time::Duration;

use crate::brokers::Brokers;
use crate::fleet::{Fleet, Plan, sized};
use crate::history::Budget;

const RECIPIENTS: [(&str, &str, &str); 3] =
    [("steady", "delay=5,ok", "strict"), ("flaky", "every=7:503", "strict"), ("loose", "ok", "tolerant")];
/// How long the only broker is away: longer than a session lasts, than requests may take, and than all pauses between attempts to connect.
const OUTAGE: Duration = Duration::from_secs(60);
/// Small, so that what an outage may make be sent again is little: what was sent and could not be recorded is in a window, or
/// at the front of a backlog whose state is written every 50 deliveries.
const WINDOW: &str = "window_records = 200";
const PER_OUTAGE: u64 = 4 * 200 + 20 * 51;

/// X08: the only broker is stopped for a time under load.
#[tokio::test(flavor = "multi_thread")]
async fn x08_a_broker_that_was_away_changes_nothing() {
    let Some(brokers) = Brokers::one().await else { return };
    let plan = Plan {
        delivers: 2,
        deliver: WINDOW,
        brokers: Some(brokers.addresses.clone()),
        ..Plan::new(&RECIPIENTS)
    };
    let Some(fleet) = Fleet::start(plan).await else { return };
    fleet.wait_owned().await;
    let mut feeder = fleet.feeder();
    for endpoint in ["steady", "flaky", "loose"] {
        feeder.feed(endpoint, 0..10, 150).await;
    }
    fleet.wait_received(200).await;
    brokers.stop(0).await;
    tokio::time::sleep(OUTAGE).await;
    brokers.start(0).await;
    for endpoint in ["steady", "flaky", "loose"] {
        feeder.feed(endpoint, 0..10, 20).await;
    }
    fleet.close(vec![feeder], &Budget::none().and("an outage", 1, PER_OUTAGE)).await;
}

/// One of three brokers is killed under load, and comes back: the other two go on.
#[tokio::test(flavor = "multi_thread")]
async fn x08_one_of_three_brokers_killed_changes_nothing() {
    let Some(brokers) = Brokers::three().await else { return };
    let plan = Plan {
        delivers: 2,
        deliver: WINDOW,
        brokers: Some(brokers.addresses.clone()),
        copies: 3,
        ..Plan::new(&RECIPIENTS)
    };
    let Some(fleet) = Fleet::start(plan).await else { return };
    fleet.wait_owned().await;
    let mut feeder = fleet.feeder();
    let mut killed = 0;
    for node in 0..sized(1, 3) {
        let flow = fleet.receiver.snapshot().total.received + 200;
        for endpoint in ["steady", "flaky", "loose"] {
            feeder.feed(endpoint, 0..10, 100).await;
        }
        fleet.wait_received(flow).await;
        brokers.kill(node).await;
        killed += 1;
        for endpoint in ["steady", "flaky", "loose"] {
            feeder.feed(endpoint, 0..10, 20).await;
        }
        // With one of them away everything that is owed arrives.
        let mut ends = fleet.ends();
        fleet.wait_ended(&mut ends, feeder.owed.len()).await;
        brokers.start(node).await;
    }
    fleet.close(vec![feeder], &Budget::none().and("a killed broker", killed, PER_OUTAGE)).await;
}
