//! Every language against hostile texts and bodies: bounded, never a panic, never an overflow of the stack.

use mailrail_filter::index::{Change, FilterId, Index, IndexOptions, Scratch};
use mailrail_filter::limits::{CLAUSES_MAX, TEXT_MAX_CHARS};
use mailrail_filter::{Document, EvalError, Filter, FilterError, Limits};
use mailrail_types::{Attributes, FilterLanguage, FilterSource};
use proptest::prelude::*;

use crate::explained::agrees;
use crate::expressions::Generated;
use crate::generate::{Dice, pattern};

const MB: usize = 1024 * 1024;

fn parse(language: FilterLanguage, text: &str) -> Result<Filter, FilterError> {
    Filter::parse(language, text, &Limits::default())
}

fn cesql(text: &str) -> Filter {
    parse(FilterLanguage::Cesql, text).unwrap_or_else(|e| panic!("{text:.100} is refused: {e}"))
}

fn judge(text: &str, body: &[u8]) -> Result<bool, EvalError> {
    let attributes = Attributes::default();
    let filter = cesql(text);
    let document = Document::new(&attributes, body);
    let verdict = filter.matches(&document);
    agrees(&filter, &document, &format!("{text:.100}"));
    let mut index = Index::new(IndexOptions::default());
    index.apply(&[Change::Put(FilterId(1), &filter)]);
    let mut scratch = Scratch::new();
    let snapshot = index.snapshot();
    let found = snapshot.matches(&mut scratch, &attributes, body);
    match verdict {
        Ok(matched) => {
            assert_eq!((found.ids.len(), found.failed.len()), (usize::from(matched), 0), "{text:.100}");
        }
        Err(error) => assert!(found.failed.iter().all(|failed| *failed == (FilterId(1), error))),
    }
    verdict
}

#[test]
fn every_language_has_a_name_and_compiles() {
    for (language, text) in [
        (FilterLanguage::Pattern, r#"{"a":1}"#),
        (FilterLanguage::EventBridge, r#"{"a":[1]}"#),
        (FilterLanguage::Cesql, "data.a = 1"),
        (FilterLanguage::CloudEvents, r#"[{"sql":"data.a = 1"}]"#),
    ] {
        assert_eq!(FilterLanguage::from_name(language.name()), Some(language));
        let filter = Filter::compile(&FilterSource { language, text: text.to_owned() }).expect(text);
        let attributes = Attributes::default();
        assert_eq!(filter.matches(&Document::new(&attributes, br#"{"a":1.0}"#)), Ok(true), "{text}");
        assert_eq!(filter.matches(&Document::new(&attributes, br#"{"a":2}"#)), Ok(false), "{text}");
    }
    assert_eq!(FilterLanguage::from_name("regex"), None);
    let strict = parse(FilterLanguage::EventBridge, r#"{"a":1}"#).expect_err("ours");
    assert_eq!(strict.code, "filter_not_eventbridge");
}

#[test]
fn filters_of_ten_thousand_clauses_are_refused_at_once() {
    let fields: Vec<_> = (0..10_000).map(|i| format!("\"k{i}\":[{i}]")).collect();
    let terms: Vec<_> = (0..10_000).map(|i| format!("data.k{i} = {i}")).collect();
    let tests: Vec<_> = (0..10_000).map(|i| format!(r#"{{"exact":{{"id":"{i}"}}}}"#)).collect();
    for (language, text) in [
        (FilterLanguage::Pattern, format!("{{{}}}", fields.join(","))),
        (FilterLanguage::EventBridge, format!("{{{}}}", fields.join(","))),
        (FilterLanguage::Cesql, terms.join(" OR ")),
        (FilterLanguage::CloudEvents, format!("[{}]", tests.join(","))),
    ] {
        assert_eq!(parse(language, &text).expect_err("long").code, "filter_too_long");
    }
    // As many as the length allows.
    let fields: Vec<_> = (0..900).map(|i| format!("\"{i}\":{i}")).collect();
    let error = parse(FilterLanguage::Pattern, &format!("{{{}}}", fields.join(","))).expect_err("many");
    assert_eq!(error.code, "filter_too_many_clauses");
    assert!(error.message.contains(&CLAUSES_MAX.to_string()), "{error}");
    for joint in [" OR ", " AND ", " XOR ", " = ", " + "] {
        let text = format!("{} = 1", vec!["1"; 1200].join(joint));
        assert_eq!(parse(FilterLanguage::Cesql, &text).expect_err("many").code, "filter_too_many_values");
    }
    let pairs =
        (0..220).map(|i| format!("(data.a{i} = 1 OR data.b{i} = 1)")).collect::<Vec<_>>().join(" AND ");
    assert_eq!(judge(&pairs, br#"{"a0":1}"#), Ok(false));
}

#[test]
fn texts_over_every_limit_are_refused() {
    for language in FilterLanguage::ALL {
        for text in [
            "[".repeat(5 * MB),
            "(".repeat(TEXT_MAX_CHARS),
            "{\"a\":".repeat(TEXT_MAX_CHARS / 5),
            "[{\"not\":".repeat(1_000),
            "[{\"all\":[".repeat(1_000),
            "NOT ".repeat(TEXT_MAX_CHARS / 4),
            "-".repeat(TEXT_MAX_CHARS),
            "'".repeat(TEXT_MAX_CHARS),
            "data.".repeat(TEXT_MAX_CHARS / 5),
            "\u{feff}".repeat(10),
            "\0".to_owned(),
        ] {
            let error = parse(language, &text).expect_err("hostile");
            assert!(FilterError::CODES.contains(&error.code) && error.path.starts_with('$'), "{error}");
            assert!(error.message.len() < 1_000, "{:.100}", error.message);
        }
    }
}

#[test]
fn long_texts_of_bodies_are_bounded() {
    let body = format!(r#"{{"a":"{}","n":{}}}"#, "a".repeat(5 * MB), "9".repeat(MB));
    let body = body.as_bytes();
    for (text, expected) in [
        ("data.a LIKE '%b%'", Ok(false)),
        ("data.a LIKE 'a%a%a%a%a'", Ok(true)),
        ("data.a LIKE '%_b'", Ok(false)),
        ("LENGTH(data.a) = 5242880", Ok(true)),
        ("UPPER(data.a) LIKE 'AAA%'", Ok(true)),
        ("RIGHT(data.a, 3) = 'aaa'", Ok(true)),
        ("data.a = 'aaa'", Ok(false)),
        ("data.n > 5", Ok(true)),
        ("INT(data.n) = 5", Ok(false)),
        ("CONCAT_WS(data.a, 'x', 'y') = 'x'", Ok(false)),
    ] {
        assert_eq!(judge(text, body), expected, "{text}");
    }
    let slots = format!("data.a LIKE '%{}b'", "_a".repeat(500));
    let copies = format!("LENGTH(CONCAT({})) = 1", vec!["data.a"; 900].join(","));
    let delimiters = format!("LENGTH(CONCAT_WS(data.a{})) = 1", ",'x'".repeat(900));
    let upper = format!("{}data.a{} = 'x'", "UPPER(".repeat(60), ")".repeat(60));
    for text in [&slots, &copies, &delimiters, &upper] {
        assert_eq!(judge(text, body), Err(EvalError::TooManySteps), "{text:.60}");
    }
}

#[test]
fn long_lists_of_bodies_are_bounded() {
    let list = (0..5_000).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
    let body = format!(r#"{{"l":[{list}]}}"#);
    assert_eq!(judge("data.l = 4999", body.as_bytes()), Ok(true));
    assert_eq!(judge("data.l + 1 = 5000", body.as_bytes()), Ok(true));
    for text in ["data.l = data.l AND FALSE", "CONCAT(data.l, data.l, data.l) = 'x'", "data.l * data.l > 5"] {
        assert_eq!(judge(text, body.as_bytes()), Err(EvalError::TooManySteps), "{text}");
    }
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(judge("NOT EXISTS data.a OR data.a = 1", deep.as_bytes()), Ok(false));
    // The longest filter against the largest object.
    let members = (0..1_000_000).map(|i| format!("\"k{i}\":{i}")).collect::<Vec<_>>().join(",");
    let body = format!("{{{members}}}");
    let terms = (0..400).map(|i| format!("data.k{i} = -1")).collect::<Vec<_>>().join(" OR ");
    assert_eq!(judge(&terms, body.as_bytes()), Ok(false));
    assert_eq!(judge("data.k999999 = 999999", body.as_bytes()), Ok(true));
    let pattern = parse(FilterLanguage::Pattern, r#"{"k999999":[999999],"k0":[{"anything-but":1}]}"#);
    let attributes = Attributes::default();
    let document = Document::new(&attributes, body.as_bytes());
    assert_eq!(pattern.expect("a pattern").matches(&document), Ok(true));
}

#[test]
fn a_filter_that_fails_does_not_touch_the_others() {
    let body = format!(r#"{{"l":[{}],"x":1}}"#, vec!["7"; 3_000].join(","));
    let filters = [
        cesql("data.l = data.l"),
        cesql("data.x = 1"),
        parse(FilterLanguage::Pattern, r#"{"x":[1]}"#).expect("a pattern"),
        cesql("data.l / 0 = 0"),
        cesql("data.l - data.l = 1 OR data.x = 1"),
        cesql("data.x = 1 OR data.l - data.l = 1"),
    ];
    let mut index = Index::new(IndexOptions::default());
    let changes: Vec<_> = filters.iter().zip(0..).map(|(f, id)| Change::Put(FilterId(id), f)).collect();
    assert_eq!(index.apply(&changes), []);
    let mut scratch = Scratch::new();
    let snapshot = index.snapshot();
    let found = snapshot.matches(&mut scratch, &Attributes::default(), body.as_bytes());
    let mut ids = found.ids.to_vec();
    ids.sort_unstable();
    let mut failed: Vec<_> = found.failed.iter().map(|(id, _)| *id).collect();
    failed.sort_unstable();
    assert_eq!((ids, failed), ([1, 2, 5].map(FilterId).to_vec(), [0, 4].map(FilterId).to_vec()));
}

/// A valid text of a language.
fn valid(seed: u64) -> (FilterLanguage, String) {
    let mut dice = Dice::new(seed);
    if dice.one_in(3) {
        return (FilterLanguage::Pattern, pattern(&mut dice));
    }
    let generated = Generated::new(&mut dice);
    (generated.language, generated.text)
}

proptest! {
    #[test]
    fn no_text_makes_a_parser_panic(
        text in "\\PC{0,80}|[\\[\\]{}\":,a$or0-9*\\\\ -]{0,60}|((data\\.|type|'|\"|%|_|=|<>|\\(|\\)| AND | OR | NOT |LIKE |IN |EXISTS |[0-9]{1,11}|-|LOWER\\(|,|\\[|\\]|\\\\){0,30})",
    ) {
        for language in FilterLanguage::ALL {
            if let Err(e) = parse(language, &text) {
                prop_assert!(e.path.starts_with('$') && FilterError::CODES.contains(&e.code), "{}", e);
                prop_assert!(!e.message.is_empty());
            }
        }
    }

    #[test]
    fn damaged_texts_are_refused_or_evaluated(seed: u64, at: prop::sample::Index, c: char, body: Vec<u8>) {
        let (language, text) = valid(seed);
        let mut chars: Vec<char> = text.chars().collect();
        let at = at.index(chars.len());
        chars[at] = c;
        match parse(language, &chars.into_iter().collect::<String>()) {
            Err(e) => prop_assert!(e.path.starts_with('$') && FilterError::CODES.contains(&e.code), "{}", e),
            Ok(filter) => {
                let attributes = Attributes::default();
                let document = Document::new(&attributes, &body);
                prop_assert_eq!(filter.matches(&document), Ok(agrees(&filter, &document, &text).matched));
            }
        }
    }

    #[test]
    fn any_limits_are_kept(seed: u64, n in 0usize..12) {
        let (language, text) = valid(seed);
        let limits = Limits { text_chars: 20 * n, path_steps: n, conjunctions: n, clauses: n, values: n, depth: n };
        if let Err(e) = Filter::parse(language, &text, &limits) {
            let code = e.code;
            prop_assert!(code.starts_with("filter_too_") || language == FilterLanguage::Pattern, "{}", e);
        }
    }
}
