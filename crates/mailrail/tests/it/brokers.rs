//! Brokers of a test's own, which it may stop and kill; and Kafka's own tools.

use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::services;

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/services/kafka.sh")
}

async fn run(arguments: &[&str]) -> String {
    let output = Command::new(script()).args(arguments).output().await.expect("kafka.sh runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kafka.sh {arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

/// Runs one of Kafka's command line tools against `brokers`.
pub(crate) async fn kafka_tool(class: &str, brokers: &str, arguments: &[&str]) {
    let class = format!("org.apache.kafka.tools.{class}");
    run(&[["tool", &class, "--bootstrap-server", brokers].as_slice(), arguments].concat()).await;
}

/// Brokers that belong to one test.
pub(crate) struct Brokers {
    folder: tempfile::TempDir,
    pub(crate) addresses: String,
    /// Folder of each.
    nodes: Vec<String>,
}

impl Brokers {
    /// One broker. `None`, said aloud, where there are no services.
    pub(crate) async fn one() -> Option<Self> {
        services::address("MAILRAIL_TEST_KAFKA")?;
        let folder = tempfile::tempdir().expect("folder");
        let node = folder.path().display().to_string();
        let addresses = run(&["up", &node]).await;
        Some(Self { folder, addresses, nodes: vec![node] })
    }

    /// A cluster of three, as [`Brokers::one`].
    pub(crate) async fn three() -> Option<Self> {
        services::address("MAILRAIL_TEST_KAFKA")?;
        let folder = tempfile::tempdir().expect("folder");
        let addresses = run(&["cluster", &folder.path().display().to_string()]).await;
        let node = |n: u32| folder.path().join(format!("node-{n}")).display().to_string();
        let nodes = (1..=3).map(node).collect();
        Some(Self { folder, addresses, nodes })
    }

    pub(crate) async fn stop(&self, node: usize) {
        run(&["stop", &self.nodes[node]]).await;
    }

    /// As in a crash.
    pub(crate) async fn kill(&self, node: usize) {
        run(&["kill", &self.nodes[node]]).await;
    }

    pub(crate) async fn start(&self, node: usize) {
        run(&["start", &self.nodes[node]]).await;
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        for node in &self.nodes {
            let ended = std::process::Command::new(script()).args(["down", node]).status();
            if !ended.is_ok_and(|status| status.success()) {
                println!("the broker in {} may still run", self.folder.path().display());
            }
        }
    }
}
