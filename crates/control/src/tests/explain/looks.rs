//! What is said of an event that a look did not find: how far it went, and what to do.

use std::time::Duration;

use super::*;
use crate::{Config, Pipeline};

const OTHER: &str = "events.second";

/// An event under two records of its partition, in one of two pipelines or in the only one.
async fn buried(is_one_of_two: bool, change: impl FnOnce(&mut Config)) -> (Setting, Event) {
    let it = setting_with(|config| {
        if is_one_of_two {
            config.pipelines.push(Pipeline::named("", "second", 3));
        }
        change(config);
    })
    .await;
    let topic = |name: &str| TopicSpec { name: name.to_owned(), partitions: 3, retention: None };
    it.log.ensure_topics(&[topic(EVENTS), topic(OTHER)]).await.expect("topics");
    let of = event();
    accept(&it, 0, &of).await;
    for n in 1..=2 {
        let mut other = event();
        other.id = mailrail_types::EventId::derive(&of.tenant, "/other", &n.to_string());
        accept(&it, 0, &other).await;
    }
    (it, of)
}

/// The text of the refusal.
async fn refused(it: &Setting, of: &Event, query: &str) -> String {
    let answer = it.get(&format!("/v1/events/{}/explain{query}", of.id)).await;
    assert_eq!((answer.status, answer.code().as_str()), (StatusCode::NOT_FOUND, "not_found"));
    answer.json()["detail"].as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn n11_an_event_too_far_back_is_looked_for_in_its_pipeline() {
    let (it, of) = buried(true, |config| config.why_records_max = 12).await;
    let said = refused(&it, &of, "").await;
    assert!(said.contains("2 records of 6 partitions together, at most 2 of each"), "{said}");
    assert!(said.contains("name its pipeline"), "{said}");
    // Four of each partition.
    let answer = it.get(&format!("/v1/events/{}/explain?pipeline=default", of.id)).await;
    assert!(answer.text.contains("tenant of this event"), "it was found: {}", answer.text);
}

#[tokio::test]
async fn a_pipeline_that_is_known_is_not_asked_for() {
    let (it, of) = buried(false, |config| config.why_records_max = 6).await;
    for query in ["", "?pipeline=default"] {
        let said = refused(&it, &of, query).await;
        assert!(said.contains("2 records of 3 partitions together, at most 2 of each"), "{said}");
        assert!(
            said.contains("raise control.why_records_max") && !said.contains("name its pipeline"),
            "{said}"
        );
    }
    let (it, of) = buried(true, |config| config.why_records_max = 6).await;
    let said = refused(&it, &of, "?pipeline=default").await;
    assert!(!said.contains("name its pipeline"), "{said}");
}

#[tokio::test]
async fn a_look_without_time_says_so() {
    for (is_one_of_two, named) in [(true, true), (false, false)] {
        let (it, of) = buried(is_one_of_two, |config| config.why_timeout = Duration::ZERO).await;
        let said = refused(&it, &of, "").await;
        assert!(said.starts_with("there was time for 0 records") && said.contains("ask again"), "{said}");
        assert_eq!((said.contains("name its pipeline"), said.contains("newest")), (named, false), "{said}");
    }
}
