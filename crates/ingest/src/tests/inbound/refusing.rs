//! Webhooks that are refused: with which problem, at what cost, and with nothing in the log.

use std::convert::Infallible;

use http_body_util::StreamBody;
use hyper::body::Frame;
use mailrail_types::ShedRule;

use super::super::refusing::Slow;
use super::*;

/// The vector of GitHub's documentation; its secret is [`SECRET`].
const SIGNED: &str = "Hello, World!";
const SIGNATURE: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

/// X01: a webhook is taken with a good signature of either secret, and with no other.
#[tokio::test]
async fn x01_signatures_good_bad_and_missing() {
    let (house, ..) = inbound_house().await;
    let signed =
        |value: &str, body: &'static str| webhook("github/signed", &[("x-hub-signature-256", value)], body);
    let good = send(&house.router, signed(SIGNATURE, SIGNED)).await;
    assert_eq!(good.status, 202, "the older of two secrets: {good:?}");
    let mut twice = signed(SIGNATURE, SIGNED);
    twice.headers_mut().append("x-hub-signature-256", SIGNATURE.parse().expect("a value"));
    for bad in [
        signed(SIGNATURE, "Hello, World! "),
        signed("sha256=00", SIGNED),
        webhook("github/signed", &[], SIGNED),
        webhook("github/signed", &[("x-hub-signature", SIGNATURE)], SIGNED),
        twice,
    ] {
        let answer = send(&house.router, bad).await;
        answer.assert_problem(401, "bad_signature");
        assert!(answer.headers.contains_key("www-authenticate"));
        let text = answer.json.to_string();
        assert!(!text.contains("757107ea") && !text.contains("Secret to"), "{text}");
    }
    assert_eq!(appended(house.log.as_ref()).await, 1);
    let text = house.metrics.render();
    assert!(text.contains("mailrail_ingest_events_refused_total{reason=\"bad_signature\"} 5"), "{text}");
}

/// A body that fails the test when it is read.
fn unread() -> Body {
    let never = futures::stream::poll_fn(|_| -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        panic!("the body is read")
    });
    Body::new(StreamBody::new(never))
}

/// S36, S08: only what is named is shed, with 429 and `Retry-After`, before its body is read or it is sized; it counts for
/// no width.
#[tokio::test]
async fn s36_shed_traffic_costs_nothing_and_only_what_is_named_is_shed() {
    let (house, store, directory) = inbound_house().await;
    let rule = |provider, integration: Option<&'static str>| ShedRule {
        provider,
        tenant: Some(TenantId::of("acme")),
        integration: integration.map(IntegrationId::of),
    };
    let rules = vec![rule(Provider::GitHub, Some("gh")), rule(Provider::GitLab, None)];
    let stop = tokio_util::sync::CancellationToken::new();
    let following = tokio::spawn(Arc::clone(&directory).follow(stop.clone()));
    let reached = |seq| {
        let directory = Arc::clone(&directory);
        async move { directory.reached(seq).await }
    };
    reached(store.set_shed(rules).await.expect("set")).await;
    for path in ["github/gh", "github/acme:gh/x?y", "gitlab/gl"] {
        let answer = send(&house.router, webhook(path, &GITHUB, unread())).await;
        answer.assert_problem(429, "shed");
        assert_eq!(answer.headers["retry-after"], "60");
    }
    let counts = house.sizer.counts();
    assert_eq!(counts.counters, 0, "nothing was sized or counted: {counts:?}");
    assert_eq!(appended(house.log.as_ref()).await, 0);
    let text = house.metrics.render();
    assert!(text.contains("mailrail_ingest_events_refused_total{reason=\"shed\"} 3"), "{text}");
    for path in ["github/acme:twice", "jira/ji", "github/other:twice"] {
        assert_eq!(send(&house.router, webhook(path, &[], "{}")).await.status, 202, "{path} is not named");
    }
    reached(store.set_shed(Vec::new()).await.expect("set")).await;
    assert_eq!(send(&house.router, webhook("github/gh", &[], "{}")).await.status, 202, "it ends");
    stop.cancel();
    following.await.expect("no panic");
}

#[tokio::test]
async fn what_is_not_there_gets_one_answer() {
    let (house, ..) = inbound_house().await;
    let mut answers = Vec::new();
    for path in [
        "github/nobody",
        "gitlab/gh",
        "svn/gh",
        "github/nobody:gh",
        "github/other:gh",
        "gitlab/acme:gh",
        "github/twice",
        "github/gh/../../x",
        "github/gh/%2e%2e",
        "github",
    ] {
        let answer = send(&house.router, webhook(path, &[], unread())).await;
        answer.assert_problem(404, "not_found");
        answers.push(answer.json);
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
    assert_eq!(appended(house.log.as_ref()).await, 0);
    for path in ["github/acme:twice", "github/other:twice", "github/other%3Atwice"] {
        assert_eq!(send(&house.router, webhook(path, &[], "{}")).await.status, 202, "{path}");
    }
    assert_eq!(events(house.log.as_ref(), "acme").await.len(), 1);
    assert_eq!(events(house.log.as_ref(), "other").await.len(), 2);
}

#[tokio::test]
async fn a_webhook_body_that_never_ends_meets_its_deadline() {
    let (house, ..) = inbound_house().await;
    tokio::time::pause();
    let body = Body::new(StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, Infallible>>()));
    send(&house.router, webhook("github/gh", &[], body)).await.assert_problem(408, "request_timeout");
    assert_eq!(appended(house.log.as_ref()).await, 0);
}

/// Whoever knows a URL can hold what is there for bodies that are not verified, for one integration, and nothing else.
#[tokio::test]
async fn x01_unverified_bodies_take_nothing_of_the_tenants_share() {
    let limits = Config {
        body_limit_bytes: 10_000,
        bytes_in_flight_max: 80_000,
        unverified_bytes_in_flight_max: 20_000,
        ..config()
    };
    let (house, ..) = inbound_house_with(limits).await;
    let stranger = Slow::begin_with(&house, vec![b' '; 5_000], |b| webhook("github/signed", &[], b)).await;
    let over = send(&house.router, webhook("github/acme:signed", &[], "x")).await;
    over.assert_problem(503, "overloaded");
    assert_eq!(over.headers["retry-after"], "1");
    let also = Slow::begin_with(&house, vec![b' '; 5_000], |b| webhook("github/also", &[], b)).await;
    let all_held = send(&house.router, webhook("github/far", &[], "x")).await;
    all_held.assert_problem(503, "overloaded");
    // All of the tenant's share: 40,000 bytes.
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(Slow::begin_with(&house, vec![b' '; 5_000], |b| webhook("github/gh", &[], b)).await);
    }
    let own = [("ce-id", "1"), ("ce-source", "/s"), ("ce-type", "t")];
    assert_eq!(send(&house.router, post(&own, vec![b'x'; 10_000])).await.status, 202);
    for slow in open {
        assert_eq!(slow.end(String::new()).await.status, 202);
    }
    for slow in [stranger, also] {
        slow.end(String::new()).await.assert_problem(401, "bad_signature");
    }
    let signed = webhook("github/signed", &[("x-hub-signature-256", SIGNATURE)], SIGNED);
    assert_eq!(send(&house.router, signed).await.status, 202, "all of it is back");
}

/// A cell of 1,500 bytes leaves 548 of the 2,048 that are sent.
#[tokio::test]
async fn s34_no_webhook_is_taken_that_is_too_long_for_one_of_its_cells() {
    let (house, ..) = inbound_house().await;
    let signed = |integration: &str, rest: usize| {
        let path = format!("github/{integration}/{}?{}", "a".repeat(rest - 102), "b".repeat(100));
        webhook(&path, &[("x-hub-signature-256", SIGNATURE)], SIGNED)
    };
    for (integration, rest) in
        [("far", 549), ("far", 1_024), ("far", 1_025), ("signed", 1_025), ("gh", 1_025)]
    {
        let answer = send(&house.router, signed(integration, rest)).await;
        answer.assert_problem(414, "url_too_long");
        assert!(!answer.json.to_string().contains("example.com"), "{answer:?}");
    }
    let mut forged = signed("far", 549);
    forged.headers_mut().remove("x-hub-signature-256");
    send(&house.router, forged).await.assert_problem(401, "bad_signature");
    assert_eq!(appended(house.log.as_ref()).await, 0);
    for (integration, rest) in [("far", 548), ("signed", 1_024), ("gh", 1_024)] {
        assert_eq!(send(&house.router, signed(integration, rest)).await.status, 202, "{integration} {rest}");
    }
    let far = format!("https://far.example.com/hooks{LONG_PATH}");
    let taken = events(house.log.as_ref(), "acme").await;
    let longest =
        taken.iter().filter_map(|e| e.forwarded.as_ref()).filter(|f| f.integration.as_str() == "far");
    let lengths: Vec<usize> = longest.map(|f| mailrail_surfaces::cell_url(&far, &f.path).len()).collect();
    assert_eq!(lengths, [mailrail_egress::URL_MAX_BYTES]);
}

#[tokio::test]
async fn a_method_that_is_not_forwarded_is_answered_with_those_that_are() {
    let (house, ..) = inbound_house().await;
    for method in [http::Method::TRACE, http::Method::CONNECT] {
        let mut request = webhook("generic/any", &[], unread());
        *request.method_mut() = method;
        let answer = send(&house.router, request).await;
        answer.assert_problem(405, "method_not_allowed");
        let allow = answer.headers["allow"].to_str().expect("text").to_owned();
        assert_eq!(allow, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
        for method in allow.split(", ") {
            let mut request = webhook("generic/any", &[], "");
            *request.method_mut() = method.parse().expect("a method");
            assert_eq!(send(&house.router, request).await.status, 202, "{method}");
        }
    }
}
