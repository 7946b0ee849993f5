//! The receiver over HTTP.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Path, State as Extracted};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post, put};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::behaviour::Reply;
use super::receipt::ReceiverReport;
use super::socket::{ResetSwitch, ResettableListener};
use super::state::State;

/// Largest body that is read: well over what ingest takes by default.
const BODY_MAX_BYTES: usize = 16 * 1024 * 1024;

/// How long a hanging endpoint hangs: longer than any attempt may take, so that it looks like for ever.
const HANG: Duration = Duration::from_secs(600);

#[derive(Clone)]
struct Context {
    state: Arc<State>,
    stop: CancellationToken,
}

/// Serves until stopped.
pub(crate) async fn serve(listener: TcpListener, state: Arc<State>, stop: CancellationToken) {
    let context = Context { state, stop: stop.clone() };
    let router = Router::new()
        .route("/report", get(report))
        .route("/behaviour/{endpoint}", put(set_behaviour))
        .route("/{endpoint}", post(receive))
        .layer(DefaultBodyLimit::max(BODY_MAX_BYTES))
        .with_state(context)
        .into_make_service_with_connect_info::<ResetSwitch>();
    let served = axum::serve(ResettableListener(listener), router)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await;
    if let Err(error) = served {
        tracing::error!(%error, "the receiver stopped serving");
    }
}

async fn receive(
    Extracted(context): Extracted<Context>,
    ConnectInfo(switch): ConnectInfo<ResetSwitch>,
    Path(endpoint): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let _answering = context.state.answering();
    let answer = match context.state.take(&endpoint, &headers, &body) {
        Ok(Some(answer)) => answer,
        Ok(None) => return (StatusCode::NOT_FOUND, "no such endpoint").into_response(),
        Err(error) => return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    };
    if !answer.delay.is_zero() {
        wait(answer.delay, &context.stop).await;
    }
    match answer.reply {
        Reply::Status(status) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let mut response = (status, status.canonical_reason().unwrap_or("")).into_response();
            if let Some(secs) = answer.retry_after {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(secs));
            }
            response
        }
        Reply::Reset => {
            switch.turn_on();
            StatusCode::OK.into_response() // Never goes out.
        }
        Reply::Hang => {
            wait(HANG, &context.stop).await;
            switch.turn_on();
            StatusCode::OK.into_response() // Never goes out.
        }
    }
}

async fn wait(duration: Duration, stop: &CancellationToken) {
    tokio::select! {
        () = tokio::time::sleep(duration) => {}
        () = stop.cancelled() => {}
    }
}

async fn report(Extracted(context): Extracted<Context>) -> Json<ReceiverReport> {
    Json(context.state.report())
}

async fn set_behaviour(
    Extracted(context): Extracted<Context>,
    Path(endpoint): Path<String>,
    script: String,
) -> (StatusCode, String) {
    let changed =
        script.trim().parse().and_then(|behaviour| context.state.set_behaviour(&endpoint, behaviour));
    match changed {
        Ok(()) => (StatusCode::NO_CONTENT, String::new()),
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()),
    }
}
