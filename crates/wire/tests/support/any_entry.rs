//! Entries of all kinds, with any values in them.

use mailrail_mailbox::*;
use mailrail_types::{History, HoldReason, MailboxKey, Timestamp};
use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;

fn keys() -> impl Strategy<Value = MailboxKey> {
    ".{1,40}".prop_map(|text| MailboxKey::from_text(&text))
}

fn times() -> impl Strategy<Value = Timestamp> {
    any::<i64>().prop_map(Timestamp)
}

fn holds() -> impl Strategy<Value = Hold> {
    (proptest::sample::select(HoldReason::ALL), times()).prop_map(|(reason, until)| Hold { reason, until })
}

fn histories() -> impl Strategy<Value = History> {
    let times = || option::of(times());
    (any::<u32>(), times(), times(), any::<Option<u16>>(), any::<u32>()).prop_map(
        |(attempts, first_attempt_at, last_attempt_at, last_status, redrives)| History {
            attempts,
            first_attempt_at,
            last_attempt_at,
            last_status,
            redrives,
        },
    )
}

fn heads() -> impl Strategy<Value = Head> {
    (any::<u64>(), holds(), option::of(histories())).prop_map(|(source, hold, history)| Head {
        source,
        hold,
        history,
    })
}

fn cursors() -> impl Strategy<Value = Cursor> {
    any::<(u64, u64)>().prop_map(|(at, epoch)| Cursor { at, epoch })
}

fn parks() -> impl Strategy<Value = Park> {
    let link = prop_oneof![
        Just(Link::First),
        any::<u64>().prop_map(Link::After),
        any::<u64>().prop_map(Link::Before)
    ];
    (keys(), any::<u64>(), link, holds()).prop_map(|(mailbox, source, link, hold)| Park {
        mailbox,
        source,
        link,
        hold,
    })
}

fn states() -> impl Strategy<Value = State> {
    let drained = (any::<u64>(), cursors(), any::<u32>()).prop_map(|(through, next, count)| Drained {
        through,
        next,
        count,
    });
    (keys(), option::of(drained), option::of(heads())).prop_map(|(mailbox, drained, head)| State {
        mailbox,
        drained,
        head,
    })
}

fn backlogs() -> impl Strategy<Value = Backlog> {
    let stretch = (any::<u64>(), any::<u64>(), any::<Option<u64>>(), cursors())
        .prop_map(|(first, last, drained, next)| Stretch { first, last, drained, next });
    let aside = (any::<u64>(), heads()).prop_map(|(content, head)| SetAside { content, head });
    let asides = vec(aside, 0..4).prop_map(|asides| asides.into_iter().map(|a| (a.head.source, a)).collect());
    let passed = btree_set(any::<u64>(), 0..4);
    let tried = vec(heads(), 0..3).prop_map(|tried| tried.into_iter().map(|t| (t.source, t)).collect());
    (vec(stretch, 0..4), option::of(heads()), tried, asides, passed, any::<u64>()).prop_map(
        |(stretches, head, tried, asides, passed, owed)| Backlog {
            stretches,
            head,
            tried,
            asides,
            passed,
            owed,
        },
    )
}

fn snapshots() -> impl Strategy<Value = Snapshot> {
    let numbers = (any::<(u32, u32, u64, u32)>(), any::<Option<(u64, i64)>>());
    (numbers, trials(), vec((keys(), backlogs()), 0..4)).prop_map(
        |(((part, parts, done_below, unclean), mark), trials, backlogs)| Snapshot {
            part,
            parts,
            done_below,
            mark: mark.map(|(offset, at)| Mark { offset, appended_at: Timestamp(at) }),
            unclean,
            trials,
            backlogs,
        },
    )
}

fn trials() -> impl Strategy<Value = Trials> {
    let deaths = proptest::collection::btree_map(any::<u64>(), any::<u32>(), 0..4);
    (any::<u64>(), any::<Option<u64>>(), deaths, btree_set(any::<u64>(), 0..4))
        .prop_map(|(process, running, deaths, condemned)| Trials { process, running, deaths, condemned })
}

fn any_kind() -> impl Strategy<Value = Kind> {
    let claim = (".{0,20}", any::<u64>(), any::<u64>()).prop_map(|(member, nonce, process)| Claim {
        member,
        nonce,
        process,
    });
    let aside = (keys(), any::<Option<u64>>(), heads()).prop_map(|(mailbox, content, head)| Aside {
        mailbox,
        content,
        head,
    });
    let unfinished = (keys(), any::<u64>(), times()).prop_map(|(mailbox, source, until)| Unfinished {
        mailbox,
        source,
        until,
    });
    prop_oneof![
        claim.prop_map(Kind::Claim),
        parks().prop_map(Kind::Park),
        states().prop_map(Kind::State),
        keys().prop_map(|mailbox| Kind::Clear { mailbox }),
        aside.prop_map(Kind::Aside),
        (keys(), any::<u64>()).prop_map(|(mailbox, source)| Kind::AsideEnded { mailbox, source }),
        vec(unfinished, 0..4).prop_map(Kind::HandOff),
        snapshots().prop_map(Kind::Snapshot),
        any::<u64>().prop_map(|source| Kind::Trial { source }),
        (any::<u64>(), proptest::sample::select(&TrialEnd::ALL[..]))
            .prop_map(|(source, how)| Kind::TrialEnded { source, how }),
        Just(Kind::IsolationEnded),
    ]
}

/// Any entry that there can be.
pub(crate) fn any_entry() -> impl Strategy<Value = Entry> {
    (any::<u64>(), any_kind()).prop_map(|(epoch, kind)| Entry { epoch, kind })
}
