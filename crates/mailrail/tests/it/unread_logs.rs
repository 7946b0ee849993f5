//! Standard error that nobody reads: a pipe whose reader stands still.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use mailrail_demo::books::Accepted;
use tokio_util::sync::CancellationToken;

use crate::fleet::until;
use crate::process::{Process, Recipe};
use crate::rig::{Place, Rig, TENANTS};

/// `O_NONBLOCK` of Linux: of the test's end of the pipe alone.
const NONBLOCKING: i32 = 0o4000;
/// What `dev` says last of its welcome, and how that ends.
const WELCOME: (&str, &str) = ("  metrics  http", "/metrics\n");
/// Longest that a start may take.
const START_MAX: Duration = Duration::from_secs(120);
/// Between two looks at whether it has started.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Deliveries that must arrive while nobody reads the log.
const DELIVERED: u64 = 200;

/// A53: a process whose log nobody reads goes on. It takes events in, delivers them, and ends with 0 when it is told to.
#[tokio::test(flavor = "multi_thread")]
async fn a53_a_log_that_nobody_reads_stops_no_delivery() {
    let everything = [("MAILRAIL__LOGS__FILTER", "trace"), ("MAILRAIL__LOGS__LINES_PER_PLACE_MAX", "0")];
    let mut rig = Rig::start_with(Place::Embedded, None, &everything).await;
    let mut recipes = rig.stop_role("dev").await;
    recipes[0].log = rig.folder().join("unread");
    let mut pipe = make_pipe(&recipes[0].log);
    rig.start_again(recipes);
    read_until_started(&mut pipe, &rig).await;
    fill(&mut pipe);

    let stop = CancellationToken::new();
    let producing = rig.produce(TENANTS[0], stop.clone());
    let before = rig.receiver.snapshot().total.delivered;
    until("deliveries arrive", async || rig.receiver.snapshot().total.delivered >= before + DELIVERED).await;
    let unread = unread_lines(&rig.metrics().await);
    stop.cancel();
    let accepted: Vec<Accepted> = producing.await.expect("produced");
    let statement = rig.close_books(&accepted).await;
    assert_eq!(statement.faults, Vec::new(), "{statement:?}");
    assert!(
        unread.is_some(),
        "whether lines are lost by now follows from how many were said; the metric is there"
    );
    // Nothing came out: the pipe has been full all the time.
    assert_eq!(pipe.write(b"x").map_err(|error| error.kind()), Err(ErrorKind::WouldBlock));
}

/// A53: nor does an error at the end, which is no log line, hold the end.
#[tokio::test]
async fn a53_an_error_that_nobody_reads_holds_no_end() {
    let folder = tempfile::tempdir().expect("folder");
    let (log, missing) = (folder.path().join("unread"), folder.path().join("missing.toml"));
    let mut pipe = make_pipe(&log);
    fill(&mut pipe);
    let args = ["ingest".to_owned(), "--config".to_owned(), missing.display().to_string()];
    let recipe = Recipe { name: "ingest", args: args.to_vec(), env: BTreeMap::new(), log };
    assert_eq!(Process::start(recipe).ended().await.code(), Some(1));
    assert_eq!(pipe.write(b"x").map_err(|error| error.kind()), Err(ErrorKind::WouldBlock), "nobody read it");
}

/// A pipe with a name, held open by somebody who reads only when asked.
fn make_pipe(path: &Path) -> File {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(NONBLOCKING).open(path).expect("the pipe")
}

/// Reads until it is ready and has greeted, which is in the same pipe: the pipe is full while it works, and not while it starts.
async fn read_until_started(pipe: &mut File, rig: &Rig) {
    let ready = rig.wait_ready();
    tokio::pin!(ready);
    let (mut said, mut piece, mut is_ready) = (Vec::new(), vec![0; 64 * 1024], false);
    let started = async {
        while !is_ready || !has_greeted(&said) {
            while let Ok(bytes) = pipe.read(&mut piece) {
                said.extend_from_slice(&piece[..bytes]);
            }
            tokio::select! {
                () = &mut ready, if !is_ready => is_ready = true,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    };
    tokio::time::timeout(START_MAX, started).await.expect("it starts and greets");
}

fn has_greeted(said: &[u8]) -> bool {
    let said = String::from_utf8_lossy(said);
    let (last_line, end) = WELCOME;
    said.split_once(last_line).is_some_and(|(_, after)| after.contains(end))
}

/// From here on every write to it stands still.
fn fill(pipe: &mut File) {
    for piece in [&[b'\n'; 4096][..], b"\n"] {
        while pipe.write(piece).is_ok() {}
    }
}

fn unread_lines(page: &str) -> Option<u64> {
    page.lines().find_map(|line| line.strip_prefix("mailrail_log_lines_lost_total "))?.parse().ok()
}
