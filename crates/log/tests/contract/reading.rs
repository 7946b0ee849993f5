//! Reading: waits, wakes, never skips, holds a bounded amount.

use std::sync::Arc;

use mailrail_log::{Log, LogError};

use super::{append, is_out_of_range, read, record, records, text, topic, within};

/// A reader at the end waits; a dropped wait loses nothing; an append wakes it.
pub(crate) async fn a_waiting_reader_is_woken(log: Arc<dyn Log>, prefix: &str) {
    let topic = topic(&log, &format!("{prefix}wait"), 1).await;
    let mut reader = log.readers().expect("readers").open(&topic, 0, 0).expect("reader");
    for round in 0..5 {
        {
            let mut waiting = Box::pin(reader.next(10));
            let ready = tokio::select! {
                biased;
                got = &mut waiting => Some(got),
                () = tokio::task::yield_now() => None,
            };
            assert!(ready.is_none(), "there was nothing to read");
        }
        let waiting = tokio::spawn(async move {
            let got = reader.next(10).await;
            (reader, got)
        });
        append(&log, &topic, 0, vec![record(format!("wake-{round}"))]).await;
        let (back, got) = within("a woken reader", waiting).await.expect("no panic");
        reader = back;
        let got = got.expect("read");
        assert_eq!(got.iter().map(text).collect::<Vec<_>>(), [format!("wake-{round}")]);
    }
}

/// A reader starts exactly where it is told.
pub(crate) async fn a_reader_starts_in_the_middle(log: Arc<dyn Log>, prefix: &str) {
    let topic = topic(&log, &format!("{prefix}middle"), 2).await;
    let offsets = append(&log, &topic, 1, records("m", 100)).await;
    let readers = log.readers().expect("readers");
    for start in [0_usize, 1, 57, 99] {
        let mut reader = readers.open(&topic, 1, offsets[start]).expect("reader");
        let got = read(&mut reader, (100 - start).min(10)).await;
        assert_eq!(got[0].offset, offsets[start]);
        assert_eq!(text(&got[0]), format!("m-{start}"));
    }
}

/// Below the low mark, and above the end, is an error that names the bounds; other readers of the set go on.
pub(crate) async fn outside_the_bounds_is_an_error(log: Arc<dyn Log>, prefix: &str) {
    let topic = topic(&log, &format!("{prefix}range"), 3).await;
    for partition in 0..3 {
        append(&log, &topic, partition, records("r", 50)).await;
    }
    within("trim", log.trim(&topic, 0, 20)).await.expect("trim");
    within("trim again", log.trim(&topic, 0, 10)).await.expect("a lower trim does nothing");
    let bounds = within("bounds", log.bounds(&topic, 0)).await.expect("bounds");
    assert_eq!((bounds.low, bounds.high), (20, 50));

    let readers = log.readers().expect("readers");
    let mut below = readers.open(&topic, 0, 19).expect("reader");
    let mut fine = readers.open(&topic, 1, 0).expect("reader");
    let mut above = readers.open(&topic, 2, 51).expect("reader");
    let error = within("below", below.next(10)).await.expect_err("below the low mark");
    assert!(is_out_of_range(&error, 19), "{error}");
    assert!(matches!(error, LogError::OutOfRange { low: 20, high: 50, .. }), "{error}");
    let error = within("above", above.next(10)).await.expect_err("above the end");
    assert!(is_out_of_range(&error, 51), "{error}");
    assert_eq!(read(&mut fine, 50).await.len(), 50);
    append(&log, &topic, 1, vec![record("later")]).await;
    assert_eq!(text(&read(&mut fine, 1).await[0]), "later");

    drop(below);
    let mut again = readers.open(&topic, 0, 20).expect("a dropped reader makes room");
    assert_eq!(read(&mut again, 1).await[0].offset, 20);
}

/// Everything may be trimmed; offsets go on where they were.
pub(crate) async fn trimming_all_keeps_counting(log: Arc<dyn Log>, prefix: &str) {
    let topic = topic(&log, &format!("{prefix}trim"), 1).await;
    append(&log, &topic, 0, records("t", 30)).await;
    within("trim", log.trim(&topic, 0, 30)).await.expect("trim");
    let error = within("trim", log.trim(&topic, 0, 31)).await.expect_err("above the end");
    assert!(is_out_of_range(&error, 31), "{error}");
    let bounds = within("bounds", log.bounds(&topic, 0)).await.expect("bounds");
    assert_eq!((bounds.low, bounds.high), (30, 30));
    let mut reader = log.readers().expect("readers").open(&topic, 0, 30).expect("reader");
    assert_eq!(append(&log, &topic, 0, vec![record("next")]).await, [30]);
    assert_eq!(read(&mut reader, 1).await[0].offset, 30);
}

/// One set reads several partitions side by side, and one partition only once.
pub(crate) async fn a_set_reads_partitions_once_each(log: Arc<dyn Log>, prefix: &str) {
    let topic = topic(&log, &format!("{prefix}set"), 2).await;
    let readers = log.readers().expect("readers");
    let mut first = readers.open(&topic, 0, 0).expect("reader");
    let mut second = readers.open(&topic, 1, 0).expect("reader");
    assert!(matches!(readers.open(&topic, 0, 0), Err(LogError::InUse(_))));
    let mut other_set = log.readers().expect("readers").open(&topic, 0, 0).expect("another set");
    append(&log, &topic, 0, vec![record("zero")]).await;
    append(&log, &topic, 1, vec![record("one")]).await;
    assert_eq!(text(&read(&mut first, 1).await[0]), "zero");
    assert_eq!(text(&read(&mut second, 1).await[0]), "one");
    assert_eq!(text(&read(&mut other_set, 1).await[0]), "zero");
    drop(first);
    let mut again = readers.open(&topic, 0, 0).expect("free again");
    assert_eq!(text(&read(&mut again, 1).await[0]), "zero");
}

/// A reader that does not read stops nobody, and loses nothing when it comes back.
pub(crate) async fn a_slow_reader_stops_nobody(log: Arc<dyn Log>, prefix: &str) {
    const COUNT: usize = 12_000;
    let topic = topic(&log, &format!("{prefix}slow"), 2).await;
    let readers = log.readers().expect("readers");
    let mut slow = readers.open(&topic, 0, 0).expect("reader");
    let mut fast = readers.open(&topic, 1, 0).expect("reader");
    let padding = "x".repeat(1500);
    for chunk in 0..COUNT / 1000 {
        let call = |name: &str| {
            (0..1000).map(|n| record(format!("{name}{}-{padding}", chunk * 1000 + n))).collect::<Vec<_>>()
        };
        append(&log, &topic, 0, call("s")).await;
        append(&log, &topic, 1, call("f")).await;
    }
    assert_eq!(read(&mut slow, 1).await[0].offset, 0);
    let got = read(&mut fast, COUNT).await;
    assert!(got.iter().enumerate().all(|(n, it)| it.offset == n as u64), "the fast one got all in order");
    let got = read(&mut slow, COUNT - 1).await;
    for (n, it) in got.iter().enumerate() {
        assert_eq!(it.offset, n as u64 + 1, "the slow one skipped or repeated");
        assert!(text(it).starts_with(&format!("s{}-", n + 1)));
    }
}

/// What is trimmed below a reader is nothing to it, whether it reads, holds all it may, or waits at the end.
pub(crate) async fn a_trim_below_disturbs_no_reader(log: Arc<dyn Log>, prefix: &str) {
    const COUNT: u64 = 4_000;
    let topic = topic(&log, &format!("{prefix}below"), 1).await;
    let padding = "x".repeat(1500);
    for chunk in 0..COUNT / 1000 {
        let call = (0..1000).map(|n| record(format!("b{}-{padding}", chunk * 1000 + n))).collect();
        append(&log, &topic, 0, call).await;
    }
    let (backlog, tail) = (log.readers().expect("readers"), log.readers().expect("readers"));
    let mut behind = backlog.open(&topic, 0, 1_000).expect("reader");
    assert_eq!(read(&mut behind, 1).await[0].offset, 1_000);
    let mut end = tail.open(&topic, 0, COUNT).expect("reader");
    let waiting = tokio::spawn(async move {
        let got = read(&mut end, 2).await;
        (end, got)
    });
    within("trim", log.trim(&topic, 0, 1_001)).await.expect("trim");
    let bounds = within("bounds", log.bounds(&topic, 0)).await.expect("bounds");
    assert_eq!((bounds.low, bounds.high), (1_001, COUNT));

    let got = read(&mut behind, usize::try_from(COUNT - 1_001).expect("small")).await;
    for (offset, it) in (1_001..).zip(&got) {
        assert_eq!(it.offset, offset, "skipped or repeated");
        assert!(text(it).starts_with(&format!("b{offset}-")));
    }
    append(&log, &topic, 0, records("tail", 2)).await;
    let (mut end, got) = within("the reader at the end", waiting).await.expect("no panic");
    assert_eq!(got.iter().map(|it| it.offset).collect::<Vec<_>>(), [COUNT, COUNT + 1]);
    assert_eq!(text(&read(&mut behind, 2).await[1]), "tail-1");

    let mut lowest = log.readers().expect("readers").open(&topic, 0, 1_001).expect("reader");
    assert_eq!(read(&mut lowest, 1).await[0].offset, 1_001);
    within("trim all", log.trim(&topic, 0, COUNT + 2)).await.expect("trim");
    append(&log, &topic, 0, vec![record("last")]).await;
    for reader in [&mut behind, &mut end] {
        let got = read(reader, 1).await;
        assert_eq!((got[0].offset, text(&got[0]).as_str()), (COUNT + 2, "last"));
    }
}

/// Two sets read one partition, each at its own position; and a set reads the same partition of two topics.
pub(crate) async fn readers_of_a_partition_do_not_know_each_other(log: Arc<dyn Log>, prefix: &str) {
    let (one, two) =
        (topic(&log, &format!("{prefix}one"), 2).await, topic(&log, &format!("{prefix}two"), 2).await);
    append(&log, &one, 1, records("one", 100)).await;
    append(&log, &two, 1, records("two", 100)).await;
    let (low, high) = (log.readers().expect("readers"), log.readers().expect("readers"));
    let mut behind = low.open(&one, 1, 10).expect("reader");
    let mut ahead = high.open(&one, 1, 70).expect("reader");
    let mut other = low.open(&two, 1, 40).expect("reader");
    for step in 0..20_u64 {
        for (reader, topic, from) in
            [(&mut behind, "one", 10), (&mut ahead, "one", 70), (&mut other, "two", 40)]
        {
            let got = read(reader, 1).await;
            assert_eq!((got[0].offset, text(&got[0])), (from + step, format!("{topic}-{}", from + step)));
        }
    }
    drop(ahead);
    assert_eq!(read(&mut behind, 70).await[69].offset, 99, "one that ends stops no other");
}
