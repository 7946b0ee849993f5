//! The other player: posts webhooks as GitHub does, many at once, signed, to the address of an integration.
//!
//! Every payload once, as it is; and among them a crowd of pushes from many repositories, so that pushes are too many for
//! one mailbox while it is watched. Not all at once: a mailbox is sized by what came in before, and that is known at match
//! about a second later.

use std::time::Duration;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderValue;
use http::header::{CONTENT_TYPE, HeaderName, InvalidHeaderValue};
use indicatif::ProgressBar;
use mailrail_types::EventId;
use serde_json::Value;
use sha2::Sha256;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::Error;
use crate::books::Accepted;
use crate::door::{Door, Letter, joined, refused};
use crate::payloads::{Payload, Payloads};
use crate::play::Played;
use crate::setup::Hook;

/// Pushes of the crowd. One mailbox is worth 16 payloads of a window, so these come to a split of 16.
pub const PUSHES: usize = 400;

/// Repositories that they come from: more than there are buckets, so that every bucket gets some.
const REPOSITORIES: usize = 64;

/// Id of the first of them.
const FIRST_REPOSITORY: usize = 70_200_000;

/// Webhooks that are posted at once.
const WAVE: usize = 15;

/// From one wave to the next: the whole takes some five seconds.
pub const WAVE_EVERY: Duration = Duration::from_millis(100);

/// What is posted.
#[derive(Debug, Clone)]
pub struct Forward {
    /// Address of ingest: `http://127.0.0.1:8080`.
    pub ingest: String,
    /// Part of every delivery id, so that no two plays share one.
    pub run: String,
    /// How long one webhook is posted again while ingest is away or busy.
    pub patience: Duration,
    /// From one wave to the next, not zero: [`WAVE_EVERY`].
    pub wave_every: Duration,
}

/// One webhook as it goes out.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Webhook {
    id: String,
    github_event: String,
    repository_id: Option<String>,
    body: Bytes,
}

impl Forward {
    /// Posts everything. The bar counts accepted webhooks.
    ///
    /// # Errors
    /// [`Error::Refused`] when ingest refuses a webhook, stays away for longer than the patience, or answers with another
    /// id than the event's.
    pub async fn run(&self, payloads: &Payloads, hook: &Hook, bar: &ProgressBar) -> Result<Played, Error> {
        let webhooks = webhooks(&self.run, &payloads.list);
        bar.set_length(webhooks.len() as u64);
        let door = Door::new(&self.ingest, &hook.path(), None, &hook.tenant, self.patience)?;
        let mut ticks = interval(self.wave_every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut played = Played::default();
        for wave in webhooks.chunks(WAVE) {
            ticks.tick().await;
            let mut tasks = JoinSet::new();
            for webhook in wave {
                tasks.spawn(send(door.clone(), hook.clone(), webhook.clone()));
            }
            while let Some(sent) = tasks.join_next().await {
                let (webhook, event, retries) = joined(sent, hook.tenant.as_str())?;
                played.retries += retries;
                let accepted = Accepted {
                    event,
                    tenant: hook.tenant.clone(),
                    sequence: played.accepted.len() as u64,
                    ordering_key: webhook.repository_id,
                };
                played.enter(accepted, &webhook.body, &hook.cells);
                bar.inc(1);
            }
        }
        Ok(played)
    }
}

async fn send(door: Door, hook: Hook, webhook: Webhook) -> Result<(Webhook, EventId, u64), Error> {
    let event = EventId::derive(&hook.tenant, &hook.source(), &webhook.id);
    let headers = webhook
        .headers(&hook.secret)
        .map_err(|error| refused(&webhook.id, &hook.tenant, &error.to_string()))?;
    let letter = Letter { name: &webhook.id, event, headers, body: webhook.body.clone() };
    let retries = door.post(letter).await?;
    Ok((webhook, event, retries))
}

impl Webhook {
    /// GitHub's own headers, with its signature over the body.
    fn headers(&self, secret: &str) -> Result<Vec<(HeaderName, HeaderValue)>, InvalidHeaderValue> {
        Ok(vec![
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (HeaderName::from_static("x-github-event"), HeaderValue::from_str(&self.github_event)?),
            (HeaderName::from_static("x-github-delivery"), HeaderValue::from_str(&self.id)?),
            (
                HeaderName::from_static("x-hub-signature-256"),
                HeaderValue::from_str(&signature(secret, &self.body))?,
            ),
        ])
    }
}

/// `X-Hub-Signature-256`.
fn signature(secret: &str, body: &[u8]) -> String {
    // HMAC takes a key of any length.
    let code = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).map(|mut mac| {
        mac.update(body);
        mac.finalize().into_bytes()
    });
    format!("sha256={}", HEXLOWER.encode(&code.unwrap_or_default()))
}

/// Every payload, spread evenly among the crowd.
fn webhooks(run: &str, payloads: &[Payload]) -> Vec<Webhook> {
    let crowd = crowd(payloads);
    let total = crowd.len() + payloads.len();
    let (mut crowd, mut payloads) = (crowd.into_iter(), payloads.iter().cloned());
    let (crowd_len, mut crowded) = (crowd.len(), 0);
    let mut all = Vec::with_capacity(total);
    for n in 1..=total {
        // As much of the crowd as of the whole is out by now.
        let next = if crowded * total < n * crowd_len {
            crowded += 1;
            crowd.next()
        } else {
            payloads.next()
        };
        all.extend(next.map(|payload| Webhook {
            id: format!("{run}-webhook-{n}"),
            github_event: payload.event,
            repository_id: payload.repository_id,
            body: payload.body,
        }));
    }
    all
}

/// [`PUSHES`] pushes from [`REPOSITORIES`] repositories, made from the pushes there are.
fn crowd(payloads: &[Payload]) -> Vec<Payload> {
    let pushes = payloads.iter().filter(|p| p.event == "push" && p.repository_id.is_some());
    let pushes: Vec<(Value, &Payload)> =
        pushes.filter_map(|p| Some((serde_json::from_slice(&p.body).ok()?, p))).collect();
    (0..PUSHES)
        .zip(pushes.iter().cycle())
        .map(|(n, (body, payload))| {
            let id = FIRST_REPOSITORY + n % REPOSITORIES;
            let mut body = body.clone();
            body["repository"]["id"] = id.into();
            Payload {
                body: body.to_string().into(),
                repository_id: Some(id.to_string()),
                ..Payload::clone(payload)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
