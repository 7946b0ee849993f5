//! The contract on the local adapter, and what is its own: crashes, the lock, retention, simulated rebalances.

#[macro_use]
mod contract;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use contract::{
    append, assigned, at, committed, event, leave, read, record, records, spec, text, topic, within,
};
use mailrail_log::{GroupEvent, LocalLog, LocalOptions, Log, LogError, Membership, TopicSpec};
use tempfile::TempDir;

fn open(dir: &TempDir) -> Arc<dyn Log> {
    Arc::new(LocalLog::open(&dir.path().join("log.db")).expect("opens"))
}

fn place() -> Option<(Arc<dyn Log>, String, TempDir)> {
    let dir = TempDir::new().expect("dir");
    Some((open(&dir), "t-".to_owned(), dir))
}

contract_tests!(place);

#[tokio::test]
async fn a_second_open_is_refused_until_the_first_is_gone() {
    let dir = TempDir::new().expect("dir");
    let path = dir.path().join("log.db");
    let first = LocalLog::open(&path).expect("opens");
    match LocalLog::open(&path) {
        Err(LogError::InUse(text)) => {
            assert!(text.contains("another process") && text.contains("log.db"), "{text}");
        }
        Err(other) => panic!("expected InUse, got {other}"),
        Ok(_) => panic!("opened twice"),
    }
    first.close(Duration::from_secs(10)).await;
    let second = LocalLog::open(&path).expect("free after close");
    drop(second);
    LocalLog::open(&path).expect("free after drop");
}

#[tokio::test]
async fn paths_that_cannot_work_say_what_to_change() {
    let dir = TempDir::new().expect("dir");
    match LocalLog::open(&dir.path().join("missing").join("log.db")) {
        Err(LogError::Config(text)) => assert!(text.contains("folder must exist"), "{text}"),
        other => panic!("expected Config, got {:?}", other.err()),
    }
    let path = dir.path().join("text.db");
    std::fs::write(&path, "this is not a database, it is a longer text than a header").expect("written");
    assert!(LocalLog::open(&path).is_err());
}

#[tokio::test]
async fn records_and_commits_survive_a_drop_without_close() {
    let dir = TempDir::new().expect("dir");
    {
        let log = open(&dir);
        let topic = topic(&log, "kept", 2).await;
        append(&log, &topic, 1, records("k", 10)).await;
        within("trim", log.trim(&topic, 1, 4)).await.expect("trim");
        let member: Arc<dyn Membership> = Arc::from(log.join("g", &topic).await.expect("join"));
        assigned(&*member).await;
        within("commit", member.commit(vec![(1, at(6, "six"))])).await.expect("commit");
    }
    let log = open(&dir);
    let bounds = log.bounds("kept", 1).await.expect("the topic is still there");
    assert_eq!((bounds.low, bounds.high), (4, 10));
    assert_eq!(committed(&log, "g", "kept", 1).await, Some(at(6, "six")));
    let mut reader = log.readers().expect("readers").open("kept", 1, 4).expect("reader");
    assert_eq!(text(&read(&mut reader, 6).await[5]), "k-9");
    assert_eq!(append(&log, "kept", 1, vec![record("next")]).await, [10]);
}

/// The child of the kill test: appends for ever and says each acknowledged offset.
#[tokio::test]
async fn child_that_appends_until_it_is_killed() {
    let Ok(path) = std::env::var("MAILRAIL_TEST_KILLED_LOG") else { return };
    let log: Arc<dyn Log> = Arc::new(LocalLog::open(Path::new(&path)).expect("opens"));
    let topic = topic(&log, "killed", 1).await;
    for call in 0.. {
        let offsets = append(&log, &topic, 0, records(&format!("k{call}"), 3)).await;
        println!("acked {}", offsets[2]);
    }
}

#[tokio::test]
async fn acknowledged_records_survive_a_killed_process() {
    use std::io::{BufRead, BufReader};
    let dir = TempDir::new().expect("dir");
    let path = dir.path().join("log.db");
    for _ in 0..2 {
        let mut child = Command::new(std::env::current_exe().expect("this test binary"))
            .args(["--exact", "child_that_appends_until_it_is_killed", "--nocapture"])
            .env("MAILRAIL_TEST_KILLED_LOG", &path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("child starts");
        let mut acked = None;
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        for _ in 0..200 {
            let line = lines.next().expect("the child goes on").expect("a line");
            acked = line.rsplit_once("acked ").and_then(|(_, n)| n.parse::<u64>().ok()).or(acked);
        }
        child.kill().expect("killed");
        child.wait().expect("gone");
        acked = lines
            .map_while(Result::ok)
            .filter_map(|l| l.strip_prefix("acked ")?.parse().ok())
            .last()
            .or(acked);
        let acked = acked.expect("the child acknowledged something");

        let log: Arc<dyn Log> = Arc::new(LocalLog::open(&path).expect("opens after the kill"));
        let bounds = log.bounds("killed", 0).await.expect("bounds");
        assert!(bounds.high > acked, "{bounds:?} lost {acked}");
        assert_eq!(bounds.high % 3, 0, "no call is there in part");
        let mut reader = log.readers().expect("readers").open("killed", 0, 0).expect("reader");
        let count = usize::try_from(bounds.high).expect("small");
        let got = read(&mut reader, count).await;
        assert!(
            got.iter()
                .enumerate()
                .all(|(n, it)| it.offset == n as u64 && text(it).ends_with(&format!("-{}", n % 3)))
        );
    }
}

#[tokio::test]
async fn records_past_their_retention_go_and_the_rest_stays() {
    let dir = TempDir::new().expect("dir");
    let path = dir.path().join("log.db");
    let short = TopicSpec { retention: Some(Duration::ZERO), ..spec("short", 1) };
    let long = TopicSpec { retention: None, ..spec("long", 1) };
    {
        let log = LocalLog::open(&path).expect("opens");
        log.ensure_topics(&[short.clone(), long.clone()]).await.expect("made");
        let log: Arc<dyn Log> = Arc::new(log);
        append(&log, "short", 0, records("s", 5_000)).await;
        append(&log, "long", 0, records("l", 10)).await;
    }
    let options = LocalOptions { retention_every: Duration::from_millis(20), ..LocalOptions::default() };
    let log = LocalLog::open_with(&path, options).expect("opens");
    within("retention", async {
        while log.bounds("short", 0).await.expect("bounds").low < 5_000 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let bounds = log.bounds("long", 0).await.expect("bounds");
    assert_eq!((bounds.low, bounds.high), (0, 10));
    // Also the rows are gone, not only hidden.
    within("deletion", async {
        let rows = rusqlite::Connection::open(&path).expect("opens");
        while rows.query_row("SELECT count(*) FROM records_1", [], |row| row.get::<_, i64>(0)).expect("count")
            > 0
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Mail that waited longer than the retention, while this machine was off, is still there to be delivered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_group_has_not_come_to_outlives_its_retention() {
    let dir = TempDir::new().expect("dir");
    let path = dir.path().join("log.db");
    let topics =
        ["read", "unread"].map(|name| TopicSpec { retention: Some(Duration::ZERO), ..spec(name, 2) });
    {
        let log: Arc<dyn Log> = Arc::new(LocalLog::open(&path).expect("opens"));
        log.ensure_topics(&topics).await.expect("made");
        for topic in ["read", "unread"] {
            for partition in [0, 1] {
                append(&log, topic, partition, records("r", 10)).await;
            }
        }
        for (group, offset) in [("slow", 4), ("quick", 7)] {
            let member: Arc<dyn Membership> = Arc::from(log.join(group, "read").await.expect("join"));
            assigned(&*member).await;
            within("commit", member.commit(vec![(0, at(offset, ""))])).await.expect("commit");
        }
    }
    let options = LocalOptions { retention_every: Duration::from_millis(20), ..LocalOptions::default() };
    let log: Arc<dyn Log> = Arc::new(LocalLog::open_with(&path, options).expect("opens"));
    let low = async |topic: &str, partition| log.bounds(topic, partition).await.expect("bounds").low;
    let until = async |topic: &str, partition, wanted| {
        within("retention", async {
            while low(topic, partition).await < wanted {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    };
    // All partitions expire in one transaction: when one has, the others were looked at.
    until("unread", 0, 10).await;
    assert_eq!(low("read", 0).await, 4, "up to the slowest group");
    assert_eq!(low("read", 1).await, 0, "its groups have come to nothing here");
    let mut reader = log.readers().expect("readers").open("read", 0, 4).expect("reader");
    assert_eq!(text(&read(&mut reader, 6).await[0]), "r-4");

    let member: Arc<dyn Membership> = Arc::from(log.join("slow", "read").await.expect("join"));
    assigned(&*member).await;
    within("commit", member.commit(vec![(0, at(10, ""))])).await.expect("commit");
    until("read", 0, 7).await;
}

/// The child of the test of a full disk: appends until its file may not grow, and asks whether the log is well.
#[tokio::test]
async fn child_that_appends_until_its_disk_is_full() {
    let Ok(path) = std::env::var("MAILRAIL_TEST_FULL_LOG") else { return };
    let log: Arc<dyn Log> = Arc::new(LocalLog::open(Path::new(&path)).expect("opens"));
    let topic = topic(&log, "full", 1).await;
    log.check().await.expect("well while there is room");
    let mut acked = 0;
    let refused = loop {
        match log.append(&topic, 0, vec![record(vec![b'x'; 64 * 1024])]).await {
            Ok(_) => acked += 1,
            Err(error) => break error,
        }
        assert!(acked < 1_000, "the limit of the file's size does not hold");
    };
    assert!(matches!(refused, LogError::Unavailable(_)), "{refused}");
    for _ in 0..3 {
        assert!(matches!(log.check().await, Err(LogError::Unavailable(_))));
    }
    println!("\nfull after {acked}");
}

#[test]
fn a_full_disk_fails_readiness_and_loses_nothing_acknowledged() {
    let dir = TempDir::new().expect("dir");
    let path = dir.path().join("log.db");
    let output = Command::new("sh")
        // Without the trap the signal of the limit ends the process; with it the write fails, as on a full disk.
        .args(["-c", "trap '' XFSZ; ulimit -f 2048; exec \"$@\"", "sh"])
        .arg(std::env::current_exe().expect("this test binary"))
        .args(["--exact", "child_that_appends_until_its_disk_is_full", "--nocapture"])
        .env("MAILRAIL_TEST_FULL_LOG", &path)
        .output()
        .expect("the child runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let acked = text.lines().find_map(|line| line.strip_prefix("full after ")?.parse::<u64>().ok());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let log = LocalLog::open(&path).expect("opens where there is room");
        assert_eq!(Some(log.bounds("full", 0).await.expect("bounds").high), acked);
        log.check().await.expect("well again");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_has_one_member() {
    let dir = TempDir::new().expect("dir");
    let log = open(&dir);
    let topic = topic(&log, "single", 2).await;
    let first: Arc<dyn Membership> = Arc::from(log.join("g", &topic).await.expect("join"));
    assert!(matches!(log.join("g", &topic).await.err(), Some(LogError::InUse(_))));
    assigned(&*first).await;
    leave(first, BTreeMap::new()).await;
    let second = log.join("g", &topic).await.expect("free after leave");
    drop(second);
    log.join("g", &topic).await.expect("free after drop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simulated_rebalances_look_like_real_ones() {
    let dir = TempDir::new().expect("dir");
    let local = Arc::new(LocalLog::open(&dir.path().join("log.db")).expect("opens"));
    let log: Arc<dyn Log> = local.clone();
    let topic = topic(&log, "moves", 4).await;
    let member: Arc<dyn Membership> = Arc::from(log.join("g", &topic).await.expect("join"));
    let (first, _) = assigned(&*member).await;

    let revoking = tokio::spawn({
        let local = local.clone();
        async move { local.simulate_revoke("g", &[1, 3]).await }
    });
    let GroupEvent::Revoked { partitions, release } = event(&*member).await else {
        panic!("expected a revocation")
    };
    assert_eq!(partitions, [1, 3]);
    // Until the release the partition is ours, also for commits.
    within("commit", member.commit(vec![(1, at(4, ""))])).await.expect("still owned");
    release.done(vec![(1, at(5, "released")), (0, at(99, "not part of it"))]);
    within("revoke", revoking).await.expect("no panic").expect("revoked");
    assert_eq!(committed(&log, "g", &topic, 1).await, Some(at(5, "released")));
    assert_eq!(committed(&log, "g", &topic, 0).await, None);
    let refused = member.commit(vec![(3, at(1, ""))]).await;
    assert!(matches!(refused, Err(LogError::NotOwned { partition: 3 })), "{refused:?}");

    local.simulate_assign("g", &[1]).await.expect("assign");
    let (second, partitions) = assigned(&*member).await;
    assert!(second > first);
    assert_eq!(partitions, [1]);

    local.simulate_loss("g", &[0]).await.expect("loss");
    assert!(matches!(event(&*member).await, GroupEvent::Lost { partitions } if partitions == [0]));
    assert!(matches!(member.commit(vec![(0, at(1, ""))]).await, Err(LogError::NotOwned { partition: 0 })));

    // A dropped release gives up without a commit.
    let revoking = tokio::spawn(async move { local.simulate_revoke("g", &[2]).await });
    drop(event(&*member).await);
    within("revoke", revoking).await.expect("no panic").expect("revoked");
    assert_eq!(committed(&log, "g", &topic, 2).await, None);
    assert_eq!(leave(member, BTreeMap::new()).await, [1]);
}
