//! What the set-up file wants, told again as plain code.

use mailrail_types::{SubscriptionId, TenantId};
use serde_json::Value;

/// What the activity feed is about.
const ACTIVITY: [&str; 10] = [
    "push",
    "issues",
    "issue_comment",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "discussion",
    "discussion_comment",
    "star",
    "fork",
];

/// What operations are about.
const OPERATIONS: [&str; 8] = [
    "check_run",
    "check_suite",
    "workflow_job",
    "workflow_run",
    "deployment",
    "deployment_status",
    "create",
    "delete",
];

/// The subscriptions of the file that want an event: its filters written again as plain code, so that the books do not
/// believe match about itself.
#[must_use]
pub fn wanted_by(tenant: &TenantId, event_type: &str, body: &[u8]) -> Vec<SubscriptionId> {
    let body: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let action = body["action"].as_str().unwrap_or_default();
    let event = event_type.strip_prefix("com.github.").unwrap_or_default();
    let one_of = |events: &[&str]| events.contains(&event);
    let wanted: &[(&str, bool)] = match tenant.as_str() {
        "acme" => &[
            ("pushes-to-main", one_of(&["push"]) && is_main(&body["ref"])),
            ("all-issues", one_of(&["issues", "issue_comment"])),
            ("all-activity", one_of(&ACTIVITY)),
        ],
        "globex" => &[
            (
                "fresh-pull-requests",
                one_of(&["pull_request"]) && ["opened", "reopened", "synchronize"].contains(&action),
            ),
            ("finished-checks", one_of(&["check_run"]) && is_conclusive(&body["check_run"]["conclusion"])),
            (
                "releases",
                one_of(&["release"]) && action == "published" && body["release"]["prerelease"] == false,
            ),
            ("community", one_of(&["star", "label"])),
            ("what-runs-where", one_of(&OPERATIONS)),
        ],
        _ => &[],
    };
    wanted.iter().filter(|(_, wants)| *wants).filter_map(|(id, _)| SubscriptionId::new(id).ok()).collect()
}

fn is_main(reference: &Value) -> bool {
    matches!(reference.as_str(), Some("refs/heads/main" | "refs/heads/master"))
}

fn is_conclusive(conclusion: &Value) -> bool {
    matches!(conclusion.as_str(), Some("success" | "failure"))
}
