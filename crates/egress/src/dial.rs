//! The connector: from a URI to a connection to an address that may be dialled.
//!
//! This is where the address policy holds, because every connection is made here: names and literals, first attempts
//! and pooled ones, whatever the client above does.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use mailrail_types::ErrorCode;
use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::guard::{Beginning, Guard, Guarded};
use crate::{AddressPolicy, Limits, Resolve};

/// Most addresses of one name that are dialled. All are vetted; nobody needs more than these to be reached.
pub const ADDRESSES_MAX: usize = 16;

/// How long an address has the race to itself before the next one joins (RFC 8305).
const STAGGER: Duration = Duration::from_millis(250);

/// A connection, plain or TLS.
pub(crate) type Wire = MaybeHttpsStream<TokioIo<Guarded>>;

/// Why there is no connection. The detail is for operators: it may hold addresses.
#[derive(Debug, Error)]
#[error("{}: {detail}", code.code())]
pub(crate) struct DialError {
    pub(crate) code: ErrorCode,
    detail: String,
    source: Option<io::Error>,
}

impl DialError {
    fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        DialError { code, detail: detail.into(), source: None }
    }

    /// The HTTP client took no connection that is there.
    pub(crate) fn handshake(error: &hyper::Error) -> Self {
        Self::new(ErrorCode::ConnectFailed, error.to_string())
    }
}

/// Makes connections for the HTTP client.
pub(crate) struct Dial {
    policy: AddressPolicy,
    resolver: Arc<dyn Resolve>,
    tls: TlsConnector,
    limits: Limits,
    guard: Guard,
}

impl Dial {
    pub(crate) fn new(
        policy: AddressPolicy,
        resolver: Arc<dyn Resolve>,
        tls: rustls::ClientConfig,
        limits: Limits,
        guard: Guard,
    ) -> Self {
        Dial { policy, resolver, tls: TlsConnector::from(Arc::new(tls)), limits, guard }
    }

    /// Connects to an address of the host that may be dialled, with TLS where the scheme says so.
    ///
    /// # Errors
    /// [`DialError`]
    pub(crate) async fn dial(&self, uri: &Uri) -> Result<(Wire, Beginning), DialError> {
        let invalid = |detail: &str| DialError::new(ErrorCode::InvalidUrl, detail);
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(invalid("the scheme is neither https nor http")),
        };
        let host = uri.host().ok_or_else(|| invalid("there is no host"))?;
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });

        let addresses = self.addresses(host).await?;
        let vetted = self.vet(&addresses)?;
        let targets = vetted.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
        let tcp = match timeout(self.limits.connect, connect_first(targets)).await {
            Ok(connected) => connected?,
            Err(_) => return Err(DialError::new(ErrorCode::ConnectTimeout, "no address answered in time")),
        };
        check_ends(&self.policy, tcp.local_addr(), tcp.peer_addr())?;
        // Requests are small and written whole: waiting for more to send only delays them.
        tcp.set_nodelay(true).map_err(|e| DialError::new(ErrorCode::ConnectFailed, e.to_string()))?;
        let beginning = Beginning::now();
        let plain = TokioIo::new(Guarded::new(tcp, self.guard.clone(), beginning.clone()));
        let wire = if secure { self.secure(host, plain).await? } else { MaybeHttpsStream::Http(plain) };
        Ok((wire, beginning))
    }

    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, DialError> {
        if let Ok(literal) = host.parse::<IpAddr>() {
            return Ok(vec![literal]);
        }
        let failed = |detail: String| DialError::new(ErrorCode::DnsFailure, detail);
        match timeout(self.limits.dns, self.resolver.resolve(host)).await {
            Ok(Ok(found)) if found.is_empty() => Err(failed("the name has no address".to_owned())),
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed("the resolver did not answer in time".to_owned())),
        }
    }

    /// One denied address refuses the whole answer: a name that points inside and outside is an attack or a mistake.
    fn vet(&self, addresses: &[IpAddr]) -> Result<Vec<IpAddr>, DialError> {
        match addresses.iter().find(|ip| !self.policy.allows(**ip)) {
            Some(denied) => Err(DialError::new(ErrorCode::BlockedDestination, format!("{denied} is denied"))),
            None => Ok(addresses.iter().copied().take(ADDRESSES_MAX).collect()),
        }
    }

    async fn secure(&self, host: &str, plain: TokioIo<Guarded>) -> Result<Wire, DialError> {
        let failed = |detail: String| DialError::new(ErrorCode::TlsError, detail);
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            DialError::new(ErrorCode::InvalidUrl, "the host cannot be the name of a certificate")
        })?;
        match timeout(self.limits.tls, self.tls.connect(name, TokioIo::new(plain))).await {
            Ok(Ok(stream)) => Ok(stream.into()),
            Ok(Err(error)) => {
                Err(DialError { source: Some(error), ..failed(String::from("the handshake failed")) })
            }
            Err(_) => Err(failed("the handshake took too long".to_owned())),
        }
    }
}

/// Connects to the first address that answers, the next one joining when those before failed or take long. The losers
/// are dropped with the set.
async fn connect_first(targets: Vec<SocketAddr>) -> Result<TcpStream, DialError> {
    let mut waiting = targets.into_iter();
    let mut racing = JoinSet::new();
    let mut failure = DialError::new(ErrorCode::ConnectFailed, "there was no address to dial");
    loop {
        if let Some(target) = waiting.next() {
            racing.spawn(async move { (target, TcpStream::connect(target).await) });
        } else if racing.is_empty() {
            return Err(failure);
        }
        tokio::select! {
            finished = racing.join_next() => match finished {
                Some(Ok((_, Ok(stream)))) => return Ok(stream),
                Some(Ok((target, Err(error)))) => {
                    failure = DialError::new(ErrorCode::ConnectFailed, format!("{target}: {error}"));
                }
                Some(Err(_)) | None => {}
            },
            () = sleep(STAGGER), if waiting.len() > 0 => {}
        }
    }
}

/// Looks again at where the connection really leads, before a byte is sent. One whose two ends are the same address
/// leads to this host under its public address, which no list knows.
fn check_ends(
    policy: &AddressPolicy,
    local: io::Result<SocketAddr>,
    peer: io::Result<SocketAddr>,
) -> Result<(), DialError> {
    let gone = |error: io::Error| DialError::new(ErrorCode::ConnectFailed, error.to_string());
    let (local, peer) = (local.map_err(gone)?.ip(), peer.map_err(gone)?.ip());
    let to_itself = local == peer && !policy.allows_by_exception(peer);
    if !policy.allows(peer) || to_itself {
        return Err(DialError::new(
            ErrorCode::BlockedDestination,
            format!("connected to {peer}, which is denied"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(policy: &AddressPolicy, local: &str, peer: &str) -> Option<ErrorCode> {
        let addr = |ip: &str| Ok(SocketAddr::new(ip.parse().unwrap(), 443));
        check_ends(policy, addr(local), addr(peer)).err().map(|e| e.code)
    }

    #[test]
    fn n17_the_connection_itself_is_vetted_again() {
        let strict = AddressPolicy::default();
        let blocked = Some(ErrorCode::BlockedDestination);
        assert_eq!(ends(&strict, "10.0.0.1", "1.1.1.1"), None);
        assert_eq!(ends(&strict, "10.0.0.1", "10.0.0.2"), blocked);
        assert_eq!(ends(&strict, "1.1.1.1", "1.1.1.1"), blocked, "this host under its public address");
        let open = AddressPolicy { allow_loopback: true, ..AddressPolicy::default() };
        assert_eq!(ends(&open, "127.0.0.1", "127.0.0.1"), None);
        let failed = check_ends(&strict, Err(io::Error::other("gone")), Err(io::Error::other("gone")));
        assert_eq!(failed.err().map(|e| e.code), Some(ErrorCode::ConnectFailed));
    }
}
