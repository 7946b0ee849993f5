//! Beside crate `quamina` 0.7.0, where both claim the same meaning: strings, small integers, `exists: true`, prefixes,
//! suffixes, wildcards, `anything-but` of strings, lists of scalars, objects in objects.
//!
//! Left out, because 0.7.0 does not do what it says: `exists: false` (`{"a":[{"exists":true}],"d":[{"exists":false}]}` does
//! not match `{"a":null}`); lists of objects (it finds `a.d` in `{"a":{"b":[{"d":1}]}}`); many patterns in one instance
//! (`"aB"` matches `["ab"]` once `equals-ignore-case` stands beside it). And duplicate keys, other spellings of numbers,
//! broken bodies and `$or`, of which it claims nothing.

use mailrail_filter::index::{Change, FilterId, Index, IndexOptions, Scratch};
use mailrail_types::Attributes;
use quamina::Quamina;

use crate::generate::Dice;
use crate::verdict::filter;

const VALUES: &[&str] =
    &["\"a\"", "\"ab\"", "\"aB\"", "\"abab\"", "\"ba\"", "\"x\"", "1", "2", "15", "true", "false", "null"];
const WANTED: &[&str] = &[
    r#"{"exists":true}"#,
    r#"{"prefix":"a"}"#,
    r#"{"prefix":"ab"}"#,
    r#"{"suffix":"b"}"#,
    r#"{"suffix":"ab"}"#,
    r#"{"wildcard":"a*b"}"#,
    r#"{"wildcard":"*b*"}"#,
    r#"{"anything-but":["a","ab"]}"#,
];
const KEYS: &[&str] = &["a", "b", "c", "d"];

fn list(dice: &mut Dice) -> String {
    // Quamina takes only one special matcher in a list, and `exists` and `anything-but` only alone.
    match dice.roll(3) {
        0 => format!("[{}]", dice.pick(WANTED)),
        _ => format!("[{},{}]", dice.pick(VALUES), dice.pick(VALUES)),
    }
}

fn members(dice: &mut Dice, depth: usize, leaf: fn(&mut Dice, usize) -> String) -> String {
    let mut keys = KEYS.to_vec();
    let count = 1 + dice.roll(3);
    let members: Vec<String> = (0..count)
        .map(|_| {
            let key = keys.swap_remove(dice.roll(keys.len()));
            let below =
                if depth < 2 && dice.one_in(3) { members(dice, depth + 1, leaf) } else { leaf(dice, depth) };
            format!("\"{key}\":{below}")
        })
        .collect();
    format!("{{{}}}", members.join(","))
}

fn pattern(dice: &mut Dice) -> String {
    members(dice, 0, |dice, _| list(dice))
}

fn value(dice: &mut Dice, depth: usize) -> String {
    match dice.roll(6) {
        0 => format!("[{},{}]", dice.pick(VALUES), dice.pick(VALUES)),
        1 if depth < 2 => members(dice, depth + 1, value),
        _ => dice.pick(VALUES).to_owned(),
    }
}

#[test]
fn agrees_with_quamina() {
    let (mut compared, mut matched) = (0, 0);
    let mut scratch = Scratch::new();
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let patterns: Vec<String> = (0..60).map(|_| pattern(&mut dice)).collect();
        let mut theirs = Vec::new();
        let mut kept = Vec::new();
        for (text, id) in patterns.iter().zip(0_u32..) {
            // One instance for each: with many in one, 0.7.0 takes values at one path for each other.
            let mut alone = Quamina::new();
            // What they do not take has no claimed meaning.
            if alone.add_pattern(id, text).is_ok() {
                theirs.push(alone);
                kept.push((id, filter(text)));
            }
        }
        assert!(kept.len() > 40, "they take most patterns, {} of 60", kept.len());
        let changes: Vec<_> = kept.iter().map(|(id, filter)| Change::Put(FilterId(*id), filter)).collect();
        let mut ours = Index::new(IndexOptions::default());
        assert_eq!(ours.apply(&changes), []);
        let snapshot = ours.snapshot();
        for _ in 0..60 {
            let body = members(&mut dice, 0, value);
            let found = snapshot.matches(&mut scratch, &Attributes::default(), body.as_bytes());
            let mut ours: Vec<u32> = found.ids.iter().map(|id| id.0).collect();
            ours.sort_unstable();
            let found = theirs.iter().flat_map(|q| q.matches_for_event(body.as_bytes()).expect("valid JSON"));
            let theirs: Vec<u32> = found.collect();
            let differ: Vec<_> = (0..60)
                .filter(|id| ours.contains(id) != theirs.contains(id))
                .map(|id| &patterns[id as usize])
                .collect();
            assert!(differ.is_empty(), "{body}\n{differ:#?}\nours {ours:?}\ntheirs {theirs:?}");
            compared += kept.len();
            matched += ours.len();
        }
    }
    println!("{compared} pairs, {matched} matches");
    assert!(matched * 100 > compared);
}
