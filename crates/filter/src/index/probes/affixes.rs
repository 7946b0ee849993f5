//! Prefixes (and, written backwards, suffixes): all operands that a text starts with, by one binary search.
//!
//! Operands are sorted. Let `p` be the last one that is not after the text. Every operand that the text starts with is `p`
//! or a prefix of `p`: whatever stands between a prefix of the text and the text starts with that prefix. So each operand
//! knows its longest proper prefix among the others, and the chain from `p` holds all answers.

const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Operand {
    start: u32,
    end: u32,
    /// The longest other operand that this one starts with.
    prefix: u32,
    members: (u32, u32),
}

/// The operands of one path, end and case.
#[derive(Debug, Default)]
pub(crate) struct Affixes {
    operands: Vec<Operand>,
    bytes: Vec<u8>,
    members: Vec<u32>,
    /// Bytes that some operand starts with.
    first: [u64; 4],
    longest: usize,
}

/// Collects operands.
#[derive(Debug, Default)]
pub(crate) struct AffixesBuilder {
    pairs: Vec<(Box<[u8]>, u32)>,
}

impl AffixesBuilder {
    /// Adds an operand, not empty.
    pub(crate) fn add(&mut self, operand: impl Into<Box<[u8]>>, conjunction: u32) {
        self.pairs.push((operand.into(), conjunction));
    }

    pub(crate) fn finish(mut self) -> Affixes {
        self.pairs.sort_unstable();
        self.pairs.dedup();
        let mut built = Affixes::default();
        // Operands that the one at hand may start with, each a prefix of the next.
        let mut chain: Vec<u32> = Vec::new();
        for group in self.pairs.chunk_by(|a, b| a.0 == b.0) {
            let operand = &*group[0].0;
            while chain.last().is_some_and(|top| !operand.starts_with(built.operand(*top))) {
                chain.pop();
            }
            let start = built.bytes.len() as u32;
            let first_member = built.members.len() as u32;
            built.bytes.extend_from_slice(operand);
            built.members.extend(group.iter().map(|(_, conjunction)| *conjunction));
            built.longest = built.longest.max(operand.len());
            if let Some(first) = operand.first() {
                built.first[usize::from(first >> 6)] |= 1 << (first & 63);
            }
            built.operands.push(Operand {
                start,
                end: built.bytes.len() as u32,
                prefix: chain.last().copied().unwrap_or(NONE),
                members: (first_member, built.members.len() as u32),
            });
            chain.push(built.operands.len() as u32 - 1);
        }
        built
    }
}

impl Affixes {
    fn operand(&self, at: u32) -> &[u8] {
        let operand = &self.operands[at as usize];
        &self.bytes[operand.start as usize..operand.end as usize]
    }

    /// No text needs to be given longer than this.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.operands.is_empty()
    }

    /// Gives the conjunctions behind every operand that `text` starts with.
    pub(crate) fn find(&self, text: &[u8], mut found: impl FnMut(&[u32])) {
        let Some(first) = text.first() else { return };
        if self.first[usize::from(first >> 6)] & (1 << (first & 63)) == 0 {
            return;
        }
        let after = self.operands.partition_point(|o| &self.bytes[o.start as usize..o.end as usize] <= text);
        let Some(last) = after.checked_sub(1) else { return };
        let mut at = last as u32;
        let shared = self.operand(at).iter().zip(text).take_while(|(a, b)| a == b).count();
        while at != NONE {
            let operand = &self.operands[at as usize];
            if (operand.end - operand.start) as usize <= shared {
                found(&self.members[operand.members.0 as usize..operand.members.1 as usize]);
            }
            at = operand.prefix;
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.operands.capacity() * size_of::<Operand>() + self.bytes.capacity() + self.members.capacity() * 4
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn finds_what_starts_with_says(operands in prop::collection::vec("[ab]{1,5}|[a-c]{1,3}|é", 0..40), text in "[a-c]{0,7}|éa") {
            let mut builder = AffixesBuilder::default();
            for (n, operand) in operands.iter().enumerate() {
                builder.add(operand.as_bytes(), n as u32);
            }
            let affixes = builder.finish();
            let mut found = Vec::new();
            affixes.find(text.as_bytes(), |list| found.extend_from_slice(list));
            found.sort_unstable();
            let expected: Vec<u32> =
                (0..operands.len() as u32).filter(|n| text.starts_with(&operands[*n as usize])).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
