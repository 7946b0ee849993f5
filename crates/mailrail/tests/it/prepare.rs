//! `mailrail prepare` on real services, and `mailrail health` of a real process.

use std::collections::BTreeMap;
use std::process::Output;
use std::time::Duration;

use crate::fleet::until;
use crate::process::{Process, Recipe, binary};
use crate::rig::{create_database, free_port};
use crate::services;

const KEY: &str = "0101010101010101010101010101010101010101010101010101010101010101";

fn run(args: &[&str], env: &BTreeMap<String, String>) -> Output {
    binary().args(args).env_clear().envs(env).output().expect("mailrail runs")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn environment(of: &[(&str, &str)]) -> BTreeMap<String, String> {
    of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn on(brokers: &str, store: &str, prefix: &str) -> BTreeMap<String, String> {
    environment(&[
        ("MAILRAIL__LOG__KAFKA__BROKERS", brokers),
        ("MAILRAIL__LOG__KAFKA__REPLICATION_FACTOR", "1"),
        ("MAILRAIL__LOG__KAFKA__MIN_INSYNC_REPLICAS", "1"),
        ("MAILRAIL__STORE__URL", store),
        ("MAILRAIL__TOPIC_PREFIX", prefix),
        ("MAILRAIL__PIPELINE__PARTITIONS", "3"),
        ("MAILRAIL_ENCRYPTION_KEY", KEY),
    ])
}

/// A second run changes nothing; what is not as the settings say is an error with a code, and is left as it is.
#[tokio::test]
async fn prepare_makes_what_is_missing_and_changes_nothing_that_is_there() {
    let Some(kafka) = services::address("MAILRAIL_TEST_KAFKA") else { return };
    let Some(postgres) = services::address("MAILRAIL_TEST_POSTGRES") else { return };
    let name = format!("prepare_{:08x}", rand::random::<u32>());
    create_database(&postgres, &name).await;
    let store = format!("{}/{name}", postgres.rsplit_once('/').expect("a database").0);
    let env = on(&kafka, &store, &format!("{name}."));

    let first = run(&["prepare"], &env);
    assert_eq!(first.status.code(), Some(0), "{}", said(&first));
    assert!(said(&first).contains(&format!("{name}.redrives.default")), "{}", said(&first));
    let second = run(&["prepare"], &env);
    assert_eq!((second.status.code(), &second.stdout), (Some(0), &first.stdout), "{}", said(&second));

    let mut other = env.clone();
    other.insert("MAILRAIL__PIPELINE__PARTITIONS".to_owned(), "4".to_owned());
    other.insert("MAILRAIL_ENCRYPTION_KEY".to_owned(), KEY.replace('1', "2"));
    let refused = run(&["prepare"], &other);
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    for code in ["error[topics_mismatch]: ", "error[store_wrong_key]: "] {
        assert!(said(&refused).contains(code), "all that is wrong is said: {}", said(&refused));
    }
    let third = run(&["prepare"], &env);
    assert_eq!((third.status.code(), third.stdout), (Some(0), first.stdout), "nothing was changed");
}

#[test]
fn prepare_says_what_to_change_and_what_to_try_again() {
    let nothing = run(&["prepare"], &BTreeMap::new());
    assert_eq!(nothing.status.code(), Some(1));
    assert!(said(&nothing).contains("error[settings_invalid]: "), "{}", said(&nothing));

    let mut away = on("127.0.0.1:1", "postgres://nobody@127.0.0.1:1/none", "away.");
    away.insert("MAILRAIL__LIMITS__REDIS".to_owned(), "redis://127.0.0.1:1/".to_owned());
    let away = run(&["prepare", "--wait", "1ms"], &away);
    assert_eq!(away.status.code(), Some(3), "{}", said(&away));
    for code in ["error[log_unavailable]: ", "error[store_unavailable]: ", "warning[redis_unknown]: "] {
        assert!(said(&away).contains(code), "{}", said(&away));
    }
}

#[tokio::test]
async fn health_is_that_of_the_process_at_the_admin_port() {
    let folder = tempfile::tempdir().expect("folder");
    let admin = format!("127.0.0.1:{}", free_port());
    let env = environment(&[
        ("MAILRAIL__ADMIN__LISTEN", &admin),
        ("MAILRAIL__INGEST__LISTEN", "127.0.0.1:0"),
        ("MAILRAIL__CONTROL__LISTEN", "127.0.0.1:0"),
    ]);
    let before = run(&["health"], &env);
    assert_eq!(before.status.code(), Some(1));
    assert!(said(&before).contains(&admin) && said(&before).contains("admin.listen"), "{}", said(&before));

    let data = folder.path().join("data").display().to_string();
    let args = ["dev", "--data", &data].map(str::to_owned).to_vec();
    let log = folder.path().join("dev.log");
    let dev = Process::start(Recipe { name: "dev", args, env: env.clone(), log });
    until("it is ready", async || run(&["health"], &env).status.success()).await;
    let at = run(&["health", "--address", &admin, "--live"], &BTreeMap::new());
    assert_eq!((at.status.code(), said(&at).as_str()), (Some(0), "alive\n"));

    dev.signal("STOP");
    let stuck = run(&["health", "--timeout", "200ms"], &env);
    assert_eq!(stuck.status.code(), Some(1), "{}", said(&stuck));
    assert!(said(&stuck).contains("no answer within 200ms"), "{}", said(&stuck));
    dev.signal("CONT");
    let ended = dev.stop().await;
    assert!(ended.success());
    // Nobody listens at the port any more.
    until("it is gone", async || {
        tokio::time::sleep(Duration::from_millis(20)).await;
        !run(&["health"], &env).status.success()
    })
    .await;
}
