//! Addresses that must not be reached are not even dialled.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mailrail_egress::{Egress, EgressConfig, Limits, Resolve, Resolving, UrlPolicy};
use mailrail_types::ErrorCode;
use tokio::io::AsyncWriteExt;

use crate::support::*;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Everything a URL may be, and public addresses only.
fn open_urls() -> UrlPolicy {
    UrlPolicy { addresses: Default::default(), ..UrlPolicy::development() }
}

fn resolving(answer: impl Fn(&str) -> io::Result<Vec<std::net::IpAddr>> + Send + Sync + 'static) -> Egress {
    let resolver: Arc<dyn Resolve> = Arc::new(Answers(answer));
    let limits = Limits { connect: Duration::from_secs(10), ..Limits::default() };
    let config =
        EgressConfig { url: open_urls(), resolver: Some(resolver), limits, ..EgressConfig::default() };
    Egress::new(config).unwrap()
}

async fn outcome(egress: &Egress, url: &str) -> (Option<u16>, Option<ErrorCode>) {
    let answer = post(egress, url).await;
    (answer.status, answer.error)
}

const BLOCKED: (Option<u16>, Option<ErrorCode>) = (None, Some(ErrorCode::BlockedDestination));
const UNRESOLVED: (Option<u16>, Option<ErrorCode>) = (None, Some(ErrorCode::DnsFailure));

/// X02, N17: the canary listens where each of these leads, and nobody comes.
#[tokio::test]
async fn n17_t09_loopback_is_not_dialled_by_any_name() {
    let canary = answering(OK).await;
    let egress = egress_with(|c| c.url = open_urls());
    let port = canary.addr.port();
    for host in
        ["127.0.0.1", "localhost", "LOCALHOST.", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "0", "[::1]"]
    {
        assert_eq!(outcome(&egress, &format!("http://{host}:{port}/")).await, BLOCKED, "{host}");
    }
    for answer in ["127.0.0.1", "::ffff:127.0.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0"] {
        let egress = resolving(move |_| Ok(ips(answer)));
        assert_eq!(outcome(&egress, &format!("http://hook.acme.com:{port}/")).await, BLOCKED, "{answer}");
    }
    assert_eq!(canary.connections(), 0);
    let open = egress_with(|_| {});
    assert_eq!(outcome(&open, &canary.url()).await, (Some(200), None), "the canary is alive");
    assert_eq!(canary.connections(), 1);
}

/// X02, N17: the address is opened, its neighbours in the same answer are not: the answer is refused whole.
#[tokio::test]
async fn n17_t11_one_denied_address_refuses_the_answer() {
    let canary = answering(OK).await;
    let url = format!("http://hook.acme.com:{}/", canary.addr.port());
    let mixed = |answer: String| {
        egress_with(move |c| {
            c.url.addresses.allow_loopback = false;
            c.url.addresses.allow_cidrs = vec!["127.0.0.1/32".parse().unwrap()];
            c.resolver = Some(Arc::new(Answers(move |_: &str| Ok(ips(&answer)))));
        })
    };
    let many = "127.0.0.1 ".repeat(199) + "127.0.0.2";
    for answer in ["127.0.0.1 ::1", "127.0.0.1 10.0.0.1", "169.254.169.254 127.0.0.1", &many] {
        assert_eq!(outcome(&mixed(answer.to_owned()), &url).await, BLOCKED, "{answer}");
    }
    assert_eq!(canary.connections(), 0);
    assert_eq!(outcome(&mixed("127.0.0.1".to_owned()), &url).await, (Some(200), None));
}

/// X02, N17: metadata services are never dialled.
/// T08: what an operator opens is not more than what may be opened.
#[tokio::test]
async fn n17_t08_metadata_is_never_dialled() {
    for answer in ["169.254.169.254", "fd00:ec2::254", "168.63.129.16", "::ffff:a9fe:a9fe"] {
        let egress = egress_with(move |c| {
            c.url.addresses.allow_cidrs = vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()];
            c.resolver = Some(Arc::new(Answers(move |_: &str| Ok(ips(answer)))));
        });
        assert_eq!(outcome(&egress, "http://hook.acme.com/").await, BLOCKED, "{answer}");
    }
}

/// X02, N17: DNS rebinding: the name leads to an allowed address and to a denied one in turn. Both listen on the same port.
#[tokio::test]
async fn x02_n17_t10_rebinding_never_reaches_the_denied_address() {
    let canary = answering(OK).await;
    let port = canary.addr.port();
    let allowed = receiver_at(&format!("127.0.0.2:{port}"), |mut stream, _| async move {
        if read_request(&mut stream).await.is_some() {
            let _ = stream.write_all(OK.as_bytes()).await;
        }
    })
    .await;
    let turn = AtomicUsize::new(0);
    let egress = egress_with(|c| {
        c.url.addresses.allow_loopback = false;
        c.url.addresses.allow_cidrs = vec!["127.0.0.2/32".parse().unwrap()];
        c.resolver = Some(Arc::new(Answers(move |_: &str| {
            let even = turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
            Ok(ips(if even { "127.0.0.2" } else { "127.0.0.1" }))
        })));
    });
    let mut posts = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let egress = egress.clone();
        posts.spawn(async move {
            let url = format!("http://rebind.acme.com:{port}/");
            let mut seen = Vec::new();
            for _ in 0..20 {
                seen.push(outcome(&egress, &url).await);
            }
            seen
        });
    }
    let seen: Vec<_> = posts.join_all().await.concat();
    let (delivered, blocked) =
        (seen.iter().filter(|o| o.0 == Some(200)).count(), seen.iter().filter(|o| **o == BLOCKED).count());
    assert_eq!(delivered + blocked, 1000, "{seen:?}");
    assert!(delivered > 0 && blocked > 0, "{delivered} delivered, {blocked} blocked");
    assert_eq!(canary.connections(), 0);
    assert!(allowed.connections() > 0);
}

#[tokio::test]
async fn n17_names_that_do_not_resolve_fail_closed() {
    let system = egress();
    assert_eq!(outcome(&system, "http://nonexistent.invalid/").await, UNRESOLVED);
    assert_eq!(outcome(&resolving(|_| Ok(Vec::new())), "http://hook.acme.com/").await, UNRESOLVED);
    assert_eq!(
        outcome(&resolving(|_| Err(io::Error::other("SERVFAIL"))), "http://hook.acme.com/").await,
        UNRESOLVED
    );
}

struct Never;

impl Resolve for Never {
    fn resolve<'a>(&'a self, _: &'a str) -> Resolving<'a> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn n17_a_silent_resolver_ends_with_its_time() {
    let egress = egress_with(|c| c.resolver = Some(Arc::new(Never)));
    let begun = tokio::time::Instant::now();
    assert_eq!(outcome(&egress, "http://hook.acme.com/").await, UNRESOLVED);
    assert_eq!(begun.elapsed().as_secs(), Limits::default().dns.as_secs(), "by the test's own clock");
}

/// An address that refuses is passed over for the next one of the vetted answer.
#[tokio::test]
async fn the_next_vetted_address_is_tried() {
    let receiver = receiver_at("127.0.0.2:0", |mut stream, _| async move {
        if read_request(&mut stream).await.is_some() {
            let _ = stream.write_all(OK.as_bytes()).await;
        }
    })
    .await;
    let egress = egress_with(|c| {
        c.resolver = Some(Arc::new(Answers(|_: &str| Ok(ips("127.0.0.3 127.0.0.4 127.0.0.2")))));
    });
    let url = format!("http://hook.acme.com:{}/", receiver.addr.port());
    assert_eq!(outcome(&egress, &url).await, (Some(200), None));
}

/// Mail whose URL a setting forbids waits for the setting; mail whose URL is broken does not.
#[tokio::test]
async fn urls_are_checked_again_before_each_post() {
    let strict = Egress::new(EgressConfig::default()).unwrap();
    for url in ["http://hook.acme.com/", "https://1.1.1.1/", "https://kafka/", "https://hook.localhost/"] {
        assert_eq!(outcome(&strict, url).await, BLOCKED, "{url}");
    }
    for url in ["", "hook", "ftp://hook.acme.com/", "https://u:p@hook.acme.com/", "https://hook.acme.com:22/"]
    {
        assert_eq!(outcome(&strict, url).await, (None, Some(ErrorCode::InvalidUrl)), "{url}");
    }
}
