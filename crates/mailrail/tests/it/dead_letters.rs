//! Dead letters put back by real processes that are killed meanwhile: each letter once, same ids, order kept.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::{Command, Output};

use mailrail_types::DeliveryId;
use serde_json::Value;

use crate::feed::Ends;
use crate::fleet::{Fleet, Plan, sized, until};
use crate::history::{End, Owed};
use crate::process::binary;
use crate::rig::{Place, Rig, TENANTS};

/// No breaker opens: every delivery of the endpoint is given up at its first attempt.
const NO_BREAKER: &str = "breaker_failures = 0";
/// What a killed replay is waited for is this and a margin.
const DELIVERY_TIMEOUT: (&str, &str) = ("MAILRAIL__LOG__KAFKA__DELIVERY_TIMEOUT", "3s");

/// `mailrail dlq … --from-topic` with the settings of the processes.
fn from_topic(settings: &Path, args: &[&str]) -> Command {
    let mut command = binary();
    command.arg("dlq").args(args).args(["--from-topic", "--output", "json", "--config"]).arg(settings);
    command.env(DELIVERY_TIMEOUT.0, DELIVERY_TIMEOUT.1).env("USER", "alice").env_remove("HOSTNAME");
    command
}

fn json(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// An endpoint that refuses everything, and as many dead letters.
async fn with_letters(count: u64) -> Option<(Fleet, Vec<Owed>)> {
    let plan = Plan { deliver: NO_BREAKER, ..Plan::new(&[("shop", "status=404", "strict")]) };
    let fleet = Fleet::start(plan).await?;
    let mut feeder = fleet.feeder();
    feeder.feed("shop", 0..10, count / 10).await;
    let mut ends = fleet.ends();
    fleet.wait_ended(&mut ends, feeder.owed.len()).await;
    fleet.receiver.set_behaviour("shop", "ok".parse().expect("a script")).expect("an endpoint");
    Some((fleet, feeder.owed))
}

/// Deliveries that were put back, by id.
async fn put_back(fleet: &Fleet) -> HashMap<DeliveryId, Vec<u32>> {
    let mut all: HashMap<DeliveryId, Vec<u32>> = HashMap::new();
    fleet
        .tail("deliveries")
        .catch_up(|_, record| {
            let delivery = mailrail_wire::decode_delivery(&record.value).expect("a delivery");
            if delivery.history.redrives > 0 {
                all.entry(delivery.id).or_default().push(delivery.history.redrives);
            }
        })
        .await;
    all
}

/// Each was put back once, was taken once, and those of a key in their order.
async fn check(fleet: &Fleet, owed: &[Owed]) {
    let back = put_back(fleet).await;
    assert_eq!(back.len(), owed.len(), "every letter was put back");
    assert!(owed.iter().all(|it| back.get(&it.id).is_some_and(|times| times == &[1])), "once");
    let taken: Vec<_> = fleet.receiver.receipts().into_iter().filter(|it| it.is_accepted()).collect();
    assert_eq!(taken.len(), owed.len(), "{} taken", taken.len());
    let places: HashMap<String, (&str, u64)> =
        owed.iter().map(|it| (it.id.to_string(), (it.key.as_str(), it.sequence))).collect();
    let mut heads: BTreeMap<&str, u64> = BTreeMap::new();
    for receipt in &taken {
        let (key, sequence) = places[&receipt.webhook_id];
        let next = heads.entry(key).or_default();
        assert_eq!(sequence, *next, "{key} is in order");
        *next += 1;
        assert_eq!(receipt.attempt, Some(1), "all attempts are before it again");
    }
    assert!(heads.values().all(|next| *next == owed.len() as u64 / 10), "{heads:?}");
}

/// A47: ten thousand letters, straight from the topic; the replaying process is killed in the middle, and started
/// again.
#[tokio::test(flavor = "multi_thread")]
async fn dlq_ten_thousand_letters_survive_a_kill_of_the_replaying_process() {
    let Some((fleet, owed)) = with_letters(10_000).await else { return };
    let count = json(&from_topic(fleet.settings(), &["count"]).output().expect("it runs"));
    assert_eq!((&count["letters"], &count["redriven"]), (&10_000.into(), &0.into()), "{count}");
    let dry = json(&from_topic(fleet.settings(), &["replay", "--dry-run"]).output().expect("it runs"));
    assert_eq!(dry["would_redrive"], 10_000, "{dry}");

    let replay = ["replay", "--all", "--rate", "2000/s"];
    let mut killed = from_topic(fleet.settings(), &replay)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it runs");
    fleet.wait_received(10_000 + 3_000).await;
    killed.kill().expect("killed");
    killed.wait().expect("reaped");
    let before = put_back(&fleet).await.len();
    assert!((3_000..10_000).contains(&before), "{before}: it was in the middle");

    // Run again: what was begun goes on first, and nothing is left for the second one.
    let settings = fleet.settings().to_owned();
    let second =
        tokio::task::spawn_blocking(move || from_topic(&settings, &replay).output().expect("it runs"));
    let second = json(&second.await.expect("it ends"));
    assert_eq!(
        (&second["state"], &second["redriven"], &second["skipped"]),
        (&"done".into(), &0.into(), &10_000.into())
    );
    let replays = json(&from_topic(fleet.settings(), &["replays"]).output().expect("it runs"));
    let first = &replays["items"][1];
    assert_eq!(
        (&first["state"], &first["redriven"], &first["by"]),
        (&"done".into(), &10_000.into(), &"alice".into())
    );
    fleet.wait_received(20_000).await;
    check(&fleet, &owed).await;
}

/// A47: the same over the control API, whose process is killed: the one that is started in its place carries the replay on.
#[tokio::test(flavor = "multi_thread")]
async fn dlq_a_replay_survives_a_kill_of_the_control_api() {
    let letters = sized(2_000, 10_000);
    let Some((mut fleet, owed)) = with_letters(letters).await else { return };
    let rate = (letters / 5).to_string();
    fleet.operate(&["dlq", "replay", "--tenant", "acme", "--detach", "--rate", &rate]).await;
    fleet.wait_received(letters + letters / 4).await;
    // Kills the one that runs.
    fleet.make_topics().await;
    let over = async || {
        let replays = fleet.control(http::Method::GET, "/v1/dead-letters/replays").await;
        replays["items"][0]["state"] == "done"
    };
    until("the replay is over", over).await;
    fleet.wait_received(2 * letters).await;
    fleet.operate(&["dlq", "replay", "--all", "--rate", "10000"]).await;
    let replays = fleet.control(http::Method::GET, "/v1/dead-letters/replays").await;
    let counts =
        |at: usize| (replays["items"][at]["redriven"].as_u64(), replays["items"][at]["skipped"].as_u64());
    assert_eq!((counts(0), counts(1)), ((Some(0), Some(letters)), (Some(letters), Some(0))), "{replays}");
    check(&fleet, &owed).await;
}

fn is_cancelled(ends: &Ends, owed: &Owed) -> bool {
    ends.of.get(&owed.id).is_some_and(|of| of.contains(&End::Cancelled))
}

/// A replay whose endpoint still fails ends in the dead letters once more, once; one whose endpoint is gone is cancelled.
#[tokio::test(flavor = "multi_thread")]
async fn dlq_what_still_fails_dies_once_more_and_what_is_gone_is_cancelled() {
    let Some((fleet, owed)) = with_letters(100).await else { return };
    let refuses = || "status=404".parse().expect("a script");
    fleet.receiver.set_behaviour("shop", refuses()).expect("an endpoint");
    fleet.operate(&["dlq", "replay", "--all", "--rate", "10000"]).await;
    fleet.wait_received(200).await;
    let count = async || fleet.control(http::Method::GET, "/v1/dead-letters/count").await;
    until("all have died again", async || count().await["letters"] == 200).await;
    assert_eq!(count().await["redriven"], 100);
    fleet.control(http::Method::DELETE, "/v1/tenants/acme/endpoints/shop").await;
    // Until deliver has heard of it: then one that is new is cancelled.
    let (mut probes, mut ends) = (fleet.feeder(), fleet.ends());
    let heard = async || {
        probes.feed("shop", 90..91, 1).await;
        ends.catch_up().await;
        probes.owed.iter().any(|it| is_cancelled(&ends, it))
    };
    until("deliver has heard of it", heard).await;
    fleet.operate(&["dlq", "replay", "--all", "--rate", "10000"]).await;
    let mut ends = fleet.ends();
    let all_cancelled = async || {
        ends.catch_up().await;
        owed.iter().all(|it| is_cancelled(&ends, it))
    };
    until("all are cancelled, with a record each", all_cancelled).await;
    let of_owed = |id: &str| owed.iter().any(|it| it.id.to_string() == id);
    let requests = fleet.receiver.receipts().into_iter().filter(|it| of_owed(&it.webhook_id));
    assert_eq!(requests.count(), 200, "none was sent a third time");
    let mut letters = 0;
    let count_owed = |_, record: &mailrail_log::StoredRecord| {
        let letter = mailrail_wire::decode_dead_letter(&record.value).expect("a letter");
        letters += usize::from(owed.iter().any(|it| it.id == letter.delivery.id));
    };
    fleet.tail("dead-letters").catch_up(count_owed).await;
    assert_eq!(letters, 200, "and none died a third time");
}

/// `mailrail dev`: the same on the local log, killed in the middle; and straight from its folder when it is stopped.
#[tokio::test(flavor = "multi_thread")]
async fn dlq_on_dev_a_replay_survives_a_kill_and_the_log_is_read_without_it() {
    let mut rig = Rig::start(Place::Embedded).await;
    let accepted = rig.produce_key("thing".to_owned(), 200).await.expect("produced");
    let letters = 100;
    let of_picky = ["--tenant", TENANTS[0], "--endpoint", "picky"];
    let count = |rig: &Rig| rig.ask(&[&["dlq", "count"], &of_picky[..]].concat());
    until("the odd ones are given up", async || count(&rig)["letters"] == letters).await;
    rig.receiver.set_behaviour("acme-picky", "ok".parse().expect("a script")).expect("an endpoint");
    rig.operate(&[&["dlq", "replay", "--rate", "40", "--detach"], &of_picky[..]].concat());
    let redriven = |rig: &Rig| rig.ask(&["dlq", "replays"])["items"][0]["redriven"].as_u64();
    until("it is in the middle", async || redriven(&rig) > Some(20)).await;
    rig.processes[0].kill_and_restart();
    let state = async || {
        // It does not answer while it starts.
        let mut command = binary();
        command.args([
            "dlq",
            "replays",
            "--output",
            "json",
            "--url",
            rig.control(),
            "--token",
            crate::rig::TOKEN,
        ]);
        let output = command.output().expect("it runs");
        let replays: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        replays["items"][0]["state"] == "done"
    };
    until("the replay is over", state).await;
    assert_eq!(redriven(&rig), Some(letters));
    let second = rig.ask(&[&["dlq", "replay", "--rate", "1000"], &of_picky[..]].concat());
    assert_eq!((&second["redriven"], &second["skipped"]), (&0.into(), &letters.into()), "{second}");

    let (settings, data) = (rig.folder().join("mailrail.toml"), rig.folder().join("data"));
    let stopped =
        |args: &[&str]| from_topic(&settings, args).arg("--data").arg(&data).output().expect("it runs");
    let refused = stopped(&["count"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("leave --from-topic out"), "{said}");
    rig.stop_all().await;
    let alone = json(&stopped(&[&["count"], &of_picky[..]].concat()));
    assert_eq!((&alone["letters"], &alone["redriven"]), (&letters.into(), &letters.into()), "{alone}");
    let third = json(&stopped(&["replay", "--all", "--rate", "1000"]));
    assert_eq!((&third["redriven"], &third["skipped"]), (&0.into(), &letters.into()), "{third}");

    let mut back: HashMap<DeliveryId, u32> = HashMap::new();
    let mut order = Vec::new();
    for delivery in rig.deliveries().await.into_iter().filter(|it| it.history.redrives > 0) {
        *back.entry(delivery.id).or_default() += 1;
        order.push(delivery.event.attributes.id.clone());
    }
    assert!(back.len() as u64 == letters && back.values().all(|times| *times == 1), "once each");
    let wanted = accepted.iter().filter(|it| it.sequence % 2 == 1).map(|it| format!("thing-{}", it.sequence));
    assert!(order.iter().cloned().eq(wanted), "in order: {order:?}");
}

/// Bad input is refused before anything is asked, and says what to change.
#[test]
fn dlq_bad_input_is_refused() {
    for (args, says) in [
        (&["list", "--endpoint", "main"][..], "--tenant"),
        (&["list", "--since", "yesterday"], "write a time such as"),
        (&["replay", "--all", "--rate", "0"], "1 to 10000 letters per second"),
        (&["list", "--reason", "tired", "--token", "x"], "(invalid_filter)"),
        (&["list", "--data", "x", "--token", "x"], "--data goes with --from-topic"),
        (&["replay", "--from-topic", "--detach"], "--detach"),
        (&["list", "--from-topic", "--data", "no-such-folder"], "there is no local log in no-such-folder"),
        (&["list", "--from-topic"], "log.kafka.brokers"),
    ] {
        let output = binary().arg("dlq").args(args).env_clear().output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(says), "{args:?}: {said}");
    }
}

/// A broker that is not there is said so, with a code, and soon.
#[test]
fn dlq_a_log_that_is_away_is_said_so() {
    let mut command = binary();
    command
        .args(["dlq", "list", "--from-topic"])
        .env_clear()
        .env("MAILRAIL__LOG__KAFKA__BROKERS", "127.0.0.1:1");
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("(log_unavailable)"), "{said}");
}
