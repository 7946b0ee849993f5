//! From records to entries.

use bytes::Bytes;
use mailrail_mailbox::{
    Aside, Backlog, Claim, Cursor, Drained, Entry, Head, Hold, Kind, Link, Mark, Park, SetAside, Snapshot,
    Source, State, Stretch, TrialEnd, Trials, Unfinished,
};
use mailrail_types::{History, HoldReason, MailboxKey, Timestamp};

use crate::Error;
use crate::error::status;
use crate::proto::journal as pb;

pub(super) fn entry(m: pb::Entry) -> Result<(Entry, Option<Bytes>), Error> {
    let epoch = need("epoch", m.epoch)?;
    let newer = "missing or of a kind that only a newer version knows: run that version";
    let (kind, content) = kind(m.kind.ok_or_else(|| Error::field("kind", newer))?)?;
    Ok((Entry { epoch, kind }, content))
}

fn kind(m: pb::entry::Kind) -> Result<(Kind, Option<Bytes>), Error> {
    use pb::entry::Kind as Pb;
    let kind = match m {
        Pb::Park(m) => return park(m),
        Pb::Aside(m) => return aside(m),
        Pb::Claim(m) => Kind::Claim(claim(m)?),
        Pb::State(m) => Kind::State(state(m)?),
        Pb::Clear(m) => Kind::Clear { mailbox: mailbox("clear.mailbox", &m.mailbox)? },
        Pb::AsideEnded(m) => Kind::AsideEnded {
            mailbox: mailbox("aside_ended.mailbox", &m.mailbox)?,
            source: need("aside_ended.source", m.source)?,
        },
        Pb::HandOff(m) => Kind::HandOff(m.unfinished.iter().map(unfinished).collect::<Result<_, _>>()?),
        Pb::Snapshot(m) => Kind::Snapshot(snapshot(m)?),
        Pb::Trial(m) => Kind::Trial { source: need("trial.source", m.source)? },
        Pb::TrialEnded(m) => Kind::TrialEnded {
            source: need("trial_ended.source", m.source)?,
            how: need("trial_ended.how", TrialEnd::from_code(&m.how))?,
        },
        Pb::IsolationEnded(pb::IsolationEnded {}) => Kind::IsolationEnded,
    };
    Ok((kind, None))
}

fn claim(m: pb::Claim) -> Result<Claim, Error> {
    Ok(Claim {
        member: m.member,
        nonce: need("claim.nonce", m.nonce)?,
        process: m.process.unwrap_or_default(),
    })
}

/// What every version writes.
fn need<T>(field: &'static str, value: Option<T>) -> Result<T, Error> {
    value.ok_or_else(|| Error::field(field, "missing"))
}

fn mailbox(field: &'static str, key: &str) -> Result<MailboxKey, Error> {
    need(field, (!key.is_empty()).then(|| MailboxKey::from_text(key)))
}

fn park(m: pb::Park) -> Result<(Kind, Option<Bytes>), Error> {
    let park = Park {
        mailbox: mailbox("park.mailbox", &m.mailbox)?,
        source: need("park.source", m.source)?,
        link: match need("park.link", m.link)? {
            pb::park::Link::First(pb::First {}) => Link::First,
            pb::park::Link::After(last) => Link::After(last),
            pb::park::Link::Before(first) => Link::Before(first),
        },
        hold: hold(&need("park.hold", m.hold)?)?,
    };
    let content = need("park.delivery", m.delivery)?;
    Ok((Kind::Park(park), Some(content)))
}

fn hold(m: &pb::Hold) -> Result<Hold, Error> {
    Ok(Hold {
        // A reason of a newer version: the time is what can be kept of it.
        reason: HoldReason::from_code(&m.reason).unwrap_or(HoldReason::Backoff),
        until: Timestamp(need("hold.until_ms", m.until_ms)?),
    })
}

fn state(m: pb::State) -> Result<State, Error> {
    Ok(State {
        mailbox: mailbox("state.mailbox", &m.mailbox)?,
        drained: m.drained.map(drained).transpose()?,
        head: m.head.map(head).transpose()?,
    })
}

fn drained(m: pb::Drained) -> Result<Drained, Error> {
    Ok(Drained {
        through: need("drained.through", m.through)?,
        next: cursor(need("drained.next", m.next)?)?,
        count: need("drained.count", m.count)?,
    })
}

fn cursor(m: pb::Cursor) -> Result<Cursor, Error> {
    Ok(Cursor { at: need("cursor.at", m.at)?, epoch: need("cursor.epoch", m.epoch)? })
}

fn head(m: pb::Head) -> Result<Head, Error> {
    Ok(Head {
        source: need("head.source", m.source)?,
        hold: hold(&need("head.hold", m.hold)?)?,
        history: m.history.map(history).transpose()?,
    })
}

fn history(m: pb::History) -> Result<History, Error> {
    Ok(History {
        attempts: need("history.attempts", m.attempts)?,
        first_attempt_at: m.first_attempt_at_ms.map(Timestamp),
        last_attempt_at: m.last_attempt_at_ms.map(Timestamp),
        last_status: status("history.last_status", m.last_status)?,
        redrives: need("history.redrives", m.redrives)?,
    })
}

fn aside(m: pb::Aside) -> Result<(Kind, Option<Bytes>), Error> {
    let (place, content) = match need("aside.content", m.content)? {
        pb::aside::Content::At(place) => (Some(place), None),
        pb::aside::Content::Delivery(content) => (None, Some(content)),
    };
    let aside = Aside {
        mailbox: mailbox("aside.mailbox", &m.mailbox)?,
        content: place,
        head: head(need("aside.head", m.head)?)?,
    };
    Ok((Kind::Aside(aside), content))
}

fn unfinished(m: &pb::Unfinished) -> Result<Unfinished, Error> {
    Ok(Unfinished {
        mailbox: mailbox("unfinished.mailbox", &m.mailbox)?,
        source: need("unfinished.source", m.source)?,
        until: Timestamp(need("unfinished.until_ms", m.until_ms)?),
    })
}

fn snapshot(m: pb::Snapshot) -> Result<Snapshot, Error> {
    Ok(Snapshot {
        part: need("snapshot.part", m.part)?,
        parts: need("snapshot.parts", m.parts)?,
        done_below: need("snapshot.done_below", m.done_below)?,
        mark: m.mark.map(mark).transpose()?,
        unclean: need("snapshot.unclean", m.unclean)?,
        trials: Trials {
            process: m.process.unwrap_or_default(),
            running: m.under_trial,
            deaths: m.suspects.iter().map(suspect).collect::<Result<_, _>>()?,
            condemned: m.condemned.into_iter().collect(),
        },
        backlogs: m.backlogs.into_iter().map(backlog).collect::<Result<_, _>>()?,
    })
}

fn suspect(m: &pb::Suspect) -> Result<(Source, u32), Error> {
    Ok((need("suspect.source", m.source)?, need("suspect.deaths", m.deaths)?))
}

fn mark(m: pb::Mark) -> Result<Mark, Error> {
    Ok(Mark {
        offset: need("mark.offset", m.offset)?,
        appended_at: Timestamp(need("mark.appended_at_ms", m.appended_at_ms)?),
    })
}

fn backlog(m: pb::Backlog) -> Result<(MailboxKey, Backlog), Error> {
    let (asides, tried) = (m.asides.into_iter().map(set_aside), m.tried.into_iter().map(head));
    let backlog = Backlog {
        stretches: m.stretches.into_iter().map(stretch).collect::<Result<_, _>>()?,
        head: m.head.map(head).transpose()?,
        tried: tried.map(|tried| tried.map(|t| (t.source, t))).collect::<Result<_, _>>()?,
        asides: asides.map(|aside| aside.map(|a| (a.head.source, a))).collect::<Result<_, _>>()?,
        passed: m.passed.into_iter().collect(),
        owed: need("backlog.owed", m.owed)?,
    };
    Ok((mailbox("backlog.mailbox", &m.mailbox)?, backlog))
}

fn stretch(m: pb::Stretch) -> Result<Stretch, Error> {
    Ok(Stretch {
        first: need("stretch.first", m.first)?,
        last: need("stretch.last", m.last)?,
        drained: m.drained,
        next: cursor(need("stretch.next", m.next)?)?,
    })
}

fn set_aside(m: pb::SetAside) -> Result<SetAside, Error> {
    Ok(SetAside {
        content: need("set_aside.content", m.content)?,
        head: head(need("set_aside.head", m.head)?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_that_16_bits_cannot_hold_is_an_error() {
        let with = |status| pb::History {
            attempts: Some(1),
            redrives: Some(0),
            last_status: Some(status),
            ..pb::History::default()
        };
        assert_eq!(history(with(65_535)).map(|h| h.last_status), Ok(Some(65_535)));
        let error = history(with(65_536)).expect_err("out of range");
        assert!(matches!(error, Error::Field { field: "history.last_status", .. }), "{error}");
    }
}
