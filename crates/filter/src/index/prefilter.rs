//! Ruling a body out by its raw bytes: no literal that a match needs is in it.
//!
//! It may only rule out, and only when that is proved: every conjunction that reads the body has a clause all of whose
//! values are texts that contain one of the literals, and a body without any backslash holds its texts verbatim. So when
//! there is neither a backslash nor a literal, no conjunction can hold, however the body is built.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use aho_corasick::packed::Searcher;

use super::clauses::NamedClauses;
use super::names::Names;
use super::snapshot::Live;
use crate::fold::Case;
use crate::ir::{ClauseId, Clauses, Glob, TextTest, Want};
use crate::limits::{PREFILTER_CONJUNCTIONS_MAX, PREFILTER_LITERAL_MIN_BYTES};

/// Events after which it is judged whether the search pays.
const TRIAL: u32 = 1_024;

/// Percent of bodies that must be ruled out.
const WORTH_PERCENT: u32 = 70;

/// Events for which the search rests when it does not pay.
const REST: u32 = 65_536;

/// The search for literals.
#[derive(Debug)]
pub(crate) struct Prefilter {
    searcher: Searcher,
    gate: Gate,
}

/// Switches the search off while it does not pay. Counts are approximate: threads overwrite each other's.
#[derive(Debug, Default)]
struct Gate {
    tried: AtomicU32,
    ruled_out: AtomicU32,
    resting: AtomicU32,
}

impl Prefilter {
    /// The search for these segments; `None` when they are too many, or some conjunction needs no literal.
    pub(crate) fn new(segments: &[Live], names: &Names) -> Option<Self> {
        let mut literals: Vec<Vec<u8>> = Vec::new();
        if segments.iter().map(|live| live.segment.conjunctions()).sum::<usize>() > PREFILTER_CONJUNCTIONS_MAX
        {
            return None;
        }
        for live in segments {
            let clauses = NamedClauses { table: &live.segment.clauses, names };
            // What many filters ask for is in many bodies.
            let mut uses: HashMap<ClauseId, usize> = HashMap::new();
            for conjunction in 0..live.segment.conjunctions() as u32 {
                live.segment.clauses_of(conjunction).iter().for_each(|id| *uses.entry(*id).or_default() += 1);
            }
            let read = (0..live.segment.conjunctions() as u32).filter(|c| !live.segment.always.contains(c));
            for conjunction in read {
                literals.append(&mut of_conjunction(&clauses, live.segment.clauses_of(conjunction), &uses)?);
            }
        }
        if literals.is_empty() || literals.len() > PREFILTER_CONJUNCTIONS_MAX {
            return None;
        }
        Searcher::new(literals).map(|searcher| Self { searcher, gate: Gate::default() })
    }

    /// Nothing on this body can match.
    pub(crate) fn rules_out(&self, body: &[u8]) -> bool {
        if !self.gate.is_open() {
            return false;
        }
        let ruled_out = self.searcher.find(body).is_none() && memchr::memchr(b'\\', body).is_none();
        self.gate.note(ruled_out);
        ruled_out
    }
}

/// Literals of which a match needs one; none when the body is not read; `None` when there are no such literals.
fn of_conjunction(
    clauses: &NamedClauses<'_>,
    ids: &[ClauseId],
    uses: &HashMap<ClauseId, usize>,
) -> Option<Vec<Vec<u8>>> {
    let mut body = ids.iter().filter(|id| clauses.attribute(**id).is_none()).peekable();
    if body.peek().is_none() {
        return Some(Vec::new());
    }
    // Of several clauses the rarest, and of equally rare ones that whose shortest literal is longest.
    let found = body
        .filter_map(|id| of_clause(clauses.wanted(*id)).map(|literals| (uses.get(id).copied(), literals)));
    let shortest = |literals: &[Vec<u8>]| literals.iter().map(Vec::len).min();
    found.min_by_key(|(uses, literals)| (*uses, Reverse(shortest(literals)))).map(|(_, literals)| literals)
}

fn of_clause(want: Want<'_>) -> Option<Vec<Vec<u8>>> {
    let mut literals = Vec::new();
    match want {
        Want::Text(text) => literals.push(format!("\"{text}\"")),
        Want::Full(wanted) => {
            let set = &wanted.any_of;
            let texts_only = !wanted.absent
                && !wanted.present
                && wanted.other_than.is_empty()
                && wanted.none_of.is_empty()
                && wanted.all_of.is_empty()
                && set.moments.is_empty()
                && !(set.null || set.yes || set.no)
                && set.numbers.is_empty()
                && set.ranges.is_empty()
                && set.networks.is_empty();
            if !texts_only {
                return None;
            }
            literals.extend(set.strings.iter().map(|text| format!("\"{text}\"")));
            for test in &set.texts {
                literals.push(of_test(test)?);
            }
        }
    }
    let usable = |literal: &String| {
        // Quotes stand at the ends only, and what JSON must escape is in no text of a body without backslashes.
        let inside = literal.strip_prefix('"').unwrap_or(literal);
        let inside = inside.strip_suffix('"').unwrap_or(inside);
        literal.len() >= PREFILTER_LITERAL_MIN_BYTES
            && !inside.bytes().any(|b| matches!(b, b'"' | b'\\' | 0..=0x1f))
    };
    (!literals.is_empty() && literals.iter().all(usable))
        .then(|| literals.into_iter().map(String::into_bytes).collect())
}

/// What a text that passes the test contains, quotes included.
fn of_test(test: &TextTest) -> Option<String> {
    match test {
        TextTest::Starts(Case::Sensitive, text) => Some(format!("\"{text}")),
        TextTest::Ends(Case::Sensitive, text) => Some(format!("{text}\"")),
        TextTest::Like(Glob { case: Case::Sensitive, pieces }) => match pieces.as_slice() {
            [only] => Some(format!("\"{only}\"")),
            pieces => pieces.iter().max_by_key(|piece| piece.len()).map(ToString::to_string),
        },
        TextTest::Equals(..) | TextTest::Starts(..) | TextTest::Ends(..) | TextTest::Like(_) => None,
    }
}

impl Gate {
    fn is_open(&self) -> bool {
        let resting = self.resting.load(Ordering::Relaxed);
        if resting > 0 {
            self.resting.store(resting - 1, Ordering::Relaxed);
        }
        resting == 0
    }

    fn note(&self, ruled_out: bool) {
        let tried = self.tried.load(Ordering::Relaxed) + 1;
        let hits = self.ruled_out.load(Ordering::Relaxed) + u32::from(ruled_out);
        let judged = tried >= TRIAL;
        if judged && hits * 100 < tried * WORTH_PERCENT {
            self.resting.store(REST, Ordering::Relaxed);
        }
        self.tried.store(if judged { 0 } else { tried }, Ordering::Relaxed);
        self.ruled_out.store(if judged { 0 } else { hits }, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_rests_while_the_search_does_not_pay() {
        let gate = Gate::default();
        for n in 0..TRIAL {
            assert!(gate.is_open());
            gate.note(n % 2 == 0);
        }
        for _ in 0..REST {
            assert!(!gate.is_open());
        }
        for _ in 0..3 * TRIAL {
            assert!(gate.is_open());
            gate.note(true);
        }
    }
}
