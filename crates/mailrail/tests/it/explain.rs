//! What `mailrail explain` says of accepted events is what match made of them (acceptance N11).

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::fleet::until;
use crate::rig::{Place, Rig, TENANTS};

/// Every language, every answer. The endpoint is one that takes what comes.
fn set_up(url: &str) -> String {
    let tenant = TENANTS[0];
    format!(
        r#"
version: 1
tenants:
  - id: {tenant}
    apps:
      - id: explained
        endpoints: [{{id: explained, url: "{url}"}}]
        subscriptions:
          - {{id: x-all, endpoint: explained, event_types: [numbered]}}
          - {{id: x-other, endpoint: explained, event_types: [other]}}
          - {{id: x-pattern, endpoint: explained, event_types: [numbered], filter: {{pattern: {{kind: [even]}}}}}}
          - {{id: x-eventbridge, endpoint: explained, event_types: [numbered], filter: {{eventbridge: {{n: [{{numeric: [">", 1]}}]}}}}}}
          - {{id: x-cesql, endpoint: explained, event_types: [numbered], filter: {{cesql: "NOT (data.kind = 'even') OR data.n = 0"}}}}
          - {{id: x-list, endpoint: explained, event_types: [numbered], filter: {{cloudevents: [{{not: {{sql: data.n < 2}}}}]}}}}
          - {{id: x-costly, endpoint: explained, event_types: [numbered], filter: {{cesql: data.l - data.l = 1}}, on_filter_error: deliver}}
"#
    )
}

/// N11: what is explained of accepted events is what match did with them.
#[tokio::test(flavor = "multi_thread")]
async fn n11_explain_says_what_match_did() {
    let mut rig = Rig::start(Place::Embedded).await;
    let file = rig.folder().join("explained.yaml");
    std::fs::write(&file, set_up(&rig.receiver.url(&format!("{}-steady", TENANTS[0])))).expect("written");
    rig.operate(&["apply", "-f", &file.display().to_string()]);
    let costly = format!(r#"{{"n": 4, "kind": "even", "l": [{}]}}"#, vec!["7"; 3_000].join(","));
    let bodies = [
        r#"{"n": 0, "kind": "even"}"#,
        r#"{"n": 1, "kind": "odd"}"#,
        r#"{"n": 2.5, "kind": ["odd", "even"]}"#,
        "not json",
        "",
        &costly,
    ];
    let mut events = Vec::new();
    for (n, body) in bodies.iter().enumerate() {
        let body = Bytes::copy_from_slice(body.as_bytes());
        events.push(rig.post(&format!("explained-{n}"), "application/json", body).await);
    }
    let waiting = |rig: &Rig| rig.ask(&["status"])["pipelines"][0]["events"]["waiting"].as_u64();
    until("all of them are matched", async || waiting(&rig) == Some(0)).await;
    let (mut explained, mut kept_out) = (BTreeSet::new(), 0);
    for event in &events {
        let answer = rig.ask(&["explain", &event.to_string(), "--limit", "100"]);
        assert_eq!(answer["next"], serde_json::Value::Null, "{answer}");
        for recipient in answer["recipients"].as_array().expect("recipients") {
            match recipient["delivery"].as_str() {
                Some(delivery) => assert!(explained.insert(delivery.to_owned()), "{recipient}"),
                None => kept_out += 1,
            }
        }
    }
    rig.stop_all().await;
    let made: BTreeSet<String> = rig.deliveries().await.iter().map(|one| one.id.to_string()).collect();
    assert_eq!(explained, made);
    assert!(made.len() > events.len() && kept_out > events.len(), "{} and {kept_out}", made.len());
}
