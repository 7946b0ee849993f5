//! Requests of the API in metrics.

use axum::body::Body;
use http::Request;

use super::setting;

/// N19, A55: by class of route and of status; paths that callers make up are one class.
#[tokio::test]
async fn n19_requests_are_timed_by_class_of_route() {
    let setting = setting().await;
    setting.get("/v1/tenants").await;
    let series = || setting.metrics.render().lines().filter(|line| !line.starts_with('#')).count();
    let mut before = 0;
    for n in 0..200 {
        setting.get(&format!("/v1/tenants/t{n}/endpoints/e{n}")).await;
        setting.get(&format!("/{n}")).await;
        let unknown = Request::get(format!("/v1/apply/{n}")).body(Body::empty()).expect("a request");
        setting.send(unknown).await;
        if n == 0 {
            before = series();
        }
    }
    assert_eq!(series(), before, "{}", setting.metrics.render());
    let text = setting.metrics.render();
    for line in [
        "mailrail_control_request_seconds_count{route=\"tenants\",status_class=\"2xx\"} 1",
        "mailrail_control_request_seconds_count{route=\"tenants\",status_class=\"4xx\"} 200",
        "mailrail_control_request_seconds_count{route=\"other\",status_class=\"4xx\"} 400",
        "mailrail_control_requests_in_flight 0",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}
