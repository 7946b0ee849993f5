//! What deliver writes, written by hand: deliveries, the journal, attempts and positions.

use bytes::Bytes;
use mailrail_log::{Committed, GroupEvent, NewRecord, TopicSpec};
use mailrail_mailbox::{
    Aside, Backlog, Checkpoint, Claim, Cursor, DoneMap, Drained, Entry, Head, Hold, Kind, Link, Park,
    SetAside, Snapshot, State, Stretch,
};
use mailrail_types::{
    Attempt, AttemptResult, Attributes, Delivery, DeliveryId, Event, EventId, History, HoldReason, Mailbox,
    MailboxKey, Outcome, SubscriptionId, TenantId, Timestamp,
};
use serde_json::json;

use super::{Setting, document, setting_with};
use crate::Config;
use crate::mailboxes::now;

pub(super) const DELIVERIES: &str = "deliveries.default";
pub(super) const JOURNAL: &str = "journal.default";
pub(super) const ATTEMPTS: &str = "attempts.default";

/// A setting in which partition 1 is written to.
pub(super) struct Journaled {
    pub(super) setting: Setting,
    /// The claim that is written under.
    epoch: u64,
}

pub(super) const PARTITION: u32 = 1;

pub(super) fn name<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("valid")
}

pub(super) fn mailbox(endpoint: &str) -> Mailbox {
    Mailbox::from_key(&format!("default::acme:{endpoint}::0")).expect("a mailbox")
}

pub(super) fn key(endpoint: &str) -> MailboxKey {
    mailbox(endpoint).key()
}

/// The `n`th delivery of endpoint `main` or `other`.
pub(super) fn delivery(endpoint: &str, n: u64) -> Delivery {
    let tenant: TenantId = name("acme");
    let event = Event {
        id: EventId::derive(&tenant, endpoint, &n.to_string()),
        tenant: tenant.clone(),
        attributes: Attributes {
            id: n.to_string().as_str().into(),
            source: "/s".into(),
            event_type: "t".into(),
            ..Attributes::default()
        },
        ordering_key: None,
        body: Bytes::from_static(b"{\"secret\":\"body-canary\"}"),
        trace: None,
        accepted_at: Timestamp(1),
        setup_seq: 0,
        forwarded: None,
        unknown: Bytes::new(),
    };
    let subscription: SubscriptionId = name("pushes");
    Delivery {
        id: DeliveryId::derive(&event.id, &tenant, &subscription),
        event,
        app: name("shop"),
        subscription,
        endpoint: name(endpoint),
        mailbox: mailbox(endpoint),
        setup_seq: 0,
        matched_at: Timestamp(1),
        deadline: Timestamp(i64::MAX / 2),
        history: History::default(),
        unknown: Bytes::new(),
    }
}

pub(super) fn hold(reason: HoldReason, until: i64) -> Hold {
    Hold { reason, until: Timestamp(until) }
}

pub(super) fn park(endpoint: &str, source: u64, after: Option<u64>, hold: Hold) -> Kind {
    let link = after.map_or(Link::First, Link::After);
    Kind::Park(Park { mailbox: key(endpoint), source, link, hold })
}

pub(super) fn aside(endpoint: &str, source: u64, until: i64) -> Kind {
    let head = Head { source, hold: hold(HoldReason::Backoff, until), history: None };
    Kind::Aside(Aside { mailbox: key(endpoint), content: None, head })
}

pub(super) fn tried(endpoint: &str, source: u64, attempts: u32, until: i64) -> Kind {
    let history = History { attempts, last_status: Some(503), ..History::default() };
    let head = Head { source, hold: hold(HoldReason::Backoff, until), history: Some(history) };
    Kind::State(State { mailbox: key(endpoint), drained: None, head: Some(head) })
}

pub(super) fn drained(endpoint: &str, through: u64, count: u32, next: u64) -> Kind {
    let drained = Some(Drained { through, next: Cursor { at: next, epoch: 0 }, count });
    Kind::State(State { mailbox: key(endpoint), drained, head: None })
}

/// A snapshot with one stretch of `main`, from `first` through `last`, whose content begins at `at`.
pub(super) fn snapshot(first: u64, last: u64, at: u64, owed: u64, asides: &[(u64, u64)]) -> Kind {
    let stretch = Stretch { first, last, drained: None, next: Cursor { at, epoch: 0 } };
    let head = |source| Head { source, hold: hold(HoldReason::Paused, 5_000), history: None };
    let set_aside =
        |(source, content): &(u64, u64)| (*source, SetAside { content: *content, head: head(*source) });
    let asides = asides.iter().map(set_aside).collect();
    let backlog =
        Backlog { stretches: vec![stretch], head: Some(head(first)), asides, owed, ..Backlog::default() };
    let backlogs = vec![(key("main"), backlog)];
    Kind::Snapshot(Snapshot {
        part: 0,
        parts: 1,
        done_below: 0,
        mark: None,
        unclean: 0,
        trials: Default::default(),
        backlogs,
    })
}

pub(super) fn attempt(of: &Delivery, number: u32, outcome: Outcome, status: Option<u16>) -> Attempt {
    Attempt {
        delivery: of.id,
        event: of.event.id,
        tenant: of.event.tenant.clone(),
        endpoint: of.endpoint.clone(),
        subscription: of.subscription.clone(),
        number,
        started_at: Timestamp(1_000),
        duration_ms: 250,
        result: AttemptResult { status, ..AttemptResult::default() },
        outcome,
        unknown: Bytes::new(),
    }
}

impl Journaled {
    pub(super) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// With topics, a set-up, and a first claim.
    pub(super) async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let setting = setting_with(change).await;
        let applied = setting.apply(&json!({ "setup": document() })).await;
        assert_eq!(applied.status, http::StatusCode::OK, "{}", applied.text);
        let spec = |name: &str| TopicSpec { name: name.to_owned(), partitions: 3, retention: None };
        setting.log.ensure_topics(&[DELIVERIES, JOURNAL, ATTEMPTS].map(spec)).await.expect("topics");
        let mut new = Self { setting, epoch: 0 };
        new.claim().await;
        new
    }

    pub(super) async fn append(&self, topic: &str, key: &MailboxKey, value: Bytes) -> u64 {
        let record = NewRecord { key: Bytes::from(key.as_str().to_owned()), value, headers: vec![] };
        self.setting.log.append(topic, PARTITION, vec![record]).await.expect("appended")[0]
    }

    pub(super) async fn deliver(&self, delivery: &Delivery) -> u64 {
        self.append(DELIVERIES, &delivery.mailbox.key(), mailrail_wire::encode_delivery(delivery)).await
    }

    pub(super) async fn claim(&mut self) -> u64 {
        let claim =
            Entry { epoch: 0, kind: Kind::Claim(Claim { member: "test".to_owned(), nonce: 1, process: 0 }) };
        let value = mailrail_wire::encode_entry(&claim, None);
        self.epoch = self.append(JOURNAL, &MailboxKey::from_text(""), value).await;
        self.epoch
    }

    /// Writes an entry under the latest claim.
    pub(super) async fn write(&self, kind: Kind, content: Option<&Delivery>) -> u64 {
        let mailbox = match &kind {
            Kind::Park(park) => park.mailbox.clone(),
            Kind::Aside(aside) => aside.mailbox.clone(),
            _ => MailboxKey::from_text(""),
        };
        let content = content.map(mailrail_wire::encode_delivery);
        let value = mailrail_wire::encode_entry(&Entry { epoch: self.epoch, kind }, content.as_deref());
        self.append(JOURNAL, &mailbox, value).await
    }

    pub(super) async fn try_it(&self, attempt: &Attempt) {
        self.append(ATTEMPTS, &MailboxKey::from_text("m"), mailrail_wire::encode_attempt(attempt)).await;
    }

    /// Commits everything below `offset`, what is `done` beyond, and a snapshot.
    pub(super) async fn commit(&self, offset: u64, done: &[u64], snapshot: Option<u64>) {
        let member = self.setting.log.join("deliver.default", DELIVERIES).await.expect("join");
        assert!(matches!(member.next().await, Some(GroupEvent::Assigned { .. })));
        let mut map = DoneMap::new(offset);
        done.iter().for_each(|at| map.mark(*at));
        let metadata = Checkpoint { done: map, snapshot, ..Checkpoint::at(offset) }.metadata();
        member.commit(vec![(PARTITION, Committed { offset, metadata })]).await.expect("commit");
    }
}

pub(super) fn hour_ahead() -> i64 {
    now().millis() + 3_600_000
}
