//! Posts of telemetry to a collector, the other trusting direction: the operator names the address, so there is no address
//! policy. Proxies of the environment are ignored and redirects are errors: it goes where it was meant to go.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use reqwest::redirect::Policy;
use thiserror::Error;

use crate::{Error, tls};

/// Most bytes of an answer: a collector says in a few how much it took.
const RESPONSE_MAX_BYTES: usize = 64 * 1024;

/// Most idle connections that are kept: one is used at a time.
const IDLE_MAX: usize = 1;

/// Why a post brought no answer.
#[derive(Debug, Error)]
pub enum CollectorError {
    /// No answer, or not to its end. Without the URL, which may hold a token.
    #[error("no answer: {0}")]
    Unanswered(String),
    /// More of it than is read.
    #[error("the answer is larger than 64 KiB: is it a collector?")]
    TooLarge,
}

/// Posts to a collector. Clones share connections.
#[derive(Debug, Clone)]
pub struct Collector {
    http: reqwest::Client,
}

impl Collector {
    /// A client whose posts take `timeout` at most, from name lookup to the last byte. Trusts the public certificate
    /// authorities and those of this machine.
    ///
    /// # Errors
    /// [`Error`] when the TLS library refuses its configuration.
    pub fn new(timeout: Duration) -> Result<Self, Error> {
        let mut roots = tls::public_roots(None)?;
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls::client_config(roots)?)
            .no_proxy()
            .redirect(Policy::none())
            .timeout(timeout)
            .pool_max_idle_per_host(IDLE_MAX)
            .user_agent(concat!("mailrail/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| Error::Client(error.to_string()))?;
        Ok(Self { http })
    }

    /// Brings a request there; any status is an answer.
    ///
    /// # Errors
    /// [`CollectorError`] when there is none, or more than is read.
    pub async fn post(&self, request: Request<Bytes>) -> Result<Response<Bytes>, CollectorError> {
        let request = reqwest::Request::try_from(request).map_err(|e| unanswered(&e))?;
        let mut answer = self.http.execute(request).await.map_err(|e| unanswered(&e))?;
        let mut body = BytesMut::new();
        while let Some(chunk) = answer.chunk().await.map_err(|e| unanswered(&e))? {
            if body.len() + chunk.len() > RESPONSE_MAX_BYTES {
                return Err(CollectorError::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        let mut response = Response::new(body.freeze());
        *response.status_mut() = answer.status();
        *response.headers_mut() = std::mem::take(answer.headers_mut());
        Ok(response)
    }
}

/// The cause without the URL.
fn unanswered(error: &reqwest::Error) -> CollectorError {
    let cause = std::iter::successors(std::error::Error::source(error), |e| e.source()).last();
    CollectorError::Unanswered(cause.map_or_else(|| "the request broke".to_owned(), ToString::to_string))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// The body of each request, and so its end.
    const SPANS: &[u8] = b"spans";

    /// A server that reads one request to its end and answers with this.
    async fn server(answer: Vec<u8>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            // What is unread when the stream closes resets the connection, and the answer with it.
            let mut request = BytesMut::new();
            while !request.ends_with(SPANS) {
                assert!(stream.read_buf(&mut request).await.unwrap() > 0, "the request broke off");
            }
            let _ = stream.write_all(&answer).await;
        });
        format!("http://{address}/v1/traces")
    }

    fn request(url: &str) -> Request<Bytes> {
        Request::post(url).body(Bytes::from_static(SPANS)).unwrap()
    }

    #[tokio::test]
    async fn any_status_is_an_answer_and_a_redirect_is_not_followed() {
        let collector = Collector::new(Duration::from_secs(30)).unwrap();
        for (line, status) in [("200 OK", 200), ("500 X", 500), ("302 Found\r\nlocation: /other", 302)] {
            let url = server(format!("HTTP/1.1 {line}\r\ncontent-length: 2\r\n\r\nok").into_bytes()).await;
            let answer = collector.post(request(&url)).await.unwrap();
            assert_eq!((answer.status().as_u16(), &answer.body()[..]), (status, &b"ok"[..]));
        }
    }

    #[tokio::test]
    async fn an_endless_answer_is_not_read_to_its_end() {
        let body = vec![b'x'; RESPONSE_MAX_BYTES + 1];
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        let url = server([head.into_bytes(), body].concat()).await;
        let failed = Collector::new(Duration::from_secs(30)).unwrap().post(request(&url)).await;
        assert!(matches!(failed, Err(CollectorError::TooLarge)), "{failed:?}");
    }

    #[tokio::test]
    async fn a_refused_connection_and_a_hanging_server_are_told_without_the_url() {
        let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let hanging = TcpListener::bind("127.0.0.1:0").await.unwrap();
        for address in [gone, hanging.local_addr().unwrap()] {
            let collector = Collector::new(Duration::from_millis(200)).unwrap();
            let error = collector.post(request(&format!("http://{address}/canary"))).await.unwrap_err();
            assert!(matches!(error, CollectorError::Unanswered(_)), "{error}");
            assert!(!error.to_string().contains("canary"), "{error}");
        }
    }
}
