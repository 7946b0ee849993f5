//! The Kafka brokers of a test: the shared ones, and one of its own, which it may stop, crash and stall.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use mailrail_log::KafkaConfig;
use tempfile::TempDir;

/// The brokers, or `None` when the test is to be skipped.
pub(crate) fn brokers() -> Option<String> {
    match std::env::var("MAILRAIL_TEST_KAFKA") {
        Ok(brokers) if !brokers.is_empty() => Some(brokers),
        _ if std::env::var("MAILRAIL_TEST_REQUIRE").is_ok_and(|it| it == "1") => {
            panic!("MAILRAIL_TEST_KAFKA is not set; run with tests/services/with")
        }
        _ => {
            eprintln!("skipped: MAILRAIL_TEST_KAFKA is not set; run with tests/services/with");
            None
        }
    }
}

pub(crate) fn config(brokers: &str) -> KafkaConfig {
    KafkaConfig {
        client_id: "log-test".to_owned(),
        replication_factor: 1,
        min_insync_replicas: 1,
        session_timeout: Duration::from_secs(6),
        heartbeat_interval: Duration::from_secs(1),
        ..KafkaConfig::new(brokers)
    }
}

fn script() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/services/kafka.sh")
}

/// Sends a signal to a process that the test started.
pub(crate) fn signal(name: &str, pid: u32) {
    let status = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status();
    assert!(status.is_ok_and(|it| it.success()), "kill -{name} {pid}");
}

pub(crate) struct Broker {
    dir: TempDir,
    pub(crate) address: String,
}

impl Broker {
    /// `None` when this machine cannot run one and the test may be skipped.
    pub(crate) fn start() -> Option<Broker> {
        let dir = TempDir::new().expect("dir");
        let started = Command::new(script()).arg("up").arg(dir.path()).output();
        match started {
            Ok(output) if output.status.success() => {
                let address = String::from_utf8(output.stdout).expect("text").trim().to_owned();
                Some(Broker { dir, address })
            }
            other => {
                let required = std::env::var("MAILRAIL_TEST_REQUIRE").is_ok_and(|it| it == "1");
                assert!(!required, "no broker of its own: {other:?}");
                eprintln!("skipped: no broker of its own: {other:?}");
                None
            }
        }
    }

    /// `stop`, `kill` or `start` of the script.
    pub(crate) fn run(&self, command: &str) {
        let status = Command::new(script()).arg(command).arg(self.dir.path()).status();
        assert!(status.is_ok_and(|it| it.success()), "kafka.sh {command}");
    }

    pub(crate) fn stall(&self) {
        signal("STOP", self.pid());
    }

    pub(crate) fn resume(&self) {
        signal("CONT", self.pid());
    }

    fn pid(&self) -> u32 {
        let pid = std::fs::read_to_string(self.dir.path().join("kafka/pid")).expect("pid");
        pid.trim().parse().expect("a number")
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = Command::new(script()).arg("down").arg(self.dir.path()).status();
    }
}
