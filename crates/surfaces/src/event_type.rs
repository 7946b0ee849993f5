//! What happened, from a closed list for each provider.
//!
//! The name comes from a request that may not have been verified, and it becomes a part of mailboxes and metrics: a name
//! that is not on the list is [`OTHER`], so that no sender makes mailboxes (acceptance S24). A list that is behind its
//! provider costs new types a mailbox of their own and nothing else.

use mailrail_types::{Event, MailboxClass, Provider};

use crate::bucket_key::bucket_key;
use crate::preset::{Place, preset};

/// Stands in the CloudEvents `type` for every name that is not known.
pub const OTHER: &str = "other";

/// A name as the provider writes it, and ours.
pub(crate) type Known = (&'static str, &'static str);

/// Ours are the provider's own.
macro_rules! same {
    ($($name:literal),+ $(,)?) => { &[$(($name, $name)),+] };
}

/// GitHub and GitHub Enterprise, `X-GitHub-Event`.
pub(crate) const GITHUB_TYPES: &[Known] = same![
    "branch_protection_configuration",
    "branch_protection_rule",
    "cache_sync",
    "check_run",
    "check_suite",
    "code_scanning_alert",
    "commit_comment",
    "content_reference",
    "create",
    "custom_property",
    "custom_property_promoted_to_enterprise",
    "custom_property_values",
    "delete",
    "dependabot_alert",
    "deploy_key",
    "deployment",
    "deployment_protection_rule",
    "deployment_review",
    "deployment_status",
    "discussion",
    "discussion_comment",
    "enterprise",
    "fork",
    "github_app_authorization",
    "gollum",
    "installation",
    "installation_repositories",
    "installation_target",
    "issue_comment",
    "issue_dependencies",
    "issues",
    "label",
    "marketplace_purchase",
    "member",
    "membership",
    "merge_group",
    "meta",
    "milestone",
    "org_block",
    "organization",
    "package",
    "page_build",
    "personal_access_token_request",
    "ping",
    "project",
    "project_card",
    "project_column",
    "projects_v2",
    "projects_v2_item",
    "projects_v2_status_update",
    "public",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "pull_request_review_thread",
    "push",
    "registry_package",
    "release",
    "repository",
    "repository_advisory",
    "repository_dispatch",
    "repository_import",
    "repository_ruleset",
    "repository_vulnerability_alert",
    "schedule",
    "secret_scanning_alert",
    "secret_scanning_alert_location",
    "secret_scanning_scan",
    "security_advisory",
    "security_and_analysis",
    "sponsorship",
    "star",
    "status",
    "sub_issues",
    "team",
    "team_add",
    "user",
    "watch",
    "workflow_dispatch",
    "workflow_job",
    "workflow_run",
];

/// GitLab, `X-Gitlab-Event`; ours are `object_kind` of its bodies, as far as that tells them apart.
pub(crate) const GITLAB_TYPES: &[Known] = &[
    ("Confidential Issue Hook", "confidential_issue"),
    ("Confidential Note Hook", "confidential_note"),
    ("Deployment Hook", "deployment"),
    ("Emoji Hook", "emoji"),
    ("Feature Flag Hook", "feature_flag"),
    ("Issue Hook", "issue"),
    ("Job Hook", "job"),
    ("Member Hook", "member"),
    ("Merge Request Hook", "merge_request"),
    ("Milestone Hook", "milestone"),
    ("Note Hook", "note"),
    ("Pipeline Hook", "pipeline"),
    ("Project Hook", "project"),
    ("Push Hook", "push"),
    ("Release Hook", "release"),
    ("Resource Access Token Hook", "access_token"),
    ("Resource Deploy Token Hook", "deploy_token"),
    ("Subgroup Hook", "subgroup"),
    ("System Hook", "system"),
    ("Tag Push Hook", "tag_push"),
    ("Vulnerability Hook", "vulnerability"),
    ("Wiki Page Hook", "wiki_page"),
    ("Work Item Hook", "work_item"),
];

/// Jira names them in the body, some with and some without a prefix; ours have none.
pub(crate) const JIRA_TYPES: &[Known] = &[
    ("attachment_created", "attachment_created"),
    ("attachment_deleted", "attachment_deleted"),
    ("comment_created", "comment_created"),
    ("comment_deleted", "comment_deleted"),
    ("comment_updated", "comment_updated"),
    ("issue_property_deleted", "issue_property_deleted"),
    ("issue_property_set", "issue_property_set"),
    ("issuelink_created", "issuelink_created"),
    ("issuelink_deleted", "issuelink_deleted"),
    ("jira:issue_created", "issue_created"),
    ("jira:issue_deleted", "issue_deleted"),
    ("jira:issue_updated", "issue_updated"),
    ("jira:version_created", "version_created"),
    ("jira:version_deleted", "version_deleted"),
    ("jira:version_merged", "version_merged"),
    ("jira:version_moved", "version_moved"),
    ("jira:version_released", "version_released"),
    ("jira:version_unreleased", "version_unreleased"),
    ("jira:version_updated", "version_updated"),
    ("jira:worklog_updated", "worklog_updated"),
    ("project_created", "project_created"),
    ("project_deleted", "project_deleted"),
    ("project_updated", "project_updated"),
    ("sprint_closed", "sprint_closed"),
    ("sprint_created", "sprint_created"),
    ("sprint_deleted", "sprint_deleted"),
    ("sprint_started", "sprint_started"),
    ("sprint_updated", "sprint_updated"),
    ("user_created", "user_created"),
    ("user_deleted", "user_deleted"),
    ("user_updated", "user_updated"),
    ("worklog_created", "worklog_created"),
    ("worklog_deleted", "worklog_deleted"),
    ("worklog_updated", "worklog_updated"),
];

/// Azure DevOps, `eventType` of the body.
pub(crate) const AZURE_DEVOPS_TYPES: &[Known] = same![
    "build.complete",
    "git.pullrequest.created",
    "git.pullrequest.merged",
    "git.pullrequest.updated",
    "git.push",
    "git.repo.created",
    "git.repo.deleted",
    "git.repo.forked",
    "git.repo.renamed",
    "git.repo.statuschanged",
    "ms.vss-code.git-pullrequest-comment-event",
    "ms.vss-pipelinechecks-events.approval-completed",
    "ms.vss-pipelinechecks-events.approval-pending",
    "ms.vss-pipelines.job-state-changed-event",
    "ms.vss-pipelines.run-state-changed-event",
    "ms.vss-pipelines.stage-state-changed-event",
    "ms.vss-release.deployment-approval-completed-event",
    "ms.vss-release.deployment-approval-pending-event",
    "ms.vss-release.deployment-completed-event",
    "ms.vss-release.deployment-started-event",
    "ms.vss-release.release-abandoned-event",
    "ms.vss-release.release-created-event",
    "tfvc.checkin",
    "workitem.commented",
    "workitem.created",
    "workitem.deleted",
    "workitem.restored",
    "workitem.updated",
];

/// What happened, in our words; `None` when the webhook does not say or says something that is not known. `header` gives
/// the value of a header by its name in lower case.
#[must_use]
pub fn event_type<'h>(
    provider: Provider,
    header: impl Fn(&str) -> Option<&'h [u8]>,
    body: &[u8],
) -> Option<&'static str> {
    let preset = preset(provider);
    let find = |given: &[u8]| preset.event_types.iter().find(|(wire, _)| wire.as_bytes() == given);
    let known = match preset.event_type.as_ref()? {
        Place::Header(name) => find(header(name)?),
        Place::Body(path) => find(bucket_key(body, None, path)?.as_bytes()),
    };
    known.map(|(_, ours)| *ours)
}

/// The CloudEvents `type` of a forwarded webhook: `inbound.github.push`.
#[must_use]
pub fn attribute_type(provider: Provider, event_type: Option<&'static str>) -> String {
    format!("inbound.{}.{}", provider.name(), event_type.unwrap_or(OTHER))
}

/// The event type that the event's mailboxes carry. A strict class keeps all types together. A tolerant one is split by them,
/// as far as they are of a closed set, so that no sender makes mailboxes: for a forwarded webhook the list of its provider,
/// for any other event what the tenant set up, which `in_set_up` answers for a type.
#[must_use]
pub fn mailbox_type<'e>(
    class: &MailboxClass,
    event: &'e Event,
    in_set_up: impl FnOnce(&str) -> bool,
) -> Option<&'e str> {
    let name = event.attributes.event_type.as_str();
    let known = || match event.forwarded.as_deref() {
        Some(forwarded) => is_type_of(forwarded.provider, name),
        None => in_set_up(name),
    };
    (class.tolerates_reordering && known()).then_some(name)
}

/// Whether webhooks of `provider` can have this CloudEvents `type`, [`OTHER`] not included.
#[must_use]
pub fn is_type_of(provider: Provider, attribute_type: &str) -> bool {
    attribute_type
        .strip_prefix("inbound.")
        .and_then(|rest| rest.strip_prefix(provider.name()))
        .and_then(|rest| rest.strip_prefix('.'))
        .is_some_and(|name| preset(provider).event_types.iter().any(|(_, ours)| *ours == name))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use mailrail_types::{Attributes, ClassId, EventId, Forwarded, IntegrationId, TenantId, Timestamp};
    use proptest::prelude::*;

    use super::*;

    fn of(provider: Provider, headers: &[(&str, &'static str)], body: &str) -> Option<&'static str> {
        let header =
            |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_bytes());
        event_type(provider, header, body.as_bytes())
    }

    #[test]
    fn names_are_read_where_the_provider_writes_them() {
        assert_eq!(of(Provider::GitHub, &[("x-github-event", "push")], "\u{0}"), Some("push"));
        assert_eq!(
            of(Provider::GitLab, &[("x-gitlab-event", "Merge Request Hook")], "{}"),
            Some("merge_request")
        );
        assert_eq!(
            of(Provider::Jira, &[], r#"{"webhookEvent":"jira:issue_updated"}"#),
            Some("issue_updated")
        );
        assert_eq!(
            of(Provider::AzureDevOps, &[], r#"{"eventType":"workitem.updated"}"#),
            Some("workitem.updated")
        );
        assert_eq!(of(Provider::Generic, &[("x-event-type", "push")], r#"{"eventType":"git.push"}"#), None);
    }

    /// S24: a name that is not on the list of its provider is none.
    #[test]
    fn s24_a_name_that_is_not_on_the_list_is_none() {
        for name in ["", "Push", "push ", "push\u{0}", "pushpush", "other", "inbound.github.push", "../push"]
        {
            assert_eq!(of(Provider::GitHub, &[("x-github-event", name)], "{}"), None, "{name:?}");
        }
        assert_eq!(of(Provider::GitHub, &[], r#"{"x-github-event":"push"}"#), None);
        for body in
            ["", "[]", r#"{"webhookEvent":["jira:issue_updated"]}"#, r#"{"webhookEvent":"jira:issue_x"}"#]
        {
            assert_eq!(of(Provider::Jira, &[], body), None, "{body:?}");
        }
    }

    /// S24: the lists are short, so the number of mailboxes is bounded.
    #[test]
    fn s24_the_lists_are_short_sorted_and_without_doubles() {
        for provider in Provider::ALL {
            let known = preset(provider).event_types;
            assert!(known.windows(2).all(|pair| pair[0].0 < pair[1].0), "{provider:?}");
            assert!(known.len() < 100);
            for (_, ours) in known {
                let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.-".contains(&b);
                assert!(ours.bytes().all(plain) && *ours != OTHER, "{ours}");
            }
        }
    }

    fn event(provider: Option<Provider>, event_type: &str) -> Event {
        let tenant = TenantId::of("acme");
        let forwarded = provider.map(|provider| {
            Box::new(Forwarded {
                provider,
                integration: IntegrationId::of("gh"),
                method: "POST".to_owned(),
                path: String::new(),
                headers: Vec::new(),
            })
        });
        Event {
            id: EventId::derive(&tenant, "/s", "1"),
            tenant,
            attributes: Attributes { event_type: event_type.to_owned(), ..Attributes::default() },
            ordering_key: None,
            body: Bytes::new(),
            trace: None,
            forwarded,
            accepted_at: Timestamp(0),
            setup_seq: 0,
            unknown: Bytes::new(),
        }
    }

    /// S24: only types of the lists and of the set-up are part of a mailbox.
    #[test]
    fn s24_an_event_is_known_by_its_type_again() {
        let class = |tolerates| MailboxClass::with_defaults(ClassId::of("c"), tolerates);
        let known = |provider, event_type: &str| {
            let event = event(provider, event_type);
            let found = mailbox_type(&class(true), &event, |name| name == "com.example.known");
            assert!(found.is_none_or(|found| found == event_type));
            assert_eq!(mailbox_type(&class(false), &event, |_| true), None, "strict: all types together");
            found.is_some()
        };
        for provider in Provider::ALL {
            for (_, ours) in preset(provider).event_types {
                assert!(known(Some(provider), &attribute_type(provider, Some(ours))));
            }
            assert!(!known(Some(provider), &attribute_type(provider, None)));
        }
        for hostile in [
            "push",
            "inbound.gitlab.push",
            "inbound.githubpush",
            "inbound.github.push.x",
            "inbound.github.",
            "com.example.known",
        ] {
            assert!(!known(Some(Provider::GitHub), hostile), "{hostile}");
        }
        assert!(known(None, "com.example.known"));
        assert!(!known(None, "com.example.made-up"));
    }

    proptest! {
        /// S24: no sender makes a type, whatever it sends.
        #[test]
        fn s24_no_sender_makes_a_type(name in ".{0,40}", body in ".{0,40}") {
            for provider in Provider::ALL {
                let header = |_: &str| Some(name.as_bytes());
                let found = event_type(provider, header, body.as_bytes());
                let list = preset(provider).event_types;
                prop_assert!(found.is_none_or(|f| list.iter().any(|(_, ours)| *ours == f)));
            }
        }
    }
}
