//! What the schema says by itself, and what a reader can say that knows nothing of the store.

use super::*;

/// The schema says the bounds by itself: they must be those that are checked.
#[test]
fn s17_the_schema_and_the_check_of_classes_agree_on_bounds() {
    let schema = setup_schema();
    for field in ["threads", "payloads_per_thread", "buckets_max", "fixed_buckets", "priority"] {
        let bounds = &schema["$defs"]["Class"]["properties"][field];
        let (min, max) =
            (bounds["minimum"].as_u64().expect("a bound"), bounds["maximum"].as_u64().expect("a bound"));
        let with = |value: u64| {
            let yaml = format!(
                "version: 1\nclasses: [{{id: a, tolerates_reordering: true, {field}: {value}}}]\ntenants: []"
            );
            check(&yaml).map(|_| ()).map_err(|problems| problems[0].code.clone())
        };
        for (value, wanted) in [
            (min, Ok(())),
            (max, Ok(())),
            (min - 1, Err(code::INVALID_CLASS)),
            (max + 1, Err(code::INVALID_CLASS)),
        ] {
            assert_eq!(with(value), wanted.map_err(ToOwned::to_owned), "{field}: {value}");
        }
    }
}

#[test]
fn s17_a_priority_is_taken_and_refused_by_its_own_number() {
    let with = |priority: &str| GOOD.replacen("threads: 8", &format!("priority: {priority}"), 1);
    assert_eq!(check(&with("1")).expect("good").classes[0].priority, 1);
    assert_eq!(check(GOOD).expect("good").classes[0].priority, mailrail_types::PRIORITY_DEFAULT);
    for (bad, wanted) in
        [("0", "invalid_class"), ("300", "invalid_class"), ("-1", "wrong_type"), ("high", "wrong_type")]
    {
        let refused = check(&with(bad)).map(|_| ()).expect_err(bad);
        assert_eq!(
            (refused.len(), refused[0].code.as_str(), refused[0].path.as_str()),
            (1, wanted, "classes[0].priority")
        );
        assert!(
            wanted != "invalid_class" || refused[0].detail.contains(&format!("is {bad}: ")),
            "{refused:?}"
        );
    }
}

#[test]
fn the_age_of_a_head_is_taken_and_bounded() {
    let with = |field: &str| GOOD.replacen("timeout: 15s", field, 1);
    let age = |yaml: &str| check(yaml).expect("good").tenants[0].endpoints[0].endpoint.head_max_age;
    assert_eq!(age(GOOD), None, "the head holds unless the file says otherwise");
    for (text, seconds) in [("1m", 60), ("90m", 5_400), ("12h", 43_200), ("30d", 2_592_000)] {
        let yaml = with(&format!("head_max_age: {text}"));
        assert_eq!(age(&yaml), Some(std::time::Duration::from_secs(seconds)), "{text}");
    }
    for (bad, wanted) in [
        ("head_max_age: 59s", "invalid_head_max_age"),
        ("head_max_age: 31d", "invalid_head_max_age"),
        ("head_max_age: soon", "invalid_head_max_age"),
        ("head_max_age: \"\"", "invalid_head_max_age"),
        ("head_max_age: 60", "wrong_type"),
    ] {
        let place = "tenants[0].apps[0].endpoints[0].head_max_age".to_owned();
        assert_eq!(problems(&with(bad)), [(wanted.to_owned(), place, 19)], "{bad}");
    }
    // Operational state is no part of a set-up.
    let refused = problems(&with("paused: true"));
    assert_eq!(
        refused,
        [("unknown_field".to_owned(), "tenants[0].apps[0].endpoints[0].paused".to_owned(), 19)]
    );
}

/// The schema says the bounds by itself: they must be those that are checked.
#[test]
fn limits_of_endpoints_are_taken_and_bounded_as_the_schema_says() {
    let schema = setup_schema();
    let with = |field: &str, value: &str| GOOD.replacen("timeout: 15s", &format!("{field}: {value}"), 1);
    let limits = |yaml: &str| {
        let endpoint = check(yaml).expect("good").tenants.remove(0).endpoints.remove(0).endpoint;
        (endpoint.max_in_flight, endpoint.rate_per_second)
    };
    assert_eq!(limits(GOOD), (None, None), "no limit unless the file says one");
    assert_eq!(limits(&with("max_in_flight", "1")), (Some(1), None));
    assert_eq!(limits(&with("max_in_flight", "1000")), (Some(1_000), None));
    assert_eq!(limits(&with("rate_per_second", "1")), (None, Some(1)));
    assert_eq!(limits(&with("rate_per_second", "10000")), (None, Some(10_000)));
    for (field, max, wanted) in [
        ("max_in_flight", 1_000, "invalid_max_in_flight"),
        ("rate_per_second", 10_000, "invalid_rate_per_second"),
    ] {
        let bounds = &schema["$defs"]["Endpoint"]["properties"][field];
        assert_eq!((bounds["minimum"].as_u64(), bounds["maximum"].as_u64()), (Some(1), Some(max)), "{field}");
        let place = format!("tenants[0].apps[0].endpoints[0].{field}");
        for (bad, wanted) in [
            ("0", wanted),
            (&*(max + 1).to_string(), wanted),
            ("4294967295", wanted),
            ("4294967296", "wrong_type"),
            ("-1", "wrong_type"),
            ("1.5", "wrong_type"),
            ("'5'", "wrong_type"),
            ("many", "wrong_type"),
        ] {
            let yaml = with(field, bad);
            assert_eq!(problems(&yaml), [(wanted.to_owned(), place.clone(), 19)], "{field}: {bad}");
        }
        let refused = check(&with(field, "0")).map(|_| ()).expect_err("out of range");
        let detail = format!("{field} is 0: use 1 to {max}, or leave it out");
        assert!(refused[0].detail.starts_with(&detail), "{refused:?}");
    }
}

#[test]
fn a_reader_that_cannot_ask_does_not_judge_classes_and_endpoints_of_elsewhere() {
    let yaml = "version: 1\ntenants: [{id: acme, source_class: mine, integrations: [{id: g, provider: nope, cells: [old]}]}]";
    let codes: Vec<_> =
        check_format(parse_yaml(yaml).expect("YAML")).into_iter().map(|problem| problem.code).collect();
    assert_eq!(codes, ["unknown_provider"]);
}
