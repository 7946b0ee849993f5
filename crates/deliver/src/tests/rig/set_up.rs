//! What the tenant has set up, and changes to it.

use std::time::Duration;

use mailrail_store::TenantSetup;
use mailrail_types::{App, Endpoint, FilterErrorPolicy, Subscription, Tenant};

use super::{Rig, name};

impl Rig {
    /// The mailboxes of both endpoints tolerate reordering.
    pub(in crate::tests) async fn tolerant(mut self) -> Self {
        self.class = "tolerant";
        self.apply(&["sub"]).await;
        self
    }

    pub(in crate::tests) async fn add_subscription(&self, id: &str) {
        self.apply(&["sub", id]).await;
    }

    /// What is tried longer at the head of a strict mailbox is given up.
    pub(in crate::tests) async fn with_head_max_age(mut self, max: Duration) -> Self {
        self.head_max_age = Some(max);
        self.apply(&["sub"]).await;
        self
    }

    /// At most so many attempts at the same time, and so many a second, of each endpoint.
    pub(in crate::tests) async fn with_limits(
        mut self,
        in_flight: Option<u32>,
        per_second: Option<u32>,
    ) -> Self {
        self.limits = (in_flight, per_second);
        self.apply(&["sub"]).await;
        self
    }

    /// Every endpoint gets another secret.
    pub(in crate::tests) async fn rotate_secret(&mut self) {
        self.secret = mailrail_sign::secret_from_bytes(&[8; 32]);
        self.apply(&["sub"]).await;
    }

    pub(in crate::tests) async fn pause(&self) {
        let seq = self.store.pause_endpoint(&name("acme"), &name("main"), "test").await.expect("paused");
        self.directory.reached(seq).await;
    }

    pub(in crate::tests) async fn resume(&self) {
        let seq = self.store.resume_endpoint(&name("acme"), &name("main")).await.expect("resumed");
        self.directory.reached(seq).await;
    }

    /// Deletes the subscription, and with it what is owed to it.
    pub(in crate::tests) async fn unsubscribe(&self) {
        let setup = TenantSetup { subscriptions: Vec::new(), ..self.setup(&[]) };
        let applied = self.store.apply(&[setup], true).await.expect("applied");
        self.directory.reached(applied.seq).await;
    }

    pub(super) async fn apply(&self, subscriptions: &[&str]) {
        let applied = self.store.apply(&[self.setup(subscriptions)], false).await.expect("applied");
        self.directory.reached(applied.seq).await;
    }

    fn setup(&self, subscriptions: &[&str]) -> TenantSetup {
        let endpoint = |id: &str| Endpoint {
            id: name(id),
            app: name("app"),
            url: self.receiver.url(id),
            secrets: vec![self.secret.clone()],
            headers: vec![("x-team".to_owned(), "pay".to_owned())],
            class: name(self.class),
            timeout: None,
            head_max_age: self.head_max_age,
            max_in_flight: self.limits.0,
            rate_per_second: self.limits.1,
            paused: false,
        };
        let subscription = |id: &&str| Subscription {
            id: name(id),
            app: name("app"),
            endpoint: name("main"),
            event_types: vec!["t".to_owned()],
            filter: None,
            on_filter_error: FilterErrorPolicy::default(),
        };
        TenantSetup {
            apps: vec![App { id: name("app"), name: String::new(), permissions: Default::default() }],
            endpoints: vec![endpoint("main").into(), endpoint("other").into()],
            subscriptions: subscriptions.iter().map(subscription).collect(),
            ..TenantSetup::new(Tenant { id: name("acme"), name: String::new(), source_class: name("strict") })
        }
    }
}
