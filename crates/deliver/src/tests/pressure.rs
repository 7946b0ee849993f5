//! Pressure from recipients and from what stands before them: it stays where it comes from.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mailrail_limits::{Error, Exchange, Exchanged, LeaseStore, Recipient};
use mailrail_log::Log;
use mailrail_mailbox::Kind;
use mailrail_policy::{Key, bucket};
use mailrail_types::{DeadReason, Outcome};

use super::rig::Rig;

const HOUR: Duration = Duration::from_secs(3600);
/// What does not come within that never will.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for it, at most [`PATIENCE`].
pub(super) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "{what} did not come");
}

/// One delivery to `main` in each of so many mailboxes.
pub(super) async fn append_one_each(rig: &Rig, mailboxes: u32) {
    append_one_each_at(rig, 0, 0..mailboxes).await;
}

async fn append_one_each_at(rig: &Rig, partition: u32, mailboxes: Range<u32>) {
    let records = mailboxes.map(|mailbox| {
        let body = format!(r#"{{"key":"{mailbox}","seq":0}}"#);
        let mut delivery = rig.delivery_with_body(&format!("m-{mailbox}"), body.as_bytes());
        delivery.mailbox.bucket = mailbox;
        let value = mailrail_wire::encode_delivery(&delivery);
        mailrail_log::NewRecord { value, ..Default::default() }
    });
    rig.log.append("deliveries", partition, records.collect()).await.expect("appended");
}

async fn append_others(rig: &Rig, count: u64) {
    for n in 0..count {
        rig.append(rig.other(n)).await;
    }
}

pub(super) fn received_by(rig: &Rig, endpoint: &str) -> u64 {
    rig.receiver.snapshot().endpoints.get(endpoint).map_or(0, |of| of.received)
}

/// S02: a key whose path stalls, with a request that is never answered and its mail behind it, holds no key of another bucket
/// of the same endpoint.
#[tokio::test(flavor = "multi_thread")]
async fn s02_a_key_that_stalls_holds_no_key_of_another_bucket() {
    let rig = Rig::start("hang").await.with_room_for_patient(16);
    let place = |key: &str| bucket(Some(&Key::from_text(key)), 10);
    let (noisy, quiet) = ("41", "42");
    assert_ne!(place(noisy), place(quiet));
    let append = async |key: &str, n: u64| {
        let body = format!(r#"{{"key":"{key}","seq":{n}}}"#);
        let mut delivery = rig.delivery_with_body(&format!("{key}-{n}"), body.as_bytes());
        delivery.mailbox.bucket = place(key);
        delivery.event.ordering_key = Some(key.to_owned());
        rig.append(delivery).await;
    };
    append(noisy, 0).await;
    let run = rig.run();
    until("the request that stalls", || received_by(&rig, "main") == 1).await;
    rig.receiver.set_behaviour("main", "ok".parse().expect("a script")).expect("known endpoint");
    for n in 0..100 {
        append(noisy, n + 1).await;
        append(quiet, n).await;
    }
    until("all of the quiet key beside that one", || received_by(&rig, "main") > 100).await;
    let of_noisy = |r: &mailrail_demo::receiver::Receipt| r.order.as_ref().is_some_and(|o| o.group == noisy);
    assert_eq!(rig.receiver.receipts().iter().filter(|r| of_noisy(r)).count(), 1, "its mail waits behind it");
    assert_eq!(rig.receiver.snapshot().total.order_violations, 0);
    run.cut().await;
}

/// A20, A24: one process has 500 requests open at recipients that do not answer yet, and what it holds is what its window allows.
/// Needs some 1,100 open files.
#[tokio::test(flavor = "multi_thread")]
async fn a20_five_hundred_requests_are_open_at_a_time() {
    const OPEN: u32 = 500;
    // Two thirds of a process are what a single endpoint gets of it.
    const ROOM: u32 = 750;
    let rig = Rig::start("hang").await.with_room_for_patient(ROOM as usize);
    append_one_each(&rig, OPEN + 100).await;
    let run = rig.run();
    until("500 open requests (or room for them: ulimit -n 2048)", || {
        rig.receiver.in_flight_max() >= u64::from(OPEN)
    })
    .await;
    assert_eq!(rig.metrics.deliver.in_flight.get(), i64::from(OPEN), "and no more than its share");
    assert_eq!(received_by(&rig, "main"), u64::from(OPEN), "the others wait for their turn");
    assert!(rig.metrics.deliver.window_records.get() <= i64::from(4 * ROOM), "bounded by the window");
    run.cut().await;
}

/// A21, A22: requests of one recipient are never answered; all that is for another one is delivered meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a21_a_recipient_that_never_answers_slows_no_other() {
    let rig = Rig::start("hang").await.with_room_for_patient(16);
    append_one_each(&rig, 8).await;
    let run = rig.run();
    until("the slow requests", || received_by(&rig, "main") == 8).await;
    append_others(&rig, 300).await;
    until("all of the fast one", || received_by(&rig, "other") == 300).await;
    let report = rig.receiver.snapshot();
    assert_eq!((received_by(&rig, "main"), report.total.duplicates), (8, 0), "those are open as before");
    run.cut().await;
}

/// A21, A24, I8: nor does one that has more mail than the process has places, and than the window has room for, although it is asked
/// without a limit.
#[tokio::test(flavor = "multi_thread")]
async fn a21_a_recipient_that_never_answers_leaves_places_to_others() {
    let rig = Rig::start("hang").await.with_room_for_patient(16);
    append_one_each(&rig, 500).await;
    let run = rig.run();
    until("its share of the process", || received_by(&rig, "main") == 11).await;
    append_others(&rig, 300).await;
    until("all of the other one", || received_by(&rig, "other") == 300).await;
    assert_eq!(received_by(&rig, "main"), 11, "those are open as before");
    until("those that wait are shown", || rig.metrics.deliver.passed_over.get() > 0).await;
    run.cut().await;
    until("nobody owns them", || rig.metrics.deliver.passed_over.get() == 0).await;
}

/// I8: the same where another partition has all of the share: mail of it that comes here, where no attempt of it runs, stops nobody.
#[tokio::test(flavor = "multi_thread")]
async fn i8_a_recipient_that_never_answers_elsewhere_leaves_the_window_to_others() {
    let rig = Rig::start("hang").await.with_room_for_patient(16);
    append_one_each(&rig, 16).await;
    let run = rig.run();
    until("its share of the process", || received_by(&rig, "main") == 11).await;
    append_one_each_at(&rig, 1, 100..600).await;
    rig.append_to_other_partition(0..100).await;
    until("all of the other one", || received_by(&rig, "other") == 100).await;
    assert_eq!(received_by(&rig, "main"), 11, "those are open as before");
    run.cut().await;
}

/// A24: what waits for a recipient that answers is lag, however much it is: that brings more processes, where parked mail would not.
#[tokio::test(flavor = "multi_thread")]
async fn a24_what_waits_for_a_recipient_that_answers_is_not_parked() {
    let rig = Rig::start("delay=300,ok").await.with_room_for_patient(16);
    append_one_each(&rig, 120).await;
    let run = rig.run();
    rig.wait_done(120).await;
    let parks = rig.journal().await.into_iter().filter(|kind| matches!(kind, Kind::Park(_)));
    assert_eq!((parks.count(), received_by(&rig, "main")), (0, 120));
    run.stop().await;
}

/// A38, A62: a recipient that does not answer, and is asked far below its rate, has as many requests open as its limit says
/// and no more, and others are not held. Its rate alone does not stop it.
#[tokio::test(flavor = "multi_thread")]
async fn a38_a_slow_recipient_never_exceeds_its_limit_and_a_rate_does_not_see_it() {
    const FAR_ABOVE: Option<u32> = Some(10_000);
    let rig = Rig::start("hang").await.with_room_for_patient(16).with_limits(Some(2), FAR_ABOVE).await;
    append_one_each(&rig, 12).await;
    let run = rig.run();
    rig.wait_held(10).await;
    append_others(&rig, 50).await;
    until("all of the other one", || received_by(&rig, "other") == 50).await;
    until("its requests to be counted off", || rig.metrics.deliver.in_flight.get() == 2).await;
    assert_eq!(received_by(&rig, "main"), 2);
    run.cut().await;

    let rig = Rig::start("hang").await.with_room_for_patient(16).with_limits(None, FAR_ABOVE).await;
    append_one_each(&rig, 10).await;
    let run = rig.run();
    until("all of them at the same time", || rig.receiver.in_flight_max() == 10).await;
    run.cut().await;
}

/// A63: what is over a limit waits and is no attempt; a retry has the id of the first attempt; what is given up is in the dead
/// letters of its pipeline with that id. Each delivery has one end.
#[tokio::test(flavor = "multi_thread")]
async fn a63_deferred_retried_under_one_id_and_dead_lettered() {
    let rig = Rig::start("field=/kind=bad:503").await.with_limits(Some(1), None).await;
    append_one_each(&rig, 30).await;
    let bad = rig.delivery_with_body("bad", br#"{"kind":"bad"}"#);
    rig.append(bad.clone()).await;
    let run = rig.run();
    rig.wait_done(31).await;
    run.stop().await;
    assert_eq!(rig.receiver.in_flight_max(), 1, "deferred");
    let receipts = rig.receiver.receipts();
    let (retried, once): (Vec<_>, Vec<_>) =
        receipts.iter().partition(|receipt| receipt.webhook_id == bad.id.to_string());
    assert_eq!(retried.iter().map(|r| r.attempt).collect::<Vec<_>>(), [Some(1), Some(2), Some(3), Some(4)]);
    assert!(once.len() == 30 && once.iter().all(|r| r.attempt == Some(1)), "waiting was no attempt");
    let letters = rig.dead_letters().await;
    let letters: Vec<_> = letters.iter().map(|l| (l.delivery.id, l.reason, l.attempts.len())).collect();
    assert_eq!(letters, [(bad.id, DeadReason::Exhausted, 4)]);
    let ends = rig.attempts().await.into_iter().filter(|a| !matches!(a.outcome, Outcome::Retry { .. }));
    assert_eq!(ends.count(), 31);
}

/// A store of leases that takes every question and answers none.
struct Silent;

#[async_trait]
impl LeaseStore for Silent {
    async fn exchange(&self, _: &Recipient, _: &Exchange) -> Result<Exchanged, Error> {
        std::future::pending().await
    }

    async fn take_rate(&self, _: &Recipient, _: u32) -> Result<Duration, Error> {
        std::future::pending().await
    }

    async fn beat(&self, _: u64, _: Duration) -> Result<u32, Error> {
        std::future::pending().await
    }

    async fn leave(&self, _: u64) -> Result<(), Error> {
        std::future::pending().await
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// A50, A51, A52: the set-up is not heard of any more and the limiter hangs. Nothing is asked of the store for a delivery, since
/// the endpoint is known to the process, and who asks the limiter waits for its budget at most: all is delivered, within the
/// share of the limit, and no task is left behind for each of them.
#[tokio::test(flavor = "multi_thread")]
async fn a52_with_store_and_limiter_away_deliveries_go_on_and_no_task_hangs() {
    let rig = Rig::start("ok").await.with_limits(Some(4), None).await.with_leases(Arc::new(Silent));
    rig.stop_following.cancel();
    append_one_each(&rig, 300).await;
    let run = rig.run();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    until("some deliveries", || received_by(&rig, "main") >= 20).await;
    let early = tasks();
    rig.wait_done(300).await;
    let late = tasks();
    assert!(late < early + 100, "{early} tasks at the start, {late} after 280 more");
    assert_eq!((received_by(&rig, "main"), rig.receiver.snapshot().total.duplicates), (300, 0));
    assert_eq!(rig.receiver.in_flight_max(), 1, "the least share: the store was never seen");
    run.stop().await;
}

/// What an hour-long retry holds is parked: others, the commit and the room for attempts are free.
#[tokio::test(flavor = "multi_thread")]
async fn a24_what_waits_long_takes_no_permit() {
    let rig = Rig::start("status=503").await.with_waits(vec![HOUR]);
    append_one_each(&rig, 40).await;
    let run = rig.run();
    rig.wait_held(40).await;
    rig.wait_passed(40).await;
    until("the permits to come back", || rig.metrics.deliver.in_flight.get() == 0).await;
    append_others(&rig, 20).await;
    until("all of the other one", || received_by(&rig, "other") == 20).await;
    run.stop().await;
}
