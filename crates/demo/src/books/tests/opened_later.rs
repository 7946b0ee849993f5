//! Books that begin in the middle of a log: what was there before, and what still becomes of it, is not theirs.

use super::*;

/// Events 5 to 8, played after [`truth`]: the same story with other events.
fn second() -> Story {
    let later = |ns: Vec<u64>| ns.into_iter().map(|n| n + 4).collect();
    let first = truth();
    let receipts = [receipt(5, 200), receipt(6, 503), receipt(6, 200), receipt(7, 400)];
    Story {
        events: later(first.events),
        deliveries: later(first.deliveries),
        attempts: first.attempts.into_iter().map(|(n, outcome)| (n + 4, outcome)).collect(),
        dead_letters: vec![(7, DeadReason::Rejected)],
        receipts: receipts.to_vec(),
        accepted: later(first.accepted),
        expected: later(first.expected),
        matched: true,
    }
}

/// What `first` and then `second` come to in books that were opened between the two.
async fn in_the_middle(first: Story, second: Story) -> Statement {
    let folder = tempfile::tempdir().expect("folder");
    let log = open(folder.path()).await;
    first.write(log.as_ref()).await;
    let mut books = Books::from_now(Arc::clone(&log), pipeline()).await.expect("books");
    second.write(log.as_ref()).await;
    books.catch_up().await.expect("readable");
    let statement = second.reconcile(&books);
    log.close(Duration::from_secs(5)).await;
    statement
}

#[tokio::test]
async fn a_second_play_on_the_same_log_balances() {
    let statement = in_the_middle(truth(), second()).await;
    assert_eq!(statement.faults, []);
    assert_eq!(statement.json_line(), truth().statement().await.json_line());
}

#[tokio::test]
async fn what_becomes_of_earlier_events_is_left_out() {
    let mut begun = truth();
    // Event 4 waits for match; of 2 and 3 neither the end is there.
    begun.attempts.truncate(2);
    begun.dead_letters.clear();
    begun.matched = false;
    let mut rest = second();
    rest.deliveries.push(4);
    rest.attempts.extend([(2, Outcome::Delivered), (4, Outcome::Delivered)]);
    rest.dead_letters.push((3, DeadReason::Rejected));
    let earlier = [2, 4].map(|n| Receipt { event_id: Some(event(n).id.to_string()), ..receipt(n, 200) });
    rest.receipts.extend(earlier);
    let statement = in_the_middle(begun, rest).await;
    assert_eq!(statement.faults, []);
    assert_eq!((statement.matched, statement.delivered, statement.verified), (3, 2, 2));
    assert_eq!((statement.dead_lettered, statement.duplicates), (1, 0));
}

#[tokio::test]
async fn what_came_from_nowhere_is_found_all_the_same() {
    let mut rest = second();
    rest.deliveries.push(9);
    rest.attempts.push((9, Outcome::Delivered));
    rest.receipts.push(receipt(9, 200));
    let found = in_the_middle(truth(), rest).await.faults;
    assert_eq!(
        found,
        [Fault::DeliveryUnwanted(id(9)), Fault::EventUnknown { delivery: id(9), event: event(9).id }]
    );
    // A receipt that names no earlier event is nobody's.
    let mut rest = second();
    rest.receipts.push(receipt(1, 200));
    let found = in_the_middle(truth(), rest).await.faults;
    assert_eq!(found, [Fault::ReceivedUnknown(id(1).to_string())]);
}

#[tokio::test]
async fn a10_a_loss_is_found_all_the_same() {
    let mut lost = second();
    lost.deliveries.retain(|n| *n != 5);
    lost.attempts.retain(|(n, _)| *n != 5);
    lost.receipts.remove(0);
    assert_eq!(in_the_middle(truth(), lost).await.faults, [Fault::DeliveryLost(id(5))]);
    let mut waiting = second();
    waiting.matched = false;
    assert_eq!(in_the_middle(truth(), waiting).await.faults, [Fault::Unmatched(4)]);
}

#[tokio::test]
async fn damage_from_before_is_not_theirs_and_a_trimmed_log_can_be_begun_on() {
    let folder = tempfile::tempdir().expect("folder");
    let log = open(folder.path()).await;
    append(log.as_ref(), "events", 0, Bytes::from_static(b"\xff\xff")).await;
    let (first, second) = (truth(), second());
    first.write(log.as_ref()).await;
    log.trim("attempts", 1, 1).await.expect("trim");
    log.trim("events", 1, 1).await.expect("trim");
    let mut books = Books::from_now(Arc::clone(&log), pipeline()).await.expect("books");
    second.write(log.as_ref()).await;
    append(log.as_ref(), "attempts", 0, Bytes::from_static(b"\xff\xff")).await;
    books.catch_up().await.expect("readable");
    let faults = second.reconcile(&books).faults;
    assert!(
        matches!(faults.as_slice(), [Fault::Unreadable { topic, .. }] if topic == "attempts"),
        "{faults:?}"
    );
    log.close(Duration::from_secs(5)).await;
}
