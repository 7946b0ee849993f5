//! One value of an event → the conjunctions that it leads to, in every segment.

use super::hash::{Tag, key, number_hash, text_hash};
use super::names::PathId;
use super::path_probe::flag;
use super::probes::Found;
use super::scan::{Leaf, unescape};
use super::scratch::Work;
use super::snapshot::Live;
use crate::fold::Case;
use crate::ir::is_integer;
use crate::number::Decimal;

/// What the filters of an index ask of values.
#[derive(Clone, Copy)]
pub(crate) struct Probe<'s> {
    pub(crate) segments: &'s [Live],
    /// By path: what some segment asks.
    pub(crate) flags: &'s [u8],
}

/// Names of lists beside those of keys, which are larger numbers by far.
const PRESENT: u64 = 1 << 32;
const TEXTS: u64 = 2 << 32;

impl Probe<'_> {
    fn flags(&self, path: PathId) -> u8 {
        self.flags.get(path as usize).copied().unwrap_or(0)
    }

    /// A leaf of the body.
    #[inline]
    pub(crate) fn leaf(&self, path: PathId, leaf: Leaf<'_>, work: &mut Work) {
        work.effort.leaves += 1;
        let flags = self.flags(path);
        match leaf {
            Leaf::Null => self.word(path, Tag::Null, flags, work),
            Leaf::True => self.word(path, Tag::True, flags, work),
            Leaf::False => self.word(path, Tag::False, flags, work),
            Leaf::Number(number) => self.number(path, number, flags, work),
            Leaf::Text(raw) => self.text(path, raw, flags, work),
            Leaf::Escaped(raw) => {
                let mut text = std::mem::take(&mut work.text);
                // What is not a string of JSON makes the body unreadable: nothing matches on it.
                if unescape(raw, &mut text) {
                    self.text(path, text.as_bytes(), flags, work);
                }
                work.text = text;
            }
        }
        if flags & flag::OTHER != 0 {
            self.present(path, work);
        }
    }

    /// The text of an attribute, which is also the boolean or integer that it reads as.
    pub(crate) fn attribute(&self, path: PathId, text: &str, work: &mut Work) {
        work.effort.leaves += 1;
        let flags = self.flags(path);
        self.text(path, text.as_bytes(), flags, work);
        match text {
            "true" => self.word(path, Tag::True, flags, work),
            "false" => self.word(path, Tag::False, flags, work),
            number if is_integer(number) => self.number(path, number, flags, work),
            _ => {}
        }
        if flags & flag::OTHER != 0 {
            self.present(path, work);
        }
    }

    fn word(&self, path: PathId, tag: Tag, flags: u8, work: &mut Work) {
        if flags & flag::WORD != 0 {
            self.equal(key(path, tag, 0), work);
        }
    }

    fn number(&self, path: PathId, text: &str, flags: u8, work: &mut Work) {
        if flags & (flag::NUMBER | flag::OTHER) == 0 {
            return;
        }
        let number = Decimal::read(text);
        if flags & flag::NUMBER != 0 {
            self.equal(key(path, Tag::Number, number_hash(&number)), work);
        }
        if flags & flag::OTHER != 0 {
            for (segment, live) in (0..).zip(self.segments) {
                if let Some(probe) = live.segment.access.probe(path) {
                    probe.number(&number, |conjunction| work.note_each(segment, &[conjunction]));
                }
            }
        }
    }

    #[inline]
    fn text(&self, path: PathId, raw: &[u8], flags: u8, work: &mut Work) {
        if flags & flag::TEXT != 0 {
            self.equal(key(path, Tag::Text, text_hash(raw)), work);
        }
        if flags & (flag::FOLD | flag::FOLD_ASCII | flag::OTHER) != 0
            && let Ok(text) = std::str::from_utf8(raw)
        {
            self.other_texts(path, text, flags, work);
        }
    }

    fn other_texts(&self, path: PathId, text: &str, flags: u8, work: &mut Work) {
        let mut bytes = std::mem::take(&mut work.folded);
        let folds =
            [(flag::FOLD, Case::Fold, Tag::Fold), (flag::FOLD_ASCII, Case::FoldAscii, Tag::FoldAscii)];
        for (_, case, tag) in folds.into_iter().filter(|(flag, ..)| flags & flag != 0) {
            bytes.clear();
            let mut buffer = [0; 4];
            for c in text.chars() {
                bytes.extend_from_slice(case.fold(c).encode_utf8(&mut buffer).as_bytes());
            }
            self.equal(key(path, tag, text_hash(&bytes)), work);
        }
        if flags & flag::OTHER != 0 {
            let mut seen = std::mem::take(&mut work.seen);
            for (segment, live) in (0..).zip(self.segments) {
                if let Some(probe) = live.segment.access.probe(path) {
                    work.note(segment, TEXTS | u64::from(path), probe.any_text());
                    probe.text(text, &mut bytes, &mut seen, |list| work.note_each(segment, list));
                }
            }
            work.seen = seen;
        }
        work.folded = bytes;
    }

    fn present(&self, path: PathId, work: &mut Work) {
        for (segment, live) in (0..).zip(self.segments) {
            if let Some(probe) = live.segment.access.probe(path) {
                work.note(segment, PRESENT | u64::from(path), probe.present());
            }
        }
    }

    #[inline]
    fn equal(&self, key: u64, work: &mut Work) {
        work.remember(key);
        for (segment, live) in (0..).zip(self.segments) {
            match live.segment.access.equality.find(key) {
                None => {}
                Some(Found::Candidates(list)) => work.note(segment, key, list),
                Some(Found::Split { .. }) => work.split(segment, key),
            }
        }
    }

    /// Lists that are told apart by second values, once all values are known.
    pub(crate) fn splits(&self, work: &mut Work) {
        let splits = std::mem::take(&mut work.splits);
        let values = std::mem::take(&mut work.values);
        for (segment, first) in &splits {
            let equality = &self.segments[*segment as usize].segment.access.equality;
            let Some(Found::Split { all, rest }) = equality.find(*first) else { continue };
            if work.values_left_out {
                work.note_each(*segment, all);
                continue;
            }
            work.note_each(*segment, rest);
            for value in &values {
                let pair = super::hash::pair(*first, *value);
                if let Some(Found::Candidates(list)) = equality.find(pair) {
                    work.note(*segment, pair, list);
                }
            }
        }
        work.splits = splits;
        work.values = values;
    }
}
