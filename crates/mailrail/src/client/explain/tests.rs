//! What is asked and what is printed; the literal example in all languages, here and without a server.

use std::path::PathBuf;

use clap::Parser;
use serde_json::json;
use tempfile::TempDir;

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    explain: ExplainArgs,
}

fn parse(line: &[&str]) -> Result<ExplainArgs, clap::Error> {
    Line::try_parse_from(std::iter::once(&"explain").chain(line)).map(|line| line.explain)
}

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Files(tempfile::tempdir().expect("a folder"))
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.0.path().join(name);
        std::fs::write(&file, text).expect("write");
        file
    }
}

/// A05: `project.key = FOO and priority = Critical`, as in docs/filters.md.
const EXAMPLE: [(&str, &str); 3] = [
    ("pattern", "filter:\n  pattern: {project: {key: [FOO]}, priority: [Critical]}\n"),
    ("cesql", "{cesql: \"data.project.key = 'FOO' AND data.priority = 'Critical'\"}"),
    ("cloudevents", "{cloudevents: [{sql: \"data.project.key = 'FOO' AND data.priority = 'Critical'\"}]}"),
];

#[test]
fn a05_n11_the_literal_example_is_explained_in_every_language() {
    let files = Files::new();
    let yes = files.write(
        "yes.json",
        r#"{"type": "issue", "data": {"project": {"key": "FOO"}, "priority": "Critical"}}"#,
    );
    let no = files
        .write("no.json", r#"{"type": "issue", "data": {"project": {"key": "FOO"}, "priority": "Minor"}}"#);
    for (language, text) in EXAMPLE {
        let filter = files.write("filter.yaml", text);
        let answer = local(&filter, &yes).expect("an answer");
        assert_eq!((&answer["language"], &answer["matched"]), (&json!(language), &json!(true)));
        let answer = local(&filter, &no).expect("an answer");
        assert_eq!(answer["matched"], json!(false));
        let text = shown::filter(&answer).expect("text");
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(lines[0], format!("does not match: the filter of language {language}"));
        let line =
            |of: &str| lines.iter().find(|line| line.contains(of)).copied().unwrap_or_default().to_owned();
        let key = line("$.project.key");
        assert!(key.starts_with("yes") && key.contains("the event: $.project.key \"FOO\""), "{text}");
        let priority = line("$.priority");
        assert!(priority.starts_with("no") && priority.contains("the event: $.priority \"Minor\""), "{text}");
    }
}

#[test]
fn what_cannot_be_tried_is_said_with_code_and_place() {
    let files = Files::new();
    let event = files.write("event.json", "{}");
    let said = |filter: &str, event: &PathBuf| {
        let filter = files.write("filter", filter);
        local(&filter, event).expect_err("refused").to_string()
    };
    let unknown = said("pattern: {a: [{prefx: x}]}", &event);
    assert!(unknown.starts_with("filter.pattern: at $.a[0]"), "{unknown}");
    assert!(unknown.ends_with("(filter_unknown_operator)"), "{unknown}");
    let cut = said("cesql: data.a =", &event);
    assert!(cut.starts_with("filter.cesql: ") && cut.ends_with("(filter_syntax)"), "{cut}");
    let other = said("sql: x", &event);
    assert!(other.starts_with("filter") && other.ends_with("(wrong_type)"), "{other}");
    assert!(said("{pattern: [", &event).contains("(syntax)"));
    let no_event = files.write("event.txt", "hello");
    let said_of = said("cesql: 'TRUE'", &no_event);
    assert!(said_of.starts_with("event: ") && said_of.ends_with("(invalid_event)"), "{said_of}");
    assert!(local(std::path::Path::new("-"), std::path::Path::new("-")).is_err());
    assert!(local(std::path::Path::new("/no/such/file"), &event).is_err());
    let huge = files.write("huge", &" ".repeat(1024 * 1024 + 1));
    assert!(local(&huge, &event).expect_err("too large").to_string().contains("larger than 1 MiB"));
}

#[test]
fn either_an_id_or_two_files() {
    assert!(parse(&[]).is_err() && parse(&["--filter", "f"]).is_err() && parse(&["--event", "e"]).is_err());
    assert!(parse(&["evt_x", "--filter", "f", "--event", "e"]).is_err());
    assert!(parse(&["--filter", "f", "--event", "e"]).is_ok());
    assert!(parse(&["--filter", "f", "--event", "e", "--endpoint", "x"]).is_err());
    let args =
        parse(&["evt_x", "--subscription", "a.b", "--limit", "5", "--after", "0:a"]).expect("arguments");
    assert_eq!(path("evt_x", &args), "/v1/events/evt_x/explain?subscription=a%2Eb&limit=5&after=0%3Aa");
    assert_eq!(path("a/b", &parse(&["x"]).expect("arguments")), "/v1/events/a%2Fb/explain");
    assert!(parse(&["evt_x", "--limit", "101"]).is_err());
}

#[test]
fn structure_and_what_is_not_evaluated_are_printed() {
    let files = Files::new();
    let event = files.write("event.json", r#"{"type": "a", "data": {"n": 6}}"#);
    let filter =
        files.write("filter", "cesql: type = 'a' OR nothing = 'x' AND NOT (data.n = 5) AND INT(type) = 1");
    let text = shown::filter(&local(&filter, &event).expect("an answer")).expect("text");
    assert_eq!(
        text,
        "does not match: the filter of language cesql\n\
         no    expression — a clause met an error, so the expression does not pass, whatever the others say\n\
         no      all of\n\
         yes       one of\n\
         yes         type = 'a'   the event: $attributes.type \"a\"\n\
         (no)        nothing = 'x'   the event: $attributes.nothing absent   error: missing_attribute\n\
         yes       not\n\
         no          data.n = 5   the event: $.n 6\n\
         no        INT(type) = 1   the event: $attributes.type \"a\"   error: cast\n\
         in brackets: not evaluated, because what stands before decided\n"
    );
    let all = files.write("filter", "cloudevents: []");
    let broken = files.write("event.json", r#"{"datacontenttype": "text/plain", "data": "hello"}"#);
    let text = shown::filter(&local(&all, &broken).expect("an answer")).expect("text");
    assert!(text.contains("the body is no JSON") && text.contains("yes   every event"), "{text}");
}

/// What is left out is not taken for an empty list, which every event passes.
#[test]
fn what_is_left_out_is_no_filter_of_every_event() {
    let files = Files::new();
    let event = files.write("event.json", r#"{"type": "t", "data": {}}"#);
    let shown_of = |filter: &str| {
        shown::filter(&local(&files.write("filter", filter), &event).expect("an answer")).expect("text")
    };
    let clauses_of = |i: usize| (0..11).map(|k| format!("k{i}_{k}: [1]")).collect::<Vec<_>>().join(", ");
    let branches: Vec<_> = (0..25).map(|i| format!("{{{}}}", clauses_of(i))).collect();
    let many = shown_of(&format!("pattern: {{$or: [{}]}}", branches.join(", ")));
    assert!(many.contains("75 more clauses") && !many.contains("every event"), "{many}");
    let deep = |of: &str| format!("cesql: \"{}type = '{of}'{}\"", "NOT (".repeat(30), ")".repeat(30));
    for (of, held) in [("t", "yes"), ("u", "no")] {
        let text = shown_of(&deep(of));
        let line = format!("{held:<6}a filter — nested too deep to be shown");
        assert!(text.lines().any(|it| it == line) && !text.contains("every event"), "{text}");
    }
}

#[test]
fn recipients_are_printed() {
    let answer = json!({
        "event": { "id": "evt_x", "tenant": "acme", "type": "t", "source": "/s", "subject": "one\nline", "pipeline": "default",
            "position": "1:42", "accepted_at_ms": 1_700_000_000_123_i64, "permission": "payroll", "integration": null },
        "setup": { "seq": 7, "accepted_with_seq": 5, "note": "as the set-up is now" },
        "recipients_total": 9, "recipients_of_type": 2,
        "recipients": [
            { "kind": "subscription", "id": "a", "app": "shop", "gets": true, "reason": "wants", "delivery": "dlv_a",
              "endpoint": { "id": "main", "exists": true, "paused": true } },
            { "kind": "subscription", "id": "b", "app": "shop", "gets": false, "reason": "filter_error", "delivery": null,
              "on_filter_error": "drop-and-count",
              "endpoint": { "id": "main", "exists": true, "paused": false },
              "filter": { "language": "cesql", "matched": false, "error": "too_many_steps", "body": {"state": "json"},
                "root": { "clause": { "text": "x", "seen": [], "problem": "too_many_steps" }, "held": null, "evaluated": true } } },
        ],
        "next": "0:b", "looked": 12,
    });
    let text = shown::event(&answer).expect("text");
    for line in [
        "evt_x t from /s about one line",
        "  accepted   2023-11-14T22:13:20Z, at 1:42 of default",
        "  sensitive  apps need the permission payroll",
        "  recipients 2 of 9 ask for its type",
        "subscription a → endpoint main (paused: its mail waits): gets it (wants)",
        "  delivery dlv_a",
        "subscription b → endpoint main: does not get it (filter_error)",
        "  its filter gives no verdict (too_many_steps); on_filter_error is drop-and-count",
        "  ?     x   error: too_many_steps",
        "there are more: --after 0:b",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} is missing in\n{text}");
    }
    let mut nobody = answer;
    nobody["recipients"] = json!([]);
    let text = shown::event(&nobody).expect("text");
    assert!(text.contains("nobody of those that were asked for"), "{text}");
    assert!(shown::event(&json!({})).is_err() && shown::filter(&json!({})).is_err());
}
