//! Which filters of a segment were removed: one bit each, copied when it changes.

/// Removed places of a segment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dead {
    words: Vec<u64>,
    count: usize,
}

impl Dead {
    pub(crate) fn contains(&self, place: u32) -> bool {
        self.count > 0
            && self.words.get(place as usize / 64).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    /// False when it was in there already.
    pub(crate) fn insert(&mut self, place: u32) -> bool {
        if self.contains(place) {
            return false;
        }
        let word = place as usize / 64;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (place % 64);
        self.count += 1;
        true
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.words.capacity() * 8
    }
}
