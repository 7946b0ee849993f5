//! Where quotes and brackets stand, 64 bytes at a time, in order, each block once.

use fearless_simd::prelude::*;
use fearless_simd::u8x64;

/// Bytes of a block: one bit of a word each.
const BLOCK: usize = 64;

/// A cursor over blocks. Positions that are asked for never go back behind the block that was reached.
pub(super) struct Blocks<'b, S> {
    simd: S,
    bytes: &'b [u8],
    /// Where the block at hand begins.
    base: usize,
    /// All ones when the block after this one begins inside a string.
    in_string: u64,
    /// The first byte of the block after this one is escaped.
    escaped: u64,
    /// A backslash was met, here or before.
    backslashes: bool,
    quotes: u64,
    open: u64,
    close: u64,
    comma: u64,
}

impl<'b, S: Simd> Blocks<'b, S> {
    #[inline(always)]
    pub(super) fn new(simd: S, bytes: &'b [u8]) -> Self {
        let mut blocks = Self {
            simd,
            bytes,
            base: 0,
            in_string: 0,
            escaped: 0,
            backslashes: false,
            quotes: 0,
            open: 0,
            close: 0,
            comma: 0,
        };
        blocks.load();
        blocks
    }

    /// Whether a backslash stands before the end of the block at hand.
    #[inline(always)]
    pub(super) fn backslashes(&self) -> bool {
        self.backslashes
    }

    #[inline(always)]
    fn load(&mut self) {
        let rest = self.bytes.get(self.base..).unwrap_or_default();
        if let Some(block) = rest.first_chunk::<BLOCK>() {
            self.classify(block);
        } else {
            // Spaces mean nothing anywhere outside of strings, and a string that is cut off has no end.
            let mut padded = [b' '; BLOCK];
            padded[..rest.len()].copy_from_slice(rest);
            self.classify(&padded);
        }
    }

    #[inline(always)]
    fn classify(&mut self, block: &[u8; BLOCK]) {
        let bytes = u8x64::from_slice(self.simd, block);
        let equal = |to: u8| bytes.simd_eq(u8x64::splat(self.simd, to)).to_bitmask();
        let backslashes = equal(b'\\');
        let quotes = equal(b'"');
        // `{` and `[`, `}` and `]` differ in one bit only.
        let folded = bytes | u8x64::splat(self.simd, 0x20);
        let open = folded.simd_eq(u8x64::splat(self.simd, b'{')).to_bitmask();
        let close = folded.simd_eq(u8x64::splat(self.simd, b'}')).to_bitmask();
        let comma = equal(b',');
        self.backslashes |= backslashes != 0;
        let escaped = if backslashes | self.escaped == 0 { 0 } else { self.escapes(backslashes) };
        self.quotes = quotes & !escaped;
        let strings = running_parity(self.quotes) ^ self.in_string;
        self.in_string = (strings.cast_signed() >> 63).cast_unsigned();
        self.open = open & !strings;
        self.close = close & !strings;
        self.comma = comma & !strings;
    }

    /// Which bytes are escaped: every second one of a run of backslashes, and what follows an odd run.
    #[inline(always)]
    fn escapes(&mut self, backslashes: u64) -> u64 {
        const EVEN: u64 = 0x5555_5555_5555_5555;
        let backslashes = backslashes & !self.escaped;
        let follows = backslashes << 1 | self.escaped;
        let odd_starts = backslashes & !EVEN & !follows;
        let (even_runs, carry) = odd_starts.overflowing_add(backslashes);
        self.escaped = u64::from(carry);
        (EVEN ^ (even_runs << 1)) & follows
    }

    #[inline(always)]
    fn advance(&mut self) -> bool {
        if self.base + BLOCK >= self.bytes.len() {
            return false;
        }
        self.base += BLOCK;
        self.load();
        true
    }

    /// The first marked byte at `from` or after it.
    #[inline(always)]
    fn next(&mut self, from: usize, marks: impl Fn(&Self) -> u64) -> Option<usize> {
        loop {
            let offset = from.saturating_sub(self.base);
            if offset < BLOCK {
                let ahead = marks(self) & (u64::MAX << offset);
                if ahead != 0 {
                    return Some(self.base + ahead.trailing_zeros() as usize);
                }
            }
            if !self.advance() {
                return None;
            }
        }
    }

    /// The next quote that is not escaped.
    #[inline(always)]
    pub(super) fn next_quote(&mut self, from: usize) -> Option<usize> {
        self.next(from, |b| b.quotes)
    }

    /// The next bracket or comma outside of strings.
    #[inline(always)]
    pub(super) fn next_mark(&mut self, from: usize) -> Option<usize> {
        self.next(from, |b| b.open | b.close | b.comma)
    }

    /// The byte after the array or object whose opening bracket stands before `from`. Brackets are counted, not paired.
    #[inline(always)]
    pub(super) fn skip_container(&mut self, from: usize) -> Option<usize> {
        let mut depth = 1_u64;
        loop {
            let offset = from.saturating_sub(self.base);
            if offset < BLOCK {
                let ahead = u64::MAX << offset;
                let (open, mut close) = (self.open & ahead, self.close & ahead);
                let closing = u64::from(close.count_ones());
                if closing < depth {
                    depth = depth + u64::from(open.count_ones()) - closing;
                } else {
                    let mut closed = 0;
                    while close != 0 {
                        let at = close.trailing_zeros();
                        closed += 1;
                        let opened = u64::from((open & ((1 << at) - 1)).count_ones());
                        if depth + opened == closed {
                            return Some(self.base + at as usize + 1);
                        }
                        close &= close - 1;
                    }
                    depth = depth + u64::from(open.count_ones()) - closed;
                }
            }
            if !self.advance() {
                return None;
            }
        }
    }
}

/// Bit i of the result: whether an odd number of the bits up to i are set.
#[inline(always)]
fn running_parity(bits: u64) -> u64 {
    let mut parity = bits;
    for shift in [1, 2, 4, 8, 16, 32] {
        parity ^= parity << shift;
    }
    parity
}
