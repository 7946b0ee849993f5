//! Building a program: keys get their ids, drafts become conjunctions.

use std::collections::HashMap;

use super::{Clause, ClauseId, Conjunction, StepId, Subject};

/// The id of what comes next to `len` others.
pub(crate) fn next_id(len: usize) -> u32 {
    // Lossless: a filter has fewer keys and clauses than characters.
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// The keys of a program, each once.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    keys: Vec<Box<str>>,
    ids: HashMap<Box<str>, StepId>,
}

impl Keys {
    /// The id of a key; equal keys have equal ids.
    pub(crate) fn id(&mut self, key: &str) -> StepId {
        if let Some(known) = self.ids.get(key) {
            return *known;
        }
        let id = next_id(self.keys.len());
        self.keys.push(key.into());
        self.ids.insert(key.into(), id);
        id
    }

    /// The key with this id.
    pub(crate) fn key(&self, id: StepId) -> &str {
        &self.keys[id as usize]
    }

    /// All of them, each at the place that its id names.
    pub(crate) fn into_steps(self) -> Vec<Box<str>> {
        self.keys
    }
}

impl Conjunction {
    /// The conjunction of these clauses.
    pub(crate) fn of(draft: &[ClauseId], clauses: &[Clause]) -> Self {
        let clause = |id: &ClauseId| &clauses[*id as usize];
        let (attributes, mut body): (Vec<_>, Vec<_>) =
            draft.iter().partition(|id| matches!(clause(id).subject, Subject::Attribute(_)));
        body.sort_by(|a, b| clause(a).steps().cmp(clause(b).steps()));
        let takes_absence = body.iter().any(|id| clause(id).wanted.absent);
        Self { attributes: attributes.into(), body: body.into(), takes_absence }
    }
}
