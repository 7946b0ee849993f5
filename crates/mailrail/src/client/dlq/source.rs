//! Where dead letters are asked for: the control API, or the log itself. Both say the same.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, anyhow};
use mailrail_control::{
    FilterParts, LetterCount, LetterDetail, LetterList, QuarantineList, QuarantinedRecord, ReplayRequest,
    ReplayStatus, Trouble,
};
use mailrail_egress::operator::ApiClient;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::topic::Topic;
use crate::client::segment::segment;

const PATH: &str = "/v1/dead-letters";
const QUARANTINE: &str = "/v1/quarantine";
/// Items of a page: the most that the API gives.
const PAGE_MAX: usize = 1000;

/// Where dead letters are asked for.
pub(super) enum Source {
    Api(ApiClient),
    Topic(Topic),
}

/// A refusal as the API words it.
#[expect(clippy::needless_pass_by_value, reason = "callers hand over the error they just got")]
pub(super) fn refused(trouble: Trouble) -> anyhow::Error {
    anyhow!("{trouble} ({})", trouble.code())
}

fn shape<T: DeserializeOwned>(answer: Value) -> Result<T> {
    serde_json::from_value(answer).context("the answer of the control API")
}

impl Source {
    pub(super) async fn list(
        &self,
        filter: &FilterParts,
        limit: usize,
        after: Option<&str>,
    ) -> Result<LetterList> {
        let limit = limit.min(PAGE_MAX);
        match self {
            Source::Api(api) => shape(api.get(&query(PATH, filter, Some(limit), after)).await?),
            Source::Topic(topic) => topic
                .letters
                .list(&filter.parse().map_err(refused)?, Some(limit), after)
                .await
                .map_err(refused),
        }
    }

    pub(super) async fn count(&self, filter: &FilterParts, after: Option<&str>) -> Result<LetterCount> {
        match self {
            Source::Api(api) => shape(api.get(&query(&format!("{PATH}/count"), filter, None, after)).await?),
            Source::Topic(topic) => {
                topic.letters.count(&filter.parse().map_err(refused)?, after).await.map_err(refused)
            }
        }
    }

    pub(super) async fn quarantine(
        &self,
        filter: &FilterParts,
        limit: usize,
        after: Option<&str>,
    ) -> Result<QuarantineList> {
        let limit = limit.min(PAGE_MAX);
        match self {
            Source::Api(api) => shape(api.get(&query(QUARANTINE, filter, Some(limit), after)).await?),
            Source::Topic(topic) => {
                let filter = filter.parse().map_err(refused)?;
                topic.letters.quarantined(&filter, Some(limit), after).await.map_err(refused)
            }
        }
    }

    pub(super) async fn show(&self, id: &str, payload: bool) -> Result<LetterDetail> {
        match self {
            Source::Api(api) => shape(api.get(&format!("{PATH}/{}?payload={payload}", place(id))).await?),
            Source::Topic(topic) => topic.letters.show(id, payload).await.map_err(refused),
        }
    }

    pub(super) async fn show_quarantined(&self, id: &str, payload: bool) -> Result<QuarantinedRecord> {
        match self {
            Source::Api(api) => {
                shape(api.get(&format!("{QUARANTINE}/{}?payload={payload}", place(id))).await?)
            }
            Source::Topic(topic) => topic.letters.show_quarantined(id, payload).await.map_err(refused),
        }
    }

    pub(super) async fn order(&self, request: &ReplayRequest) -> Result<ReplayStatus> {
        match self {
            Source::Api(api) => {
                shape(api.post(&format!("{PATH}/replays"), &serde_json::to_value(request)?).await?)
            }
            Source::Topic(topic) => topic.letters.order(request, &topic.by, true).await.map_err(refused),
        }
    }

    pub(super) async fn replays(&self) -> Result<Vec<ReplayStatus>> {
        match self {
            Source::Api(api) => shape(api.get(&format!("{PATH}/replays")).await?["items"].take()),
            Source::Topic(topic) => topic.letters.replays().await.map_err(refused),
        }
    }

    pub(super) async fn replay(&self, id: &str) -> Result<ReplayStatus> {
        match self {
            Source::Api(api) => shape(api.get(&format!("{PATH}/replays/{}", segment(id))).await?),
            Source::Topic(topic) => topic.letters.replay(id).await.map_err(refused),
        }
    }

    pub(super) async fn cancel(&self, id: &str) -> Result<ReplayStatus> {
        match self {
            Source::Api(api) => {
                shape(api.post(&format!("{PATH}/replays/{}/cancel", segment(id)), &json!({})).await?)
            }
            Source::Topic(topic) => topic.letters.cancel(id, &topic.by).await.map_err(refused),
        }
    }

    /// Lets the log end in good order.
    pub(super) async fn close(&self) {
        if let Source::Topic(topic) = self {
            topic.close().await;
        }
    }
}

/// A position has a colon, which a path may hold.
fn place(id: &str) -> String {
    id.split(':').map(segment).collect::<Vec<_>>().join(":")
}

fn query(path: &str, filter: &FilterParts, limit: Option<usize>, after: Option<&str>) -> String {
    let list = |list: &[String]| (!list.is_empty()).then(|| list.join(","));
    let parts = [
        ("tenant", filter.tenant.clone()),
        ("endpoint", filter.endpoint.clone()),
        ("event_type", filter.event_type.clone()),
        ("reason", list(&filter.reasons)),
        ("since_ms", filter.since_ms.map(|ms| ms.to_string())),
        ("until_ms", filter.until_ms.map(|ms| ms.to_string())),
        ("id", list(&filter.ids)),
        ("limit", limit.map(|limit| limit.to_string())),
        ("after", after.map(str::to_owned)),
    ];
    let mut out = path.to_owned();
    let mut separator = '?';
    for (name, value) in parts {
        if let Some(value) = value {
            // Writing to a String cannot fail.
            let _ = write!(out, "{separator}{name}={}", utf8_percent_encode(&value, NON_ALPHANUMERIC));
            separator = '&';
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_stays_what_it_is() {
        assert_eq!(query("/v1/x", &FilterParts::default(), None, None), "/v1/x");
        let filter = FilterParts {
            tenant: Some("a&limit=1".to_owned()),
            reasons: vec!["gone".to_owned(), "expired".to_owned()],
            since_ms: Some(-5),
            ..FilterParts::default()
        };
        assert_eq!(
            query("/v1/x", &filter, Some(7), Some("1.2")),
            "/v1/x?tenant=a%26limit%3D1&reason=gone%2Cexpired&since_ms=%2D5&limit=7&after=1%2E2"
        );
        assert_eq!((place("3:17").as_str(), place("../x:1").as_str()), ("3:17", "..%2Fx:1"));
    }
}
