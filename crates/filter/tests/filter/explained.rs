//! Explanations: what a person reads in a dry run. [`agrees`] holds an explanation against the evaluator: what the parts
//! say, put together here once more, is the verdict.

use std::collections::BTreeMap;

use mailrail_filter::{ClauseExplanation, Document, Explanation, Filter, Limits, Part, What, limits};
use mailrail_types::{Attributes, FilterLanguage};
use serde_json::json;

use crate::expressions::Generated;
use crate::generate::{Dice, attributes, body, pattern};
use crate::verdict::filter;

/// The truth of a part by its clauses; `None`: nothing can be said, or its clauses do not decide it.
fn by_clauses(part: &Part) -> Option<bool> {
    let each = |parts: &[Part]| parts.iter().map(by_clauses).collect::<Vec<_>>();
    match &part.what {
        What::Clause(_) => part.held,
        // Of lists in the body, clauses may hold apart only.
        What::All(_) if part.note.is_some() => part.held,
        What::All(parts) if each(parts).contains(&Some(false)) => Some(false),
        What::All(parts) => each(parts).into_iter().try_fold(true, |all, one| Some(all && one?)),
        What::Any(parts) if each(parts).contains(&Some(true)) => Some(true),
        What::Any(parts) => each(parts).into_iter().try_fold(false, |any, one| Some(any || one?)),
        What::Xor(parts) => each(parts).into_iter().try_fold(false, |odd, one| Some(odd != one?)),
        What::Not(inner) => by_clauses(inner).map(|held| !held),
        What::Expression(inner) => {
            Some(by_clauses(inner) == Some(true) && evaluated_clauses(inner).all(|c| c.problem.is_none()))
        }
    }
}

fn parts(part: &Part) -> Vec<&Part> {
    let inner: Vec<&Part> = match &part.what {
        What::Clause(_) => Vec::new(),
        What::All(parts) | What::Any(parts) | What::Xor(parts) => parts.iter().collect(),
        What::Not(inner) | What::Expression(inner) => vec![inner],
    };
    std::iter::once(part).chain(inner.into_iter().flat_map(self::parts)).collect()
}

fn evaluated_clauses(part: &Part) -> impl Iterator<Item = &ClauseExplanation> {
    parts(part).into_iter().filter(|part| part.evaluated).filter_map(clause_of)
}

fn clause_of(part: &Part) -> Option<&ClauseExplanation> {
    match &part.what {
        What::Clause(clause) => Some(clause),
        _ => None,
    }
}

/// All clauses, with whether each holds and whether it was evaluated.
pub(crate) fn clauses(explanation: &Explanation) -> Vec<(&ClauseExplanation, Option<bool>, bool)> {
    let all = parts(&explanation.root).into_iter();
    all.filter_map(|part| Some((clause_of(part)?, part.held, part.evaluated))).collect()
}

/// The explanation says what the evaluator says, and its parts lead to it. Gives the explanation.
pub(crate) fn agrees(filter: &Filter, document: &Document<'_>, on: &str) -> Explanation {
    let verdict = filter.matches(document);
    let explanation = filter.explain(document);
    assert_eq!(explanation.matched, verdict == Ok(true), "{on}");
    assert_eq!(explanation.error, verdict.err().map(mailrail_filter::EvalError::code), "{on}");
    let all = clauses(&explanation);
    let out_of_steps = all.iter().any(|(clause, ..)| clause.problem == Some("too_many_steps"));
    if let (Ok(expected), 0, false) = (verdict, explanation.left_out, out_of_steps) {
        assert_eq!(explanation.root.held, Some(expected), "{on}: {explanation:#?}");
        assert_eq!(by_clauses(&explanation.root), Some(expected), "{on}: {explanation:#?}");
    }
    assert!(all.len() <= limits::EXPLAINED_CLAUSES_MAX, "{on}");
    for (clause, ..) in &all {
        assert!(clause.seen.len() <= limits::EXPLAINED_PATHS_MAX, "{on}");
        assert!(clause.seen.iter().all(|seen| seen.values.len() <= limits::EXPLAINED_VALUES_MAX), "{on}");
    }
    explanation
}

/// N11: every clause, and what it saw.
#[test]
fn n11_an_explanation_shows_every_clause_and_what_was_seen() {
    let filter = filter(
        r#"{"project":{"key":["FOO"]},"priority":[{"prefix":"Crit"}],"$attributes":{"type":["a.b"]},"x":[{"exists":false}]}"#,
    );
    let attributes = Attributes { event_type: "a.\"b".into(), ..Attributes::default() };
    let body = br#"{"project":[{"key":"BAR"},{"key":["FOO",5]}],"x":{}}"#;
    let explanation = agrees(&filter, &Document::new(&attributes, body), "it");
    let clause = |path: &str, wanted: &str, values: &[&str]| json!({ "text": format!("{path} {wanted}"), "seen": [{ "path": path, "values": values }] });
    assert_eq!(
        serde_json::to_value(&explanation).expect("serialisable"),
        json!({
            "matched": false,
            "body": {"state": "json"},
            "root": {
                "all": [
                    // The attributes come first; what they decide is not looked for in the body.
                    {"clause": clause("$.project.key", "[\"FOO\"]", &["\"BAR\"", "\"FOO\"", "5"]), "held": true, "evaluated": false},
                    {"clause": clause("$.priority", "[{\"prefix\":\"Crit\"}]", &[]), "held": false, "evaluated": false},
                    {"clause": clause("$attributes.type", "[\"a.b\"]", &["\"a.\\\"b\""]), "held": false, "evaluated": true},
                    {"clause": clause("$.x", "[{\"exists\":false}]", &[]), "held": true, "evaluated": false},
                ],
                "held": false,
                "evaluated": true,
            },
        })
    );
}

#[test]
fn clauses_that_hold_apart_but_not_together_are_explained() {
    let filter = filter(r#"{"d":{"a":[1],"b":[2]}}"#);
    let attributes = Attributes::default();
    let explanation = agrees(&filter, &Document::new(&attributes, br#"{"d":[{"a":1},{"b":2}]}"#), "apart");
    assert!(clauses(&explanation).iter().all(|(_, held, evaluated)| *held == Some(true) && *evaluated));
    assert!(explanation.root.note.is_some_and(|note| note.contains("one element of the same list")));
}

#[test]
fn unreadable_bodies_and_alternatives_are_explained() {
    let filter = filter(r#"{"$or":[{"a":[1]},{"b":[2]},{"c":[3]}]}"#);
    let attributes = Attributes::default();
    let explanation = agrees(&filter, &Document::new(&attributes, b"{\"b\":2"), "cut");
    assert_eq!(
        serde_json::to_value(&explanation.body).expect("serialisable"),
        json!({"state": "unreadable", "offset": 6, "problem": "the document ends early"})
    );
    let explanation = agrees(&filter, &Document::new(&attributes, b"{\"b\":2}"), "whole");
    let What::Any(alternatives) = &explanation.root.what else { panic!("{explanation:?}") };
    let came: Vec<_> = alternatives.iter().map(|one| (one.held, one.evaluated)).collect();
    assert_eq!(came, [(Some(false), true), (Some(true), true), (Some(false), false)]);
}

/// Bounds of an explanation: values, clauses, alternatives and nesting.
#[test]
fn long_values_and_lists_are_cut() {
    let attributes = Attributes::default();
    let body = format!(r#"{{"a":["{}",{}]}}"#, "é".repeat(500), vec!["1"; 50].join(","));
    let explanation =
        agrees(&filter(r#"{"a":["x"]}"#), &Document::new(&attributes, body.as_bytes()), "values");
    let values = &clauses(&explanation)[0].0.seen[0].values;
    assert_eq!(values.len(), limits::EXPLAINED_VALUES_MAX);
    assert_eq!(values[0].chars().count(), limits::EXPLAINED_VALUE_CHARS_MAX + 1);

    let branches: Vec<_> = (0..100).map(|i| format!(r#"{{"k{i}":[1]}}"#)).collect();
    let many = filter(&format!(r#"{{"$or":[{}]}}"#, branches.join(",")));
    let explanation = agrees(&many, &Document::new(&attributes, br#"{"k99":1}"#), "alternatives");
    let shown = (explanation.matched, clauses(&explanation).len(), explanation.left_out);
    assert_eq!(shown, (true, limits::EXPLAINED_ALTERNATIVES_MAX, 68));
    assert_eq!(explanation.root.held, Some(true), "the one that holds is not shown, and counts");

    let terms: Vec<_> = (0..300).map(|i| format!("data.k{i} = 1")).collect();
    let explanation =
        agrees(&cesql(&terms.join(" OR ")), &Document::new(&attributes, br#"{"k299":1}"#), "or");
    assert_eq!((clauses(&explanation).len(), explanation.left_out), (limits::EXPLAINED_CLAUSES_MAX, 100));
    assert_eq!(explanation.root.held, Some(true));
}

/// An alternative whose clauses are all left out is not shown: as one of no clauses it would seem to pass every event.
#[test]
fn n11_alternatives_that_are_left_out_are_no_empty_ones() {
    let attributes = Attributes::default();
    let clauses_of = |i: usize| -> Vec<_> { (0..11).map(|k| format!("\"k{i}_{k}\":[1]")).collect() };
    let branches: Vec<_> = (0..25).map(|i| format!("{{{}}}", clauses_of(i).join(","))).collect();
    let many = filter(&format!(r#"{{"$or":[{}]}}"#, branches.join(",")));
    let body = format!("{{{}}}", clauses_of(24).join(",").replace(['[', ']'], ""));
    for (body, matched) in [("{}", false), (body.as_str(), true)] {
        let explanation = agrees(&many, &Document::new(&attributes, body.as_bytes()), body);
        let What::Any(alternatives) = &explanation.root.what else { panic!("{explanation:?}") };
        let lengths: Vec<usize> = alternatives.iter().map(|one| parts(one).len() - 1).collect();
        // 18 whole ones and two clauses of the next; of the other 7 alternatives of 11 clauses nothing.
        assert_eq!((lengths.len(), lengths.last()), (19, Some(&2)), "{lengths:?}");
        assert_eq!((explanation.matched, explanation.left_out), (matched, 25 * 11 - 200));
        assert_eq!(explanation.root.held, Some(matched), "one that is not shown counts");
    }
}

/// However deep a filter is nested, what is shown of it can be read by a common reader of JSON.
#[test]
fn nesting_is_cut_where_readers_stop() {
    let attributes = Attributes { event_type: "t".to_owned(), ..Attributes::default() };
    let document = Document::new(&attributes, b"{}");
    let nots = format!("[{}{{\"exact\":{{\"type\":\"t\"}}}}{}]", "{\"not\":".repeat(60), "}".repeat(60));
    let alls = format!("[{}{{\"exact\":{{\"type\":\"t\"}}}}{}]", "{\"all\":[".repeat(60), "]}".repeat(60));
    let deep = format!("{}type = 't'{}", "NOT (".repeat(30), ")".repeat(30));
    let mixed = format!("type = 't'{}", " AND type = 't' OR type = 't'".repeat(150));
    for (language, text) in [
        (FilterLanguage::CloudEvents, &nots),
        (FilterLanguage::CloudEvents, &alls),
        (FilterLanguage::Cesql, &deep),
        (FilterLanguage::Cesql, &mixed),
    ] {
        let filter = Filter::parse(language, text, &Limits::default()).expect("a filter");
        let explanation = agrees(&filter, &document, text);
        assert!(explanation.matched && explanation.left_out > 0, "{text:.50}");
        let is_empty = matches!(&explanation.root.what, What::All(parts) if parts.is_empty());
        let told = explanation.root.note.is_some_and(|note| note.contains("too deep"));
        assert_eq!(is_empty, told, "an empty list that is none says so: {text:.50}");
        let written = serde_json::to_string(&explanation).expect("serialisable");
        let read: serde_json::Value = serde_json::from_str(&written).expect("not nested too deep");
        assert_eq!(read["matched"], true, "{text:.50}");
    }
}

fn cesql(text: &str) -> Filter {
    Filter::parse(FilterLanguage::Cesql, text, &Limits::default()).expect("a filter")
}

fn explained(language: FilterLanguage, text: &str, body: &str) -> Explanation {
    let filter = Filter::parse(language, text, &Limits::default()).expect("a filter");
    let attributes = Attributes { event_type: "a.b".into(), ..Attributes::default() };
    agrees(&filter, &Document::new(&attributes, body.as_bytes()), text)
}

/// Clause, whether it holds, whether it was evaluated, its problem.
fn told(explanation: &Explanation) -> Vec<(&str, Option<bool>, bool, Option<&str>)> {
    let all = clauses(explanation).into_iter();
    all.map(|(clause, held, evaluated)| (&*clause.text, held, evaluated, clause.problem)).collect()
}

#[test]
fn n11_every_comparison_of_an_expression_is_explained() {
    let text = "data.project.key = 'FOO' AND data.priority LIKE 'Crit%' AND type IN ('x', 'a.b')";
    let explanation =
        explained(FilterLanguage::Cesql, text, r#"{"project":[{"key":"BAR"},{"key":["FOO",5]}]}"#);
    assert_eq!(
        told(&explanation),
        [
            ("data.project.key = 'FOO'", Some(true), true, None),
            // Of an absent value nothing can be said, so the rest is looked at.
            ("data.priority LIKE 'Crit%'", None, true, None),
            ("type IN ('x', 'a.b')", Some(true), true, None),
        ]
    );
    let seen = &clauses(&explanation)[0].0.seen[0];
    assert_eq!((seen.path.as_str(), seen.values.join(" ")), ("$.project.key", r#""BAR" "FOO" 5"#.to_owned()));
    let What::Expression(root) = &explanation.root.what else { panic!("{explanation:?}") };
    assert!(matches!(&root.what, What::All(parts) if parts.len() == 3), "{root:?}");
}

/// What stands before decides: the rest is shown with what it would say, and an error there is none.
#[test]
fn n11_what_is_not_evaluated_is_said() {
    let text = "type = 'a.b' OR nothing = 'x' AND data.n = 5";
    let explanation = explained(FilterLanguage::Cesql, text, r#"{"n":6}"#);
    assert_eq!(
        told(&explanation),
        [
            ("type = 'a.b'", Some(true), true, None),
            ("nothing = 'x'", Some(false), false, Some("missing_attribute")),
            // AND and OR bind equally tight: this is all of (any of the two before) and this one.
            ("data.n = 5", Some(false), true, None),
        ]
    );
    assert!(!explanation.matched && explanation.root.note.is_none());
    let What::Expression(root) = &explanation.root.what else { panic!("{explanation:?}") };
    let What::All(parts) = &root.what else { panic!("{root:?}") };
    assert!(matches!(&parts[0].what, What::Any(two) if two.len() == 2), "{root:?}");

    let listed = r#"[{"exact":{"type":"no"}},{"sql":"nothing = 'x' OR type = 'a.b'"}]"#;
    let explanation = explained(FilterLanguage::CloudEvents, listed, "{}");
    let evaluated: Vec<bool> = clauses(&explanation).iter().map(|(.., evaluated)| *evaluated).collect();
    assert_eq!(evaluated, [true, false, false]);
}

#[test]
fn errors_of_clauses_are_named_and_decide() {
    let text = "NOT (type = 'a.b') OR INT(type) = 5 OR nothing = 'x' OR type = 'a.b'";
    let explanation = explained(FilterLanguage::Cesql, text, "{}");
    assert_eq!(
        told(&explanation),
        [
            ("type = 'a.b'", Some(true), true, None),
            ("INT(type) = 5", Some(false), true, Some("cast")),
            ("nothing = 'x'", Some(false), true, Some("missing_attribute")),
            ("type = 'a.b'", Some(true), true, None),
        ]
    );
    assert!(!explanation.matched);
    assert!(explanation.root.note.is_some_and(|note| note.contains("met an error")));
    let two = explained(FilterLanguage::Cesql, "data.owner = data.author", r#"{"owner":1,"author":[2,1]}"#);
    let seen: Vec<_> = clauses(&two)[0].0.seen.iter().map(|seen| seen.path.as_str()).collect();
    assert_eq!((two.matched, seen), (true, vec!["$.owner", "$.author"]));
}

#[test]
fn n11_every_filter_of_a_list_is_explained() {
    let text = r#"[{"exact":{"type":"a.b","subject":"s"}},{"any":[{"not":{"prefix":{"type":"a"}}},{"sql":"data.n > 5"}]}]"#;
    let explanation = explained(FilterLanguage::CloudEvents, text, r#"{"n":7}"#);
    assert_eq!(
        told(&explanation),
        [
            ("$attributes.type exact \"a.b\"", Some(true), true, None),
            ("$attributes.subject exact \"s\"", Some(false), true, None),
            ("$attributes.type prefix \"a\"", Some(true), false, None),
            ("data.n > 5", Some(true), false, None),
        ]
    );
    let What::All(list) = &explanation.root.what else { panic!("{explanation:?}") };
    assert!(matches!(&list[0].what, What::All(two) if two.len() == 2), "{list:?}");
    let What::Any(any) = &list[1].what else { panic!("{list:?}") };
    assert!(matches!(&any[0].what, What::Not(_)) && any[0].held == Some(false), "{any:?}");
    assert!(matches!(&any[1].what, What::Expression(_)) && any[1].held == Some(true), "{any:?}");
    assert!(explained(FilterLanguage::CloudEvents, "[]", "{}").matched);
}

#[test]
fn an_expression_that_takes_too_long_is_explained() {
    let list = vec!["7"; 3_000].join(",");
    let text = "data.l - data.l = 1 AND type = 'a.b'";
    let explanation = explained(FilterLanguage::Cesql, text, &format!("{{\"l\":[{list}]}}"));
    assert_eq!((explanation.matched, explanation.error), (false, Some("too_many_steps")));
    let first = &clauses(&explanation)[0];
    assert_eq!((first.0.problem, first.1, explanation.root.held), (Some("too_many_steps"), None, None));
}

/// N11: generated filters of every language on generated events: the explanation is the verdict, and its parts lead to it.
#[test]
fn n11_explanations_agree_with_the_evaluator_in_every_language() {
    let mut dice = Dice::new(1100);
    let mut met: BTreeMap<(&str, bool), usize> = BTreeMap::new();
    for _ in 0..400 {
        let generated = Generated::new(&mut dice);
        let pattern = pattern(&mut dice);
        let texts = [
            (generated.language, generated.text.as_str()),
            (FilterLanguage::Pattern, pattern.as_str()),
            (FilterLanguage::EventBridge, pattern.as_str()),
        ];
        for (language, text) in texts {
            // A pattern may say something twice, or use what is only ours.
            let Ok(filter) = Filter::parse(language, text, &Limits::default()) else { continue };
            for _ in 0..15 {
                let (attributes, body) = (attributes(&mut dice), body(&mut dice));
                let document = Document::new(&attributes, &body);
                let explanation = agrees(&filter, &document, text);
                *met.entry((language.name(), explanation.matched)).or_default() += 1;
            }
        }
    }
    for language in FilterLanguage::ALL {
        for matched in [true, false] {
            let count = met.get(&(language.name(), matched)).copied().unwrap_or_default();
            assert!(count > 20, "the generators are one-sided: {met:?}");
        }
    }
}
