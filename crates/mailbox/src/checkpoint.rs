//! How far a partition is done, as the commit carries it: an offset, and a bitmap of what is done beyond it.
//!
//! The bitmap is why a slow head costs no duplicates after a crash: everything behind it that was delivered is marked.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use mailrail_types::Timestamp;

/// Most offsets between the committed one and the end of the window. 8,192 bits are 1,024 bytes, 1,366 in base64: far
/// below the 4,096 bytes that a broker takes (offset.metadata.max.bytes).
pub const SPAN_MAX: u64 = 8192;

/// Names the format, so that metadata of another program or version is never taken for ours.
const MAGIC: &str = "mr2";

/// Everything below `offset` is done, and beyond it what `done` marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The offset to commit.
    pub offset: u64,
    /// Done offsets at or above it.
    pub done: DoneMap,
    /// Place of the newest snapshot in the journal; `None`: read it from its start.
    pub snapshot: Option<u64>,
    /// The last record of the deliveries that its owner read: a topic that was made anew holds another one there, or none.
    pub mark: Option<Mark>,
}

/// A record as it is known again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Where it stands.
    pub offset: u64,
    /// When the log took it.
    pub appended_at: Timestamp,
}

/// Marks done offsets from a base on, up to [`SPAN_MAX`] of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DoneMap {
    base: u64,
    bits: Vec<u8>,
}

impl DoneMap {
    /// Nothing is marked.
    #[must_use]
    pub fn new(base: u64) -> Self {
        Self { base, bits: Vec::new() }
    }

    /// Marks `offset`. Outside `base .. base + SPAN_MAX` nothing happens: that record is merely replayed after a crash.
    pub fn mark(&mut self, offset: u64) {
        let Some(at) = offset.checked_sub(self.base).filter(|at| *at < SPAN_MAX) else { return };
        let (byte, bit) = (usize::try_from(at / 8).unwrap_or(usize::MAX), at % 8);
        if self.bits.len() <= byte {
            self.bits.resize(byte + 1, 0);
        }
        self.bits[byte] |= 1 << bit;
    }

    /// The marked offsets, ascending.
    pub(crate) fn marks(&self) -> impl Iterator<Item = u64> {
        let bits = self.bits.iter().flat_map(|byte| (0..8).map(move |bit| byte & (1 << bit) != 0));
        (self.base..).zip(bits).filter(|(_, is_marked)| *is_marked).map(|(at, _)| at)
    }

    /// Whether `offset` is marked.
    #[must_use]
    pub fn contains(&self, offset: u64) -> bool {
        let Some(at) = offset.checked_sub(self.base) else { return false };
        let Ok(byte) = usize::try_from(at / 8) else { return false };
        self.bits.get(byte).is_some_and(|b| b & (1 << (at % 8)) != 0)
    }
}

/// Binds the text to the offset it was written for: metadata that an operator's tool or another consumer left beside
/// another offset does not fit.
fn checksum(base: u64, text: &str) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&base.to_be_bytes());
    crc.update(text.as_bytes());
    crc.finalize()
}

/// A number that may be absent.
fn number<T: std::str::FromStr>(text: &str) -> Option<Option<T>> {
    if text == "-" { Some(None) } else { text.parse().ok().map(Some) }
}

fn text_of(number: Option<impl std::fmt::Display>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

impl Checkpoint {
    /// Nothing is known but the offset.
    #[must_use]
    pub fn at(offset: u64) -> Self {
        Self { offset, done: DoneMap::new(offset), snapshot: None, mark: None }
    }

    /// The text that goes beside the offset.
    #[must_use]
    pub fn metadata(&self) -> String {
        let snapshot = text_of(self.snapshot);
        let (mark, at) =
            (text_of(self.mark.map(|m| m.offset)), text_of(self.mark.map(|m| m.appended_at.millis())));
        let text = format!("{snapshot}:{mark}:{at}:{}", STANDARD_NO_PAD.encode(&self.done.bits));
        format!("{MAGIC}:{:08x}:{text}", checksum(self.offset, &text))
    }

    /// What was committed. Text that is not ours, is damaged or belongs to another offset marks nothing: those records are
    /// replayed, and the journal is read from its start. The committed offset itself is never taken as done.
    #[must_use]
    pub fn read(offset: u64, metadata: &str) -> Self {
        Self::read_text(offset, metadata).unwrap_or_else(|| Self::at(offset))
    }

    fn read_text(offset: u64, metadata: &str) -> Option<Self> {
        let (crc, text) = metadata.strip_prefix(MAGIC)?.strip_prefix(':')?.split_once(':')?;
        if u32::from_str_radix(crc, 16) != Ok(checksum(offset, text)) {
            return None;
        }
        let mut parts = text.split(':');
        let snapshot = number(parts.next()?)?;
        let (mark, at): (Option<u64>, Option<i64>) = (number(parts.next()?)?, number(parts.next()?)?);
        let bits = STANDARD_NO_PAD.decode(parts.next()?).ok()?;
        let fits = bits.len() as u64 <= SPAN_MAX / 8 && parts.next().is_none();
        let mark = mark.zip(at).map(|(offset, at)| Mark { offset, appended_at: Timestamp(at) });
        fits.then_some(Self { offset, done: DoneMap { base: offset, bits }, snapshot, mark })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn marks_survive(base in 0u64..1 << 40, marks in proptest::collection::vec(0u64..SPAN_MAX + 50, 0..300)) {
            let mut done = DoneMap::new(base);
            for m in &marks {
                done.mark(base + m);
            }
            let whole = Checkpoint { done, snapshot: Some(base / 3), mark: None, ..Checkpoint::at(base) };
            let text = whole.metadata();
            prop_assert!(text.len() < 2048, "{} bytes", text.len());
            let read = Checkpoint::read(base, &text);
            prop_assert_eq!(&read, &whole);
            for at in 0..SPAN_MAX + 60 {
                prop_assert_eq!(read.done.contains(base + at), at < SPAN_MAX && marks.contains(&at));
            }
        }

        #[test]
        fn garbage_marks_nothing(text in ".{0,80}", offset in any::<u64>()) {
            let read = Checkpoint::read(offset, &text);
            prop_assert_eq!(read.offset, offset);
            prop_assert!(!read.done.contains(offset));
        }
    }

    #[test]
    fn damaged_foreign_or_moved_metadata_marks_nothing() {
        let mut done = DoneMap::new(100);
        done.mark(101);
        let mark = Some(Mark { offset: 99, appended_at: Timestamp(-5) });
        let whole = Checkpoint { done, mark, ..Checkpoint::at(100) };
        let text = whole.metadata();
        assert_eq!(Checkpoint::read(100, &text), whole);
        assert!(!Checkpoint::read(99, &text).done.contains(101), "written for another offset");
        assert!(!Checkpoint::read(100, &text.replace("mr2", "mr1")).done.contains(101));
        assert!(!Checkpoint::read(100, &text[..text.len() - 1]).done.contains(101));
        assert!(!Checkpoint::read(100, "").done.contains(101));
        assert!(!Checkpoint::read(100, &text.replace(":99:", ":98:")).done.contains(101), "changed by hand");
    }
}
