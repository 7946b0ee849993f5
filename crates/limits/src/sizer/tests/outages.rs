//! Whatever the store does, there is a width, and it is not narrower for it.

use futures::FutureExt;
use proptest::prelude::*;

use super::*;

const CAP: Sizing = Sizing { width: 64, known: false, payloads: None };

fn failures() -> Vec<Mode> {
    vec![
        Mode::Failing(down()),
        Mode::Failing(Error::NoAnswer("broken pipe".to_owned())),
        Mode::Failing(Error::Timeout),
        Mode::Failing(Error::Refused("MOVED".to_owned())),
        Mode::Failing(Error::Refused("LOADING".to_owned())),
        Mode::Failing(Error::Shape("a count that is not a number".to_owned())),
        Mode::Hanging,
        Mode::Panicking,
    ]
}

/// S13: error, time-out, wrong shape, no number, a redirect of a cluster, a panic in the client: each is the cap within the
/// budget of a read, and counted.
#[tokio::test(start_paused = true)]
async fn s13_any_failure_is_the_cap_and_is_counted() {
    for mode in failures() {
        let bench = Bench::new();
        bench.store.set(mode);
        bench.count(&push(), 1);
        let began = tokio::time::Instant::now();
        assert_eq!(bench.width(&push()).await, CAP);
        assert!(began.elapsed() <= super::super::READ_BUDGET + Duration::from_millis(1), "paused time");
        assert_eq!(bench.sizer.counts().sizing_unavailable, 1);
        bench.sizer.flush().await;
        assert_eq!(bench.width(&push()).await, CAP);
        assert_eq!(bench.sizer.counts().sizing_unavailable, 2);
        let options = SizingOptions { buckets_max: 100, ..FINEST };
        assert_eq!(bench.sizer.width(&push(), &options).await.width, 64, "the cap is on the ladder");
    }
}

/// S13: the clock may be the caller's bug; the payload is accepted all the same.
#[tokio::test]
async fn s13_a_panic_outside_of_the_client_is_the_cap_too() {
    let clock: Clock = Arc::new(|| panic!("no clock"));
    let sizer = Sizer::new(Arc::new(LocalWindows::new()), clock);
    assert_eq!(sizer.width(&push(), &FINEST).await, CAP);
    assert!(!sizer.flush().await);
}

/// S13: sizing that cannot even wait is the cap.
#[test]
fn s13_without_a_runtime_it_is_the_cap() {
    let bench = Bench::new();
    assert_eq!(bench.width(&push()).now_or_never(), Some(CAP));
}

/// S13: an outage costs one wait of 50 ms in each second, however many senders there are.
#[tokio::test(start_paused = true)]
async fn s13_an_outage_costs_one_wait_in_each_second() {
    for mode in [Mode::Hanging, Mode::Failing(down()), Mode::Failing(Error::Timeout)] {
        let bench = Bench::new();
        bench.store.set(mode);
        let began = tokio::time::Instant::now();
        for second in 1..=5 {
            for number in 0..100 {
                let counter = Counter::new("sender", &[&number.to_string()]);
                assert_eq!(bench.width(&counter).await, CAP);
            }
            assert_eq!(bench.reads(), second, "one try");
            // Lets the reader, whose time is up as well, see it.
            tokio::task::yield_now().await;
            bench.pass(Duration::from_secs(1));
        }
        assert!(began.elapsed() < Duration::from_millis(5 * 50 + 10), "{:?} of paused time", began.elapsed());
    }
}

/// S13: a counter that somebody else's data lies in is nobody else's problem.
#[tokio::test]
async fn s13_one_broken_counter_leaves_the_others_alone() {
    let bench = Bench::new();
    let broken = bench.store.broken.clone();
    for _ in 0..3 {
        bench.count(&broken, 5);
        bench.count(&push(), 5);
        assert!(bench.sizer.flush().await);
        assert_eq!(bench.width(&broken).await, CAP);
        assert!(bench.width(&push()).await.known);
        bench.pass(Duration::from_secs(1));
    }
    assert_eq!(bench.stored(&push()).await, 15);
}

/// S14: no width drops during an outage of the store, nor after it.
#[tokio::test(start_paused = true)]
async fn s14_no_width_drops_in_an_outage_or_after_it() {
    for mode in failures() {
        let bench = Bench::new();
        bench.count(&push(), 20);
        assert_eq!(bench.width(&push()).await.width, 16);
        assert!(bench.sizer.flush().await);
        bench.store.set(mode);
        for _ in 0..5 {
            bench.count(&push(), 1);
            bench.sizer.flush().await;
            assert!(bench.width(&push()).await.width >= 16);
            bench.pass(Duration::from_secs(1));
        }
        bench.store.set(Mode::Sound);
        bench.pass(Duration::from_secs(1));
        bench.sizer.flush().await;
        bench.pass(Duration::from_secs(1));
        assert_eq!((bench.known(&push()).await, bench.width(&push()).await.width), (25, 16));
    }
}

/// S14: reads are answered, so a reading could be had, but it would miss what nobody can write.
#[tokio::test]
async fn s14_a_store_that_takes_no_writes_is_not_believed() {
    for error in [read_only(), Error::Refused("OOM".to_owned())] {
        let bench = Bench::new();
        bench.count(&push(), 2);
        assert!(bench.width(&push()).await.known);
        bench.store.set(Mode::NotWriting(error));
        assert!(!bench.sizer.flush().await);
        assert!(!bench.sizer.is_current());
        assert_eq!(bench.width(&push()).await, CAP);
        bench.pass_shards(1);
        bench.count(&push(), 3);
        assert!(!bench.sizer.flush().await);
        bench.store.set(Mode::Sound);
        assert!(bench.sizer.flush().await);
        assert_eq!(bench.known(&push()).await, 5);
        assert_eq!(
            bench.store.payloads(&push(), SHARD_NOW + 1).await,
            [3, 2, 0, 0, 0, 0],
            "each in its shard"
        );
        assert_eq!(bench.sizer.counts().counts_dropped, 0);
    }
}

/// S14: a store that was wiped narrows nothing for as long as the window goes back.
#[tokio::test]
async fn s14_a_wiped_store_narrows_nothing() {
    let bench = Bench::new();
    bench.count(&push(), 40);
    assert!(bench.sizer.flush().await);
    assert_eq!(bench.width(&push()).await.width, 32);
    bench.store.wipe();
    bench.pass(Duration::from_secs(1));
    bench.count(&push(), 1);
    assert_eq!((bench.known(&push()).await, bench.width(&push()).await.width), (41, 32));
    assert!(bench.sizer.flush().await);
    bench.pass_shards(4);
    assert_eq!(bench.known(&push()).await, 41, "as long as the window goes back");
    bench.pass_shards(2);
    assert_eq!(bench.known(&push()).await, 0, "and no longer");
}

/// Each of these is applied although its answer is lost; to send it again would count it twice.
#[tokio::test(start_paused = true)]
async fn an_unanswered_write_is_not_repeated() {
    let bench = Bench::new();
    bench.store.set(Mode::Unheard(Error::Timeout));
    bench.count(&push(), 10);
    assert!(!bench.sizer.flush().await);
    assert_eq!(bench.sizer.counts().counts_dropped, 10);
    bench.store.set(Mode::Sound);
    assert!(bench.sizer.flush().await);
    assert_eq!(bench.store.payloads(&push(), SHARD_NOW).await[0], 10);
    assert_eq!(bench.known(&push()).await, 10);
}

/// S14: after a write that was not answered, nothing more is sent into the dark: it waits until a read is answered.
#[tokio::test(start_paused = true)]
async fn s14_a_long_stall_loses_one_flush() {
    let bench = Bench::new();
    bench.store.set(Mode::Hanging);
    bench.count(&push(), 3);
    for _ in 0..60 {
        assert!(!bench.sizer.flush().await);
        bench.count(&push(), 1);
        bench.pass(Duration::from_secs(1));
    }
    assert_eq!(bench.store.writes.load(Ordering::Relaxed), 1);
    bench.store.set(Mode::Sound);
    assert!(bench.sizer.flush().await);
    assert_eq!(bench.sizer.counts().counts_dropped, 3);
    assert_eq!(bench.store.payloads(&push(), SHARD_NOW).await[0], 60);
}

#[tokio::test]
async fn counts_that_wait_longer_than_a_window_are_dropped() {
    let bench = Bench::new();
    bench.store.set(Mode::Failing(down()));
    for _ in 0..20 {
        bench.count(&push(), 10);
        bench.sizer.flush().await;
        bench.pass_shards(1);
    }
    bench.store.set(Mode::Sound);
    assert!(bench.sizer.flush().await);
    let stored: u64 = bench.store.payloads(&push(), SHARD_NOW + 20).await.iter().sum();
    assert_eq!((stored, bench.sizer.counts().counts_dropped), (50, 150));
}

#[tokio::test]
async fn a_short_answer_to_a_write_is_an_unanswered_one() {
    let bench = Bench::new();
    bench.store.set(Mode::Short);
    bench.count(&push(), 4);
    assert!(!bench.sizer.flush().await);
    assert_eq!(bench.width(&push()).await, CAP);
    bench.store.set(Mode::Sound);
    assert!(bench.sizer.flush().await);
    assert!(bench.width(&push()).await.known);
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Count(usize),
    OtherCounts(usize),
    Flush,
    Second,
    Break(usize),
    Mend,
    Wipe,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1usize..40).prop_map(Step::Count),
        2 => (1usize..40).prop_map(Step::OtherCounts),
        3 => Just(Step::Flush),
        3 => Just(Step::Second),
        1 => (0usize..6).prop_map(Step::Break),
        2 => Just(Step::Mend),
        1 => Just(Step::Wipe),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// S14: within one shard nothing leaves the window: whatever happens to the store, the payloads that are known and the
    /// width never go down, never miss an own payload, and never exceed what came.
    #[test]
    fn s14_what_is_known_never_goes_down(steps in proptest::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(async {
            let bench = Bench::new();
            let other = bench.another();
            let (mut own, mut all, mut known, mut width) = (0, 0, 0, 1);
            for step in steps {
                match step {
                    Step::Count(payloads) => {
                        bench.count(&push(), payloads);
                        own += payloads;
                        all += payloads;
                    }
                    Step::OtherCounts(payloads) => {
                        other.count(&push(), payloads);
                        all += payloads;
                    }
                    Step::Flush => {
                        bench.sizer.flush().await;
                        other.sizer.flush().await;
                    }
                    Step::Second => bench.pass(Duration::from_secs(1)),
                    Step::Break(at) => bench.store.set(match at {
                        0 => Mode::Failing(down()),
                        1 => Mode::NotWriting(read_only()),
                        2 => Mode::Unheard(Error::Timeout),
                        3 => Mode::Failing(Error::NoAnswer("gone".to_owned())),
                        4 => Mode::Short,
                        _ => Mode::Failing(Error::Shape("text".to_owned())),
                    }),
                    Step::Mend => bench.store.set(Mode::Sound),
                    Step::Wipe => bench.store.wipe(),
                }
                let sizing = bench.width(&push()).await;
                assert!(sizing.width >= width, "{step:?}: {sizing:?}, was {width}");
                if let Some(payloads) = sizing.payloads {
                    let payloads = usize::try_from(payloads).expect("small");
                    assert!(payloads >= known.max(own) && payloads <= all, "{step:?}: {payloads} of {own}, {all}");
                    (known, width) = (payloads, sizing.width);
                }
            }
        });
    }
}

fn numbered(number: usize) -> Counter {
    Counter::new("n", &[&number.to_string()])
}

/// S14: what was on its way may have been applied, so it is dropped and counted as that; the rest waits for the next flush.
#[tokio::test(start_paused = true)]
async fn s14_a_flush_that_is_given_up_loses_nothing_unseen() {
    let bench = Bench::new();
    bench.store.set(Mode::Hanging);
    (0..300).for_each(|number| bench.count(&numbered(number), 1));
    assert!(tokio::time::timeout(Duration::from_millis(10), bench.sizer.flush()).await.is_err());
    assert_eq!(bench.sizer.counts().counts_dropped, 256, "one write's worth");
    bench.store.set(Mode::Sound);
    assert!(bench.sizer.flush().await);
    let mut stored = 0;
    for number in 0..300 {
        stored += bench.store.payloads(&numbered(number), SHARD_NOW).await[0];
    }
    assert_eq!((stored, bench.sizer.counts().counts_dropped), (44, 256), "nothing twice");
}

/// S14: the stop finds a flush under way that never ends, and the last one does not end either.
#[tokio::test(start_paused = true)]
async fn s14_what_the_store_did_not_take_at_the_stop_is_counted_as_dropped() {
    for mode in [Mode::Hanging, Mode::NotWriting(down()), Mode::Failing(Error::Timeout)] {
        let bench = Bench::new();
        bench.store.set(mode);
        (0..300).for_each(|number| bench.count(&numbered(number), 2));
        let stop = tokio_util::sync::CancellationToken::new();
        let (running, stopped) = (bench.sizer.clone(), stop.clone());
        let run = tokio::spawn(async move { running.run(stopped).await });
        while bench.store.writes.load(Ordering::Relaxed) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        stop.cancel();
        run.await.expect("run");
        assert_eq!(bench.sizer.counts().counts_dropped, 600);
        bench.store.set(Mode::Sound);
        assert!(bench.sizer.flush().await);
        assert_eq!(bench.store.payloads(&numbered(299), SHARD_NOW).await[0], 0, "and not written later");
    }
}
