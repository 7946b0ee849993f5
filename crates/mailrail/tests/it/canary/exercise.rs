//! Everything that may go well or wrong with secrets in it, once.

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::routing::any;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket};

use super::scan::Canary;
use super::site::{Site, check_status, request};
use crate::fleet::until;
use crate::rig::try_get;

/// One of each kind of secret.
pub(crate) struct Planted {
    pub(crate) admin_token: Canary,
    pub(crate) encryption_key: Canary,
    api_key: Canary,
    signing_secret: Canary,
    rotated_secret: Canary,
    header_value: Canary,
    url_query: Canary,
    url_user: Canary,
    integration_secret: Canary,
    request_header: Canary,
    request_query: Canary,
    pub(crate) body: Canary,
    refused: Canary,
}

/// What somebody was shown: where, and the text.
pub(crate) type Shown = (String, String);

impl Planted {
    pub(crate) fn new() -> Self {
        Self {
            admin_token: Canary::new("the token of the control API"),
            encryption_key: Canary::new("the encryption key"),
            api_key: Canary::new("an API key"),
            signing_secret: Canary::new("a signing secret"),
            rotated_secret: Canary::new("a rotated signing secret"),
            header_value: Canary::new("a header of an endpoint"),
            url_query: Canary::new("the query of an endpoint's URL"),
            url_user: Canary::new("the user in an endpoint's URL"),
            integration_secret: Canary::new("an integration's secret"),
            request_header: Canary::new("a header of a request"),
            request_query: Canary::new("the query of a request"),
            body: Canary::new("the body of an event"),
            refused: Canary::new("what was refused"),
        }
    }

    pub(crate) fn all(&self) -> [&Canary; 13] {
        let Self {
            admin_token, encryption_key, api_key, signing_secret, rotated_secret, header_value, ..
        } = self;
        let Self {
            url_query,
            url_user,
            integration_secret,
            request_header,
            request_query,
            body,
            refused,
            ..
        } = self;
        [
            admin_token,
            encryption_key,
            api_key,
            signing_secret,
            rotated_secret,
            header_value,
            url_query,
            url_user,
            integration_secret,
            request_header,
            request_query,
            body,
            refused,
        ]
    }

    /// The set-up: an endpoint for each way in which an attempt can end. Nobody may post yet.
    pub(crate) fn setup(&self, recipients: &Recipients) -> String {
        let mut text = "version: 1\ntenants:\n- id: acme\n  apps:\n  - id: shop\n    endpoints:\n".to_owned();
        let at = |name: &str| if name == "closed" { &recipients.refuses } else { &recipients.answers };
        for name in ENDPOINTS {
            text += &format!(
                "    - {{id: {name}, url: \"http://{}/{name}?key={}\", secret: \"{}\", class: strict, headers: {{x-team: \"{}\"}}}}\n",
                at(name),
                self.url_query.text,
                self.signing_secret.signing_secret(),
                self.header_value.text
            );
        }
        text += "    subscriptions:\n";
        for name in ENDPOINTS {
            text += &format!("    - {{id: to-{name}, endpoint: {name}, event_types: [for.{name}]}}\n");
        }
        text += &format!(
            "  integrations:\n  - {{id: gl, provider: gitlab, secret: {}, cells: [rejected]}}\n",
            self.integration_secret.text
        );
        text
    }

    /// Lets the producer post. An event that the door takes knows of every change before this one.
    pub(crate) fn key(&self) -> String {
        format!(
            "{{version: 1, tenants: [{{id: acme, keys: [{{id: producer, token: {}}}]}}]}}",
            self.api_key.text
        )
    }

    /// Posts an event for an endpoint; gives its id.
    pub(crate) async fn post(&self, site: &Site, endpoint: &str) -> String {
        let (bearer, event_type) = (format!("Bearer {}", self.api_key.text), format!("for.{endpoint}"));
        let secret = self.request_header.text.as_str();
        let headers = [
            ("authorization", bearer.as_str()),
            ("ce-specversion", "1.0"),
            ("ce-id", endpoint),
            ("ce-source", "/canary"),
            ("ce-type", &event_type),
            ("content-type", "application/json"),
            ("cookie", secret),
            ("x-signature", secret),
        ];
        let path = format!("/v1/events?token={}", self.request_query.text);
        let body = json!({ "secret": self.body.text }).to_string();
        let answer = accepted(site, &path, &headers, &body).await;
        answer["id"].as_str().expect("an id").to_owned()
    }

    /// Posts a third party's webhook for the endpoint that rejects.
    pub(crate) async fn post_webhook(&self, site: &Site) {
        let (bearer, secret) =
            (format!("Bearer {}", self.request_header.text), self.request_header.text.as_str());
        let headers = [
            ("x-gitlab-token", self.integration_secret.text.as_str()),
            ("x-gitlab-event", "Push Hook"),
            ("content-type", "application/json"),
            ("authorization", &bearer),
            ("cookie", secret),
            ("x-hub-signature-256", secret),
        ];
        let path = format!("/v1/inbound/gitlab/acme:gl?token={}", self.request_query.text);
        let body = json!({ "project": { "id": 7 }, "secret": self.body.text }).to_string();
        accepted(site, &path, &headers, &body).await;
    }

    /// Requests that both doors refuse; what they answer. Names of fields and what stands in fields that hold no secret may be
    /// repeated to who sent them.
    pub(crate) async fn be_refused(&self, site: &Site) -> Vec<Shown> {
        let secret = self.refused.text.as_str();
        let (good, bad) = (format!("Bearer {}", self.api_key.text), format!("Bearer {secret}"));
        let structured = [("authorization", good.as_str()), ("content-type", "application/cloudevents+json")];
        let batch = [structured[0], ("content-type", "application/cloudevents-batch+json")];
        let large = format!("{secret}{}", "x".repeat(80 * 1024));
        let event = |more: Value| {
            let mut event = json!({ "specversion": "1.0", "id": "1", "source": "/s", "type": "t" });
            event.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            event.to_string()
        };
        let events: [(&[(&str, &str)], String); 12] = [
            (&[("authorization", &bad)], event(json!({}))),
            (&[("authorization", secret)], event(json!({}))),
            (&structured, format!("{{\"id\": \"{secret}")),
            (&structured, format!("\"{secret}\"")),
            (&structured, event(json!({ "specversion": "0.3", "data": secret }))),
            (&structured, event(json!({ "data_base64": format!("{secret}!") }))),
            (&structured, event(json!({ "data": secret, "data_base64": secret }))),
            (&structured, event(json!({ "time": secret, "type": [secret] }))),
            (&structured, large.clone()),
            (&batch, format!("[{{\"id\": \"{secret}\"}}, \"{secret}\"]")),
            (&[structured[0], ("content-type", secret)], secret.to_owned()),
            (&[structured[0], structured[1], ("content-encoding", "gzip")], secret.to_owned()),
        ];
        let mut shown = Vec::new();
        for (n, (headers, body)) in events.iter().enumerate() {
            let answer = request(&site.ingest, "POST", "/v1/events", headers, body.as_bytes()).await;
            check_status(&format!("request {n}"), &answer, "4");
            shown.push((format!("the answer to request {n} at the front door"), answer));
        }
        let inbound = "/v1/inbound/gitlab/acme:gl";
        for (path, headers) in [
            (inbound.to_owned(), [("x-gitlab-token", secret), ("cookie", secret)]),
            (
                format!("/v1/inbound/gitlab/nobody?token={secret}"),
                [("authorization", &bad), ("cookie", secret)],
            ),
            (format!("/v1/unknown?token={secret}"), [("authorization", &bad), ("cookie", secret)]),
            (inbound.to_owned(), [("not a header", secret), ("cookie", secret)]),
        ] {
            for address in [&site.ingest, &site.control] {
                let answer = request(address, "POST", &path, &headers, large.as_bytes()).await;
                check_status(&format!("{path} at {address}"), &answer, "4");
                shown.push((format!("the answer at {path}"), answer));
            }
        }
        shown.extend(self.apply_what_is_wrong(site).await);
        shown.extend(self.ask_what_is_wrong(site).await);
        shown
    }

    /// Set-ups with a mistake in or beside a secret, as JSON and as a file.
    async fn apply_what_is_wrong(&self, site: &Site) -> Vec<Shown> {
        let (secret, user) = (&self.refused.text, &self.url_user.text);
        let endpoint = |fields: String| {
            format!(
                "{{version: 1, tenants: [{{id: acme, apps: [{{id: shop, endpoints: [{{id: bad, {fields}}}]}}]}}]}}"
            )
        };
        let url = "url: 'https://example.com/'";
        let tenant = |fields: String| format!("{{version: 1, tenants: [{{id: acme, {fields}}}]}}");
        let wrong = [
            endpoint(format!("url: 'https://{user}:{user}@example.com/?token={secret}'")),
            endpoint(format!("url: 'https://{user}@[::1/?token={secret}'")),
            endpoint(format!("url: 'http://10.0.0.1/?token={secret}'")),
            endpoint(format!("url: 'ftp://example.com/?token={secret}'")),
            endpoint(format!("{url}, secret: '{secret}'")),
            endpoint(format!("{url}, secret: 'whsec_{secret}!'")),
            endpoint(format!("{url}, secret: ['{secret}']")),
            endpoint(format!("{url}, secret: {{text: '{secret}'}}")),
            endpoint(format!("{url}, secret: {{env: '{secret}'}}")),
            endpoint(format!("{url}, headers: {{x-team: \"{secret}\\n\"}}")),
            endpoint(format!("{url}, headers: {{host: '{secret}', authorization: ['{secret}']}}")),
            endpoint(format!("{url}, headers: '{secret}'")),
            tenant(format!("keys: [{{id: k, token: '{}'}}]", &secret[..31])),
            tenant(format!("keys: [{{id: k, token: '{secret} é'}}]")),
            tenant(format!("keys: [{{id: k, token: '{secret}'}}, {{id: l, token: '{secret}'}}]")),
            tenant(format!("keys: ['{secret}']")),
            tenant(format!("keys: [{{id: k, tokem: '{secret}'}}]")),
            tenant(format!("integrations: [{{id: i, provider: gitlab, secret: ['{secret}'], cells: []}}]")),
            tenant(format!(
                "integrations: [{{id: i, provider: gitlab, secret: '{}', cells: []}}]",
                secret.repeat(20)
            )),
            format!("{{version: 1, tenants: '{secret}'}}"),
            format!("version: 1\ntenants:\n- id: acme\n  keys:\n  - {{id: k, token: '{secret}\n"),
            format!("version: 1\ntenants:\n- id: acme\n   keys: '{secret}': '{secret}'\n"),
        ];
        let mut shown = Vec::new();
        for (n, yaml) in wrong.iter().enumerate() {
            shown.push((format!("what `apply` says of file {n}"), site.apply(yaml, false)));
            let Ok(setup) = serde_yaml_ng::from_str::<Value>(yaml) else { continue };
            let answer = site.ask("POST", "/v1/apply", &json!({ "setup": setup }).to_string()).await;
            check_status(&format!("set-up {n}"), &answer, "4");
            shown.push((format!("the answer to set-up {n}"), answer));
        }
        // A token that another tenant has.
        let taken = format!(
            "{{version: 1, tenants: [{{id: other, keys: [{{id: k, token: '{}'}}]}}]}}",
            self.api_key.text
        );
        shown.push(("what `apply` says of a token that is taken".to_owned(), site.apply(&taken, false)));
        shown
    }

    /// Requests of the control API with a mistake in them.
    async fn ask_what_is_wrong(&self, site: &Site) -> Vec<Shown> {
        let secret = &self.refused.text;
        let bodies = [
            format!("\"{secret}\""),
            format!("{{\"rate\": \"{secret}\", \"rules\": \"{secret}\", \"by\": [\"{secret}\"]}}"),
            format!("{{{secret}"),
        ];
        let mut shown = Vec::new();
        for (method, path) in [
            ("POST", "/v1/apply"),
            ("PUT", "/v1/shed"),
            ("PUT", "/v1/mailbox-classes/bulk"),
            ("POST", "/v1/dead-letters/replays"),
            ("POST", "/v1/tenants/acme/endpoints/ok/pause"),
            ("POST", "/v1/tenants/acme/endpoints/ok/secret/rotate"),
            ("POST", "/v1/filters/test"),
        ] {
            for body in &bodies {
                let answer = site.ask(method, path, body).await;
                check_status(&format!("{path} with {body}"), &answer, "4");
                shown.push((format!("the answer at {path} to {body}"), answer));
            }
        }
        let bearer = format!("Bearer {secret}");
        let headers = [("authorization", bearer.as_str()), ("cookie", secret)];
        let path = format!("/v1/tenants?token={secret}");
        let answer = request(&site.control, "GET", &path, &headers, b"").await;
        check_status(&path, &answer, "401");
        shown.push((path, answer));
        shown
    }

    /// Rotates a secret to a given one. Its answer shows it, as documented.
    pub(crate) async fn rotate(&self, site: &Site) {
        let body = json!({ "secret": self.rotated_secret.signing_secret() }).to_string();
        let answer = site.ask("POST", "/v1/tenants/acme/endpoints/ok/secret/rotate", &body).await;
        check_status("a rotation", &answer, "200");
    }
}

/// One for each way in which an attempt can end, and one whose deliveries are cancelled.
const ENDPOINTS: [&str; 6] = ["ok", "fails", "rejected", "slow", "closed", "leaving"];

/// Sends until the set-up has reached the door.
async fn accepted(site: &Site, path: &str, headers: &[(&str, &str)], body: &str) -> Value {
    let mut answer = String::new();
    until("the door takes it", async || {
        answer = request(&site.ingest, "POST", path, headers, body.as_bytes()).await;
        answer.starts_with("HTTP/1.1 202")
    })
    .await;
    let body = answer.split_once("\r\n\r\n").expect("a body").1;
    serde_json::from_str(body).expect("JSON")
}

/// Where requests go.
pub(crate) struct Recipients {
    /// Says back all that it gets.
    answers: String,
    /// Takes no connection.
    refuses: String,
}

/// Starts them; they end with the test.
pub(crate) async fn recipients() -> Recipients {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let answers = listener.local_addr().expect("an address").to_string();
    // Bound and not listening: connections are refused, and nobody else gets the port.
    let silent = TcpSocket::new_v4().expect("a socket");
    silent.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let refuses = silent.local_addr().expect("an address").to_string();
    let echo = |status: StatusCode| {
        any(async move |request: Request| {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
            (status, Bytes::from([format!("{parts:?}").into_bytes(), body.to_vec()].concat()))
        })
    };
    let router = Router::new()
        .route("/ok", echo(StatusCode::OK))
        .route("/leaving", echo(StatusCode::OK))
        .route("/fails", echo(StatusCode::INTERNAL_SERVER_ERROR))
        .route("/rejected", echo(StatusCode::BAD_REQUEST))
        .route("/slow", any(async || std::future::pending::<()>().await));
    tokio::spawn(async move {
        let _silent = silent;
        axum::serve(listener, router).await
    });
    Recipients { answers, refuses }
}

/// The sum of a counter's samples that begin like this, over all processes.
pub(crate) async fn counted(site: &Site, sample: &str) -> u64 {
    let mut sum = 0;
    for admin in &site.admins {
        let page = try_get(admin, "/metrics").await.unwrap_or_default();
        let values = page.lines().filter(|line| line.starts_with(sample));
        sum += values.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>();
    }
    sum
}
