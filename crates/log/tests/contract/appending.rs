//! Appending: durable, in order, whole calls, bounded.

use std::sync::Arc;

use bytes::Bytes;
use mailrail_log::{Log, LogError, NewRecord};

use super::{append, read, record, records, text, topic, within};

/// Offsets come back in order and the records are read at those offsets, in each partition on its own.
pub(crate) async fn appended_records_are_read_in_order(log: Arc<dyn Log>, prefix: &str) {
    let topic = topic(&log, &format!("{prefix}order"), 3).await;
    let mut offsets = vec![Vec::new(); 3];
    for round in 0..5 {
        for partition in 0..3_u32 {
            let name = format!("p{partition}r{round}");
            offsets[partition as usize].extend(append(&log, &topic, partition, records(&name, 4)).await);
        }
    }
    let readers = log.readers().expect("readers");
    for partition in 0..3_u32 {
        let appended = &offsets[partition as usize];
        assert!(appended.is_sorted_by(|a, b| a < b), "{appended:?}");
        let mut reader = readers.open(&topic, partition, appended[0]).expect("reader");
        let got = read(&mut reader, 20).await;
        assert_eq!(&got.iter().map(|it| it.offset).collect::<Vec<_>>(), appended);
        let wanted: Vec<String> = (0..20).map(|n| format!("p{partition}r{}-{}", n / 4, n % 4)).collect();
        assert_eq!(got.iter().map(text).collect::<Vec<_>>(), wanted);
        assert!(got.iter().all(|it| it.appended_at.millis() > 0));
    }
}

/// Key, value and headers come back byte for byte, also empty ones and repeated names.
pub(crate) async fn bytes_are_untouched(log: Arc<dyn Log>, prefix: &str) {
    let topic = topic(&log, &format!("{prefix}bytes"), 1).await;
    let odd = NewRecord {
        key: Bytes::from_static(b"\x00\xfe\xff key"),
        value: Bytes::from((0..=255_u8).cycle().take(70_000).collect::<Vec<_>>()),
        headers: vec![
            ("a".to_owned(), Bytes::from_static(b"\x00\x01")),
            ("a".to_owned(), Bytes::from_static(b"again")),
            ("empty".to_owned(), Bytes::new()),
        ],
    };
    let empty = NewRecord::default();
    append(&log, &topic, 0, vec![odd.clone(), empty.clone()]).await;
    let mut reader = log.readers().expect("readers").open(&topic, 0, 0).expect("reader");
    for (got, wanted) in read(&mut reader, 2).await.into_iter().zip([odd, empty]) {
        assert_eq!(got.key, wanted.key);
        assert_eq!(got.value, wanted.value);
        assert_eq!(got.headers, wanted.headers);
    }
}

/// Thousands of records in one call.
pub(crate) async fn big_batches_are_whole(log: Arc<dyn Log>, prefix: &str) {
    const COUNT: usize = 20_000;
    let topic = topic(&log, &format!("{prefix}big"), 1).await;
    let offsets = append(&log, &topic, 0, records("big", COUNT)).await;
    assert_eq!(offsets.len(), COUNT);
    assert!(offsets.is_sorted_by(|a, b| a < b));
    let mut reader = log.readers().expect("readers").open(&topic, 0, offsets[0]).expect("reader");
    let got = read(&mut reader, COUNT).await;
    assert!(got.iter().enumerate().all(|(n, it)| text(it) == format!("big-{n}")));
    assert_eq!(append(&log, &topic, 0, Vec::new()).await, Vec::<u64>::new());
}

/// Calls that run side by side on one partition do not mix their records.
pub(crate) async fn concurrent_calls_stay_contiguous(log: Arc<dyn Log>, prefix: &str) {
    const CALLS: usize = 24;
    const EACH: usize = 50;
    let topic = topic(&log, &format!("{prefix}calls"), 1).await;
    let mut calls = Vec::new();
    for call in 0..CALLS {
        let (log, topic) = (log.clone(), topic.clone());
        calls.push(tokio::spawn(
            async move { append(&log, &topic, 0, records(&format!("c{call}"), EACH)).await },
        ));
    }
    for call in calls {
        let offsets = within("append", call).await.expect("no panic");
        assert!(offsets.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{offsets:?}");
    }
    let mut reader = log.readers().expect("readers").open(&topic, 0, 0).expect("reader");
    let got = read(&mut reader, CALLS * EACH).await;
    for call in got.chunks(EACH) {
        let first = text(&call[0]);
        let name = first.strip_suffix("-0").expect("a call starts at its first record");
        assert!(call.iter().enumerate().all(|(n, it)| text(it) == format!("{name}-{n}")));
    }
}

/// A record over the limit is refused and nothing of its call is written.
pub(crate) async fn too_large_records_are_refused_whole(log: Arc<dyn Log>, prefix: &str) {
    let topic = topic(&log, &format!("{prefix}large"), 1).await;
    let call = vec![record("first"), record(vec![b'x'; 2 * 1024 * 1024])];
    match within("append", log.append(&topic, 0, call)).await {
        Err(LogError::TooLarge { bytes }) => assert!(bytes > 2 * 1024 * 1024),
        other => panic!("expected TooLarge, got {other:?}"),
    }
    let bounds = within("bounds", log.bounds(&topic, 0)).await.expect("bounds");
    assert_eq!((bounds.low, bounds.high), (0, 0));
}
