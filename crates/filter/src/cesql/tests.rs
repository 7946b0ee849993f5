//! The data extension, and what the conformance tests leave open.

use mailrail_types::{Attribute, AttributeValue, Attributes, FilterLanguage};

use crate::document::Document;
use crate::filter::Filter;
use crate::limits::Limits;

fn filter(text: &str) -> Filter {
    Filter::parse(FilterLanguage::Cesql, text, &Limits::default())
        .unwrap_or_else(|e| panic!("{text} is refused: {e}"))
}

fn attributes() -> Attributes {
    let extension = |name: &str, value| Attribute { name: name.to_owned(), value };
    Attributes {
        id: "1".to_owned(),
        source: "/shop".to_owned(),
        event_type: "order.paid".to_owned(),
        extensions: vec![
            extension("level", AttributeValue::Integer(5)),
            extension("header", AttributeValue::String("05".to_owned())),
            extension("urgent", AttributeValue::Boolean(true)),
            extension("flag", AttributeValue::String("TRUE".to_owned())),
        ],
        ..Attributes::default()
    }
}

fn check(body: &str, table: &[(&str, bool)]) {
    let attributes = attributes();
    let document = Document::new(&attributes, body.as_bytes());
    for (text, expected) in table {
        let filter = filter(text);
        assert_eq!(filter.matches(&document), Ok(*expected), "{text} on {body}");
        assert_eq!(filter.explain(&document).matched, *expected, "explained: {text} on {body}");
    }
}

#[test]
fn operators_bind_as_the_specification_says() {
    check(
        "",
        &[
            // AND, OR, XOR bind equally tight, from left to right.
            ("TRUE OR TRUE AND FALSE", false),
            ("TRUE OR (TRUE AND FALSE)", true),
            ("FALSE AND TRUE OR TRUE", true),
            ("TRUE XOR TRUE OR TRUE", true),
            ("2 + 3 * 4 = 14", true),
            ("(2 + 3) * 4 = 20", true),
            ("7 - 2 - 1 = 4", true),
            ("7 - -2 = 9", true),
            ("7 -2 = 5", true),
            ("-7 / 2 = -3", true),
            ("-7 % 2 = -1", true),
            ("1 < 2 = TRUE", true),
            // NOT binds tighter than LIKE and =.
            ("NOT FALSE = TRUE", true),
            ("NOT urgent LIKE 'false'", true),
            ("NOT type LIKE 'order.%'", false),
            ("NOT (type LIKE 'x%')", true),
            ("NOT NOT TRUE", true),
            ("not exists nothing", true),
            ("'A' LIKE 'A' LIKE 'true'", true),
            ("5 IN (1, 5) IN (TRUE)", true),
        ],
    );
}

#[test]
fn an_error_anywhere_on_attributes_means_no_match() {
    check(
        "",
        &[
            ("nothing = 'x' OR type = 'order.paid'", false),
            ("type = 'order.paid' OR nothing = 'x'", true),
            ("NOT (nothing = 'x')", false),
            ("nothing != 'x'", false),
            ("EXISTS nothing AND nothing = 'x'", false),
            ("NOT EXISTS nothing OR nothing = 'x'", true),
            ("type < 5 OR TRUE", false),
            ("NOT 10 OR TRUE", false),
            ("1 / 0 = 0", false),
            ("2147483647 + 1 = 0 OR TRUE", false),
            ("-2147483648 / -1 = 0 OR TRUE", false),
            ("-2147483648 % -1 = 0", true),
            ("- level = -5", true),
            ("LEFT('abc', -1) = 'abc'", false),
            ("level = 5 AND header = 5 AND level IN ('05', 6)", true),
            ("5 = level AND '5' = level AND 5 = header", false),
            ("urgent AND flag AND urgent = TRUE AND flag = TRUE", true),
            ("urgent = 1", true),
            ("flag = 1", false),
            ("header", false),
            ("level", true),
        ],
    );
}

#[test]
fn paths_into_the_body_are_typed_and_exact() {
    check(
        r#"{"n":5,"s":"5","price":10.50,"big":9007199254740993,"yes":true,"nil":null,"Key":"x","a b":{"é":"y"},"data":{"data":1}}"#,
        &[
            ("data.n = 5", true),
            ("5 = data.n", true),
            ("data.n = '5'", false),
            ("data.s = '5'", true),
            ("data.s = 5", false),
            ("INT(data.s) = 5", true),
            ("STRING(data.n) = '5'", true),
            ("data.n = level", true),
            ("data.n + 1 = 6", true),
            ("data.price > 10", true),
            ("data.price < 11 AND data.price >= 10", true),
            ("data.price = 10", false),
            ("data.price * 2 = 21", false),
            ("data.big > 2147483647", true),
            ("data.s > 1", false),
            ("data.yes = TRUE", true),
            ("data.yes = 'true'", false),
            ("data.yes", true),
            ("NOT data.yes", false),
            ("data.nil = ''", false),
            ("data.nil != ''", true),
            ("EXISTS data.nil", true),
            ("data.key = 'x'", false),
            ("data.Key = 'x'", true),
            ("DATA.Key = 'x'", true),
            ("data['a b'].é = 'y'", true),
            ("data['a b'][\"é\"] = 'y'", true),
            ("data.data.data = 1", true),
            ("data.s LIKE '5'", true),
            ("data.n LIKE '5'", false),
            ("data.n IN (1, 5)", true),
            ("data.n IN ('5', TRUE)", false),
            ("LOWER(data.Key) = 'x' AND UPPER(data.Key) = 'X'", true),
            ("CONCAT(data.Key, '-', data.n) = 'x-5'", true),
            ("data.n = data.s", false),
            ("data.Key = data['a b'].é", false),
        ],
    );
}

#[test]
fn lists_hold_when_one_value_does() {
    check(
        r#"{"tags":["a","b",["c"]],"items":[{"sku":"X","qty":1},{"sku":"Y","qty":9}],"empty":[],"mixed":["a",5,null]}"#,
        &[
            ("data.tags = 'a'", true),
            ("data.tags = 'a' AND data.tags = 'c'", true),
            ("data.tags != 'a'", false),
            ("data.tags != 'z'", true),
            ("NOT (data.tags = 'z')", true),
            ("data.tags NOT IN ('y', 'z')", true),
            ("data.tags NOT IN ('y', 'b')", false),
            ("data.tags LIKE 'c%'", true),
            ("data.tags NOT LIKE 'c%'", false),
            ("LOWER(data.tags) = 'b'", true),
            ("CONCAT(data.tags, data.items.sku) = 'bY'", true),
            // Two comparisons may be satisfied by two elements.
            ("data.items.sku = 'X' AND data.items.qty = 9", true),
            ("data.items.qty + 1 = 10", true),
            ("data.items.sku != 'X'", false),
            ("data.mixed = 5 AND data.mixed = 'a'", true),
            ("data.mixed > 4", true),
            ("EXISTS data.empty", false),
            ("NOT EXISTS data.empty", true),
            ("data.empty != 'x'", false),
            ("data.items.qty > data.items.qty", true),
        ],
    );
}

#[test]
fn of_a_path_without_a_value_nothing_is_said() {
    for body in [r#"{"other":1,"object":{"x":1}}"#, "not json"] {
        check(
            body,
            &[
                ("data.a = 'x'", false),
                ("data.a != 'x'", false),
                ("NOT (data.a = 'x')", false),
                ("data.a = 'x' OR type = 'order.paid'", true),
                ("type = 'order.paid' OR data.a = 'x'", true),
                ("data.a = 'x' AND type = 'z'", false),
                ("NOT (data.a = 'x' AND type = 'z')", true),
                ("NOT (data.a = 'x' OR type = 'z')", false),
                ("data.a = 'x' XOR TRUE", false),
                ("data.a IN ('x') OR TRUE", true),
                ("LENGTH(data.a) = 0 OR TRUE", true),
                ("LENGTH(data.a) = 0", false),
                ("-data.a = 0", false),
                ("EXISTS data.a", false),
                ("data.object = 'x'", false),
                ("data.a", false),
            ],
        );
    }
    check("{}", &[("NOT EXISTS data.a", true)]);
    check("not json", &[("NOT EXISTS data.a", false), ("NOT EXISTS data.a OR TRUE", true)]);
}

#[test]
fn what_is_refused_and_where() {
    for (text, code, part) in [
        ("", "filter_syntax", "the text ends at line 1 column 1"),
        ("type =", "filter_syntax", "expected a value"),
        ("type = 'x", "filter_syntax", "not closed; close it with the same quote at line 1 column 8"),
        (
            "type = 'x'\n AND (id = 'y'",
            "filter_syntax",
            "expected ')', but the text ends at line 2 column 15",
        ),
        ("type == 'x'", "filter_syntax", "'=' stands at line 1 column 7"),
        ("type & 1", "filter_syntax", "'&' has no meaning"),
        ("project.key = FOO", "filter_syntax", "begin with 'data', as in data.project.…"),
        ("type LIKE 5", "filter_syntax", "the pattern of LIKE"),
        ("type IN ()", "filter_syntax", "expected a value"),
        ("type 'x'", "filter_syntax", "expected the end of the expression"),
        ("2147483648 = 1", "filter_syntax", "out of range"),
        ("a_b = 1", "filter_syntax", "letters and digits only"),
        ("EXISTS 'x'", "filter_syntax", "the name of an attribute"),
        ("data. = 1", "filter_syntax", "expected a key"),
        ("data.a[0] = 1", "filter_syntax", "without an index"),
        ("data['a' = 1", "filter_syntax", "expected ']'"),
        ("data = 1", "filter_invalid_attribute", "data.priority"),
        ("1 + 1", "filter_not_boolean", "a number"),
        ("LOWER(type)", "filter_not_boolean", "a string"),
        ("NOPE(type) = 1", "filter_unknown_function", "SUBSTRING(x, from)"),
        ("LEFT(type) = 'x'", "filter_unknown_function", "LEFT(x, n)"),
    ] {
        let error = Filter::parse(FilterLanguage::Cesql, text, &Limits::default()).expect_err(text);
        assert_eq!((error.code, error.path.as_str()), (code, "$"), "{text}: {error}");
        assert!(error.message.contains(part), "{text}: {error}");
    }
}

#[test]
fn limits_are_kept() {
    let refused = |text: &str, limits: &Limits| {
        Filter::parse(FilterLanguage::Cesql, text, limits).expect_err("over a limit").code
    };
    let most = Limits::default();
    for deep in [
        format!("{}TRUE{}", "(".repeat(200), ")".repeat(200)),
        format!("{} TRUE", "NOT ".repeat(200)),
        format!("{}1 = 1", "- ".repeat(200)),
        format!("'a'{}", " LIKE 'x'".repeat(200)),
        format!("1{}", " IN (1)".repeat(200)),
        format!("{}1{} = 1", "ABS(".repeat(200), ")".repeat(200)),
        format!("{}1{}", "1 IN (".repeat(200), ")".repeat(200)),
        format!("data{} = 1", ".a".repeat(65)),
    ] {
        assert_eq!(refused(&deep, &most), "filter_too_deep", "{deep:.60}");
    }
    let many = vec!["1"; 1001].join(",");
    assert_eq!(refused(&format!("1 IN ({many})"), &most), "filter_too_many_values");
    let long = format!("type = '{}'", "x".repeat(10_000));
    assert_eq!(refused(&long, &most), "filter_too_long");
    let less = Limits { text_chars: 20, values: 2, depth: 2, path_steps: 1, ..most };
    assert_eq!(refused("type = 'a' OR type = 'b'", &less), "filter_too_long");
    assert_eq!(refused("type IN (1, 2)", &less), "filter_too_many_values");
    assert_eq!(refused("((TRUE))", &less), "filter_too_deep");
    assert_eq!(refused("data.a.b = 1", &less), "filter_too_deep");
    // A limit above the constant is the constant.
    let more = Limits { values: usize::MAX, text_chars: usize::MAX, depth: usize::MAX, ..most };
    assert_eq!(refused(&format!("1 IN ({many})"), &more), "filter_too_many_values");
}

#[test]
fn long_chains_neither_nest_nor_explode() {
    let ands = vec!["type = 'order.paid'"; 400].join(" AND ");
    let ors = (0..300).map(|i| format!("data.k{i} = {i}")).collect::<Vec<_>>().join(" OR ");
    let product =
        (0..30).map(|i| format!("(data.a{i} = 1 OR data.b{i} = 1)")).collect::<Vec<_>>().join(" AND ");
    let xors = (0..60).map(|i| format!("data.a{i} = 1")).collect::<Vec<_>>().join(" XOR ");
    let sum = format!("{} = 450", vec!["1"; 450].join(" + "));
    check(
        r#"{"k299":299,"a0":1}"#,
        &[(&ands, true), (&ors, true), (&product, false), (&xors, false), (&sum, true)],
    );
}
