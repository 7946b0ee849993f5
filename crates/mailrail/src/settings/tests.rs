//! Settings from files and environments, good and bad.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn env(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn key() -> String {
    data_encoding::BASE64.encode(&[7; 32])
}

/// A file in a folder that lives as long as the first value.
fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("mailrail.toml");
    std::fs::write(&path, text).expect("can be written");
    (folder, path)
}

/// The problems of loading `text`, without the folder's name.
fn problems(text: &str, pairs: &[(&str, &str)]) -> Vec<String> {
    let (folder, path) = file(text);
    let error = Settings::load(Some(&path), env(pairs)).expect_err("must be refused");
    let folder = format!("{}/", folder.path().display());
    error.to_string().lines().map(|line| line.replace(&folder, "")).collect()
}

#[test]
fn nothing_set_gives_the_defaults() {
    let settings = Settings::load(None, env(&[("PATH", "/bin"), ("MAILRAIL_SERVICE_HOST", "10.0.0.1")]));
    assert_eq!(settings, Ok(Settings::default()));
}

#[test]
fn the_environment_wins_over_the_file_over_the_defaults() {
    let text = "topic_prefix = \"a.\"\n[deliver]\nattempt_timeout = \"10s\"\nwindow_bytes = 1000\n[log.kafka]\nbrokers = [\"x:1\"]\n\
                [log.kafka.properties]\n\"security.protocol\" = \"SSL\"\n";
    let (_folder, path) = file(text);
    let pairs = [
        ("MAILRAIL__DELIVER__WINDOW_BYTES", "16MiB"),
        ("MAILRAIL__DELIVER__RETRY__DELAYS", "1s, 2m"),
        ("MAILRAIL__PIPELINE__PARTITIONS", "12"),
        ("MAILRAIL__EGRESS__ALLOW_HTTP", "true"),
        ("MAILRAIL__EGRESS__ALLOW_CIDRS", "10.0.0.0/8,fd00::/8"),
        ("MAILRAIL__LOG__KAFKA__BROKERS", "b1:9092,b2:9092"),
        ("MAILRAIL__LOG__KAFKA__CLIENT_ID", "17"),
        ("MAILRAIL__LOG__KAFKA__PROPERTIES__SASL_PASSWORD", "canary"),
        ("MAILRAIL__LOGS__FORMAT", "json"),
    ];
    let settings = Settings::load(Some(&path), env(&pairs)).expect("good");
    assert_eq!(settings.topic_prefix, "a.");
    assert_eq!(settings.deliver.attempt_timeout, Duration::from_secs(10));
    assert_eq!(settings.deliver.window_bytes, 16 * 1024 * 1024);
    assert_eq!(settings.deliver.window_records, 2000);
    assert_eq!(settings.deliver.retry.delays, [Duration::from_secs(1), Duration::from_secs(120)]);
    assert_eq!(settings.pipeline.partitions, 12);
    assert!(settings.egress.allow_http);
    assert_eq!(settings.egress.allow_cidrs.len(), 2);
    assert_eq!(settings.log.kafka.brokers, ["b1:9092", "b2:9092"]);
    assert_eq!(settings.log.kafka.client_id, "17", "a text that looks like a number stays a text");
    let properties: Vec<_> =
        settings.log.kafka.properties.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(properties, [("sasl.password", "canary"), ("security.protocol", "SSL")]);
    assert_eq!(settings.logs.format, sections::LogFormatSetting::Json);
}

#[test]
fn every_unknown_key_is_named_with_its_line_and_the_nearest_known_one() {
    let text = "topic_prefix = \"\"\n\n[ingset]\nlisten = \"127.0.0.1:1\"\n[deliver]\natempt_timeout = \"3s\"\nzebra = 1\n\
                [ingest]\nreplication_factor = 3\n";
    assert_eq!(
        problems(text, &[]),
        [
            "mailrail.toml:3: unknown key 'ingset': did you mean 'ingest'?",
            "mailrail.toml:6: unknown key 'deliver.atempt_timeout': did you mean 'deliver.attempt_timeout'?",
            "mailrail.toml:7: unknown key 'deliver.zebra': see docs/reference/settings.md for the keys there are",
            "mailrail.toml:9: unknown key 'ingest.replication_factor': did you mean 'log.kafka.replication_factor'?",
        ]
    );
}

#[test]
fn every_value_of_the_wrong_type_is_named_with_its_line() {
    let text = "ingest.listen = \"localhost\"\n[deliver]\nattempt_timeout = \"30\"\nwindow_records = \"many\"\n[log]\n\
                kind = \"rabbit\"\n[log.kafka.properties]\n\"sasl.password\" = 1234567\n[egress]\nallow_cidrs = [\"10.0.0.0\"]\n";
    let found = problems(text, &[]);
    assert_eq!(found.len(), 6, "{found:#?}");
    for (line, start, part) in [
        (0, "mailrail.toml:1: ingest.listen: ", "write it as in \"127.0.0.1:8080\""),
        (1, "mailrail.toml:3: deliver.attempt_timeout: ", "'30' is not a duration"),
        (2, "mailrail.toml:4: deliver.window_records: ", "write a whole number"),
        (3, "mailrail.toml:6: log.kind: ", "`kafka`"),
        (4, "mailrail.toml:8: log.kafka.properties.sasl.password ", "put it in quotes"),
        (5, "mailrail.toml:10: egress.allow_cidrs: ", "write it as in \"10.0.0.0/8\""),
    ] {
        assert!(found[line].starts_with(start) && found[line].contains(part), "{}", found[line]);
    }
    assert!(!found.join("\n").contains("1234567"), "a secret is never shown");
}

#[test]
fn a_file_that_is_not_toml_is_refused_with_its_line() {
    let found = problems("[ingest]\nlisten = \n", &[]);
    assert!(found[0].starts_with("mailrail.toml:2: "), "{found:?}");
    let found = problems("[ingest]\n[ingest]\n", &[]);
    assert!(found[0].starts_with("mailrail.toml:2: ") && found[0].contains("duplicate"), "{found:?}");
    let found = problems("ingest = 3\n", &[]);
    assert_eq!(found, ["mailrail.toml:1: 'ingest' is a section: write [ingest] and its keys below it"]);
    let missing = Settings::load(Some(Path::new("no/such.toml")), env(&[])).expect_err("no file");
    assert!(missing.to_string().starts_with("no/such.toml: cannot read the file"), "{missing}");
}

#[test]
fn a_bad_variable_is_named() {
    let pairs = [
        ("MAILRAIL__DELIVER__ATTEMPT_TIMEOUT", "soon"),
        ("MAILRAIL__EGRESS__ALLOW_HTTP", "yes"),
        ("MAILRAIL__INGEST__LISTN", "127.0.0.1:1"),
        ("MAILRAIL__LOG__KAFKA__PROPERTIES", "a=b"),
        ("MAILRAIL__PIPELINE__PARTITIONS", "-"),
        ("MAILRAIL__QUUX", "1"),
    ];
    let error = Settings::load(None, env(&pairs)).expect_err("must be refused").to_string();
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), pairs.len(), "{error}");
    for (line, (name, _)) in lines.iter().zip(pairs) {
        assert!(line.starts_with(&format!("environment variable {name}: ")), "{line}");
    }
    assert!(lines[0].contains("'soon' is not a duration"), "{error}");
    assert!(lines[1].ends_with("'yes' is not 'true' or 'false'"), "{error}");
    assert!(lines[2].ends_with("unknown setting: did you mean MAILRAIL__INGEST__LISTEN?"), "{error}");
}

#[test]
fn n16_secrets_come_from_variable_or_file_and_are_never_printed() {
    let (folder, path) = file("[control]\ntoken_file = \"token\"\n");
    let token = folder.path().join("token");
    std::fs::write(&token, format!("{TOKEN}\n")).expect("can be written");
    std::fs::write(&path, format!("control.token_file = {:?}\n", token.display().to_string()))
        .expect("can be written");
    let pairs = [
        ("MAILRAIL_ENCRYPTION_KEY", key()),
        ("MAILRAIL__STORE__URL", "postgres://rail:canary@db/rail?password=canary".to_owned()),
        ("MAILRAIL__LOG__KAFKA__PROPERTIES__SSL_KEY_PASSWORD", "canary".to_owned()),
    ];
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let settings = Settings::load(Some(&path), env(&pairs)).expect("good");
    assert_eq!(settings.control.token.as_ref().map(SecretText::expose), Some(TOKEN));
    let shown = format!("{settings:?}");
    for secret in [TOKEN, &key(), "canary"] {
        assert!(!shown.contains(secret), "{secret} is shown in {shown}");
    }
    std::fs::remove_file(&token).expect("exists");
    let error = Settings::load(Some(&path), env(&[])).expect_err("the token's file is gone").to_string();
    assert!(error.contains("mailrail.toml:1: control.token_file: cannot read"), "{error}");
    let mut over = pairs;
    over.push(("MAILRAIL_ADMIN_TOKEN", TOKEN));
    assert!(Settings::load(Some(&path), env(&over)).is_ok(), "the variable wins over the file");
}

/// What is needed for every role to start.
fn production() -> Settings {
    let mut settings = Settings::default();
    settings.log.kafka.brokers = vec!["broker:9092".to_owned()];
    settings.store.url = "postgres://db/rail".to_owned();
    settings.store.encryption_key = Some(SecretText::new(key()));
    settings.control.token = Some(SecretText::new(TOKEN.to_owned()));
    settings
}

#[test]
fn a_complete_set_is_valid_for_every_role() {
    for role in [Role::Ingest, Role::Match, Role::Deliver, Role::Control, Role::All] {
        assert_eq!(production().validate(role), Ok(()), "{role:?}");
    }
    assert_eq!(Settings::dev(Path::new("data")).validate(Role::Dev), Ok(()));
}

#[test]
fn a_role_needs_only_its_own_part() {
    let mut settings = production();
    settings.control.token = None;
    assert_eq!(settings.validate(Role::Deliver), Ok(()));
    assert!(settings.validate(Role::Control).is_err());
    settings.ingest.listen = settings.admin.listen;
    assert_eq!(settings.validate(Role::Deliver), Ok(()));
    assert!(settings.validate(Role::Ingest).is_err());
    let mut local = Settings::dev(Path::new("data"));
    local.store.encryption_key = Some(SecretText::new(key()));
    assert_eq!(local.validate(Role::Deliver).expect_err("one process").problems.len(), 1);
}

#[test]
fn defaults_alone_are_refused_with_what_to_set() {
    let error = Settings::default().validate(Role::All).expect_err("nothing is set").to_string();
    for part in [
        "log.kafka.brokers is empty",
        "store.url is not set",
        "MAILRAIL_ENCRYPTION_KEY",
        "MAILRAIL_ADMIN_TOKEN",
    ] {
        assert!(error.contains(part), "{part} is missing in\n{error}");
    }
}

/// Each wrong value alone is refused, and the message names its key.
#[test]
fn each_rule_refuses_its_violation() {
    type Break = fn(&mut Settings);
    let rules: &[(&str, Break)] = &[
        ("topic_prefix", |s| s.topic_prefix = "a/".to_owned()),
        ("topic_prefix", |s| {
            s.limits.redis = vec!["redis://127.0.0.1:6379/".to_owned()];
            s.topic_prefix = "a".repeat(65);
        }),
        ("region", |s| s.region = "eu west".to_owned()),
        ("region", |s| s.region = "e".repeat(65)),
        ("pipeline.name", |s| s.pipeline.name = "a.b".to_owned()),
        ("pipeline.name", |s| s.pipeline.name = String::new()),
        ("pipeline.partitions", |s| s.pipeline.partitions = 0),
        ("pipeline.partitions", |s| s.pipeline.partitions = 1025),
        ("pipeline.retention.events", |s| s.pipeline.retention.events = Duration::ZERO),
        ("pipeline.retention.deliveries", |s| s.pipeline.retention.deliveries = s.deliver.delivery_deadline),
        ("log.kafka.brokers", |s| s.log.kafka.brokers = vec!["broker".to_owned()]),
        ("log.kafka.min_insync_replicas", |s| s.log.kafka.min_insync_replicas = 4),
        ("log.kafka.session_timeout", |s| s.log.kafka.session_timeout = Duration::from_secs(39)),
        ("log.kafka.properties.acks", |s| {
            s.log.kafka.properties.insert("acks".to_owned(), "1".to_owned());
        }),
        ("log.kafka.properties.sasl.mechanism", |s| {
            s.log.kafka.properties.insert("sasl.mechanism".to_owned(), "plain".to_owned());
        }),
        ("log.kafka.properties.security.protocol", |s| {
            s.log.kafka.properties.insert("security.protocol".to_owned(), "SASL_SSL".to_owned());
        }),
        ("log.kafka.brokers", |s| s.log.kafka.brokers = vec!["user:password@broker:9092".to_owned()]),
        ("control.scan_records_max", |s| s.control.scan_records_max = 999),
        ("control.why_records_max", |s| s.control.why_records_max = 0),
        ("control.why_timeout", |s| s.control.why_timeout = Duration::from_secs(26)),
        ("store.url", |s| s.store.url = "mysql://db".to_owned()),
        ("store.url", |s| s.store.url = "postgres://user:canary@db:port/rail".to_owned()),
        ("store.url", |s| s.store.url = "sqlite:".to_owned()),
        ("limits.redis", |s| s.limits.redis = vec!["http://:canary@127.0.0.1/".to_owned()]),
        ("limits.redis", |s| s.limits.redis = vec!["redis://:canary@127.0.0.1:port/".to_owned()]),
        ("limits.redis", |s| {
            s.limits.redis = vec!["redis://127.0.0.1:1/".to_owned(), "127.0.0.1:2".to_owned()];
        }),
        ("logs.filter", |s| s.logs.filter = "mailrail_deliver=loud".to_owned()),
        ("logs.filter", |s| s.logs.filter = "inof".to_owned()),
        ("store.encryption_key_file", |s| s.store.encryption_key = Some(SecretText::new("short".to_owned()))),
        ("control.token_file", |s| s.control.token = Some(SecretText::new(TOKEN[1..].to_owned()))),
        ("ingest.body_limit_bytes", |s| s.ingest.body_limit_bytes = 0),
        ("ingest.batch_events_max", |s| s.ingest.batch_events_max = 1001),
        ("deliver.window_bytes", |s| s.deliver.window_bytes = s.ingest.body_limit_bytes - 1),
        ("deliver.window_records", |s| s.deliver.window_records = 0),
        ("deliver.attempts_in_flight_max", |s| s.deliver.attempts_in_flight_max = 0),
        ("deliver.drain", |s| s.deliver.drain = Duration::from_secs(9)),
        ("deliver.window_records", |s| s.deliver.window_records = 8193),
        ("deliver.commit_interval", |s| s.deliver.commit_interval = Duration::from_secs(6)),
        ("deliver.retry.delays", |s| s.deliver.retry.delays = vec![Duration::from_secs(86_400); 5]),
        ("deliver.retry.delays", |s| s.deliver.retry.delays = vec![Duration::from_secs(1); 200]),
        ("deliver.retry.delays", |s| s.deliver.retry.delays = vec![Duration::from_secs(1), Duration::ZERO]),
        ("egress.ca_file", |s| s.egress.ca_file = Some("no/such.pem".into())),
        ("egress.ca_file", |s| {
            s.egress.ca_file = Some(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml").into());
        }),
        ("ingest.listen", |s| s.ingest.listen = s.control.listen),
    ];
    for (key, broken) in rules {
        let mut settings = production();
        broken(&mut settings);
        let problems = settings.validate(Role::All).expect_err(key).problems;
        let all: Vec<&str> = problems.iter().map(|p| p.message.as_str()).collect();
        assert_eq!(all.len(), 1, "{key}: {all:#?}");
        assert!(all[0].starts_with(&format!("{key} ")) && !all[0].contains("canary"), "{}", all[0]);
    }
}

/// What is made before any role runs is refused there, too.
#[test]
fn prepare_refuses_what_the_roles_would() {
    let mut settings = production();
    assert_eq!(settings.validate_prepare(), Ok(()));
    settings.limits.redis = vec!["rdis://127.0.0.1:6379/".to_owned()];
    settings.logs.filter = "inof".to_owned();
    assert_eq!(settings.validate_prepare().expect_err("two").problems.len(), 2);
}

#[test]
fn a_failed_rule_points_at_the_line_that_broke_it() {
    let (_folder, path) = file("[pipeline]\npartitions = 5000\n");
    let pairs = [("MAILRAIL__LOG__KAFKA__PROPERTIES__ACKS", "1")];
    let settings = Settings::load(Some(&path), env(&pairs)).expect("types are right");
    let error = settings.validate(Role::All).expect_err("rules are broken").to_string();
    assert!(error.contains("mailrail.toml:2: pipeline.partitions is 5000"), "{error}");
    assert!(
        error.contains(
            "environment variable MAILRAIL__LOG__KAFKA__PROPERTIES__ACKS: log.kafka.properties.acks"
        ),
        "{error}"
    );
}

#[test]
fn dev_settings_can_be_overlaid() {
    let dev = Settings::dev(Path::new("data"));
    let pairs = env(&[("MAILRAIL__INGEST__LISTEN", "127.0.0.1:9000")]);
    let settings = dev.clone().overlaid(None, pairs).expect("good");
    assert_eq!(settings.ingest.listen.port(), 9000);
    assert_eq!((&settings.log, &settings.egress, settings.pipeline.partitions), (&dev.log, &dev.egress, 8));
}

/// N19 in spirit: the reference names every key that a file can hold, with its default, and no key twice.
#[test]
fn the_reference_is_complete() {
    let page = reference();
    let written = toml::Table::try_from(Settings::default()).expect("can be written");
    let mut keys = Vec::new();
    leaves("", &written, &mut keys);
    for key in keys {
        let variable = format!("| `{}` |", schema::env_name(&key));
        assert_eq!(page.matches(&variable).count(), 1, "{variable} in\n{page}");
    }
    for row in [
        "| `partitions` | integer | `64` |",
        "| `attempt_timeout` | duration | `\"30s\"` |",
        "| `window_bytes` | size | `\"8MiB\"` |",
        "| `kind` | `kafka` or `local` | `\"kafka\"` |",
        "| `ca_file` | text | *unset* |",
        "| `brokers` | list | *empty* |",
        "| `preset` | `standard` or `sentry` | `\"standard\"` |",
    ] {
        assert!(page.contains(row), "{row} is missing in\n{page}");
    }
}

fn leaves(at: &str, table: &toml::Table, keys: &mut Vec<String>) {
    for (name, value) in table {
        let key = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        match value {
            toml::Value::Table(inner) if !key.ends_with(".properties") => leaves(&key, inner, keys),
            _ => keys.push(key),
        }
    }
}

/// The file that docs/operate/first-steps.md starts with.
#[test]
fn the_file_beside_the_compose_file_is_valid() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/compose/mailrail.toml");
    let key = key();
    let pairs = [("MAILRAIL_ENCRYPTION_KEY", key.as_str()), ("MAILRAIL_ADMIN_TOKEN", TOKEN)];
    let settings = Settings::load(Some(&path), env(&pairs)).expect("can be read");
    assert_eq!(settings.validate(Role::All), Ok(()));
}
