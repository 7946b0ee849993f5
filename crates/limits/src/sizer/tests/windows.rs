//! What a window says while the store is sound.

use mailrail_policy::SizingOptions;
use tokio_util::sync::CancellationToken;

use super::*;

/// S06: what the counters say, before and after they were written: seven four shards ago and one now are eight.
#[tokio::test]
async fn s06_seven_payloads_four_shards_ago_and_one_now_are_eight() {
    let bench = Bench::new();
    bench.count(&push(), 7);
    assert!(bench.sizer.flush().await);
    bench.pass_shards(4);
    bench.count(&push(), 1);
    assert_eq!(bench.known(&push()).await, 8);
    assert!(bench.sizer.flush().await);
    assert_eq!(bench.stored(&push()).await, 8);
    bench.pass(SHARD - Duration::from_millis(1));
    assert_eq!(bench.known(&push()).await, 8, "to the end of the shard");
}

/// S06: the sixth counter leaves the window bit by bit, as the policy weighs it; the original forgot it at once.
#[tokio::test]
async fn s06_ten_thousand_payloads_five_shards_ago_fade() {
    let bench = Bench::new();
    bench.count(&push(), 10_000);
    assert!(bench.sizer.flush().await);
    bench.pass_shards(5);
    assert_eq!((bench.known(&push()).await, bench.stored(&push()).await), (10_000, 10_000));
    bench.pass(SHARD / 2);
    assert_eq!((bench.known(&push()).await, bench.stored(&push()).await), (5_000, 5_000));
    bench.pass(SHARD / 2 - Duration::from_millis(1));
    assert_eq!((bench.known(&push()).await, bench.stored(&push()).await), (0, 0));
    bench.pass(Duration::from_millis(1));
    assert_eq!((bench.known(&push()).await, bench.stored(&push()).await), (0, 0));
    assert_eq!(bench.width(&push()).await.width, 1);
}

/// S06: a burst on both sides of a boundary is one burst.
#[tokio::test]
async fn s06_a_burst_across_a_boundary_is_one_burst() {
    let bench = Bench::new();
    bench.pass(SHARD - Duration::from_mins(1));
    bench.count(&push(), 2_900);
    bench.pass(Duration::from_mins(2));
    bench.count(&push(), 2_900);
    assert_eq!(bench.known(&push()).await, 5_800);
    assert!(bench.sizer.flush().await);
    assert_eq!(bench.stored(&push()).await, 5_800);
}

/// S06: written late, a count still lies in the shard in which it was made.
#[tokio::test]
async fn s06_a_count_belongs_to_the_shard_it_was_made_in() {
    let bench = Bench::new();
    bench.count(&push(), 3);
    bench.pass_shards(1);
    bench.count(&push(), 2);
    assert!(bench.sizer.flush().await);
    assert_eq!(bench.store.payloads(&push(), SHARD_NOW + 1).await, [2, 3, 0, 0, 0, 0]);
}

/// S09: the sequence of a growing sender, where each payload is seen by its own sizing.
#[tokio::test]
async fn s09_every_payload_is_seen_by_its_own_sizing() {
    let bench = Bench::new();
    let options = SizingOptions { payloads_per_thread: 4, ..FINEST };
    for payload in 1..=32 {
        bench.count(&push(), 1);
        let expected = match payload {
            1..=7 => 1,
            8..=15 => 2,
            16..=31 => 4,
            _ => 8,
        };
        let sizing = bench.sizer.width(&push(), &options).await;
        assert_eq!((sizing.width, sizing.known, sizing.payloads), (expected, true, Some(payload)));
    }
    assert_eq!(bench.reads(), 1, "one read for all of them");
}

/// S23: ten thousand pushes do not widen the check runs of the same integration.
#[tokio::test]
async fn s23_each_event_type_is_sized_by_its_own_rate() {
    let bench = Bench::new();
    let check_run = Counter::new("github", &["4321", "check_run"]);
    bench.count(&push(), 10_000);
    bench.count(&check_run, 1);
    assert_eq!(bench.width(&push()).await.width, 64);
    assert_eq!(bench.width(&check_run).await.width, 1);
}

/// S25: from an empty store the width follows from live traffic, and nothing is remembered beyond the window.
#[tokio::test]
async fn s25_an_empty_store_sizes_from_live_traffic_alone() {
    let bench = Bench::new();
    assert_eq!(bench.width(&push()).await, Sizing { width: 1, known: true, payloads: Some(0) });
    bench.count(&push(), 4);
    assert_eq!(bench.width(&push()).await.width, 4);
    bench.pass_shards(7);
    assert_eq!(bench.width(&push()).await.width, 1, "nothing is remembered beyond the window");
}

/// S22: only arrivals are counted, so what waits behind a stalled recipient cannot move the width.
#[tokio::test]
async fn s22_a_constant_inflow_keeps_its_width_for_an_hour() {
    let bench = Bench::new();
    let mut widths = Vec::new();
    for second in 0..(75 * 60) {
        if second % 7 == 0 {
            bench.count(&push(), 1);
        }
        bench.pass(Duration::from_secs(1));
        if second % 60 == 0 {
            assert!(bench.sizer.flush().await);
            widths.push(bench.width(&push()).await.width);
        }
    }
    assert_eq!(widths[15..].iter().collect::<std::collections::BTreeSet<_>>().len(), 1, "{widths:?}");
}

#[tokio::test]
async fn a_reading_is_used_for_a_second_and_no_longer() {
    let bench = Bench::new();
    let other = bench.another();
    bench.known(&push()).await;
    other.count(&push(), 5);
    assert!(other.sizer.flush().await);
    bench.pass(Duration::from_millis(999));
    assert_eq!((bench.known(&push()).await, bench.reads()), (0, 1));
    bench.pass(Duration::from_millis(1));
    assert_eq!((bench.known(&push()).await, bench.reads()), (5, 2));
    bench.now.fetch_sub(3_600_000, Ordering::Relaxed);
    bench.known(&push()).await;
    assert_eq!(bench.reads(), 3, "a clock that is set back does not keep a reading fresh");
}

#[tokio::test]
async fn processes_add_up_and_nothing_counts_twice() {
    let bench = Bench::new();
    let other = bench.another();
    for round in 1..=5 {
        bench.count(&push(), 3);
        other.count(&push(), 4);
        assert!(bench.sizer.flush().await && other.sizer.flush().await);
        bench.pass(Duration::from_secs(1));
        assert_eq!((bench.known(&push()).await, other.known(&push()).await), (8 * round - 1, 8 * round - 1));
        bench.count(&push(), 1);
        assert_eq!(bench.known(&push()).await, 8 * round, "own payloads show at once");
        assert!(bench.sizer.flush().await);
        assert_eq!(bench.known(&push()).await, 8 * round, "written is not twice");
    }
}

/// What was not written yet when the store was read is on top of what others wrote.
#[tokio::test]
async fn a_reading_and_what_is_not_written_yet_add_up() {
    let bench = Bench::new();
    let other = bench.another();
    bench.count(&push(), 3);
    other.count(&push(), 10);
    assert!(other.sizer.flush().await);
    assert_eq!(bench.known(&push()).await, 13);
    assert!(bench.sizer.flush().await);
    bench.pass(Duration::from_secs(1));
    assert_eq!((bench.known(&push()).await, other.known(&push()).await), (13, 13));
}

#[tokio::test]
async fn one_reader_for_any_number_of_callers() {
    let bench = Bench::new();
    let counter = push();
    let callers = (0..100).map(|_| bench.width(&counter));
    let sizings = futures::future::join_all(callers).await;
    assert!(sizings.iter().all(|it| it.known));
    assert_eq!(bench.reads(), 1);
}

/// S12: losing it would only cost the hysteresis, so a second process takes over the first one's width.
#[tokio::test]
async fn s12_a_width_is_held_by_all_processes() {
    let bench = Bench::new();
    bench.count(&push(), 32);
    assert_eq!(bench.width(&push()).await.width, 32);
    assert!(bench.sizer.flush().await);
    bench.pass_shards(5);
    bench.count(&push(), 10);
    // 32 weighed with half a shard, and 10: below 32, above its three quarters.
    bench.pass(SHARD / 2);
    assert_eq!(bench.known(&push()).await, 26);
    assert_eq!(bench.width(&push()).await.width, 32);
    assert!(bench.sizer.flush().await);
    assert_eq!(bench.another().width(&push()).await.width, 32, "the plain rule says 16");
}

/// S12: another process that knows less, because it began after the store was wiped, does not make this one forget.
#[tokio::test]
async fn s12_the_wider_of_two_widths_is_held() {
    let bench = Bench::new();
    bench.count(&push(), 32);
    assert_eq!(bench.width(&push()).await.width, 32);
    bench.pass_shards(5);
    bench.pass(SHARD / 10);
    let narrower = Write::Width { counter: push(), held: HeldWidth { width: 16, unit: 1 } };
    assert_eq!(bench.store.write(&[narrower], Timestamp(bench.now.load(Ordering::Relaxed))).await, [Ok(())]);
    assert_eq!((bench.known(&push()).await, bench.width(&push()).await.width), (28, 32));
}

/// S17: a width says nothing under options of another unit, so that new options take effect with the next payload.
#[tokio::test]
async fn s17_options_of_another_unit_take_effect_at_once() {
    let bench = Bench::new();
    bench.count(&push(), 60);
    assert_eq!(bench.width(&push()).await.width, 32);
    assert!(bench.sizer.flush().await);
    let coarser = SizingOptions { payloads_per_thread: 2, ..FINEST };
    for process in [&bench, &bench.another()] {
        assert_eq!(process.sizer.width(&push(), &coarser).await.width, 16, "held, it would be 32");
    }
    assert_eq!(bench.width(&push()).await.width, 32);
}

/// The clock of the sizer follows the runtime's, which is paused: a second passes when nothing else is to be done.
#[tokio::test(start_paused = true)]
async fn a_count_is_written_within_250_ms_and_at_the_stop() {
    let began = tokio::time::Instant::now();
    let clock: Clock = Arc::new(move || shard_start(SHARD_NOW).plus(began.elapsed()));
    let windows = Arc::new(LocalWindows::new());
    let sizer = Sizer::new(Arc::clone(&windows) as Arc<dyn Windows>, clock);
    let stop = CancellationToken::new();
    let (running, stopped) = (sizer.clone(), stop.clone());
    let run = tokio::spawn(async move { running.run(stopped).await });
    let stored = async || windows.read(&push(), SHARD_NOW).await.expect("local").shards[0];
    sizer.count(&push());
    assert_eq!(stored().await, 0);
    tokio::time::sleep(Duration::from_millis(251)).await;
    assert_eq!(stored().await, 1);
    sizer.count(&push());
    stop.cancel();
    run.await.expect("run");
    assert_eq!(stored().await, 2);
}
