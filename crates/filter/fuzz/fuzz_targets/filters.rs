//! Any text in any language: refused with a code and a place, or compiled and evaluated; and the index agrees.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mailrail_filter::index::{Change, FilterId, Index, IndexOptions, Scratch};
use mailrail_filter::{Document, Filter, FilterError, Limits};
use mailrail_types::{Attributes, FilterLanguage};

const BODY: &[u8] = br#"{"a":{"b":["x",5,null,true,{"c":"y"}]},"priority":"Critical","n":1.50,"":[]}"#;

fuzz_target!(|text: &str| {
    let attributes =
        Attributes { event_type: "a.b".to_owned(), source: "/x".to_owned(), ..Attributes::default() };
    let document = Document::new(&attributes, BODY);
    for language in FilterLanguage::ALL {
        let filter = match Filter::parse(language, text, &Limits::default()) {
            Ok(filter) => filter,
            Err(error) => {
                assert!(FilterError::CODES.contains(&error.code) && error.path.starts_with('$'), "{error}");
                continue;
            }
        };
        let verdict = filter.matches(&document);
        assert_eq!(verdict == Ok(true), filter.explain(&document).matched, "{text}");
        let mut index = Index::new(IndexOptions::default());
        index.apply(&[Change::Put(FilterId(0), &filter)]);
        let mut scratch = Scratch::new();
        let snapshot = index.snapshot();
        let found = snapshot.matches(&mut scratch, &attributes, BODY);
        if let Ok(matched) = verdict {
            assert_eq!(found.ids.len(), usize::from(matched), "{text}");
        }
    }
});
