//! An installation whose every secret is a canary, and whose processes say all that they can.

use std::collections::BTreeMap;
use std::path::PathBuf;

use data_encoding::BASE64;

use super::scan::Canary;
use crate::fleet::until;
use crate::process::{Process, Recipe, binary};
use crate::rig::{create_database, free_port, try_get, try_request};

/// The services of an installation whose roles are processes; `None`: `mailrail dev`.
pub(crate) type Services = Option<(String, String)>;

pub(crate) struct Site {
    pub(crate) ingest: String,
    pub(crate) control: String,
    pub(crate) admins: Vec<String>,
    pub(crate) token: String,
    pub(crate) prefix: String,
    processes: Vec<Process>,
    folder: tempfile::TempDir,
    filter: &'static str,
}

impl Site {
    /// Starts everything. `filter` is what is logged; nothing of it is suppressed.
    pub(crate) async fn start(
        services: Services,
        filter: &'static str,
        admin_token: &Canary,
        encryption_key: &Canary,
    ) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let mut site = Self {
            ingest: format!("127.0.0.1:{}", free_port()),
            control: format!("127.0.0.1:{}", free_port()),
            admins: Vec::new(),
            token: admin_token.text.clone(),
            prefix: format!("canary-{:08x}.", rand::random::<u32>()),
            processes: Vec::new(),
            folder,
            filter,
        };
        let settings = site.settings(services.as_ref()).await;
        std::fs::write(site.folder.path().join("mailrail.toml"), settings).expect("settings");
        let roles: &[_] =
            if services.is_some() { &["ingest", "match", "deliver", "control"] } else { &["dev"] };
        for role in roles {
            site.add(role, encryption_key);
        }
        for admin in &site.admins {
            let ready = async || try_get(admin, "/readyz").await.is_ok_and(|page| page.contains(" 200 "));
            until("every process is ready", ready).await;
        }
        site
    }

    fn add(&mut self, role: &'static str, encryption_key: &Canary) {
        let admin = format!("127.0.0.1:{}", free_port());
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let mut args = vec![role.to_owned(), "--config".to_owned(), path("mailrail.toml")];
        if role == "dev" {
            args.extend(["--data".to_owned(), path("data")]);
        }
        let env = BTreeMap::from([
            ("MAILRAIL__ADMIN__LISTEN".to_owned(), admin.clone()),
            ("MAILRAIL_ADMIN_TOKEN".to_owned(), self.token.clone()),
            ("MAILRAIL_ENCRYPTION_KEY".to_owned(), BASE64.encode(encryption_key.text.as_bytes())),
            // A panic is a line and no more.
            ("RUST_BACKTRACE".to_owned(), "0".to_owned()),
        ]);
        self.admins.push(admin);
        let log = self.log(role);
        self.processes.push(Process::start(Recipe { name: role, args, env, log }));
    }

    async fn settings(&self, services: Option<&(String, String)>) -> String {
        let (prefix, ingest, control, filter) = (&self.prefix, &self.ingest, &self.control, self.filter);
        let mut text = format!(
            "topic_prefix = \"{prefix}\"\n[pipeline]\npartitions = 2\n\
             [ingest]\nlisten = \"{ingest}\"\nbody_limit_bytes = \"64KiB\"\n[control]\nlisten = \"{control}\"\n\
             [deliver]\nattempt_timeout = \"5s\"\ncommit_interval = \"100ms\"\nretry.delays = [\"50ms\"]\n\
             [egress]\nallow_http = true\nallow_cidrs = [\"127.0.0.0/8\"]\n\
             [logs]\nfilter = \"{filter}\"\nlines_per_place_max = 0\n"
        );
        if let Some((kafka, postgres)) = services {
            let database = format!("canary_{:08x}", rand::random::<u32>());
            create_database(postgres, &database).await;
            let url = postgres.rsplit_once('/').expect("a database").0;
            text += &format!(
                "[store]\nurl = \"{url}/{database}\"\n[log]\nkind = \"kafka\"\n[log.kafka]\nbrokers = [\"{kafka}\"]\n\
                 replication_factor = 1\nmin_insync_replicas = 1\nsession_timeout = \"16s\"\n"
            );
        }
        text
    }

    fn log(&self, role: &str) -> PathBuf {
        self.folder.path().join(format!("{role}.log"))
    }

    /// What every process wrote, to standard output and standard error.
    pub(crate) fn logs(&self) -> Vec<(String, String)> {
        let read = |role: &str| Some((role.to_owned(), std::fs::read_to_string(self.log(role)).ok()?));
        ["dev", "ingest", "match", "deliver", "control"].into_iter().filter_map(read).collect()
    }

    /// Runs a command of an operator, which succeeds; gives what it writes.
    pub(crate) fn operate(&self, args: &[&str]) -> String {
        let (success, said) = self.run(args);
        assert!(success, "{args:?} fails: {said}");
        said
    }

    /// Whether a command of an operator succeeds, and what it writes.
    fn run(&self, args: &[&str]) -> (bool, String) {
        let control = format!("http://{}", self.control);
        let mut command = binary();
        command.args(args).args(["--url", &control]).env("MAILRAIL_ADMIN_TOKEN", &self.token);
        let output = command.output().expect("mailrail runs");
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.success(), said.concat())
    }

    /// Writes a set-up file and applies it, which succeeds or not; gives what is said.
    pub(crate) fn apply(&self, yaml: &str, succeeds: bool) -> String {
        let file = self.folder.path().join("setup.yaml");
        std::fs::write(&file, yaml).expect("set-up file");
        let (success, said) = self.run(&["apply", "-f", file.to_str().expect("a path")]);
        assert_eq!(success, succeeds, "{said}\nis said of\n{yaml}");
        assert!(!said.is_empty(), "nothing is said of\n{yaml}");
        said
    }

    /// Asks the control API as an operator.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let bearer = format!("Bearer {}", self.token);
        request(&self.control, method, path, &[("authorization", &bearer)], body.as_bytes()).await
    }

    pub(crate) async fn stop(&mut self) {
        for process in std::mem::take(&mut self.processes) {
            let name = process.name();
            assert!(process.stop().await.success(), "{name} ends with 0");
        }
    }
}

impl Drop for Site {
    /// Of a test that failed, the logs stay.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.folder.disable_cleanup(true);
            println!("the logs stay in {}", self.folder.path().display());
        }
    }
}

/// One request to a process that is there; gives the whole answer, its head included.
pub(crate) async fn request(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> String {
    let answer = try_request(address, method, path, headers, body).await;
    answer.unwrap_or_else(|error| panic!("{method} {address}{path}: {error}"))
}

/// Whether an answer has a status of this class or this status: `4`, `404`.
#[track_caller]
pub(crate) fn check_status(what: &str, answer: &str, status: &str) {
    assert!(
        answer.starts_with(&format!("HTTP/1.1 {status}")),
        "{what} is not answered with {status}: {answer}"
    );
}
