//! Spans → OTLP over HTTP, as protobuf. How the bytes go out is given: this crate opens no connections.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use thiserror::Error;

use super::TracesOptions;
use super::rejected::LastAnswer;

/// Why a post brought no answer.
pub type PostError = Box<dyn std::error::Error + Send + Sync>;

/// A post on its way.
pub type Posting = Pin<Box<dyn Future<Output = Result<Response<Bytes>, PostError>> + Send>>;

/// Brings a request to the collector; reads a bounded answer.
pub type Post = Arc<dyn Fn(Request<Bytes>) -> Posting + Send + Sync>;

/// Why traces cannot be exported at all.
#[derive(Debug, Error)]
#[error("spans cannot be exported: {0}; look at telemetry.traces and the OTEL_EXPORTER_OTLP_* variables")]
pub struct TracesError(String);

/// The exporter of the options. Without retries: a batch that failed is dropped, so that what waits behind it is bounded by
/// the queue and by nothing else.
pub(super) fn exporter(
    options: &TracesOptions,
    post: Post,
    answer: LastAnswer,
) -> Result<SpanExporter, TracesError> {
    SpanExporter::builder()
        .with_http()
        .with_http_client(Client { post, answer })
        .with_retry_policy(RetryPolicy::disabled())
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(options.export_timeout)
        .with_endpoint(&options.url)
        .build()
        .map_err(|error| TracesError(error.to_string()))
}

struct Client {
    post: Post,
    /// Where answers are noted: the exporter says of them only whether they are good.
    answer: LastAnswer,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        // What the exporter makes of it has lost the cause.
        let answer = (self.post)(request).await;
        let answer = answer.inspect_err(|error| tracing::debug!(%error, "spans cannot be posted"))?;
        if answer.status().is_success() {
            self.answer.note(answer.body());
        }
        Ok(answer)
    }
}
