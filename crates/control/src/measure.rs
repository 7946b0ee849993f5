//! How long requests take, as metrics.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::service::Shared;

/// Measures a request. One that nobody waited for any more is not in the times.
pub(crate) async fn measured(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let open = shared.door.begin();
    let route = route_class(request.extensions().get().map(MatchedPath::as_str));
    let response = next.run(request).await;
    open.answered(route, response.status().as_u16());
    response
}

/// The class of a route. Callers choose paths, and there are few classes; what names no route is `other`.
fn route_class(matched: Option<&str>) -> &'static str {
    let path = matched.unwrap_or_default();
    match path.split('/').nth(2).unwrap_or_default() {
        "apply" => "apply",
        "status" => "status",
        "mailboxes" => "mailboxes",
        "dead-letters" | "quarantine" => "dead_letters",
        "mailbox-classes" => "classes",
        "shed" => "shed",
        "tenants" if path.ends_with("/why") => "why",
        "tenants" => "tenants",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n19_every_route_has_a_class() {
        for (path, class) in [
            ("/v1/apply", "apply"),
            ("/v1/dead-letters/replays/{id}/cancel", "dead_letters"),
            ("/v1/quarantine/{position}", "dead_letters"),
            ("/v1/mailbox-classes/{id}", "classes"),
            ("/v1/tenants/{tenant}/deliveries/{id}/why", "why"),
            ("/v1/tenants/{tenant}/endpoints/{id}/pause", "tenants"),
        ] {
            assert_eq!(route_class(Some(path)), class, "{path}");
        }
        assert_eq!(route_class(None), "other");
    }
}
