//! What readers see: an index as it was at one moment. Shared in an `Arc`, never locked.

use std::sync::Arc;

use fearless_simd::dispatch;
use mailrail_types::{AttributeValue, Attributes};

use super::FilterId;
use super::dead::Dead;
use super::names::{Names, Path, PathId};
use super::prefilter::Prefilter;
use super::probe::Probe;
use super::scan::{Trie, walk};
use super::scratch::Scratch;
use super::segment::Segment;
use crate::document::Document;
use crate::error::EvalError;

/// A segment, and which of its filters were removed since it was built.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    pub(crate) segment: Arc<Segment>,
    pub(crate) dead: Arc<Dead>,
}

/// The filters of one (tenant, event type) at one moment.
#[derive(Debug, Default)]
pub struct IndexSnapshot {
    pub(crate) names: Names,
    pub(crate) segments: Vec<Live>,
    /// Paths of the body that are read.
    pub(crate) trie: Arc<Trie>,
    /// Attributes that are read.
    pub(crate) attributes: Vec<PathId>,
    /// By path: what some segment asks.
    pub(crate) flags: Vec<u8>,
    pub(crate) prefilter: Option<Prefilter>,
}

/// Which filters an event matches. Borrowed from the [`Scratch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Matches<'s> {
    /// Filters that the event matches, each once, in no order.
    pub ids: &'s [FilterId],
    /// Filters that gave no verdict, in no order. What to do then is the subscription's error policy.
    pub failed: &'s [(FilterId, EvalError)],
}

impl IndexSnapshot {
    /// The filters that an event matches: the same that [`Filter::matches`](crate::Filter::matches) gives one by one. But
    /// a filter is only evaluated when something leads to it, so one whose evaluation would take too many steps may get
    /// its verdict here without any.
    pub fn matches<'s>(&self, scratch: &'s mut Scratch, attributes: &Attributes, body: &[u8]) -> Matches<'s> {
        scratch.work.clear();
        scratch.ids.clear();
        scratch.failed.clear();
        let probe = Probe { segments: &self.segments, flags: &self.flags };
        for path in &self.attributes {
            self.attribute(*path, attributes, probe, scratch);
        }
        if !self.trie.is_empty() {
            self.body(body, probe, scratch);
        }
        if !scratch.work.splits.is_empty() {
            probe.splits(&mut scratch.work);
        }
        for (segment, live) in (0..).zip(&self.segments) {
            scratch.work.note_each(segment, &live.segment.always);
        }
        if !scratch.work.is_empty() {
            self.verify(scratch, &Document::new(attributes, body));
        }
        Matches { ids: &scratch.ids, failed: &scratch.failed }
    }

    /// No filter asks for the body: it is not looked at, whatever it holds.
    #[must_use]
    pub fn is_attribute_only(&self) -> bool {
        self.trie.is_empty()
            && self.segments.iter().all(|live| {
                let clauses = &live.segment.clauses;
                (0..clauses.len() as u32).all(|id| self.names.attribute(clauses.path(id)).is_some())
                    && live
                        .segment
                        .ruled_entries()
                        .all(|program| program.rule.as_ref().is_none_or(crate::rule::Rule::is_attribute_only))
            })
    }

    fn attribute(&self, path: PathId, attributes: &Attributes, probe: Probe<'_>, scratch: &mut Scratch) {
        let Path::Attribute(name) = self.names.path(path) else { return };
        // The only text that is not there already is an integer's.
        if let Some(AttributeValue::Integer(number)) = attributes.extension(name) {
            let mut text = std::mem::take(&mut scratch.key);
            text.clear();
            let written = std::fmt::Write::write_fmt(&mut text, format_args!("{number}"));
            debug_assert!(written.is_ok(), "writing to a string does not fail");
            probe.attribute(path, &text, &mut scratch.work);
            scratch.key = text;
        } else if let Some(text) = Document::new(attributes, &[]).attribute(name) {
            probe.attribute(path, &text, &mut scratch.work);
        }
    }

    fn body(&self, body: &[u8], probe: Probe<'_>, scratch: &mut Scratch) {
        if self.prefilter.as_ref().is_some_and(|prefilter| prefilter.rules_out(body)) {
            scratch.work.effort.ruled_out = true;
            return;
        }
        let Scratch { level, frames, key, work, .. } = scratch;
        work.effort.body_read = true;
        dispatch!(*level, simd => walk(simd, body, &self.trie, frames, key, |path, leaf| probe.leaf(path, leaf, work)));
    }
}
