//! What a fleet is made of: its recipients, its settings, and its receiver.

use mailrail_demo::receiver::{Receiver, ReceiverEndpoint, ReceiverHandle, ReceiverSettings, json_order};
use tokio::net::TcpListener;

use crate::rig::{create_database, secret};

/// Receipts of the longest run.
const RECEIPTS_MAX: usize = 4_000_000;
/// What the settings ask for.
const SESSION_BEYOND_ATTEMPT: u32 = 10;
/// The key of whoever posts events.
pub(crate) const PRODUCER_KEY: &str = "integration-test-key-of-the-producer";

/// An endpoint: its name, how it answers, and the class of its mailboxes.
pub(crate) type Recipient = (&'static str, &'static str, &'static str);

/// What a fleet is made of.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) recipients: Vec<Recipient>,
    pub(crate) partitions: u32,
    pub(crate) delivers: usize,
    pub(crate) retry_delays: &'static str,
    /// Seconds that an attempt may take; the session is as short as that lets it be.
    pub(crate) attempt_seconds: u32,
    /// Seconds by which the session is longer: 5 more than the lease.
    pub(crate) session_beyond_attempt: u32,
    /// Whether deliver processes keep their names over restarts.
    pub(crate) named: bool,
    /// More lines of `[deliver]`.
    pub(crate) deliver: &'static str,
    /// Brokers, when they are not the ones that all tests share; and how many copies there are.
    pub(crate) brokers: Option<String>,
    pub(crate) copies: u16,
}

impl Plan {
    pub(crate) fn new(recipients: &[Recipient]) -> Self {
        Self {
            recipients: recipients.to_vec(),
            partitions: 4,
            delivers: 1,
            retry_delays: r#"["50ms", "100ms", "200ms", "200ms"]"#,
            attempt_seconds: 2,
            session_beyond_attempt: SESSION_BEYOND_ATTEMPT,
            named: false,
            deliver: "",
            brokers: None,
            copies: 1,
        }
    }
}

/// The session is as short as the attempt's timeout lets it be: what a kill takes away comes back within it.
pub(super) async fn settings(plan: &Plan, kafka: &str, postgres: &str, prefix: &str, control: u16) -> String {
    let database = format!("fleet_{:08x}", rand::random::<u32>());
    create_database(postgres, &database).await;
    let store = postgres.rsplit_once('/').expect("a database").0;
    let brokers: Vec<String> = kafka.split(',').map(|broker| format!("\"{broker}\"")).collect();
    let (copies, in_sync) = (plan.copies, plan.copies.saturating_sub(1).max(1));
    let Plan { partitions, retry_delays, deliver, attempt_seconds, session_beyond_attempt, .. } = plan;
    let session_seconds = attempt_seconds + session_beyond_attempt;
    format!(
        "topic_prefix = \"{prefix}\"\n[pipeline]\npartitions = {partitions}\n\
         [control]\nlisten = \"127.0.0.1:{control}\"\n\
         [deliver]\nattempt_timeout = \"{attempt_seconds}s\"\ncommit_interval = \"100ms\"\nretry.delays = {retry_delays}\n{deliver}\n\
         [egress]\nallow_http = true\nallow_cidrs = [\"127.0.0.0/8\"]\n[logs]\nfilter = \"info\"\n\
         [store]\nurl = \"{store}/{database}\"\n[log]\nkind = \"kafka\"\n[log.kafka]\nbrokers = [{}]\n\
         replication_factor = {copies}\nmin_insync_replicas = {in_sync}\nsession_timeout = \"{session_seconds}s\"\n",
        brokers.join(", ")
    )
}

pub(super) async fn start_receiver(plan: &Plan) -> ReceiverHandle {
    let endpoints = plan.recipients.iter().map(|(name, script, _)| ReceiverEndpoint {
        name: (*name).to_owned(),
        secret: secret(),
        behaviour: script.parse().expect("a script"),
    });
    let mut settings = ReceiverSettings::new(endpoints.collect());
    settings.order_of = Some(json_order("key", "seq"));
    settings.receipts_max = RECEIPTS_MAX;
    settings.deliveries_max = RECEIPTS_MAX;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
    Receiver::start(listener, settings).expect("receiver")
}
