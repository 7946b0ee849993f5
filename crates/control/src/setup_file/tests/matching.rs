//! What a document says of matching beside filters: what becomes of events without a verdict, and permissions.

use mailrail_types::{FilterErrorPolicy, PERMISSION_MAX_CHARS, PERMISSIONS_MAX};

use super::*;

/// Code and path of each problem of [`GOOD`] with one text in place of another.
fn refused(of: &str, with: &str) -> Vec<(String, String)> {
    assert!(GOOD.contains(of), "{of}");
    let problems = check(&GOOD.replacen(of, with, 1)).expect_err(with);
    problems.into_iter().map(|p| (p.code, p.path)).collect()
}

/// A08: the four policies can be set by subscription; dropping and counting is the default.
#[test]
fn a08_a_subscription_says_what_becomes_of_events_without_a_verdict() {
    let policy_of = |text: &str| check(text).expect("good").tenants[0].subscriptions[0].on_filter_error;
    assert_eq!(policy_of(GOOD), FilterErrorPolicy::DropAndCount);
    let to = "id: pushes, ";
    for policy in FilterErrorPolicy::ALL {
        let said = format!("{to}on_filter_error: {}, ", policy.name());
        assert_eq!(policy_of(&GOOD.replacen(to, &said, 1)), policy);
    }
    let refused = refused(to, "id: pushes, on_filter_error: retry, ");
    let path = "tenants[0].apps[0].subscriptions[0].on_filter_error";
    assert_eq!(refused, [("wrong_type".to_owned(), path.to_owned())]);
}

#[test]
fn a17_an_app_has_the_permissions_that_the_document_gives_it() {
    let of = |text: &str| check(text).expect("good").tenants[0].apps[1].permissions.clone();
    assert!(of(GOOD).is_empty());
    let to = "id: old-app\n";
    let said = |list: &str| format!("{to}        permissions: {list}\n");
    let good = GOOD.replacen(to, &said("[payroll, 'pii:read', payroll]"), 1);
    assert_eq!(of(&good).iter().map(String::as_str).collect::<Vec<_>>(), ["payroll", "pii:read"]);
    let path = "tenants[0].apps[1].permissions";
    let long = "x".repeat(PERMISSION_MAX_CHARS + 1);
    for bad in ["''", "'a b'", "é", long.as_str()] {
        let expected = ("invalid_name".to_owned(), format!("{path}[1]"));
        assert_eq!(refused(to, &said(&format!("[a, {bad}]"))), [expected], "{bad}");
    }
    let many = vec!["a"; PERMISSIONS_MAX + 1].join(",");
    assert_eq!(refused(to, &said(&format!("[{many}]"))), [("too_many".to_owned(), path.to_owned())]);
}
