//! The walk gives what a full reading gives, on every level of SIMD; on broken bytes it ends.

use fearless_simd::{Level, dispatch};
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::index::names::{Names, PathId, Registry};
use crate::ir::{Program, Subject};

fn names(paths: &[&[&str]]) -> Names {
    let mut registry = Registry::default();
    for path in paths {
        let program = Program {
            steps: path.iter().map(|key| (*key).into()).collect(),
            clauses: vec![],
            conjunctions: vec![],
            rule: None,
            exact: true,
            text: Box::default(),
        };
        let steps = (0..path.len() as u32).collect();
        registry.path(&program, &Subject::Body(steps)).expect("few paths");
    }
    registry.names
}

fn levels() -> Vec<Level> {
    vec![Level::new(), Level::baseline()]
}

/// Leaves as (path, text for people).
fn walked(level: Level, bytes: &[u8], trie: &Trie) -> Vec<(PathId, String)> {
    let mut found = Vec::new();
    let (mut frames, mut key) = (Vec::new(), String::new());
    dispatch!(level, simd => walk(simd, bytes, trie, &mut frames, &mut key, |path, leaf| {
        let mut text = String::new();
        let written = match leaf {
            Leaf::Null => "null".to_owned(),
            Leaf::True => "true".to_owned(),
            Leaf::False => "false".to_owned(),
            Leaf::Number(number) => number.to_owned(),
            Leaf::Text(raw) => format!("\"{}", String::from_utf8_lossy(raw)),
            Leaf::Escaped(raw) if unescape(raw, &mut text) => format!("\"{text}"),
            Leaf::Escaped(_) => "broken".to_owned(),
        };
        found.push((path, written));
    }));
    found
}

const PATHS: &[&[&str]] = &[&["a"], &["a", "b"], &["c"], &["b", "a", "c"], &["é"], &["a.b"], &["c", "a"]];

fn expected(value: &Value, path: &mut Vec<String>, out: &mut Vec<(PathId, String)>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                path.push(key.clone());
                expected(member, path, out);
                path.pop();
            }
        }
        Value::Array(elements) => elements.iter().for_each(|element| expected(element, path, out)),
        leaf => {
            let here = PATHS.iter().position(|p| p.iter().eq(path.iter()));
            let written = leaf.as_str().map_or_else(|| leaf.to_string(), |text| format!("\"{text}"));
            out.extend(here.map(|at| (at as PathId, written)));
        }
    }
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        prop::sample::select(vec!["", "x", "\\", "\"", "a\\\"b", "{[,]}", "é😀\n", "\\\\", "}\\"])
            .prop_map(Value::from),
        "[a-z\\\\\"{}]{0,90}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 80, 8, |inner| {
        let key = prop::sample::select(vec!["a", "b", "c", "é", "a.b", "k\"", "\\", "long key {[,"])
            .prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..6)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

fn check(text: &str, value: &Value, trie: &Trie) {
    let mut wanted = Vec::new();
    expected(value, &mut Vec::new(), &mut wanted);
    for level in levels() {
        assert_eq!(walked(level, text.as_bytes(), trie), wanted, "{level:?}: {text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn gives_the_leaves_of_valid_documents(value in json()) {
        let trie = Trie::new(&names(PATHS), (0..PATHS.len() as PathId).collect());
        check(&value.to_string(), &value, &trie);
        check(&serde_json::to_string_pretty(&value).expect("valid"), &value, &trie);
        // Escapes where none are needed.
        let escaped = value.to_string().replace('a', "\\u0061");
        if let Ok(value) = serde_json::from_str::<Value>(&escaped) {
            check(&escaped, &value, &trie);
        }
    }

    #[test]
    fn levels_agree_and_end_on_damaged_documents(value in json(), at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
        let trie = Trie::new(&names(PATHS), (0..PATHS.len() as PathId).collect());
        let mut bytes = value.to_string().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let [new, baseline] = [Level::new(), Level::baseline()].map(|level| walked(level, &bytes, &trie));
        prop_assert_eq!(new, baseline);
        bytes.truncate(cut.index(bytes.len()));
        let [new, baseline] = [Level::new(), Level::baseline()].map(|level| walked(level, &bytes, &trie));
        prop_assert_eq!(new, baseline);
    }
}

#[test]
fn duplicates_are_all_given() {
    let trie = Trie::new(&names(&[&["a"], &["b"]]), vec![0, 1]);
    for level in levels() {
        let found = walked(level, br#"{"a":1,"a":2,"b":3,"\u0061":4}"#, &trie);
        let numbers: Vec<_> = found.iter().map(|(path, text)| (*path, text.as_str())).collect();
        assert_eq!(numbers, [(0, "1"), (0, "2"), (1, "3"), (0, "4")]);
    }
}

#[test]
fn strings_of_every_length_end_where_they_end() {
    let trie = Trie::new(&names(&[&["a"], &["b"]]), vec![0, 1]);
    for length in 0..200 {
        for backslashes in 0..5 {
            let text = format!("{}{}", "x".repeat(length), "\\".repeat(2 * backslashes));
            let body = format!("{{\"k\":\"{text}\",\"a\":\"{text}\",\"s\":[{{\"{text}\":\"]\"}}],\"b\":7}}");
            for level in levels() {
                let found = walked(level, body.as_bytes(), &trie);
                assert_eq!(found.len(), 2, "{body}");
                assert_eq!(found[1].1, "7");
            }
        }
    }
}

#[test]
fn values_that_begin_in_the_next_block_are_skipped_and_entered() {
    let trie = Trie::new(&names(&[&["a"], &["b", "c"], &["d"]]), vec![0, 1, 2]);
    for indent in 0..140 {
        let space = " ".repeat(indent);
        // Nothing below `a` is wanted, something below `b` is.
        let body =
            format!(r#"{{"a":{space}{{"x":[{{}},"]"]}},"b":{space}[{{"z":{space}{{"c":1}},"c":2}}],"d":3}}"#);
        for level in levels() {
            let found = walked(level, body.as_bytes(), &trie);
            let found: Vec<_> = found.iter().map(|(path, text)| (*path, text.as_str())).collect();
            assert_eq!(found, [(1, "2"), (2, "3")], "{body}");
        }
    }
}
