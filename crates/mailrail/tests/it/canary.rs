//! No secret and no payload is shown to who did not ask for it: every secret is a canary, everything goes well and wrong
//! once, and then whatever the processes wrote and answered is searched for them.

mod exercise;
mod scan;
mod site;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use mailrail_log::{KafkaConfig, KafkaLog, Log as _, NewRecord};
use serde_json::Value;

use crate::fleet::until;
use crate::process::{Process, Recipe, binary};
use crate::services;
use exercise::{Planted, Shown, counted, recipients};
use scan::{Canary, Scanner};
use site::{Services, Site, check_status};

/// Longest line that a process may write.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// Endpoints whose deliveries are given up: four events, and the webhook for the second of them.
const GIVEN_UP: usize = 5;

/// The roles as processes, on real services.
fn real_services() -> Option<Services> {
    Some(Some((services::address("MAILRAIL_TEST_KAFKA")?, services::address("MAILRAIL_TEST_POSTGRES")?)))
}

/// A54, A53, N16: over everything that an operator does, no log, page, metric or topic shows a planted secret or a payload;
/// lines are bounded JSON, and those about an end name event, delivery, surface, tenant, endpoint and outcome.
#[tokio::test(flavor = "multi_thread")]
async fn a54_the_roles_show_no_secret_and_no_payload() {
    let Some(services) = real_services() else { return };
    go_through_everything(services).await;
}

/// A54, A53, N16: the same of one process on embedded parts.
#[tokio::test(flavor = "multi_thread")]
async fn a54_an_embedded_process_shows_no_secret_and_no_payload() {
    go_through_everything(None).await;
}

async fn go_through_everything(services: Services) {
    let planted = Planted::new();
    let scanner = Scanner::new(planted.all());
    let kafka = services.as_ref().map(|(kafka, _)| kafka.clone());
    let mut site = Site::start(services, "trace", &planted.admin_token, &planted.encryption_key).await;
    let mut shown = set_up(&site, &planted).await;
    let events = send(&site, &planted).await;
    shown.extend(planted.be_refused(&site).await);
    planted.rotate(&site).await;
    if let Some(kafka) = kafka {
        quarantine(&site, &kafka, &planted).await;
    }
    let letter = redrive(&site, &events["rejected"], &mut shown).await;
    shown.extend(look_at_everything(&site, &letter, &events).await);
    // Who asks for a payload gets it: the search does find what is there.
    let asked = site.ask("GET", &format!("/v1/dead-letters/{letter}?payload=true"), "").await;
    assert!(!scanner.find(&asked).is_empty(), "the payload is there for who asks: {asked}");
    site.stop().await;
    shown.extend(site.logs().into_iter().map(|(role, text)| (format!("the log of {role}"), text)));
    let leaks: Vec<String> = shown
        .iter()
        .flat_map(|(place, text)| {
            scanner.find(text).into_iter().map(move |what| format!("{place} shows {what}"))
        })
        .collect();
    assert!(leaks.is_empty(), "{} leaks:\n{}", leaks.len(), leaks.join("\n\n"));
    check_lines(&site, &events);
    check_that_the_search_finds(&scanner, &site.logs()[0].1);
}

/// One endpoint is paused before anybody may post: what is taken for it waits.
async fn set_up(site: &Site, planted: &Planted) -> Vec<Shown> {
    let setup = site.apply(&planted.setup(&recipients().await), true);
    assert!(setup.contains("created"), "{setup}");
    let paused = site.operate(&["endpoints", "pause", "acme", "leaving"]);
    assert!(paused.contains("leaving") && paused.contains("paused"), "{paused}");
    let key = site.apply(&planted.key(), true);
    let leaving = site.ask("GET", "/v1/tenants/acme/endpoints/leaving", "").await;
    assert!(leaving.contains("\"paused\":true"), "it stays paused: {leaving}");
    vec![
        ("what `apply` says of a set-up".to_owned(), setup),
        ("what `endpoints pause` says".to_owned(), paused),
        ("what `apply` says of a key".to_owned(), key),
        ("the paused endpoint".to_owned(), leaving),
    ]
}

/// An event to each endpoint and a webhook, until all came to their ends; gives the events' ids by endpoint.
async fn send(site: &Site, planted: &Planted) -> BTreeMap<&'static str, String> {
    let mut events = BTreeMap::new();
    for endpoint in ["ok", "fails", "rejected", "slow", "closed", "leaving"] {
        events.insert(endpoint, planted.post(site, endpoint).await);
    }
    planted.post_webhook(site).await;
    let given_up = async || deliveries(&letters(site).await.1, 0).len() == GIVEN_UP;
    until("four deliveries and the webhook's are given up", given_up).await;
    let delivered = "mailrail_deliver_settled_total{outcome=\"delivered\"";
    until("one is delivered", async || counted(site, delivered).await >= 1).await;
    let held = "mailrail_deliver_held_mailboxes{reason=\"paused\"";
    until("one is held back", async || counted(site, held).await >= 1).await;
    let gone = site.ask("DELETE", "/v1/tenants/acme/endpoints/leaving", "").await;
    check_status("the deletion", &gone, "204");
    let cancelled = "mailrail_deliver_settled_total{outcome=\"cancelled\"";
    until("one is cancelled", async || counted(site, cancelled).await >= 1).await;
    events
}

/// Writes a record that nobody can read to the deliveries.
async fn quarantine(site: &Site, kafka: &str, planted: &Planted) {
    let config = KafkaConfig { replication_factor: 1, min_insync_replicas: 1, ..KafkaConfig::new(kafka) };
    let log = KafkaLog::connect(config).expect("kafka");
    let value = Bytes::from(format!("\u{7f}{{\"secret\":\"{}\"}}", planted.body.text));
    for kind in ["events", "deliveries"] {
        let record = NewRecord { key: Bytes::new(), value: value.clone(), headers: Vec::new() };
        let topic = format!("{}{kind}.default", site.prefix);
        log.append(&topic, 0, vec![record]).await.expect("appended");
    }
    for counter in ["mailrail_deliver_quarantined_total", "mailrail_match_quarantined_total"] {
        until("it is in quarantine", async || counted(site, counter).await >= 1).await;
    }
}

/// The list of dead letters: the answer, and the letters in it.
async fn letters(site: &Site) -> (String, Vec<Value>) {
    let listed = site.ask("GET", "/v1/dead-letters?limit=50", "").await;
    check_status("the list of dead letters", &listed, "200");
    let mut answer: Value =
        serde_json::from_str(listed.split_once("\r\n\r\n").expect("a body").1).expect("JSON");
    let Value::Array(letters) = answer["items"].take() else { panic!("no letters in {listed}") };
    (listed, letters)
}

/// Which deliveries these letters are of that were put back so often. A delivery may be given up twice: it is at least once.
fn deliveries(letters: &[Value], redrives: u64) -> BTreeSet<&str> {
    let such = letters.iter().filter(|letter| letter["redrives"] == redrives);
    such.map(|letter| letter["delivery"].as_str().expect("a delivery")).collect()
}

/// Puts dead letters back, which die again; gives the delivery of one, which is of this event.
async fn redrive(site: &Site, event: &str, shown: &mut Vec<Shown>) -> String {
    let (listed, before) = letters(site).await;
    let rejected = before.iter().find(|it| it["event"] == event).expect("the rejected one");
    let id = rejected["delivery"].as_str().expect("a delivery").to_owned();
    shown.push(("the list of dead letters".to_owned(), listed));
    shown.push(("dlq replay".to_owned(), site.operate(&["dlq", "replay", "--all"])));
    let again = async || deliveries(&letters(site).await.1, 1).len() == GIVEN_UP;
    until("they are given up again", again).await;
    id
}

/// Every page that shows no secret or payload by what its documentation says.
async fn look_at_everything(site: &Site, letter: &str, events: &BTreeMap<&str, String>) -> Vec<Shown> {
    let mut shown = Vec::new();
    for admin in &site.admins {
        for page in ["/metrics", "/livez", "/readyz", "/"] {
            let answer = site::request(admin, "GET", page, &[], b"").await;
            check_status(page, &answer, if page == "/" { "404" } else { "200" });
            shown.push((page.to_owned(), answer));
        }
    }
    let mut paths: Vec<String> =
        ["status", "mailboxes", "dead-letters", "dead-letters/count", "dead-letters/replays"]
            .iter()
            .chain(&[
                "quarantine",
                "quarantine/0:0",
                "mailbox-classes",
                "mailbox-classes/strict",
                "shed",
                "tenants",
            ])
            .chain(&["tenants/acme", "tenants/acme/endpoints/ok", "tenants/acme/integrations/gl"])
            .map(|path| format!("/v1/{path}"))
            .collect();
    for kind in ["event-types", "apps", "endpoints", "subscriptions", "integrations", "keys"] {
        paths.push(format!("/v1/tenants/acme/{kind}"));
    }
    paths.push(format!("/v1/dead-letters/{letter}"));
    paths.push(format!("/v1/tenants/acme/deliveries/{letter}/why"));
    paths.extend(events.values().map(|event| format!("/v1/events/{event}/explain")));
    // Only where a log can be written to from outside is something in quarantine.
    let is_set_aside = counted(site, "mailrail_deliver_quarantined_total").await > 0;
    for path in paths {
        let answer = site.ask("GET", &path, "").await;
        let is_missing = path.ends_with("/quarantine/0:0") && !is_set_aside;
        check_status(&path, &answer, if is_missing { "404" } else { "200" });
        shown.push((path, answer));
    }
    for args in [
        &["status"][..],
        &["mailboxes", "--tenant", "acme"],
        &["dlq", "list"],
        &["dlq", "show", letter],
        &["dlq", "count"],
        &["dlq", "list", "--quarantine"],
        &["dlq", "replays"],
        &["why", letter, "--tenant", "acme"],
        &["classes", "list"],
        &["shed", "list"],
    ] {
        shown.push((args.join(" "), site.operate(args)));
    }
    shown
}

/// A53: lines are JSON of bounded length; those about a delivery that came to a bad end name it, and one that was delivered
/// is not spoken of at the level that is usual.
fn check_lines(site: &Site, events: &BTreeMap<&str, String>) {
    let mut ends: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (role, text) in site.logs() {
        // `dev` says where its doors are, for people.
        for line in text.lines().filter(|line| role != "dev" || line.starts_with('{')) {
            assert!(line.len() < LINE_BYTES_MAX, "{} bytes in the log of {role}: {line}", line.len());
            let line: Value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{role}: {error} in {line}"));
            assert!(line["timestamp"].is_string() && line["message"].is_string(), "{line}");
            let level = line["level"].as_str().expect("a level");
            if line["event_id"] == events["ok"].as_str() {
                assert!(matches!(level, "DEBUG" | "TRACE"), "a healthy delivery is spoken of: {line}");
            } else if line.get("delivery_id").is_some()
                && line.get("event_id").is_some()
                && !matches!(level, "DEBUG" | "TRACE")
            {
                ends.entry(line["message"].as_str().unwrap_or_default().to_owned()).or_default().push(line);
            }
        }
    }
    let distinct = |message: &str| -> BTreeSet<&str> {
        ends[message].iter().filter_map(|line| line["delivery_id"].as_str()).collect()
    };
    assert!(ends["delivery given up"].len() >= 2 * GIVEN_UP, "{ends:#?}");
    assert_eq!(distinct("delivery given up").len(), GIVEN_UP, "{ends:#?}");
    assert_eq!(distinct("delivery cancelled").len(), 1, "{ends:#?}");
    for line in ends.values().flatten() {
        let why = match line["message"].as_str() {
            Some("delivery given up" | "delivery cancelled") => Some("reason"),
            Some("delivery goes to quarantine") => Some("problem"),
            _ => None,
        };
        let fields = ["event_id", "delivery_id", "surface", "tenant", "endpoint", "outcome"];
        for field in fields.into_iter().chain(why) {
            assert!(
                line[field].as_str().is_some_and(|text| !text.is_empty()),
                "{field} is missing in {line}"
            );
        }
    }
}

/// In a copy of a log with every secret in it, in every form, each is found.
fn check_that_the_search_finds(scanner: &Scanner, log: &str) {
    let before: String = log.chars().take(100_000).collect();
    assert!(scanner.find(&before).is_empty());
    let mut leaking = before.clone();
    for (_, needle) in scanner.needles() {
        leaking += &format!("{{\"message\":\"a leak: {needle}.\"}}\n");
    }
    leaking += &before;
    let found = scanner.find(&leaking);
    let found: BTreeSet<&str> = found.iter().filter_map(|it| Some(it.split_once(": …")?.0)).collect();
    let planted: BTreeSet<&str> = scanner.needles().iter().map(|(what, _)| what.as_str()).collect();
    assert_eq!(planted.len(), scanner.needles().len(), "each has a name of its own");
    assert_eq!(found, planted);
}

/// Whether a line says that a process waits for a service.
fn is_wait_for(service: &str, line: &str) -> bool {
    serde_json::from_str(line).is_ok_and(|line: Value| {
        line["level"] == "WARN" && line["message"] == "not there yet; waiting" && line["service"] == service
    })
}

/// What a process says while it waits for services that are not there, and of settings that it refuses.
#[tokio::test(flavor = "multi_thread")]
async fn a54_no_password_of_a_service_is_shown() {
    let canary = Canary::new("the password of a service");
    let (scanner, secret) = (Scanner::new([&canary]), &canary.text);
    let folder = tempfile::tempdir().expect("folder");
    let local = format!("[log]\nkind = \"local\"\npath = \"{}\"\n", folder.path().join("log").display());
    let store = format!("[store]\nurl = \"postgres://user:{secret}@127.0.0.1:1/db\"\n");
    let here = format!("[store]\nurl = \"sqlite:{}\"\n", folder.path().join("store.db").display());
    let kafka = |property: &str| {
        format!(
            "[log]\nkind = \"kafka\"\n[log.kafka]\nbrokers = [\"127.0.0.1:1\"]\n[log.kafka.properties]\n{property}\n"
        )
    };
    let sasl = format!(
        "\"security.protocol\" = \"sasl_plaintext\"\n\"sasl.mechanism\" = \"PLAIN\"\n\"sasl.username\" = \"user\"\n\"sasl.password\" = \"{secret}\""
    );
    let redis = format!("[limits]\nredis = [\"redis://:{secret}@127.0.0.1:1/\"]\n");
    let trace = "[logs]\nfilter = \"trace\"\nlines_per_place_max = 0\n";
    let waiting = [
        ("store", format!("{local}{store}{redis}{trace}")),
        ("log", format!("{}{store}{redis}{trace}", kafka(&sasl))),
    ];
    let tls = "\"security.protocol\" = \"ssl\"";
    let refused = [
        format!("{local}[store]\nurl = \"mysql://user:{secret}@127.0.0.1/db\"\n"),
        format!("{local}[store]\nurl = [\"{secret}\"]\n"),
        // Looked at when the store is there.
        format!("{local}{here}[limits]\nredis = [\"http://:{secret}@127.0.0.1:1/\"]\n"),
        format!("{local}{store}[limits]\nredis = \"redis://:{secret}@127.0.0.1:1/\"\n"),
        format!("{}{store}", kafka(&format!("\"sasl.pasword\" = \"{secret}\""))),
        // Put into the wrong place, with SASL and without.
        format!("{}{store}", kafka(&format!("\"sasl.mechanism\" = \"{secret}\""))),
        format!("{}{store}", kafka(&sasl.replace("\"PLAIN\"", &format!("\"{secret}\"")))),
        format!("{}{store}", kafka(&sasl.replace("\"PLAIN\"", &format!("\"SCRAM-SHA-{secret}\"")))),
        format!("{}{store}", kafka(&sasl.replace("sasl_plaintext", secret))),
        // Librdkafka repeats what it cannot read.
        format!(
            "{}{store}",
            kafka(&format!(
                "{tls}\n\"ssl.keystore.location\" = \"/{secret}\"\n\"ssl.keystore.password\" = \"{secret}\""
            ))
        ),
        format!("{}{store}", kafka(&format!("{tls}\n\"ssl.key.location\" = \"{secret}\""))),
        format!("{}{store}", kafka(&format!("{tls}\n\"ssl.key.pem\" = \"{secret}\""))),
        format!("{}{store}", kafka(&format!("{tls}\n\"ssl.ca.location\" = \"/{secret}\""))),
        format!("{}{store}", kafka(&sasl).replace("127.0.0.1:1", &format!("user:{secret}@127.0.0.1:1"))),
        // Addresses that cannot be read.
        format!("{local}[store]\nurl = \"postgres://user:{secret}@127.0.0.1:port/db\"\n"),
        format!("{local}[store]\nurl = \"postgres://user:{secret}/@[::1/db\"\n"),
        format!("{local}[store]\nurl = \"postgres://user@127.0.0.1:1/db?sslmode={secret}\"\n"),
        format!("{local}{here}[limits]\nredis = [\"redis://:{secret}@127.0.0.1:port/\"]\n"),
        format!("{local}{here}[limits]\nredis = [\"redis://127.0.0.1:1/{secret}\"]\n"),
        format!("{local}{here}[telemetry.traces]\notlp_endpoint = \"http://user:{secret}@127.0.0.1:4318\"\n"),
        format!("{local}{here}[telemetry.traces]\notlp_endpoint = \"http://{secret}@[::1\"\n"),
        format!("{local}{store}[control]\ntoken = \"{secret}\"\n"),
        format!("{local}{store}[control]\nlisten = \"{secret}\"\n"),
    ];
    let env = BTreeMap::from([
        ("MAILRAIL_ADMIN_TOKEN".to_owned(), secret.clone()),
        ("MAILRAIL_ENCRYPTION_KEY".to_owned(), format!("{secret}!")),
        ("MAILRAIL__ADMIN__LISTEN".to_owned(), format!("127.0.0.1:{}", crate::rig::free_port())),
    ]);
    let good_key = data_encoding::BASE64.encode(secret.as_bytes());
    let mut shown = Vec::new();
    let all = waiting.iter().map(|(service, settings)| (Some(*service), settings));
    for (n, (service, settings)) in all.chain(refused.iter().map(|it| (None, it))).enumerate() {
        let file = folder.path().join(format!("{n}.toml"));
        std::fs::write(&file, settings).expect("settings");
        let file = file.display().to_string();
        let output = binary().args(["check-config", &file]).envs(&env).output().expect("mailrail runs");
        shown.push(
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat(),
        );
        let log = folder.path().join(format!("{n}.log"));
        let mut env = env.clone();
        env.insert("MAILRAIL_ENCRYPTION_KEY".to_owned(), good_key.clone());
        // A log on disk is for one process with every role.
        let role = if settings.contains(&local) { "all" } else { "control" };
        let args = vec![role.to_owned(), "--config".to_owned(), file];
        let process = Process::start(Recipe { name: role, args, env, log: log.clone() });
        let said = || std::fs::read_to_string(&log).unwrap_or_default();
        until(&format!("settings {n} lead to what they must"), async || match service {
            Some(service) => said().lines().any(|line| is_wait_for(service, line)),
            None => said().lines().any(|line| line.starts_with("error: ") || line.starts_with("error[")),
        })
        .await;
        drop(process);
        shown.push(said());
    }
    for text in &shown {
        assert!(scanner.find(text).is_empty(), "{:#?}\nin {text}", scanner.find(text));
    }
}
