//! `docs/filters.md`: every example there is run, and every operator has one.
//!
//! Fenced blocks named after a language hold filters; the `matches` and `matches-not` blocks behind them hold events, one on a
//! line, and belong to all filters since the last such block; `refused` holds a code. Of tables, those whose first heading
//! is named in [`table`] are examples, row by row, with their values in backticks.

use std::path::Path;

use mailrail_filter::{Document, Filter, FilterError, Limits};
use mailrail_types::{Attribute, AttributeValue, Attributes, FilterLanguage};
use serde_json::{Map, Value};

use crate::explained::agrees;
use crate::verdict::check_indexed;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/filters.md");
    std::fs::read_to_string(path).expect("the page is there")
}

/// A CloudEvent in JSON; what every event must have and is not shown is made up.
fn event(text: &str) -> (Attributes, Vec<u8>) {
    let members: Map<String, Value> =
        serde_json::from_str(text).unwrap_or_else(|e| panic!("{text} is no event: {e}"));
    let mut attributes = Attributes {
        id: "1".to_owned(),
        source: "/".to_owned(),
        event_type: "t".to_owned(),
        ..Attributes::default()
    };
    let mut body = b"{}".to_vec();
    for (name, value) in members {
        let text = value.as_str().unwrap_or_default().to_owned();
        match name.as_str() {
            "data" => body = value.to_string().into_bytes(),
            "id" => attributes.id = text,
            "source" => attributes.source = text,
            "type" => attributes.event_type = text,
            "subject" => attributes.subject = Some(text),
            "time" => attributes.time = Some(text),
            _ => {
                let value = match value {
                    Value::Bool(truth) => AttributeValue::Boolean(truth),
                    Value::Number(n) => {
                        AttributeValue::Integer(n.as_i64().and_then(|n| n.try_into().ok()).expect("32 bits"))
                    }
                    _ => AttributeValue::String(text),
                };
                attributes.extensions.push(Attribute { name, value });
            }
        }
    }
    (attributes, body)
}

/// What was run.
#[derive(Default)]
struct Run {
    filters: Vec<(FilterLanguage, String)>,
    verdicts: usize,
    refusals: usize,
}

impl Run {
    fn verdict(&mut self, language: FilterLanguage, text: &str, shown: &str, expected: bool) {
        let filter = Filter::parse(language, text, &Limits::default())
            .unwrap_or_else(|e| panic!("{text} is refused: {e}"));
        let (attributes, body) = event(shown);
        let document = Document::new(&attributes, &body);
        assert_eq!(filter.matches(&document), Ok(expected), "{text} on {shown}");
        assert_eq!(agrees(&filter, &document, text).matched, expected, "{text} on {shown}");
        check_indexed(text, &filter, &attributes, &body, Ok(expected));
        self.verdicts += 1;
    }

    fn refusal(&mut self, language: FilterLanguage, text: &str, code: &str) {
        let error: FilterError = Filter::parse(language, text, &Limits::default()).expect_err(text);
        assert_eq!(error.code, code, "{text}: {error}");
        self.refusals += 1;
    }
}

/// The language of a table of examples.
fn table(heading: &str) -> Option<FilterLanguage> {
    match heading {
        "In the list of x" => Some(FilterLanguage::Pattern),
        "Expression" => Some(FilterLanguage::Cesql),
        "CloudEvents filter" => Some(FilterLanguage::CloudEvents),
        _ => None,
    }
}

/// What stands in backticks.
fn codes(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn row(run: &mut Run, language: FilterLanguage, line: &str) {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [filter, yes, no] = cells.as_slice() else { panic!("three cells: {line}") };
    let filter = codes(filter)[0];
    let text = if language == FilterLanguage::Pattern {
        format!("{{\"x\": [{filter}]}}")
    } else {
        filter.to_owned()
    };
    run.filters.push((language, text.clone()));
    for (cell, expected) in [(yes, true), (no, false)] {
        for shown in codes(cell) {
            let event = match (language, shown) {
                (FilterLanguage::Pattern, "absent") => "{}".to_owned(),
                (FilterLanguage::Pattern, value) => format!("{{\"data\": {{\"x\": {value}}}}}"),
                (_, event) => event.to_owned(),
            };
            run.verdict(language, &text, &event, expected);
        }
    }
}

fn run_page(page: &str) -> Run {
    let mut run = Run::default();
    let mut lines = page.lines();
    let mut examples = None;
    // Filters since the last block of events, and whether such a block came already.
    let mut current: Vec<(FilterLanguage, String)> = Vec::new();
    let mut used = false;
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("```") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            if let Some(language) = FilterLanguage::from_name(name) {
                if std::mem::take(&mut used) {
                    current.clear();
                }
                current.push((language, block.join("\n")));
                run.filters.push((language, block.join("\n")));
                continue;
            }
            used = true;
            for (language, text) in &current {
                for line in &block {
                    match name {
                        "matches" | "matches-not" => run.verdict(*language, text, line, name == "matches"),
                        "refused" => run.refusal(*language, text, line),
                        other => panic!("a block of an unknown kind: {other}"),
                    }
                }
            }
        } else if line.starts_with("|---") {
        } else if line.starts_with('|') {
            match examples {
                Some(language) => row(&mut run, language, line),
                None => {
                    examples = line.split('|').nth(1).and_then(|heading| table(heading.trim()));
                }
            }
        } else {
            examples = None;
        }
    }
    run
}

/// What a pattern can say.
const PATTERN_NAMES: &[&str] = &[
    "\"prefix\"",
    "\"suffix\"",
    "\"equals-ignore-case\"",
    "\"equals-ignore-ascii-case\"",
    "\"wildcard\"",
    "\"exactly\"",
    "\"numeric\"",
    "\"date\"",
    "\"cidr\"",
    "\"exists\"",
    "\"anything-but\"",
    "\"none-of\"",
    "\"all-of\"",
    "\"$or\"",
    "\"$attributes\"",
];

/// What an expression can say.
const CESQL_NAMES: &[&str] = &[
    "=",
    "!=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "AND",
    "OR",
    "XOR",
    "NOT",
    "LIKE",
    "IN",
    "EXISTS",
    "TRUE",
    "FALSE",
    "LENGTH(",
    "CONCAT(",
    "CONCAT_WS(",
    "LOWER(",
    "UPPER(",
    "TRIM(",
    "LEFT(",
    "RIGHT(",
    "SUBSTRING(",
    "ABS(",
    "INT(",
    "BOOL(",
    "STRING(",
    "data.",
    "data['",
];

#[test]
fn every_example_of_the_page_is_right() {
    let run = run_page(&page());
    assert!(run.verdicts > 200 && run.refusals >= 4, "{} and {}", run.verdicts, run.refusals);
    let examples = |language| {
        let of: Vec<&str> =
            run.filters.iter().filter(|(l, _)| *l == language).map(|(_, text)| text.as_str()).collect();
        of.join("\n")
    };
    for (language, names) in [
        (FilterLanguage::Pattern, PATTERN_NAMES),
        (FilterLanguage::Cesql, CESQL_NAMES),
        (
            FilterLanguage::CloudEvents,
            &["\"exact\"", "\"prefix\"", "\"suffix\"", "\"all\"", "\"any\"", "\"not\"", "\"sql\""],
        ),
        (FilterLanguage::EventBridge, &["\"anything-but\"", "\"$or\"", "\"none-of\""]),
    ] {
        let all = examples(language);
        for name in names {
            assert!(all.contains(name), "{} has no example of {name}", language.name());
        }
    }
}

#[test]
fn the_limits_of_the_page_are_those_of_the_crate() {
    use mailrail_filter::limits;
    let page = page();
    for (what, limit) in [
        ("Characters of a filter", limits::TEXT_MAX_CHARS),
        ("Values and operators; in an expression literals, attributes and paths", limits::VALUES_MAX),
        ("Fields that must match together", limits::CLAUSES_MAX),
        ("Alternatives that `$or` stands for", limits::CONJUNCTIONS_MAX),
        ("Keys of a path", limits::PATH_STEPS_MAX),
        ("Nesting of an expression, or of CloudEvents filters", limits::EXPRESSION_DEPTH_MAX),
        ("Steps of one evaluation", limits::STEPS_MAX as usize),
    ] {
        let written = if limit >= 1_000 {
            format!("{},{:03}", limit / 1_000, limit % 1_000)
        } else {
            limit.to_string()
        };
        assert!(page.contains(&format!("| {what} | {written} |")), "{what}: {written}");
    }
}
