//! The signals that end a process: SIGTERM, SIGINT and SIGHUP drain, a second one cuts.

use std::time::Duration;

use futures::stream::{self, Stream, StreamExt as _};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Exit status of a process that was cut, as shells give it for SIGINT.
const CUT: i32 = 130;

/// Signals within this time of the first are the same request: `timeout` signals the process and then its group, a
/// closing terminal and systemd send SIGHUP beside SIGTERM. Nobody asks twice on purpose that fast.
const SAME_REQUEST: Duration = Duration::from_secs(1);

/// Cancels `stop` at the first SIGTERM, SIGINT or SIGHUP. A later one ends the process at once: what was not committed is
/// done again by the next owner.
///
/// # Errors
/// When the signals cannot be listened to.
pub(crate) fn on_signal(stop: CancellationToken) -> std::io::Result<()> {
    let signals = Signals {
        terminate: signal(SignalKind::terminate())?,
        interrupt: signal(SignalKind::interrupt())?,
        hang_up: if hang_up_is_ignored() { None } else { Some(signal(SignalKind::hangup())?) },
    };
    tokio::spawn(async move {
        let signals = stream::unfold(signals, async |mut signals| {
            signals.next().await;
            Some(((), signals))
        });
        until_cut(signals, &stop).await;
        tracing::warn!("cut by a second signal");
        mailrail_telemetry::flush_logs();
        std::process::exit(CUT);
    });
    Ok(())
}

/// Cancels `stop` at the first signal, and returns at the next one that is not a part of the same request.
async fn until_cut(signals: impl Stream<Item = ()>, stop: &CancellationToken) {
    tokio::pin!(signals);
    signals.next().await;
    let asked = Instant::now();
    tracing::info!("stopping: finishing what runs; a second signal cuts it");
    stop.cancel();
    while signals.next().await.is_some() {
        if asked.elapsed() >= SAME_REQUEST {
            return;
        }
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Option<Signal>,
}

impl Signals {
    async fn next(&mut self) {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = hang_up => {}
        }
    }
}

/// Whether this process was started under `nohup`: listening to the signal would undo that. Known on Linux only.
fn hang_up_is_ignored() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores_hang_up(&status))
}

/// Reads the mask of ignored signals; SIGHUP is signal 1, its lowest bit.
fn ignores_hang_up(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Child, Command, Stdio};

    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn n22_only_a_later_signal_cuts() {
        let (send, signals) = mpsc::channel::<()>(4);
        let stop = CancellationToken::new();
        let watched = stop.clone();
        let cut = tokio::spawn(async move {
            let signals = stream::unfold(signals, async |mut signals| Some((signals.recv().await?, signals)));
            until_cut(signals, &watched).await;
        });
        send.send(()).await.expect("taken");
        stop.cancelled().await;
        send.send(()).await.expect("taken");
        tokio::time::sleep(SAME_REQUEST - Duration::from_millis(1)).await;
        send.send(()).await.expect("taken");
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(!cut.is_finished(), "three signals of one request");
        send.send(()).await.expect("taken");
        cut.await.expect("no panic");
    }

    #[test]
    fn nohup_is_seen() {
        assert!(ignores_hang_up("Name:\tx\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\n"));
        assert!(!ignores_hang_up("SigIgn:\t0000000000001000\nSigCgt:\t0000000000000001\n"));
        assert!(!ignores_hang_up("SigIgn:\twhat\n") && !ignores_hang_up(""));
    }

    /// The child of the test below: drains until its standard input ends.
    #[tokio::test]
    async fn child_that_waits_for_a_signal() {
        if std::env::var_os("MAILRAIL_TEST_SIGNALLED").is_none() {
            return;
        }
        let stop = CancellationToken::new();
        on_signal(stop.clone()).expect("signals");
        println!("\nready");
        stop.cancelled().await;
        println!("\nstopping");
        let ended =
            tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
        ended.await.expect("no panic").expect("read");
    }

    fn child(wrapper: &[&str]) -> Child {
        let this = std::env::current_exe().expect("this test binary");
        let mut command = wrapper.iter().map(AsRef::as_ref).chain([this.as_os_str()]);
        Command::new(command.next().expect("at least the binary"))
            .args(command)
            .args(["--exact", "shutdown::tests::child_that_waits_for_a_signal", "--nocapture"])
            .env("MAILRAIL_TEST_SIGNALLED", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child")
    }

    fn send(signals: &[&str], child: &Child) {
        let pid = child.id();
        let script: String = signals.iter().map(|signal| format!("kill -{signal} {pid};")).collect();
        assert!(Command::new("sh").args(["-c", &script]).status().expect("sh").success());
    }

    #[test]
    fn n22_signals_of_one_request_drain() {
        for (wrapper, signals) in [
            (&[][..], &["TERM", "TERM"][..]),
            (&[], &["HUP"]),
            (&[], &["TERM", "HUP"]),
            (&["nohup"], &["TERM"]),
        ] {
            if signals.contains(&"HUP") && hang_up_is_ignored() {
                // So it is for the child of whoever runs these tests under `nohup`.
                continue;
            }
            let mut child = child(wrapper);
            let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
            assert!(lines.any(|line| line == "ready"));
            if wrapper == ["nohup"] {
                send(&["HUP"], &child);
            }
            send(signals, &child);
            assert!(lines.any(|line| line == "stopping"), "{signals:?}");
            drop(child.stdin.take());
            lines.for_each(drop);
            assert!(child.wait().expect("ended").success(), "{signals:?} drain");
        }
    }
}
