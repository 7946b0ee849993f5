//! From entries to records.

use bytes::{BufMut, Bytes, BytesMut};
use mailrail_mailbox::{
    Aside, Backlog, Claim, Cursor, Drained, Entry, Head, Hold, Kind, Link, Park, Place, SetAside, Snapshot,
    Source, State, Stretch, Unfinished,
};
use mailrail_types::{History, MailboxKey, Timestamp};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len, uint64};

use crate::proto::journal as pb;

// Field numbers of the .proto file, for what is written without a generated message: it would copy the content twice.
const EPOCH: u32 = 1;
const PARK: u32 = 3;
const PARK_DELIVERY: u32 = 7;
const ASIDE: u32 = 6;
const ASIDE_DELIVERY: u32 = 4;

pub(super) fn entry(entry: &Entry, content: Option<&[u8]>) -> Bytes {
    match (&entry.kind, content) {
        (Kind::Park(given), Some(content)) => {
            with_content(entry.epoch, PARK, &park(given), PARK_DELIVERY, content)
        }
        (Kind::Aside(given @ Aside { content: None, .. }), Some(content)) => {
            with_content(entry.epoch, ASIDE, &aside(given), ASIDE_DELIVERY, content)
        }
        (given, _) => {
            let message = pb::Entry { epoch: Some(entry.epoch), kind: Some(kind(given)) };
            message.encode_to_vec().into()
        }
    }
}

/// An entry whose kind, the message `inner` in field `tag`, holds `content` in its field `content_tag`. Allocates once.
fn with_content(epoch: Place, tag: u32, inner: &impl Message, content_tag: u32, content: &[u8]) -> Bytes {
    let content_len = key_len(content_tag) + encoded_len_varint(content.len() as u64) + content.len();
    let inner_len = (inner.encoded_len() + content_len) as u64;
    let header_len = uint64::encoded_len(EPOCH, &epoch) + key_len(tag) + encoded_len_varint(inner_len);
    let mut out = BytesMut::with_capacity(header_len + inner.encoded_len() + content_len);
    uint64::encode(EPOCH, &epoch, &mut out);
    encode_key(tag, WireType::LengthDelimited, &mut out);
    encode_varint(inner_len, &mut out);
    // A BytesMut grows as needed: encoding into it cannot fail.
    let _ = inner.encode(&mut out);
    encode_key(content_tag, WireType::LengthDelimited, &mut out);
    encode_varint(content.len() as u64, &mut out);
    out.put_slice(content);
    debug_assert_eq!(out.len(), header_len + inner.encoded_len() + content_len, "grown: copied twice");
    out.freeze()
}

fn kind(kind: &Kind) -> pb::entry::Kind {
    use pb::entry::Kind as Pb;
    match kind {
        Kind::Claim(given) => Pb::Claim(claim(given)),
        Kind::Park(given) => Pb::Park(park(given)),
        Kind::State(given) => Pb::State(state(given)),
        Kind::Clear { mailbox } => Pb::Clear(pb::Clear { mailbox: key(mailbox) }),
        Kind::Aside(given) => Pb::Aside(aside(given)),
        Kind::AsideEnded { mailbox, source } => {
            Pb::AsideEnded(pb::AsideEnded { mailbox: key(mailbox), source: Some(*source) })
        }
        Kind::HandOff(given) => {
            Pb::HandOff(pb::HandOff { unfinished: given.iter().map(unfinished).collect() })
        }
        Kind::Snapshot(given) => Pb::Snapshot(snapshot(given)),
        Kind::Trial { source } => Pb::Trial(pb::Trial { source: Some(*source) }),
        Kind::TrialEnded { source, how } => {
            Pb::TrialEnded(pb::TrialEnded { source: Some(*source), how: how.code().to_owned() })
        }
        Kind::IsolationEnded => Pb::IsolationEnded(pb::IsolationEnded {}),
    }
}

fn claim(claim: &Claim) -> pb::Claim {
    pb::Claim { member: claim.member.clone(), nonce: Some(claim.nonce), process: known(claim.process) }
}

/// A process that is known.
fn known(process: u64) -> Option<u64> {
    (process != 0).then_some(process)
}

fn key(mailbox: &MailboxKey) -> String {
    mailbox.as_str().to_owned()
}

fn park(park: &Park) -> pb::Park {
    pb::Park {
        mailbox: key(&park.mailbox),
        source: Some(park.source),
        link: Some(match park.link {
            Link::First => pb::park::Link::First(pb::First {}),
            Link::After(last) => pb::park::Link::After(last),
            Link::Before(first) => pb::park::Link::Before(first),
        }),
        hold: Some(hold(park.hold)),
        delivery: None,
    }
}

fn hold(hold: Hold) -> pb::Hold {
    pb::Hold { reason: hold.reason.code().to_owned(), until_ms: Some(hold.until.millis()) }
}

fn state(state: &State) -> pb::State {
    pb::State {
        mailbox: key(&state.mailbox),
        drained: state.drained.map(drained),
        head: state.head.as_ref().map(head),
    }
}

fn drained(drained: Drained) -> pb::Drained {
    pb::Drained {
        through: Some(drained.through),
        next: Some(cursor(drained.next)),
        count: Some(drained.count),
    }
}

fn cursor(cursor: Cursor) -> pb::Cursor {
    pb::Cursor { at: Some(cursor.at), epoch: Some(cursor.epoch) }
}

fn head(head: &Head) -> pb::Head {
    pb::Head {
        source: Some(head.source),
        hold: Some(hold(head.hold)),
        history: head.history.as_ref().map(history),
    }
}

fn history(history: &History) -> pb::History {
    pb::History {
        attempts: Some(history.attempts),
        first_attempt_at_ms: history.first_attempt_at.map(Timestamp::millis),
        last_attempt_at_ms: history.last_attempt_at.map(Timestamp::millis),
        last_status: history.last_status.map(u32::from),
        redrives: Some(history.redrives),
    }
}

fn aside(aside: &Aside) -> pb::Aside {
    pb::Aside {
        mailbox: key(&aside.mailbox),
        head: Some(head(&aside.head)),
        content: aside.content.map(pb::aside::Content::At),
    }
}

fn unfinished(unfinished: &Unfinished) -> pb::Unfinished {
    pb::Unfinished {
        mailbox: key(&unfinished.mailbox),
        source: Some(unfinished.source),
        until_ms: Some(unfinished.until.millis()),
    }
}

fn snapshot(snapshot: &Snapshot) -> pb::Snapshot {
    pb::Snapshot {
        part: Some(snapshot.part),
        parts: Some(snapshot.parts),
        done_below: Some(snapshot.done_below),
        mark: snapshot.mark.map(|mark| pb::Mark {
            offset: Some(mark.offset),
            appended_at_ms: Some(mark.appended_at.millis()),
        }),
        unclean: Some(snapshot.unclean),
        backlogs: snapshot.backlogs.iter().map(|(mailbox, of)| backlog(mailbox, of)).collect(),
        process: known(snapshot.trials.process),
        under_trial: snapshot.trials.running,
        suspects: snapshot.trials.deaths.iter().map(suspect).collect(),
        condemned: snapshot.trials.condemned.iter().copied().collect(),
    }
}

fn suspect((source, deaths): (&Source, &u32)) -> pb::Suspect {
    pb::Suspect { source: Some(*source), deaths: Some(*deaths) }
}

fn backlog(mailbox: &MailboxKey, backlog: &Backlog) -> pb::Backlog {
    pb::Backlog {
        mailbox: key(mailbox),
        stretches: backlog.stretches.iter().map(stretch).collect(),
        head: backlog.head.as_ref().map(head),
        asides: backlog.asides.values().map(set_aside).collect(),
        tried: backlog.tried.values().map(head).collect(),
        passed: backlog.passed.iter().copied().collect(),
        owed: Some(backlog.owed),
    }
}

fn stretch(stretch: &Stretch) -> pb::Stretch {
    pb::Stretch {
        first: Some(stretch.first),
        last: Some(stretch.last),
        drained: stretch.drained,
        next: Some(cursor(stretch.next)),
    }
}

fn set_aside(aside: &SetAside) -> pb::SetAside {
    pb::SetAside { content: Some(aside.content), head: Some(head(&aside.head)) }
}
