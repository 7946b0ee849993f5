//! Finding an accepted event: in the events topics, the newest records first.
//!
//! The id of an event follows from what its producer called it and says neither when nor in which partition it came. So all
//! partitions are looked at, bounded in records and time by the limits of `why`.

use std::ops::ControlFlow;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use mailrail_log::{Offset, Readers, StoredRecord};
use mailrail_types::{Event, EventId};
use mailrail_wire::decode_event;
use tokio::time::Instant;

use crate::config::Pipeline;
use crate::problem::Problem;
use crate::reading::{Budget, Ended, Part, may_hold, read};
use crate::service::Shared;
use crate::status::Ask;

/// Partitions that are looked at at once.
const PARTITIONS_AT_ONCE: usize = 8;
/// A partition is read backwards in steps of so many records.
const STEP: u64 = 4_000;

/// Where an event was found.
pub(super) struct Sighting {
    pub(super) event: Event,
    pub(super) pipeline: String,
    pub(super) partition: u32,
    pub(super) offset: Offset,
}

/// What a look at one partition came to.
struct Look {
    found: Option<(Offset, Event)>,
    records: u64,
    ended: Ended,
    /// There was no time for the rest; else, when it is cut, it is records that were used up.
    is_late: bool,
}

/// How far a look goes.
struct Far {
    partitions: usize,
    /// Records of one partition.
    records_max: u64,
    /// Whether it looks in more than one pipeline.
    is_among_many: bool,
}

impl Far {
    fn out_of_time(&self, records: u64, within: Duration) -> Problem {
        let less =
            if self.is_among_many { ", or name its pipeline ('pipeline') to look through less" } else { "" };
        Problem::not_looked_at(format!(
            "there was time for {records} records of {} partitions together within {within:?}, and the event is not among \
             them; ask again when the log is less busy, or raise control.why_timeout{less}",
            self.partitions
        ))
    }

    fn too_far_back(&self, records: u64) -> Problem {
        let further = if self.is_among_many {
            "name its pipeline ('pipeline') to look further back in it"
        } else {
            "raise control.why_records_max to look further back, or read the events topic with tools of the log"
        };
        Problem::not_looked_at(format!(
            "the event is not among the newest {records} records of {} partitions together, at most {} of each; {further}",
            self.partitions, self.records_max
        ))
    }
}

struct Search<'a> {
    id: EventId,
    ask: Ask<'a>,
    readers: &'a dyn Readers,
    /// Records of one partition.
    records_max: u64,
    deadline: Instant,
}

/// The event, and how many records were looked at.
///
/// # Errors
/// 404 when it is not there, or not within what was looked at; 503 when the log did not answer everywhere.
pub(super) async fn find(
    shared: &Shared,
    id: EventId,
    pipeline: Option<&str>,
) -> Result<(Sighting, u64), Problem> {
    let config = &shared.config;
    let among = |of: &&Pipeline| pipeline.is_none_or(|name| of.name == name);
    let pipelines: Vec<&Pipeline> = config.pipelines.iter().filter(among).collect();
    if let (Some(name), true) = (pipeline, pipelines.is_empty()) {
        return Err(Problem::not_found("pipeline", name));
    }
    let readers = shared.log.readers().map_err(|error| Problem::log_unreadable(&error.to_string()))?;
    let is_among_many = pipelines.len() > 1;
    let places: Vec<(&Pipeline, u32)> = pipelines
        .into_iter()
        .flat_map(|of| (0..of.events.partitions).map(move |partition| (of, partition)))
        .collect();
    let search = Search {
        id,
        ask: Ask { log: shared.log.as_ref(), timeout: config.log_timeout },
        readers: readers.as_ref(),
        records_max: (config.why_records_max / places.len().max(1) as u64).max(1),
        deadline: Instant::now() + config.why_timeout,
    };
    let far = Far { partitions: places.len(), records_max: search.records_max, is_among_many };
    let looks: Vec<_> = places.into_iter().map(|place| search.look_in(place)).collect();
    let mut looks = stream::iter(looks).buffer_unordered(PARTITIONS_AT_ONCE);
    let (mut records, mut cut, mut late, mut failed) = (0, false, false, None);
    while let Some(((of, partition), look)) = looks.next().await {
        records += look.records;
        if let Some((offset, event)) = look.found {
            let sighting = Sighting { event, pipeline: of.name.clone(), partition, offset };
            return Ok((sighting, records));
        }
        match look.ended {
            Ended::Whole => {}
            Ended::Cut if look.is_late => late = true,
            Ended::Cut => cut = true,
            Ended::Failed(error) => failed = failed.or(Some(error)),
        }
    }
    match failed {
        Some(error) => Err(Problem::log_unreadable(&error)),
        None if late => Err(far.out_of_time(records, config.why_timeout)),
        None if cut => Err(far.too_far_back(records)),
        None => Err(Problem::not_looked_at(
            "no such event is in the log, or its retention is over; check the id that ingest answered with"
                .to_owned(),
        )),
    }
}

impl Search<'_> {
    async fn look_in<'p>(&self, place: (&'p Pipeline, u32)) -> ((&'p Pipeline, u32), Look) {
        let mut look = Look { found: None, records: 0, ended: Ended::Whole, is_late: false };
        let (topic, partition) = (place.0.events.name.as_str(), place.1);
        if Instant::now() >= self.deadline {
            (look.ended, look.is_late) = (Ended::Cut, true);
            return (place, look);
        }
        let bounds = match self.ask.bounds(topic, partition).await {
            Ok(bounds) => bounds,
            Err(error) => {
                look.ended = Ended::Failed(error);
                return (place, look);
            }
        };
        let mut budget = Budget { left: self.records_max, deadline: self.deadline };
        let mut end = bounds.high;
        while end > bounds.low && look.found.is_none() {
            // With nothing left the reading says so itself.
            let from = end.saturating_sub(STEP.min(budget.left.max(1))).max(bounds.low);
            let ended = read(self.readers, Part { topic, partition }, from..end, &mut budget, |record| {
                if let Some(event) = self.event(record) {
                    look.found = Some((record.offset, event));
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
            look.ended = ended.await;
            if look.ended != Ended::Whole {
                break;
            }
            end = from;
        }
        look.records = self.records_max - budget.left;
        look.is_late = look.ended == Ended::Cut && budget.left > 0;
        (place, look)
    }

    /// The event of a record, when it is this one. Whether the id is in the record is cheaper to tell than to read it.
    fn event(&self, record: &StoredRecord) -> Option<Event> {
        let may_be = may_hold(&record.value, self.id.as_bytes());
        let event = may_be.then(|| decode_event(&record.value).ok())??;
        (event.id == self.id).then_some(event)
    }
}
