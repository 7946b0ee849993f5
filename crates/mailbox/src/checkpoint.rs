//! How far a partition is done, as the commit carries it: an offset, and a bitmap of what is done beyond it.
//!
//! The bitmap is why a slow head costs no duplicates after a crash: everything behind it that was delivered is marked.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// Most offsets between the committed one and the end of the window. 8,192 bits are 1,024 bytes, 1,366 in base64: far
/// below the 4,096 bytes that a broker takes (offset.metadata.max.bytes).
pub const SPAN_MAX: u64 = 8192;

/// Names the format, so that metadata of another program or version is never taken for ours.
const MAGIC: &str = "mr1";

/// Everything below `offset` is done, and beyond it what `done` marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The offset to commit.
    pub offset: u64,
    /// Done offsets at or above it.
    pub done: DoneMap,
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

    /// Whether `offset` is marked.
    #[must_use]
    pub fn contains(&self, offset: u64) -> bool {
        let Some(at) = offset.checked_sub(self.base) else { return false };
        let Ok(byte) = usize::try_from(at / 8) else { return false };
        self.bits.get(byte).is_some_and(|b| b & (1 << (at % 8)) != 0)
    }
}

/// Binds the bitmap to the offset it was written for: metadata that an operator's tool or another consumer left beside
/// another offset does not fit.
fn checksum(base: u64, bits: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&base.to_be_bytes());
    crc.update(bits);
    crc.finalize()
}

impl Checkpoint {
    /// The text that goes beside the offset.
    #[must_use]
    pub fn metadata(&self) -> String {
        let crc = checksum(self.offset, &self.done.bits);
        format!("{MAGIC}:{crc:08x}:{}", STANDARD_NO_PAD.encode(&self.done.bits))
    }

    /// What was committed. Text that is not ours, is damaged or belongs to another offset marks nothing: those records are
    /// replayed. The committed offset itself is never taken as done.
    #[must_use]
    pub fn read(offset: u64, metadata: &str) -> Self {
        let done = Self::read_map(offset, metadata).unwrap_or_else(|| DoneMap::new(offset));
        Self { offset, done }
    }

    fn read_map(offset: u64, metadata: &str) -> Option<DoneMap> {
        let (crc, bits) = metadata.strip_prefix(MAGIC)?.strip_prefix(':')?.split_once(':')?;
        let bits = STANDARD_NO_PAD.decode(bits).ok()?;
        let fits =
            bits.len() as u64 <= SPAN_MAX / 8 && u32::from_str_radix(crc, 16) == Ok(checksum(offset, &bits));
        fits.then_some(DoneMap { base: offset, bits })
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
            let text = Checkpoint { offset: base, done }.metadata();
            prop_assert!(text.len() < 2048, "{} bytes", text.len());
            let read = Checkpoint::read(base, &text);
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
        let text = Checkpoint { offset: 100, done }.metadata();
        assert!(Checkpoint::read(100, &text).done.contains(101));
        assert!(!Checkpoint::read(99, &text).done.contains(101), "written for another offset");
        assert!(!Checkpoint::read(100, &text.replace("mr1", "mr2")).done.contains(101));
        assert!(!Checkpoint::read(100, &text[..text.len() - 1]).done.contains(101));
        assert!(!Checkpoint::read(100, "").done.contains(101));
    }
}
