//! Names of one index: keys and paths, numbered once, in the order they were met. Readers hold them in `Arc`s; a new name
//! copies the two lists of pointers and nothing else.

use std::collections::HashMap;
use std::sync::Arc;

use super::error::IndexError;
use crate::ir::{Program, StepId, Subject};
use crate::limits::INDEX_PATHS_MAX;

/// Names a path: its place in [`Names::paths`].
pub(crate) type PathId = u32;

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Path {
    /// A CloudEvents context attribute.
    Attribute(Arc<str>),
    /// Keys from the root of the body.
    Body(Arc<[StepId]>),
}

/// What readers see.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    pub(crate) keys: Arc<Vec<Arc<str>>>,
    pub(crate) paths: Arc<Vec<Path>>,
}

impl Names {
    pub(crate) fn path(&self, id: PathId) -> &Path {
        &self.paths[id as usize]
    }

    /// The keys of a path; none for an attribute.
    pub(crate) fn steps(&self, id: PathId) -> &[StepId] {
        match self.path(id) {
            Path::Body(steps) => steps,
            Path::Attribute(_) => &[],
        }
    }

    pub(crate) fn attribute(&self, id: PathId) -> Option<&str> {
        match self.path(id) {
            Path::Attribute(name) => Some(name),
            Path::Body(_) => None,
        }
    }
}

/// What the writer keeps beside: the way back from a name to its number.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(crate) names: Names,
    key_ids: HashMap<Arc<str>, StepId>,
    path_ids: HashMap<Path, PathId>,
}

impl Registry {
    /// The number of a path of a program; made when it is new.
    ///
    /// # Errors
    /// [`IndexError::TooManyPaths`] at [`INDEX_PATHS_MAX`].
    pub(crate) fn path(&mut self, program: &Program, subject: &Subject) -> Result<PathId, IndexError> {
        let path = match subject {
            Subject::Attribute(name) => Path::Attribute((**name).into()),
            Subject::Body(steps) => {
                if self.names.keys.len() + steps.len() > 4 * INDEX_PATHS_MAX {
                    return Err(IndexError::TooManyPaths);
                }
                Path::Body(steps.iter().map(|step| self.key(&program.steps[*step as usize])).collect())
            }
        };
        if let Some(known) = self.path_ids.get(&path) {
            return Ok(*known);
        }
        if self.names.paths.len() == INDEX_PATHS_MAX {
            return Err(IndexError::TooManyPaths);
        }
        Ok(self.insert(path))
    }

    /// The number of a path of another registry, which has no more of them than this one may.
    pub(crate) fn adopt(&mut self, names: &Names, path: PathId) -> PathId {
        let path = match names.path(path) {
            Path::Attribute(name) => Path::Attribute(name.clone()),
            Path::Body(steps) => {
                Path::Body(steps.iter().map(|step| self.key(&names.keys[*step as usize])).collect())
            }
        };
        self.path_ids.get(&path).copied().unwrap_or_else(|| self.insert(path))
    }

    fn insert(&mut self, path: Path) -> PathId {
        let id = self.names.paths.len() as PathId;
        Arc::make_mut(&mut self.names.paths).push(path.clone());
        self.path_ids.insert(path, id);
        id
    }

    fn key(&mut self, key: &str) -> StepId {
        if let Some(known) = self.key_ids.get(key) {
            return *known;
        }
        let id = self.names.keys.len() as StepId;
        let shared: Arc<str> = key.into();
        Arc::make_mut(&mut self.names.keys).push(shared.clone());
        self.key_ids.insert(shared, id);
        id
    }
}
