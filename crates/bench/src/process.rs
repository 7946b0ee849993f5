//! A server under measurement: a child process, its log file, the CPU time it took.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Longest that a process may take to end after SIGTERM.
const STOP_MAX: Duration = Duration::from_secs(40);
/// Between two looks whether it ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Lines of a log that an error shows.
const LAST_LINES: usize = 15;
/// Linux counts CPU time in these, whatever its own clock does.
const TICK: Duration = Duration::from_millis(10);

/// Killed when it is dropped.
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with its output in a log in `folder`.
    pub(crate) fn start(name: &str, folder: &Path, command: &mut Command) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("log file of {name}"))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("{} cannot be started", command.get_program().display()))?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    /// An error if it has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended with {status}:\n{}", self.name, self.last_log_lines()),
        }
    }

    pub(crate) fn last_log_lines(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
        format!("--- {}\n{last}\n", self.name)
    }

    /// Everything that it wrote so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// CPU time so far, in user and in kernel; `None` where the system does not tell.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        ticks(&std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?).map(|it| TICK * it)
    }

    /// SIGKILL, as a crash is; waits for the end.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// SIGTERM; waits for the end.
    pub(crate) async fn stop(mut self) -> Result<()> {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().context("kill")?;
        let ended = async {
            loop {
                if let Some(status) = self.child.try_wait()? {
                    return anyhow::Ok(status);
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let status = tokio::time::timeout(STOP_MAX, ended).await.context("it does not end")??;
        if status.success() { Ok(()) } else { bail!("{} ended with {status}", self.name) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `utime` and `stime` of `/proc/PID/stat`: fields 14 and 15, counted after the name, which may hold anything.
fn ticks(stat: &str) -> Option<u32> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u32>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_after_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 100 0 0 0 120 34 0 0 20 0 3 0 100 1 1";
        assert_eq!(ticks(stat), Some(154));
        assert_eq!(ticks("7 (a) S 1"), None);
    }
}
