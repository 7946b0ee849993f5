//! What the process's environment says about proxies is not heard.

use mailrail_egress::operator::ApiClient;

use crate::support::*;

const TARGET: &str = "MAILRAIL_TEST_TARGET";

/// Torture row T19. Runs itself again in a process whose environment names a recorder as every proxy.
#[tokio::test]
async fn n17_t19_proxies_of_the_environment_are_ignored() {
    if let Ok(target) = std::env::var(TARGET) {
        assert_eq!(post(&egress(), &format!("{target}/hook")).await.status, Some(200));
        let api = ApiClient::new(&target, None).unwrap();
        assert!(api.get("/v1/tenants").await.is_ok());
        return;
    }
    let target = answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}").await;
    let recorder = answering("HTTP/1.1 500 Proxy\r\ncontent-length: 0\r\n\r\n").await;
    let proxy = format!("http://{}", recorder.addr);
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "environment::n17_t19_proxies_of_the_environment_are_ignored"]);
    child.env(TARGET, format!("http://{}", target.addr));
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        child.env(name, &proxy);
    }
    for name in ["NO_PROXY", "no_proxy", "REQUEST_METHOD"] {
        child.env_remove(name);
    }
    let done = child.output().await.unwrap();
    let shown = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && shown.contains("1 passed"), "{shown}");
    assert_eq!((target.connections(), recorder.connections()), (2, 0));
}
