//! The two stages meet only in the log: what holds delivery up does not hold matching up (acceptance A14, A22, A61).

use crate::fleet::until;
use crate::rig::{Place, Rig, TENANTS};

const EVENTS: u64 = 200;
/// Each event has one delivery for each endpoint of its tenant.
const ENDPOINTS: [&str; 4] = ["steady", "flaky", "picky", "wide"];

/// A22, A61: no recipient answers, ever, and everything is in one process: all events are matched, none is delivered, and when the
/// recipients answer again all of it comes.
#[tokio::test(flavor = "multi_thread")]
async fn a22_recipients_that_never_answer_do_not_stop_matching() {
    // No attempt ends while they do not answer, and what was sent before they do is sent again.
    let env = [("MAILRAIL__DELIVER__ATTEMPT_TIMEOUT", "5s")];
    let mut rig = Rig::start_with(Place::Embedded, None, &env).await;
    let all = |script: &str| {
        for endpoint in ENDPOINTS {
            let name = format!("{}-{endpoint}", TENANTS[0]);
            rig.receiver.set_behaviour(&name, script.parse().expect("a script")).expect("known endpoint");
        }
    };
    all("hang");
    let accepted = rig.produce_key("key".to_owned(), EVENTS).await.expect("produced");
    assert_eq!(accepted.len() as u64, EVENTS, "the door takes them all");
    let matched = format!("mailrail_match_deliveries_total {}", EVENTS * ENDPOINTS.len() as u64);
    until("all are matched", async || rig.metrics().await.contains(&matched)).await;
    assert_eq!(rig.receiver.snapshot().total.delivered, 0, "and none was delivered");
    all("ok");
    until("all are delivered", async || {
        rig.receiver.snapshot().total.delivered >= EVENTS * ENDPOINTS.len() as u64
    })
    .await;
    rig.stop_all().await;
}
