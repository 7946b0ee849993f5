//! Entries of the ledger of redrives.
//!
//! As with the journal, an entry is not written again, so nothing of a newer version is kept of it; a kind that is unknown is
//! an error: whoever does not know what was put back must not put anything back.

use bytes::Bytes;
use mailrail_types::{
    DeadReason, DeliveryId, EndpointId, LetterFilter, LetterRange, RedriveBatch, RedriveEntry, Redriven,
    ReplayId, ReplayOrder, ReplayStep, TenantId, Timestamp, Unsent, UnsentReason,
};
use prost::Message;

use crate::Error;
use crate::error::id16;
use crate::proto::redrive as pb;
use crate::proto::redrive::entry::Kind;

/// The record of an entry.
#[must_use]
pub fn encode_redrive(entry: &RedriveEntry) -> Bytes {
    let kind = match entry {
        RedriveEntry::Ordered(order) => Kind::Ordered(ordered(order)),
        RedriveEntry::Claimed { runner, after, .. } => {
            Kind::Claimed(pb::Claimed { runner: runner.clone(), after: after.clone() })
        }
        RedriveEntry::Sending { runner, step, batch, .. } => Kind::Sending(pb::Sending {
            runner: runner.clone(),
            step: Some(written_step(step)),
            deliveries_from: batch.deliveries_from,
            letters: batch.letters.iter().map(letter).collect(),
        }),
        RedriveEntry::Settled { runner, unsent, .. } => Kind::Settled(pb::Settled {
            runner: runner.clone(),
            unsent: unsent.iter().map(written_unsent).collect(),
        }),
        RedriveEntry::Passed { runner, step, .. } => {
            Kind::Passed(pb::Passed { runner: runner.clone(), step: Some(written_step(step)) })
        }
        RedriveEntry::Cancelled { by, at, .. } => {
            Kind::Cancelled(pb::Cancelled { by: by.clone(), at_ms: at.millis() })
        }
        RedriveEntry::Ended { runner, at, .. } => {
            Kind::Ended(pb::Ended { runner: runner.clone(), at_ms: at.millis() })
        }
    };
    pb::Entry { replay: entry.replay().as_bytes().to_vec(), kind: Some(kind) }.encode_to_vec().into()
}

/// Reads the record of an entry.
///
/// # Errors
/// [`Error`] when it is not such a record, or one of a kind that this version does not know.
pub fn decode_redrive(record: &Bytes) -> Result<RedriveEntry, Error> {
    let entry = pb::Entry::decode(record.clone())?;
    let replay = ReplayId::from_bytes(id16("replay", &entry.replay)?);
    Ok(match entry.kind.ok_or_else(|| Error::field("kind", "missing or unknown"))? {
        Kind::Ordered(m) => RedriveEntry::Ordered(ReplayOrder {
            replay,
            by: m.by,
            at: Timestamp(m.at_ms),
            filter: filter(m.filter.unwrap_or_default())?,
            again: m.again,
            rate: m.rate,
            ranges: m.ranges.iter().map(range).collect(),
        }),
        Kind::Claimed(m) => RedriveEntry::Claimed { replay, runner: m.runner, after: m.after },
        Kind::Sending(m) => {
            let step = read_step(m.step)?;
            let letters = m.letters.iter().map(redriven).collect::<Result<_, _>>()?;
            let batch =
                RedriveBatch { partition: step.partition, deliveries_from: m.deliveries_from, letters };
            RedriveEntry::Sending { replay, runner: m.runner, step, batch }
        }
        Kind::Settled(m) => {
            let unsent = m.unsent.iter().map(read_unsent).collect::<Result<_, _>>()?;
            RedriveEntry::Settled { replay, runner: m.runner, unsent }
        }
        Kind::Passed(m) => RedriveEntry::Passed { replay, runner: m.runner, step: read_step(m.step)? },
        Kind::Cancelled(m) => RedriveEntry::Cancelled { replay, by: m.by, at: Timestamp(m.at_ms) },
        Kind::Ended(m) => RedriveEntry::Ended { replay, runner: m.runner, at: Timestamp(m.at_ms) },
    })
}

fn ordered(order: &ReplayOrder) -> pb::Ordered {
    let filter = &order.filter;
    pb::Ordered {
        by: order.by.clone(),
        at_ms: order.at.millis(),
        filter: Some(pb::Filter {
            tenant: filter.tenant.as_ref().map(|it| it.as_str().to_owned()),
            endpoint: filter.endpoint.as_ref().map(|it| it.as_str().to_owned()),
            event_type: filter.event_type.clone(),
            reasons: filter.reasons.iter().map(|it| it.code().to_owned()).collect(),
            since_ms: filter.since.map(Timestamp::millis),
            until_ms: filter.until.map(Timestamp::millis),
            ids: filter.ids.iter().map(|it| it.as_bytes().to_vec()).collect(),
        }),
        again: order.again,
        rate: order.rate,
        ranges: order
            .ranges
            .iter()
            .map(|it| pb::Range { partition: it.partition, from: it.from, to: it.to })
            .collect(),
    }
}

fn filter(m: pb::Filter) -> Result<LetterFilter, Error> {
    let reason =
        |code: &String| DeadReason::from_code(code).ok_or_else(|| Error::field("reasons", "an unknown code"));
    let tenant = m.tenant.as_deref().map(TenantId::new).transpose();
    let endpoint = m.endpoint.as_deref().map(EndpointId::new).transpose();
    Ok(LetterFilter {
        tenant: tenant.map_err(|e| Error::field("tenant", e))?,
        endpoint: endpoint.map_err(|e| Error::field("endpoint", e))?,
        event_type: m.event_type,
        reasons: m.reasons.iter().map(reason).collect::<Result<_, _>>()?,
        since: m.since_ms.map(Timestamp),
        until: m.until_ms.map(Timestamp),
        ids: m.ids.iter().map(|id| id16("ids", id).map(DeliveryId::from_bytes)).collect::<Result<_, _>>()?,
    })
}

fn range(m: &pb::Range) -> LetterRange {
    LetterRange { partition: m.partition, from: m.from, to: m.to }
}

fn letter(letter: &Redriven) -> pb::Letter {
    pb::Letter {
        delivery: letter.delivery.as_bytes().to_vec(),
        redrives: letter.redrives,
        offset: letter.offset,
    }
}

fn redriven(m: &pb::Letter) -> Result<Redriven, Error> {
    let delivery = DeliveryId::from_bytes(id16("letters.delivery", &m.delivery)?);
    Ok(Redriven { delivery, redrives: m.redrives, offset: m.offset })
}

fn written_unsent(unsent: &Unsent) -> pb::Unsent {
    pb::Unsent { delivery: unsent.delivery.as_bytes().to_vec(), reason: unsent.reason.code().to_owned() }
}

fn read_unsent(m: &pb::Unsent) -> Result<Unsent, Error> {
    let delivery = DeliveryId::from_bytes(id16("unsent.delivery", &m.delivery)?);
    let reason = UnsentReason::from_code(&m.reason);
    Ok(Unsent { delivery, reason: reason.ok_or_else(|| Error::field("unsent.reason", "an unknown code"))? })
}

fn written_step(step: &ReplayStep) -> pb::Step {
    let ReplayStep { partition, next, skipped, unreadable } = *step;
    pb::Step { partition, next, skipped, unreadable }
}

fn read_step(m: Option<pb::Step>) -> Result<ReplayStep, Error> {
    let pb::Step { partition, next, skipped, unreadable } =
        m.ok_or_else(|| Error::field("step", "missing"))?;
    Ok(ReplayStep { partition, next, skipped, unreadable })
}
