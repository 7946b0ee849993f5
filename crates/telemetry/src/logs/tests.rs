//! Lines as they go out: their form, their bounds, and what becomes of a flood.

use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use tracing_subscriber::layer::SubscriberExt as _;

use super::fields::FIELD_BYTES_MAX;
use super::layer::{Lines, LinesLayer, Look};
use super::line::LINE_BYTES_MAX;
use super::panics::{PART_BYTES_MAX, PARTS_MAX, say_backtrace};
use super::throttle::{KEYS_MAX, Throttle, Verdict, WINDOW};
use crate::metrics::{LevelLabels, Metrics};

/// Lines of one place in the code in its window.
const LINES_MAX: u32 = 100;

/// Lines as they went out.
#[derive(Clone, Default)]
struct Out(Arc<Mutex<Vec<Vec<u8>>>>);

impl Out {
    fn lines(&self) -> Vec<String> {
        let bytes = self.0.lock().expect("not poisoned").clone();
        bytes.into_iter().map(|line| String::from_utf8(line).expect("UTF-8")).collect()
    }

    /// Each is one JSON object in one line of bounded length.
    fn json(&self) -> Vec<Json> {
        let parse = |line: String| {
            assert!(line.len() <= LINE_BYTES_MAX, "{} bytes", line.len());
            assert_eq!(line.find('\n'), Some(line.len() - 1), "one end of line, at the end: {line}");
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line}"))
        };
        self.lines().into_iter().map(parse).collect()
    }
}

/// A clock that stands still: however slow the machine is, all lines are in one window.
fn still() -> Instant {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    *START
}

/// Runs something with logs of its own.
fn logged(look: Look, run: impl FnOnce(&Lines)) -> (Out, Metrics) {
    let (out, metrics) = (Out::default(), Metrics::new());
    let into = out.clone();
    let sink = Box::new(move |line: &[u8]| into.0.lock().expect("not poisoned").push(line.to_vec()));
    let lines = Arc::new(Lines::new(look, sink, LINES_MAX, metrics.logs.clone()));
    let subscriber = tracing_subscriber::registry().with(LinesLayer::new(Arc::clone(&lines), still));
    tracing::subscriber::with_default(subscriber, || run(&lines));
    (out, metrics)
}

/// A53: a line is one JSON object, with its fields beside each other.
#[test]
fn a53_a_line_is_one_json_object_with_its_fields_beside_each_other() {
    let (out, _) = logged(Look::Json, |_| {
        let error = std::io::Error::other("refused");
        tracing::warn!(target: "here", tenant = "acme", attempts = 3_u32, ratio = 0.5, done = false, %error,
            nothing = None::<&str>, not_a_number = f64::NAN, level = "mine", "it failed");
    });
    let line = &out.json()[0];
    let stamp = line["timestamp"].as_str().expect("a time");
    assert!(stamp.len() == "2026-01-01T00:00:00.000000Z".len() && stamp.ends_with('Z'), "{stamp}");
    for (name, value) in [
        ("level", Json::from("WARN")),
        ("target", "here".into()),
        ("message", "it failed".into()),
        ("tenant", "acme".into()),
        ("attempts", 3.into()),
        ("ratio", 0.5.into()),
        ("done", false.into()),
        ("error", "refused".into()),
        ("not_a_number", "NaN".into()),
        ("level_", "mine".into()),
    ] {
        assert_eq!(line[name], value, "{name} in {line}");
    }
    assert_eq!(line.as_object().expect("an object").len(), 11, "{line}");
}

#[test]
fn a54_a_huge_value_is_cut_at_a_whole_character_and_the_line_says_so() {
    for huge in
        ["x".repeat(1_000_000), "é".repeat(600_000), "\u{1f4e8}".repeat(300_000), "\n".repeat(100_000)]
    {
        let (out, _) = logged(Look::Json, |_| tracing::info!(huge, small = "kept", "said"));
        let line = &out.json()[0];
        let text = line["huge"].as_str().expect("a text");
        assert!(text.len() <= FIELD_BYTES_MAX && text.len() > FIELD_BYTES_MAX - 8, "{} bytes", text.len());
        assert_eq!(text.trim_end_matches('…'), &huge[..text.len() - '…'.len_utf8()]);
        assert_eq!((&line["truncated"], &line["small"]), (&true.into(), &"kept".into()));
    }
}

#[test]
fn a54_a_value_that_just_fits_is_whole() {
    let fits = "y".repeat(FIELD_BYTES_MAX - '…'.len_utf8());
    let (out, _) = logged(Look::Json, |_| tracing::info!(fits, "said"));
    let line = &out.json()[0];
    assert_eq!((&line["fits"], &line["truncated"]), (&fits.as_str().into(), &Json::Null));
}

#[test]
fn a54_a_line_is_bounded_whatever_its_fields_escape_to() {
    let worst = "\u{1}".repeat(10_000);
    let (out, _) = logged(Look::Json, |_| {
        tracing::info!(a = worst, b = worst, c = worst, d = worst, e = "kept", "{worst}");
    });
    let line = &out.json()[0];
    assert_eq!((&line["truncated"], &line["e"]), (&true.into(), &"kept".into()));
    assert_eq!(line["d"], Json::Null, "there was no room for it");
}

#[test]
fn a54_what_is_made_of_a_huge_value_is_bounded_before_it_is_made() {
    struct Endless(Cell<u64>);
    impl fmt::Debug for Endless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            loop {
                self.0.set(self.0.get() + 1);
                f.write_str("and so on ")?;
            }
        }
    }
    let endless = Endless(Cell::new(0));
    let (out, _) = logged(Look::Json, |_| tracing::info!(?endless, "said"));
    assert_eq!(out.json()[0]["truncated"], true);
    assert!(endless.0.get() < 200, "it was stopped");
}

/// A53: no value can begin a line of its own.
#[test]
fn a53_no_value_can_begin_a_line_of_its_own() {
    let evil = "one\ntwo\r\n{\"level\":\"ERROR\"}\u{1b}[2J\u{9b}2J\u{2028}";
    for look in [Look::Json, Look::Text { colours: false }] {
        let (out, _) = logged(look, |_| tracing::info!(evil, shown = %evil, "{evil}"));
        let lines = out.lines();
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].matches('\n').count(), 1, "{}", lines[0]);
        assert!(!lines[0].contains(['\u{1b}', '\r']), "{}", lines[0]);
    }
    let (out, _) = logged(Look::Json, |_| tracing::info!(evil, "said"));
    assert_eq!(out.json()[0]["evil"], evil, "nothing of it is lost");
}

/// A53: the text form is one bounded line too.
#[test]
fn a53_the_text_for_people_is_bounded_too() {
    let (out, _) = logged(Look::Text { colours: true }, |_| {
        tracing::error!(id = "plain", words = "two words", count = 7, "it failed");
        tracing::info!(a = "\u{1}".repeat(5_000), b = "\u{1}".repeat(5_000), "said");
    });
    let lines = out.lines();
    assert!(
        lines[0].ends_with("\u{1b}[31mERROR\u{1b}[0m it failed id=plain words=\"two words\" count=7\n"),
        "{}",
        lines[0]
    );
    assert!(lines[1].len() <= LINE_BYTES_MAX && lines[1].ends_with(" truncated=true\n"), "{}", lines[1]);
}

/// A53: a value that cannot be written costs its value, and not the line.
#[test]
fn a53_a_value_that_panics_or_fails_costs_its_value_and_no_more() {
    struct Bad(bool);
    impl fmt::Debug for Bad {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            assert!(!self.0, "a bad Debug");
            Err(fmt::Error)
        }
    }
    let (out, _) = logged(Look::Json, |_| {
        tracing::info!(panics = ?Bad(true), fails = ?Bad(false), good = 1, "said");
        tracing::info!("and on");
    });
    let lines = out.json();
    assert_eq!(lines[0]["panics"], "(panicked while it was written)");
    assert_eq!(lines[0]["fails"], "(could not be written)");
    assert_eq!((&lines[0]["good"], &lines[1]["message"]), (&1.into(), &"and on".into()));
}

/// A54: whole lines of it where they fit, and not without end.
#[test]
fn a54_a_backtrace_is_said_in_parts_that_fit_a_line() {
    let said = |text: &str| {
        let lines = logged(Look::Json, |_| say_backtrace(text)).0.json();
        assert!(lines.iter().all(|line| line["truncated"] == Json::Null), "{lines:?}");
        lines.iter().filter_map(|line| line["backtrace"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let frame = |n: u32| format!("{n:>4}: a::frame::of{n}\n             at ./é.rs:{n}\n");
    let frames: String = (0..200).map(frame).collect();
    for text in [frames.as_str(), &"é".repeat(PART_BYTES_MAX), &"x".repeat(PART_BYTES_MAX), "", "\n", "short"]
    {
        assert_eq!(said(text).concat(), text);
    }
    assert!(said(&frames).iter().all(|part| part.ends_with('\n')), "whole lines");
    let deep = "f\n".repeat(PART_BYTES_MAX * PARTS_MAX);
    assert_eq!(said(&deep).len(), PARTS_MAX);
    let last = logged(Look::Json, |_| say_backtrace(&deep)).0.json().pop().expect("lines");
    assert_eq!(last["message"], "the backtrace goes on; the rest of it is left out");
}

#[test]
fn a54_a_flood_of_one_place_is_capped_counted_and_said_once() {
    let (out, metrics) = logged(Look::Json, |lines| {
        for n in 0..100_000 {
            tracing::warn!(n, "the same again");
        }
        tracing::warn!("something else");
        lines.say_ended(still() + WINDOW - Duration::from_millis(1));
        lines.say_ended(still() + WINDOW);
        lines.say_ended(still() + WINDOW);
    });
    let lines = out.json();
    let cap = LINES_MAX as usize;
    assert_eq!(lines.len(), cap + 2);
    assert_eq!(lines[cap]["message"], "something else", "others are not held up");
    let said = &lines[cap + 1];
    let suppressed = 100_000 - u64::from(LINES_MAX);
    assert_eq!(
        (&said["suppressed"], &said["like"]),
        (&suppressed.into(), &"the same again".into()),
        "{said}"
    );
    assert_eq!((&said["level"], &said["of"]), (&"WARN".into(), &module_path!().into()));
    assert_eq!(metrics.logs.suppressed.get_or_create(&LevelLabels { level: "warn" }).get(), suppressed);
}

#[test]
fn a54_what_is_owed_is_said_at_the_end_of_the_process() {
    let (out, _) = logged(Look::Json, |lines| {
        for _ in 0..=LINES_MAX {
            tracing::error!("the same again");
        }
        lines.say_all();
        lines.say_all();
    });
    let lines = out.json();
    assert_eq!(lines.len(), LINES_MAX as usize + 1);
    assert_eq!((&lines[LINES_MAX as usize]["suppressed"], &lines[0]["level"]), (&1.into(), &"ERROR".into()));
}

#[test]
fn a54_lines_without_a_message_are_counted_and_nothing_is_said_to_be_like_them() {
    let (out, _) = logged(Look::Json, |lines| {
        for n in 0..=LINES_MAX {
            tracing::warn!(n);
        }
        lines.say_all();
    });
    let said = &out.json()[LINES_MAX as usize];
    assert_eq!((&said["suppressed"], said.get("like")), (&1.into(), None), "{said}");
}

#[test]
fn a54_audit_lines_are_never_suppressed() {
    let (out, metrics) = logged(Look::Json, |_| {
        for n in 0..LINES_MAX * 5 {
            tracing::info!(target: "audit", n, "set");
        }
    });
    assert_eq!(out.json().len(), LINES_MAX as usize * 5);
    assert_eq!(metrics.logs.suppressed.get_or_create(&LevelLabels { level: "info" }).get(), 0);
}

#[test]
fn a54_values_of_lines_that_are_not_said_are_not_made() {
    struct Counted<'a>(&'a Cell<u32>);
    impl fmt::Debug for Counted<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.set(self.0.get() + 1);
            f.write_str("made")
        }
    }
    let made = Cell::new(0);
    logged(Look::Json, |_| (0..10_000).for_each(|_| tracing::info!(value = ?Counted(&made), "said")));
    assert_eq!(made.get(), LINES_MAX + 1, "those said, and the sample of those that were not");
}

#[test]
fn a54_an_allowance_comes_back_after_its_window() {
    let (throttle, start) = (Throttle::<u32, &str>::new(LINES_MAX), Instant::now());
    for _ in 0..LINES_MAX {
        assert_eq!(throttle.admit(1, "of one", start), Verdict::Say(None));
    }
    let almost = start + WINDOW - Duration::from_millis(1);
    assert_eq!(throttle.admit(1, "of one", almost), Verdict::Suppress { first: true });
    assert_eq!(throttle.admit(1, "of one", almost), Verdict::Suppress { first: false });
    assert_eq!(throttle.admit(2, "of two", almost), Verdict::Say(None), "others have their own");
    throttle.note(1, |sample| *sample = "noted");
    let Verdict::Say(Some(before)) = throttle.admit(1, "of one", start + WINDOW) else {
        panic!("said again, and what was not before it");
    };
    assert_eq!((before.lines, before.sample), (2, "noted"));
    assert_eq!(throttle.admit(1, "of one", start + WINDOW), Verdict::Say(None));
}

#[test]
fn a54_a_flood_of_many_keys_takes_bounded_room_and_is_capped_too() {
    let (throttle, start) = (Throttle::<u32, ()>::new(LINES_MAX), Instant::now());
    let said = (0..100_000).filter(|key| throttle.admit(*key, (), start) == Verdict::Say(None)).count();
    assert_eq!(said, KEYS_MAX + LINES_MAX as usize, "those with a place, and the allowance of all others");
    assert_eq!(throttle.len(), KEYS_MAX + 1);
    let suppressed: u64 = throttle.ended(start + WINDOW).iter().map(|it| it.lines).sum();
    assert_eq!(suppressed, 100_000 - said as u64);
    assert_eq!(throttle.len(), 0);
    for key in 0..KEYS_MAX as u32 {
        assert_eq!(throttle.admit(key, (), start), Verdict::Say(None));
    }
    assert_eq!(throttle.admit(u32::MAX, (), start + WINDOW), Verdict::Say(None));
    assert_eq!(throttle.len(), 1, "windows that are over and owe nothing make room");
}

#[test]
fn a54_without_a_limit_every_line_is_said() {
    let (throttle, start) = (Throttle::<u32, ()>::new(0), Instant::now());
    assert!((0..100_000).all(|_| throttle.admit(1, (), start) == Verdict::Say(None)));
    assert_eq!(throttle.len(), 0);
}
