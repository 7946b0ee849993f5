//! What the group says, damaged by hand; topics made anew: nothing is skipped in silence.

use std::time::Duration;

use mailrail_log::{Committed, GroupEvent};

use crate::brokers::kafka_tool;
use crate::fleet::{Fleet, Plan, until, until_within};
use crate::history::Budget;
use crate::services;

const RECIPIENTS: [(&str, &str, &str); 2] = [("well", "ok", "strict"), ("dead", "status=503", "strict")];
const DELAYS: &str = r#"["1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s",
    "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1s", "1h"]"#;

/// From the start of a process to the alarm: a takeover, and the asks whether the group really has no position. Or from a topic made
/// anew to the alarm of a process that runs: it looks every 30 s.
const STANDS_STILL_MAX: Duration = Duration::from_secs(120);

impl Fleet {
    /// Writes these commits as the group would, while no process is in it.
    async fn commit_by_hand(&self, metadata: impl Fn(u32, &Committed) -> Committed) {
        let (group, topic) = (self.group(), self.topic("deliveries"));
        let member = self.log.join(&group, &topic).await.expect("joined");
        let mut owned = Vec::new();
        while owned.len() < self.plan.partitions as usize {
            match member.next().await.expect("an event") {
                GroupEvent::Assigned { partitions, .. } => owned.extend(partitions),
                other => panic!("{other:?}"),
            }
        }
        let mut commits = Vec::new();
        for partition in owned {
            let was =
                self.log.committed(&group, &topic, partition).await.expect("an answer").expect("a commit");
            commits.push((partition, metadata(partition, &was)));
        }
        member.commit(commits).await.expect("committed");
        member.leave().await;
    }

    /// The same, and every process stops.
    async fn stop_with_a_backlog(&mut self, feeder: &mut crate::feed::Feeder) {
        self.have_a_backlog(feeder).await;
        self.stop(self.members.len()).await;
    }

    /// Delivers something to everybody, and leaves a backlog behind the dead one.
    async fn have_a_backlog(&mut self, feeder: &mut crate::feed::Feeder) {
        feeder.feed("dead", 0..10, 30).await;
        feeder.feed("well", 0..10, 30).await;
        until("the healthy one has everything and the rest is held", async || {
            self.receiver.snapshot().endpoints["well"].delivered == 300
                && self.progress().await.iter().all(|(committed, high)| committed == high)
        })
        .await;
    }

    async fn go_on(&mut self, feeder: &mut crate::feed::Feeder) {
        feeder.feed("well", 0..10, 10).await;
        self.receiver.set_behaviour("dead", "ok".parse().expect("a script")).expect("an endpoint");
        self.add();
    }

    /// Waits until every partition stands still, and checks that it says so and sends nothing.
    async fn stands_still(&mut self) {
        let received = self.receiver.snapshot().total.received;
        self.add();
        self.stops().await;
        assert_eq!(self.receiver.snapshot().total.received, received, "nothing is sent");
    }

    /// Waits until every partition of the newest member stands still, and checks that it says so.
    async fn stops(&mut self) {
        let (member, all) = (self.members.len() - 1, self.plan.partitions);
        until_within(STANDS_STILL_MAX, "every partition stands still", async || {
            let readiness = self.page(member, "/readyz").await;
            readiness.starts_with("HTTP/1.1 503") && readiness.contains(&format!("{all} stand still"))
        })
        .await;
        assert!(self.logs().contains("partition stopped"), "{}", self.logs());
    }
}

async fn start() -> Option<Fleet> {
    Fleet::start(Plan { retry_delays: DELAYS, ..Plan::new(&RECIPIENTS) }).await
}

/// I2: metadata that is not ours marks nothing: everything from the offset on is replayed, and what the journal holds is
/// not parked again.
#[tokio::test(flavor = "multi_thread")]
async fn i02_garbled_commit_metadata_repeats_and_loses_nothing() {
    let Some(mut fleet) = start().await else { return };
    let mut feeder = fleet.feeder();
    fleet.stop_with_a_backlog(&mut feeder).await;
    let garbage = ["", "garbage", "mr2:00000000:-:-:-:////", "\u{1F4A9}"];
    fleet
        .commit_by_hand(|partition, was| Committed {
            offset: was.offset,
            metadata: garbage[partition as usize % garbage.len()].to_owned(),
        })
        .await;
    fleet.go_on(&mut feeder).await;
    fleet.close(vec![feeder], &Budget::none()).await;
}

/// I15: a group that forgot its position goes on where the journal says that it was.
#[tokio::test(flavor = "multi_thread")]
async fn i15_a_removed_committed_offset_skips_and_repeats_nothing_that_the_journal_knows() {
    let Some(mut fleet) = start().await else { return };
    let mut feeder = fleet.feeder();
    fleet.stop_with_a_backlog(&mut feeder).await;
    let kafka = services::address("MAILRAIL_TEST_KAFKA").expect("kafka");
    let (group, topic) = (fleet.group(), fleet.topic("deliveries"));
    let arguments = ["--delete-offsets", "--group", &group, "--topic", &topic];
    // The coordinator deletes nothing while it has not noticed yet that the last member left.
    until("the group forgot", async || {
        kafka_tool("consumer.group.ConsumerGroupCommand", &kafka, &arguments).await;
        fleet.log.committed(&group, &topic, 0).await.expect("an answer").is_none()
    })
    .await;
    fleet.forget_commits();
    fleet.go_on(&mut feeder).await;
    // The last word of the owner told the journal where it was.
    fleet.close(vec![feeder], &Budget::none()).await;
}

/// I15: a deliveries topic that was made anew, empty, with fewer records, or with more: every partition stops and says so.
async fn a_topic_made_anew_stops_every_partition(refill: Option<u64>) {
    let Some(mut fleet) = start().await else { return };
    let mut feeder = fleet.feeder();
    fleet.stop_with_a_backlog(&mut feeder).await;
    let kafka = services::address("MAILRAIL_TEST_KAFKA").expect("kafka");
    let topic = fleet.topic("deliveries");
    kafka_tool("TopicCommand", &kafka, &["--delete", "--topic", &topic]).await;
    until("the topic is gone", async || fleet.log.bounds(&topic, 0).await.is_err()).await;
    fleet.make_topics().await;
    if let Some(count) = refill {
        fleet.feeder().feed("well", 0..10, count).await;
        fleet.feeder().feed("dead", 0..10, count).await;
    }
    fleet.stands_still().await;
    fleet.stop(fleet.members.len()).await;
}

/// I15: the same under a process that runs, and whose position exists in the new topic too: whether the group notices that the topic
/// was gone and takes the partitions away for a while, or each partition notices that its topic is another one.
#[tokio::test(flavor = "multi_thread")]
async fn i15_a_deliveries_topic_made_anew_under_running_processes_stops_every_partition() {
    let Some(mut fleet) = start().await else { return };
    let mut feeder = fleet.feeder();
    fleet.have_a_backlog(&mut feeder).await;
    let kafka = services::address("MAILRAIL_TEST_KAFKA").expect("kafka");
    let topic = fleet.topic("deliveries");
    kafka_tool("TopicCommand", &kafka, &["--delete", "--topic", &topic]).await;
    until("the topic is gone", async || fleet.log.bounds(&topic, 0).await.is_err()).await;
    fleet.make_topics().await;
    fleet.feeder().feed("well", 0..10, 100).await;
    fleet.feeder().feed("dead", 0..10, 100).await;
    fleet.stops().await;
    // Nor does the next owner take what it finds for the topic that was read.
    fleet.stop(1).await;
    fleet.stands_still().await;
    fleet.stop(fleet.members.len()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i15_a_deliveries_topic_made_anew_and_empty_stops_every_partition() {
    a_topic_made_anew_stops_every_partition(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i15_a_deliveries_topic_made_anew_with_fewer_records_stops_every_partition() {
    a_topic_made_anew_stops_every_partition(Some(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i15_a_deliveries_topic_made_anew_with_more_records_stops_every_partition() {
    a_topic_made_anew_stops_every_partition(Some(100)).await;
}
