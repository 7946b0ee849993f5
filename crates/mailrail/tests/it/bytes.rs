//! Bytes out are bytes in (acceptance N05), through real processes.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::rig::{PATIENCE, Place, Rig};
use crate::services;

const BODIES: [(&str, &[u8]); 6] = [
    ("application/octet-stream", b"\x00\xff\xfe not utf-8 \r\n\x80"),
    ("application/json", b"{\"a\":1,\"a\":2}"),
    ("application/json", b"{\"n\":123456789012345678901234567890,\"z\":-0}"),
    ("application/json; charset=utf-8", b" \t{ \"a\" :\r\n [ 1 , 2 ]  }\n\n"),
    ("application/json", b"{\"a\":\"\\u00e9\\/\"}"),
    ("text/plain", b""),
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

async fn every_body_arrives_untouched(place: Place) {
    let mut rig = Rig::start(place).await;
    let mut sent: Vec<_> = Vec::new();
    for (n, (content_type, body)) in BODIES.iter().enumerate() {
        rig.post(&format!("body-{n}"), content_type, Bytes::from_static(body)).await;
        sent.push((hex(&Sha256::digest(body)), Some((*content_type).to_owned())));
    }
    let arrived = rig.receiver.reached(|r| r.endpoints.get("acme-steady").is_some_and(|e| e.received >= 6));
    tokio::time::timeout(PATIENCE, arrived)
        .await
        .unwrap_or_else(|_| panic!("not all arrived: {}", rig.logs()));
    let receipts = rig.receiver.receipts();
    let steady = receipts.iter().filter(|r| r.endpoint == "acme-steady");
    let received: Vec<_> = steady.clone().map(|r| (r.body_sha256.clone(), r.content_type.clone())).collect();
    assert_eq!(received, sent);
    assert!(steady.clone().all(|r| r.verified), "signed over the same bytes");
    rig.stop_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n05_bodies_are_untouched_embedded() {
    every_body_arrives_untouched(Place::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n05_bodies_are_untouched_on_kafka() {
    let (Some(kafka), Some(postgres)) =
        (services::address("MAILRAIL_TEST_KAFKA"), services::address("MAILRAIL_TEST_POSTGRES"))
    else {
        return;
    };
    every_body_arrives_untouched(Place::Services { kafka, postgres }).await;
}
