//! Topics: made once, never changed, refused when they are not as configured; and closing.

use std::sync::Arc;
use std::time::Duration;

use mailrail_log::{Log, LogError, TopicSpec};

use super::{append, record, spec, within};

/// Making topics again changes nothing; another number of partitions is refused with what to change.
pub(crate) async fn topics_are_made_once_and_never_changed(log: Arc<dyn Log>, prefix: &str) {
    let (one, two, three) = (format!("{prefix}one"), format!("{prefix}two"), format!("{prefix}three"));
    let specs = [spec(&one, 2), spec(&two, 3)];
    within("ensure", log.ensure_topics(&specs)).await.expect("made");
    append(&log, &one, 1, vec![record("kept")]).await;
    within("ensure", log.ensure_topics(&specs)).await.expect("made before");
    within("ensure", log.ensure_topics(&[spec(&one, 2), spec(&three, 1)])).await.expect("one more");
    assert_eq!(within("bounds", log.bounds(&one, 1)).await.expect("bounds").high, 1);

    let wrong = within("ensure", log.ensure_topics(&[spec(&one, 4), spec(&two, 3), spec(&three, 2)])).await;
    let Err(error @ LogError::Topics(_)) = wrong else { panic!("expected a mismatch, got {wrong:?}") };
    let LogError::Topics(lines) = &error else { unreachable!("matched above") };
    assert_eq!(lines.len(), 2, "{error}");
    assert_eq!(lines[0].topic, one);
    assert_eq!(lines[0].problem, "has 2 partitions, settings say 4");
    assert!(lines.iter().all(|line| !line.remedy.is_empty()), "{error}");
    assert_eq!(within("bounds", log.bounds(&one, 1)).await.expect("bounds").high, 1);
}

/// A topic without a retention is made so, is found so again, and is trimmed by whoever owns it.
pub(crate) async fn a_topic_without_a_retention_is_kept(log: Arc<dyn Log>, prefix: &str) {
    let name = format!("{prefix}for-ever");
    let spec = TopicSpec { retention: None, ..spec(&name, 2) };
    within("ensure", log.ensure_topics(std::slice::from_ref(&spec))).await.expect("made");
    append(&log, &name, 1, super::records("kept", 5)).await;
    within("ensure", log.ensure_topics(&[spec])).await.expect("as it was made");
    within("trim", log.trim(&name, 1, 3)).await.expect("trim");
    let bounds = within("bounds", log.bounds(&name, 1)).await.expect("bounds");
    assert_eq!((bounds.low, bounds.high), (3, 5));
}

/// Topics and partitions that do not exist are errors, not new topics.
pub(crate) async fn unknown_topics_are_errors(log: Arc<dyn Log>, prefix: &str) {
    let known = format!("{prefix}known");
    within("ensure", log.ensure_topics(&[spec(&known, 1)])).await.expect("made");
    let missing = format!("{prefix}missing");
    assert!(within("append", log.append(&missing, 0, vec![record("x")])).await.is_err());
    assert!(within("append", log.append(&known, 1, vec![record("x")])).await.is_err());
    assert!(within("bounds", log.bounds(&missing, 0)).await.is_err());
    assert!(within("bounds", log.bounds(&known, 1)).await.is_err());
    assert!(within("check", log.check()).await.is_ok());
    assert_eq!(append(&log, &known, 0, vec![record("x")]).await, [0], "the log goes on after a mistake");
}

/// After close everything says so, readers and members included.
pub(crate) async fn closing_ends_everything(log: Arc<dyn Log>, prefix: &str) {
    let topic = super::topic(&log, &format!("{prefix}close"), 1).await;
    append(&log, &topic, 0, vec![record("last")]).await;
    let readers = log.readers().expect("readers");
    let mut reader = readers.open(&topic, 0, 1).expect("reader");
    let waiting = tokio::spawn(async move { reader.next(1).await });
    let member = within("join", log.join(&format!("{prefix}close-group"), &topic)).await.expect("join");
    super::assigned(&*member).await;
    within("close", log.close(Duration::from_secs(10))).await;
    let read = within("a reader of a closed log", waiting).await.expect("no panic");
    assert!(matches!(read, Err(LogError::Closed)), "{read:?}");
    within("a member of a closed log", async { while member.next().await.is_some() {} }).await;
    assert!(matches!(log.append(&topic, 0, vec![record("late")]).await, Err(LogError::Closed)));
    assert!(log.check().await.is_err());
}
