//! Webhooks that are refused: with which problem, at what cost, and with nothing in the log.

use std::convert::Infallible;

use http_body_util::StreamBody;
use hyper::body::Frame;
use mailrail_types::ShedRule;

use super::*;

/// The vector of GitHub's documentation; its secret is [`SECRET`].
const SIGNED: &str = "Hello, World!";
const SIGNATURE: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

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
