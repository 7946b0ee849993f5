//! An empty database for one test, a look behind the store's back, and set-ups to put into it.

use std::sync::Arc;
use std::time::Duration;

use mailrail_store::{
    Directory, EncryptionKey, EndpointSetup, Error, KeySetup, Store, TenantSetup, TenantView,
};
use mailrail_types::{
    App, AppId, ClassId, Endpoint, EndpointId, EventType, FilterErrorPolicy, FilterLanguage, FilterSource,
    Integration, IntegrationId, KeyId, MailboxClass, Provider, Secret, Subscription, SubscriptionId, Tenant,
    TenantId,
};
use sqlx::{AnyPool, AssertSqlSafe};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Ends a test that hangs; never decides whether one passes.
const HANG: Duration = Duration::from_secs(30);

pub(crate) struct Base {
    pub(crate) url: String,
    pub(crate) dir: Option<TempDir>,
    key: EncryptionKey,
    schema: String,
}

impl Base {
    pub(crate) fn sqlite() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}", dir.path().join("store #1.db").display());
        Self { url, dir: Some(dir), key: EncryptionKey::generate(), schema: String::new() }
    }

    /// A schema of its own; `None`, with a line that says so, when no Postgres was given.
    pub(crate) async fn postgres() -> Option<Self> {
        let Ok(server) = std::env::var("MAILRAIL_TEST_POSTGRES") else {
            assert!(
                std::env::var("MAILRAIL_TEST_REQUIRE").as_deref() != Ok("1"),
                "MAILRAIL_TEST_REQUIRE is 1 but MAILRAIL_TEST_POSTGRES is not set"
            );
            println!("skipped: MAILRAIL_TEST_POSTGRES is not set");
            return None;
        };
        let schema = format!("t_{}", &EncryptionKey::generate().expose_hex()[..16]);
        let joint = if server.contains('?') { '&' } else { '?' };
        let url = format!("{server}{joint}options=-c%20search_path%3D{schema}&application_name={schema}");
        let base = Self { url, dir: None, key: EncryptionKey::generate(), schema };
        base.raw(&format!("CREATE SCHEMA {}", base.schema)).await;
        Some(base)
    }

    /// Only after success: a failed test leaves its schema for a look.
    pub(crate) async fn remove(self) {
        self.raw(&format!("DROP SCHEMA {} CASCADE", self.schema)).await;
    }

    pub(crate) async fn open(&self) -> Store {
        self.try_open(self.key.clone()).await.expect("the store opens")
    }

    pub(crate) async fn try_open(&self, key: EncryptionKey) -> Result<Store, Error> {
        Store::open(&self.url, key).await
    }

    /// Connections that know nothing of the store.
    pub(crate) async fn pool(&self) -> AnyPool {
        sqlx::any::install_default_drivers();
        let mut url = self.url.replace('#', "%23").replace(' ', "%20");
        if self.dir.is_some() {
            url.push_str("?mode=rwc");
        }
        AnyPool::connect(&url).await.expect("a connection")
    }

    /// Runs SQL behind the store's back.
    pub(crate) async fn raw(&self, sql: &str) {
        let pool = self.pool().await;
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&pool).await.expect(sql);
        pool.close().await;
    }

    /// Cuts every connection of the store, as a fail-over does. Postgres only.
    pub(crate) async fn cut_connections(&self) {
        let pool = self.pool().await;
        let others = "SELECT COUNT(pg_terminate_backend(pid)) AS n FROM pg_stat_activity \
                      WHERE application_name = $1 AND pid <> pg_backend_pid()";
        let cut: i64 = sqlx::query_scalar(others).bind(&self.schema).fetch_one(&pool).await.expect("cuts");
        assert!(cut > 0, "there was no connection to cut");
        pool.close().await;
    }

    /// One number by SQL behind the store's back.
    pub(crate) async fn number(&self, sql: &'static str) -> i64 {
        let pool = self.pool().await;
        let number = sqlx::query_scalar(sql).fetch_one(&pool).await.expect(sql);
        pool.close().await;
        number
    }
}

/// A directory that follows until it is dropped.
pub(crate) struct Following {
    pub(crate) directory: Arc<Directory>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Following {
    pub(crate) async fn start(store: Store) -> Self {
        Self::of(Directory::load(store).await.expect("the directory loads"))
    }

    pub(crate) fn of(directory: Arc<Directory>) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(Arc::clone(&directory).follow(stop.clone()));
        Self { directory, stop, task }
    }

    pub(crate) async fn reached(&self, seq: u64) {
        not_hanging(self.directory.reached(seq)).await;
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        not_hanging(self.task).await.expect("following ends");
    }
}

pub(crate) async fn not_hanging<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, what).await.expect("does not hang")
}

/// Returns once `condition` holds.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    not_hanging(async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

pub(crate) fn tenant(id: &str) -> TenantId {
    TenantId::new(id).expect("valid")
}

pub(crate) fn endpoint_id(id: &str) -> EndpointId {
    EndpointId::new(id).expect("valid")
}

pub(crate) fn app(id: &str) -> App {
    let permissions = [format!("{id} é"), "all".to_owned()].into();
    App { id: AppId::new(id).expect("valid"), name: format!("app {id}"), permissions }
}

pub(crate) fn endpoint(id: &str, app: &str, secrets: &[&str]) -> EndpointSetup {
    Endpoint {
        id: endpoint_id(id),
        app: AppId::new(app).expect("valid"),
        url: format!("https://example.com/{id}"),
        secrets: secrets.iter().map(|text| Secret::new((*text).to_owned())).collect(),
        headers: vec![("X-Team".to_owned(), "a \"b\"".to_owned()), ("X-Team".to_owned(), String::new())],
        class: ClassId::of(MailboxClass::TOLERANT),
        timeout: Some(Duration::from_millis(2500)),
        head_max_age: Some(Duration::from_secs(3600)),
        max_in_flight: Some(4),
        rate_per_second: Some(50),
        paused: false,
    }
    .into()
}

pub(crate) fn subscription(id: &str, app: &str, endpoint: &str, event_types: &[&str]) -> Subscription {
    Subscription {
        id: SubscriptionId::new(id).expect("valid"),
        app: AppId::new(app).expect("valid"),
        endpoint: endpoint_id(endpoint),
        event_types: event_types.iter().map(|name| (*name).to_owned()).collect(),
        filter: None,
        on_filter_error: FilterErrorPolicy::default(),
    }
}

pub(crate) fn integration(id: &str, cells: &[&str], secrets: &[&str]) -> Integration {
    Integration {
        id: IntegrationId::new(id).expect("valid"),
        provider: Provider::GitHub,
        secrets: secrets.iter().map(|text| Secret::new((*text).to_owned())).collect(),
        cells: cells.iter().map(|cell| endpoint_id(cell)).collect(),
        class: None,
    }
}

pub(crate) fn key(id: &str, token: &str) -> KeySetup {
    KeySetup { id: KeyId::new(id).expect("valid"), token: token.to_owned() }
}

/// A token that differs for each `n`.
pub(crate) fn token(n: u32) -> String {
    format!("token-of-thirty-two-characters-{n:04}")
}

pub(crate) fn empty(id: &str) -> TenantSetup {
    let source_class = ClassId::of(MailboxClass::STRICT);
    TenantSetup::new(Tenant { id: tenant(id), name: format!("Tenant {id} é"), source_class })
}

/// A tenant with something of every kind, and every optional part once with and once without.
pub(crate) fn full(id: &str, token: &str) -> TenantSetup {
    let mut plain = endpoint("plain", "shop", &["whsec_one"]);
    (plain.endpoint.timeout, plain.endpoint.head_max_age) = (None, None);
    (plain.endpoint.max_in_flight, plain.endpoint.rate_per_second) = (None, None);
    plain.endpoint.headers.clear();
    plain.endpoint.class = ClassId::of(MailboxClass::STRICT);
    let mut forwarded = integration("github", &["plain", "hook"], &["inbound_new", "inbound_old"]);
    forwarded.class = Some(ClassId::of(MailboxClass::STRICT));
    let mut filtered = subscription("filtered", "shop", "hook", &["repo.pushed", "repo.deleted"]);
    filtered.filter =
        Some(FilterSource { language: FilterLanguage::Pattern, text: r#"{"data":{"a":["é"]}}"#.to_owned() });
    filtered.on_filter_error = FilterErrorPolicy::DeliverAndCount;
    TenantSetup {
        event_types: vec![
            EventType {
                name: "repo.pushed".to_owned(),
                ordering_key: Some("$.items[0].sku".parse().expect("a path")),
            },
            EventType { name: "repo.deleted".to_owned(), ordering_key: None },
        ],
        apps: vec![app("shop"), app("audit")],
        endpoints: vec![endpoint("hook", "shop", &["whsec_new", "whsec_old"]), plain],
        subscriptions: vec![filtered, subscription("all", "shop", "plain", &["repo.pushed", "repo.pushed"])],
        integrations: vec![forwarded, integration("open", &[], &[])],
        keys: vec![key("main", token)],
        ..empty(id)
    }
}

/// A view must be what the set-up says (the set-up's secrets given in full).
pub(crate) fn assert_view(view: &TenantView, setup: &TenantSetup) {
    assert_eq!(view.tenant, setup.tenant);
    assert_eq!(view.event_types.len(), setup.event_types.len());
    for event_type in &setup.event_types {
        assert_eq!(view.event_types.get(&event_type.name), Some(event_type));
    }
    assert_eq!(view.apps.len(), setup.apps.len());
    for app in &setup.apps {
        assert_eq!(view.apps.get(&app.id), Some(app));
    }
    assert_eq!(view.endpoints.len(), setup.endpoints.len());
    for EndpointSetup { endpoint } in &setup.endpoints {
        let stored = view.endpoints.get(&endpoint.id).expect("the endpoint");
        // Not assert_eq on the whole: an endpoint's debug text hides its parts.
        assert!(**stored == *endpoint, "endpoint {} differs", endpoint.id);
    }
    assert_eq!(view.subscriptions.len(), setup.subscriptions.len());
    for subscription in &setup.subscriptions {
        assert_eq!(view.subscriptions.get(&subscription.id).map(|s| &**s), Some(subscription));
    }
    assert_eq!(view.integrations.len(), setup.integrations.len());
    for integration in &setup.integrations {
        assert_eq!(view.integrations.get(&integration.id).map(|i| &**i), Some(integration));
    }
}
