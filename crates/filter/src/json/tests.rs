//! The scanner accepts what `serde_json` accepts, and reads the same from it.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::limits::BODY_DEPTH_MAX;

fn to_value(node: Node<'_>) -> Value {
    match node.view() {
        View::Null => Value::Null,
        View::Bool(b) => Value::Bool(b),
        View::Number(text) => serde_json::from_str(text).expect("a number"),
        View::Text(text) => Value::String(text.to_owned()),
        View::Array => node.elements().map(to_value).collect(),
        View::Object => Value::Object(
            node.members().map(|(key, value)| (key.text().to_owned(), to_value(value))).collect(),
        ),
    }
}

/// Both read the bytes alike. `serde_json` refuses numbers outside `f64`; we keep them.
fn check(bytes: &[u8]) {
    let ours = scan(bytes);
    match serde_json::from_slice::<Value>(bytes) {
        Ok(theirs) => assert_eq!(to_value(ours.expect("they accept it").root()), theirs),
        Err(e) if e.to_string().contains("out of range") => {}
        Err(e) => assert!(ours.is_err(), "they refuse it: {e}: {:?}", String::from_utf8_lossy(bytes)),
    }
}

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        prop::sample::select(vec![
            "null",
            "true",
            "false",
            "0",
            "-0",
            "1.5",
            "10e-1",
            "123456789",
            "1E+2",
            "{}",
            "[]"
        ])
        .prop_map(str::to_owned),
        prop::sample::select(vec![
            r#""""#,
            r#""a""#,
            r#""\u00e9\n""#,
            r#""\ud83d\ude00""#,
            r#""\"\\\/\b""#,
            "\"é😀\""
        ])
        .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 64, 20, |inner| {
        let key = prop::sample::select(vec!["a", "b", "\\u0061", "", "é", "a.b", "c", "d"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|items| format!("[{}]", items.join(" , "))),
            prop::collection::vec((key, inner), 0..20).prop_map(|members| {
                let members: Vec<_> = members.iter().map(|(k, v)| format!("\"{k}\":\t{v}")).collect();
                format!("{{{}}}", members.join(",\n"))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn valid_documents_are_read_alike(text in json()) {
        check(text.as_bytes());
        let tape = scan(text.as_bytes()).expect("valid");
        // Written again, it is the same document.
        check(tape.root().written(usize::MAX).as_bytes());
        prop_assert_eq!(to_value(tape.root()), serde_json::from_str::<Value>(&tape.root().written(usize::MAX)).expect("valid"));
    }

    #[test]
    fn damaged_documents_are_refused_alike(text in json(), at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        check(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        check(&bytes);
    }

    #[test]
    fn token_soup_is_read_alike(tokens in prop::collection::vec(prop::sample::select(vec![
        "{", "}", "[", "]", ",", ":", "\"a\"", "\"", "\\", "\\u0041", "\\ud800", "\\udc00", "1", "-", "0", "01", ".", "e", "+",
        "true", "nul", "null", " ", "\u{1}", "\u{7f}", "é", "\u{feff}", "NaN", "'a'", "/*", "\n",
    ]), 0..12)) {
        check(tokens.concat().as_bytes());
    }

    #[test]
    fn lookups_take_the_last_duplicate(keys in prop::collection::vec("[a-e]{0,2}|\\PC", 0..60)) {
        let members: Vec<_> =
            keys.iter().enumerate().map(|(i, key)| format!("{}:{i}", Value::String(key.clone()))).collect();
        let text = format!("{{{}}}", members.join(","));
        let tape = scan(text.as_bytes()).expect("valid");
        for key in keys.iter().map(String::as_str).chain(["", "absent", "a"]) {
            let last = keys.iter().rposition(|k| k == key).map(|i| View::Number(&*i.to_string().leak()));
            prop_assert_eq!(tape.root().get(key).map(Node::view), last);
        }
    }
}

#[test]
fn what_is_not_json() {
    for text in [
        "",
        " ",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "1e+",
        "-",
        "0x1",
        "NaN",
        "tru",
        "truex",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "[1 2]",
        "{\"a\" 1}",
        "{\"a\":1} {}",
        "[1]x",
        "\"\t\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        r#""\ud800""#,
        r#""\ud800a""#,
        r#""\udc00""#,
        r#""\ud800\u0041""#,
        r#""\ud800\ud800""#,
        "\"open",
        "[",
        "{",
        "{\"a\"",
        "{\"a\":",
        "]",
        "}",
        "[}",
        "{]",
        "\u{feff}1",
    ] {
        assert!(scan(text.as_bytes()).is_err(), "{text:?}");
    }
    for bytes in [&b"\"\xff\""[..], b"\"\xc3\x28\"", b"{\"a\":1}\xff", b"\"\xed\xa0\x80\"", b"\0", b"1\0"] {
        assert!(scan(bytes).is_err(), "{bytes:?}");
    }
}

#[test]
fn errors_say_where() {
    assert_eq!(
        scan(b"{\"a\": tru}").expect_err("invalid"),
        ScanError { offset: 6, problem: "expected a value" }
    );
    assert_eq!(scan(b"\"\xff\"").expect_err("invalid").offset, 1);
    assert_eq!(scan(b"[1] [2]").expect_err("invalid").problem, "something follows the document");
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(scan(nested(BODY_DEPTH_MAX).as_bytes()).is_ok());
    assert!(scan(nested(BODY_DEPTH_MAX + 1).as_bytes()).is_err());
}
