//! What people see of dead letters.

use mailrail_control::{FilterParts, LetterFacts, UnsentLetter};

use super::*;

fn summary(letter: Option<LetterFacts>) -> LetterSummary {
    let problem = letter.is_none().then(|| "field reason of the record is an unknown code".to_owned());
    LetterSummary {
        position: "3:17".to_owned(),
        written_at_ms: 1_700_000_000_123,
        bytes: 900,
        problem,
        letter,
    }
}

fn facts(redriven: Option<bool>, redrives: u32) -> LetterFacts {
    LetterFacts {
        delivery: "dlv_x".to_owned(),
        event: "evt_x".to_owned(),
        event_type: "push\u{1b}[2J".to_owned(),
        tenant: "acme".to_owned(),
        endpoint: "main".to_owned(),
        subscription: "pushes".to_owned(),
        mailbox: "default::acme:main::0".to_owned(),
        reason: "exhausted".to_owned(),
        died_at_ms: 1_700_000_000_123,
        attempts: 5,
        last_status: Some(503),
        redrives,
        redriven,
        undecided: false,
    }
}

fn squeezed(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn letters_are_a_table_that_no_event_type_breaks() {
    let items = vec![
        summary(Some(facts(Some(false), 0))),
        summary(Some(facts(Some(true), 0))),
        summary(Some(facts(Some(false), 2))),
        summary(Some(facts(None, 0))),
        summary(Some(LetterFacts { undecided: true, ..facts(Some(true), 0) })),
        summary(None),
    ];
    let list = LetterList {
        pipeline: "default".to_owned(),
        items,
        looked: 12,
        next: Some("1".to_owned()),
        error: Some("no answer".to_owned()),
    };
    let row = |redriven: &str| {
        format!("2023-11-14T22:13:20Z dlv_x acme/main push [2J exhausted 503 5 {redriven} 3:17")
    };
    let wanted = [
        "died at delivery tenant/endpoint event type reason status tries redriven position".to_owned(),
        row("no"),
        row("yes"),
        row("no, 2 before"),
        row("?"),
        row("undecided"),
        "2023-11-14T22:13:20Z cannot be read: field reason of the record is an unknown code 3:17".to_owned(),
        "6 dead letter(s) shown; 12 record(s) looked at; there are older ones".to_owned(),
        "not known everywhere: no answer".to_owned(),
    ];
    assert_eq!(squeezed(&letters(&list).expect("text")), wanted);
}

#[test]
fn a_count_and_what_a_replay_would_do_are_shown() {
    let counted = LetterCount {
        letters: 7,
        redriven: Some(3),
        unreadable: 1,
        by_reason: [("exhausted".to_owned(), 7)].into(),
        by_endpoint: [("acme/main".to_owned(), 7)].into(),
        oldest_ms: Some(1_700_000_000_123),
        newest_ms: Some(1_700_000_060_123),
        ..LetterCount::default()
    };
    let text = would(&counted, Some(4)).expect("text");
    let wanted = [
        "dry run: 4 letter(s) would be put back, of",
        "7 dead letter(s), 3 of them redriven",
        "7 exhausted",
        "7 acme/main",
        "died from 2023-11-14T22:13:20Z to 2023-11-14T22:14:20Z",
        "1 cannot be read and are not counted",
    ];
    assert_eq!(squeezed(&text), wanted);
    assert!(would(&counted, None).expect("text").starts_with("dry run: an unknown number of letter(s)"));
}

#[test]
fn a_payload_keeps_its_lines_and_loses_what_a_terminal_obeys() {
    let payload = Payload { text: Some("a\n\u{1b}[2Jb".to_owned()), hex: None, truncated: true };
    let detail = LetterDetail {
        pipeline: "default".to_owned(),
        summary: summary(Some(facts(Some(false), 0))),
        more: None,
        payload: Some(payload),
    };
    let text = letter(&detail).expect("text");
    assert!(text.ends_with("payload (text, its beginning):\na\n [2Jb\n"), "{text}");
    assert!(text.contains("  reason       exhausted at 2023-11-14T22:13:20Z\n"), "{text}");
}

#[test]
fn what_a_replay_did_not_put_back_is_named_with_the_reason() {
    let unsent = |n: u64, reason: &str| UnsentLetter {
        delivery: format!("dlv_{n}"),
        position: format!("0:{n}"),
        reason: reason.to_owned(),
    };
    let done = ReplayStatus {
        id: "rpl_x".to_owned(),
        pipeline: "default".to_owned(),
        state: "done".to_owned(),
        by: "alice".to_owned(),
        ordered_at_ms: 1_700_000_000_123,
        ended_at_ms: Some(1_700_000_060_123),
        cancelled_by: None,
        filter: FilterParts::default(),
        again: false,
        rate: 50,
        redriven: 7,
        skipped: 1,
        unreadable: 0,
        too_large: 1,
        gone: 0,
        undecided: 2,
        unsent: vec![unsent(1, "too_large"), unsent(2, "undecided")],
        looked: 11,
        looked_all: 11,
    };
    let wanted = [
        "replay state by ordered at put back skipped not put back unreadable looked at rate",
        "rpl_x done alice 2023-11-14T22:13:20Z 7 1 1 too large, 2 undecided 0 11/11 50/s",
        "too_large dlv_1 at 0:1",
        "undecided dlv_2 at 0:2",
        "and 1 more: `mailrail dlq list` shows whether they are redriven",
    ];
    assert_eq!(squeezed(&replay(&done).expect("text")), wanted);
    let whole = ReplayStatus { too_large: 0, undecided: 0, unsent: Vec::new(), ..done };
    assert_eq!(not_put_back(&whole), None);
    assert!(replay(&whole).expect("text").contains(" 7         1        0 "));
}
