//! Which URLs may be registered: fast feedback at set-up, and the same check again before every post.
//!
//! This is not what keeps requests out of a network: names resolve to what their owner likes. The connector does that.

use std::net::IpAddr;

use thiserror::Error;
use url::{Host, Url};

use crate::AddressPolicy;

/// Longest URL: what every server takes, and room for a token in the path.
pub const URL_MAX_BYTES: usize = 2048;

/// Longest host name and label of the DNS.
const NAME_MAX_BYTES: usize = 253;
const LABEL_MAX_BYTES: usize = 63;

/// Names that mean something inside a network only, or nothing at all (RFC 2606, 6761, 6762, 7686, 8375, Kubernetes).
const INTERNAL_SUFFIXES: &[&str] = &[
    "localhost",
    "local",
    "internal",
    "localdomain",
    "home.arpa",
    "test",
    "invalid",
    "example",
    "onion",
    "svc",
    "cluster.local",
];

/// Ports below this belong to system services; of those only the ports of HTTP are receivers.
const FIRST_USER_PORT: u16 = 1024;

/// Ports above [`FIRST_USER_PORT`] of services that obey bytes shaped like a request: NFS, X11, IRC, Docker, etcd, MySQL,
/// PostgreSQL, Redis, Kafka, Elasticsearch, memcached, MongoDB, kubelet.
const SERVICE_PORTS: &[u16] = &[
    2049, 2375, 2376, 2379, 2380, 3306, 5432, 6000, 6379, 6380, 6665, 6666, 6667, 6668, 6669, 6697, 9092,
    9200, 9300, 10250, 11211, 27017,
];

/// What an endpoint's URL may be, and where it may lead. The default is right for strangers on the internet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UrlPolicy {
    /// Whether `http:` may be used: bodies and signatures then travel in the clear.
    pub allow_http: bool,
    /// Whether a host may be an IP address instead of a name.
    pub allow_ip_literals: bool,
    /// Whether a host may be a single label (`receiver`) or a name of an internal or reserved kind (`x.svc.cluster.local`).
    pub allow_internal_names: bool,
    /// Names that are refused whatever else is allowed, lower-case without a final dot: mailrail's own hosts.
    pub deny_hosts: Vec<String>,
    /// Which addresses may be dialled.
    pub addresses: AddressPolicy,
}

impl UrlPolicy {
    /// For development on one machine: plain HTTP, IP addresses, internal names, loopback.
    #[must_use]
    pub fn development() -> Self {
        UrlPolicy {
            allow_http: true,
            allow_ip_literals: true,
            allow_internal_names: true,
            deny_hosts: Vec::new(),
            addresses: AddressPolicy { allow_loopback: true, ..AddressPolicy::default() },
        }
    }
}

/// Why a URL is refused. The texts say what to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UrlError {
    /// Not a URL, or one that two parsers may read differently.
    #[error("the URL is malformed: {0}")]
    Malformed(&'static str),
    /// Another scheme than `https`, or than `http` where that is allowed.
    #[error("the URL's scheme cannot be used: write 'https://…'{}", if *.http { "; 'http' is for the operator to allow" } else { "" })]
    Scheme {
        /// Whether it is `https` or `http`, so that a setting could allow it.
        http: bool,
    },
    /// A user name or password.
    #[error("the URL has a user name or password before the host: put credentials into a header")]
    Userinfo,
    /// A fragment.
    #[error("the URL has a fragment: remove '#' and what follows, it is never sent")]
    Fragment,
    /// An IP address for a host.
    #[error("the URL's host is an IP address: use a DNS name")]
    IpLiteral,
    /// An IP address that may not be dialled.
    #[error("the URL's address is in a network that is not allowed: use a public address")]
    Address,
    /// A host name that means nothing outside.
    #[error("the URL's host is not allowed: {0}")]
    Host(&'static str),
    /// A port where no receiver lives.
    #[error(
        "the URL's port {0} is not allowed: use 443, 80 with http, or a port from 1024 that is no well-known service's"
    )]
    Port(u16),
}

impl UrlError {
    /// The stable code, as APIs carry it.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            UrlError::Malformed(_) => "malformed_url",
            UrlError::Scheme { .. } => "scheme_not_allowed",
            UrlError::Userinfo => "userinfo_not_allowed",
            UrlError::Fragment => "fragment_not_allowed",
            UrlError::IpLiteral => "ip_literal_not_allowed",
            UrlError::Address => "address_not_allowed",
            UrlError::Host(_) => "host_not_allowed",
            UrlError::Port(_) => "port_not_allowed",
        }
    }

    /// Whether a setting of the operator decides, and not the URL alone. Such mail can wait for the setting.
    #[must_use]
    pub const fn depends_on_policy(self) -> bool {
        match self {
            UrlError::Malformed(_) | UrlError::Userinfo | UrlError::Fragment | UrlError::Port(_) => false,
            UrlError::Scheme { http } => http,
            UrlError::IpLiteral | UrlError::Address | UrlError::Host(_) => true,
        }
    }
}

/// Reads a URL that somebody wants to be called at. Store and use the returned URL's text, never the given one: it is
/// the form that every parser reads alike (host in lower case and ASCII, IP addresses in their plain form).
///
/// # Errors
/// [`UrlError`]: the first reason in the order scheme, user name, fragment, host, port.
pub fn check_url(url: &str, policy: &UrlPolicy) -> Result<Url, UrlError> {
    let mut parsed = parse(url)?;
    match parsed.scheme() {
        "https" => {}
        "http" if policy.allow_http => {}
        other => return Err(UrlError::Scheme { http: other == "http" }),
    }
    // An empty user name vanishes in parsing and is one for other parsers.
    if !parsed.username().is_empty() || parsed.password().is_some() || authority(url).contains('@') {
        return Err(UrlError::Userinfo);
    }
    if parsed.fragment().is_some() {
        return Err(UrlError::Fragment);
    }
    match parsed.host() {
        Some(Host::Ipv4(ip)) => check_address(ip.into(), policy)?,
        Some(Host::Ipv6(ip)) => check_address(ip.into(), policy)?,
        Some(Host::Domain(name)) => {
            let rooted = name.strip_suffix('.').map(str::to_owned);
            check_name(rooted.as_deref().unwrap_or(name), policy)?;
            if let Some(name) = rooted {
                parsed.set_host(Some(&name)).map_err(|_| UrlError::Malformed("its host is not a name"))?;
            }
        }
        None => return Err(UrlError::Malformed("it has no host")),
    }
    check_port(&parsed)?;
    check_round_trip(&parsed)?;
    Ok(parsed)
}

/// Parses strictly: the parser repairs what a browser's user may type, and each repair is a difference to other parsers.
fn parse(url: &str) -> Result<Url, UrlError> {
    if url.len() > URL_MAX_BYTES {
        return Err(UrlError::Malformed("it is longer than 2048 bytes"));
    }
    if url.chars().any(|c| c <= ' ' || c == '\u{7f}' || c == '\u{feff}') {
        return Err(UrlError::Malformed("it holds a space or control character: percent-encode it"));
    }
    if url.contains('\\') {
        return Err(UrlError::Malformed("it holds a backslash: write '/' or '%5C'"));
    }
    let parsed = Url::parse(url).map_err(|_| UrlError::Malformed("write it as https://host/path"))?;
    let shape = url.get(parsed.scheme().len()..).unwrap_or_default();
    let special = matches!(parsed.scheme(), "https" | "http");
    if special && (!shape.starts_with("://") || shape.starts_with(":///")) {
        return Err(UrlError::Malformed(
            "two slashes and a host follow the scheme: write it as https://host/path",
        ));
    }
    Ok(parsed)
}

/// What stands between `://` and the path.
fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

fn check_address(ip: IpAddr, policy: &UrlPolicy) -> Result<(), UrlError> {
    if !policy.allow_ip_literals {
        return Err(UrlError::IpLiteral);
    }
    if policy.addresses.allows(ip) { Ok(()) } else { Err(UrlError::Address) }
}

fn check_name(name: &str, policy: &UrlPolicy) -> Result<(), UrlError> {
    if name.len() > NAME_MAX_BYTES {
        return Err(UrlError::Malformed("its host is longer than 253 characters"));
    }
    let token = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    for label in name.split('.') {
        if label.is_empty() || label.len() > LABEL_MAX_BYTES {
            return Err(UrlError::Malformed("each part of its host between dots has 1 to 63 characters"));
        }
        if !label.bytes().all(token) || label.starts_with('-') || label.ends_with('-') {
            return Err(UrlError::Malformed(
                "its host holds other characters than letters, digits, '-' and '_'",
            ));
        }
    }
    let is_or_is_under =
        |suffix: &str| name.strip_suffix(suffix).is_some_and(|head| head.is_empty() || head.ends_with('.'));
    if policy.deny_hosts.iter().any(|denied| name == denied) {
        return Err(UrlError::Host(
            "it is one of mailrail's own hosts or was denied by the operator: use another",
        ));
    }
    if !policy.allow_internal_names {
        if !name.contains('.') {
            return Err(UrlError::Host("it has a single label: use a full DNS name"));
        }
        if INTERNAL_SUFFIXES.iter().any(|suffix| is_or_is_under(suffix)) {
            return Err(UrlError::Host("it ends in a reserved or internal domain: use a public DNS name"));
        }
    }
    Ok(())
}

fn check_port(url: &Url) -> Result<(), UrlError> {
    let port = url.port_or_known_default().unwrap_or_default();
    let ok = match port {
        443 => true,
        80 => url.scheme() == "http",
        FIRST_USER_PORT.. => !SERVICE_PORTS.contains(&port),
        _ => false,
    };
    if ok { Ok(()) } else { Err(UrlError::Port(port)) }
}

/// The form that is stored must mean the same to its own parser and to the one that the HTTP client uses.
fn check_round_trip(url: &Url) -> Result<(), UrlError> {
    let changed = UrlError::Malformed("it does not read the same twice: write it with ASCII characters only");
    let again = Url::parse(url.as_str()).map_err(|_| changed)?;
    let uri: http::Uri = url.as_str().parse().map_err(|_| changed)?;
    let same = again == *url
        && uri.scheme_str() == Some(url.scheme())
        && uri.host() == url.host_str()
        && uri.port_u16() == url.port()
        && uri.path() == url.path()
        && uri.query() == url.query();
    if same { Ok(()) } else { Err(changed) }
}

#[cfg(test)]
mod tests;
