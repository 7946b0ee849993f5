//! Lists, one letter, counts, quarantine.

use mailrail_log::{StoredRecord, quarantine_record};
use mailrail_types::{Attempt, AttemptResult, LetterFilter, Outcome};

use super::*;

fn everything() -> LetterFilter {
    LetterFilter::default()
}

fn ids(list: &LetterList) -> Vec<String> {
    list.items.iter().filter_map(|it| Some(it.letter.as_ref()?.delivery.clone())).collect()
}

/// A46: pages of any size give every letter once, the newest first.
#[tokio::test]
async fn pages_of_any_size_give_every_letter_once_the_newest_first() {
    let place = Place::new().await;
    // In turn, so that the newest are in all partitions.
    for number in 0..50 {
        for partition in 0..PARTITIONS {
            place.bury(partition, &letter(&format!("p{partition}"), number, 0, DeadReason::Exhausted)).await;
        }
    }
    let letters = place.letters();
    let whole = letters.list(&everything(), Some(1000), None).await.expect("a list");
    assert_eq!((whole.items.len(), &whole.next, &whole.error), (150, &None, &None));
    let written: Vec<i64> = whole.items.iter().map(|it| it.written_at_ms).collect();
    assert!(written.is_sorted_by(|a, b| a >= b), "{written:?}");
    for size in [1, 7, 64, 150] {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = letters.list(&everything(), Some(size), after.as_deref()).await.expect("a page");
            assert!(page.items.len() <= size);
            all.extend(page.items);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(all.len(), 150, "{size}");
        let mut positions: Vec<_> = all.iter().map(|it| it.position.clone()).collect();
        positions.sort();
        positions.dedup();
        assert_eq!(positions.len(), 150, "{size}");
    }
    for bad in ["", "1", "1.2.x", "1.2.3.4"] {
        let refused = letters.list(&everything(), None, Some(bad)).await.expect_err("no place");
        assert_eq!(refused.code(), "invalid_request", "{bad}");
    }
}

/// A page that found nothing within its limits has a next one.
#[tokio::test]
async fn a_look_is_bounded_and_goes_on_where_it_ended() {
    let place = Place::new().await;
    place.bury(0, &letter("rare", 0, 0, DeadReason::Gone)).await;
    for number in 0..300 {
        place.bury(0, &letter("p0", number, 0, DeadReason::Exhausted)).await;
    }
    let options = DeadLetterOptions { records_max: 50, ..DeadLetterOptions::new(Duration::from_hours(1)) };
    let letters = DeadLetters::new(Arc::clone(&place.log), pipeline(), options);
    let rare = LetterFilter { reasons: vec![DeadReason::Gone], ..everything() };
    let (mut found, mut after, mut pages) = (0, None, 0);
    loop {
        let page = letters.list(&rare, None, after.as_deref()).await.expect("a page");
        (found, after, pages) = (found + page.items.len(), page.next, pages + 1);
        if after.is_none() {
            break;
        }
        assert!(pages < 50, "it does not end");
    }
    assert!(found == 1 && pages > 1, "{found} in {pages}");
    let mut count = letters.count(&everything(), None).await.expect("a count");
    assert!(count.letters < 301);
    while let Some(next) = count.next.clone() {
        count.and(letters.count(&everything(), Some(&next)).await.expect("a count"));
    }
    assert_eq!((count.letters, count.redriven, count.looked), (301, Some(0), 301));
    let id = letter("rare", 0, 0, DeadReason::Gone).delivery.id.to_string();
    let refused = letters.show(&id, false).await.expect_err("too far back");
    assert!(matches!(refused, Trouble::LookedOnly(_)), "{refused:?}");
    assert_eq!(letters.show("0:0", false).await.expect("by its position").summary.position, "0:0");
}

/// All partitions together, from the first round on, and with fewer records left than partitions.
#[tokio::test]
async fn no_look_goes_beyond_its_limit() {
    let place = Place::new().await;
    place.bury_some(60).await;
    let rare = LetterFilter { reasons: vec![DeadReason::Gone], ..everything() };
    for records_max in [1, 2, 50, 70] {
        let options = DeadLetterOptions { records_max, ..DeadLetterOptions::new(Duration::from_hours(1)) };
        let letters = DeadLetters::new(Arc::clone(&place.log), pipeline(), options);
        let (mut looked, mut after) = (0, None);
        loop {
            let page = letters.list(&rare, None, after.as_deref()).await.expect("a page");
            assert!((1..=records_max).contains(&page.looked), "{} of {records_max}", page.looked);
            (looked, after) = (looked + page.looked, page.next);
            if after.is_none() {
                break;
            }
        }
        assert_eq!(looked, 180, "{records_max}");
    }
}

/// A46: one letter, with its attempts and why.
#[tokio::test]
async fn a_letter_is_shown_whole_and_its_payload_when_it_is_asked_for() {
    let place = Place::new().await;
    place.bury(2, &letter("main", 1, 0, DeadReason::Exhausted)).await;
    let mut answered = letter("main", 1, 1, DeadReason::Rejected);
    let delivery = &answered.delivery;
    answered.attempts = vec![Attempt {
        delivery: delivery.id,
        event: delivery.event.id,
        tenant: delivery.event.tenant.clone(),
        endpoint: delivery.endpoint.clone(),
        subscription: delivery.subscription.clone(),
        number: 1,
        started_at: Timestamp(1),
        duration_ms: 1,
        result: AttemptResult {
            status: Some(400),
            error: None,
            excerpt: Bytes::from_static(b"answer-canary"),
        },
        outcome: Outcome::Dead(DeadReason::Rejected),
        unknown: Bytes::new(),
    }];
    place.bury(2, &answered).await;
    place.append("dead-letters.default", 2, Bytes::from_static(b"\xff\xfe")).await;
    let letters = place.letters();
    let id = letter("main", 1, 0, DeadReason::Gone).delivery.id.to_string();
    let newest = letters.show(&id, false).await.expect("the newest");
    let facts = newest.summary.letter.as_ref().expect("readable");
    assert_eq!((facts.reason.as_str(), facts.redrives, facts.redriven), ("rejected", 1, Some(false)));
    assert_eq!(newest.payload, None);
    assert!(!serde_json::to_string(&newest).expect("JSON").contains("canary"));
    let more = newest.more.expect("readable");
    assert!(more.headers.contains(&("ce-type".to_owned(), "odd".to_owned())), "{:?}", more.headers);
    assert_eq!(more.last_attempts[0].excerpt, "");
    let answered = letters.show("2:1", true).await.expect("by its position").more.expect("readable");
    assert_eq!(answered.last_attempts[0].excerpt, "answer-canary");
    let whole = letters.show("2:0", true).await.expect("by its position");
    let text = whole.payload.and_then(|it| it.text).expect("text");
    assert!(text.contains("body-canary"), "{text}");
    let unreadable = letters.show("2:2", true).await.expect("it is there");
    assert!(unreadable.summary.problem.is_some() && unreadable.more.is_none());
    assert_eq!(unreadable.payload.and_then(|it| it.hex).as_deref(), Some("fffe"));
    for none in ["2:3", "9:0", "dlv_x", "0", "2:", "dlv_iyygiqs6wlo4ua36axol474yee"] {
        assert_eq!(letters.show(none, false).await.expect_err("nothing").code(), "not_found", "{none}");
    }
}

/// A46: counts by reason and endpoint.
#[tokio::test]
async fn letters_are_counted_once_by_reason_and_endpoint() {
    let place = Place::new().await;
    place.bury_some(4).await;
    place.bury(0, &letter("p0", 0, 0, DeadReason::Exhausted)).await;
    place.bury(1, &letter("p1", 9, 0, DeadReason::Gone)).await;
    place.append("dead-letters.default", 1, Bytes::from_static(b"x")).await;
    let letters = place.letters();
    let of_p0 = ReplayRequest {
        filter: FilterParts {
            tenant: Some("acme".to_owned()),
            endpoint: Some("p0".to_owned()),
            ..FilterParts::default()
        },
        ..all()
    };
    replayed(&letters, &of_p0).await;
    let count = letters.count(&everything(), None).await.expect("a count");
    assert_eq!((count.letters, count.redriven, count.unreadable, count.next), (13, Some(4), 1, None));
    assert_eq!(count.by_reason, [("exhausted".to_owned(), 12), ("gone".to_owned(), 1)].into());
    assert_eq!(count.by_endpoint["acme/p1"], 5);
    assert_eq!((count.oldest_ms, count.newest_ms), (Some(1_000), Some(1_009)));
    let list = letters.list(&everything(), None, None).await.expect("a list");
    let redriven =
        list.items.iter().filter(|it| it.letter.as_ref().is_some_and(|it| it.redriven == Some(true)));
    assert_eq!((redriven.count(), ids(&list).len()), (5, 14), "both copies of one letter");
}

#[tokio::test]
async fn records_in_quarantine_are_listed_the_same_way() {
    let place = Place::new().await;
    let key = sample().mailbox.key();
    for (partition, offset) in [(0, 5), (2, 7)] {
        let record = StoredRecord {
            offset,
            appended_at: Timestamp(1),
            key: Bytes::copy_from_slice(key.as_str().as_bytes()),
            value: Bytes::from_static(b"\xffbroken"),
            headers: Vec::new(),
        };
        let set_aside = quarantine_record("deliveries.default", partition, &record, "it is not protobuf");
        place.log.append("quarantine.default", partition, vec![set_aside]).await.expect("appended");
    }
    let letters = place.letters();
    let list = letters.quarantined(&everything(), None, None).await.expect("a list");
    let origins: Vec<_> = list.items.iter().map(|it| it.origin.as_str()).collect();
    assert_eq!(origins, ["deliveries.default/2/7", "deliveries.default/0/5"]);
    assert!(list.items.iter().all(|it| it.problem == "it is not protobuf" && it.payload.is_none()));
    let shown = letters.show_quarantined(&list.items[0].position, true).await.expect("it is there");
    assert_eq!(shown.payload.and_then(|it| it.hex).as_deref(), Some("ff62726f6b656e"));
    let of = |tenant: &str| LetterFilter { tenant: Some(tenant.parse().expect("valid")), ..everything() };
    assert_eq!(letters.quarantined(&of("acme"), None, None).await.expect("a list").items.len(), 2);
    assert_eq!(letters.quarantined(&of("other"), None, None).await.expect("a list").items.len(), 0);
    let unknown = LetterFilter { reasons: vec![DeadReason::Gone], ..everything() };
    assert_eq!(
        letters.quarantined(&unknown, None, None).await.expect_err("unknown").code(),
        "invalid_filter"
    );
    assert_eq!(letters.show_quarantined("2:1", false).await.expect_err("nothing").code(), "not_found");
}
