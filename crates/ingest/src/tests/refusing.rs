//! What is refused: with which problem, and with nothing in the log.

use std::convert::Infallible;
use std::time::Duration;

use http_body_util::StreamBody;
use hyper::body::Frame;

use super::*;
use crate::Problem;

/// A body of unknown length, as a chunked request brings it.
fn chunks(count: usize, size: usize) -> Body {
    let frames = (0..count).map(move |_| Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; size]))));
    Body::new(StreamBody::new(futures::stream::iter(frames)))
}

#[tokio::test]
async fn keys_that_are_missing_or_unknown_get_the_same_answer() {
    let house = house().await;
    let mut answers = Vec::new();
    for value in [None, Some("Bearer nobody"), Some("Basic abc"), Some(ACME), Some("Bearer ")] {
        let mut request = structured(event_json("1"));
        match value {
            Some(value) => request.headers_mut().insert(AUTHORIZATION, value.parse().expect("a value")),
            None => request.headers_mut().remove(AUTHORIZATION),
        };
        let answer = send(&house.router, request).await;
        answer.assert_problem(401, "unauthorized");
        assert_eq!(answer.headers["www-authenticate"], "Bearer realm=\"mailrail\"");
        answers.push(answer.json);
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
    assert_eq!(appended(house.log.as_ref()).await, 0);
}

#[tokio::test]
async fn bodies_over_the_limit_are_refused_announced_or_not() {
    let house = house_with(Config { body_limit_bytes: 10_000, ..config() }).await;
    let headers = [("ce-id", "1"), ("ce-source", "/s"), ("ce-type", "t")];
    for body in [Body::from(vec![b'x'; 10_001]), chunks(11, 1_000), chunks(1, 10_001)] {
        send(&house.router, post(&headers, body)).await.assert_problem(413, "body_too_large");
    }
    assert_eq!(appended(house.log.as_ref()).await, 0);
    for body in [Body::from(vec![b'x'; 10_000]), chunks(10, 1_000)] {
        assert_eq!(
            send(&house.router, post(&headers, body)).await.status,
            202,
            "the limit itself is allowed"
        );
    }
}

#[tokio::test]
async fn compressed_bodies_are_refused() {
    let house = house().await;
    let headers = [("content-type", "application/cloudevents+json"), ("content-encoding", "gzip")];
    let answer = send(&house.router, post(&headers, event_json("1"))).await;
    answer.assert_problem(415, "unsupported_media_type");
    assert_eq!(answer.json["field"], "content-encoding");
}

#[tokio::test]
async fn other_methods_and_paths_are_problems_too() {
    let house = house().await;
    for method in ["GET", "PUT", "DELETE", "OPTIONS"] {
        let request =
            Request::builder().method(method).uri(EVENTS_PATH).body(Body::empty()).expect("a request");
        let answer = send(&house.router, request).await;
        answer.assert_problem(405, "method_not_allowed");
        assert_eq!(answer.headers["allow"], "POST");
    }
    let head = Request::head(EVENTS_PATH).body(Body::empty()).expect("a request");
    assert_eq!(send(&house.router, head).await.status, 405);
    for path in ["/", "/v1/events/", "/v1/event", "/metrics"] {
        let request = Request::post(path).body(Body::empty()).expect("a request");
        send(&house.router, request).await.assert_problem(404, "not_found");
    }
    let text = house.metrics.render();
    assert!(text.contains("mailrail_ingest_requests_total{status=\"405\"} 5"), "{text}");
    assert!(text.contains("mailrail_ingest_requests_total{status=\"404\"} 4"), "{text}");
}

#[tokio::test]
async fn a_batch_that_is_wrong_as_a_whole_accepts_nothing() {
    let house = house_with(Config { batch_events_max: 2, ..config() }).await;
    let three = format!("[{0},{0},{0}]", event_json("1"));
    send(&house.router, batch(three)).await.assert_problem(413, "batch_too_large");
    send(&house.router, batch("[]")).await.assert_problem(400, "batch_empty");
    send(&house.router, batch(event_json("1"))).await.assert_problem(400, "malformed_json");
    send(&house.router, batch(format!("[{},", event_json("1")))).await.assert_problem(400, "malformed_json");
    let answer = send(&house.router, batch("[{},7]")).await;
    answer.assert_problem(400, "batch_refused");
    assert_eq!(answer.json["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(answer.json["items"][0]["code"], "missing_attribute");
    assert_eq!(appended(house.log.as_ref()).await, 0);
}

#[tokio::test]
async fn a_body_that_never_ends_meets_its_deadline() {
    let house = house_with(Config { body_timeout: Duration::from_secs(30), ..config() }).await;
    tokio::time::pause();
    let body = Body::new(StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, Infallible>>()));
    send(&house.router, structured(body)).await.assert_problem(408, "request_timeout");
}

#[tokio::test]
async fn a_body_that_breaks_off_is_not_an_event() {
    let house = house().await;
    let broken = [Ok(Frame::data(Bytes::from(event_json("1")))), Err(std::io::Error::other("reset"))];
    let body = Body::new(StreamBody::new(futures::stream::iter(broken)));
    send(&house.router, structured(body)).await.assert_problem(400, "unreadable_body");
    assert_eq!(appended(house.log.as_ref()).await, 0);
}

/// A running request whose body comes piece by piece.
pub(super) struct Slow {
    feed: tokio::sync::mpsc::Sender<Result<Frame<Bytes>, Infallible>>,
    answer: tokio::task::JoinHandle<Answer>,
}

impl Slow {
    /// A request of acme whose `start` was read, and that waits for more.
    async fn begin(house: &House, start: Vec<u8>) -> Slow {
        Self::begin_with(house, start, structured).await
    }

    /// As [`Slow::begin`], with the request made of its body.
    pub(super) async fn begin_with(
        house: &House,
        start: Vec<u8>,
        request: impl FnOnce(Body) -> Request,
    ) -> Slow {
        let (feed, pieces) = tokio::sync::mpsc::channel(1);
        let pieces = futures::stream::unfold(pieces, |mut pieces| async move {
            pieces.recv().await.map(|item| (item, pieces))
        });
        let router = house.router.clone();
        let body = Body::new(StreamBody::new(pieces));
        let request = request(body);
        let answer = tokio::spawn(async move { send(&router, request).await });
        let slow = Slow { feed, answer };
        // The channel holds one: once two more are in, the door has taken the first and asked for the next.
        for piece in [start, b" ".to_vec(), b" ".to_vec()] {
            slow.give(piece).await;
        }
        slow
    }

    async fn give(&self, piece: Vec<u8>) {
        self.feed.send(Ok(Frame::data(Bytes::from(piece)))).await.expect("the door reads on");
    }

    pub(super) async fn end(self, rest: String) -> Answer {
        self.give(rest.into_bytes()).await;
        drop(self.feed);
        self.answer.await.expect("no panic")
    }
}

const BINARY: [(&str, &str); 3] = [("ce-id", "2"), ("ce-source", "/s"), ("ce-type", "t")];

fn of_other(mut request: Request) -> Request {
    request.headers_mut().insert(AUTHORIZATION, format!("Bearer {OTHER}").parse().expect("a value"));
    request
}

#[tokio::test]
async fn bytes_in_flight_are_bounded_and_given_back() {
    let limits = Config { body_limit_bytes: 10_000, bytes_in_flight_max: 15_000, ..config() };
    let house = house_with(limits).await;
    // Over the least there is: it holds the step, which the limit of a body cuts to 10,000 bytes.
    let first = Slow::begin(&house, vec![b' '; 5_000]).await;
    let over = send(&house.router, of_other(post(&BINARY, vec![b'x'; 5_001]))).await;
    over.assert_problem(503, "overloaded");
    assert_eq!(over.headers["retry-after"], "1");
    let fits = send(&house.router, of_other(post(&BINARY, vec![b'x'; 5_000]))).await;
    assert_eq!(fits.status, 202, "what fits is taken");
    assert_eq!(first.end(event_json("1")).await.status, 202);
    let all = send(&house.router, post(&BINARY, vec![b'x'; 10_000])).await;
    assert_eq!(all.status, 202, "all of it is back");
}

#[tokio::test]
async fn a_tenant_over_its_share_is_refused_and_others_are_not() {
    let limits = Config { body_limit_bytes: 10_000, bytes_in_flight_max: 40_000, ..config() };
    let house = house_with(limits).await;
    let held = [Slow::begin(&house, vec![b' '; 5_000]).await, Slow::begin(&house, vec![b' '; 5_000]).await];
    let over = send(&house.router, post(&BINARY, "x")).await;
    over.assert_problem(503, "overloaded");
    assert_eq!(over.headers["retry-after"], "1");
    assert!(over.json["detail"].as_str().is_some_and(|d| d.contains("of this tenant")), "{over:?}");
    let other = send(&house.router, of_other(post(&BINARY, vec![b'x'; 10_000]))).await;
    assert_eq!(other.status, 202, "the other half is for the others");
    for (n, slow) in held.into_iter().enumerate() {
        assert_eq!(slow.end(event_json(&n.to_string())).await.status, 202);
    }
    assert_eq!(send(&house.router, post(&BINARY, "x")).await.status, 202, "its share is back");
}

#[tokio::test]
async fn idle_bodies_do_not_shut_the_door() {
    let house = house().await;
    let mut idle = Vec::new();
    for _ in 0..64 {
        idle.push(Slow::begin(&house, b" ".to_vec()).await);
    }
    assert_eq!(send(&house.router, of_other(post(&BINARY, vec![b'x'; 500_000]))).await.status, 202);
    assert_eq!(send(&house.router, post(&BINARY, vec![b'x'; 500_000])).await.status, 202);
    let last = idle.pop().expect("64 of them");
    assert_eq!(last.end(event_json("1")).await.status, 202, "it was only slow");
    for slow in idle {
        slow.answer.abort();
    }
}

#[test]
fn problems_are_a_table_without_doubles() {
    let mut codes: Vec<_> = Problem::ALL.iter().map(|p| p.code()).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), Problem::ALL.len());
    for problem in Problem::ALL {
        assert!(problem.code().bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'));
        assert!((400..600).contains(&problem.status()), "{problem:?}");
        assert!(
            problem.retry_after_secs().is_none() || [429, 503].contains(&problem.status()),
            "{problem:?}"
        );
    }
}

/// A55: what callers choose — paths, methods, keys, types, sources — makes no new series, whoever they are.
#[tokio::test]
async fn a55_whatever_callers_send_makes_no_new_series() {
    let house = house().await;
    let series = |text: String| text.lines().filter(|line| !line.starts_with('#')).count();
    let mut shown = Vec::new();
    for round in 0..2 {
        for caller in 0..1_000 {
            let n = format!("{round}-{caller}");
            let requests = [
                Request::get(format!("/{n}")).body(Body::empty()),
                Request::delete(format!("/v1/events?tenant={n}")).body(Body::empty()),
                Request::post(format!("/v1/inbound/github/{n}")).body(Body::from("{}")),
                Request::post(EVENTS_PATH).header(AUTHORIZATION, format!("Bearer {n}")).body(Body::empty()),
                Ok(post(&[("ce-id", &n), ("ce-source", &n), ("ce-type", &n)], "{}")),
            ];
            for request in requests {
                send(&house.router, request.expect("a request")).await;
            }
        }
        shown.push(series(house.metrics.render()));
    }
    assert_eq!(shown[0], shown[1], "{}", house.metrics.render());
    let text = house.metrics.render();
    for line in [
        "mailrail_ingest_request_seconds_count{route=\"events\",status_class=\"2xx\"} 2000",
        "mailrail_ingest_request_seconds_count{route=\"other\",status_class=\"4xx\"} 2000",
        "mailrail_ingest_requests_in_flight 0",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}
