//! One POST, and what came back.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Uri};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use mailrail_types::{AttemptResult, ErrorCode};
use tokio::time::{Instant, timeout_at};

use crate::dial::Dial;
use crate::fault::code_of;
use crate::guard::{Guard, Withheld};
use crate::pool::{Link, Place, Pool, Sent, Unanswered};
use crate::{Error, Resolve, SystemResolver, UrlPolicy, check_url, tls};

/// Most bytes read of an answer's body. Real answers are a few words; the rest of a longer one is dropped with its
/// connection, which is cheaper than reading it.
pub const BODY_MAX_BYTES: usize = 64 * 1024;

/// Most bytes of an answer's head, which is also the size of the connection's buffers.
pub const HEAD_MAX_BYTES: usize = 64 * 1024;

/// Most header lines of an answer.
pub const HEADERS_MAX: usize = 100;

/// Most informational answers (100, 103) before the real one. More are a way to keep a CPU busy.
pub const INFORMATIONAL_MAX: u32 = 16;

/// Longest total time of a request, whatever the caller asks for: a slot is not held for longer than this.
pub const TIMEOUT_MAX: Duration = Duration::from_mins(10);

/// [`EgressConfig::idle_per_host`] where nothing else is said.
const IDLE_PER_HOST: usize = 128;

/// Most copies of `Retry-After`, and most bytes of one, that are passed on: an HTTP date has 29.
const RETRY_AFTER_COPIES: usize = 10;
const RETRY_AFTER_BYTES: usize = 64;

/// Sent when the caller sets no `user-agent`: many receivers refuse requests without one.
const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("mailrail/", env!("CARGO_PKG_VERSION")));

/// Whether a header frames the request or steers the connection: set by the HTTP client or not at all. Set-up refuses them
/// already; here they would be a hole (`content-length: 1` cuts the body, `upgrade` leaves HTTP).
fn is_framing(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "host"
            | "content-length"
            | "transfer-encoding"
            | "connection"
            | "te"
            | "trailer"
            | "upgrade"
            | "expect"
            | "accept-encoding"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
    )
}

/// Times that the phases of one request may take. All of them lie inside the request's own total time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For the name's resolution.
    pub dns: Duration,
    /// For the TCP connection, over all addresses.
    pub connect: Duration,
    /// For the TLS handshake.
    pub tls: Duration,
    /// For the body after the head. Short: the status is known, and the body is only kept to be shown.
    pub body: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let secs = Duration::from_secs;
        Limits { dns: secs(5), connect: secs(5), tls: secs(5), body: secs(2) }
    }
}

/// What an [`Egress`] may do.
#[derive(Clone)]
pub struct EgressConfig {
    /// Which URLs and addresses are allowed.
    pub url: UrlPolicy,
    /// PEM text of certificate authorities that are trusted beside the public ones.
    pub extra_ca_pem: Option<Vec<u8>>,
    /// Who resolves names; `None`: the system.
    pub resolver: Option<Arc<dyn Resolve>>,
    /// How long each phase may take.
    pub limits: Limits,
    /// Most idle connections kept per scheme, host and port; they are closed after 30 s. Requests of many mailboxes go to one host
    /// at the same time, and a connection is idle between two of them: with fewer kept than are under way, nearly every second
    /// request opens one. So: as many as requests may be under way.
    pub idle_per_host: usize,
}

impl Default for EgressConfig {
    fn default() -> Self {
        Self {
            url: UrlPolicy::default(),
            extra_ca_pem: None,
            resolver: None,
            limits: Limits::default(),
            idle_per_host: IDLE_PER_HOST,
        }
    }
}

impl fmt::Debug for EgressConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EgressConfig")
            .field("url", &self.url)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// Where to send: a URL that [`Egress::destination`] checked, for any number of requests. A cheap clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Destination(Arc<Place>);

impl fmt::Debug for Destination {
    /// The host only: paths and queries hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Destination").field(&self.0.uri.host()).finish()
    }
}

/// One request to make.
#[derive(Clone)]
pub struct Request {
    /// What to send with it. Of two with the same name the later one is sent, so put our own last.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The body, sent as it is.
    pub body: Bytes,
    /// Total time for everything, at most [`TIMEOUT_MAX`].
    pub timeout: Duration,
}

impl fmt::Debug for Request {
    /// Sizes only: headers and bodies hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("headers", &self.headers.len())
            .field("body_bytes", &self.body.len())
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// What came back. At least one of `status` and `error` is there, unless the request was withheld.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Response {
    /// The status, as soon as there was a complete head, whatever became of the body.
    pub status: Option<u16>,
    /// Why there was no head; or, with a status, why the body was not read to its end. A body that was cut because it
    /// is longer than [`BODY_MAX_BYTES`] is no error.
    pub error: Option<ErrorCode>,
    /// Nothing was sent: whoever was asked by [`Egress::ask_before_sending`] said no. Nothing else is set then.
    pub withheld: bool,
    /// The values of `Retry-After`, at most 10, as they came.
    pub retry_after: Vec<Bytes>,
    /// The first bytes of the body, at most [`AttemptResult::EXCERPT_MAX_BYTES`], never decompressed.
    pub excerpt: Bytes,
}

impl Response {
    fn failed(code: ErrorCode) -> Self {
        Response { error: Some(code), ..Response::default() }
    }

    /// The part that records keep.
    #[must_use]
    pub fn to_result(&self) -> AttemptResult {
        AttemptResult { status: self.status, error: self.error, excerpt: self.excerpt.clone() }
    }
}

/// Makes requests. Clones share connections.
#[derive(Clone)]
pub struct Egress {
    pool: Arc<Pool>,
    policy: Arc<UrlPolicy>,
    limits: Limits,
    guard: Guard,
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl Egress {
    /// Prepares to make requests; opens no connection.
    ///
    /// # Errors
    /// [`Error`] when the extra certificate authorities cannot be used.
    pub fn new(config: EgressConfig) -> Result<Egress, Error> {
        let tls = tls::client_config(tls::public_roots(config.extra_ca_pem.as_deref())?)?;
        let resolver = config.resolver.unwrap_or_else(|| Arc::new(SystemResolver::default()));
        let guard = Guard::default();
        let dial = Dial::new(config.url.addresses.clone(), resolver, tls, config.limits, guard.clone());
        let pool = Pool::new(dial, config.idle_per_host);
        Ok(Egress { pool, policy: Arc::new(config.url), limits: config.limits, guard })
    }

    /// From now on `may_send` is asked right before the first byte of each request is written; where it says no, the request is
    /// withheld ([`Response::withheld`]). It is asked on the thread that writes: it must be quick. Of this and all clones; only the
    /// first call counts.
    pub fn ask_before_sending(&self, may_send: impl Fn() -> bool + Send + Sync + 'static) {
        self.guard.set(Box::new(may_send));
    }

    /// Reads a URL as every request does: the text of one that [`check_url`] returned. It is checked again, which costs more
    /// than a signature: keep what this returns for as long as the URL stays the same.
    ///
    /// # Errors
    /// `invalid_url` when the URL is unusable in itself; `blocked_destination` when the operator's policy refuses it, because a
    /// setting can mend that.
    pub fn destination(&self, url: &str) -> Result<Destination, ErrorCode> {
        let url = check_url(url, &self.policy).map_err(|error| {
            tracing::debug!(code = error.code(), "the url is refused");
            if error.depends_on_policy() { ErrorCode::BlockedDestination } else { ErrorCode::InvalidUrl }
        })?;
        let uri: Uri = url.as_str().parse().map_err(|_| ErrorCode::InvalidUrl)?;
        let place = Place::new(uri).ok_or(ErrorCode::InvalidUrl)?;
        Ok(Destination(Arc::new(place)))
    }

    /// Posts to a URL, and tells what came back. Dropping the future drops the connection. Where [`Egress::destination`] fails,
    /// its error is the answer, and nothing is sent nor resolved.
    pub async fn post(&self, url: &str, request: Request) -> Response {
        match self.destination(url) {
            Ok(destination) => self.send(Method::POST, &destination, request).await,
            Err(code) => Response::failed(code),
        }
    }

    /// As [`Egress::post`], with another method, to a place that was checked before.
    pub async fn send(&self, method: Method, destination: &Destination, request: Request) -> Response {
        let deadline = Instant::now() + request.timeout.min(TIMEOUT_MAX);
        let sent = match prepare(method, destination, request) {
            Ok(sent) => sent,
            Err(code) => return Response::failed(code),
        };
        let place = &*destination.0;
        match timeout_at(deadline, self.head(place, sent)).await {
            Ok(Ok((link, answer))) => {
                let body_until = Instant::now().checked_add(self.limits.body);
                let until = body_until.map_or(deadline, |until| until.min(deadline));
                self.read(place, link, answer, until).await
            }
            Ok(Err(response)) => response,
            Err(_) => Response::failed(ErrorCode::Timeout),
        }
    }

    /// Sends and waits for the head of the final answer; or says why there is none.
    async fn head(
        &self,
        place: &Place,
        mut sent: Sent,
    ) -> Result<(Link, http::Response<Incoming>), Response> {
        let informational = count_informational(&mut sent);
        loop {
            let kept = self.pool.take(place);
            let is_kept = kept.is_some();
            let mut link = match kept {
                Some(link) => link,
                // Boxed: it is large, and most requests do without.
                None => Box::pin(self.pool.dial(place)).await.map_err(|error| no_answer(place, &error))?,
            };
            match link.ask(sent, &informational).await {
                Ok(answer) => return Ok((link, answer)),
                // The other side closed it while nobody used it.
                Err(Unanswered::Broken { unsent: Some(unsent), .. }) if is_kept => sent = *unsent,
                Err(error) => return Err(no_answer(place, &error)),
            }
        }
    }

    /// Reads what is wanted of the answer. Its connection is kept where that is all, and is dropped with the rest otherwise.
    async fn read(
        &self,
        place: &Place,
        mut link: Link,
        answer: http::Response<Incoming>,
        until: Instant,
    ) -> Response {
        let (head, mut body) = answer.into_parts();
        let mut excerpt = Vec::new();
        let mut seen = 0;
        let error = loop {
            if body.is_end_stream() {
                self.pool.keep(place, link, until).await;
                break None;
            }
            match timeout_at(until, link.frame(&mut body)).await {
                Ok(None) => {
                    self.pool.keep(place, link, until).await;
                    break None;
                }
                Ok(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    let room = AttemptResult::EXCERPT_MAX_BYTES - excerpt.len();
                    excerpt.extend_from_slice(&data[..room.min(data.len())]);
                    seen += data.len();
                    if seen > BODY_MAX_BYTES {
                        break None;
                    }
                }
                Ok(Some(Err(error))) => break Some(code_of(&error)),
                Err(_) => break Some(ErrorCode::Timeout),
            }
        };
        Response {
            status: Some(head.status.as_u16()),
            error,
            withheld: false,
            retry_after: retry_after(&head.headers),
            excerpt: excerpt.into(),
        }
    }
}

/// What became of a request without an answer.
fn no_answer(place: &Place, error: &(dyn std::error::Error + 'static)) -> Response {
    if Withheld::caused(error) {
        return Response { withheld: true, ..Response::default() };
    }
    let code = code_of(error);
    tracing::debug!(host = place.uri.host(), code = code.code(), error = %chain(error), "no answer");
    Response::failed(code)
}

/// The request as the client takes it.
fn prepare(method: Method, destination: &Destination, request: Request) -> Result<Sent, ErrorCode> {
    let mut headers = HeaderMap::with_capacity(request.headers.len() + 3);
    headers.insert(header::HOST, destination.0.host.clone());
    headers.insert(header::USER_AGENT, USER_AGENT);
    for (name, value) in request.headers {
        if is_framing(&name) {
            tracing::debug!(header = name.as_str(), "the header frames requests and cannot be set");
            return Err(ErrorCode::InvalidRequest);
        }
        headers.insert(name, value);
    }
    // The client leaves it out for an empty body, and some servers then answer 411.
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(request.body.len()));
    let mut sent = http::Request::new(Full::new(request.body));
    *sent.method_mut() = method;
    *sent.uri_mut() = destination.0.path.clone();
    *sent.headers_mut() = headers;
    Ok(sent)
}

/// Counts informational answers: the HTTP client passes over them for ever.
fn count_informational(sent: &mut Sent) -> Arc<AtomicU32> {
    let seen = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&seen);
    hyper::ext::on_informational(sent, move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    seen
}

fn retry_after(headers: &HeaderMap) -> Vec<Bytes> {
    let values = headers.get_all(header::RETRY_AFTER).iter().map(HeaderValue::as_bytes);
    values
        .filter(|v| v.len() <= RETRY_AFTER_BYTES)
        .take(RETRY_AFTER_COPIES)
        .map(Bytes::copy_from_slice)
        .collect()
}

/// The error and what caused it, for operators.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |e| e.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
