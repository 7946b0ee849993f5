//! The index gives what the filters give one by one, whatever was added, changed and taken out before.

use mailrail_filter::index::Scratch;
use mailrail_filter::{Document, Filter};
use mailrail_store::TenantView;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_xorshift::XorShiftRng;

use super::*;
use crate::admission::Admission;
use crate::type_index::TypeIndex;
use crate::wanting::Work;

const VALUES: [&str; 7] = ["\"a\"", "\"b\"", "\"ab\"", "1", "1.0", "null", "true"];
const OPERATORS: [&str; 8] = [
    r#"{"prefix":"a"}"#,
    r#"{"suffix":"b"}"#,
    r#"{"anything-but":["a"]}"#,
    r#"{"exists":true}"#,
    r#"{"exists":false}"#,
    r#"{"numeric":[">",0,"<=",1]}"#,
    r#"{"wildcard":"*b*"}"#,
    r#"{"no-such-operator":1}"#,
];

fn operand(random: &mut impl Rng) -> &'static str {
    let from: &[&str] = if random.random_bool(0.6) { &VALUES } else { &OPERATORS };
    from.choose(random).expect("some")
}

/// A pattern over three fields of the body and an attribute; now and then one that does not compile.
fn filter(random: &mut impl Rng) -> FilterSource {
    let mut fields = Vec::new();
    for field in ["x", "y", "z"] {
        if random.random_bool(0.5) {
            fields.push(format!(r#""{field}":[{},{}]"#, operand(random), operand(random)));
        }
    }
    if fields.is_empty() || random.random_bool(0.2) {
        let subject = ["a", "b"].choose(random).expect("some");
        fields.push(format!(r#""$attributes":{{"subject":["{subject}"]}}"#));
    }
    FilterSource { language: FilterLanguage::Pattern, text: format!("{{{}}}", fields.join(",")) }
}

fn subscription(number: usize, random: &mut impl Rng) -> Arc<Subscription> {
    Arc::new(Subscription {
        id: name(&format!("s{number}")),
        app: name("app"),
        endpoint: name("e"),
        event_types: vec!["t".to_owned()],
        filter: random.random_bool(0.9).then(|| filter(random)),
        on_filter_error: *FilterErrorPolicy::ALL.choose(random).expect("some"),
    })
}

/// A tenant without anything: no event here is sensitive.
fn view() -> TenantView {
    TenantView {
        seq: 1,
        tenant: Tenant { id: name("acme"), name: String::new(), source_class: name("strict") },
        event_types: HashMap::new(),
        apps: HashMap::new(),
        endpoints: HashMap::new(),
        pauses: HashMap::new(),
        subscriptions: HashMap::new(),
        integrations: HashMap::new(),
        by_event_type: HashMap::new(),
    }
}

fn any_event(random: &mut impl Rng) -> Event {
    let mut fields = Vec::new();
    for field in ["x", "y", "z"] {
        if random.random_bool(0.7) {
            fields.push(format!(r#""{field}":{}"#, VALUES.choose(random).expect("some")));
        }
    }
    let body =
        if random.random_bool(0.05) { "{not json".to_owned() } else { format!("{{{}}}", fields.join(",")) };
    let mut event = Event { body: body.into(), ..event("1", "t", "") };
    event.attributes.subject = ["a", "c"].choose(random).map(|s| (*s).to_owned());
    event
}

/// The meaning, said without any index.
fn one_by_one(all: &[Arc<Subscription>], event: &Event) -> Vec<Arc<Subscription>> {
    let document = Document::new(&event.attributes, &event.body);
    let wants = |s: &&Arc<Subscription>| match s.filter.as_ref().map(Filter::compile) {
        None => true,
        Some(Err(_)) => s.on_filter_error.delivers(),
        Some(Ok(filter)) => filter.matches(&document).expect("small events have verdicts"),
    };
    all.iter().filter(wants).cloned().collect()
}

/// A18, A15: the index, whose evaluations a second `make bench BENCH=match` and `BENCH=match-stage` measure, finds what the
/// filters one by one find.
#[test]
fn a18_the_index_answers_as_the_filters_do_one_by_one() {
    let view = view();
    let tenant: TenantId = name("acme");
    let mut scratch = Scratch::new();
    for seed in 0..12 {
        let random = &mut XorShiftRng::seed_from_u64(seed);
        let (mut index, mut all, mut next) = (TypeIndex::default(), Vec::new(), 0);
        let mut merging = None;
        for step in 0..40 {
            // Mostly few changes, now and then most of it, once in a while nothing is left.
            let share = *[0.02, 0.02, 0.1, 0.6, 1.0].choose(random).expect("some");
            all.retain(|_| !random.random_bool(share));
            for _ in 0..random.random_range(0..if step % 10 == 0 { 400 } else { 20 }) {
                all.push(subscription(next, random));
                next += 1;
            }
            all.sort_by(|a: &Arc<Subscription>, b| a.id.cmp(&b.id));
            index.update(&tenant, &all);
            // A merge that was planned before this change ends after it.
            if let Some(merged) = merging.take() {
                index.install(merged);
            }
            for _ in 0..30 {
                let event = any_event(random);
                let mut work = Work::new(&mut scratch);
                let found = index.wanting().find(&event, &Admission::new(&event, &view), &mut work);
                let ids = |all: &[Arc<Subscription>]| all.iter().map(|s| s.id.clone()).collect::<Vec<_>>();
                assert_eq!(
                    ids(&found),
                    ids(&one_by_one(&all, &event)),
                    "seed {seed}, step {step}, {event:?}"
                );
            }
            merging = index.plan_merge().map(mailrail_filter::index::MergeJob::run);
        }
    }
}

/// More paths than an index takes: the rest is evaluated one by one, and when paths are given up, the index takes new ones.
#[test]
fn filters_that_an_index_does_not_take_are_evaluated_alone() {
    let view = view();
    let tenant: TenantId = name("acme");
    let of = |number: usize| {
        let text = format!(r#"{{"field{number}":[1]}}"#);
        let filter = Some(FilterSource { language: FilterLanguage::Pattern, text });
        Arc::new(Subscription {
            filter,
            ..Subscription::clone(&subscription(number, &mut XorShiftRng::seed_from_u64(1)))
        })
    };
    let most = mailrail_filter::limits::INDEX_PATHS_MAX;
    let mut all: Vec<_> = (0..most + 3).map(of).collect();
    let mut index = TypeIndex::default();
    index.update(&tenant, &all);
    let wants = |index: &TypeIndex, number: usize| {
        let event = Event { body: format!(r#"{{"field{number}":1}}"#).into(), ..event("1", "t", "") };
        let mut scratch = Scratch::new();
        let mut work = Work::new(&mut scratch);
        let admission = Admission::new(&event, &view);
        index
            .wanting()
            .find(&event, &admission, &mut work)
            .iter()
            .map(|s| s.id.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(index.wanting().alone.len(), 3);
    assert_eq!([wants(&index, 0), wants(&index, most + 2)], [["s0"], [format!("s{}", most + 2).as_str()]]);
    // One more than fits, while nothing was taken out since.
    all.push(of(most + 3));
    index.update(&tenant, &all);
    assert_eq!(index.wanting().alone.len(), 4);
    // Ten go: there is room again, once the index is built anew.
    all.drain(..10);
    all.push(of(most + 4));
    index.update(&tenant, &all);
    assert!(index.wanting().alone.is_empty());
    assert_eq!(wants(&index, most + 4), [format!("s{}", most + 4)]);
    assert!(wants(&index, 0).is_empty());
}
