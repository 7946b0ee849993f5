//! What a replay puts back, and what it leaves alone.

use mailrail_wire::decode_delivery as decode;

use super::*;

/// A47: a bulk replay puts each letter back once and in order; a second one puts back nothing.
#[tokio::test]
async fn every_letter_is_put_back_once_in_order_and_a_second_replay_puts_back_nothing() {
    let place = Place::new().await;
    place.bury_some(40).await;
    let letters = place.letters();
    let status = replayed(&letters, &all()).await;
    assert_eq!((status.redriven, status.skipped, status.unsent.len(), status.looked), (120, 0, 0, 120));
    assert_eq!((status.state.as_str(), status.by.as_str(), status.looked_all), ("done", "alice", 120));
    assert_eq!(place.put_back().await, Place::expected(40, 1));

    let second = replayed(&place.letters(), &all()).await;
    assert_eq!((second.redriven, second.skipped), (0, 120));
    assert_eq!(place.put_back().await.len(), 120);

    let again = replayed(&letters, &ReplayRequest { again: true, ..all() }).await;
    assert_eq!((again.redriven, again.skipped), (120, 0));
    let redrives: Vec<u32> = place.put_back().await.iter().map(|it| it.redrives).collect();
    assert_eq!(redrives.iter().filter(|it| **it == 2).count(), 120, "nobody takes them for copies");
    let states: Vec<_> = letters.replays().await.expect("a list").into_iter().map(|it| it.redriven).collect();
    assert_eq!(states, [120, 0, 120], "the newest first");
}

/// A47, A42: what is put back has its id, and all attempts before it again.
#[tokio::test]
async fn a_delivery_that_is_put_back_is_the_same_with_its_attempts_and_its_time_before_it() {
    let place = Place::new().await;
    let dead = letter("main", 1, 3, DeadReason::Expired);
    place.bury(1, &dead).await;
    let before = crate::mailboxes::now();
    replayed(&place.letters(), &all()).await;
    let mut reader =
        place.log.readers().expect("readers").open("deliveries.default", 1, 0).expect("a reader");
    let record = reader.next(1).await.expect("a record").remove(0);
    let back = decode(&record.value).expect("a delivery");
    assert!(back.deadline >= before.plus(Duration::from_hours(1)), "{:?}", back.deadline);
    let history = History { redrives: 4, ..History::default() };
    assert_eq!(back, Delivery { deadline: back.deadline, history, ..dead.delivery.clone() });
    assert_eq!(record.key, dead.delivery.mailbox.key().as_str().as_bytes());
    assert!(
        record.headers.iter().any(|(name, value)| name == "mailrail-replay" && value.starts_with(b"rpl_"))
    );
}

#[tokio::test]
async fn a_letter_that_a_crash_wrote_twice_goes_once_and_its_next_letter_is_another_one() {
    let place = Place::new().await;
    let dead = letter("main", 1, 0, DeadReason::Exhausted);
    place.bury(0, &dead).await;
    place.bury(0, &dead).await;
    let first = replayed(&place.letters(), &all()).await;
    assert_eq!((first.redriven, first.skipped), (1, 1));
    // Found again later as well.
    place.bury(0, &dead).await;
    assert_eq!(replayed(&place.letters(), &all()).await.redriven, 0);
    // It failed once more.
    place.bury(0, &letter("main", 1, 1, DeadReason::Exhausted)).await;
    let third = replayed(&place.letters(), &all()).await;
    assert_eq!((third.redriven, third.skipped), (1, 3));
    assert_eq!(place.put_back().await.iter().map(|it| it.redrives).collect::<Vec<_>>(), [1, 2]);
}

/// What dies again while a replay runs is not picked up by it: no loop.
#[tokio::test]
async fn a_replay_ends_where_the_dead_letters_ended_when_it_was_ordered() {
    let place = Place::new().await;
    place.bury_some(5).await;
    let letters = place.letters();
    let ordered = letters.order(&all(), "alice", false).await.expect("ordered");
    for number in 0..5 {
        place.bury(0, &letter("p0", number, 1, DeadReason::Exhausted)).await;
    }
    let status = run_until_over(&letters, &ordered.id).await;
    assert_eq!((status.redriven, status.looked_all), (15, 15));
    assert_eq!(replayed(&letters, &all()).await.redriven, 5);
}

/// A47: a filter leaves the others alone.
#[tokio::test]
async fn a_filter_leaves_the_others_alone_and_what_cannot_be_read_stays() {
    let place = Place::new().await;
    place.bury_some(10).await;
    place.bury(0, &letter("p0", 77, 0, DeadReason::Rejected)).await;
    place.append("dead-letters.default", 0, Bytes::from_static(b"\xff\xff")).await;
    let text = |text: &str| Some(text.to_owned());
    let of = |filter: FilterParts| ReplayRequest { filter, rate: Some(RATE_MAX), ..ReplayRequest::default() };
    let none = FilterParts::default;
    let id = letter("p2", 9, 0, DeadReason::Gone).delivery.id.to_string();
    let letters = place.letters();
    for (filter, expected) in [
        (FilterParts { ids: vec![id], ..none() }, 1),
        (FilterParts { reasons: vec!["rejected".to_owned()], ..none() }, 1),
        (FilterParts { tenant: text("acme"), endpoint: text("p1"), event_type: text("even"), ..none() }, 5),
        (FilterParts { since_ms: Some(1_008), until_ms: Some(1_009), ..none() }, 2),
        (FilterParts { tenant: text("nobody"), ..none() }, 0),
        (FilterParts { tenant: text("acme"), ..none() }, 31 - 9),
    ] {
        let status = replayed(&letters, &of(filter.clone())).await;
        assert_eq!((status.redriven, status.unreadable), (expected, 1), "{filter:?}");
        assert_eq!(status.filter, filter);
    }
    assert_eq!(place.put_back().await.len(), 31);
}

#[tokio::test]
async fn orders_that_cannot_be_meant_are_refused_and_change_nothing() {
    let place = Place::new().await;
    place.bury_some(1).await;
    let letters = place.letters();
    for (request, field) in [
        (ReplayRequest { all: false, ..all() }, "filter"),
        (ReplayRequest { rate: Some(0), ..all() }, "rate"),
        (ReplayRequest { rate: Some(RATE_MAX + 1), ..all() }, "rate"),
    ] {
        let refused = letters.order(&request, "alice", false).await.expect_err("refused");
        assert!(matches!(refused, Trouble::Filter { field: of, .. } if of == field), "{refused:?}");
        assert_eq!(refused.code(), "invalid_filter");
    }
    for _ in 0..replay::UNFINISHED_MAX {
        letters.order(&all(), "alice", false).await.expect("ordered");
    }
    let refused = letters.order(&all(), "alice", false).await.expect_err("too many");
    assert_eq!((refused.code(), letters.replays().await.expect("a list").len()), ("too_many_replays", 16));
    assert_eq!(letters.replay("rpl_x").await.expect_err("none").code(), "not_found");
    assert_eq!(place.put_back().await, []);
}

/// A47: a replay that is cancelled ends.
#[tokio::test]
async fn a_cancelled_replay_ends_and_the_next_one_gets_its_turn() {
    let place = Place::new().await;
    place.bury_some(3).await;
    let letters = place.letters();
    let slow = ReplayRequest { rate: Some(1), ..all() };
    let first = letters.order(&slow, "alice", false).await.expect("ordered");
    let second = letters.order(&all(), "alice", false).await.expect("ordered");
    let cancelled = letters.cancel(&first.id, "bob").await.expect("cancelled");
    assert_eq!((cancelled.state.as_str(), cancelled.cancelled_by.as_deref()), ("cancelling", Some("bob")));
    let second = run_until_over(&letters, &second.id).await;
    let first = letters.cancel(&first.id, "carol").await.expect("cancelled already");
    assert_eq!(
        (first.state.as_str(), first.cancelled_by.as_deref(), first.redriven),
        ("cancelled", Some("bob"), 0)
    );
    assert_eq!((second.state.as_str(), second.redriven), ("done", 9));
}

/// Whoever does not know what was put back puts nothing back.
#[tokio::test]
async fn a_ledger_of_a_newer_version_stops_replays_and_not_lists() {
    let place = Place::new().await;
    place.bury_some(2).await;
    place.append("redrives.default", 0, Bytes::from_static(b"\xff\xff")).await;
    let letters = place.letters();
    assert_eq!(
        letters.order(&all(), "alice", false).await.expect_err("no guess").code(),
        "ledger_unreadable"
    );
    let list = letters.list(&mailrail_types::LetterFilter::default(), None, None).await.expect("a list");
    assert!(list.items.iter().all(|it| it.letter.as_ref().is_some_and(|it| it.redriven.is_none())));
    assert_eq!(list.items.len(), 6);
}

#[tokio::test]
async fn letters_whose_retention_ended_are_passed_over() {
    let place = Place::new().await;
    place.bury_some(10).await;
    let letters = place.letters();
    let ordered = letters.order(&all(), "alice", false).await.expect("ordered");
    place.log.trim("dead-letters.default", 0, 4).await.expect("trimmed");
    place.log.trim("dead-letters.default", 1, 10).await.expect("trimmed");
    let status = run_until_over(&letters, &ordered.id).await;
    assert_eq!((status.redriven, status.looked), (16, 30));
}

/// Entries go when their letters are gone and they are old; what was put back is forgotten with them.
#[tokio::test]
async fn the_ledger_is_trimmed_behind_the_letters() {
    let place = Place::new().await;
    place.bury_some(4).await;
    let letters = place.letters();
    replayed(&letters, &all()).await;
    let later = crate::mailboxes::now().plus(Duration::from_hours(91 * 24));
    let trim = async |lows: u64, now| {
        let lows = (0..PARTITIONS).map(|partition| (partition, lows)).collect();
        letters.inner.follower.lock().await.trim(&lows, now).await.expect("trimmed");
        place.log.bounds("redrives.default", 0).await.expect("bounds")
    };
    let high = trim(4, crate::mailboxes::now()).await.high;
    assert_eq!(trim(4, crate::mailboxes::now()).await.low, 0, "they are new");
    assert!(trim(3, later).await.low < high, "a letter is there still");
    assert_eq!(trim(4, later).await.low, high);
    let anew = place.letters();
    assert_eq!(anew.replays().await.expect("a list").len(), 0);
    assert_eq!(anew.ledger().await.expect("a ledger").ledger.known(), 0);
    // Whoever follows it goes on, too.
    assert_eq!(replayed(&letters, &all()).await.state, "done");
}
