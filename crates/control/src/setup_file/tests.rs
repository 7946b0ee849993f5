//! Whole documents: what is accepted, and what is refused with which code, path and line.

use std::collections::HashMap;

use mailrail_types::{AppId, ClassId, EndpointId, MailboxClass, SubscriptionId, TenantId};

use super::*;

mod bounds;
mod documents;
mod matching;

/// Stands for the address policy of egress: https only.
fn https_only(url: &str) -> Result<String, UrlRefusal> {
    let refusal = || UrlRefusal { code: "scheme_not_allowed", detail: "use https".to_owned() };
    if url.starts_with("https://") { Ok(url.to_owned()) } else { Err(refusal()) }
}

fn existing() -> Existing {
    let app = AppId::new("old-app").expect("valid");
    let mut known = Known::default();
    known.endpoints.insert(EndpointId::new("old").expect("valid"), app.clone());
    known.subscriptions.insert(SubscriptionId::new("old-sub").expect("valid"), app);
    Existing {
        classes: [MailboxClass::STRICT, MailboxClass::TOLERANT].map(ClassId::of).into(),
        tenants: HashMap::from([(TenantId::new("acme").expect("valid"), known)]),
    }
}

fn check(yaml: &str) -> Result<CheckedSetup, Vec<SetupProblem>> {
    check_setup(parse_yaml(yaml).map_err(|p| vec![p])?, &existing(), &https_only)
}

/// (code, path, line) of each problem.
fn problems(yaml: &str) -> Vec<(String, String, usize)> {
    let located = |p: SetupProblem| {
        let line = p.line.or_else(|| line_of(yaml, &Path::parse(&p.path).expect("a path")));
        (p.code, p.path, line.expect("a line"))
    };
    check(yaml).map(|_| ()).expect_err("must be refused").into_iter().map(located).collect()
}

const GOOD: &str = r#"
version: 1
tenants:
  - id: acme
    name: Acme Inc
    keys:
      - {id: producer, token: "0123456789012345678901234567890123456789"}
      - {id: other}
    event_types:
      - {name: com.github.push, ordering_key: repository.id}
    apps:
      - id: shop
        name: Shop
        endpoints:
          - id: main
            url: https://shop.example/hook
            secret: "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
            headers: {X-Team: pay}
            timeout: 15s
        subscriptions:
          - {id: pushes, endpoint: main, event_types: [com.github.push], filter: {pattern: {ref: [{prefix: refs/heads/}]}}}
      - id: old-app
        subscriptions:
          - {id: to-known, endpoint: old, event_types: [undeclared]}
    integrations:
      - id: github
        provider: github
        secret: "third-party-secret"
        cells: [main, old]
        class: bulk
      - {id: open, provider: generic, cells: [main]}
classes:
  - id: bulk
    tolerates_reordering: true
    threads: 8
    buckets_max: 256
"#;

#[test]
fn a_whole_document_is_read() {
    let checked = check(GOOD).expect("good");
    let [tenant] = checked.tenants.as_slice() else { panic!("one tenant") };
    assert_eq!(tenant.tenant.name, "Acme Inc");
    assert_eq!(
        tenant.keys.iter().map(|(id, t)| (id.as_str(), t.is_some())).collect::<Vec<_>>(),
        [("producer", true), ("other", false)]
    );
    assert_eq!(tenant.event_types[0].ordering_key.as_ref().map(|p| p.as_str()), Some("repository.id"));
    let endpoint = &tenant.endpoints[0];
    assert!(endpoint.secret.is_some());
    assert_eq!(endpoint.endpoint.timeout, Some(std::time::Duration::from_secs(15)));
    assert_eq!(endpoint.endpoint.headers, [("X-Team".to_owned(), "pay".to_owned())]);
    assert_eq!(tenant.subscriptions.len(), 2);
    assert_eq!(
        tenant.subscriptions[0].filter.as_ref().map(|f| f.text.as_str()),
        Some(r#"{"ref":[{"prefix":"refs/heads/"}]}"#)
    );
    let bulk = ClassId::of("bulk");
    let wanted =
        MailboxClass { threads: 8, buckets_max: 256, ..MailboxClass::with_defaults(bulk.clone(), true) };
    assert_eq!(checked.classes, [wanted]);
    assert_eq!(tenant.tenant.source_class.as_str(), MailboxClass::STRICT);
    assert_eq!(endpoint.endpoint.class.as_str(), MailboxClass::TOLERANT);
    let [github, open] = tenant.integrations.as_slice() else { panic!("two integrations") };
    assert_eq!((github.cells.len(), &github.class, github.secrets.len()), (2, &Some(bulk), 1));
    assert_eq!((open.provider.name(), &open.class, open.secrets.len()), ("generic", &None, 0));
    let warned: Vec<_> = checked.warnings.iter().map(|w| (w.code.as_str(), w.path.as_str())).collect();
    assert_eq!(warned, [("undeclared_event_type", "tenants[0].apps[1].subscriptions[0].event_types[0]")]);
}

/// One mistake in an otherwise good document: (text to replace, replacement, code, path, line).
const TABLE: &[(&str, &str, &str, &str, usize)] = &[
    ("version: 1", "version: 2", "unsupported_version", "version", 2),
    ("version: 1", "", "missing_field", "version", 3),
    ("version: 1", "version: one", "wrong_type", "version", 2),
    ("name: Acme Inc", "nmae: Acme Inc", "unknown_field", "tenants[0].nmae", 5),
    ("name: Acme Inc", "name: [Acme]", "wrong_type", "tenants[0].name", 5),
    ("name: Acme Inc", "name: \"a\\tb\"", "invalid_name", "tenants[0].name", 5),
    ("- id: acme", "- id: Acme", "invalid_id", "tenants[0].id", 4),
    ("- id: acme", "- {}\n  - id: acme", "missing_field", "tenants[0].id", 4),
    ("- id: acme", "- 5\n  - id: acme", "wrong_type", "tenants[0]", 4),
    ("- id: acme", "- id: acme\n  - id: acme", "duplicate_id", "tenants[1].id", 5),
    ("{id: other}", "{id: producer}", "duplicate_id", "tenants[0].keys[1].id", 8),
    ("{id: other}", "{id: other, token: short}", "invalid_token", "tenants[0].keys[1].token", 8),
    ("{id: other}", "{id: other, token: 12}", "wrong_type", "tenants[0].keys[1].token", 8),
    ("{id: other}", "{id: other, token: {env: X}}", "env_not_resolved", "tenants[0].keys[1].token", 8),
    (
        "{id: other}",
        "{id: other, token: \"0123456789012345678901234567890123456789\"}",
        "duplicate_token",
        "tenants[0].keys[1].token",
        8,
    ),
    ("repository.id", "repository..id", "invalid_ordering_key", "tenants[0].event_types[0].ordering_key", 10),
    ("{name: com.github.push, ", "{name: '', ", "invalid_event_type", "tenants[0].event_types[0].name", 10),
    ("url: https://", "url: http://", "scheme_not_allowed", "tenants[0].apps[0].endpoints[0].url", 16),
    ("url: https://shop.example/hook", "", "missing_field", "tenants[0].apps[0].endpoints[0].url", 15),
    ("whsec_MDE", "whsec_!DE", "invalid_secret", "tenants[0].apps[0].endpoints[0].secret", 17),
    (
        "{X-Team: pay}",
        "{Host: pay}",
        "header_not_allowed",
        "tenants[0].apps[0].endpoints[0].headers.Host",
        18,
    ),
    (
        "{X-Team: pay}",
        "{x-team: pay, X-Team: pay}",
        "invalid_header",
        "tenants[0].apps[0].endpoints[0].headers.x-team",
        18,
    ),
    (
        "{X-Team: pay}",
        "{\"a.b\": pay}",
        "invalid_header",
        "tenants[0].apps[0].endpoints[0].headers[\"a.b\"]",
        18,
    ),
    (
        "{X-Team: pay}",
        "{X-Team: \"a\\nb\"}",
        "invalid_header",
        "tenants[0].apps[0].endpoints[0].headers.X-Team",
        18,
    ),
    ("timeout: 15s", "timeout: 15h", "invalid_timeout", "tenants[0].apps[0].endpoints[0].timeout", 19),
    (
        "endpoint: main",
        "endpoint: mian",
        "unknown_endpoint",
        "tenants[0].apps[0].subscriptions[0].endpoint",
        21,
    ),
    (
        "endpoint: main",
        "endpoint: old",
        "unknown_endpoint",
        "tenants[0].apps[0].subscriptions[0].endpoint",
        21,
    ),
    ("[com.github.push]", "[]", "invalid_event_type", "tenants[0].apps[0].subscriptions[0].event_types", 21),
    ("[com.github.push]", "[5]", "wrong_type", "tenants[0].apps[0].subscriptions[0].event_types[0]", 21),
    ("[com.github.push]", "[a, a]", "duplicate_id", "tenants[0].apps[0].subscriptions[0].event_types[1]", 21),
    (
        "[{prefix: refs/heads/}]",
        "[{perfix: refs/heads/}]",
        "filter_unknown_operator",
        "tenants[0].apps[0].subscriptions[0].filter.pattern",
        21,
    ),
    ("{pattern: {", "{cesql: {", "wrong_type", "tenants[0].apps[0].subscriptions[0].filter.cesql", 21),
    ("{pattern: {", "{sql: {", "wrong_type", "tenants[0].apps[0].subscriptions[0].filter", 21),
    ("id: main", "id: old", "belongs_to_other_app", "tenants[0].apps[0].endpoints[0].id", 15),
    ("id: pushes", "id: old-sub", "belongs_to_other_app", "tenants[0].apps[0].subscriptions[0].id", 21),
    ("id: to-known", "id: pushes", "duplicate_id", "tenants[0].apps[1].subscriptions[0].id", 24),
    ("name: Shop", "id: shop", "syntax", "", 13),
    ("name: Shop", "name: 'Shop", "syntax", "", 37),
    ("timeout: 15s", "class: fast", "unknown_class", "tenants[0].apps[0].endpoints[0].class", 19),
    ("name: Acme Inc", "source_class: FAST", "unknown_class", "tenants[0].source_class", 5),
    ("class: bulk", "class: bluk", "unknown_class", "tenants[0].integrations[0].class", 30),
    ("provider: github", "provider: GitHub", "unknown_provider", "tenants[0].integrations[0].provider", 27),
    ("provider: github", "", "missing_field", "tenants[0].integrations[0].provider", 26),
    ("third-party-secret", "short", "invalid_secret", "tenants[0].integrations[0].secret", 28),
    ("\"third-party-secret\"", "{env: X}", "env_not_resolved", "tenants[0].integrations[0].secret", 28),
    ("[main, old]", "[main, gone]", "unknown_endpoint", "tenants[0].integrations[0].cells[1]", 29),
    ("[main, old]", "[main, main]", "invalid_cells", "tenants[0].integrations[0].cells[1]", 29),
    ("[main, old]", "[]", "invalid_cells", "tenants[0].integrations[0].cells", 29),
    ("[main, old]", "main", "wrong_type", "tenants[0].integrations[0].cells", 29),
    ("cells: [main, old]", "", "missing_field", "tenants[0].integrations[0].cells", 26),
    ("{id: open,", "{id: github,", "duplicate_id", "tenants[0].integrations[1].id", 31),
    ("{id: open,", "{id: open, colour: red,", "unknown_field", "tenants[0].integrations[1].colour", 31),
    ("threads: 8", "threads: 0", "invalid_class", "classes[0].threads", 35),
    ("threads: 8", "threads: -1", "wrong_type", "classes[0].threads", 35),
    ("threads: 8", "threads: many", "wrong_type", "classes[0].threads", 35),
    ("threads: 8", "fixed_buckets: 4097", "invalid_class", "classes[0].fixed_buckets", 35),
    ("threads: 8", "payloads_per_thread: 1000001", "invalid_class", "classes[0].payloads_per_thread", 35),
    ("buckets_max: 256", "buckets_max: 4097", "invalid_class", "classes[0].buckets_max", 36),
    ("tolerates_reordering: true", "", "missing_field", "classes[0].tolerates_reordering", 33),
    ("- id: bulk", "- id: Bulk", "invalid_id", "classes[0].id", 33),
    (
        "- id: bulk",
        "- {id: bulk, tolerates_reordering: true}\n  - id: bulk",
        "duplicate_id",
        "classes[1].id",
        34,
    ),
];

#[test]
fn each_mistake_has_its_code_path_and_line() {
    for (from, to, code, path, line) in TABLE {
        assert!(GOOD.contains(from), "the table names a text that is not there: {from}");
        let found = problems(&GOOD.replacen(from, to, 1));
        let wanted = ((*code).to_owned(), (*path).to_owned(), *line);
        assert!(found.contains(&wanted), "{from} -> {to}:\n  wanted {wanted:?}\n  found  {found:?}");
        // What follows from the mistake may be reported (a missing endpoint, for each of the three that name it), but not
        // the same place twice.
        assert!(found.len() <= 4, "{from} -> {to}: {found:?}");
    }
}

#[test]
fn all_problems_of_a_document_are_reported_together() {
    let yaml = r"
version: 1
tenants:
  - id: A B
    nonsense: 1
  - id: acme
    apps:
      - name: no id here
        endpoints:
          - {id: main, url: ftp://x, timeout: never, colour: red}
          - {id: main, url: https://x.example}
          - url: 5
        subscriptions:
          - {id: s, endpoint: gone, event_types: [t], filter: {pattern: {}}}
";
    let codes: Vec<_> =
        problems(yaml).into_iter().map(|(code, path, line)| format!("{line} {path} {code}")).collect();
    for wanted in [
        "5 tenants[0].nonsense unknown_field",
        "4 tenants[0].id invalid_id",
        "8 tenants[1].apps[0].id missing_field",
        "10 tenants[1].apps[0].endpoints[0].colour unknown_field",
        "12 tenants[1].apps[0].endpoints[2].url wrong_type",
        "12 tenants[1].apps[0].endpoints[2].id missing_field",
    ] {
        assert!(codes.iter().any(|c| c == wanted), "{wanted} is missing in {codes:#?}");
    }
}

#[test]
fn a_flood_of_problems_is_cut() {
    let endpoints: String = (0..500).map(|n| format!("          - {{id: e{n}, url: nope}}\n")).collect();
    let yaml = format!(
        "version: 1\ntenants:\n  - id: acme\n    apps:\n      - id: a\n        endpoints:\n{endpoints}"
    );
    assert_eq!(check(&yaml).map(|_| ()).expect_err("bad").len(), PROBLEMS_MAX);
    let unknown: String = (0..500).map(|n| format!("    u{n}: 1\n")).collect();
    assert_eq!(
        check(&format!("version: 1\ntenants:\n  - id: acme\n{unknown}")).map(|_| ()).expect_err("bad").len(),
        PROBLEMS_MAX
    );
}

#[test]
fn no_text_breaks_the_reader() {
    for yaml in [
        "",
        "5",
        "[]",
        "null",
        "version: 1",
        "tenants: 1",
        "a: &a [*a]",
        "- - - -",
        "version: {}\ntenants: {}",
        "tenants: [[], 1, null]",
    ] {
        assert!(check(yaml).is_err(), "{yaml:?}");
    }
    assert!(check(&format!("version: 1\ntenants: {}{}", "[".repeat(5000), "]".repeat(5000))).is_err());
}

#[test]
fn n16_problems_do_not_quote_secrets() {
    let canary = "canary4711canary";
    for (from, to) in [
        ("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", canary.to_owned()),
        ("\"0123456789012345678901234567890123456789\"", canary.to_owned()),
        ("{id: other}", canary.to_owned()),
        ("{id: other}", format!("{{id: other, token: [{canary}]}}")),
        ("{id: other}", format!("{{id: other, token: {{evn: {canary}}}}}")),
        ("{X-Team: pay}", format!("{{Authorization: \"{canary}\\n\"}}")),
        ("{X-Team: pay}", canary.to_owned()),
        ("secret: ", format!("secret: !{canary} ")),
        ("third-party-secret", format!("{canary}\\u0007")),
        ("\"third-party-secret\"", format!("[{canary}]")),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let found = check(&GOOD.replacen(from, &to, 1)).map(|_| ()).expect_err("must be refused");
        let text = format!("{found:?}");
        assert!(!text.contains(canary), "{to}: {text}");
    }
    assert!(!format!("{:?}", check(GOOD)).contains("third-party-secret"), "debug output is redacted");
    assert!(
        !format!("{:?}", check(GOOD)).contains("0123456789012345678901234567890123456789MDE"),
        "debug output is redacted"
    );
}

#[test]
fn variables_are_resolved_where_they_may_stand() {
    let yaml = r"
version: 1
tenants:
  - id: acme
    name: {env: NAME}
    keys: [{id: k, token: {env: SET}}, {id: l, token: {env: GONE}}]
    apps:
      - id: a
        endpoints: [{id: e, url: https://x.example, secret: {env: SET}, headers: {Authorization: {env: SET}, X-B: plain}}]
    integrations: [{id: g, provider: github, secret: {env: SET}, cells: [e]}]
";
    let mut document = parse_yaml(yaml).expect("YAML");
    let problems = resolve_env(&mut document, &|name| (name == "SET").then(|| "value".to_owned()));
    let found: Vec<_> = problems.iter().map(|p| (p.code.as_str(), p.path.as_str())).collect();
    assert_eq!(found, [("env_not_resolved", "tenants[0].keys[1].token")]);
    let text = |path: &str| {
        Path::parse(path).expect("path").get(&document).and_then(|v| v.as_str().map(ToOwned::to_owned))
    };
    assert_eq!(text("tenants[0].keys[0].token").as_deref(), Some("value"));
    assert_eq!(text("tenants[0].apps[0].endpoints[0].secret").as_deref(), Some("value"));
    assert_eq!(text("tenants[0].integrations[0].secret").as_deref(), Some("value"));
    assert_eq!(text("tenants[0].apps[0].endpoints[0].headers.Authorization").as_deref(), Some("value"));
    assert_eq!(text("tenants[0].apps[0].endpoints[0].headers.X-B").as_deref(), Some("plain"));
    assert_eq!(text("tenants[0].name"), None, "only secrets and headers take variables");
}

#[test]
fn the_schema_and_the_reader_agree_on_fields() {
    let schema = setup_schema();
    let fields = |name: &str| {
        let object = if name.is_empty() { &schema } else { &schema["$defs"][name] };
        assert_eq!(object["additionalProperties"], false, "{name}");
        object["properties"]
            .as_object()
            .map(|p| p.keys().cloned().collect::<Vec<_>>().join(" "))
            .unwrap_or_default()
    };
    assert_eq!(fields(""), "classes tenants version");
    assert_eq!(fields("Tenant"), "apps event_types id integrations keys name source_class");
    assert_eq!(
        fields("Endpoint"),
        "class head_max_age headers id max_in_flight rate_per_second secret timeout url"
    );
    assert_eq!(fields("Subscription"), "endpoint event_types filter id on_filter_error");
    assert_eq!(
        fields("Class"),
        "buckets_max fixed_buckets id payloads_per_thread priority threads tolerates_reordering"
    );
    assert_eq!(fields("Integration"), "cells class id provider secret");
    let providers = mailrail_types::Provider::ALL.map(mailrail_types::Provider::name);
    assert_eq!(
        schema["$defs"]["Integration"]["properties"]["provider"]["enum"],
        serde_json::json!(providers)
    );
    assert_eq!(schema["$defs"]["Endpoint"]["required"], serde_json::json!(["id", "url"]));
}
