//! What every adapter of the log port must do. Each check takes a log and a topic prefix of its own.
//!
//! Waits have a generous end (`within`), so that a hang is a failure with a name; nothing is proved by sleeping.

#![allow(dead_code, unused_imports, unused_macros, reason = "each test binary uses its part")]

mod appending;
mod groups;
mod reading;
mod topics;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mailrail_log::{
    Committed, GroupEvent, Log, LogError, Membership, NewRecord, Reader, StoredRecord, TopicSpec,
};

pub(crate) use appending::*;
pub(crate) use groups::*;
pub(crate) use reading::*;
pub(crate) use topics::*;

/// No check of the suite comes near it on a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: nothing happened for {PATIENCE:?}"),
    }
}

pub(crate) fn spec(name: &str, partitions: u32) -> TopicSpec {
    TopicSpec { name: name.to_owned(), partitions, retention: Some(Duration::from_secs(3600)) }
}

pub(crate) async fn topic(log: &Arc<dyn Log>, name: &str, partitions: u32) -> String {
    within("ensure_topics", log.ensure_topics(&[spec(name, partitions)])).await.expect("topic is made");
    name.to_owned()
}

pub(crate) fn record(value: impl Into<Bytes>) -> NewRecord {
    NewRecord { key: Bytes::from_static(b"mailbox"), value: value.into(), headers: Vec::new() }
}

pub(crate) fn records(name: &str, count: usize) -> Vec<NewRecord> {
    (0..count).map(|n| record(format!("{name}-{n}"))).collect()
}

pub(crate) fn text(record: &StoredRecord) -> String {
    String::from_utf8(record.value.to_vec()).expect("test values are text")
}

pub(crate) async fn append(
    log: &Arc<dyn Log>,
    topic: &str,
    partition: u32,
    records: Vec<NewRecord>,
) -> Vec<u64> {
    within("append", log.append(topic, partition, records)).await.expect("appended")
}

/// Reads exactly `count` records.
pub(crate) async fn read(reader: &mut Box<dyn Reader>, count: usize) -> Vec<StoredRecord> {
    let mut all = Vec::new();
    while all.len() < count {
        let some = within("read", reader.next(count - all.len())).await.expect("read");
        assert!(!some.is_empty(), "next gives at least one record");
        assert!(some.len() <= count - all.len(), "next gives at most what was asked for");
        all.extend(some);
    }
    all
}

pub(crate) async fn event(member: &dyn Membership) -> GroupEvent {
    within("group event", member.next()).await.expect("the membership goes on")
}

pub(crate) async fn assigned(member: &dyn Membership) -> (u64, Vec<u32>) {
    match event(member).await {
        GroupEvent::Assigned { sequence, mut partitions } => {
            partitions.sort_unstable();
            (sequence, partitions)
        }
        other => panic!("expected an assignment, got {other:?}"),
    }
}

pub(crate) fn at(offset: u64, metadata: &str) -> Committed {
    Committed { offset, metadata: metadata.to_owned() }
}

pub(crate) async fn committed(
    log: &Arc<dyn Log>,
    group: &str,
    topic: &str,
    partition: u32,
) -> Option<Committed> {
    within("committed", log.committed(group, topic, partition)).await.expect("committed is known")
}

/// Leaves while the owner answers each revocation with `last`.
pub(crate) async fn leave(member: Arc<dyn Membership>, last: BTreeMap<u32, Committed>) -> Vec<u32> {
    let leaving = tokio::spawn({
        let member = member.clone();
        async move { member.leave().await }
    });
    let mut given_back = Vec::new();
    while let Some(event) = within("leave", member.next()).await {
        match event {
            GroupEvent::Revoked { partitions, release } => {
                let commits =
                    partitions.iter().filter_map(|p| last.get(p).map(|it| (*p, it.clone()))).collect();
                given_back.extend(partitions);
                release.done(commits);
            }
            GroupEvent::Assigned { .. } | GroupEvent::Lost { .. } => {}
        }
    }
    within("leave", leaving).await.expect("leave returns");
    given_back.sort_unstable();
    given_back
}

pub(crate) fn is_out_of_range(error: &LogError, wanted: u64) -> bool {
    matches!(error, LogError::OutOfRange { wanted: it, .. } if *it == wanted)
}

/// Every check as a test. `$open` gives a log, a prefix for topics and what must be kept meanwhile; nothing: the test is
/// skipped.
macro_rules! contract_tests {
    ($open:path) => {
        contract_tests!(
            $open:
            appended_records_are_read_in_order,
            bytes_are_untouched,
            big_batches_are_whole,
            concurrent_calls_stay_contiguous,
            too_large_records_are_refused_whole,
            a_waiting_reader_is_woken,
            a_reader_starts_in_the_middle,
            outside_the_bounds_is_an_error,
            trimming_all_keeps_counting,
            a_set_reads_partitions_once_each,
            a_slow_reader_stops_nobody,
            a_trim_below_disturbs_no_reader,
            readers_of_a_partition_do_not_know_each_other,
            commits_come_back,
            commits_side_by_side_are_all_answered,
            a_commit_of_a_foreign_partition_is_refused,
            leaving_releases_first,
            topics_are_made_once_and_never_changed,
            a_topic_without_a_retention_is_kept,
            unknown_topics_are_errors,
            closing_ends_everything,
        );
    };
    ($open:path: $($check:ident),* $(,)?) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $check() {
            let Some((log, prefix, _keep)) = $open() else { return };
            contract::$check(log, &prefix).await;
        })*
    };
}
