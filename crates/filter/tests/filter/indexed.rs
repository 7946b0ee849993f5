//! An index and the filters one by one give the same verdicts: on millions of generated pairs, while filters come and go.
//!
//! `MAILRAIL_FILTER_PAIRS` sets how many pairs are tried, `MAILRAIL_FILTER_SEED` where chance begins.

use std::collections::BTreeMap;

use mailrail_filter::index::{Change, FilterId, Index, IndexOptions, IndexSnapshot, Scratch};
use mailrail_filter::{Document, Filter, Limits};
use mailrail_types::Attributes;

use crate::expressions::Generated;
use crate::generate::{Dice, attributes, body, pattern};
use crate::verdict::{compile, filter};

/// Pairs of one filter and one event that are tried when nothing else is said.
const PAIRS: usize = 300_000;

pub(crate) fn setting(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// The index agrees with every filter on an event. Returns how many match.
fn agree(
    filters: &BTreeMap<FilterId, (String, Filter)>,
    snapshot: &IndexSnapshot,
    scratch: &mut Scratch,
    attributes: &Attributes,
    body: &[u8],
) -> usize {
    let found = snapshot.matches(scratch, attributes, body);
    let failed = found.failed.len();
    let mut ids = found.ids.to_vec();
    ids.sort_unstable();
    let document = Document::new(attributes, body);
    let mut expected = Vec::new();
    for (id, (_, filter)) in filters {
        match filter.matches(&document) {
            Ok(true) => expected.push(*id),
            Ok(false) => {}
            Err(_) => panic!("generated events are small"),
        }
    }
    let text = |id: &FilterId| filters.get(id).map_or("none", |(text, _)| text.as_str());
    let wrong: Vec<_> = ids.iter().filter(|id| !expected.contains(id)).map(text).collect();
    let missed: Vec<_> = expected.iter().filter(|id| !ids.contains(id)).map(text).collect();
    assert!(
        failed == 0 && ids == expected,
        "wrong: {wrong:#?}\nmissed: {missed:#?}\n{attributes:?}\n{:?}\n{}",
        scratch.effort(),
        String::from_utf8_lossy(body)
    );
    ids.len()
}

/// A filter of any language.
fn generated(dice: &mut Dice) -> (String, Filter) {
    if dice.one_in(4) {
        let Generated { language, text, .. } = Generated::new(dice);
        let filter = Filter::parse(language, &text, &Limits::default()).expect("a filter");
        return (text, filter);
    }
    loop {
        let text = pattern(dice);
        if let Ok(filter) = compile(&text) {
            return (text, filter);
        }
    }
}

/// Changes an index and the list of its filters alike.
fn change(
    dice: &mut Dice,
    index: &mut Index,
    filters: &mut BTreeMap<FilterId, (String, Filter)>,
    ids: usize,
    batch: usize,
) {
    let mut puts = Vec::new();
    let mut removes = Vec::new();
    for _ in 0..batch {
        let id = FilterId(u32::try_from(dice.roll(ids)).expect("small"));
        if dice.one_in(4) {
            removes.push(id);
        } else {
            puts.push((id, generated(dice)));
        }
    }
    let changes = puts.iter().map(|(id, (_, filter))| Change::Put(*id, filter));
    let changes: Vec<_> = changes.chain(removes.iter().map(|id| Change::Remove(*id))).collect();
    assert_eq!(index.apply(&changes), []);
    filters.extend(puts);
    for id in removes {
        filters.remove(&id);
    }
}

#[test]
fn agrees_with_the_filters_one_by_one() {
    let pairs = setting("MAILRAIL_FILTER_PAIRS", PAIRS);
    let seed = setting("MAILRAIL_FILTER_SEED", 1);
    let (mut tried, mut matched, mut round) = (0, 0, 0);
    let mut scratch = Scratch::new();
    while tried < pairs {
        let mut dice = Dice::new((seed + round) as u64);
        // From a handful, where bodies are ruled out by literals, to several segments.
        let ids = [3, 8, 40, 400][round % 4];
        let mut index = Index::new(IndexOptions { prefilter: round % 3 > 0 });
        let mut filters = BTreeMap::new();
        for step in 0..6 {
            change(&mut dice, &mut index, &mut filters, ids, ids);
            let job = if dice.one_in(2) { index.plan_merge() } else { None };
            if dice.one_in(2) {
                change(&mut dice, &mut index, &mut filters, ids, 5);
            }
            if let Some(job) = job {
                assert!(index.install(job.run()));
            }
            if step == 4 {
                index.compact();
            }
            assert_eq!(index.stats().filters, filters.len());
            let snapshot = index.snapshot();
            for _ in 0..40 {
                let (attributes, body) = (attributes(&mut dice), body(&mut dice));
                matched += agree(&filters, &snapshot, &mut scratch, &attributes, &body);
                tried += filters.len();
            }
        }
        round += 1;
    }
    println!("{tried} pairs, {matched} matches, {round} rounds");
    assert!(
        matched * 200 > tried && matched * 2 < tried,
        "{matched} of {tried} matched: too few or too many"
    );
}

#[test]
fn a_snapshot_stays_as_it_was() {
    let mut index = Index::new(IndexOptions::default());
    let (one, two) = (filter(r#"{"a":[1]}"#), filter(r#"{"a":[2]}"#));
    assert_eq!(index.apply(&[Change::Put(FilterId(7), &one)]), []);
    let before = index.snapshot();
    assert_eq!(index.apply(&[Change::Put(FilterId(7), &two), Change::Put(FilterId(8), &one)]), []);
    let after = index.snapshot();
    let mut scratch = Scratch::new();
    let mut ids = |snapshot: &IndexSnapshot, body: &str| {
        let mut ids = snapshot.matches(&mut scratch, &Attributes::default(), body.as_bytes()).ids.to_vec();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids(&before, r#"{"a":1}"#), [FilterId(7)]);
    assert_eq!(ids(&before, r#"{"a":2}"#), []);
    assert_eq!(ids(&after, r#"{"a":1}"#), [FilterId(8)]);
    assert_eq!(ids(&after, r#"{"a":2}"#), [FilterId(7)]);
    index.apply(&[Change::Remove(FilterId(7)), Change::Remove(FilterId(99))]);
    assert_eq!(ids(&index.snapshot(), r#"{"a":2}"#), []);
}

#[test]
fn the_last_change_of_an_id_counts() {
    let mut index = Index::new(IndexOptions::default());
    let (one, two) = (filter(r#"{"a":[1]}"#), filter(r#"{"a":[2]}"#));
    let id = FilterId(1);
    index.apply(&[Change::Put(id, &one), Change::Remove(id), Change::Put(id, &two)]);
    assert_eq!(index.stats().filters, 1);
    index.apply(&[Change::Put(id, &one), Change::Remove(id)]);
    assert_eq!(index.stats().filters, 0);
}

#[test]
fn identical_filters_share_one_entry() {
    let mut index = Index::new(IndexOptions::default());
    let texts = [
        r#"{"a":["x"],"b":[1]}"#,
        r#"{"b":[1.0],"a":"x"}"#,
        r#"{"$or":[{"a":["x"],"b":[1]},{"b":[10e-1],"a":["x"]}]}"#,
    ];
    let filters: Vec<Filter> = (0..900).map(|i| filter(texts[i % 3])).collect();
    let changes: Vec<_> =
        filters.iter().zip(0..).map(|(filter, id)| Change::Put(FilterId(id), filter)).collect();
    assert_eq!(index.apply(&changes), []);
    let stats = index.stats();
    assert_eq!((stats.filters, stats.entries, stats.conjunctions), (900, 1, 1));
    let mut scratch = Scratch::new();
    let snapshot = index.snapshot();
    assert_eq!(snapshot.matches(&mut scratch, &Attributes::default(), br#"{"a":"x","b":1}"#).ids.len(), 900);
    assert_eq!(scratch.effort().evaluated, 1);
}

#[test]
fn a_merge_that_was_overtaken_is_void() {
    let mut index = Index::new(IndexOptions::default());
    let many: Vec<Filter> = (0..600).map(|i| filter(&format!(r#"{{"a":[{i}]}}"#))).collect();
    for (half, base) in many.chunks(300).zip([0, 300]) {
        let changes: Vec<_> =
            half.iter().zip(base..).map(|(filter, id)| Change::Put(FilterId(id), filter)).collect();
        index.apply(&changes);
    }
    assert_eq!(index.stats().segments, 2);
    let first = index.plan_merge().expect("two of one size");
    let second = index.plan_merge().expect("still");
    assert_eq!(second.filters(), 600);
    // Changes go on meanwhile.
    index.apply(&[Change::Remove(FilterId(5)), Change::Put(FilterId(6), &many[0])]);
    assert!(!index.install(first.run()), "planned before the second");
    assert!(index.install(second.run()));
    assert_eq!((index.stats().filters, index.plan_merge().is_none()), (599, true));
    let mut scratch = Scratch::new();
    let snapshot = index.snapshot();
    let mut ids = |body: &str| {
        let mut ids = snapshot.matches(&mut scratch, &Attributes::default(), body.as_bytes()).ids.to_vec();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids(r#"{"a":0}"#), [FilterId(0), FilterId(6)]);
    assert_eq!((ids(r#"{"a":5}"#), ids(r#"{"a":6}"#)), (vec![], vec![]));
}

#[test]
fn segments_are_merged_when_nobody_else_does_it() {
    let mut index = Index::new(IndexOptions::default());
    let one = filter(r#"{"a":[1]}"#);
    for round in 0..20 {
        let changes: Vec<_> = (0..256).map(|i| Change::Put(FilterId(round * 256 + i), &one)).collect();
        index.apply(&changes);
    }
    let stats = index.stats();
    assert!(stats.segments <= mailrail_filter::limits::INDEX_SEGMENTS_MAX, "{stats:?}");
    assert_eq!(stats.filters, 20 * 256);
}

#[test]
fn loading_is_the_same_as_putting() {
    let mut dice = Dice::new(5);
    let filters: BTreeMap<FilterId, (String, Filter)> =
        (0..500).map(|id| (FilterId(id), generated(&mut dice))).collect();
    let mut dice = Dice::new(5);
    let again = filters.keys().map(|id| (*id, generated(&mut dice).1)).collect::<Vec<_>>();
    let (mut index, refused) = Index::load(IndexOptions::default(), again);
    assert_eq!((refused, index.stats().segments, index.stats().filters), (vec![], 1, 500));
    let mut scratch = Scratch::new();
    for _ in 0..100 {
        let (attributes, body) = (attributes(&mut dice), body(&mut dice));
        agree(&filters, &index.snapshot(), &mut scratch, &attributes, &body);
    }
    index.apply(&[Change::Remove(FilterId(0))]);
    assert_eq!(index.stats().filters, 499);
}
