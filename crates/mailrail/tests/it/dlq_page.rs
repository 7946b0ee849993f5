//! Every command of the page on dead letters, as it stands there, on `mailrail dev` and on processes with Kafka.

use std::process::Command;

use serde_json::Value;

use crate::fleet::until;
use crate::process::binary;
use crate::rig::{Place, Rig, TENANTS, TOKEN};
use crate::services;

const PAGE: &str = include_str!("../../../../docs/operate/dead-letters.md");

/// The endpoint that gives some of its mail up.
const PICKY: &str = "picky";

/// Commands of the page, without comments.
fn commands() -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let mut in_shell = false;
    for line in PAGE.lines() {
        match line {
            "```sh" => in_shell = true,
            "```" => in_shell = false,
            _ if in_shell => {
                let command = line.split_once('#').map_or(line, |(command, _)| command);
                commands.push(command.split_whitespace().map(str::to_owned).collect());
            }
            _ => {}
        }
    }
    commands
}

/// What the page gives as examples, as it is here.
struct Here {
    delivery: String,
    position: String,
}

impl Here {
    fn with(&self, word: &str, replay: &str) -> String {
        match word {
            _ if word.starts_with("dlv_") => self.delivery.clone(),
            _ if word.starts_with("rpl_") => replay.to_owned(),
            "3:1204" => self.position.clone(),
            // The page's endpoint. Letters are put back for one that is set up.
            "main" => PICKY.to_owned(),
            _ => word.to_owned(),
        }
    }
}

fn run(rig: &Rig, words: &[String]) -> (bool, String) {
    assert_eq!(words[0], "mailrail", "{words:?}");
    let mut command: Command = binary();
    command.args(&words[1..]).current_dir(rig.folder());
    command.env("MAILRAIL_CONTROL_URL", rig.control()).env("MAILRAIL_ADMIN_TOKEN", TOKEN);
    // Topics have a prefix here.
    command.env("MAILRAIL_CONFIG", "mailrail.toml");
    let output = command.output().expect("it runs");
    let said = [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    (output.status.success(), said.concat())
}

fn runs(rig: &Rig, here: &Here, words: &[String]) {
    let latest = || rig.ask(&["dlq", "replays"])["items"][0]["id"].as_str().unwrap_or_default().to_owned();
    let replay = if words.iter().any(|word| word.starts_with("rpl_")) { latest() } else { String::new() };
    let words: Vec<String> = words.iter().map(|word| here.with(word, &replay)).collect();
    let (success, said) = run(rig, &words);
    // Nothing is in quarantine here.
    let is_missing = words.iter().any(|word| word == "--quarantine") && said.contains("(not_found)");
    assert!(success || is_missing, "{}: {said}", words.join(" "));
}

async fn every_command_runs(place: Place) {
    let is_dev = matches!(place, Place::Embedded);
    let mut rig = Rig::start(place).await;
    rig.produce_key("thing".to_owned(), 10).await.expect("produced");
    let of_picky = ["dlq", "list", "--tenant", TENANTS[0], "--endpoint", PICKY];
    let letters = |rig: &Rig| rig.ask(&of_picky)["items"].clone();
    until("the odd ones are given up", async || letters(&rig).as_array().is_some_and(|it| it.len() == 5))
        .await;
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let letter = letters(&rig)[0].clone();
    let here = Here { delivery: text(&letter["delivery"]), position: text(&letter["position"]) };
    let (from_topic, from_api): (Vec<_>, Vec<_>) =
        commands().into_iter().partition(|words| words.iter().any(|word| word == "--from-topic"));
    assert!(from_api.len() >= 18 && from_topic.len() >= 3, "{} and {}", from_api.len(), from_topic.len());
    for words in &from_api {
        runs(&rig, &here, words);
    }
    if is_dev {
        rig.stop_all().await;
        std::fs::rename(rig.folder().join("data"), rig.folder().join("mailrail-data")).expect("renamed");
    }
    for words in &from_topic {
        // Either for a `mailrail dev` that is stopped, or for a log that is shared.
        if words.iter().any(|word| word == "--data") == is_dev {
            runs(&rig, &here, words);
        }
    }
    if !is_dev {
        watched_from_elsewhere(&rig);
    }
}

/// A replay that the control process carries on, followed by another process on the log itself.
fn watched_from_elsewhere(rig: &Rig) {
    let ordered = rig.ask(&["dlq", "replay", "--all", "--again", "--rate", "2", "--detach"]);
    let id = ordered["id"].as_str().expect("an id").to_owned();
    let words =
        ["mailrail", "dlq", "watch", &id, "--from-topic", "--config", "mailrail.toml", "--output", "json"];
    let (success, said) = run(rig, &words.map(str::to_owned));
    assert!(success && said.contains("\"done\""), "{said}");
    let seen = rig.ask(&["dlq", "replays"]);
    assert_eq!((&seen["items"][0]["id"], &seen["items"][0]["state"]), (&id.into(), &"done".into()), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_every_command_of_the_page_runs_on_dev() {
    every_command_runs(Place::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dlq_every_command_of_the_page_runs_on_kafka() {
    let (Some(kafka), Some(postgres)) =
        (services::address("MAILRAIL_TEST_KAFKA"), services::address("MAILRAIL_TEST_POSTGRES"))
    else {
        return;
    };
    every_command_runs(Place::Services { kafka, postgres }).await;
}

/// A page whose commands cannot be told from its comments would not be tried.
#[test]
fn dlq_the_page_has_one_command_a_line() {
    for words in commands() {
        assert_eq!(words.first().map(String::as_str), Some("mailrail"), "{words:?}");
    }
}
