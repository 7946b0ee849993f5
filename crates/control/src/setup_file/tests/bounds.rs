//! What the schema says by itself, and what a reader can say that knows nothing of the store.

use super::*;

/// The schema says the bounds by itself: they must be those that are checked.
#[test]
fn s17_the_schema_and_the_check_of_classes_agree_on_bounds() {
    let schema = setup_schema();
    for field in ["threads", "payloads_per_thread", "buckets_max", "fixed_buckets"] {
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
fn a_reader_that_cannot_ask_does_not_judge_classes_and_endpoints_of_elsewhere() {
    let yaml = "version: 1\ntenants: [{id: acme, source_class: mine, integrations: [{id: g, provider: nope, cells: [old]}]}]";
    let codes: Vec<_> =
        check_format(parse_yaml(yaml).expect("YAML")).into_iter().map(|problem| problem.code).collect();
    assert_eq!(codes, ["unknown_provider"]);
}
