//! The command line's client, against APIs and things that are none.

use std::sync::Arc;

use http::{HeaderValue, Method, header};
use mailrail_egress::operator::{ApiClient, ApiError, RESPONSE_MAX_BYTES};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::sync::Mutex;

use crate::support::*;

fn client(receiver: &Receiver) -> ApiClient {
    ApiClient::new(&format!("http://{}", receiver.addr), Some("mrk_canary")).unwrap()
}

async fn get(answer: &str) -> Result<Value, ApiError> {
    client(&answering(answer).await).get("/v1/x").await
}

fn with_body(status: &str, content_type: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n{body}")
}

#[tokio::test]
async fn calls_are_made_as_asked() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    let receiver = receiver(move |mut stream, _| {
        let record = Arc::clone(&record);
        async move {
            while let Some(request) = read_request(&mut stream).await {
                record.lock().await.push(String::from_utf8_lossy(&request).into_owned());
                let answer = with_body("200 OK", "application/json", "{\"ok\":true}");
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        }
    })
    .await;
    let api = ApiClient::new(&format!("http://{}/prefix/", receiver.addr), Some("mrk_canary")).unwrap();
    let ok = Ok(json!({"ok": true}));
    assert_eq!(api.get("/v1/tenants?limit=5").await, ok);
    assert_eq!(api.post("/v1/tenants", &json!({"id": "acme"})).await, ok);
    assert_eq!(api.put("/v1/tenants/acme", &json!({"name": "Ä"})).await, ok);
    assert_eq!(api.delete("/v1/tenants/acme").await, ok);
    let headers = vec![(header::CONTENT_TYPE, HeaderValue::from_static("application/cloudevents+json"))];
    assert_eq!(api.send(Method::POST, "/v1/events", headers, "{\"a\":1, \"a\":2}".into()).await, ok);
    let seen = seen.lock().await;
    for (request, line, body) in [
        (&seen[0], "GET /prefix/v1/tenants?limit=5 HTTP/1.1\r\n", ""),
        (&seen[1], "POST /prefix/v1/tenants HTTP/1.1\r\n", "{\"id\":\"acme\"}"),
        (&seen[2], "PUT /prefix/v1/tenants/acme HTTP/1.1\r\n", "{\"name\":\"Ä\"}"),
        (&seen[3], "DELETE /prefix/v1/tenants/acme HTTP/1.1\r\n", ""),
        (&seen[4], "POST /prefix/v1/events HTTP/1.1\r\n", "{\"a\":1, \"a\":2}"),
    ] {
        assert!(request.starts_with(line) && request.ends_with(&format!("\r\n\r\n{body}")), "{request}");
        assert!(request.contains("authorization: Bearer mrk_canary\r\n"), "{request}");
    }
    assert!(seen[1].contains("content-type: application/json\r\n"));
    assert!(seen[4].contains("content-type: application/cloudevents+json\r\n"));
    assert_eq!(seen[4].matches("content-type").count(), 1, "{}", seen[4]);
}

#[tokio::test]
async fn problems_are_understood() {
    let problem = r#"{"type":"https://mailrail.dev/problems/unknown_app","title":"Unknown app","status":404,
        "code":"unknown_app","detail":"there is no app 'x': create it first","field":"app"}"#;
    let error = get(&with_body("404 Not Found", "application/problem+json", problem)).await.unwrap_err();
    assert_eq!(
        error,
        ApiError {
            status: Some(404),
            code: "unknown_app".to_owned(),
            detail: "there is no app 'x': create it first".to_owned(),
            field: Some("app".to_owned()),
            problems: Vec::new(),
        }
    );
    assert_eq!(error.to_string(), "there is no app 'x': create it first (unknown_app)");
    for body in ["<h1>Bad gateway</h1>", "", "[]", "{\"code\":5}"] {
        let error = get(&with_body("502 Bad Gateway", "text/html", body)).await.unwrap_err();
        assert_eq!((error.status, error.code.as_str()), (Some(502), "http_502"), "{body}");
    }
}

#[tokio::test]
async fn answers_that_are_no_json_are_told() {
    assert_eq!(get("HTTP/1.1 204 No Content\r\n\r\n").await, Ok(Value::Null));
    let page = get(&with_body("200 OK", "text/html", "<h1>Welcome</h1>")).await.unwrap_err();
    assert_eq!((page.status, page.code.as_str()), (Some(200), "invalid_response"));
    let broken = get("HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{").await.unwrap_err();
    assert_eq!(broken.code, "unreachable");
    let receiver = receiver(|mut stream, _| async move {
        read_request(&mut stream).await.unwrap();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", RESPONSE_MAX_BYTES * 2);
        let _ = stream.write_all(head.as_bytes()).await;
        write_until_closed(&mut stream, &[b' '; 65536]).await;
    })
    .await;
    assert_eq!(client(&receiver).get("/").await.unwrap_err().code, "response_too_large");
}

/// A redirect would take the token elsewhere.
#[tokio::test]
async fn n16_redirects_are_errors_and_the_token_stays() {
    let other = answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
    let location = other.url();
    let error =
        get(&format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n")).await;
    assert_eq!(error.unwrap_err().code, "http_302");
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn nobody_there_and_bad_arguments() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = ApiClient::new(&url, None).unwrap().get("/v1/x").await.unwrap_err();
    assert_eq!((error.status, error.code.as_str()), (None, "unreachable"));
    assert!(error.detail.contains(&url) && error.detail.contains("refused"), "{}", error.detail);
    for bad in [
        "",
        "127.0.0.1:8081",
        "localhost:8081",
        "ftp://x",
        "http://",
        "http://u:p@x/",
        "http://x/?y",
        "http://x/#y",
    ] {
        assert_eq!(ApiClient::new(bad, None).unwrap_err().code, "invalid_address", "{bad}");
    }
    let error = ApiClient::new("http://x", Some("canary\nx")).unwrap_err();
    assert_eq!(error.code, "invalid_token");
    assert!(!error.to_string().contains("canary"));
}

#[tokio::test]
async fn n16_the_token_is_never_printed() {
    let api = ApiClient::new("http://127.0.0.1:1", Some("mrk_canary")).unwrap();
    assert!(!format!("{api:?}").contains("canary"));
    let error = api.get("/v1/x").await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("canary"));
}
