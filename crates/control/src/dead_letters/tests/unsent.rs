//! Letters that a replay means and does not put back: too large for the log, or beyond what can be found out.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use mailrail_log::{LogError, Offset};
use mailrail_testkit::{Between, Interposed};

use super::*;

/// Appends to the deliveries go wrong as told.
struct Narrow {
    /// Larger records are refused.
    bytes_max: AtomicUsize,
    /// All are refused; of the first ones so many are written all the same.
    fails: AtomicBool,
    writes: AtomicUsize,
}

impl Narrow {
    fn before(place: &Place) -> Arc<Interposed<Self>> {
        let narrow = Self {
            bytes_max: AtomicUsize::new(usize::MAX),
            fails: AtomicBool::new(false),
            writes: AtomicUsize::new(0),
        };
        Arc::new(Interposed::new(Arc::clone(&place.log), narrow))
    }
}

#[async_trait]
impl Between for Narrow {
    async fn append(
        &self,
        log: &dyn Log,
        topic: &str,
        partition: u32,
        mut records: Vec<NewRecord>,
    ) -> Result<Vec<Offset>, LogError> {
        if topic != pipeline().deliveries.name {
            return log.append(topic, partition, records).await;
        }
        let most = self.bytes_max.load(Ordering::SeqCst);
        if let Some(large) = records.iter().find(|record| record.value.len() > most) {
            return Err(LogError::TooLarge { bytes: large.value.len() });
        }
        if !self.fails.load(Ordering::SeqCst) {
            return log.append(topic, partition, records).await;
        }
        records.truncate(self.writes.swap(0, Ordering::SeqCst));
        log.append(topic, partition, records).await?;
        Err(LogError::Unavailable("told so".to_owned()))
    }
}

/// Reasons of those that were not put back, by position.
fn unsent(status: &ReplayStatus) -> Vec<(&str, &str)> {
    status.unsent.iter().map(|it| (it.position.as_str(), it.reason.as_str())).collect()
}

fn larger(text: &str) -> DeadLetter {
    let mut large = letter("p0", 99, 0, DeadReason::Exhausted);
    large.delivery.event.body = Bytes::from(text.repeat(4_000));
    large
}

/// One that the log does not take stays what it was: listed, counted apart, and put back by the next replay when it fits.
#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_is_too_large_is_counted_apart_and_stays_a_dead_letter() {
    let place = Place::new().await;
    place.bury_some(2).await;
    let large = larger("large");
    place.bury(0, &large).await;
    let narrow = Narrow::before(&place);
    narrow.bytes_max.store(10_000, Ordering::SeqCst);
    let letters = Place::letters_of(narrow.clone());
    let status = replayed(&letters, &all()).await;
    assert_eq!((status.redriven, status.too_large, unsent(&status)), (6, 1, vec![("0:2", "too_large")]));
    assert_eq!(status.unsent[0].delivery, large.delivery.id.to_string());
    for letters in [&letters, &place.letters()] {
        let shown = letters.show("0:2", false).await.expect("it is there").summary.letter.expect("readable");
        assert_eq!((shown.redriven, shown.undecided), (Some(false), false));
        let count = letters.count(&mailrail_types::LetterFilter::default(), None).await.expect("a count");
        assert_eq!((count.letters, count.redriven), (7, Some(6)), "one more would be redriven");
    }
    let second = replayed(&letters, &all()).await;
    assert_eq!((second.redriven, second.too_large, second.skipped), (0, 1, 6), "tried again, and no other");
    narrow.bytes_max.store(usize::MAX, Ordering::SeqCst);
    let third = replayed(&letters, &all()).await;
    assert_eq!((third.redriven, third.too_large, third.skipped), (1, 0, 6));
    let back = place.put_back().await;
    assert_eq!((back.len(), back[2].id.clone()), (7, large.delivery.id.to_string()));
}

/// A process that died in the middle of a batch of partition 0, of which so many records were written.
async fn left_in_the_middle(place: &Place, written: usize) -> String {
    place.bury_some(4).await;
    let narrow = Narrow::before(place);
    narrow.fails.store(true, Ordering::SeqCst);
    narrow.writes.store(written, Ordering::SeqCst);
    let letters = Place::letters_of(narrow);
    let ordered = letters.order(&all(), "alice", false).await.expect("ordered");
    let running = tokio::spawn({
        let letters = letters.clone();
        async move { letters.run(CancellationToken::new()).await }
    });
    let begun = async {
        while place.put_back().await.len() < written
            || letters.replay(&ordered.id).await.expect("one").redriven == 0
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, begun).await.expect("it begins");
    running.abort();
    let _ = running.await;
    ordered.id
}

fn undecided(offsets: std::ops::Range<u64>) -> Vec<(String, &'static str)> {
    offsets.map(|offset| (format!("0:{offset}"), "undecided")).collect()
}

/// What was written is deleted by its retention: nobody can say what was sent, and nothing is sent twice, nor lost in silence.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_begun_before_the_deliveries_were_deleted_is_undecided_until_an_operator_says() {
    let place = Place::new().await;
    let id = left_in_the_middle(&place, 2).await;
    let topic = pipeline().deliveries.name;
    place.append(&topic, 0, mailrail_wire::encode_delivery(&sample())).await;
    let high = place.log.bounds(&topic, 0).await.expect("bounds").high;
    place.log.trim(&topic, 0, high).await.expect("trimmed");
    let letters = place.letters();
    let status = run_until_over(&letters, &id).await;
    assert_eq!((status.redriven, status.undecided), (8, 4));
    let wanted = undecided(0..4);
    assert_eq!(unsent(&status), wanted.iter().map(|(at, why)| (at.as_str(), *why)).collect::<Vec<_>>());
    let in_0 = async || place.put_back().await.into_iter().filter(|it| it.partition == 0).count();
    assert_eq!(in_0().await, 0, "none went twice");
    let shown = letters.show("0:0", false).await.expect("it is there").summary.letter.expect("readable");
    assert_eq!((shown.redriven, shown.undecided), (Some(true), true));
    let second = replayed(&place.letters(), &all()).await;
    assert_eq!((second.redriven, second.skipped), (0, 12), "nor later");
    let ids: Vec<String> = status.unsent.iter().map(|it| it.delivery.clone()).collect();
    let said = ReplayRequest {
        filter: FilterParts { ids, ..FilterParts::default() },
        again: true,
        rate: Some(RATE_MAX),
        all: false,
    };
    assert_eq!(replayed(&letters, &said).await.redriven, 4, "an operator says so");
    let shown = letters.show("0:0", false).await.expect("it is there").summary.letter.expect("readable");
    assert_eq!((shown.redriven, shown.undecided, in_0().await), (Some(true), false, 4));
}

/// The search ends at its limit, and what it did not find is undecided. What it found was put back.
#[tokio::test(flavor = "multi_thread")]
async fn a_search_that_would_not_end_is_cut_and_what_is_missing_is_undecided() {
    let place = Place::new().await;
    let id = left_in_the_middle(&place, 2).await;
    for _ in 0..20 {
        place.append(&pipeline().deliveries.name, 0, mailrail_wire::encode_delivery(&sample())).await;
    }
    let options = DeadLetterOptions {
        takeover_after: Duration::ZERO,
        searched_max: 10,
        ..DeadLetterOptions::new(Duration::from_hours(1))
    };
    let letters = DeadLetters::new(Arc::clone(&place.log), pipeline(), options);
    let status = run_until_over(&letters, &id).await;
    assert_eq!((status.redriven, status.undecided), (10, 2));
    let wanted = undecided(2..4);
    assert_eq!(unsent(&status), wanted.iter().map(|(at, why)| (at.as_str(), *why)).collect::<Vec<_>>());
    assert_eq!(replayed(&place.letters(), &all()).await.skipped, 12);
}

/// After a stop in good order there is nothing to look for, however long ago it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_leaves_no_batch_open() {
    let place = Place::new().await;
    place.bury_some(4).await;
    let letters = place.letters();
    let slow = ReplayRequest { rate: Some(4), ..all() };
    let ordered = letters.order(&slow, "alice", true).await.expect("ordered");
    run_until(&letters, &ordered.id, |status| status.redriven > 0).await;
    let sent = place.put_back().await.len() as u64;
    for partition in 0..PARTITIONS {
        let topic = pipeline().deliveries.name;
        let high = place.log.bounds(&topic, partition).await.expect("bounds").high;
        place.log.trim(&topic, partition, high).await.expect("trimmed");
    }
    let status = run_until_over(&place.letters(), &ordered.id).await;
    assert_eq!((status.redriven, status.undecided), (12, 0));
    assert_eq!(place.put_back().await.len() as u64, 12 - sent, "the rest");
}
