//! Connections, kept between requests.
//!
//! Whoever has a request under way drives its connection: an answer wakes one task and not two, and no task waits beside each
//! connection. One that nobody uses is looked after by a sweep: the other side may have closed it.

use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::{Body as _, Frame, Incoming};
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use thiserror::Error;
use tokio::task::{unconstrained, yield_now};
use tokio::time::{Instant, sleep, timeout_at};

use crate::client::{HEAD_MAX_BYTES, HEADERS_MAX, INFORMATIONAL_MAX};
use crate::dial::{Dial, DialError, Wire};
use crate::guard::Beginning;

/// How long an idle connection is kept: long enough for a stream of events, shorter than most servers' own limit.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// Idle connections to all hosts together: each is a file of the process, and hosts are named by tenants.
const IDLE_TOTAL_MAX: usize = 4_096;
/// Between two looks for connections that are idle for too long, or were closed by the other side.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// What is sent.
pub(crate) type Sent = Request<Full<Bytes>>;

/// Where requests go, made out once for any number of them.
#[derive(PartialEq, Eq)]
pub(crate) struct Place {
    /// The whole URL.
    pub(crate) uri: Uri,
    /// What of it stands in a request.
    pub(crate) path: Uri,
    pub(crate) host: HeaderValue,
    /// Requests with the same one share connections: scheme, host and port.
    origin: Arc<str>,
}

impl Place {
    /// `None` for a URL that is not absolute.
    pub(crate) fn new(uri: Uri) -> Option<Self> {
        let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
        let default = if scheme == "https" { 443 } else { 80 };
        let port = uri.port_u16().unwrap_or(default);
        let host = if port == default {
            authority.host().to_owned()
        } else {
            format!("{}:{port}", authority.host())
        };
        let path = uri.path_and_query().cloned().map_or_else(Uri::default, Uri::from);
        let origin = format!("{scheme}://{}:{port}", authority.host()).into();
        let host = HeaderValue::try_from(host).ok()?;
        Some(Self { path, host, origin, uri })
    }
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub(crate) enum Unanswered {
    #[error("too many informational answers")]
    Flooded,
    #[error("{error}")]
    Broken {
        #[source]
        error: hyper::Error,
        /// The request, where nothing of it was written.
        unsent: Option<Box<Sent>>,
    },
}

/// A connection, with at most one request under way.
pub(crate) struct Link {
    sender: SendRequest<Full<Bytes>>,
    /// `None`: it has ended.
    connection: Option<Box<Connection<Wire, Full<Bytes>>>>,
    beginning: Beginning,
}

impl Link {
    /// Lets the connection do what it can do now. What that is for the request is told by its answer.
    fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            && Pin::new(&mut **connection).poll(cx).is_ready()
        {
            // Dropped, it answers what was not answered.
            self.connection = None;
        }
    }

    /// Sends a request and waits for the head of its final answer. `informational` counts those before it.
    ///
    /// # Errors
    /// [`Unanswered`]; the connection is not to be used again.
    pub(crate) async fn ask(
        &mut self,
        request: Sent,
        informational: &AtomicU32,
    ) -> Result<Response<Incoming>, Unanswered> {
        // A handshake, or what came in since the last answer, is no request.
        self.beginning.again();
        let mut answer = pin!(self.sender.try_send_request(request));
        std::future::poll_fn(|cx| {
            self.drive(cx);
            if informational.load(Ordering::Relaxed) > INFORMATIONAL_MAX {
                return Poll::Ready(Err(Unanswered::Flooded));
            }
            answer.as_mut().poll(cx).map_err(|mut refused| {
                let unsent = refused.take_message().map(Box::new);
                Unanswered::Broken { error: refused.into_error(), unsent }
            })
        })
        .await
    }

    /// The next part of an answer's body; `None` at its end.
    pub(crate) async fn frame(&mut self, body: &mut Incoming) -> Option<hyper::Result<Frame<Bytes>>> {
        std::future::poll_fn(|cx| {
            self.drive(cx);
            Pin::new(&mut *body).poll_frame(cx)
        })
        .await
    }

    /// Waits until the last request was written, and its answer read, to the end: some answer before they have read what they
    /// answer, and what is cut then never arrives. Says whether another request may be sent.
    async fn settled(&mut self) -> bool {
        std::future::poll_fn(|cx| {
            if self.connection.is_some() && self.sender.is_ready() {
                return Poll::Ready(true);
            }
            // It may not have looked beyond the end of the answer yet.
            self.drive(cx);
            match &self.connection {
                None => Poll::Ready(false),
                Some(_) if self.sender.is_ready() => Poll::Ready(true),
                Some(_) => Poll::Pending,
            }
        })
        .await
    }

    /// Whether the other side still holds it, as far as is known here.
    fn lives(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.connection.is_some() && self.sender.is_ready()
    }
}

/// A connection that nobody uses.
struct Idle {
    link: Link,
    until: Instant,
}

#[derive(Default)]
struct Kept {
    /// Of each origin, the one that was used last at the end.
    idle: HashMap<Arc<str>, Vec<Idle>>,
    /// How many there are of all origins.
    total: usize,
    /// A sweep runs.
    swept: bool,
}

/// The connections of an [`Egress`](crate::Egress).
pub(crate) struct Pool {
    dial: Dial,
    /// Most idle connections of one origin.
    idle_max: usize,
    kept: Mutex<Kept>,
}

impl Pool {
    pub(crate) fn new(dial: Dial, idle_max: usize) -> Arc<Self> {
        Arc::new(Self { dial, idle_max, kept: Mutex::default() })
    }

    /// A connection that was used before, the last one first. Whether the other side closed it meanwhile is seen when it is used.
    pub(crate) fn take(&self, place: &Place) -> Option<Link> {
        let mut kept = self.lock();
        let idle = kept.idle.get_mut(&place.origin)?.pop()?;
        kept.total -= 1;
        drop(kept);
        (idle.until > Instant::now()).then_some(idle.link)
    }

    /// A new connection.
    ///
    /// # Errors
    /// [`DialError`]
    pub(crate) async fn dial(&self, place: &Place) -> Result<Link, DialError> {
        let (wire, beginning) = self.dial.dial(&place.uri).await?;
        let mut http = Builder::new();
        let http = http.max_headers(HEADERS_MAX).max_buf_size(HEAD_MAX_BYTES);
        let (sender, connection) =
            http.handshake(wire).await.map_err(|error| DialError::handshake(&error))?;
        Ok(Link { sender, connection: Some(Box::new(connection)), beginning })
    }

    /// Keeps a connection whose answer was read to its end, when its request is written: that is waited for until `until`. One that
    /// cannot be used again is closed.
    pub(crate) async fn keep(self: &Arc<Self>, place: &Place, mut link: Link, until: Instant) {
        if !timeout_at(until, link.settled()).await.unwrap_or(false) {
            return;
        }
        let idle = Idle { link, until: Instant::now() + IDLE_MAX };
        let mut kept = self.lock();
        let Kept { idle: of_all, total, .. } = &mut *kept;
        if *total >= IDLE_TOTAL_MAX {
            return;
        }
        let of_origin = match of_all.get_mut(&place.origin) {
            Some(of_origin) => of_origin,
            None => of_all.entry(place.origin.clone()).or_default(),
        };
        if of_origin.len() < self.idle_max {
            of_origin.push(idle);
            *total += 1;
        }
        if !std::mem::replace(&mut kept.swept, true) {
            // Without a budget: it would end in the middle, and what is not looked at would seem to live.
            tokio::spawn(unconstrained(sweep(Arc::downgrade(self))));
        }
    }

    /// Closes connections that are idle for too long or have ended. Says whether some are left.
    async fn sweep(&self) -> bool {
        let origins: Vec<Arc<str>> = self.lock().idle.keys().cloned().collect();
        for origin in origins {
            self.sweep_origin(&origin);
            // Requests have their turn between two origins.
            yield_now().await;
        }
        let mut kept = self.lock();
        kept.swept = !kept.idle.is_empty();
        kept.swept
    }

    fn sweep_origin(&self, origin: &str) {
        let now = Instant::now();
        // Closed when the lock is free again: that is a system call for each.
        let mut gone = Vec::new();
        let mut kept = self.lock();
        let Some(of_origin) = kept.idle.get_mut(origin) else { return };
        gone.extend(of_origin.extract_if(.., |idle| idle.until <= now || !idle.link.lives()));
        if of_origin.is_empty() {
            kept.idle.remove(origin);
        }
        kept.total -= gone.len();
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks after what is kept for as long as something is.
async fn sweep(pool: Weak<Pool>) {
    loop {
        sleep(SWEEP_INTERVAL).await;
        let Some(pool) = pool.upgrade() else { return };
        if !pool.sweep().await {
            return;
        }
    }
}
