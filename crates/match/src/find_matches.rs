//! Events → the recipients that are owed them: a piece of a batch at a time, on the threads that match.

use std::sync::Arc;

use bytes::Bytes;
use mailrail_log::StoredRecord;
use mailrail_store::Directory;
use mailrail_telemetry::{Span, Traces};
use mailrail_types::Event;

use crate::decode::{Decoded, decode};
use crate::failures::Failures;
use crate::pool::Memory;
use crate::table::Table;
use crate::targets::{Target, targets};
use crate::wanting::Work;

/// Recipients after which a piece ends. One event can be owed to every subscription of a tenant: memory is bounded by this
/// and the recipients of one event.
const TARGETS_MAX: usize = 4_096;
/// Steps of evaluation after which a piece ends: some tens of milliseconds. Pieces of other partitions come first now and then.
const STEPS_MAX: u64 = 2_000_000;

/// What events are matched against.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) directory: Arc<Directory>,
    pub(crate) table: Arc<Table>,
    pub(crate) traces: Traces,
}

/// An event that somebody is owed.
pub(crate) struct Matched {
    /// Carries the context of the span of this stage on, when it is traced.
    pub(crate) event: Box<Event>,
    /// Headers of the records of its deliveries.
    pub(crate) headers: Vec<(String, Bytes)>,
    /// At least one.
    pub(crate) targets: Vec<Target>,
    /// Position of the set-up that they are of.
    pub(crate) setup_seq: u64,
}

/// What became of some records of a batch.
#[derive(Default)]
pub(crate) struct Piece {
    /// Place in the batch behind the last of them.
    pub(crate) upto: usize,
    /// In the order of the batch.
    pub(crate) matched: Vec<Matched>,
    /// Of matched events that are traced; they end when the deliveries are in the log.
    pub(crate) spans: Vec<Span>,
    /// Events that nobody wants.
    pub(crate) unmatched: u64,
    /// Places of records that are no events, with the reason.
    pub(crate) unreadable: Vec<(usize, String)>,
    pub(crate) failures: Failures,
    /// Recipients whose apps lack a permission that a producer asks for.
    pub(crate) denied: u64,
    /// The next event was accepted with this set-up, which the table has not reached: it must not be called unwanted yet.
    pub(crate) waits_for: Option<u64>,
}

impl Piece {
    /// Events in it.
    pub(crate) fn events(&self) -> u64 {
        self.unmatched + self.matched.len() as u64
    }
}

/// Takes records from place `from` on: to the end, to one that has to wait, or until it is enough for one piece. At least one
/// of them, unless that has to wait.
pub(crate) fn find_matches(batch: &[StoredRecord], from: usize, known: &Known, memory: &mut Memory) -> Piece {
    let mut piece = Piece { upto: from, ..Piece::default() };
    let Memory { scratch, events } = memory;
    let mut work = Work::new(scratch);
    let mut found = 0;
    for record in batch.get(from..).unwrap_or_default() {
        if found >= TARGETS_MAX || work.steps >= STEPS_MAX {
            break;
        }
        match decode(events, record) {
            Decoded::Event(event) if event.setup_seq > known.table.seq() => {
                piece.waits_for = Some(event.setup_seq);
                break;
            }
            Decoded::Event(mut event) => {
                let span = known.traces.matching(&mut event);
                match targets(known, &event, &mut work) {
                    Some((setup_seq, targets)) if !targets.is_empty() => {
                        found += targets.len();
                        piece.spans.extend(span.map(|span| span.with_deliveries(targets.len())));
                        let headers = known.traces.headers(&event);
                        piece.matched.push(Matched { event, headers, targets, setup_seq });
                    }
                    Some(_) | None => {
                        piece.unmatched += 1;
                        span.into_iter().for_each(|span| span.end("unmatched"));
                        events.give_back(event);
                    }
                }
            }
            Decoded::Unreadable(problem) => piece.unreadable.push((piece.upto, problem)),
        }
        piece.upto += 1;
    }
    (piece.failures, piece.denied) = (work.failures, work.denied);
    piece
}
