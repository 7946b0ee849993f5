//! The receiver of a recording: answers after a fixed time; half of its endpoints can be made to fail.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;

/// Endpoints whose path begins like this fail in an outage.
pub(super) const FRAIL_PATH: &str = "/frail/";

/// Starts to serve, on a thread of its own until the process ends.
pub(super) fn start(answer_after: Duration, outage: Arc<AtomicBool>) -> Result<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let late = move || async move { tokio::time::sleep(answer_after).await };
    let frail = move || {
        let failing = outage.load(Ordering::Relaxed);
        async move {
            late().await;
            if failing { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }
        }
    };
    let routes = Router::new()
        .route("/{endpoint}", post(late))
        .route(&format!("{FRAIL_PATH}{{endpoint}}"), post(frail));
    std::thread::Builder::new()
        .name("receiver".to_owned())
        .spawn(move || {
            runtime
                .block_on(async { axum::serve(tokio::net::TcpListener::from_std(listener)?, routes).await })
        })
        .context("no thread for the receiver")?;
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Bodies, write_post};
    use crate::http::Connection;

    #[tokio::test]
    async fn only_frail_endpoints_fail_and_only_in_an_outage() {
        let outage = Arc::new(AtomicBool::new(false));
        let address = start(Duration::from_millis(1), outage.clone()).expect("a receiver");
        let mut connection = Connection::open(address).await.expect("a connection");
        let mut request = Vec::new();
        for (failing, path, status) in [
            (false, "/frail/e1", 200),
            (true, "/frail/e1", 503),
            (true, "/e2", 200),
            (false, "/frail/e1", 200),
        ] {
            outage.store(failing, Ordering::Relaxed);
            write_post(&mut request, "token", 1, "t", Bodies::new(1).of(1));
            let asked = String::from_utf8(request.clone()).expect("text").replace("/v1/events", path);
            assert_eq!(connection.ask(asked.as_bytes()).await.expect("an answer").status, status, "{path}");
        }
    }
}
