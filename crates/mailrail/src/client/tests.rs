//! The commands against a control API on a socket.

use std::sync::Arc;

use mailrail_control::{Config, Operator, Pipeline, Service};
use mailrail_egress::operator::ApiClient;
use mailrail_limits::{LocalWindows, Sizer};
use mailrail_log::LocalLog;
use mailrail_store::{Directory, EncryptionKey, Store};
use mailrail_telemetry::Metrics;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::apply::{Options, apply_text};
use super::classes::{self, ClassesCommand, SetArgs};
use super::endpoints::{self, EndpointsCommand, Named};
use super::mailboxes::{self, QueueName};
use super::shed::{self, ShedCommand};
use super::unknown::unknown;
use super::why;

const TOKEN: &str = "operator-token-0123456789abcdefghij";

const SETUP: &str = "version: 1
tenants:
  - id: acme
    keys: [{id: producer}]
    apps:
      - id: shop
        endpoints:
          - {id: main, url: https://shop.example/hook}
        subscriptions:
          - {id: pushes, endpoint: main, event_types: [com.github.push]}
";

struct Control {
    api: ApiClient,
    stop: CancellationToken,
    running: JoinHandle<Result<(), mailrail_control::Error>>,
    _folder: TempDir,
}

impl Control {
    async fn start() -> Control {
        let folder = TempDir::new().expect("a folder");
        let url = format!("sqlite:{}", folder.path().join("store.db").display());
        let store = Store::open(&url, EncryptionKey::generate()).await.expect("a store");
        let directory = Directory::load(store.clone()).await.expect("a directory");
        let log = Arc::new(LocalLog::open(&folder.path().join("log.db")).expect("a log"));
        let stop = CancellationToken::new();
        tokio::spawn(Arc::clone(&directory).follow(stop.clone()));
        let operator = Operator::new("admin", TOKEN).expect("a strong token");
        let config = Config::new(vec![operator], vec![Pipeline::named("", "default", 2)]);
        let any_url = Arc::new(|url: &str| Ok(url.to_owned()));
        let sizer = Sizer::new(Arc::new(LocalWindows::new()), crate::assemble::clock());
        let metrics = Metrics::new();
        let service =
            Service::new(config, store, directory, log, any_url, sizer, &metrics).expect("a service");
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let running = tokio::spawn(service.run(listener, stop.clone()));
        let api = ApiClient::new(&address, Some(TOKEN)).expect("a client");
        Control { api, stop, running, _folder: folder }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.running.await.expect("no panic").expect("a clean end");
    }
}

#[tokio::test]
async fn a_file_is_applied_and_applied_again() {
    let control = Control::start().await;
    let answer = apply_text(&control.api, "f.yaml", SETUP, Options::default()).await.expect("applied");
    assert_eq!(answer["counts"]["tenants"]["created"], 1);
    assert!(answer["keys"][0]["token"].as_str().is_some_and(|token| token.starts_with("mrk_")));
    assert!(answer["secrets"][0]["secret"].as_str().is_some_and(|secret| secret.starts_with("whsec_")));
    let options = Options { prune: true, dry_run: false };
    let again = apply_text(&control.api, "f.yaml", SETUP, options).await.expect("applied");
    for kind in ["tenants", "keys", "apps", "endpoints", "subscriptions"] {
        assert_eq!(again["counts"][kind]["unchanged"], 1, "{kind}: {again}");
    }
    assert_eq!(again["secrets"], serde_json::json!([]));
    let status = control.api.get("/v1/status").await.expect("a status");
    let status: mailrail_control::Status = serde_json::from_value(status).expect("the shape that is printed");
    assert_eq!(status.pipelines[0].events.waiting, None, "there are no topics");
    control.stop().await;
}

#[tokio::test]
async fn refusals_name_file_and_line() {
    let control = Control::start().await;
    let bad = SETUP.replace("endpoint: main", "endpoint: mian").replace("id: acme", "id: Acme");
    let error =
        apply_text(&control.api, "f.yaml", &bad, Options::default()).await.expect_err("refused").to_string();
    assert!(error.contains("  f.yaml:3: tenants[0].id: ") && error.contains("(invalid_id)"), "{error}");
    let bad =
        SETUP.replace("endpoint: main", "endpoint: mian").replace("id: pushes", "id: pushes, colour: red");
    let error =
        apply_text(&control.api, "f.yaml", &bad, Options::default()).await.expect_err("refused").to_string();
    assert!(
        error.contains("  f.yaml:10: ")
            && error.contains("(unknown_endpoint)")
            && error.contains("(unknown_field)"),
        "{error}"
    );
    control.stop().await;
}

#[tokio::test]
async fn classes_are_listed_set_and_deleted() {
    let control = Control::start().await;
    let set = |id: &str, tolerates_reordering, threads| {
        ClassesCommand::Set(SetArgs {
            id: id.to_owned(),
            tolerates_reordering,
            threads,
            payloads_per_thread: None,
            buckets_max: None,
            fixed_buckets: None,
            priority: threads.map(|_| 2),
        })
    };
    let ask = async |command| classes::answer(&control.api, &command).await;
    let class = ask(set("tolerant", None, Some(9))).await.expect("changed");
    assert_eq!((&class["threads"], &class["payloads_per_thread"]), (&9.into(), &4.into()));
    assert_eq!(class["priority"], 2);
    ask(set("bulk", Some(true), None)).await.expect("created");
    let list = ask(ClassesCommand::List).await.expect("a list");
    assert_eq!(list["items"].as_array().map(Vec::len), Some(3));
    for (command, says) in [
        (set("tolerant", None, Some(0)), "(invalid_class)"),
        (set("new", None, None), "(missing_field)"),
        (set("../tenants", Some(true), None), "(invalid_id)"),
        (ClassesCommand::Delete { id: "strict".to_owned() }, "(conflict)"),
    ] {
        let error = ask(command).await.expect_err(says).to_string();
        assert!(error.contains(says), "{error}");
    }
    assert!(ask(ClassesCommand::Delete { id: "bulk".to_owned() }).await.expect("deleted").is_null());
    control.stop().await;
}

#[tokio::test]
async fn endpoints_are_listed_paused_and_resumed() {
    let control = Control::start().await;
    let two =
        "{id: main, url: https://shop.example/hook}\n          - {id: second, url: https://shop.example/2}";
    let setup = SETUP.replace("{id: main, url: https://shop.example/hook}", two);
    apply_text(&control.api, "f.yaml", &setup, Options::default()).await.expect("applied");
    let named =
        |tenant: &str, endpoint: &str| Named { tenant: tenant.to_owned(), endpoint: endpoint.to_owned() };
    let ask = async |command| endpoints::answer(&control.api, &command).await;
    let list = || EndpointsCommand::List { tenant: "acme".to_owned() };
    let paused = |list: &serde_json::Value| -> Vec<(String, bool)> {
        let items = list["items"].as_array().expect("a list");
        let text = |item: &serde_json::Value| item["id"].as_str().expect("an id").to_owned();
        items.iter().map(|item| (text(item), item["paused"] == true)).collect()
    };
    let both = |main| [("main".to_owned(), main), ("second".to_owned(), false)];
    for _ in 0..2 {
        let answer = ask(EndpointsCommand::Pause(named("acme", "main"))).await.expect("paused");
        assert_eq!((&answer["paused"], &answer["paused_by"]), (&true.into(), &"admin".into()));
    }
    let whole = ask(list()).await.expect("a list");
    assert_eq!(paused(&whole), both(true));
    assert_eq!(endpoints::list(&control.api, "acme", 1).await.expect("a list"), whole, "page by page");
    for _ in 0..2 {
        let answer = ask(EndpointsCommand::Resume(named("acme", "main"))).await.expect("resumed");
        assert_eq!(answer["paused"], false);
    }
    assert_eq!(paused(&ask(list()).await.expect("a list")), both(false));
    for command in [
        EndpointsCommand::Pause(named("acme", "gone")),
        EndpointsCommand::Resume(named("nobody", "main")),
        EndpointsCommand::Pause(named("acme", "../../acme")),
        EndpointsCommand::List { tenant: "nobody".to_owned() },
    ] {
        let error = ask(command).await.expect_err("nothing of that name").to_string();
        assert!(error.contains("(not_found)"), "{error}");
    }
    control.stop().await;
}

#[tokio::test]
async fn mailboxes_are_what_is_printed() {
    let control = Control::start().await;
    for queue in [QueueName::Recipient, QueueName::Source] {
        let answer = control.api.get(&mailboxes::path(queue, Some("acme"), 10)).await.expect("a list");
        let text = mailboxes::shown(&answer).expect("the shape that is printed");
        assert!(
            text.contains("0 waiting in 0 mailbox(es)") && text.contains("not known everywhere: "),
            "{text}"
        );
    }
    let bad =
        control.api.get(&mailboxes::path(QueueName::Source, Some("A"), 10)).await.expect_err("no tenant");
    assert_eq!(bad.code, "invalid_request");
    control.stop().await;
}

#[tokio::test]
async fn why_is_what_is_printed() {
    let control = Control::start().await;
    apply_text(&control.api, "f.yaml", SETUP, Options::default()).await.expect("applied");
    let id = "dlv_iyygiqs6wlo4ua36axol474yee";
    for mailbox in [None, Some("default::acme:main::0")] {
        let answer = control.api.get(&why::path("acme", id, mailbox)).await.expect("an answer");
        let text = why::shown(&answer).expect("the shape that is printed");
        assert!(text.starts_with(&format!("{id} was not found\n")), "{text}");
        assert!(text.contains("  looked at  0 records; not everywhere: "), "{text}");
    }
    for (tenant, delivery) in [("nobody", id), ("acme", "dlv_x"), ("acme", "../endpoints/main")] {
        let error =
            control.api.get(&why::path(tenant, delivery, None)).await.expect_err("nothing of that name");
        assert_eq!(error.code, "not_found");
    }
    control.stop().await;
}

#[tokio::test]
async fn a_filter_that_names_what_is_not_set_up_is_warned_of_and_not_put_back() {
    let control = Control::start().await;
    apply_text(&control.api, "f.yaml", SETUP, Options::default()).await.expect("applied");
    for (tenant, endpoint, code) in [
        (Some("acme"), None, None),
        (Some("acme"), Some("main"), None),
        (None, None, None),
        (Some("acmee"), None, Some("unknown_tenant")),
        (Some("acmee"), Some("main"), Some("unknown_tenant")),
        (Some("acme"), Some("mian"), Some("unknown_endpoint")),
    ] {
        let warned = unknown(&control.api, tenant, endpoint).await.map(|(code, _)| code);
        assert_eq!(warned, code, "{tenant:?} {endpoint:?}");
        let order = serde_json::json!({ "filter": { "tenant": tenant, "endpoint": endpoint } });
        if let Some(code) = code {
            let refused = control.api.post("/v1/dead-letters/replays", &order).await.expect_err("refused");
            assert_eq!((refused.status, refused.code.as_str()), (Some(422), code));
        }
    }
    control.stop().await;
}

#[tokio::test]
async fn s36_shed_rules_are_set_and_cleared() {
    let control = Control::start().await;
    let ask = async |command| shed::answer(&control.api, &command).await;
    let rules = |texts: &[&str]| ShedCommand::Set {
        rules: texts.iter().map(|text| text.parse().expect("a rule")).collect(),
    };
    let set = ask(rules(&["github/acme", "jira"])).await.expect("set");
    assert_eq!(set["rules"].as_array().map(Vec::len), Some(2));
    let error = ask(rules(&["githbu"])).await.expect_err("a typo").to_string();
    assert!(error.contains("'githbu'") && error.contains("(unknown_provider)"), "{error}");
    assert_eq!(ask(ShedCommand::List).await.expect("a list"), set, "the typo changed nothing");
    assert_eq!(ask(ShedCommand::Clear).await.expect("cleared")["rules"], serde_json::json!([]));
    control.stop().await;
}
