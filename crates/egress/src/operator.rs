//! A small client of mailrail's own JSON APIs, for the command line.
//!
//! The operator names the address, so there is no address policy; and the answer is for the operator, so the words of
//! the API's problem are kept. Proxies of the environment are ignored and redirects are errors: the token goes where it
//! was meant to go and nowhere else.

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use reqwest::redirect::Policy;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;
use url::Url;

use crate::tls;

/// How long a connection may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Total time of a call: an ingest waits for its log up to 15 s before it answers 503.
pub const TOTAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Most bytes of an answer: pages of lists are far smaller.
pub const RESPONSE_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Why a call brought no result.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{detail} ({code})")]
pub struct ApiError {
    /// The HTTP status, when there was an answer.
    pub status: Option<u16>,
    /// The problem's stable code; without a problem one of `invalid_address`, `invalid_token`, `unreachable`,
    /// `timeout`, `invalid_response`, `response_too_large`, `http_<status>`.
    pub code: String,
    /// What is wrong and what to change.
    pub detail: String,
    /// The field of the request that is meant, when the problem names one.
    pub field: Option<String>,
    /// The single problems of a request that has several, as the API lists them.
    pub problems: Vec<Value>,
}

impl ApiError {
    fn new(status: Option<StatusCode>, code: &str, detail: impl Into<String>) -> Self {
        let status = status.map(|s| s.as_u16());
        ApiError { status, code: code.to_owned(), detail: detail.into(), field: None, problems: Vec::new() }
    }
}

/// The members of `application/problem+json` that are used.
#[derive(Deserialize)]
struct Problem {
    code: Option<String>,
    title: Option<String>,
    detail: Option<String>,
    field: Option<String>,
    #[serde(default)]
    problems: Vec<Value>,
}

/// Calls one API. Clones share connections.
#[derive(Clone)]
pub struct ApiClient {
    http: reqwest::Client,
    base: Url,
}

impl fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiClient").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

impl ApiClient {
    /// A client of the API at `base_url` (`http://127.0.0.1:8081`, a path prefix is kept), which sends `token` as a
    /// bearer token when there is one. Trusts the public certificate authorities and those of this machine.
    ///
    /// # Errors
    /// [`ApiError`] with code `invalid_address` or `invalid_token`.
    pub fn new(base_url: &str, token: Option<&str>) -> Result<ApiClient, ApiError> {
        let invalid = |detail: String| ApiError::new(None, "invalid_address", detail);
        let base = Url::parse(base_url)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .filter(|url| url.query().is_none() && url.fragment().is_none() && url.username().is_empty())
            .ok_or_else(|| {
                invalid(format!("'{base_url}' is not an API address: write it as http://127.0.0.1:8081"))
            })?;
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(token) = token {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| {
                ApiError::new(
                    None,
                    "invalid_token",
                    "the token holds characters that no token has: copy it again",
                )
            })?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        let mut roots = tls::public_roots(None).map_err(|e| invalid(e.to_string()))?;
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let tls = tls::client_config(roots).map_err(|e| invalid(e.to_string()))?;
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TOTAL_TIMEOUT)
            .default_headers(headers)
            .user_agent(concat!("mailrail-cli/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|e| invalid(e.to_string()))?;
        Ok(ApiClient { http, base })
    }

    /// GET. `path` starts with `/` and may have a query.
    ///
    /// # Errors
    /// [`ApiError`], as for every call.
    pub async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.send(Method::GET, path, Vec::new(), Bytes::new()).await
    }

    /// POST of a JSON body.
    ///
    /// # Errors
    /// [`ApiError`], as for every call.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        self.send_json(Method::POST, path, body).await
    }

    /// PUT of a JSON body.
    ///
    /// # Errors
    /// [`ApiError`], as for every call.
    pub async fn put(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        self.send_json(Method::PUT, path, body).await
    }

    /// DELETE.
    ///
    /// # Errors
    /// [`ApiError`], as for every call.
    pub async fn delete(&self, path: &str) -> Result<Value, ApiError> {
        self.send(Method::DELETE, path, Vec::new(), Bytes::new()).await
    }

    async fn send_json(&self, method: Method, path: &str, body: &Value) -> Result<Value, ApiError> {
        let headers = vec![(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        self.send(method, path, headers, body.to_string().into()).await
    }

    /// Any call: `body` is sent as it is, with `headers`. An answer without a body is [`Value::Null`].
    ///
    /// # Errors
    /// [`ApiError`] when there is no answer, when its status is not 2xx, or when it is not JSON.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: Vec<(HeaderName, HeaderValue)>,
        body: Bytes,
    ) -> Result<Value, ApiError> {
        let url = format!("{}{path}", self.base.as_str().trim_end_matches('/'));
        let mut call = self.http.request(method, url);
        for (name, value) in headers {
            call = call.header(name, value);
        }
        if !body.is_empty() {
            call = call.body(body);
        }
        let answer = call.send().await.map_err(|e| self.unanswered(&e))?;
        let status = answer.status();
        let body = self.read(answer).await?;
        if !status.is_success() {
            return Err(refused(status, &body));
        }
        if body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&body).map_err(|_| {
            let detail =
                format!("{} answered {status} with something that is not JSON: is it mailrail?", self.base);
            ApiError::new(Some(status), "invalid_response", detail)
        })
    }

    async fn read(&self, mut answer: reqwest::Response) -> Result<Bytes, ApiError> {
        let status = answer.status();
        let mut body = BytesMut::new();
        while let Some(chunk) = answer.chunk().await.map_err(|e| self.unanswered(&e))? {
            if body.len() + chunk.len() > RESPONSE_MAX_BYTES {
                let detail = "the answer is larger than 16 MiB: ask for less at once";
                return Err(ApiError::new(Some(status), "response_too_large", detail));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    fn unanswered(&self, error: &reqwest::Error) -> ApiError {
        let cause = std::iter::successors(std::error::Error::source(error), |e| e.source()).last();
        let cause = cause.map_or_else(|| "no answer".to_owned(), ToString::to_string);
        if error.is_timeout() {
            let detail = format!(
                "{} did not answer in time: {cause}; check that it is up and not overloaded",
                self.base
            );
            return ApiError::new(None, "timeout", detail);
        }
        let detail = format!(
            "{} cannot be reached: {cause}; check the address and that mailrail runs there",
            self.base
        );
        ApiError::new(None, "unreachable", detail)
    }
}

/// The problem in a refusal; or, when a proxy or another program answered, the status.
fn refused(status: StatusCode, body: &[u8]) -> ApiError {
    let none = Problem { code: None, title: None, detail: None, field: None, problems: Vec::new() };
    let Problem { code, title, detail, field, problems } = serde_json::from_slice(body).unwrap_or(none);
    ApiError {
        status: Some(status.as_u16()),
        code: code.unwrap_or_else(|| format!("http_{}", status.as_u16())),
        detail: detail.or(title).unwrap_or_else(|| format!("the answer was {status} without a reason")),
        field,
        problems,
    }
}
