//! Replays in metrics.

use mailrail_telemetry::Metrics;

use super::*;

#[tokio::test]
async fn n19_what_a_replay_does_is_in_the_metrics() {
    let place = Place::new().await;
    place.bury_some(4).await;
    let metrics = Metrics::new();
    let options = DeadLetterOptions {
        takeover_after: Duration::ZERO,
        ..DeadLetterOptions::new(Duration::from_hours(1))
    };
    let letters = DeadLetters::measured(Arc::clone(&place.log), pipeline(), options, metrics.replay.clone());
    replayed(&letters, &all()).await;
    replayed(&letters, &all()).await;
    place.append("dead-letters.default", 0, Bytes::from_static(b"no letter")).await;
    let ordered = letters.order(&all(), "alice", false).await.expect("ordered");
    // Nobody carries it on yet: whoever looks sees that it is not over.
    let stopped = CancellationToken::new();
    stopped.cancel();
    letters.run(stopped).await;
    assert_eq!((metrics.replay.unfinished.get(), metrics.replay.running.get()), (1, 0));
    run_until_over(&letters, &ordered.id).await;
    let stopped = CancellationToken::new();
    stopped.cancel();
    letters.run(stopped).await;
    let text = metrics.render();
    for line in [
        "mailrail_replay_unfinished 0",
        "mailrail_replay_running 0",
        "mailrail_replay_rate_limit 0",
        "mailrail_replay_looked_total 37",
        "mailrail_replay_letters_total{outcome=\"put_back\"} 12",
        "mailrail_replay_letters_total{outcome=\"skipped\"} 24",
        "mailrail_replay_letters_total{outcome=\"unreadable\"} 1",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}
