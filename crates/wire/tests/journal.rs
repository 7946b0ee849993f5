//! Entries of the journal: round trips, bytes of earlier versions, records that may not be read.

#[path = "support/any_entry.rs"]
mod any_entry;
mod support;

use std::collections::{BTreeMap, BTreeSet};

use any_entry::any_entry;
use bytes::{Buf, Bytes, BytesMut};
use mailrail_mailbox::*;
use mailrail_types::{History, HoldReason, MailboxKey, Timestamp};
use mailrail_wire::{Error, decode_delivery, decode_entry, encode_entry};
use proptest::collection::vec;
use proptest::prelude::*;
use prost::encoding::{DecodeContext, WireType, decode_key, encode_key, encode_varint, skip_field, uint64};
use support::fixture;

fn mailbox() -> MailboxKey {
    MailboxKey::from_text("default:eu:acme:main:com.github.push:3")
}

fn hold(reason: HoldReason) -> Hold {
    Hold { reason, until: Timestamp(1_796_029_211_000) }
}

fn head() -> Head {
    let history = History {
        attempts: 2,
        first_attempt_at: Some(Timestamp(1_796_029_201_000)),
        last_attempt_at: Some(Timestamp(1_796_029_206_000)),
        last_status: Some(503),
        redrives: 1,
    };
    Head { source: 41, hold: hold(HoldReason::Backoff), history: Some(history) }
}

fn park(link: Link, reason: HoldReason) -> Kind {
    Kind::Park(Park { mailbox: mailbox(), source: 41, link, hold: hold(reason) })
}

fn aside(content: Option<Place>) -> Kind {
    Kind::Aside(Aside { mailbox: mailbox(), content, head: head() })
}

fn state() -> Kind {
    let drained = Drained { through: 40, next: Cursor { at: 900, epoch: 17 }, count: 3 };
    Kind::State(State { mailbox: mailbox(), drained: Some(drained), head: Some(head()) })
}

fn snapshot() -> Kind {
    let stretch = |first, drained| Stretch {
        first,
        last: first + 10,
        drained,
        next: Cursor { at: first + 800, epoch: 17 },
    };
    let backlog = Backlog {
        stretches: vec![stretch(30, Some(40)), stretch(60, None)],
        head: Some(head()),
        asides: BTreeMap::from([(41, SetAside { content: 700, head: head() })]),
        tried: BTreeMap::new(),
        passed: BTreeSet::new(),
        owed: 12,
    };
    Kind::Snapshot(Snapshot {
        part: 1,
        parts: 2,
        done_below: 57,
        mark: Some(Mark { offset: 56, appended_at: Timestamp(1_796_029_236_000) }),
        unclean: 1,
        trials: Trials::default(),
        backlogs: vec![(mailbox(), backlog)],
    })
}

fn snapshot_with_trials() -> Kind {
    let trials = Trials {
        process: 0x5eed,
        running: Some(57),
        deaths: BTreeMap::from([(57, 2), (60, 1)]),
        condemned: BTreeSet::from([40, 41]),
    };
    let Kind::Snapshot(snapshot) = snapshot() else { unreachable!("it is one") };
    Kind::Snapshot(Snapshot { trials, backlogs: Vec::new(), ..snapshot })
}

fn hand_off() -> Kind {
    let until = Timestamp(1_796_029_236_000);
    Kind::HandOff(vec![Unfinished { mailbox: mailbox(), source: 41, until }])
}

/// One entry of each kind, all that it may hold in it, under the name of its fixture.
fn entries() -> Vec<(&'static str, Entry)> {
    let claim = Claim { member: "deliver-0".into(), nonce: 0x0123_4567_89ab_cdef, process: 0 };
    let of_owner = [
        ("park-first", park(Link::First, HoldReason::Paused)),
        ("park-after", park(Link::After(40), HoldReason::BehindHead)),
        ("park-before", park(Link::Before(60), HoldReason::Unfinished)),
        ("state", state()),
        ("clear", Kind::Clear { mailbox: mailbox() }),
        ("aside", aside(None)),
        ("aside-elsewhere", aside(Some(700))),
        ("aside-ended", Kind::AsideEnded { mailbox: mailbox(), source: 41 }),
        ("hand-off", hand_off()),
        ("snapshot", snapshot()),
        ("snapshot-trials", snapshot_with_trials()),
        ("trial", Kind::Trial { source: 41 }),
        ("trial-ended", Kind::TrialEnded { source: 41, how: TrialEnd::Condemned }),
        ("isolation-ended", Kind::IsolationEnded),
    ];
    let of_owner = of_owner.map(|(name, kind)| (name, Entry { epoch: 17, kind }));
    let of_process = Claim { process: 0x5eed, ..claim.clone() };
    let claims = [("claim", claim), ("claim-process", of_process)];
    let claims = claims.map(|(name, claim)| (name, Entry { epoch: 0, kind: Kind::Claim(claim) }));
    claims.into_iter().chain(of_owner).collect()
}

/// The content that such an entry holds: a delivery as its record came.
fn content_of(kind: &Kind) -> Option<Bytes> {
    let holds = matches!(kind, Kind::Park(_) | Kind::Aside(Aside { content: None, .. }));
    holds.then(|| fixture("delivery"))
}

fn encode(entry: &Entry) -> Bytes {
    encode_entry(entry, content_of(&entry.kind).as_deref())
}

#[test]
fn journal_bytes_of_version_0_1_0_are_read() {
    for (name, entry) in entries() {
        let record = fixture(&format!("journal-{name}"));
        let read = decode_entry(&record).unwrap_or_else(|e| panic!("{name}: {e}"));
        let content = content_of(&entry.kind);
        assert_eq!(encode(&entry), record, "{name} is written as it was");
        assert_eq!(read, (entry, content), "{name}");
    }
}

#[test]
fn content_shares_memory_with_its_record_and_is_the_delivery_to_the_last_byte() {
    for kind in [park(Link::First, HoldReason::Slow), aside(None)] {
        let record = encode(&Entry { epoch: 17, kind });
        let content = decode_entry(&record).expect("an entry").1.expect("content");
        assert!(record.as_ptr_range().contains(&content.as_ptr()), "copied");
        assert_eq!(content, fixture("delivery"));
        decode_delivery(&content).expect("a delivery");
    }
}

#[test]
fn empty_content_is_content() {
    let entry = Entry { epoch: 17, kind: aside(None) };
    let record = encode_entry(&entry, Some(b""));
    assert_eq!(decode_entry(&record), Ok((entry, Some(Bytes::new()))));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "content belongs to what holds it")]
fn a_parked_delivery_without_content_is_a_mistake_of_the_caller() {
    let _ = encode_entry(&Entry { epoch: 17, kind: park(Link::First, HoldReason::Slow) }, None);
}

#[test]
fn a_reason_of_a_newer_version_is_read_as_backoff() {
    let entry = |reason| Entry { epoch: 17, kind: park(Link::First, reason) };
    let record = encode(&entry(HoldReason::Circuit)).to_vec();
    let at = record.windows(7).position(|w| w == b"circuit").expect("its code");
    let mut newer = record;
    newer[at..at + 7].copy_from_slice(b"weather");
    let (read, _) = decode_entry(&newer.into()).expect("an entry");
    assert_eq!(read, entry(HoldReason::Backoff));
}

#[test]
fn every_reason_survives() {
    for &reason in HoldReason::ALL {
        let entry = Entry { epoch: 17, kind: park(Link::First, reason) };
        assert_eq!(decode_entry(&encode(&entry)).expect("an entry").0, entry);
    }
}

/// A field of a message in a message.
fn put_message(tag: u32, message: &[u8], out: &mut BytesMut) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(message.len() as u64, out);
    out.extend_from_slice(message);
}

#[test]
fn a_kind_of_a_newer_version_stops_the_reader() {
    let mut record = BytesMut::new();
    uint64::encode(1, &17, &mut record);
    put_message(13, b"\x08\x29", &mut record);
    let error = decode_entry(&record.freeze()).expect_err("a kind that nobody knows");
    assert!(matches!(error, Error::Field { field: "kind", .. }), "{error}");
}

#[test]
fn a_field_of_a_newer_version_is_no_reason_to_stop() {
    let (_, entry) = entries().remove(0);
    let mut record = BytesMut::from(&encode(&entry)[..]);
    uint64::encode(1000, &77, &mut record);
    assert_eq!(decode_entry(&record.freeze()).expect("an entry").0, entry);
}

/// The fields of a message: number, and bytes with key.
fn fields(message: &Bytes) -> Vec<(u32, Bytes)> {
    let mut rest = message.clone();
    let mut found = Vec::new();
    while rest.has_remaining() {
        let start = message.len() - rest.len();
        let (tag, wire_type) = decode_key(&mut rest).expect("a key");
        skip_field(wire_type, tag, &mut rest, DecodeContext::default()).expect("a field");
        found.push((tag, message.slice(start..message.len() - rest.len())));
    }
    found
}

/// Content of a field that is a message.
fn message_in(field: &Bytes) -> Bytes {
    let mut rest = field.clone();
    decode_key(&mut rest).expect("a key");
    prost::encoding::decode_varint(&mut rest).expect("a length");
    rest
}

/// What the .proto file says of a message: fields that are messages, and fields that may be absent.
fn schema(message: &str) -> (&'static [(u32, &'static str)], &'static [u32]) {
    match message {
        "Entry" => (
            &[
                (2, "Claim"),
                (3, "Park"),
                (4, "State"),
                (5, "Clear"),
                (6, "Aside"),
                (7, "AsideEnded"),
                (8, "HandOff"),
                (9, "Snapshot"),
                (10, "Trial"),
                (11, "TrialEnded"),
                (12, "IsolationEnded"),
            ],
            &[],
        ),
        "Claim" => (&[], &[1, 3]),
        "Park" => (&[(6, "Hold")], &[]),
        "Hold" => (&[], &[1]),
        "State" => (&[(2, "Drained"), (3, "Head")], &[2, 3]),
        "Drained" => (&[(2, "Cursor")], &[]),
        "Head" => (&[(2, "Hold"), (3, "History")], &[3]),
        "History" => (&[], &[2, 3, 4]),
        "Aside" => (&[(2, "Head")], &[]),
        "HandOff" => (&[(1, "Unfinished")], &[1]),
        "Snapshot" => (&[(5, "Backlog"), (6, "Mark"), (9, "Suspect")], &[5, 6, 7, 8, 9, 10]),
        "Backlog" => (&[(2, "Stretch"), (3, "Head"), (4, "SetAside")], &[2, 3, 4]),
        "Stretch" => (&[(4, "Cursor")], &[3]),
        "SetAside" => (&[(2, "Head")], &[]),
        _ => (&[], &[]),
    }
}

/// A message without one of its fields.
struct Cut {
    bytes: BytesMut,
    field: String,
    may_be_absent: bool,
}

/// The message without each of its fields in turn, at every depth.
fn cuts(name: &str, message: &Bytes) -> Vec<Cut> {
    let (messages, may_be_absent) = schema(name);
    let fields = fields(message);
    let mut cuts = Vec::new();
    for (at, (tag, field)) in fields.iter().enumerate() {
        let around = |changed: &[u8]| {
            let parts =
                fields.iter().enumerate().map(|(i, (_, field))| if i == at { changed } else { &field[..] });
            BytesMut::from(&parts.collect::<Vec<_>>().concat()[..])
        };
        cuts.push(Cut {
            bytes: around(b""),
            field: format!("{name}.{tag}"),
            may_be_absent: may_be_absent.contains(tag),
        });
        let Some((_, inner)) = messages.iter().find(|(of, _)| of == tag) else { continue };
        for cut in self::cuts(inner, &message_in(field)) {
            let mut changed = BytesMut::new();
            put_message(*tag, &cut.bytes, &mut changed);
            cuts.push(Cut { bytes: around(&changed), ..cut });
        }
    }
    cuts
}

#[test]
fn a_missing_field_stops_the_reader_unless_its_absence_means_something() {
    for (name, _) in entries() {
        for cut in cuts("Entry", &fixture(&format!("journal-{name}"))) {
            let read = decode_entry(&cut.bytes.freeze());
            assert_eq!(read.is_ok(), cut.may_be_absent, "{name} without {}: {read:?}", cut.field);
        }
    }
}

proptest! {
    #[test]
    fn any_entry_survives(entry in any_entry(), content in vec(any::<u8>(), 0..300)) {
        let content = content_of(&entry.kind).map(|_| Bytes::from(content));
        let record = encode_entry(&entry, content.as_deref());
        prop_assert_eq!(decode_entry(&record).expect("decodes"), (entry, content));
    }

    #[test]
    fn an_entry_that_was_cut_off_is_an_error(entry in any_entry()) {
        let record = encode(&entry);
        for end in 0..record.len() {
            prop_assert!(decode_entry(&record.slice(..end)).is_err(), "cut at {} of {}", end, record.len());
        }
    }

    #[test]
    fn bytes_that_were_changed_never_panic(entry in any_entry(), at in any::<prop::sample::Index>(), byte: u8) {
        let mut record = encode(&entry).to_vec();
        let at = at.index(record.len());
        record[at] = byte;
        let _ = decode_entry(&record.into());
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..400)) {
        let _ = decode_entry(&bytes.into());
    }
}
