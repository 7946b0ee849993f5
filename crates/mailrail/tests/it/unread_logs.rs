//! Standard error that nobody reads: a pipe whose reader stands still.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use mailrail_demo::books::Accepted;
use tokio_util::sync::CancellationToken;

use crate::fleet::until;
use crate::rig::{Place, Rig, TENANTS};

/// `O_NONBLOCK` of Linux: of the test's end of the pipe alone.
const NONBLOCKING: i32 = 0o4000;
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
    read_until_ready(&mut pipe, &rig).await;
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
    assert_eq!(unread, Some(0), "what little was said waits, and the metric is there");
    // Nothing came out: the pipe has been full all the time.
    assert_eq!(pipe.write(b"x").map_err(|error| error.kind()), Err(ErrorKind::WouldBlock));
}

/// A pipe with a name, held open by somebody who reads only when asked.
fn make_pipe(path: &Path) -> File {
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(NONBLOCKING).open(path).expect("the pipe")
}

/// `dev` greets on standard output, which is the same pipe.
async fn read_until_ready(pipe: &mut File, rig: &Rig) {
    let ready = rig.wait_ready();
    tokio::pin!(ready);
    loop {
        let _ = pipe.read(&mut [0; 64 * 1024]);
        tokio::select! {
            () = &mut ready => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
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
