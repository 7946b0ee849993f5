//! What commands do where nobody reads what they print, or it cannot be written: no panic, and an exit status that says what happened.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::fleet::until;
use crate::process::{Process, Recipe, TOKEN, binary};
use crate::rig::free_port;

const SETUP: &str = "version: 1
tenants:
  - id: acme
    keys: [{id: producer, token: integration-test-producer-key-0123456789}]
    apps:
      - id: shop
        endpoints: [{id: main, url: 'https://shop.example/hook'}]
";
/// How often, and with which pause between, a process is tried that may not listen yet: a minute.
const CONNECTS_MAX: u32 = 3_000;
const CONNECT_PAUSE: Duration = Duration::from_millis(20);
const KEY: &str = "integration-test-producer-key-0123456789";

/// Every command that prints a result, as it is called once `dev` runs.
const COMMANDS: &[&[&str]] = &[
    &["apply", "--print-schema"],
    &["apply", "-f", "setup.yaml", "--dry-run"],
    &["check-config", "good.toml"],
    &["classes", "list"],
    &["classes", "list", "--output", "json"],
    &["dlq", "cancel", "rpl_x"],
    &["dlq", "count"],
    &["dlq", "list"],
    &["dlq", "list", "--quarantine"],
    &["dlq", "replay", "--all"],
    &["dlq", "replay", "--all", "--dry-run"],
    &["dlq", "replays"],
    &["docs", "settings"],
    &["endpoints", "list", "acme"],
    &["explain", "--filter", "filter.json", "--event", "event.json"],
    &["health"],
    &["mailboxes"],
    &["prepare", "--config", "good.toml"],
    &["send", "--type", "t", "--source", "/s", "--data", "{}"],
    &["shed", "list"],
    &["status"],
    &["status", "--output", "json"],
    &["why", "dlv_iyygiqs6wlo4ua36axol474yee", "--tenant", "acme"],
];

/// A running `dev`, and commands beside it.
struct Site {
    folder: tempfile::TempDir,
    env: BTreeMap<String, String>,
    dev: Process,
}

impl Site {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let [admin, ingest, control] = [(); 3].map(|()| format!("127.0.0.1:{}", free_port()));
        let env: BTreeMap<String, String> = [
            ("MAILRAIL__ADMIN__LISTEN", admin),
            ("MAILRAIL__INGEST__LISTEN", ingest.clone()),
            ("MAILRAIL__CONTROL__LISTEN", control.clone()),
            ("MAILRAIL_INGEST_URL", format!("http://{ingest}")),
            ("MAILRAIL_CONTROL_URL", format!("http://{control}")),
            ("MAILRAIL_ADMIN_TOKEN", TOKEN.to_owned()),
            ("MAILRAIL_KEY", KEY.to_owned()),
            ("MAILRAIL_ENCRYPTION_KEY", "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        for (file, text) in [
            ("setup.yaml", SETUP),
            ("good.toml", "[log]\nkind = \"local\"\n[store]\nurl = \"sqlite:unused.db\"\n"),
            ("filter.json", r#"{"pattern": {"a": [1]}}"#),
            ("event.json", r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"a":1}}"#),
        ] {
            std::fs::write(folder.path().join(file), text).expect("written");
        }
        let data = folder.path().join("data").display().to_string();
        let args = ["dev", "--data", &data].map(str::to_owned).to_vec();
        let log = folder.path().join("dev.log");
        let dev = Process::start(Recipe { name: "dev", args, env: env.clone(), log });
        let site = Self { folder, env, dev };
        until("it is ready", async || site.run(&["health"], Stdio::piped(), Stdio::piped()).status.success())
            .await;
        let applied = site.run(&["apply", "-f", "setup.yaml"], Stdio::piped(), Stdio::piped());
        assert!(applied.status.success(), "{}", said(&applied));
        site
    }

    fn run(&self, args: &[&str], stdout: Stdio, stderr: Stdio) -> Output {
        let mut command = binary();
        command.args(args).env_clear().envs(&self.env).current_dir(self.folder.path());
        command
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .expect("mailrail runs")
            .wait_with_output()
            .expect("it ends")
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A pipe whose reader is gone, as that of `mailrail … | head -1` is.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

/// Takes nothing: every write fails as on a disk that is full.
fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").expect("a device of Linux")
}

#[tokio::test]
async fn a_reader_that_left_ends_no_command_and_a_full_disk_is_told() {
    let site = Site::start().await;
    for args in COMMANDS {
        let name = args.join(" ");
        // What the command itself comes to, whoever reads it.
        let read = site.run(args, Stdio::piped(), Stdio::piped());
        let unread = site.run(args, unread(), Stdio::piped());
        assert_eq!(unread.status.code(), read.status.code(), "{name}: {}", said(&unread));
        assert!(!said(&unread).contains("panicked"), "{name}: {}", said(&unread));

        let unwritten = site.run(args, full().into(), Stdio::piped());
        assert_eq!(unwritten.status.code(), Some(1), "{name}: {}", said(&unwritten));
        let is_told = !read.status.success() || said(&unwritten).contains("(output_unwritable)");
        assert!(is_told, "{name}: {}", said(&unwritten));
        assert!(!said(&unwritten).contains("panicked"), "{name}: {}", said(&unwritten));

        let nowhere = site.run(args, Stdio::null(), full().into());
        assert_eq!(nowhere.status.code(), read.status.code(), "{name}, with nowhere to complain");
    }
    assert!(site.dev.stop().await.success());
}

/// It goes on receiving, and counts what it could not print.
#[test]
fn a_receiver_whose_reader_left_goes_on_receiving() {
    for stdout in [unread(), full().into()] {
        let address = format!("127.0.0.1:{}", free_port());
        let args = [
            "receiver",
            "--listen",
            &address,
            "--print",
            "--endpoint",
            "shop=whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
        ];
        let mut receiver = binary().args(args).env_clear().stdout(stdout).spawn().expect("mailrail runs");
        let ask = |request: &str| -> String {
            let mut socket = (0..CONNECTS_MAX)
                .find_map(|_| TcpStream::connect(&address).map_err(|_| sleep(CONNECT_PAUSE)).ok())
                .expect("it listens");
            let mut answer = String::new();
            write!(socket, "{request} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
                .and_then(|()| socket.read_to_string(&mut answer))
                .expect("an answer");
            answer
        };
        for _ in 0..3 {
            assert!(ask("POST /shop").starts_with("HTTP/1.1 "), "it answers what it cannot print");
        }
        let report = ask("GET /report");
        assert!(report.starts_with("HTTP/1.1 200 "), "{report}");
        assert!(receiver.try_wait().expect("asked").is_none(), "it runs");
        receiver.kill().and_then(|()| receiver.wait()).expect("it is ended");
    }
}

/// The answer comes while the body is still on its way.
#[tokio::test]
async fn n15_an_event_that_is_too_large_is_told_so_whatever_its_size() {
    let site = Site::start().await;
    for bytes in [1_100_000, 1_500_000, 3_000_000, 20_000_000] {
        let file = site.folder.path().join("data.json");
        std::fs::write(&file, vec![b'1'; bytes]).expect("written");
        let args = ["send", "--type", "t", "--source", "/s", "--data-file", "data.json"];
        for _ in 0..5 {
            let sent = site.run(&args, Stdio::piped(), Stdio::piped());
            assert_eq!(sent.status.code(), Some(1), "{bytes}");
            assert!(said(&sent).contains("(body_too_large)"), "{bytes}: {}", said(&sent));
        }
    }
    assert!(site.dev.stop().await.success());
}
