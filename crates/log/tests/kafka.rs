//! The contract on the Kafka adapter, and what is its own: rebalances between members, lost members, topics that are not as configured.
//!
//! Needs `MAILRAIL_TEST_KAFKA` (tests/services/with); without it the tests say that they were skipped, and fail instead
//! when `MAILRAIL_TEST_REQUIRE=1`.

mod broker;
#[macro_use]
mod contract;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use broker::{brokers, config, signal};
use contract::{assigned, at, committed, event, leave, records, spec, topic, within};
use mailrail_log::{
    Committed, GroupEvent, KafkaConfig, KafkaLog, Log, LogError, Membership, Release, TopicSpec,
};

fn connect(brokers: &str) -> Arc<dyn Log> {
    Arc::new(KafkaLog::connect(config(brokers)).expect("settings"))
}

/// Names that no other test and no other run uses.
fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis();
    format!("t{now}-{}-{}-", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn place() -> Option<(Arc<dyn Log>, String, ())> {
    Some((connect(&brokers()?), unique(), ()))
}

contract_tests!(place);

/// Takes a member's events until it owns exactly `count`, answering each revocation with `last`.
async fn own(
    member: &dyn Membership,
    owned: &mut BTreeSet<u32>,
    count: usize,
    last: impl Fn(u32) -> Option<Committed>,
) {
    while owned.len() != count {
        take(event(member).await, owned, &last);
    }
}

fn take(event: GroupEvent, owned: &mut BTreeSet<u32>, last: impl Fn(u32) -> Option<Committed>) {
    match event {
        GroupEvent::Assigned { partitions, .. } => owned.extend(partitions),
        GroupEvent::Revoked { partitions, release } => {
            let release: Release = release;
            release.done(partitions.iter().filter_map(|p| Some((*p, last(*p)?))).collect());
            owned.retain(|it| !partitions.contains(it));
        }
        GroupEvent::Lost { partitions } => owned.retain(|it| !partitions.contains(it)),
    }
}

/// A second member takes over half of the partitions, at the positions of the release, while the rest stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_move_with_the_positions_of_their_release() {
    let Some(brokers) = brokers() else { return };
    let (one, two) = (connect(&brokers), connect(&brokers));
    let name = unique();
    let topic = topic(&one, &format!("{name}move"), 8).await;
    let group = format!("{name}group");
    let first: Arc<dyn Membership> = Arc::from(one.join(&group, &topic).await.expect("join"));
    let mut owned_first = BTreeSet::new();
    own(&*first, &mut owned_first, 8, |_| None).await;
    within("commit", first.commit((0..8).map(|p| (p, at(10, "early"))).collect())).await.expect("commit");

    let second: Arc<dyn Membership> = Arc::from(two.join(&group, &topic).await.expect("join"));
    let mut owned_second = BTreeSet::new();
    tokio::join!(
        own(&*first, &mut owned_first, 4, |p| Some(at(100 + u64::from(p), "released"))),
        own(&*second, &mut owned_second, 4, |_| None),
    );
    assert!(owned_first.is_disjoint(&owned_second));
    for partition in 0..8 {
        let expected = if owned_second.contains(&partition) {
            at(100 + u64::from(partition), "released")
        } else {
            at(10, "early")
        };
        assert_eq!(committed(&two, &group, &topic, partition).await, Some(expected));
    }
    // The group would take this commit: it fences members, not partitions.
    let moved = *owned_second.first().expect("four");
    let refused = within("commit", first.commit(vec![(moved, at(1, "stale"))])).await;
    assert!(matches!(refused, Err(LogError::NotOwned { partition }) if partition == moved), "{refused:?}");
    let stays = *owned_first.first().expect("four");
    within("commit", first.commit(vec![(stays, at(11, "kept"))])).await.expect("still owned");
    within("commit", second.commit(vec![(moved, at(200, "second"))])).await.expect("owned now");

    let last = owned_second.iter().map(|p| (*p, at(300 + u64::from(*p), "left"))).collect();
    let (given_back, ()) = tokio::join!(leave(second, last), own(&*first, &mut owned_first, 8, |_| None));
    assert_eq!(given_back, owned_second.iter().copied().collect::<Vec<_>>());
    assert_eq!(committed(&one, &group, &topic, moved).await, Some(at(300 + u64::from(moved), "left")));
    assert_eq!(leave(first, BTreeMap::new()).await.len(), 8);
}

/// A member that is dropped gives everything up at once, without a commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_member_makes_room() {
    let Some(brokers) = brokers() else { return };
    let log = connect(&brokers);
    let name = unique();
    let topic = topic(&log, &format!("{name}drop"), 2).await;
    let group = format!("{name}group");
    let first = log.join(&group, &topic).await.expect("join");
    assert_eq!(assigned(&*first).await.1, [0, 1]);
    drop(first);
    let second: Arc<dyn Membership> = Arc::from(log.join(&group, &topic).await.expect("join"));
    let mut owned = BTreeSet::new();
    own(&*second, &mut owned, 2, |_| None).await;
    assert_eq!(committed(&log, &group, &topic, 0).await, None);
    leave(second, BTreeMap::new()).await;
}

/// The child of the next test: joins, then commits when it is told to and says what became of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_that_is_stopped_past_its_session() {
    let Ok(names) = std::env::var("MAILRAIL_TEST_STOPPED_MEMBER") else { return };
    let (group, topic) = names.split_once(' ').expect("two names");
    let log = connect(&brokers().expect("given by the parent"));
    let member: Arc<dyn Membership> = Arc::from(log.join(group, topic).await.expect("join"));
    assigned(&*member).await;
    println!("\nchild owns");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("told");
    match within("commit", member.commit(vec![(0, at(5, "late"))])).await {
        Ok(()) => println!("\nchild committed"),
        Err(error) => println!("\nchild refused {error:?}"),
    }
    // What was ours is gone without being asked for.
    loop {
        match event(&*member).await {
            GroupEvent::Lost { partitions } => break println!("\nchild lost {}", partitions.len()),
            GroupEvent::Assigned { .. } => {}
            GroupEvent::Revoked { .. } => break println!("\nchild was asked to release"),
        }
    }
}

/// A member that was silent for longer than its session cannot commit any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_commit_of_a_lost_member_is_refused() {
    let Some(brokers) = brokers() else { return };
    let log = connect(&brokers);
    let name = unique();
    let topic = topic(&log, &format!("{name}lost"), 2).await;
    let group = format!("{name}group");
    let mut child = Command::new(std::env::current_exe().expect("this test binary"))
        .args(["--exact", "child_that_is_stopped_past_its_session", "--nocapture"])
        .env("MAILRAIL_TEST_STOPPED_MEMBER", format!("{group} {topic}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("child starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
    assert!(lines.any(|it| it == "child owns"), "the child owns its partitions");

    signal("STOP", child.id());
    let member: Arc<dyn Membership> = Arc::from(log.join(&group, &topic).await.expect("join"));
    let mut owned = BTreeSet::new();
    own(&*member, &mut owned, 2, |_| None).await;
    within("commit", member.commit(vec![(0, at(50, "new owner"))])).await.expect("commit");
    signal("CONT", child.id());
    child.stdin.take().expect("piped").write_all(b"commit\n").expect("told");

    // The child joins again meanwhile: the owner has to go on answering.
    let answering = tokio::spawn({
        let member = member.clone();
        async move {
            while let Some(event) = member.next().await {
                take(event, &mut owned, |p| (p == 0).then(|| at(51, "still owner")));
            }
        }
    });
    let said: Vec<String> = within(
        "the child",
        tokio::task::spawn_blocking(move || {
            let said = lines.filter(|it| it.starts_with("child ")).take(2).collect();
            child.kill().expect("killed");
            child.wait().expect("gone");
            said
        }),
    )
    .await
    .expect("no panic");
    assert!(said[0].starts_with("child refused"), "{said:?}");
    assert_eq!(said[1], "child lost 2", "{said:?}");
    let position = committed(&log, &group, &topic, 0).await.expect("committed");
    assert!(position.offset >= 50, "{position:?}");
    answering.abort();
}

/// Each difference of an existing topic is one line that says what to change, and the topic stays as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_mismatch_of_a_topic_says_what_to_change() {
    let Some(brokers) = brokers() else { return };
    let log = connect(&brokers);
    let name = format!("{}wrong", unique());
    topic(&log, &name, 2).await;
    let strict = KafkaConfig {
        replication_factor: 2,
        min_insync_replicas: 2,
        record_bytes_max: 4 * 1024 * 1024,
        ..config(&brokers)
    };
    let strict = KafkaLog::connect(strict).expect("settings");
    let wanted = TopicSpec { name: name.clone(), partitions: 3, retention: None };
    let Err(LogError::Topics(lines)) = within("ensure", strict.ensure_topics(&[wanted])).await else {
        panic!("expected mismatches")
    };
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    let expected = [
        "has 2 partitions, settings say 3; set the partitions to 2",
        "has 1 replicas, settings say 2; reassign",
        "has min.insync.replicas 1, settings say 2; alter the topic to min.insync.replicas=2",
        "has retention.ms 3600000, settings say -1; alter the topic to retention.ms=-1",
        "has max.message.bytes 1064960, records may take 4210688; alter the topic to max.message.bytes=4210688",
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, part) in lines.iter().zip(expected) {
        assert!(line.starts_with(&format!("topic {name}: ")) && line.contains(part), "{line}");
    }
    within("ensure", log.ensure_topics(&[spec(&name, 2)])).await.expect("nothing was changed");
}

/// A cluster that is not there is unavailable, not a hang, and closing does not hang either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_cluster_is_unavailable() {
    let unreachable = KafkaConfig { delivery_timeout: Duration::from_millis(500), ..config("127.0.0.1:1") };
    let log: Arc<dyn Log> = Arc::new(KafkaLog::connect(unreachable).expect("settings"));
    for _ in 0..2 {
        let error = within("append", log.append("any", 0, records("x", 3))).await.expect_err("nobody there");
        assert!(matches!(error, LogError::Unavailable(_)), "{error}");
    }
    assert!(matches!(within("check", log.check()).await, Err(LogError::Unavailable(_))));
    assert!(matches!(within("committed", log.committed("g", "any", 0)).await, Err(LogError::Unavailable(_))));
    assert!(matches!(within("bounds", log.bounds("any", 0)).await, Err(LogError::Unavailable(_))));
    let reader = log.readers().expect("readers").open("any", 0, 0).expect("reader");
    within("close", log.close(Duration::from_secs(5))).await;
    drop(reader);
}
