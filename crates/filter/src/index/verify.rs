//! Candidates → verdicts: each conjunction that something led to is evaluated on a strict reading of the event.

use super::clauses::NamedClauses;
use super::scratch::Scratch;
use super::snapshot::{IndexSnapshot, Live};
use crate::document::Document;
use crate::error::EvalError;
use crate::evaluate::{Budget, Evaluation};
use crate::ir::{ClauseId, Clauses, Program};
use crate::limits::{EVENT_STEPS_MAX, STEPS_MAX};

/// Candidates of a segment from which clauses are tried alone first, so that what they share is evaluated once.
const SHARED_MIN: usize = 8;

/// What became of an entry's filters so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Open,
    /// Its rule was asked and does not hold: no other conjunction matters.
    Unmatched,
    Matched,
    Failed,
}

impl IndexSnapshot {
    pub(super) fn verify(&self, scratch: &mut Scratch, document: &Document<'_>) {
        if scratch.work.flooded {
            for live in &self.segments {
                self.segment(live, 0..live.segment.conjunctions() as u32, usize::MAX, scratch, document);
            }
            return;
        }
        let found = scratch.work.take();
        for group in found.chunk_by(|a, b| a >> 32 == b >> 32) {
            let live = &self.segments[(group[0] >> 32) as usize];
            self.segment(live, group.iter().map(|c| *c as u32), group.len(), scratch, document);
        }
        scratch.work.put_back(found);
    }

    /// Evaluates candidates of a segment, in ascending order, so that those of one entry are neighbours.
    fn segment(
        &self,
        live: &Live,
        candidates: impl Iterator<Item = u32>,
        count: usize,
        scratch: &mut Scratch,
        document: &Document<'_>,
    ) {
        let clauses = NamedClauses { table: &live.segment.clauses, names: &self.names };
        let mut evaluation = Evaluation::new(&clauses, document, STEPS_MAX);
        scratch.held.clear();
        let mut entry = (u32::MAX, Verdict::Open);
        let mut steps_left = STEPS_MAX;
        for conjunction in candidates {
            let of = live.segment.entry(conjunction);
            if of != entry.0 {
                entry = (of, Verdict::Open);
                steps_left = STEPS_MAX;
            }
            if entry.1 != Verdict::Open || !may_hold(live, conjunction, of, scratch) {
                continue;
            }
            let ids = live.segment.clauses_of(conjunction);
            if count >= SHARED_MIN && !each_holds(&mut evaluation, ids, scratch) {
                continue;
            }
            entry.1 = if scratch.work.effort.steps >= EVENT_STEPS_MAX {
                Verdict::Failed
            } else {
                let (verdict, left) = match live.segment.ruled(of) {
                    Some(program) => by_rule(program, document, steps_left),
                    None => together(&mut evaluation, &clauses, ids, steps_left),
                };
                scratch.work.effort.evaluated += 1;
                scratch.work.effort.steps += u64::from(steps_left - left);
                steps_left = left;
                verdict
            };
            deliver(live, entry, scratch);
        }
    }
}

/// Some filter of the entry is left, and the second value that the conjunction needs is there.
fn may_hold(live: &Live, conjunction: u32, entry: u32, scratch: &Scratch) -> bool {
    let work = &scratch.work;
    let second = live.segment.second[conjunction as usize];
    let second_there = second == 0 || work.values_left_out || work.flooded || work.values.contains(&second);
    second_there && live.segment.places(entry).any(|place| !live.dead.contains(place))
}

/// Every clause holds on its own, as far as that is known. Each is tried once for an event.
fn each_holds<C: Clauses>(
    evaluation: &mut Evaluation<'_, '_, C>,
    ids: &[ClauseId],
    scratch: &mut Scratch,
) -> bool {
    ids.iter().all(|id| {
        if let Some(known) = scratch.held.get(id) {
            return *known;
        }
        if scratch.work.effort.steps >= EVENT_STEPS_MAX {
            return true;
        }
        evaluation.budget = Budget::new(STEPS_MAX);
        let holds = evaluation.alone(*id).unwrap_or(true);
        scratch.work.effort.steps += u64::from(STEPS_MAX - evaluation.budget.left());
        scratch.held.insert(*id, holds);
        holds
    })
}

/// All clauses hold together; and the steps that are left.
fn together<C: Clauses>(
    evaluation: &mut Evaluation<'_, '_, C>,
    clauses: &C,
    ids: &[ClauseId],
    steps: u32,
) -> (Verdict, u32) {
    evaluation.budget = Budget::new(steps);
    let (attributes, body) = ids.split_at(ids.partition_point(|id| clauses.attribute(*id).is_some()));
    let takes_absence = body.iter().any(|id| clauses.wanted(*id).absent());
    let verdict = match evaluation.conjunction(attributes, body, takes_absence) {
        Ok(true) => Verdict::Matched,
        Ok(false) => Verdict::Open,
        Err(EvalError::TooManySteps) => Verdict::Failed,
    };
    (verdict, evaluation.budget.left())
}

/// The rule of a filter holds; and the steps that are left.
fn by_rule(program: &Program, document: &Document<'_>, steps: u32) -> (Verdict, u32) {
    let mut budget = Budget::new(steps);
    let verdict = match program.deciding_rule().map(|rule| rule.holds(document, &mut budget)) {
        Some(Ok(true)) => Verdict::Matched,
        Some(Ok(false)) | None => Verdict::Unmatched,
        Some(Err(EvalError::TooManySteps)) => Verdict::Failed,
    };
    (verdict, budget.left())
}

/// Gives the filters of an entry that has its verdict.
fn deliver(live: &Live, (entry, verdict): (u32, Verdict), scratch: &mut Scratch) {
    let places = live.segment.places(entry).filter(|place| !live.dead.contains(*place));
    let filters = places.map(|place| live.segment.filter(place));
    match verdict {
        Verdict::Open | Verdict::Unmatched => {}
        Verdict::Matched => scratch.ids.extend(filters),
        Verdict::Failed => scratch.failed.extend(filters.map(|id| (id, EvalError::TooManySteps))),
    }
}
