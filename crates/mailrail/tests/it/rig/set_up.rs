//! What an installation under test is set up with: its settings, its recipients, and the tenants.

use mailrail_demo::receiver::{Receiver, ReceiverEndpoint, ReceiverHandle, ReceiverSettings, json_order};
use tokio::net::TcpListener;

use super::{PARTITIONS, Place, Rig, TENANTS, TOKEN};
use crate::process::binary;

/// Endpoints of each tenant and how each answers; the delay lets kills hit open requests.
pub(super) const ENDPOINTS: [(&str, &str); 4] = [
    ("steady", "delay=15,ok"),
    ("flaky", "every=9:503"),
    ("picky", "field=/kind=odd:400"),
    // The only one whose mailboxes tolerate reordering: they are sized by rate.
    (TOLERANT, "ok"),
];
/// The endpoint of class `tolerant`; the others are strict.
pub(crate) const TOLERANT: &str = "wide";

impl Rig {
    /// Retries come soon, so that a test ends; the session is as short as the attempt's timeout lets it be.
    pub(super) async fn settings(
        &self,
        ingest: u16,
        control: u16,
        redis: Option<String>,
    ) -> std::path::PathBuf {
        let mut text = format!(
            "topic_prefix = \"{}\"\n[pipeline]\npartitions = {PARTITIONS}\n\
             [ingest]\nlisten = \"127.0.0.1:{ingest}\"\n[control]\nlisten = \"127.0.0.1:{control}\"\n\
             [deliver]\nattempt_timeout = \"2s\"\ncommit_interval = \"100ms\"\n\
             retry.delays = [\"50ms\", \"100ms\", \"200ms\", \"200ms\"]\n\
             [egress]\nallow_http = true\nallow_cidrs = [\"127.0.0.0/8\"]\n[logs]\nfilter = \"info\"\n",
            self.prefix
        );
        if let Place::Services { kafka, postgres } = &self.place {
            let database = format!("it_{:08x}", rand::random::<u32>());
            create_database(postgres, &database).await;
            let url = postgres.rsplit_once('/').expect("a database").0;
            text += &format!(
                "[store]\nurl = \"{url}/{database}\"\n[log]\nkind = \"kafka\"\n[log.kafka]\nbrokers = [\"{kafka}\"]\n\
                 replication_factor = 1\nmin_insync_replicas = 1\nsession_timeout = \"12s\"\n"
            );
        }
        if let Some(redis) = redis {
            text += &format!("[limits]\nredis = [\"{redis}\"]\n");
        }
        let path = self.folder.path().join("mailrail.toml");
        std::fs::write(&path, text).expect("settings");
        path
    }

    pub(super) async fn apply(&self) {
        let mut text = String::from("version: 1\ntenants:\n");
        for tenant in TENANTS {
            text += &format!(
                "- id: {tenant}\n  keys: [{{id: producer, token: {}}}]\n  apps:\n  - id: app\n    endpoints:\n",
                key(tenant)
            );
            for (name, _) in ENDPOINTS {
                text += &format!(
                    "    - {{id: {name}, url: \"{}\", secret: \"{}\", class: {}}}\n",
                    self.receiver.url(&format!("{tenant}-{name}")),
                    secret(),
                    if name == TOLERANT { "tolerant" } else { "strict" }
                );
            }
            text += "    subscriptions:\n";
            for (name, _) in ENDPOINTS {
                let filter = if name == "flaky" { ", filter: {pattern: {kind: [even, odd]}}" } else { "" };
                text +=
                    &format!("    - {{id: to-{name}, endpoint: {name}, event_types: [numbered]{filter}}}\n");
            }
        }
        let file = self.folder.path().join("setup.yaml");
        std::fs::write(&file, text).expect("set-up file");
        let output = binary()
            .args(["apply", "-f"])
            .arg(&file)
            .args(["--url", &self.control, "--token", TOKEN])
            .output()
            .expect("apply runs");
        assert!(output.status.success(), "apply: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A key that is the producer's; long enough, and one for each tenant.
pub(super) fn key(tenant: &str) -> String {
    format!("integration-test-key-of-tenant-{tenant}")
}

pub(crate) fn secret() -> String {
    format!("whsec_{}", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
}

pub(super) async fn start_receiver() -> ReceiverHandle {
    let mut endpoints = Vec::new();
    for tenant in TENANTS {
        for (name, script) in ENDPOINTS {
            endpoints.push(ReceiverEndpoint {
                name: format!("{tenant}-{name}"),
                secret: secret(),
                behaviour: script.parse().expect("a script"),
            });
        }
    }
    let mut settings = ReceiverSettings::new(endpoints);
    settings.order_of = Some(json_order("key", "seq"));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
    Receiver::start(listener, settings).expect("receiver")
}

pub(crate) async fn create_database(postgres: &str, name: &str) {
    let output = tokio::process::Command::new("psql")
        .args([postgres, "-qc", &format!("CREATE DATABASE {name}")])
        .output()
        .await
        .expect("psql runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
