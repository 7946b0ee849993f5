//! Groups: who owns what, what is committed, how partitions leave.

use std::collections::BTreeMap;
use std::sync::Arc;

use mailrail_log::{Log, LogError, Membership};

use super::{assigned, at, committed, leave, topic, within};

/// Positions and up to 2 KB of metadata come back as they were written; what was never written is `None`.
pub(crate) async fn commits_come_back(log: Arc<dyn Log>, prefix: &str) {
    let topic = topic(&log, &format!("{prefix}commits"), 4).await;
    let group = format!("{prefix}commits-group");
    assert_eq!(committed(&log, &group, &topic, 0).await, None);
    let member: Arc<dyn Membership> =
        Arc::from(within("join", log.join(&group, &topic)).await.expect("join"));
    assert_eq!(assigned(&*member).await.1, [0, 1, 2, 3]);

    let long = "m".repeat(2048);
    let commits = vec![(0, at(7, &long)), (2, at(0, ""))];
    within("commit", member.commit(commits)).await.expect("commit");
    assert_eq!(committed(&log, &group, &topic, 0).await, Some(at(7, &long)));
    assert_eq!(committed(&log, &group, &topic, 1).await, None);
    assert_eq!(committed(&log, &group, &topic, 2).await, Some(at(0, "")));

    for offset in 8..30 {
        within("commit", member.commit(vec![(0, at(offset, "x")), (3, at(offset, "y"))]))
            .await
            .expect("commit");
    }
    assert_eq!(committed(&log, &group, &topic, 0).await, Some(at(29, "x")));
    assert_eq!(committed(&log, &group, &topic, 3).await, Some(at(29, "y")));
    assert_eq!(committed(&log, &format!("{prefix}other"), &topic, 0).await, None);

    let too_long = "m".repeat(4097);
    let refused = within("commit", member.commit(vec![(1, at(1, &too_long))])).await;
    assert!(matches!(refused, Err(LogError::Config(_))), "{refused:?}");
    leave(member, BTreeMap::new()).await;
    assert_eq!(committed(&log, &group, &topic, 0).await, Some(at(29, "x")));
}

/// Commits made side by side all get an answer, and the last of a partition stands.
pub(crate) async fn commits_side_by_side_are_all_answered(log: Arc<dyn Log>, prefix: &str) {
    let topic = topic(&log, &format!("{prefix}side"), 8).await;
    let group = format!("{prefix}side-group");
    let member: Arc<dyn Membership> =
        Arc::from(within("join", log.join(&group, &topic)).await.expect("join"));
    assigned(&*member).await;
    let mut calls = Vec::new();
    for partition in 0..8 {
        let member = member.clone();
        calls.push(tokio::spawn(async move {
            for offset in 1..=20 {
                within("commit", member.commit(vec![(partition, at(offset, "z"))])).await.expect("commit");
            }
        }));
    }
    for call in calls {
        within("commits", call).await.expect("no panic");
    }
    for partition in 0..8 {
        assert_eq!(committed(&log, &group, &topic, partition).await, Some(at(20, "z")));
    }
    leave(member, BTreeMap::new()).await;
}

/// A partition that is not ours takes no commit, and its call commits nothing at all.
pub(crate) async fn a_commit_of_a_foreign_partition_is_refused(log: Arc<dyn Log>, prefix: &str) {
    let topic = topic(&log, &format!("{prefix}foreign"), 2).await;
    let group = format!("{prefix}foreign-group");
    let member: Arc<dyn Membership> =
        Arc::from(within("join", log.join(&group, &topic)).await.expect("join"));
    assigned(&*member).await;
    let refused = within("commit", member.commit(vec![(0, at(5, "")), (9, at(5, ""))])).await;
    assert!(matches!(refused, Err(LogError::NotOwned { partition: 9 })), "{refused:?}");
    assert_eq!(committed(&log, &group, &topic, 0).await, None);
    leave(member.clone(), BTreeMap::new()).await;
    let refused = within("commit", member.commit(vec![(0, at(6, ""))])).await;
    assert!(matches!(refused, Err(LogError::NotOwned { .. } | LogError::Closed)), "{refused:?}");
    assert_eq!(committed(&log, &group, &topic, 0).await, None);
}

/// Leaving asks for a release first and commits what it carries; the group can be joined again.
pub(crate) async fn leaving_releases_first(log: Arc<dyn Log>, prefix: &str) {
    let topic = topic(&log, &format!("{prefix}leave"), 3).await;
    let group = format!("{prefix}leave-group");
    for round in 1..=2_u64 {
        let member: Arc<dyn Membership> =
            Arc::from(within("join", log.join(&group, &topic)).await.expect("join"));
        let (sequence, partitions) = assigned(&*member).await;
        assert!(sequence > 0);
        assert_eq!(partitions, [0, 1, 2]);
        let last = BTreeMap::from([(0, at(10 * round, "last")), (2, at(20 * round, ""))]);
        assert_eq!(leave(member.clone(), last).await, [0, 1, 2]);
        assert!(within("next after leave", member.next()).await.is_none());
        assert_eq!(committed(&log, &group, &topic, 0).await, Some(at(10 * round, "last")));
        assert_eq!(committed(&log, &group, &topic, 1).await, None);
        assert_eq!(committed(&log, &group, &topic, 2).await, Some(at(20 * round, "")));
    }
}
