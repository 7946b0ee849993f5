//! The tape: one entry per value and key, in document order; containers know where they end.

use crate::limits::UNINDEXED_MEMBERS_MAX;

/// What an entry stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    True,
    False,
    /// `start..end` of the document.
    Number,
    /// `start..end` of the document, without quotes.
    Plain,
    /// `start..end` of the unescaped texts.
    Escaped,
    /// `end` is the entry after the last element.
    Array,
    /// `end` is the entry after the last member; `start` names its key index, or [`NO_INDEX`].
    Object,
}

/// One value or key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    pub(super) start: u32,
    pub(super) end: u32,
}

/// An object without a key index: it is small.
pub(super) const NO_INDEX: u32 = u32::MAX;

/// A parsed document.
#[derive(Debug)]
pub(crate) struct Tape<'a> {
    pub(super) text: &'a str,
    pub(super) unescaped: String,
    pub(super) entries: Vec<Entry>,
    /// Key indexes of large objects: entries of their keys, sorted by key, of duplicates the last only.
    pub(super) indexes: Vec<Box<[u32]>>,
}

/// A value in a tape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<'t> {
    tape: &'t Tape<'t>,
    at: u32,
}

/// A value, seen by its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View<'t> {
    Null,
    Bool(bool),
    /// The number as it is written.
    Number(&'t str),
    Text(&'t str),
    Array,
    Object,
}

impl Tape<'_> {
    /// The document itself.
    pub(crate) fn root(&self) -> Node<'_> {
        Node { tape: self, at: 0 }
    }

    fn entry(&self, at: u32) -> Entry {
        self.entries[at as usize]
    }

    fn text_of(&self, entry: Entry) -> &str {
        let range = entry.start as usize..entry.end as usize;
        if entry.kind == Kind::Escaped { &self.unescaped[range] } else { &self.text[range] }
    }

    fn key(&self, at: u32) -> &str {
        self.text_of(self.entry(at))
    }

    fn after(&self, at: u32) -> u32 {
        let entry = self.entry(at);
        if matches!(entry.kind, Kind::Array | Kind::Object) { entry.end } else { at + 1 }
    }

    /// Builds the key index of the object at `at`, which was just closed.
    pub(super) fn index_keys(&mut self, at: u32, members: u32) {
        if members <= UNINDEXED_MEMBERS_MAX {
            return;
        }
        let node = Node { tape: self, at };
        let mut keys: Vec<u32> = node.members().map(|(key, _)| key.at).collect();
        // Stable: duplicates stay in document order, and the loop keeps the last of them.
        keys.sort_by(|a, b| self.key(*a).cmp(self.key(*b)));
        let mut kept: Vec<u32> = Vec::with_capacity(keys.len());
        for key in keys {
            match kept.last_mut() {
                Some(last) if self.key(*last) == self.key(key) => *last = key,
                _ => kept.push(key),
            }
        }
        self.entries[at as usize].start = u32::try_from(self.indexes.len()).unwrap_or(NO_INDEX);
        self.indexes.push(kept.into_boxed_slice());
    }
}

impl<'t> Node<'t> {
    /// The value by its type.
    pub(crate) fn view(self) -> View<'t> {
        let entry = self.tape.entry(self.at);
        match entry.kind {
            Kind::Null => View::Null,
            Kind::True => View::Bool(true),
            Kind::False => View::Bool(false),
            Kind::Number => View::Number(self.tape.text_of(entry)),
            Kind::Plain | Kind::Escaped => View::Text(self.tape.text_of(entry)),
            Kind::Array => View::Array,
            Kind::Object => View::Object,
        }
    }

    /// The elements of an array; nothing for other values.
    pub(crate) fn elements(self) -> Elements<'t> {
        let entry = self.tape.entry(self.at);
        let end = if entry.kind == Kind::Array { entry.end } else { self.at };
        Elements { tape: self.tape, next: self.at + 1, end }
    }

    /// The members of an object in document order, duplicates included; nothing for other values.
    pub(crate) fn members(self) -> impl Iterator<Item = (Node<'t>, Node<'t>)> {
        let entry = self.tape.entry(self.at);
        let end = if entry.kind == Kind::Object { entry.end } else { self.at };
        let tape = self.tape;
        let mut next = self.at + 1;
        std::iter::from_fn(move || {
            (next < end).then(|| {
                let key = Node { tape, at: next };
                let value = Node { tape, at: next + 1 };
                next = tape.after(value.at);
                (key, value)
            })
        })
    }

    /// The text of a string or key; empty for other values.
    pub(crate) fn text(self) -> &'t str {
        match self.view() {
            View::Text(text) => text,
            View::Null | View::Bool(_) | View::Number(_) | View::Array | View::Object => "",
        }
    }

    /// The member called `key`, the last one of duplicates.
    pub(crate) fn get(self, key: &str) -> Option<Node<'t>> {
        let entry = self.tape.entry(self.at);
        if entry.kind != Kind::Object {
            return None;
        }
        if let Some(index) = self.tape.indexes.get(entry.start as usize) {
            let found = index.binary_search_by(|at| self.tape.key(*at).cmp(key)).ok()?;
            return Some(Node { tape: self.tape, at: index[found] + 1 });
        }
        self.members().filter(|(name, _)| name.text() == key).last().map(|(_, value)| value)
    }

    /// The value as it is written, whitespace left out, cut after `max` characters.
    pub(crate) fn written(self, max: usize) -> String {
        super::string::write(self, max)
    }
}

/// The elements of an array.
#[derive(Debug, Clone)]
pub(crate) struct Elements<'t> {
    tape: &'t Tape<'t>,
    next: u32,
    end: u32,
}

impl<'t> Iterator for Elements<'t> {
    type Item = Node<'t>;

    fn next(&mut self) -> Option<Node<'t>> {
        if self.next >= self.end {
            return None;
        }
        let node = Node { tape: self.tape, at: self.next };
        self.next = self.tape.after(self.next);
        Some(node)
    }
}
