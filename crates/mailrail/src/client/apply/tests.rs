//! What `apply` prints and how problems of a file look.

use super::*;

const TEXT: &str = "version: 1\ntenants:\n  - id: acme\n    keys:\n      - {id: k, token: {env: GONE}}\n    naem: x\n    apps:\n      - id: a\n        endpoints:\n          - id: e\n            url: https://x.example\n            secret: {env: SET}\n";

fn variable(name: &str) -> Option<String> {
    (name == "SET").then(|| "canary-value".to_owned())
}

#[test]
fn a_missing_variable_and_the_format_are_reported_together() {
    let error = read_document("setup.yaml", TEXT, &variable).expect_err("GONE is not set").to_string();
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(lines.len(), 4, "{error}");
    assert!(lines[0].contains("nothing was changed"), "{error}");
    assert!(
        lines[1].starts_with("  setup.yaml:5: tenants[0].keys[0].token: ") && lines[1].contains("'GONE'"),
        "{error}"
    );
    assert!(lines[2].starts_with("  setup.yaml:6: tenants[0].naem: unknown field 'naem'"), "{error}");
    assert!(lines[3].starts_with("  setup.yaml:12: ") && lines[3].ends_with("(invalid_secret)"), "{error}");
    assert!(!error.contains("canary"), "{error}");
}

#[test]
fn variables_are_put_in() {
    let text = TEXT.replace("GONE", "SET");
    let document = read_document("setup.yaml", &text, &variable).expect("all set");
    assert_eq!(document["tenants"][0]["keys"][0]["token"], "canary-value");
    assert_eq!(document["tenants"][0]["apps"][0]["endpoints"][0]["secret"], "canary-value");
}

#[test]
fn text_that_is_not_yaml_names_its_line() {
    let error =
        read_document("a.yaml", "version: 1\ntenants: [\n", &variable).expect_err("not closed").to_string();
    assert!(error.contains("  a.yaml:3: ") && error.contains("(syntax)"), "{error}");
}

#[test]
fn problems_of_the_api_get_their_lines() {
    let problem = |path: &str, code: &str| json!({ "code": code, "path": path, "detail": "change it" });
    let error = ApiError {
        status: Some(422),
        code: "invalid_setup".to_owned(),
        detail: "2 problem(s)".to_owned(),
        field: None,
        problems: vec![
            problem("tenants[0].apps[0].endpoints[0].url", "host_not_allowed"),
            problem("tenants[0].id", "invalid_id"),
        ],
    };
    let text = refused("f.yaml", TEXT, error.clone()).to_string();
    let lines: Vec<_> = text.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "  f.yaml:3: tenants[0].id: change it (invalid_id)",
            "  f.yaml:11: tenants[0].apps[0].endpoints[0].url: change it (host_not_allowed)",
        ]
    );
    let plain = refused("f.yaml", TEXT, ApiError { problems: Vec::new(), ..error }).to_string();
    assert_eq!(plain, "2 problem(s) (invalid_setup)");
}

#[test]
fn the_table_and_what_was_made_are_shown() {
    let answer = json!({
        "counts": { "tenants": { "created": 1, "updated": 0, "unchanged": 2, "deleted": 0 } },
        "secrets": [{ "tenant": "acme", "endpoint": "main", "secret": "whsec_x" }],
        "keys": [{ "tenant": "acme", "key": "producer", "token": "mrk_x" }],
        "warnings": [{ "code": "undeclared_event_type", "path": "tenants[0]", "detail": "check it" }],
        "dry_run": false,
        "visible": true,
    });
    let text = shown(&answer, "f.yaml").expect("an answer");
    assert!(text.contains("tenants                1         0          2         0\n"), "{text}");
    assert!(text.contains("acme/main  whsec_x\n") && text.contains("acme/producer  mrk_x\n"), "{text}");
    assert!(text.contains("warning: f.yaml: tenants[0]: check it (undeclared_event_type)\n"), "{text}");
    assert!(!text.contains("dry run"), "{text}");
    assert!(shown(&json!({}), "f").is_err());
}

#[test]
fn a_file_is_read_up_to_its_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("f.yaml");
    std::fs::write(&file, " ".repeat(usize::try_from(FILE_MAX_BYTES).expect("fits") + 1)).expect("write");
    let name = file.display().to_string();
    assert!(read_file(&name).expect_err("too large").to_string().contains("8 MiB"));
    std::fs::write(&file, "version: 1").expect("write");
    assert_eq!(read_file(&name).expect("a text"), "version: 1");
    assert!(read_file(&folder.path().join("none").display().to_string()).is_err());
}
