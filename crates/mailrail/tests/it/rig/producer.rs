//! Producers: they post until the door has accepted, whatever happens to it meanwhile.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use mailrail_demo::books::Accepted;
use mailrail_egress::operator::ApiClient;
use mailrail_types::{EventId, TenantId};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::set_up::key;
use super::{PATIENCE, Rig, TENANTS};

/// Of one producer: slower than the slowest endpoint, so that what waits is what kills made wait.
const BETWEEN_EVENTS: Duration = Duration::from_millis(25);
const JSON: &str = "application/json";

impl Rig {
    /// Posts one event of the first tenant.
    pub(crate) async fn post(&self, id: &str, content_type: &str, body: Bytes) -> EventId {
        let api = ApiClient::new(&self.ingest, Some(&key(TENANTS[0]))).expect("client");
        post_until_accepted(&api, id, content_type, &[], body).await
    }

    /// Posts `count` events of one ordering key of the first tenant, one after the other.
    pub(crate) fn produce_key(&self, name: String, count: u64) -> JoinHandle<Vec<Accepted>> {
        let api = ApiClient::new(&self.ingest, Some(&key(TENANTS[0]))).expect("client");
        tokio::spawn(async move {
            let mut accepted = Vec::new();
            for seq in 0..count {
                let id = format!("{name}-{seq}");
                let (more, body) = ([("ce-partitionkey", name.as_str())], numbered(&name, seq));
                let event = post_until_accepted(&api, &id, JSON, &more, body).await;
                let tenant = TenantId::new(TENANTS[0]).expect("valid");
                accepted.push(Accepted { event, tenant, sequence: seq, ordering_key: Some(name.clone()) });
            }
            accepted
        })
    }

    /// Posts events of one tenant until `stop`, each after the one before was accepted, whatever happens to the door
    /// meanwhile.
    pub(crate) fn produce(&self, tenant: &'static str, stop: CancellationToken) -> JoinHandle<Vec<Accepted>> {
        let api = ApiClient::new(&self.ingest, Some(&key(tenant))).expect("client");
        tokio::spawn(async move {
            let mut accepted = Vec::new();
            for seq in 0.. {
                if stop.is_cancelled() {
                    break;
                }
                let (id, body) = (seq.to_string(), numbered(tenant, seq));
                let event = post_until_accepted(&api, &id, JSON, &[], body).await;
                let tenant = TenantId::new(tenant).expect("valid");
                accepted.push(Accepted { event, tenant, sequence: seq, ordering_key: None });
                tokio::time::sleep(BETWEEN_EVENTS).await;
            }
            accepted
        })
    }
}

fn numbered(tenant: &str, seq: u64) -> Bytes {
    let kind = if seq.is_multiple_of(2) { "even" } else { "odd" };
    Bytes::from(format!(r#"{{"key":"{tenant}","seq":{seq},"kind":"{kind}"}}"#))
}

/// Posts one event, with more headers, again and again with the same id while the door is away (killed) or busy, or the
/// set-up has not reached it yet.
pub(crate) async fn post_until_accepted(
    api: &ApiClient,
    id: &str,
    content_type: &str,
    more: &[(&'static str, &str)],
    body: Bytes,
) -> EventId {
    let header = |name: &'static str, value: &str| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value"))
    };
    let mut headers = vec![
        header("ce-specversion", "1.0"),
        header("ce-id", id),
        header("ce-source", "/it"),
        header("ce-type", "numbered"),
        header("content-type", content_type),
    ];
    headers.extend(more.iter().map(|(name, value)| header(name, value)));
    let posted = async {
        loop {
            match api.send(Method::POST, "/v1/events", headers.clone(), body.clone()).await {
                Ok(answer) => return answer["id"].as_str().expect("an id").parse().expect("an event id"),
                Err(error) if error.status.is_none_or(|s| s >= 500 || s == 401) => {}
                Err(error) => panic!("event {id} is refused: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, posted).await.expect("the door comes back")
}
