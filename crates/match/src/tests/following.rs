//! The table follows the directory: what is seen, and when.

use mailrail_filter::index::Scratch;

use super::*;
use crate::catalog::Catalog;
use crate::find_matches::Known;
use crate::table::Table;
use crate::targets::targets;
use crate::wanting::Work;

/// Names of those who are owed the event; `None`: its type is looked up and nothing else.
fn owed(known: &Known, event: &Event) -> Option<Vec<String>> {
    let mut scratch = Scratch::new();
    let mut work = Work::new(&mut scratch);
    targets(known, event, &mut work)
        .map(|(_, targets)| targets.iter().map(|t| t.subscription.to_string()).collect())
}

fn start(rig: &Rig) -> (Known, Catalog) {
    let (directory, table) = (rig.directory.clone(), Arc::new(Table::default()));
    let known = Known { directory, table, traces: mailrail_telemetry::Traces::off() };
    let catalog = Catalog::new(known.directory.clone(), known.table.clone());
    (known, catalog)
}

/// What does not come within that never will.
const PATIENCE: Duration = Duration::from_secs(60);

async fn wait_committed(rig: &Rig, end: u64) {
    let committed = async {
        while rig.committed().await < end {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let Ok(()) = tokio::time::timeout(PATIENCE, committed).await else {
        panic!("{} were committed, and not {end}", rig.committed().await)
    };
}

/// A06, A60: a type that nobody subscribes to ends at the look-up: neither its body nor a filter is looked at.
#[tokio::test(flavor = "multi_thread")]
async fn a06_a_type_without_subscriptions_is_one_look_up() {
    let rig = Rig::start().await;
    let (known, mut catalog) = start(&rig);
    rig.apply(&[("a", "push", Some(r#"{"x":[1]}"#))]).await;
    catalog.catch_up();
    assert_eq!(owed(&known, &event("1", "star", "no JSON")), None);
    let other = Event { tenant: name("globex"), ..event("1", "push", r#"{"x":1}"#) };
    assert_eq!(owed(&known, &other), None, "another tenant's");
    assert_eq!(owed(&known, &event("1", "push", r#"{"x":2}"#)), Some(Vec::new()));
    assert_eq!(owed(&known, &event("1", "push", r#"{"x":1}"#)), Some(vec!["a".to_owned()]));
}

/// A16: what is added, changed and removed.
#[tokio::test(flavor = "multi_thread")]
async fn a16_the_table_is_where_the_directory_is() {
    let rig = Rig::start().await;
    let (known, mut catalog) = start(&rig);
    let push = |x: u32| Event { body: format!(r#"{{"x":{x}}}"#).into(), ..event("1", "push", "") };
    let mut seqs = Vec::new();
    for (subscriptions, expected) in [
        (vec![("a", "push", Some(r#"{"x":[1]}"#)), ("b", "push", None)], [Some("a b"), Some("b")]),
        (vec![("a", "push", Some(r#"{"x":[2]}"#)), ("b", "push", None)], [Some("b"), Some("a b")]),
        (vec![("a", "push", None), ("c", "push", Some(r#"{"x":[2]}"#))], [Some("a"), Some("a c")]),
        (vec![("c", "push", Some(r#"{"x":[2]}"#))], [Some(""), Some("c")]),
        (vec![("c", "star", Some(r#"{"x":[2]}"#))], [None, None]),
    ] {
        let seq = rig.apply(&subscriptions).await;
        catalog.catch_up();
        while let Some((place, job)) = catalog.plan_merge() {
            catalog.install(place, job.run());
        }
        let seen = [1, 2].map(|x| owed(&known, &push(x)).map(|names| names.join(" ")));
        assert_eq!(seen, expected.map(|it| it.map(str::to_owned)));
        assert!(known.table.seq() >= seq);
        seqs.push(known.table.seq());
    }
    assert!(seqs.is_sorted());
    rig.store.delete_tenant(&name("acme")).await.expect("deleted");
    let star = event("1", "star", r#"{"x":2}"#);
    assert!(owed(&known, &star).is_some(), "until it is told");
    let gone = async {
        while rig.directory.tenant(&name("acme")).is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("the directory hears that the tenant is gone");
    catalog.catch_up();
    assert_eq!(owed(&known, &star), None);
}

/// A30, as docs/adr/0007 decided: a type that nobody wants takes no entry, however many of its events come.
#[tokio::test(flavor = "multi_thread")]
async fn a30_types_that_nobody_wants_take_no_room() {
    let rig = Rig::start().await;
    let (known, mut catalog) = start(&rig);
    rig.apply(&[("a", "push", None)]).await;
    catalog.catch_up();
    let room = known.table.len();
    for n in 0..10_000 {
        assert_eq!(owed(&known, &event(&n.to_string(), &format!("star.{n}"), "{}")), None);
        assert_eq!(owed(&known, &event(&n.to_string(), "push", "{}")), Some(vec!["a".to_owned()]));
    }
    assert_eq!((known.table.len(), room), (1, 1));
}

/// A31, as docs/adr/0007 decided: there is no time in an answer. Nothing gets old while the set-up stays, and each change counts
/// from the moment at which it is followed, in both directions.
#[tokio::test(flavor = "multi_thread")]
async fn a31_an_answer_is_as_old_as_the_set_up_and_no_older() {
    let rig = Rig::start().await;
    let (known, mut catalog) = start(&rig);
    let star = event("1", "star", "{}");
    for _ in 0..3 {
        rig.apply(&[("a", "push", None)]).await;
        catalog.catch_up();
        assert_eq!(owed(&known, &star), None);
        // Right after a negative answer, which nothing remembers.
        rig.apply(&[("a", "push", None), ("b", "star", None)]).await;
        catalog.catch_up();
        assert_eq!(owed(&known, &star), Some(vec!["b".to_owned()]));
    }
}

/// A07: a filter is compiled once for each version of its subscription, whatever comes and whatever changes beside it.
#[tokio::test(flavor = "multi_thread")]
async fn a07_a_filter_is_compiled_once_for_each_version() {
    let rig = Rig::start().await;
    let (known, mut catalog) = start(&rig);
    let compiled = || crate::type_index::COMPILED.get();
    let (one, two) = (r#"{"x":[1]}"#, r#"{"x":[2]}"#);
    let before = compiled();
    rig.apply(&[("a", "push", Some(one)), ("b", "push", Some(two))]).await;
    catalog.catch_up();
    assert_eq!(compiled() - before, 2);
    for _ in 0..1_000 {
        assert_eq!(owed(&known, &event("1", "push", r#"{"x":1}"#)), Some(vec!["a".to_owned()]));
    }
    rig.apply(&[("a", "push", Some(one)), ("b", "push", Some(one))]).await;
    catalog.catch_up();
    while let Some((place, job)) = catalog.plan_merge() {
        catalog.install(place, job.run());
    }
    assert_eq!(owed(&known, &event("1", "push", r#"{"x":1}"#)).map(|names| names.len()), Some(2));
    assert_eq!(compiled() - before, 3, "only the one that was changed");
}

/// A16: a stage that runs sees a subscription before it matches an event that was accepted with it.
#[tokio::test(flavor = "multi_thread")]
async fn a16_a_running_stage_sees_changes() {
    let rig = Rig::start().await;
    let (stop, task) = rig.run();
    for n in 0..10_u64 {
        let names: Vec<String> = (0..=n).map(|n| format!("s{n}")).collect();
        let subscriptions: Vec<_> =
            names.iter().map(|n| (n.as_str(), "push", Some(r#"{"x":[1]}"#))).collect();
        let seq = rig.apply(&subscriptions).await;
        let accepted = Event { setup_seq: seq, ..event(&n.to_string(), "push", r#"{"x":1}"#) };
        rig.append(mailrail_wire::encode_event(&accepted)).await;
        wait_committed(&rig, n + 1).await;
        let got = rig.deliveries().await.iter().filter(|d| d.event.attributes.id == n.to_string()).count();
        assert_eq!(got as u64, n + 1);
    }
    stop.cancel();
    task.await.expect("stopped");
}

/// A29, A32, A49, as docs/adr/0007 decided: nothing is asked of the store for an event, so nothing of it can hang. While it is away, what is known is served, an event that was accepted
/// under a later set-up waits, and everything behind it in its partition too; then all go on, with nothing lost and nothing old.
#[tokio::test(flavor = "multi_thread")]
async fn a29_a32_without_the_store_what_is_known_is_served_and_what_is_not_waits() {
    let rig = Rig::start().await;
    let known = rig.apply(&[("a", "push", None)]).await;
    rig.stop_following.cancel();
    let later = rig.save(&[("a", "push", None), ("b", "star", None)]).await;
    assert!(later > known && rig.directory.seq() == known);
    let (stop, task) = rig.run();
    let accepted =
        |id: &str, event_type: &str, seq: u64| Event { setup_seq: seq, ..event(id, event_type, "{}") };
    let events = [("1", "push", known), ("2", "star", known), ("3", "star", later), ("4", "push", known)];
    for (id, event_type, seq) in events {
        rig.append(mailrail_wire::encode_event(&accepted(id, event_type, seq))).await;
    }
    wait_committed(&rig, 2).await;
    assert_eq!(rig.recipients().await, ["a"], "the type that is not known to be wanted is nobody's");
    assert_eq!(rig.committed().await, 2, "the third waits for its set-up");
    tokio::spawn(rig.directory.clone().follow(CancellationToken::new()));
    wait_committed(&rig, 4).await;
    assert_eq!(rig.recipients().await, ["a", "a", "b"]);
    stop.cancel();
    task.await.expect("stopped");
}
