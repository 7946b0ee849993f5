//! A mailrail process: started, killed, stopped.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// The operator's.
pub(crate) const TOKEN: &str = "integration-test-admin-token-0123456789";
/// Longest that a process may take to end after SIGTERM.
const STOP_MAX: Duration = Duration::from_secs(40);

/// How to start one: arguments, environment, where its log lines go.
#[derive(Clone)]
pub(crate) struct Recipe {
    pub(crate) name: &'static str,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) log: PathBuf,
}

pub(crate) struct Process {
    recipe: Recipe,
    child: Child,
}

/// The binary under test: the one that was built with the tests, or the one that MAILRAIL_TEST_BINARY names.
pub(crate) fn binary() -> Command {
    let built = || env!("CARGO_BIN_EXE_mailrail").into();
    Command::new(std::env::var_os("MAILRAIL_TEST_BINARY").unwrap_or_else(built))
}

impl Recipe {
    /// A role with these settings, whose admin page is at this port. It logs into the folder.
    pub(crate) fn of_role(name: &'static str, settings: &Path, admin: u16, folder: &Path) -> Self {
        let env = BTreeMap::from([
            ("MAILRAIL__ADMIN__LISTEN".to_owned(), format!("127.0.0.1:{admin}")),
            ("MAILRAIL_ADMIN_TOKEN".to_owned(), TOKEN.to_owned()),
            ("MAILRAIL_ENCRYPTION_KEY".to_owned(), "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=".to_owned()),
        ]);
        let args = vec![name.to_owned(), "--config".to_owned(), settings.display().to_string()];
        Self { name, args, env, log: folder.join(format!("{name}.log")) }
    }
}

/// The last `count` log lines of each role that logged into the folder, for a failure.
pub(crate) fn last_lines(folder: &Path, roles: &[&str], count: usize) -> String {
    let mut text = String::new();
    for role in roles {
        if let Ok(log) = std::fs::read_to_string(folder.join(format!("{role}.log"))) {
            let last: Vec<&str> = log.lines().rev().take(count).collect();
            text += &format!("\n--- {role}\n");
            text.extend(last.into_iter().rev().map(|line| format!("{line}\n")));
        }
    }
    text
}

impl Process {
    pub(crate) fn start(recipe: Recipe) -> Self {
        let log = append(&recipe.log);
        let child = binary()
            .args(&recipe.args)
            .envs(&recipe.env)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("log"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|e| panic!("{} cannot be started: {e}", recipe.name));
        Self { recipe, child }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.recipe.name
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, as `kill` names it.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status();
        assert!(sent.expect("kill runs").success(), "{} is not there to be signalled", self.recipe.name);
    }

    pub(crate) fn recipe(&self) -> Recipe {
        self.recipe.clone()
    }

    /// SIGKILL, and a new process in its place.
    pub(crate) fn kill_and_restart(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("reaped");
        self.child = Self::start(self.recipe.clone()).take();
    }

    /// SIGTERM; waits for the end.
    pub(crate) async fn stop(self) -> ExitStatus {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs");
        assert!(
            sent.success(),
            "{} had ended before it was stopped: see {}",
            self.recipe.name,
            self.recipe.log.display()
        );
        self.ended().await
    }

    /// Waits for the end.
    pub(crate) async fn ended(mut self) -> ExitStatus {
        let waited = async {
            loop {
                if let Some(status) = self.child.try_wait().expect("waited") {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(STOP_MAX, waited)
            .await
            .unwrap_or_else(|_| panic!("{} did not end", self.recipe.name))
    }

    fn take(mut self) -> Child {
        let placeholder = Command::new("true").spawn().expect("true runs");
        std::mem::replace(&mut self.child, placeholder)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn append(path: &Path) -> File {
    OpenOptions::new().create(true).append(true).open(path).expect("log file")
}
